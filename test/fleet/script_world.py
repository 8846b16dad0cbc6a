# SPDX-License-Identifier: Apache-2.0
"""Decisions over several limits as the strict script should make them, and random runs of them against a real store.

`World` is the oracle: what algorithms.md says of one decision over items, of settling, undoing and holding, on the models of
test/oracle/store_models.py. `Run` writes operations for `test_script drive` (script_drive.h), which puts them into our
commands, and compares what it reads in the replies. Time is in the operations, so a run takes as long as the store needs.
"""

import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "oracle"))
from store_models import KINDS, SECOND  # noqa: E402
from stores import Store  # noqa: E402

BUILD = os.environ.get("WEIR_BUILD", os.path.join(HERE, "..", "..", "build"))
OUTCOMES = {"allow": 0, "deny": 2, "never": 3, "duplicate": 4}
HORIZON = 315569520 * SECOND
ALGORITHMS = {"b": 0, "f": 2, "s": 3, "l": 4, "c": 6}
ALIGNS = {"epoch": 0, "first": 1}
UNITS = {"day": 0, "week": 1, "month": 2, "year": 3}


class Item:
    def __init__(self, limit, key, cost, retry=None, watched=False, estimate=False):
        self.limit, self.key, self.cost, self.retry = limit, key, cost, retry
        self.watched, self.estimate = watched, estimate

    def __str__(self):
        return f"{self.limit} {self.key} {self.cost} {self.retry or '-'} {self.watched + 2 * self.estimate}"


