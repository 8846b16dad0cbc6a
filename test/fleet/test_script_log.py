# SPDX-License-Identifier: Apache-2.0
"""The sliding log of the strict script against a list of stamps: any cost, equal stamps, what is given back, clocks that step.

LABELS: slow
"""

import unittest

from script_world import SECOND, wander
from store_models import Size

FAMILIES = [
    [Size(5, period=SECOND), Size(3, period=SECOND), Size(9, period=10 * SECOND)],
    [Size(5, period=900 * SECOND), Size(20, period=60 * SECOND)],
    [Size(6, period=SECOND, charges=True), Size(4, period=2 * SECOND, charges=True)],
    [Size(10, period=1000, unit=1000), Size(10, period=SECOND)],
    [Size(0, period=SECOND), Size(1, period=SECOND)],
    [Size(6, period=10 * SECOND, empty=True), Size(6, period=3 * SECOND, empty=True)],
    [Size(300, period=2 * SECOND), Size(100, period=SECOND)],
    [Size(8, period=10 * SECOND, free=3 * SECOND)],
    [Size(40, period=100_000), Size(40, period=5 * SECOND)],
    [Size(2000, period=30 * SECOND)],
]


class Log(unittest.TestCase):
    def test_sizes_that_change(self):
        for i, family in enumerate(FAMILIES):
            with self.subTest(family=i):
                wander(self, "l", family, 400 + i, 12_000 if family[0].capacity < 100 else 4_000)


if __name__ == "__main__":
    unittest.main()
