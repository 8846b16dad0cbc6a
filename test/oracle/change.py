# SPDX-License-Identifier: Apache-2.0
"""Curated files about limits that change while they are in use (algorithms 1.17, P14): used stays used, whatever the ratio of
the rates; a changed period of a window takes the count along; renamed limits begin afresh."""

from cases import ACME, DAY, HOUR, MINUTE, MS, SECOND, limit
from timeline import Timeline

USER, APP, TEAM = {"user": "u"}, {"app": "a"}, {"team": "t"}
YEAR = 365 * DAY


def bucket():
    def size(rate, burst, **more):
        return [limit("b", rate=rate, burst=burst, **more)]
    worked = Timeline("39-change-rate", "The worked example of algorithms 1.17: 5/s becomes 10/s a second after a full burst.",
                      size("5/s", 20))
    worked.step(0, ACME, times=20, claim={"allow": 20, "reset_after": "4s"})
    worked.reload(SECOND, size("10/s", 20), claim={"resized": 1, "kept": 0})
    worked.step(SECOND, ACME, cost=5, peek=True, why="15 are still used", claim={"allow": 1, "remaining": 5, "reset_after": "1s500ms"})
    worked.step(1500 * MS, ACME, peek=True, claim={"remaining": 10})
    worked.step(2 * SECOND, ACME, cost=16, claim={"deny": 1, "retry_after": "100ms", "remaining": 15})
    worked.step(2 * SECOND, ACME, cost=15, claim={"allow": 1, "remaining": 0})
    worked.step(SECOND // 2, ACME, why="a stamp from before the change is decided at the change: 30 of 20 are used then",
                claim={"deny": 1, "retry_after": "1s600ms"})
    worked.step(2 * SECOND, {"tenant": "b"}, times=21, why="a key that was whole has the new burst", claim={"allow": 20, "deny": 1})

    ratio = Timeline("39-change-ratio", """10/1m -> 1000/s -> 10/1d -> 10/1m: no change grants a fresh burst, whatever the ratio of the rates,
and an answer comes after a virtual year as well.""", size("10/1m", 10))
    ratio.step(0, ACME, times=11, claim={"allow": 10, "deny": 1, "retry_after": "6s"})
    ratio.step(0, {"tenant": "b"}, cost=4)
    ratio.reload(3 * SECOND, size("1000/s", 10), claim={"resized": 1})
    ratio.step(3 * SECOND, ACME, why="half a token had come back", claim={"deny": 1, "retry_after": "500us"})
    ratio.step(SECOND, ACME, why="a stale stamp", claim={"deny": 1, "retry_after": "2s500us"})
    ratio.step(3 * SECOND + 1500 * 1000, ACME, times=3, why="1.5 ms bring 1.5", claim={"allow": 2, "deny": 1})
    ratio.reload(3 * SECOND + 2 * MS, size("10/1d", 10))
    ratio.step(3 * SECOND + 2 * MS, ACME, why="another half: no fresh burst", claim={"deny": 1, "retry_after": "1h12m"})
    ratio.step(3 * SECOND + 2 * MS, {"tenant": "b"}, times=9, why="of four used 0.5 and 2 have come back",
               claim={"allow": 8, "deny": 1, "retry_after": "1h12m"})
    ratio.step(2 * SECOND, {"tenant": "b"}, why="a stale stamp mints nothing", claim={"deny": 1, "retry_after": "1h12m1s2ms"})
    ratio.reload(4 * SECOND, size("10/1m", 10))
    ratio.step(4 * SECOND, ACME, times=2, claim={"deny": 2})
    ratio.step(4 * SECOND, {"tenant": "b"}, claim={"deny": 1})
    ratio.step(8 * SECOND, ACME, times=2, claim={"allow": 1, "deny": 1})
    ratio.step(YEAR, ACME, times=11, why="after a year", claim={"allow": 10, "deny": 1, "retry_after": "6s"})
    ratio.step(YEAR, {"tenant": "b"}, times=11, claim={"allow": 10, "deny": 1})

    burst = Timeline("39-change-burst", """A burst that is raised by five makes five available at once; a lowered one leaves a debt that refills.
6 -> 1 -> 8: what was used is not cut at the smaller size, so raising it again forgives nothing.""", size("1/10s", 6))
    burst.step(0, ACME, times=7, claim={"allow": 6, "deny": 1})
    burst.reload(0, size("1/10s", 11))
    burst.step(0, ACME, times=6, claim={"allow": 5, "deny": 1, "capacity": 11})
    burst.reload(0, size("1/10s", 1))
    burst.step(0, ACME, claim={"deny": 1, "remaining": 0, "retry_after": "1m50s", "reset_after": "1m50s"})
    burst.step(0, ACME, cost=2, why="more than the burst is never now", claim={"never": 1})
    burst.reload(10 * SECOND, size("1/10s", 13), why="ten are used, three are left")
    burst.step(10 * SECOND, ACME, times=4, claim={"allow": 3, "deny": 1})
    burst.reload(10 * SECOND, size("0/s", 13), why="without a refill")
    burst.step(YEAR, ACME, claim={"deny": 1, "retry_after": None})
    burst.reload(YEAR, size("1/s", 13), why="nothing came back in a year without a refill")
    burst.step(YEAR, ACME, claim={"deny": 1, "retry_after": "1s"})
    burst.step(YEAR + 13 * SECOND, ACME, times=14, claim={"allow": 13, "deny": 1})

    thirds = Timeline("39-change-inexact", """Between rates that no tick divides: what was used is rounded up by less than a tick.""",
                      size("999/s", 10))
    thirds.step(0, ACME, times=10, claim={"allow": 10})
    thirds.reload(5 * MS, size("1000003/1h", 10))
    thirds.step(5 * MS, ACME, cost=4, claim={"allow": 1})
    thirds.step(5 * MS, ACME, claim={"deny": 1})
    thirds.reload(6 * MS, size("7/s", 10))
    thirds.step(7 * MS, ACME, times=2, claim={"allow": 1, "deny": 1})
    thirds.reload(8 * MS, size("999/s", 10))
    thirds.step(8 * MS, ACME, claim={"deny": 1})
    thirds.step(SECOND, ACME, times=11, claim={"allow": 10, "deny": 1})

    debt = Timeline("39-change-debt", "A debt stays a debt, and reservations keep their place across a change.",
                    size("1/s", 10, debt=20))
    debt.reserve(0, ACME, "a", cost=10, claim={"allow": 1})
    debt.reserve(0, {"tenant": "b"}, "b", cost=10, claim={"allow": 1})
    debt.reload(0, size("10/s", 20, debt=20), claim={"resized": 1})
    debt.settle(0, "a", 35, why="ten of twenty are used; 25 more are five into the debt", claim={"charged": 25, "remaining": 0})
    debt.step(0, ACME, claim={"deny": 1, "retry_after": "1s600ms"})
    debt.reload(500 * MS, size("1/s", 5))
    debt.step(500 * MS, ACME, why="30 of 5 are used", claim={"deny": 1, "retry_after": "26s"})
    debt.cancel(500 * MS, "b", why="five of its ten have come back by themselves", claim={"returned": 5, "remaining": 5})
    debt.step(26500 * MS, ACME, times=2, claim={"allow": 1, "deny": 1})
    return [worked, ratio, burst, thirds, debt]


