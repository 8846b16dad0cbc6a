# SPDX-License-Identifier: Apache-2.0
"""Permits of the strict script: who holds how much until when by the store's clock, fences that rise, renewals, returns.

LABELS: slow
"""

import unittest

from script_world import SECOND, wander_permits
from store_models import Size

FAMILIES = [
    [Size(3, period=SECOND), Size(2, period=SECOND), Size(5, period=10 * SECOND)],
    [Size(1, period=30 * SECOND), Size(4, period=100, unit=1000)],
    [Size(10, period=1000), Size(10, period=60 * SECOND)],
    [Size(6, period=10 * SECOND, empty=True), Size(6, period=3 * SECOND, empty=True)],
    [Size(2500, period=5 * SECOND)],
]


class Permits(unittest.TestCase):
    def test_sizes_that_change(self):
        for i, family in enumerate(FAMILIES):
            with self.subTest(family=i):
                wander_permits(self, family, 500 + i, 20_000 if family[0].capacity < 100 else 1_500)


if __name__ == "__main__":
    unittest.main()
