# SPDX-License-Identifier: Apache-2.0
"""Several limits in one script: all or nothing, watched ones, retries, refusals that are charged, reservations over all of them.

Against the same models as each algorithm alone; what is judged here is what the parts do to each other.

LABELS: slow
"""

import unittest

from script_world import SECOND, Item, Run
from store_models import Size

SIZES = [
    ("b", Size(10, count=1, period=100_000)),
    ("b", Size(6, count=2, period=700_001, charges=True, debt=4)),
    ("f", Size(15, period=2 * SECOND, free=500_000)),
    ("f", Size(12, period=3 * SECOND, align="first", charges=True)),
    ("s", Size(20, period=SECOND, free=2 * SECOND)),
    ("s", Size(9, period=1500, unit=1000, charges=True)),
    ("l", Size(8, period=SECOND)),
    ("l", Size(7, period=2 * SECOND, charges=True, free=SECOND)),
    ("c", Size(4, period=SECOND)),
    ("b", Size(3, count=3, period=SECOND, empty=True, free=SECOND)),
]


class Composite(unittest.TestCase):
    def items(self, run, serial):
        r = run.random
        some = r.sample(range(len(SIZES)), r.choice((1, 2, 2, 3, 4, 6)))
        asked_again = r.random() < 0.3
        items = []
        for limit in some:
            cost = r.choice((0, 1, 1, 1, 2, 2, 3, SIZES[limit][1].capacity, SIZES[limit][1].capacity + 1))
            key = f"k{limit}-{r.randrange(2)}"
            retry = f"{key}-r{r.randrange(6) if asked_again else serial}" if SIZES[limit][1].free else None
            items.append(Item(limit, key, cost, retry, watched=r.random() < 0.15, estimate=r.random() < 0.5))
        return items

    def run_seed(self, seed, count, program="redis-server"):
        run = Run(SIZES, seed)
        r, kept, held = run.random, [], []
        for serial in range(1, count + 1):
            items, name = self.items(run, serial), f"{serial:032x}"
            run.move()
            dice = r.random()
            if dice < 0.45:
                run.decide("t", items, name)
                if r.random() < 0.08:
                    run.now += r.choice((0, 1, 40_000))
                    run.undo()
            elif dice < 0.6:
                run.decide("p", items)
            elif dice < 0.75:
                run.decide("r", items, name, f"k{serial}-kept", r.choice((SECOND, 60 * SECOND)))
                kept.append((name, f"k{serial}-kept", items))
            elif dice < 0.85:
                run.decide("a", items, name)
                held.append((name, [item for item in items if item.limit == 8]))
                if r.random() < 0.1:
                    run.undo()
            elif dice < 0.92 and kept:
                name, record, items = r.choice(kept[-4:])
                run.settle(r.choice("SSC"), items, name, record, r.randrange(12))
            elif dice < 0.95:
                run.settle(r.choice("FP"), [item for item in items if not item.watched] or items)
            elif held and held[-1][1]:
                run.hold(r.choice("NEE"), held[-1][1], held[-1][0])
        run.check(self, resp3=seed % 2 == 1, program=program)

    def test_all_or_nothing(self):
        for seed in range(4):
            with self.subTest(seed=seed):
                self.run_seed(600 + seed, 7_000)

    def test_on_valkey(self):
        self.run_seed(650, 5_000, "valkey-server")


if __name__ == "__main__":
    unittest.main()