class World:
    def __init__(self, sizes):
        self.sizes = sizes  # (letter, size) by number
        self.models, self.retries, self.records = {}, {}, {}
        self.last = None
        self.undone = set()

    def model(self, item):
        if item.key not in self.models:
            self.models[item.key] = KINDS[self.sizes[item.limit][0]]()
        return self.models[item.key]

    def look(self, item, us, began):
        return self.model(item).look(us, self.sizes[item.limit][1], began)

    def decide(self, verb, us, items, name="", record=None, hold=0, began=0):
        views = [self.look(item, us, began) for item in items]
        answers, known = [], []
        for item, view in zip(items, views):
            size = self.sizes[item.limit][1]
            until = self.retries.get(item.retry, -1) if item.retry and item.cost > 0 else -1
            known.append(us < until <= us + size.free + SECOND)
            answers.append("never" if item.cost > size.capacity else
                           "allow" if item.cost == 0 or view.passes(item.cost) else "deny")
        deciding = [answers[i] for i, item in enumerate(items) if not item.watched and not known[i]]
        refuses, never = any(a != "allow" for a in deciding), "never" in deciding
        charged = [False] * len(items)
        for i, (item, view) in enumerate(zip(items, views)):
            letter, size = self.sizes[item.limit]
            may = not known[i] and item.cost > 0 and verb != "p"
            if letter == "c" and (verb != "a" or item.watched):
                may = False
            if may and answers[i] == "allow" and not refuses:
                view.take(item.cost, *([name] if letter == "c" else []))
                charged[i] = True
                if item.retry:
                    self.retries[item.retry] = us + size.free
            elif may and answers[i] == "deny" and size.charges and not (refuses if item.watched else never):
                view.refuse(item.cost)
            elif verb == "p" or not view.moved:
                continue
            view.commit(self.model(item))
        told = []
        for i, (item, view) in enumerate(zip(items, views)):
            passed = answers[i] == "allow" and item.cost > 0
            retry = 0 if passed else view.retry(max(item.cost, 1))
            told.append((OUTCOMES["duplicate" if known[i] else answers[i]], view.remaining(),
                         self._length(item, retry), self._length(item, view.reset()), int(charged[i]), 0,
                         1000 * view.fence if charged[i] and self.sizes[item.limit][0] == "c" else 0,
                         view.stamp if charged[i] else None))
        if verb == "r" and not refuses:
            self.records[record] = [us + hold, False, [(charged[i] and not item.watched, item.estimate, item.cost,
                                                        views[i].stamp) for i, item in enumerate(items)]]
        self.last = (items, charged, [view.stamp for view in views], name)
        return told

    def _length(self, item, ticks):
        return -1 if ticks is None or ticks > HORIZON // self.sizes[item.limit][1].unit else ticks

    def undo(self, us):
        items, charged, stamps, name = self.last
        for item, was, stamp in zip(items, charged, stamps):
            if not was:
                continue
            if item.retry:
                self.retries.pop(item.retry, None)
            model = self.model(item)
            if self.sizes[item.limit][0] == "c":
                held, latest, fence = model.state
                model.state = ({k: v for k, v in held.items() if k != name}, latest, fence)
                continue
            view = self.look(item, us, 0)
            if view.undo(stamp, item.cost) is not False:
                view.commit(model)

    def _adjust(self, item, us, more, back, at, began, out):
        view = self.look(item, us, began)
        model = self.model(item)
        if more > 0:
            done, dropped = view.put(more)
            out["charged"], out["dropped"] = max(out["charged"], done), max(out["dropped"], dropped)
            if done > 0 or model.letter == "b":
                view.commit(model)
        elif back > 0 and model.state is not None:
            done = view.back(view.stamp + getattr(view, "shift", 0) if at is None else at, back)
            out["returned"] = max(out["returned"], done)
            if done > 0 or model.letter == "b":
                view.commit(model)
        return view.remaining()

    def settle(self, us, items, verb, record=None, cost=0, began=0):
        """verb: S settle, C cancel, F refund, P spend."""
        out = {"charged": 0, "returned": 0, "dropped": 0}
        remaining, least, repeated, parts = -1, -1, False, [None] * len(items)
        if verb in "SC":
            kept = self.records.get(record)
            if kept is None or us >= kept[0]:
                return (0, 0, 0, 0, 0, -1, -1)
            repeated, parts = kept[1], kept[2]
            kept[1] = True
        for i, (item, part) in enumerate(zip(items, parts)):
            more, back, at = (item.cost, 0, None) if verb == "P" else (0, item.cost, None)
            if part is not None:
                was, settles, reserved, at = part
                if not was or not (settles or verb == "C"):
                    continue
                actual = 0 if verb == "C" else cost
                more, back = (0, 0) if repeated else (max(0, actual - reserved), max(0, reserved - actual))
            left = self._adjust(item, us, more, back, at, began, out)
            if remaining < 0 or left < remaining:
                remaining, least = left, i
        return (1, int(repeated), out["charged"], out["returned"], out["dropped"], remaining, least)

    def hold(self, us, items, name, renews):
        held = []
        for item in items:
            view = self.look(item, us, 0)
            held.append((item, view, name in view.held))
        if renews:
            if not all(was for _, _, was in held):
                return (0, -1)
            for item, view, _ in held:
                view.held = {**view.held, name: (view.held[name][0], view.at + view.size.length)}
                view.commit(self.model(item))
            return (1, min(view.at + view.size.length - us for _, view, _ in held))
        for item, _, _ in held:
            model = self.model(item)
            if model.state is not None:
                model.state = ({k: v for k, v in model.state[0].items() if k != name},) + model.state[1:]
        return (int(any(was for _, _, was in held)), -1)


def limit_line(index, letter, size):
    calendar, zone = (size.calendar if size.windows else (0, "-"))
    align = 2 if size.windows else ALIGNS[size.align]
    return (f"L {index} {ALGORITHMS[letter]} {align} {calendar} {int(size.charges)} {int(size.empty)} {size.free} "
            f"{size.unit} {size.capacity} {size.debt} {size.count} {0 if size.windows else size.period} {zone}")


