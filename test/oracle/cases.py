# SPDX-License-Identifier: Apache-2.0
"""The curated files: worked examples, founding examples and edges, each step with its reason and often a claim."""

from models import DAY, SECOND
from timeline import Timeline, instant, past_horizon

MS = 10**6
MINUTE = 60 * SECOND
HOUR = 3600 * SECOND
ACME = {"tenant": "acme"}


def limit(name="l", key=("tenant",), algorithm=None, rate="5/s", burst=None, **more):
    """A limit of a contract, fields in the order people write them."""
    fields = {"name": name}
    if "when" in more:
        fields["when"] = more.pop("when")
    fields["key"] = list(key)
    if algorithm:
        fields["algorithm"] = algorithm
    fields["rate"] = rate
    if burst is not None:
        fields["burst"] = burst
    fields.update({field.replace("_", "-"): value for field, value in more.items()})
    return fields


def token_bucket():
    t = Timeline("01-token-bucket", "The founding example: capacity 20, refill 5/s.",
                 [limit("tenant-requests", rate="5/s", burst=20)])
    t.step(0, ACME, peek=True, why="a new key starts full; looking charges nothing",
           claim={"allow": 1, "remaining": 20, "retry_after": "0s", "reset_after": "0s"})
    t.step(0, ACME, times=21, why="21 at once: the burst passes, one does not",
           claim={"allow": 20, "deny": 1, "remaining": 0, "retry_after": "200ms", "reset_after": "4s"})
    t.step(SECOND, ACME, times=6, why="a second brings five", claim={"allow": 5, "deny": 1})
    t.step(SECOND, ACME, cost=2, why="two need 0.4 s; a refusal costs nothing",
           claim={"deny": 1, "retry_after": "400ms"})
    t.step(SECOND + 200 * MS - 1, ACME, why="one nanosecond early", claim={"deny": 1, "retry_after": "1ns"})
    t.step(SECOND + 200 * MS, ACME, why="exactly then", claim={"allow": 1, "remaining": 0})
    t.step(5 * SECOND, ACME, cost=19, times=2, why="25 in the five seconds after a full burst, and no more",
           claim={"allow": 1, "deny": 1, "remaining": 0})
    t.step(5 * SECOND, ACME, cost=20, claim={"deny": 1, "retry_after": "4s"})
    t.step(5 * SECOND, ACME, cost=21, why="above the capacity no wait can help",
           claim={"never": 1, "retry_after": None, "capacity": 20})
    t.step(5 * SECOND, ACME, cost=0, why="a cost of zero looks, also at an empty bucket",
           claim={"allow": 1, "remaining": 0, "reset_after": "4s"})
    t.step(9 * SECOND - 1, ACME, peek=True, claim={"remaining": 19, "reset_after": "1ns"})
    t.step(9 * SECOND, ACME, cost=20, claim={"allow": 1, "remaining": 0, "reset_after": "4s"})
    t.step(8 * SECOND, ACME, why="an older stamp is stricter and mints nothing",
           claim={"deny": 1, "retry_after": "1s200ms"})
    t.step(9 * SECOND + 200 * MS, ACME, claim={"allow": 1, "remaining": 0})
    t.step(100 * DAY, ACME, times=21, why="a long sleep fills it once, not more", claim={"allow": 20, "deny": 1})
    t.step(100 * DAY, {"tenant": "other"}, claim={"allow": 1, "remaining": 19, "reset_after": "200ms"})
    past_horizon(t, ACME)
    return t


