# SPDX-License-Identifier: Apache-2.0
"""Random runs of messages about leases, with strict decisions and settlements of the same keys in between, against a real store.

The oracle is test/oracle/lease_model.py; the workers here are those of algorithms 4.4 as plainly as can be: what they hold, what they
spent and did not report, one message under way. The network keeps every message that was ever sent and delivers any of them, in
any order, as often as it likes. Each message is answered by the model at once, so a run is a list of lines whose answers are known
before a store sees them.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oracle"))
from lease_model import Lease, LeasedBucket, LeasedFixed, message  # noqa: E402
from script_world import HORIZON, SECOND, Item, Run, World, limit_line  # noqa: E402

LEASED = {"b": LeasedBucket, "f": LeasedFixed}


class LeasedWorld(World):
    deciding = False

    def model(self, item):
        letter = self.sizes[item.limit][0]
        if letter not in LEASED:
            return super().model(item)
        return self.models.setdefault(item.key, LEASED[letter]())

    def look(self, item, us, began):
        view = super().look(item, us, began)
        if self.deciding and hasattr(view, "drop") and not getattr(self.sizes[item.limit][1], "lease", None):
            view.drop()
        return view

    def decide(self, *words, **more):
        self.deciding = True
        told = super().decide(*words, **more)
        self.deciding = False
        return told


class Worker:
    """One run of one process; what it has of each key."""

    serial = 0

    def __init__(self, run):
        Worker.serial += 1
        self.run, self.label, self.seq = run, f"web-{Worker.serial}:1", 0
        self.hands = {}

    def hand(self, key):
        return self.hands.setdefault(key, {"have": 0, "used": 0, "till": 0, "flight": None, "seen": (0, 0, 0), "sent_at": 0})


class LeaseRun(Run):
    """`sizes`: (letter, size) with size.lease or without."""

    def __init__(self, sizes, seed, workers=3, label=True):
        super().__init__(sizes, seed)
        self.world = LeasedWorld(sizes)
        self.lines = [limit_line(i, letter, size) + (f" {size.lease.most} {size.lease.chunk} {size.lease.duration}"
                                                     if getattr(size, "lease", None) else "")
                      for i, (letter, size) in enumerate(sizes)]
        self.workers = [self.start() for _ in range(workers)]
        self.network = []  # every message that was ever sent
        self.spent = []  # when, key, how much: what workers let through
        self.strict = []  # the same of strict decisions
        self.granted = self.returned = 0  # over all keys and losses, as messages say
        self.steps = 0  # by how much the clock has stepped forward, worst case; for who checks bounds

    def start(self):
        return Worker(self.random.getrandbits(64) | 1)

    # ---- the worker of 4.4 ----

    def expire(self, hand):
        if self.now >= hand["till"]:
            hand["have"] = 0

    def spend(self, worker, key, cost):
        hand = worker.hand(key)
        self.expire(hand)
        if hand["have"] < cost:
            return False
        hand["have"] -= cost
        hand["used"] += cost
        self.spent.append((self.now, key, cost))
        return True

    def speak(self, worker, limit, key, want, give_part=0):
        """A new message, or the one under way again."""
        hand = worker.hand(key)
        self.expire(hand)
        if hand["flight"] is None:
            give = min(hand["have"], give_part)
            hand["have"] -= give
            worker.seq += 1
            hand["flight"] = (worker, limit, key, worker.seq, hand["used"], give, want, hand["seen"])
            hand["sent_at"] = self.now
        self.network.append(hand["flight"])
        return hand["flight"]

    def hear(self, flight, told):
        worker, _, key, seq, used = flight[:5]
        hand = worker.hand(key)
        if hand["flight"] is None or hand["flight"][3] != seq or told[0]:
            return
        granted, left, ttl = told[4:7]
        self.expire(hand)
        hand["flight"] = None
        hand["used"] -= used
        if hand["have"] + hand["used"] + granted > left:  # the store has forgotten what is in hand
            hand["have"] = hand["used"] = 0
            granted = min(granted, left)
        hand["have"] += granted
        hand["till"] = hand["sent_at"] + ttl - ttl // 100
        hand["seen"] = told[-3:]

    # ---- the store ----

    def deliver(self, flights, heard=True):
        """Messages of one run in one command. Gives what the store says."""
        worker, told = flights[0][0], []
        words = []
        for _, limit, key, seq, used, give, want, seen in flights:
            model = self.world.model(Item(limit, key, 0))
            before = (model.holders.granted, model.holders.returned) if model.holders else (0, 0)
            answer = message(model, self.now, self.world.sizes[limit][1], self.began, worker.run, worker.label, seq, used, give,
                             want, seen)
            self.granted += model.holders.granted - before[0]
            self.returned += model.holders.returned - before[1]
            told.append(answer)
            words.append(f"{limit} {key} {seq} {used} {give} {want} " + " ".join(map(str, seen)))
            self.check_model(model, self.world.sizes[limit][1])
        expected = [self.shown(limit, answer) for (_, limit, *_), answer in zip(flights, told)]
        self.add(f"K {self.now} {worker.run} {worker.label} {self.began} {len(flights)} " + " ".join(words), expected)
        if heard:
            for flight, answer in zip(flights, told):
                self.hear(flight, answer)
        for (_, limit, *_), answer in zip(flights, told):
            if answer[8]:
                self.aims.append(self.now + answer[8] * self.world.sizes[limit][1].unit)
            if answer[9]:
                self.aims.append(self.now + answer[9])
            lease = self.world.sizes[limit][1].lease
            self.aims.append(self.now + answer[6] + lease.grace)
        del self.aims[:-12]
        return told

    def shown(self, limit, answer):
        unit = self.world.sizes[limit][1].unit
        retry = -1 if answer[8] is None or answer[8] > HORIZON // unit else answer[8]
        return answer[:8] + (retry, -1 if answer[9] is None else answer[9]) + answer[10:]

    def exchange(self, worker, limit, key, want, give=0):
        return self.deliver([self.speak(worker, limit, key, want, give)])[0]

    def holders(self, key, model=None):
        """Ask who holds what."""
        model = model or self.world.models.get(key)
        holders = model.holders if model else None
        if holders is None:
            self.add(f"H {key}", [(0, 0, 0, 0, 0, 0)])
            return
        sums = (holders.out, holders.granted, holders.returned, holders.spent, holders.lost, len(holders.records))
        rows = [(run, record.label, record.left, record.wanted) for run, record in holders.records.items()]
        self.add(f"H {key}", [sums] + sorted(rows))

    def check_model(self, model, size):
        """P32: nothing is out that was not granted and neither returned, spent nor lost; no more than may be, but for other terms."""
        holders = model.holders
        assert holders.granted == holders.returned + holders.spent + holders.lost + holders.out

    def lose_everything(self, keys):
        """The store has lost its state, and its incarnation began now."""
        self.began = self.now
        for limit, key in keys:
            self.reset([Item(limit, key, 0)])

    def reset(self, items):
        self.add(f"X {len(items)} " + " ".join(map(str, items)), None)
        for item in items:
            self.world.models.pop(item.key, None)

    @staticmethod
    def equal(reply, line, expected):
        if line[0] == "K":
            return [part.split() for part in reply.split(" ; ")] == [[str(x) for x in told] for told in expected]
        if line[0] == "H":
            parts = [part.split() for part in reply.split(" ; ")]
            rows = sorted((int(run), *rest) for run, *rest in parts[1:])
            return parts[0] == [str(x) for x in expected[0]] and \
                [[str(x) for x in row[:4]] for row in rows] == [[str(x) for x in row] for row in expected[1:]]
        return Run.equal(reply, line, expected)


def leased(size, most, chunk, duration=2 * SECOND):
    size.lease = Lease(most, chunk, duration)
    return size