class Run:
    """Operations, what is expected of each, and where the clock is."""

    def __init__(self, sizes, seed):
        self.seed = int(os.environ.get("WEIR_SEED", seed))
        self.random = random.Random(self.seed)
        self.world = World(sizes)
        self.lines = [limit_line(i, letter, size) for i, (letter, size) in enumerate(sizes)]
        self.operations = []  # line, expected
        self.now = 1_700_000_000 * SECOND + self.random.randrange(SECOND)
        self.began = self.now
        self.aims = []  # instants at which something changes

    def add(self, line, expected):
        self.lines.append(line)
        self.operations.append((line, expected))

    def move(self, back=True):
        """The next reading of the store's clock: mostly near where something changes."""
        r, dice = self.random, self.random.random()
        if dice < 0.25:
            self.now += r.choice((0, 0, 1, 2, 999, 1000))
        elif dice < 0.75 and self.aims:
            aim = r.choice(self.aims[-6:])
            if aim > self.now:
                self.now = aim + r.choice((-1001, -1000, -2, -1, -1, 0, 0, 0, 1, 1000))
        elif dice < 0.93 or not back:
            self.now += r.randrange(1 << r.randrange(1, 26))
        elif dice < 0.98:
            self.now -= r.choice((1, 1000, SECOND - 1, SECOND, r.randrange(SECOND)))
        else:
            self.now -= r.choice((SECOND + 1, SECOND + 1000, r.randrange(SECOND, 100 * SECOND), 3600 * SECOND))
        return self.now

    def aim(self, item, told):
        unit = self.world.sizes[item.limit][1].unit
        for length in told[2:4]:
            if length > 0:
                self.aims.append(self.now + length * unit)
        del self.aims[:-12]

    def decide(self, verb, items, name="-", record="-", hold=0):
        told = self.world.decide(verb, self.now, items, name, record, hold, self.began)
        self.add(f"D {verb} {self.now} {hold} {name} {record} {self.began} {len(items)} " + " ".join(map(str, items)), told)
        for item, answer in zip(items, told):
            self.aim(item, answer)
        return told

    def undo(self):
        self.add(f"U {self.now}", None)
        self.world.undo(self.now)

    def settle(self, verb, items, name="-", record="-", cost=0):
        told = self.world.settle(self.now, items, verb, record, cost, self.began)
        words = f"{name} {record} {cost}" if verb in "SC" else f"{self.began}"
        self.add(f"{verb} {self.now} {words} {len(items)} " + " ".join(map(str, items)), told)

    def hold(self, verb, items, name):
        told = self.world.hold(self.now, items, name, verb == "N")
        self.add(f"{verb} {self.now} {name} {len(items)} " + " ".join(map(str, items)), told)

    def reset(self, items):
        self.add(f"X {len(items)} " + " ".join(map(str, items)), None)
        for item in items:
            self.world.models.pop(item.key, None)

    def check(self, test, resp3=False, program="redis-server"):
        with Store(program=program, unix=True) as store:
            command = [os.path.join(BUILD, "test", "test_script"), "drive", store.socket_path] + (["3"] if resp3 else [])
            done = subprocess.run(command, input="\n".join(self.lines + ["!", ""]), capture_output=True, text=True, check=True)
            test.assertEqual(store.keys_without_expiry(), [])
        replies = done.stdout.splitlines()
        test.assertEqual(len(replies), len(self.operations))
        for i, (reply, (line, expected)) in enumerate(zip(replies, self.operations)):
            if expected is not None and not self.equal(reply, line, expected):
                test.fail(f"WEIR_SEED={self.seed}, operation {i}: {self.told(reply, expected)}\n" +
                          "\n".join(f"  {line}\n      {reply}" for line, reply in self.before(i, replies)))

    @staticmethod
    def equal(reply, line, expected):
        if line[0] != "D":
            return reply == " ".join(map(str, expected))
        parts = reply.split(" ; ")
        return len(parts) == len(expected) and all(
            part.split() == [str(x) for x in told] if told[-1] is not None else
            part.split()[:-1] == [str(x) for x in told[:-1]] for part, told in zip(parts, expected))

    def told(self, reply, expected):
        return f"got {reply}\nexpected {expected}"

    def before(self, at, replies):
        """The operations before that touch the same keys."""
        keys = {word for word in self.operations[at][0].split() if word.startswith("k")}
        some = [i for i in range(at + 1) if keys & set(self.operations[i][0].split()) or self.operations[i][0][0] == "U"]
        return [(self.operations[i][0], replies[i]) for i in some[-12:]]


