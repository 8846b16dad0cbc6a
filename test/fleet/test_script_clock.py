# SPDX-License-Identifier: Apache-2.0
"""The ordinary decision: a bucket, taken by the clock of the store, which goes a way of its own through the script (hot.lua).

LABELS: slow
"""

import os
import random
import subprocess
import unittest

from script_world import BUILD, Item, Run, World
from store_models import Size
from stores import Store


class Clock(unittest.TestCase):
    def test_a_bucket_by_the_clock_of_the_store(self):
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