def window(name, title, request, start=None, **fields):
    def at_rate(rate):
        return [limit("w", key=tuple(request), rate=rate, **fields)]
    return Timeline(name, title, at_rate(fields.pop("first")), start), at_rate


def windows():
    fixed, rate = window("39-change-fixed-window", """A fixed window: a changed count is compared with what was counted; a changed period takes the whole
count into the new window that contains the change.""", ACME, first="10/1m", algorithm="fixed-window")
    fixed.step(30 * SECOND, ACME, times=11, claim={"allow": 10, "deny": 1, "retry_after": "30s"})
    fixed.reload(31 * SECOND, rate("15/1m"), claim={"resized": 1})
    fixed.step(31 * SECOND, ACME, times=6, claim={"allow": 5, "deny": 1, "capacity": 15})
    fixed.reload(32 * SECOND, rate("4/1m"))
    fixed.step(32 * SECOND, ACME, claim={"deny": 1, "remaining": 0, "retry_after": "28s"})
    fixed.reload(33 * SECOND, rate("16/1m"), why="fifteen stay counted")
    fixed.step(33 * SECOND, ACME, times=2, claim={"allow": 1, "deny": 1})
    fixed.reload(34 * SECOND, rate("20/10s"), why="sixteen enter the window from 30 to 40 s")
    fixed.step(34 * SECOND, ACME, times=5, claim={"allow": 4, "deny": 1, "retry_after": "6s"})
    fixed.step(20 * SECOND, ACME, why="a stale stamp is decided at the change", claim={"deny": 1, "retry_after": "20s"})
    fixed.step(40 * SECOND, ACME, times=3, claim={"allow": 3, "remaining": 17})
    fixed.reload(45 * SECOND, rate("20/1h"))
    fixed.step(59 * MINUTE, ACME, times=18, claim={"allow": 17, "deny": 1, "retry_after": "1m"})
    fixed.step(HOUR, ACME, claim={"allow": 1, "remaining": 19})
    fixed.reload(3 * HOUR, rate("20/1d"), why="its window was over: nothing enters the new one")
    fixed.step(3 * HOUR, ACME, claim={"allow": 1, "remaining": 19})

    first, rate = window("39-change-first-request", """A window from the first request: a changed count leaves its start, a changed period
begins a window at the change with what was counted.""", ACME, first="5/1m", algorithm="fixed-window", align="first-request")
    first.step(10 * SECOND, ACME, times=6, claim={"allow": 5, "deny": 1, "retry_after": "1m"})
    first.reload(20 * SECOND, rate("7/1m"))
    first.step(20 * SECOND, ACME, times=3, claim={"allow": 2, "deny": 1, "retry_after": "50s"})
    first.reload(30 * SECOND, rate("3/1m"))
    first.step(30 * SECOND, ACME, claim={"deny": 1, "retry_after": "40s"})
    first.reload(40 * SECOND, rate("7/2m"))
    first.step(40 * SECOND, ACME, claim={"deny": 1, "retry_after": "2m"})
    first.reload(50 * SECOND, rate("7/10s"))
    first.step(50 * SECOND, ACME, claim={"deny": 1, "retry_after": "10s"})
    first.step(45 * SECOND, ACME, claim={"deny": 1, "retry_after": "15s"})
    first.step(MINUTE, ACME, claim={"allow": 1, "remaining": 6, "reset_after": "10s"})
    first.reload(2 * MINUTE, rate("7/1h"), why="over by then")
    first.step(2 * MINUTE, ACME, claim={"allow": 1, "remaining": 6, "reset_after": "1h"})

    sliding, rate = window("39-change-sliding-window", """A sliding window: a changed count leaves both counts; a changed period takes what is used at the
change, rounded up, into the new window that contains it.""", ACME, first="10/10s", algorithm="sliding-window")
    sliding.step(5 * SECOND, ACME, cost=10, claim={"allow": 1, "remaining": 0})
    sliding.reload(6 * SECOND, rate("12/10s"))
    sliding.step(6 * SECOND, ACME, times=3, claim={"allow": 2, "deny": 1})
    sliding.reload(14 * SECOND, rate("8/10s"), why="12 * 0.6 = 7.2 are used")
    sliding.step(14 * SECOND, ACME, claim={"deny": 1, "remaining": 0, "retry_after": "166ms666us667ns"})
    sliding.step(15 * SECOND, ACME, times=3, why="12 * 0.5 = 6", claim={"allow": 2, "deny": 1})
    sliding.reload(18 * SECOND, rate("20/1m"), why="2 + 12 * 0.2 = 4.4: five enter the minute")
    sliding.step(18 * SECOND, ACME, times=16, claim={"allow": 15, "deny": 1})
    sliding.step(10 * SECOND, ACME, why="a stale stamp is decided at the change", claim={"deny": 1})
    sliding.step(90 * SECOND, ACME, times=11, why="20 * 0.5", claim={"allow": 10, "deny": 1})
    sliding.reload(90 * SECOND, rate("20/10s"), why="10 + 20 * 0.5 = 20")
    sliding.step(99 * SECOND, ACME, claim={"deny": 1})
    sliding.step(105 * SECOND, ACME, times=11, claim={"allow": 10, "deny": 1})

    log, rate = window("39-change-sliding-log", "A log keeps its stamps: they count by whatever period and count is in force.", ACME,
                       first="6/10s", algorithm="sliding-log")
    for second in range(6):
        log.step(second * SECOND, ACME, claim={"allow": 1})
    log.reload(6 * SECOND, rate("8/10s"))
    log.step(6 * SECOND, ACME, times=3, claim={"allow": 2, "deny": 1, "retry_after": "4s"})
    log.reload(6 * SECOND, rate("2/10s"))
    log.step(6 * SECOND, ACME, claim={"deny": 1, "remaining": 0, "retry_after": "10s"})
    log.reload(7 * SECOND, rate("8/10s"), why="a count lowered and raised again forgives nothing")
    log.step(7 * SECOND, ACME, claim={"deny": 1, "retry_after": "3s"})
    log.step(10 * SECOND, ACME, times=2, claim={"allow": 1, "deny": 1})
    log.reload(10 * SECOND, rate("8/5s"), why="those of 6 s and 10 s count")
    log.step(10 * SECOND, ACME, times=6, claim={"allow": 5, "deny": 1, "retry_after": "1s"})

    month, rate = window("39-change-calendar", "A calendar window: a changed count goes on; another unit is another calendar, and begins afresh.", ACME,
                         start="2027-03-30T20:00:00Z", first="5/d", algorithm="fixed-window", align="calendar Europe/Berlin")
    month.step(0, ACME, times=6, claim={"allow": 5, "deny": 1, "retry_after": "2h"})
    month.reload(HOUR, rate("7/d"))
    month.step(HOUR, ACME, times=3, claim={"allow": 2, "deny": 1, "retry_after": "1h"})
    month.step(2 * HOUR, ACME, times=2, claim={"allow": 2, "remaining": 5})
    month.reload(3 * HOUR, rate("10/month"), claim={"restarted": 1})
    month.step(3 * HOUR, ACME, times=11, claim={"allow": 10, "deny": 1, "retry_after": "23h"})
    month.step(26 * HOUR, ACME, claim={"allow": 1, "remaining": 9})
    return [fixed, first, sliding, log, month]