def leaky_bucket():
    t = Timeline("02-leaky-bucket", "The meter: a bucket of 10 that leaks 10 a second; the token bucket's twin.",
                 [limit("meter", algorithm="leaky-bucket", rate="10/s", burst=10)])
    t.step(0, ACME, cost=8, claim={"allow": 1, "remaining": 2, "reset_after": "800ms"})
    t.step(0, ACME, cost=3, claim={"deny": 1, "retry_after": "100ms", "remaining": 2})
    t.step(100 * MS, ACME, cost=3, claim={"allow": 1, "remaining": 0, "reset_after": "1s"})
    t.step(150 * MS, ACME, claim={"deny": 1, "retry_after": "50ms"})
    t.step(200 * MS - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(200 * MS, ACME, claim={"allow": 1})
    t.step(200 * MS, ACME, cost=11, claim={"never": 1, "retry_after": None})
    t.step(200 * MS, ACME, cost=0, claim={"allow": 1, "remaining": 0})
    t.step(2 * SECOND, ACME, cost=10, peek=True, claim={"allow": 1, "remaining": 10, "reset_after": "0s"})
    t.step(2 * SECOND, ACME, times=11, claim={"allow": 10, "deny": 1})
    past_horizon(t, ACME)
    return t


def fixed_window():
    t = Timeline("03-fixed-window", "60 per clock minute: twice that may pass around an edge, and explain says so.",
                 [limit("per-minute", algorithm="fixed-window", rate="60/1m")])
    t.step(MINUTE - 1, ACME, times=61, why="just before the edge",
           claim={"allow": 60, "deny": 1, "retry_after": "1ns", "reset_after": "1ns", "remaining": 0})
    t.step(MINUTE, ACME, times=61, why="and just after it", claim={"allow": 60, "deny": 1, "retry_after": "1m"})
    t.step(MINUTE - 1, ACME, why="a stale stamp counts in the newer window; the wait is from its own stamp",
           claim={"deny": 1, "retry_after": "1m1ns"})
    t.step(2 * MINUTE - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(2 * MINUTE, ACME, cost=59, claim={"allow": 1, "remaining": 1, "reset_after": "1m"})
    t.step(2 * MINUTE, ACME, cost=2, claim={"deny": 1, "remaining": 1})
    t.step(2 * MINUTE + 1, ACME, cost=61, claim={"never": 1, "retry_after": None, "capacity": 60})
    t.step(2 * MINUTE + 2, ACME, cost=0, claim={"allow": 1, "remaining": 1})
    t.step(2 * MINUTE + 2, ACME, peek=True, claim={"allow": 1, "remaining": 1})
    t.step(2 * MINUTE + 2, ACME, claim={"allow": 1, "remaining": 0})
    t.step(5000 * MINUTE, ACME, peek=True, claim={"allow": 1, "remaining": 60, "reset_after": "0s"})
    past_horizon(t, {"tenant": "late"})
    return t


def fixed_window_phase():
    t = Timeline("03-fixed-window-phase", "Windows are multiples of the period since 1970, wherever the clock starts.",
                 [limit("quarter", algorithm="fixed-window", rate="3/15m"),
                  limit("seven", key=("user",), algorithm="fixed-window", rate="2/7s")], start="2026-11-30T10:14:30Z")
    t.step(0, ACME, times=4, claim={"allow": 3, "deny": 1, "retry_after": "30s", "reset_after": "30s"})
    t.step(30 * SECOND - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(30 * SECOND, ACME, claim={"allow": 1, "remaining": 2, "reset_after": "15m"})
    into = instant("2026-11-30T10:15:00Z") % (7 * SECOND)
    edge = 30 * SECOND + 7 * SECOND - into
    t.step(30 * SECOND, {"user": "u"}, cost=2, why="seven seconds divide no minute: the edge is 1970's")
    t.step(edge - 1, {"user": "u"}, claim={"deny": 1, "retry_after": "1ns"})
    t.step(edge, {"user": "u"}, claim={"allow": 1, "reset_after": "7s"})
    return t


def first_request_window():
    t = Timeline("04-first-request-window", """A window that begins at a key's first request.
With 3 a window the start is kept to the nanosecond; with 100 it is rounded up to 16 ns, with 1000 to 128.""",
                 [limit("exact", algorithm="fixed-window", rate="3/10s", align="first-request"),
                  limit("coarse", key=("user",), algorithm="fixed-window", rate="100/10s", align="first-request"),
                  limit("coarser", key=("app",), algorithm="fixed-window", rate="1000/1m", align="first-request")])
    t.step(7 * SECOND + 3, ACME, claim={"allow": 1, "remaining": 2, "reset_after": "10s"})
    t.step(9 * SECOND, ACME, times=3, claim={"allow": 2, "deny": 1, "retry_after": "8s3ns"})
    t.step(17 * SECOND + 2, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(17 * SECOND + 3, ACME, claim={"allow": 1, "remaining": 2, "reset_after": "10s"})
    t.step(17 * SECOND + 3, ACME, cost=4, claim={"never": 1, "retry_after": None})
    t.step(17 * SECOND + 3, ACME, cost=0, claim={"allow": 1, "remaining": 2})
    t.step(17 * SECOND + 3, ACME, cost=3, peek=True, claim={"deny": 1, "retry_after": "10s"})
    t.step(3 * SECOND, ACME, why="a stale stamp counts in the stored window", claim={"allow": 1, "remaining": 1})
    t.step(27 * SECOND + 2, ACME, claim={"allow": 1, "remaining": 0})
    t.step(27 * SECOND + 2, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(60 * SECOND, ACME, peek=True, claim={"remaining": 3, "reset_after": "0s"})
    t.step(100 * SECOND + 1, {"user": "u"}, times=101, why="the start rounds up from ..01 to ..16",
           claim={"allow": 100, "deny": 1, "retry_after": "10s15ns"})
    t.step(110 * SECOND + 15, {"user": "u"}, claim={"deny": 1, "retry_after": "1ns"})
    t.step(110 * SECOND + 16, {"user": "u"}, claim={"allow": 1, "remaining": 99})
    t.step(200 * SECOND, {"app": "a"}, cost=1000, claim={"allow": 1, "remaining": 0, "reset_after": "1m"})
    t.step(300 * SECOND + 1, {"app": "a"}, claim={"allow": 1, "remaining": 999, "reset_after": "1m127ns"})
    past_horizon(t, {"tenant": "late"})
    return t


def calendar():
    berlin = limit("berlin-day", algorithm="fixed-window", rate="2/d", align="calendar Europe/Berlin")
    spring = Timeline("05-calendar-spring", "A civil day of 23 hours: clocks go forward on 2027-03-28 in Berlin.",
                      [berlin], start="2027-03-27T22:59:59Z")
    spring.step(0, ACME, times=3, why="one second before midnight in Berlin",
                claim={"allow": 2, "deny": 1, "retry_after": "1s"})
    spring.step(SECOND - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    spring.step(SECOND, ACME, times=3, why="the day has 23 hours",
                claim={"allow": 2, "deny": 1, "retry_after": "23h"})
    spring.step(0, ACME, why="a window that has begun is never reopened", claim={"deny": 1, "retry_after": "23h1s"})
    spring.step(SECOND + 23 * HOUR - 1, ACME, claim={"deny": 1})
    spring.step(SECOND + 23 * HOUR, ACME, cost=2, claim={"allow": 1, "remaining": 0, "reset_after": "1d"})
    spring.step(SECOND + 23 * HOUR, ACME, cost=3, claim={"never": 1, "retry_after": None})
    spring.step(2 * DAY, {"tenant": "b"}, cost=0, claim={"allow": 1, "remaining": 2, "reset_after": "0s"})

    autumn = Timeline("05-calendar-autumn", "A civil day of 25 hours: clocks go back on 2026-10-25 in Berlin.",
                      [berlin], start="2026-10-24T22:00:00Z")
    autumn.step(0, ACME, times=3, claim={"allow": 2, "deny": 1, "retry_after": "1d1h"})
    autumn.step(DAY, ACME, why="24 hours later it is still the same day", claim={"deny": 1, "retry_after": "1h"})
    autumn.step(DAY + HOUR, ACME, claim={"allow": 1, "remaining": 1, "reset_after": "1d"})

    units = Timeline("05-calendar-units", "Weeks from Monday, months and years of their true lengths, in UTC.",
                     [limit("week", algorithm="fixed-window", rate="3/w", align="calendar UTC"),
                      limit("month", key=("user",), algorithm="fixed-window", rate="2/month", align="calendar UTC"),
                      limit("year", key=("app",), algorithm="fixed-window", rate="1/year", align="calendar UTC")],
                     start="2027-12-31T23:59:59Z")
    user, app = {"user": "u"}, {"app": "a"}
    units.step(0, ACME, times=4, why="2027-12-31 is a Friday; the week ends on Monday the 3rd",
               claim={"allow": 3, "deny": 1, "retry_after": "2d1s"})
    units.step(0, user, times=3, claim={"allow": 2, "deny": 1, "retry_after": "1s"})
    units.step(0, app, times=2, claim={"allow": 1, "deny": 1, "retry_after": "1s"})
    units.step(SECOND, app, why="2028 is a leap year", claim={"allow": 1, "reset_after": "366d"})
    units.step(SECOND, user, cost=2, claim={"allow": 1, "reset_after": "31d"})
    units.step(2 * DAY + SECOND, ACME, claim={"allow": 1, "remaining": 2, "reset_after": "7d"})
    february = instant("2028-02-01T00:00:00Z") - instant("2027-12-31T23:59:59Z")
    units.step(february, user, times=3, why="February of a leap year",
               claim={"allow": 2, "deny": 1, "retry_after": "29d"})
    units.step(february + 29 * DAY - 1, user, claim={"deny": 1, "retry_after": "1ns"})
    units.step(february + 29 * DAY, user, claim={"allow": 1, "reset_after": "31d"})
    units.step(february + 29 * DAY, user, cost=3, claim={"never": 1})
    units.step(SECOND + 366 * DAY, app, claim={"allow": 1, "reset_after": "365d"})

    zones = Timeline("05-calendar-zones", "The same instant lies in different days: New York, Kathmandu, Lord Howe.",
                     [limit(name, key=(key,), algorithm="fixed-window", rate="1/d", align="calendar " + zone)
                      for name, key, zone in (("new-york", "user", "America/New_York"),
                                              ("kathmandu", "app", "Asia/Kathmandu"),
                                              ("lord-howe", "team", "Australia/Lord_Howe"))],
                     start="2026-11-01T00:00:00Z")
    for request in ({"user": "u"}, app, {"team": "t"}):
        zones.step(zones.now, request, times=2)
        end = zones.now + zones.last["retry_after"]
        zones.step(end - 1, request, claim={"deny": 1, "retry_after": "1ns"})
        zones.step(end, request, claim={"allow": 1})
        zones.step(end, request, why="and the day after")
        zones.step(end + zones.last["retry_after"], request, claim={"allow": 1})
    midnight = Timeline("05-calendar-midnight", """Clocks that change at midnight itself: Beirut skips the first hour of 2027-03-28 and repeats the last
of 2026-10-24; Cairo does so on 2027-04-30 and 2026-10-29.""",
                        [limit(name, key=(key,), algorithm="fixed-window", rate="1/d", align="calendar " + zone)
                         for name, key, zone in (("beirut", "user", "Asia/Beirut"), ("cairo", "app", "Africa/Cairo"))],
                        start="2026-10-23T12:00:00Z")
    zero = instant(midnight.start)
    for request, text, hours in (({"user": "u"}, "2026-10-23T21:00:00Z", 25), (app, "2026-10-28T21:00:00Z", 25),
                                 ({"user": "u"}, "2027-03-27T22:00:00Z", 23), (app, "2027-04-29T22:00:00Z", 23)):
        begins, length = instant(text) - zero, hours * HOUR
        midnight.step(begins - 1, request, times=2, why="the day before ends", claim={"deny": 1, "retry_after": "1ns"})
        midnight.step(begins, request, times=2, claim={"allow": 1, "deny": 1})
        assert midnight.last["retry_after"] == length, (text, midnight.last)
        midnight.step(begins + length - 1, request, claim={"deny": 1, "retry_after": "1ns"})
        midnight.step(begins + length, request, claim={"allow": 1, "reset_after": "1d"})
    late = Timeline("05-calendar-horizon", "Calendar windows at the end of the ten years.",
                    [limit("day", algorithm="fixed-window", rate="1/d", align="calendar UTC")])
    past_horizon(late, ACME)
    return [spring, autumn, units, zones, midnight, late]


def sliding_window():
    t = Timeline("06-sliding-window", """This minute's count plus the last one's, weighted: 100 a minute.
The worked example: 86 in the last minute, 12 in this one, 15 s into it.""",
                 [limit("weighted", algorithm="sliding-window", rate="100/1m")])
    t.step(30 * SECOND, ACME, times=86, claim={"allow": 86, "remaining": 14, "reset_after": "1m30s"})
    t.step(75 * SECOND, ACME, times=12, claim={"allow": 12, "remaining": 23, "reset_after": "1m45s"})
    t.step(75 * SECOND, ACME, cost=24, why="estimate 76.5; e' = 60 - 64*60/86 s of this window",
           claim={"deny": 1, "retry_after": "348ms837us210ns", "remaining": 23})
    t.step(75 * SECOND, ACME, cost=30, claim={"deny": 1, "retry_after": "4s534ms883us721ns"})
    t.step(75 * SECOND, ACME, cost=101, claim={"never": 1, "retry_after": None})
    t.step(75 * SECOND, ACME, cost=0, claim={"allow": 1, "remaining": 23})
    t.step(75 * SECOND + 348837209, ACME, cost=24, peek=True, claim={"deny": 1, "retry_after": "1ns"})
    t.step(75 * SECOND + 348837210, ACME, cost=24, peek=True, claim={"allow": 1})
    t.step(70 * SECOND, ACME, why="an older stamp inside the window sees more of the last one",
           claim={"allow": 1, "remaining": 15})
    t.step(10 * SECOND, ACME, cost=1, why="one of an older window counts at the start of the stored one",
           claim={"allow": 1, "remaining": 0})
    t.step(75 * SECOND, ACME, cost=21, claim={"allow": 1, "remaining": 0})
    t.step(75 * SECOND, ACME, cost=66, why="needs the next window: 35 of this one must fade below 34")
    passes_at = 75 * SECOND + t.last["retry_after"]
    t.step(passes_at - 1, ACME, cost=66, claim={"deny": 1, "retry_after": "1ns"})
    t.step(passes_at, ACME, cost=66, claim={"allow": 1, "remaining": 0})
    t.step(t.now + 2 * MINUTE, ACME, peek=True, claim={"remaining": 100, "reset_after": "0s"})
    past_horizon(t, {"tenant": "late"})

    edge = Timeline("06-sliding-window-edge", "No double quota at an edge: 60 just before it leave room for none.",
                    [limit("weighted", algorithm="sliding-window", rate="60/1m")])
    edge.step(MINUTE - 1, ACME, times=61, claim={"allow": 60, "deny": 1, "retry_after": "1s1ns"})
    edge.step(MINUTE, ACME, claim={"deny": 1, "retry_after": "1s"})
    edge.step(61 * SECOND - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    edge.step(61 * SECOND, ACME, times=2, claim={"allow": 1, "deny": 1, "retry_after": "1s"})
    edge.step(90 * SECOND, ACME, times=30, claim={"allow": 29, "deny": 1, "remaining": 0, "retry_after": "1s"})
    edge.step(2 * MINUTE - 1, ACME, times=31, claim={"allow": 29, "deny": 2})
    edge.step(2 * MINUTE, ACME, times=2, why="59 weigh whole at the start", claim={"allow": 1, "deny": 1})
    edge.step(4 * MINUTE, ACME, times=61, why="two windows on nothing is left of it",
              claim={"allow": 60, "deny": 1})
    return [t, edge]


def sliding_log():
    t = Timeline("07-sliding-log", "Exactly 60 in any minute: a stamp one period old no longer counts.",
                 [limit("exact", algorithm="sliding-log", rate="60/1m")])
    t.step(MINUTE - 1, ACME, times=60, claim={"allow": 60, "remaining": 0, "reset_after": "1m"})
    t.step(MINUTE, ACME, times=2, claim={"deny": 2, "retry_after": "59s999ms999us999ns"})
    t.step(2 * MINUTE - 2, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(2 * MINUTE - 1, ACME, cost=60, claim={"allow": 1, "remaining": 0, "reset_after": "1m"})
    t.step(2 * MINUTE, ACME, cost=61, claim={"never": 1, "retry_after": None})
    t.step(2 * MINUTE, ACME, cost=0, claim={"allow": 1, "remaining": 0})
    t.step(MINUTE, ACME, why="a stale stamp is decided at the newest one; the wait is from its own",
           claim={"deny": 1, "retry_after": "1m59s999ms999us999ns"})
    t.step(4 * MINUTE, ACME, cost=20, claim={"allow": 1, "remaining": 40})
    t.step(4 * MINUTE + SECOND, ACME, cost=30, claim={"allow": 1, "remaining": 10, "reset_after": "1m"})
    t.step(4 * MINUTE + 2 * SECOND, ACME, cost=31, why="more than the oldest must leave",
           claim={"deny": 1, "retry_after": "59s"})
    t.step(4 * MINUTE + 2 * SECOND, ACME, cost=30, claim={"deny": 1, "retry_after": "58s"})
    t.step(4 * MINUTE + 2 * SECOND, ACME, cost=10, peek=True, claim={"allow": 1, "remaining": 10})
    t.step(9 * MINUTE, ACME, peek=True, claim={"remaining": 60, "reset_after": "0s"})
    past_horizon(t, {"tenant": "late"})
    return t


def still_rates():
    t = Timeline("08-no-refill", """Rate 0 grants the burst once; a burst of 0, or a window of 0, blocks: always never.""",
                 [limit("still", rate="0/s", burst=3), limit("still-leaky", key=("user",), algorithm="leaky-bucket",
                                                             rate="0/1h", burst=2),
                  limit("blocked", key=("app",), rate="5/s", burst=0),
                  limit("shut", key=("team",), algorithm="fixed-window", rate="0/1m"),
                  limit("shut-sliding", key=("org",), algorithm="sliding-window", rate="0/1m")])
    t.step(0, ACME, times=4, claim={"allow": 3, "deny": 1, "remaining": 0, "retry_after": None, "reset_after": None})
    t.step(3000 * DAY, ACME, claim={"deny": 1, "retry_after": None})
    t.step(3000 * DAY, ACME, cost=4, claim={"never": 1})
    t.step(3000 * DAY, {"tenant": "new"}, peek=True, claim={"allow": 1, "remaining": 3, "reset_after": "0s"})
    t.step(3000 * DAY, {"user": "u"}, cost=2, claim={"allow": 1, "remaining": 0, "reset_after": None})
    t.step(3000 * DAY, {"user": "u"}, claim={"deny": 1, "retry_after": None})
    for name in ("app", "team", "org"):
        t.step(3000 * DAY, {name: "x"}, claim={"never": 1, "retry_after": None, "capacity": 0, "remaining": 0})
        t.step(3000 * DAY, {name: "x"}, cost=0, claim={"allow": 1, "remaining": 0})
    return t


def extremes():
    t = Timeline("08-extremes", """Rates at the ends of the scale. 1 a year with a burst of 2^31 has ticks of 29 ms:
only what holds for the exact bucket and for the strict rule alike is stated.""",
                 [limit("yearly", key=("a",), rate="1/365d", burst=1),
                  limit("yearly-huge", key=("b",), rate="1/365d", burst=2**31),
                  limit("per-ns", key=("c",), rate="1000000000/s", burst=2**31),
                  limit("fast", key=("d",), rate="300000000/s", burst=1),
                  limit("inexact", key=("e",), rate="999/s", burst=100),
                  limit("sevenths", key=("f",), rate="7/s", burst=10),
                  limit("three-days", key=("g",), rate="1/3d", burst=3)])
    t.step(1234567891, {"f": "x"}, cost=10, claim={"allow": 1, "remaining": 0})
    t.step(1234567891, {"f": "x"}, why="one seventh of a second, rounded up",
           claim={"deny": 1, "retry_after": "142ms857us143ns"})
    t.step(1234567891 + 142857142, {"f": "x"}, claim={"deny": 1})
    t.step(1234567891 + 142857143, {"f": "x"}, claim={"allow": 1})
    t.step(2 * SECOND, {"d": "x"}, times=2, claim={"allow": 1, "deny": 1, "retry_after": "4ns"})
    t.step(2 * SECOND + 3, {"d": "x"}, claim={"deny": 1, "retry_after": "1ns"})
    t.step(2 * SECOND + 4, {"d": "x"}, claim={"allow": 1})
    t.step(3 * SECOND, {"c": "x"}, cost=2**31, claim={"allow": 1, "remaining": 0, "reset_after": "2s147ms483us648ns"})
    t.step(3 * SECOND, {"c": "x"}, claim={"deny": 1, "retry_after": "1ns"})
    t.step(3 * SECOND + 1000, {"c": "x"}, cost=1000, claim={"allow": 1, "remaining": 0})
    t.step(4 * SECOND, {"a": "x"}, times=2, claim={"allow": 1, "deny": 1, "retry_after": "365d"})
    t.step(4 * SECOND, {"b": "x"}, cost=2**31, why="full again only after the ten years",
           claim={"allow": 1, "remaining": 0, "reset_after": None})
    t.step(4 * SECOND, {"b": "x"}, cost=2**30, claim={"deny": 1, "retry_after": None})
    t.step(5 * SECOND, {"e": "x"}, times=101, claim={"allow": 100, "deny": 1})
    t.step(5 * SECOND + 2 * MS, {"e": "x"}, claim={"allow": 1})
    t.step(5 * SECOND + 2 * MS, {"e": "x"}, claim={"deny": 1})
    t.step(6 * SECOND, {"g": "x"}, times=4, claim={"allow": 3, "deny": 1, "retry_after": "3d", "reset_after": "9d"})
    t.step(6 * SECOND + 3 * DAY - 1, {"g": "x"}, claim={"deny": 1})
    t.step(6 * SECOND + 3 * DAY, {"g": "x"}, claim={"allow": 1, "reset_after": "9d"})
    t.step(4 * SECOND + 365 * DAY - 1, {"a": "x"}, claim={"deny": 1, "retry_after": "1ns"})
    t.step(4 * SECOND + 365 * DAY, {"a": "x"}, claim={"allow": 1})
    return t


FILES = (token_bucket, leaky_bucket, fixed_window, fixed_window_phase, first_request_window, calendar,
         sliding_window, sliding_log, still_rates, extremes)
