# SPDX-License-Identifier: Apache-2.0
"""Buckets of the strict script against exact rationals: rates and bursts that change, debt, refusals that are charged, refunds,
settlements, undo, clocks that step back.
"""

import os
import random
import subprocess
import unittest

from script_world import BUILD, SECOND, Item, Run, World, wander
from store_models import Size
from stores import Store

# Several sizes of one limit each: keys change between them.
FAMILIES = [
    [Size(20, count=1, period=200_000), Size(7, count=1, period=200_000), Size(50, count=3, period=70_001)],
    [Size(1, count=3, period=SECOND), Size(1, count=1, period=1), Size(9, count=1000, period=7)],
    [Size(10, count=1, period=6 * SECOND), Size(10, count=1, period=8640 * SECOND), Size(10, count=1, period=1000)],
    [Size(5, count=0, period=1), Size(5, count=2, period=999_983)],
    [Size(0, count=1, period=1000), Size(2, count=1, period=1000)],
    [Size(4, count=1, period=250, unit=1000), Size(4, count=1, period=250_000), Size(6, count=7, period=11, unit=1000)],
    [Size(8, count=1, period=100_000, debt=20), Size(8, count=1, period=100_000, debt=3)],
    [Size(10, count=1, period=50_000, charges=True), Size(3, count=1, period=50_000, charges=True)],
    [Size(12, count=5, period=999_999, empty=True), Size(20, count=5, period=999_999, empty=True)],
    [Size(4, count=999_983, period=10**15)],
    [Size(1_000_000, count=1_000_003, period=4_000_000_007)],
]


class Buckets(unittest.TestCase):
    def test_sizes_that_change(self):
        for i, family in enumerate(FAMILIES):
            with self.subTest(family=i):
                wander(self, "b", family, 100 + i, 10_000)

    def test_by_the_clock_of_the_store(self):
        """The ordinary call has no time in it: judged at the stamps that its replies tell. Limits are as fast as calls follow
        each other, so that each call may meet an edge."""
        sizes = [("b", Size(20, count=1, period=50)), ("b", Size(3, count=1, period=20)), ("b", Size(2, count=3, period=7)),
                 ("b", Size(10, count=7, period=300)), ("b", Size(5, count=1, period=40, charges=True)),
                 ("b", Size(1000, count=1, period=1_000_003)), ("b", Size(4, count=1, period=90))]
        seed = int(os.environ.get("WEIR_SEED", 17))
        r, run, items = random.Random(seed), Run(sizes, seed), []
        for _ in range(60_000):
            limit = r.randrange(len(sizes))
            key = 3 if limit == 6 else limit  # two rates of one key
            item = Item(limit, f"k{key}", r.choice((1, 1, 1, 2, 3, sizes[limit][1].capacity, 0, 1001)))
            items.append(item)
            run.lines.append(f"D t 0 0 - - 0 1 {item}")
            if r.random() < 0.003:
                run.lines.append("!")  # a pause
        with Store(unix=True) as store:
            done = subprocess.run([os.path.join(BUILD, "test", "test_script"), "drive", store.socket_path],
                                  input="\n".join(run.lines + ["!", ""]), capture_output=True, text=True, check=True)
        world, outcomes = World(sizes), {}
        for i, (item, reply) in enumerate(zip(items, done.stdout.splitlines())):
            stamp = int(reply.split()[-1])
            expected = " ".join(map(str, world.decide("t", stamp, [item])[0][:-1])) + f" {stamp}"
            self.assertEqual(reply, expected, f"WEIR_SEED={seed}, operation {i}: {item}")
            outcomes[reply[0]] = outcomes.get(reply[0], 0) + 1
        self.assertEqual(i, 59_999)
        self.assertTrue(min(outcomes[outcome] for outcome in "023") > 1000, outcomes)


if __name__ == "__main__":
    unittest.main()