def sets():
    old = [limit("kept", rate="1/1h", burst=3), limit("grown", key=("user",), rate="1/1h", burst=3),
           limit("gone", key=("app",), rate="1/1h", burst=3), limit("moved", key=("team",), rate="1/1h", burst=3)]
    new = [limit("new-name", key=("app",), rate="1/1h", burst=3), limit("grown", key=("user",), rate="1/1h", burst=4),
           limit("kept", rate="1/1h", burst=3), limit("moved", key=("team",), algorithm="fixed-window", rate="3/1h")]
    t = Timeline("39-change-set", """Limits come, go, move and are renamed: a limit is known by its name, and goes on counting while its
algorithm, align and key stay; everything else begins afresh.""", old)
    for request in (ACME, USER, APP, TEAM):
        t.step(0, request, times=4, claim={"allow": 3, "deny": 1})
    t.reload(SECOND, new, claim={"kept": 1, "resized": 1, "added": 1, "restarted": 1, "removed": 1})
    t.step(SECOND, ACME, why="unchanged, at another place", claim={"deny": 1, "limit": "kept"})
    t.step(SECOND, USER, times=2, claim={"allow": 1, "deny": 1})
    t.step(SECOND, APP, times=4, why="the same under another name", claim={"allow": 3, "deny": 1, "limit": "new-name"})
    t.step(SECOND, TEAM, times=4, why="another algorithm", claim={"allow": 3, "deny": 1})
    t.reload(2 * SECOND, new[1:], claim={"kept": 3, "removed": 1})
    t.step(2 * SECOND, APP, why="no limit applies", claim={"allow": 1, "limit": None})
    t.reload(3 * SECOND, new, claim={"kept": 3, "added": 1})
    t.step(3 * SECOND, APP, times=4, why="a limit that comes back begins afresh", claim={"allow": 3, "deny": 1})
    t.step(3 * SECOND, USER, claim={"deny": 1})
    changed = [{**new[2], "key": ["tenant", "user"]}]
    t.reload(4 * SECOND, changed, claim={"restarted": 1, "removed": 3})
    t.step(4 * SECOND, {**ACME, **USER}, times=4, why="another key", claim={"allow": 3, "deny": 1})
    t.reload(5 * SECOND, """
weir: 1
limits:
  - { name: kept, key: [tenant, user], rate: 5/s }
""", why="a contract with an error: the old one stays in force", claim={"error": "contract"})
    t.step(5 * SECOND, {**ACME, **USER}, claim={"deny": 1, "limit": "kept"})
    t.reload(6 * SECOND, "weir: 2\nlimits: []", claim={"error": "contract"})
    t.step(6 * SECOND, {**ACME, **USER}, claim={"deny": 1, "limit": "kept"})
    t.reload(7 * SECOND, changed, why="the same once more", claim={"kept": 1, "resized": 0})
    t.step(7 * SECOND, {**ACME, **USER}, claim={"deny": 1})

    def sized(**sizes):
        return [limit("b", rate="1/1h", burst=4, overrides=[{"key": {"tenant": tenant}, **size} for tenant, size in sizes.items()])]
    big = {"rate": "1/1h", "burst": 8}
    o = Timeline("39-change-overrides", "A key's own size comes, changes and goes like any other: used stays used.", sized(big=big))
    o.step(0, {"tenant": "big"}, times=9, claim={"allow": 8, "deny": 1})
    o.step(0, ACME, times=5, claim={"allow": 4, "deny": 1})
    o.step(0, {"tenant": "later"}, times=3)
    o.reload(0, sized(big=big, later=big), claim={"resized": 1})
    o.step(0, {"tenant": "later"}, times=6, claim={"allow": 5, "deny": 1})
    o.step(0, {"tenant": "big"}, claim={"deny": 1, "capacity": 8})
    o.step(0, ACME, claim={"deny": 1, "capacity": 4})
    o.reload(0, sized(later={"rate": "1/1h", "burst": 10}), why="`big` is like everybody: eight of four are used")
    o.step(0, {"tenant": "big"}, claim={"deny": 1, "capacity": 4, "retry_after": "5h"})
    o.step(0, {"tenant": "later"}, times=3, claim={"allow": 2, "deny": 1, "capacity": 10})
    o.reload(HOUR, sized(big=big, later=big), claim={"resized": 1})
    o.step(HOUR, {"tenant": "big"}, times=2, claim={"allow": 1, "deny": 1, "capacity": 8})
    o.step(HOUR, {"tenant": "later"}, claim={"deny": 1, "retry_after": "2h"})
    o.reload(HOUR, sized(big={"unlimited": True}))
    o.step(HOUR, {"tenant": "big"}, times=100, claim={"allow": 100})
    return [t, o]


FILES = (bucket, windows, sets)
