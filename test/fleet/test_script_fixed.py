# SPDX-License-Identifier: Apache-2.0
"""Fixed windows of the strict script: by the epoch, from the first request, of calendars; counts that are charged by refusals,
refunds that count in their own window only, periods that change, clocks that step back.

LABELS: slow
"""

import calendar
import datetime
import unittest
import zoneinfo

from script_world import SECOND, wander
from store_models import Size

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def days(us):
    """The civil day in Berlin, by the library's own calendar."""
    day = datetime.datetime.fromtimestamp(us // SECOND, BERLIN).date()
    midnight = [datetime.datetime.combine(day + datetime.timedelta(i), datetime.time(), BERLIN) for i in (0, 1)]
    return tuple(int(at.timestamp()) * SECOND for at in midnight)


def months(us):
    date = datetime.datetime.fromtimestamp(us // SECOND, datetime.timezone.utc)
    begins = datetime.datetime(date.year, date.month, 1, tzinfo=datetime.timezone.utc)
    length = calendar.monthrange(date.year, date.month)[1]
    return int(begins.timestamp()) * SECOND, (int(begins.timestamp()) + length * 86400) * SECOND


def calendar_size(capacity, windows, unit, zone, **more):
    size = Size(capacity, windows=windows, align="calendar", family=(unit, zone), **more)
    size.calendar = (unit, zone)
    return size


FAMILIES = [
    [Size(10, period=SECOND), Size(7, period=SECOND), Size(10, period=60 * SECOND)],
    [Size(3, period=1000), Size(30, period=7 * SECOND, charges=True)],
    [Size(10, period=1000, unit=1000), Size(10, period=SECOND), Size(0, period=SECOND)],
    [Size(10, period=5 * SECOND, align="first"), Size(4, period=5 * SECOND, align="first"),
     Size(10, period=SECOND, align="first")],
    [Size(5, period=10 * SECOND, align="first", charges=True), Size(5, period=10 * SECOND)],
    [Size(6, period=10 * SECOND, empty=True), Size(6, period=10 * SECOND, align="first", empty=True)],
    [calendar_size(20, days, 0, "Europe/Berlin"), calendar_size(9, days, 0, "Europe/Berlin", charges=True)],
    [calendar_size(12, months, 2, "UTC", empty=True), calendar_size(12, days, 0, "Europe/Berlin")],
    [Size(1 << 40, period=86400 * SECOND), Size(1 << 51, period=3600 * SECOND, charges=False)],
    [Size(8, period=10 * SECOND, free=3 * SECOND)],
]


class Fixed(unittest.TestCase):
    def test_sizes_that_change(self):
        for i, family in enumerate(FAMILIES):
            with self.subTest(family=i):
                wander(self, "f", family, 200 + i, 10_000)


if __name__ == "__main__":
    unittest.main()