def wander(test, letter, family, seed, count):
    """A random run over a few keys of one limit, whose sizes (`family`) change between operations."""
    run = Run([(letter, size) for size in family], seed)
    r, serial, kept, current, counted = run.random, 0, [], {}, {}
    retries = any(size.free for size in family)
    for _ in range(count):
        key = f"k{r.randrange(3)}"
        if r.random() < 0.02 or key not in current:
            current[key] = r.randrange(len(family))
        limit = current[key]
        top = family[limit].capacity
        cost = r.choice((0, 1, 1, 1, 2, 3, max(1, top // 2), top, top, top + 1, r.randrange(top + 2)))
        retry = f"kr-{key}-{r.randrange(12)}" if retries and r.random() < 0.6 else None
        item = Item(limit, key, cost, retry, estimate=True)
        serial += 1
        name = f"{serial:032x}"
        run.move()
        dice = r.random()
        if dice < 0.62:
            run.decide("t", [item], name)
            counted[key] = limit
            if r.random() < 0.05:
                run.now += r.choice((0, 1, 10, 100_000, 200_000))
                run.undo()
        elif dice < 0.78:
            run.decide("p", [item])
        elif dice < 0.88:
            run.decide("r", [item], name, f"k{serial}-kept", r.choice((1000, SECOND, 100 * SECOND)))
            counted[key] = limit
            kept.append((name, f"k{serial}-kept", item))
        elif dice < 0.94 and kept:
            name, record, reserved = r.choice(kept[-4:])
            if reserved.limit == current[reserved.key]:  # the size that a value has is kept then, see test_script_values.py
                run.settle(r.choice("SSC"), [reserved], name, record,
                           r.choice((0, cost, reserved.cost, reserved.cost + 3)))
        elif dice < 0.97:
            verb = r.choice("FP")
            if counted.get(key, limit) != limit:  # likewise of what was spent elsewhere
                verb = "F"
            run.settle(verb, [item])
        elif dice < 0.973:
            run.reset([item])
    run.check(test, resp3=seed % 2 == 1)


def wander_permits(test, family, seed, count):
    """The same for permits: acquired, held for longer, returned, undone; and looked at by who does not acquire."""
    run = Run([("c", size) for size in family], seed)
    r, serial, held, current = run.random, 0, [], {}
    for _ in range(count):
        key = f"k{r.randrange(3)}"
        if r.random() < 0.02 or key not in current:
            current[key] = r.randrange(len(family))
        limit = current[key]
        top = family[limit].capacity
        item = Item(limit, key, r.choice((0, 1, 1, 1, 2, max(1, top // 2), top, top + 1)))
        serial += 1
        name = f"{serial:032x}"
        run.move()
        dice = r.random()
        if dice < 0.5:
            run.decide("a", [item], name)
            held.append((name, item))
            if r.random() < 0.05:
                run.undo()
        elif dice < 0.65:
            run.decide(r.choice("pt"), [item])
        elif dice < 0.8 and held:
            run.hold("N", [r.choice(held[-6:])[1]], held[-1 - r.randrange(min(6, len(held)))][0])
        elif dice < 0.985 and held:
            name, item = r.choice(held[-6:])
            run.hold("E", [item], name)
        elif dice > 0.995:
            run.reset([item])
    run.check(test, resp3=seed % 2 == 1)
