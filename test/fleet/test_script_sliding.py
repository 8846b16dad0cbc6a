# SPDX-License-Identifier: Apache-2.0
"""The sliding-window counter of the strict script against the exact inequality (P17), and its retry by search (P18).

LABELS: slow
"""

import unittest

from script_world import SECOND, wander
from store_models import Size

FAMILIES = [
    [Size(10, period=SECOND), Size(7, period=SECOND), Size(10, period=60 * SECOND)],
    [Size(100, period=60 * SECOND), Size(100, period=60 * SECOND, charges=True)],
    [Size(3, period=7), Size(30, period=999_983)],
    [Size(10, period=1000, unit=1000), Size(10, period=SECOND), Size(12, period=333, unit=1000)],
    [Size(0, period=SECOND), Size(1, period=SECOND)],
    [Size(6, period=10 * SECOND, empty=True), Size(6, period=3 * SECOND, empty=True)],
    [Size(1_000_003, period=2_000_000_011)],
    [Size(20, period=5 * SECOND, charges=True), Size(5, period=5 * SECOND, charges=True)],
    [Size(8, period=10 * SECOND, free=3 * SECOND)],
    [Size(50, period=SECOND), Size(50, period=2 * SECOND)],
]


class Sliding(unittest.TestCase):
    def test_sizes_that_change(self):
        for i, family in enumerate(FAMILIES):
            with self.subTest(family=i):
                wander(self, "s", family, 300 + i, 10_000)


if __name__ == "__main__":
    unittest.main()
