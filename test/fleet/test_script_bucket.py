# SPDX-License-Identifier: Apache-2.0
"""Buckets of the strict script against exact rationals: rates and bursts that change, debt, refusals that are charged, refunds,
settlements, undo, clocks that step back.

LABELS: slow
"""

import unittest

from script_world import SECOND, wander
from store_models import Size

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


if __name__ == "__main__":
    unittest.main()
