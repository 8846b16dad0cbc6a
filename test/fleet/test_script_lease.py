# SPDX-License-Identifier: Apache-2.0
"""Messages about leases against an exact model (lease_model.py), in random runs: duplicated, reordered and lost messages, portions
that end, limits that change, a store that loses its state, clocks that step, and strict decisions, reservations, settlements,
undo and refunds of the same keys in between. In every run P32 and P33 are checked after each message.

LABELS: slow
"""

import os
import unittest

from lease_world import SECOND, Item, LeaseRun, leased
from store_models import Size
from test_script_fixed import calendar_size, days, months

FAMILIES = {
    "a bucket": ("b", [leased(Size(80, count=1, period=10_000), 30, 10), leased(Size(40, count=1, period=10_000), 30, 10),
                       Size(80, count=1, period=10_000)]),
    "odd rates": ("b", [leased(Size(50, count=3, period=70_001), 50, 20, 200_000),
                        leased(Size(50, count=7, period=999_983), 20, 20, SECOND), leased(Size(9, count=1000, period=7), 9, 3)]),
    "in ms": ("b", [leased(Size(60, count=1, period=250, unit=1000), 40, 15), leased(Size(60, count=1, period=250_000), 40, 15),
                    leased(Size(60, count=7, period=11, unit=1000), 60, 60, 500_000)]),
    "never refilled": ("b", [leased(Size(500, count=0, period=1), 100, 30)]),
    "large": ("b", [leased(Size(1_000_000, count=1_000_003, period=4_000_000), 900_000, 400_000)]),
    "starts empty": ("b", [leased(Size(30, count=5, period=999_999, empty=True), 20, 10, 500_000),
                           Size(30, count=5, period=999_999, empty=True)]),
    "nothing": ("b", [leased(Size(0, count=1, period=1000), 1, 1), leased(Size(2, count=1, period=1000), 2, 1)]),
    "windows": ("f", [leased(Size(100, period=10 * SECOND), 50, 20), leased(Size(60, period=10 * SECOND), 50, 20),
                      Size(100, period=10 * SECOND), leased(Size(100, period=3 * SECOND), 100, 30)]),
    "windows from the first request": ("f", [leased(Size(50, period=5 * SECOND, align="first"), 40, 20),
                                             leased(Size(50, period=3 * SECOND, align="first"), 40, 20, SECOND)]),
    "windows in ms that start empty": ("f", [leased(Size(60, period=10_000, unit=1000, empty=True), 40, 20),
                                             leased(Size(60, period=9 * SECOND, align="first", empty=True), 40, 20)]),
    "days": ("f", [leased(calendar_size(1000, days, 0, "Europe/Berlin"), 300, 100)]),
    "months, or days": ("f", [leased(calendar_size(1000, months, 2, "UTC", empty=True), 300, 100),
                              leased(calendar_size(1000, days, 0, "Europe/Berlin"), 300, 100)]),
}


def wander(test, letter, family, seed, count, program="redis-server", restarts=True):
    run = LeaseRun([(letter, size) for size in family], seed)
    r, current, serial, kept = run.random, {}, 0, []
    for _ in range(count):
        key = f"k{r.randrange(3)}"
        if r.random() < 0.01 or key not in current:
            current[key] = r.randrange(len(family))
        limit = current[key]
        size = family[limit]
        top = size.capacity
        run.move()
        dice = r.random()
        if not getattr(size, "lease", None) and dice < 0.72:
            dice = 0.72 + dice / 4  # its contract knows of no leases
        worker = r.choice(run.workers)
        hand = worker.hand(key)
        if dice < 0.35:
            want = r.choice((0, 1, 1, size.lease.chunk, size.lease.chunk, r.randrange(size.lease.chunk + 2), size.lease.most + 5))
            flight = run.speak(worker, limit, key, want, r.choice((0, 0, 0, 1, hand["have"])))
            if r.random() < 0.85:
                run.deliver([flight], heard=r.random() < 0.85)
        elif dice < 0.4:
            flights = [run.speak(worker, current[k], k, r.randrange(12)) for k in sorted(current)
                       if getattr(family[current[k]], "lease", None)]
            run.deliver(flights, heard=r.random() < 0.85)
        elif dice < 0.47 and run.network:
            run.deliver([r.choice(run.network[-(1 << r.randrange(1, 8)):])], heard=r.random() < 0.5)
        elif dice < 0.68:
            run.spend(worker, key, r.choice((1, 1, 2, max(1, hand["have"]))))
        elif dice < 0.69:
            run.workers[run.workers.index(worker)] = run.start()  # it crashed, and what it held is gone
        elif dice < 0.7:
            run.holders(key)
        elif dice < 0.7003 and restarts:
            run.lose_everything([(current[k], k) for k in sorted(current)])
            kept = []
        elif dice < 0.85:
            cost = r.choice((0, 1, 1, 2, 3, max(1, top // 2), top, top + 1, r.randrange(top + 2)))
            serial += 1
            item = Item(limit, key, cost, estimate=True)
            verb = r.choice("tttpr")
            run.decide(verb, [item], f"{serial:032x}", f"k{serial}-kept" if verb == "r" else "-", 100 * SECOND if verb == "r" else 0)
            if verb == "r":
                kept.append((f"{serial:032x}", f"k{serial}-kept", item))
            elif verb == "t" and r.random() < 0.2:
                run.now += r.choice((0, 1, 10, 100_000))
                run.undo()
        elif dice < 0.93 and kept:
            name, record, item = r.choice(kept[-4:])
            if is_sized(run, letter, item.key, family[item.limit]):  # else the value keeps the size that it has
                run.settle(r.choice("SSC"), [item], name, record, r.choice((0, item.cost, item.cost + 3, r.randrange(top + 2))))
        elif dice < 0.98:
            if is_sized(run, letter, key, size):
                run.settle(r.choice("FP"), [Item(limit, key, r.choice((1, 2, top // 2)), estimate=True)])
        elif dice < 0.981:
            run.reset([Item(limit, key, 0)])
            kept = [each for each in kept if each[2].key != key]
        check_spend(run)
    for key in sorted(current):
        run.holders(key)
    run.check(test, resp3=seed % 2 == 1, program=program)
    return run


def is_sized(run, letter, key, size):
    model = run.world.models.get(key)
    if model is None or model.state is None:
        return True
    if letter == "b":
        return model.state[2] is size
    return model.state[0] == size.family and (size.windows or model.state[2] - model.state[1] == size.length)


def check_spend(run):
    """P33: what was let through and what is in hands was granted and not given back; whatever was lost, repeated or reordered."""
    held = sum(hand["have"] for worker in run.workers for hand in worker.hands.values())
    spent = sum(amount for _, _, amount in run.spent)
    assert spent + held <= run.granted - run.returned, (spent, held, run.granted, run.returned)


class Leases(unittest.TestCase):
    def test_P32_P33_P35_any_run_is_the_models(self):
        for i, (why, (letter, family)) in enumerate(FAMILIES.items()):
            with self.subTest(why):
                wander(self, letter, family, 800 + i, int(os.environ.get("WEIR_LEASE_STEPS", 6000)))

    def test_P32_P33_P35_the_same_of_valkey(self):
        for i, why in enumerate(("a bucket", "windows")):
            with self.subTest(why):
                letter, family = FAMILIES[why]
                wander(self, letter, family, 900 + i, 4000, program="valkey-server")


if __name__ == "__main__":
    unittest.main()
