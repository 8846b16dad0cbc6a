# SPDX-License-Identifier: Apache-2.0
"""The field cases in reach of a timeline, named by their numbers; claims are the reports' right answers."""

from cases import ACME, DAY, HOUR, MINUTE, MS, SECOND, limit
from models import HORIZON
from timeline import Timeline, instant


def b01():
    t = Timeline("B01-zero-refill-rate", "B01: a refill rate of 0 admits the burst once; every denial says never (null).",
                 [limit("one", rate="0/s", burst=1), limit("five", key=("user",), rate="0/s", burst=5)])
    t.step(0, ACME, claim={"allow": 1})
    for at in (MS, SECOND, MINUTE, HOUR, 1000000 * SECOND):
        t.step(at, ACME, claim={"deny": 1, "retry_after": None})
    t.step(1000000 * SECOND, {"user": "u"}, times=6, claim={"allow": 5, "deny": 1, "retry_after": None})
    t.step(1086400 * SECOND, {"user": "u"}, claim={"deny": 1, "retry_after": None})
    return t


def b03():
    t = Timeline("B03-frequent-polling", "B03: polling often must not starve the refill: 10, one per 10 s.",
                 [limit("slow", rate="1/10s", burst=10)])
    t.step(0, ACME, times=11, claim={"allow": 10, "deny": 1, "retry_after": "10s"})
    for poll in range(1, 251):
        at = poll * 400 * MS
        t.step(at, ACME, claim={"allow" if at % (10 * SECOND) == 0 else "deny": 1})
    other = {"tenant": "b"}
    base = t.now
    t.step(base, other, times=10, why="(b) the fraction already earned is kept", claim={"allow": 10})
    t.step(base + 25 * SECOND, other, claim={"allow": 1, "remaining": 1})
    t.step(base + 25 * SECOND, other, claim={"allow": 1, "remaining": 0})
    t.step(base + 25 * SECOND, other, claim={"deny": 1, "retry_after": "5s"})
    t.step(base + 29 * SECOND, other, claim={"deny": 1, "retry_after": "1s"})
    t.step(base + 30 * SECOND, other, claim={"allow": 1})
    return t


def b07():
    limits = [limit(name, key=(key,), algorithm=name, rate="5/1m", **({"burst": 5} if "bucket" in name else {}))
              for name, key in (("token-bucket", "a"), ("leaky-bucket", "b"), ("fixed-window", "c"),
                                ("sliding-window", "d"), ("sliding-log", "e"))]
    t = Timeline("B07-cost-zero-looks", "B07: a cost of 0 looks and changes nothing (negative ones are not integers here).",
                 limits)
    for name in "abcde":
        t.step(0, {name: "x"}, cost=5, claim={"allow": 1})
        t.step(0, {name: "x"}, claim={"deny": 1})
        t.step(0, {name: "x"}, cost=0, claim={"allow": 1, "remaining": 0})
        t.step(0, {name: "x"}, claim={"deny": 1})
    return t


def b09():
    t = Timeline("B09-beyond-32-bits", """B09 (d, e): bursts and counts above 2^32 are kept exactly.
2 TiB/s is 2199 tokens a nanosecond, more than a tick can count: it is refused at load (limit tests); 2 GiB/s stands in.""",
                 [limit("bytes", rate="2147483648/s", burst=34359738368),
                  limit("daily", key=("user",), algorithm="fixed-window", rate="4294967296/d"),
                  limit("daily-first", key=("app",), algorithm="fixed-window", rate="4294967296/d",
                        align="first-request"),
                  limit("ten-years", key=("team",), rate="3/3650d", burst=3)])
    t.step(0, ACME, cost=34359738368, claim={"allow": 1, "remaining": 0, "reset_after": "16s"})
    t.step(0, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(0, ACME, cost=34359738369, claim={"never": 1})
    t.step(SECOND, {"user": "u"}, cost=4294967295, claim={"allow": 1, "remaining": 1})
    t.step(SECOND, {"user": "u"}, claim={"allow": 1, "remaining": 0})
    t.step(SECOND, {"user": "u"}, claim={"deny": 1, "capacity": 4294967296})
    t.step(SECOND, {"user": "u"}, cost=4294967297, claim={"never": 1})
    t.step(2 * SECOND, {"app": "a"}, cost=4294967296, claim={"allow": 1, "remaining": 0})
    t.step(2 * SECOND, {"app": "a"}, claim={"deny": 1})
    t.step(3 * SECOND, {"team": "t"}, times=3, claim={"allow": 3})
    t.step(3 * SECOND + 40 * DAY, {"team": "t"}, why="(b) 40 days later", claim={"deny": 1})
    return t


def b11():
    t = Timeline("B11-clock-steps", """B11 (a): explicit stamps that step back. The report wants a step back to count as no time; a bucket kept in
one word does not know its newest stamp, so here an older stamp is stricter: it may be refused, it mints nothing, and
nothing is lost when the clock is back. (The server's clock cannot step.)""", [limit("ten", rate="1/s", burst=10)])
    for remaining in (9, 8, 7):
        t.step(1000 * SECOND, ACME, claim={"allow": 1, "remaining": remaining})
    t.step(989 * SECOND, ACME, why="three used at 1000 look like fourteen at 989",
           claim={"deny": 1, "remaining": 0, "retry_after": "5s"})
    t.step(989 * SECOND + 500 * MS, ACME, claim={"deny": 1, "retry_after": "4s500ms"})
    t.step(994 * SECOND - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(1000 * SECOND, ACME, why="returning mints nothing, and took nothing", claim={"allow": 1, "remaining": 6})
    t.step(1001 * SECOND, ACME, claim={"allow": 1, "remaining": 6})
    t.step(995 * SECOND, ACME, why="used at 995 stands at 10 of 10", claim={"deny": 1, "remaining": 0})
    t.step(1005 * SECOND, ACME, claim={"allow": 1, "remaining": 9})
    return t


def b13():
    month = Timeline("B13-calendar-month", "B13: a month is a month: 3 a month in UTC.",
                     [limit("monthly", algorithm="fixed-window", rate="3/month", align="calendar UTC")],
                     start="2027-03-02T12:00:00Z")
    zero = instant(month.start)
    month.step(0, ACME, times=3, claim={"allow": 3, "reset_after": "29d12h"})
    for text, claim in (("2027-03-03T12:00:00Z", {"deny": 1, "retry_after": "28d12h"}),  # 2,462,400 s
                        ("2027-03-31T23:59:59Z", {"deny": 1, "retry_after": "1s"}),
                        ("2027-04-01T00:00:00Z", {"allow": 1, "remaining": 2, "reset_after": "30d"})):
        month.step(instant(text) - zero, ACME, claim=claim)

    week = Timeline("B13-weeks", "B13: a plain week is 7 days from 1970, a Thursday; a calendar week begins on Monday.",
                    [limit("seven-days", algorithm="fixed-window", rate="3/w"),
                     limit("monday", key=("user",), algorithm="fixed-window", rate="3/w", align="calendar UTC")],
                    start="2027-01-13T23:59:59Z")
    week.step(0, ACME, times=3, claim={"allow": 3, "reset_after": "1s"})
    week.step(0, {"user": "u"}, times=3, claim={"allow": 3, "reset_after": "4d1s"})
    week.step(SECOND, ACME, why="2027-01-14 is a Thursday", claim={"allow": 1, "reset_after": "7d"})
    week.step(SECOND, {"user": "u"}, claim={"deny": 1, "retry_after": "4d"})
    return [month, week]


def b15():
    files = []
    for name, milliseconds in (("2-31-ms", 2**31), ("2-32-ms", 2**32)):
        t = Timeline("B15-clock-wrap-" + name, f"B15: nothing happens at {name.replace('-', '^', 1).replace('-', ' ')}.",
                     [limit("bucket", rate="1/s", burst=2),
                      limit("log", key=("user",), algorithm="sliding-log", rate="2/10s"),
                      limit("window", key=("app",), algorithm="fixed-window", rate="2/10s", align="first-request")])
        base = (milliseconds - 500) * MS
        for offset, claim in ((0, {"allow": 1}), (0, {"allow": 1}), (0, {"deny": 1, "retry_after": "1s"}),
                              (600, {"deny": 1, "retry_after": "400ms"}), (1100, {"allow": 1}), (2200, {"allow": 1})):
            t.step(base + offset * MS, ACME, claim=claim)
        files.append(t)
        u = Timeline("B15-log-wrap-" + name, "B15: the log and the first-request window across the same instant.",
                     t.limits)
        base = (milliseconds - 500) * MS
        for offset, claim in ((0, {"allow": 1}), (100, {"allow": 1}), (600, {"deny": 1, "retry_after": "9s400ms"}),
                              (10001, {"allow": 1})):
            u.step(base + offset * MS, {"user": "u"}, claim=claim)
            u.step(base + offset * MS, {"app": "a"})
        files.append(u)
    late = Timeline("B15-clock-wrap-seconds", "B15: 2^32 s lies beyond the ten years: not decided, never wrapped.",
                    [limit("bucket", rate="1/s", burst=2)])
    late.step(HORIZON, ACME, claim={"allow": 1})
    late.step(2**32 * SECOND, ACME, claim={"refused": 1, "reason": "time"})
    late.step(HORIZON, ACME, why="and it left no trace", claim={"allow": 1, "remaining": 0})
    return files + [late]


def b17():
    t = Timeline("B17-window-edge", "B17: ten at 59 s and ten at 61 s, at most 10 a minute.",
                 [limit("fixed", algorithm="fixed-window", rate="10/1m"),
                  limit("log", key=("user",), algorithm="sliding-log", rate="10/1m"),
                  limit("sliding", key=("app",), algorithm="sliding-window", rate="10/1m")])
    user, app = {"user": "u"}, {"app": "a"}
    for request in (ACME, user, app):
        t.step(59 * SECOND, request, times=10, claim={"allow": 10})
    t.step(61 * SECOND, ACME, times=10, why="fixed window: 20 around an edge", claim={"allow": 10})
    t.step(61 * SECOND, user, times=10, claim={"deny": 10, "retry_after": "58s"})
    t.step(61 * SECOND, app, times=10, why="the estimate is 9.83", claim={"deny": 10, "retry_after": "5s"})
    t.step(66 * SECOND - 1, app, claim={"deny": 1, "retry_after": "1ns"})
    t.step(66 * SECOND, app, claim={"allow": 1})
    t.step(118999 * MS, user, claim={"deny": 1, "retry_after": "1ms"})
    t.step(119 * SECOND, user, claim={"allow": 1})
    return t


def b19():
    t = Timeline("B19-log-retry", "B19: a place in the log frees when its oldest stamp leaves, not a whole window later.",
                 [limit("two", algorithm="sliding-log", rate="2/1m"),
                  limit("ten", key=("user",), algorithm="sliding-log", rate="10/1m")])
    user = {"user": "u"}
    for at, claim in ((0, {"allow": 1}), (10000, {"allow": 1}), (20000, {"deny": 1, "retry_after": "40s"}),
                      (59999, {"deny": 1, "retry_after": "1ms"}), (60000, {"allow": 1}),
                      (61000, {"deny": 1, "retry_after": "9s"}), (70000, {"allow": 1})):
        t.step(at * MS, ACME, claim=claim)
    for second in range(100, 120, 2):
        t.step(second * SECOND, user, why="(b)" if second == 100 else None, claim={"allow": 1})
    t.step(120 * SECOND, user, claim={"deny": 1, "retry_after": "40s"})
    t.step(160 * SECOND, user, claim={"allow": 1})
    other = {"tenant": "c"}
    t.step(200 * SECOND, other, why="(c) both old events must leave", claim={"allow": 1})
    t.step(210 * SECOND, other, claim={"allow": 1})
    t.step(220 * SECOND, other, cost=2, claim={"deny": 1, "retry_after": "50s"})
    t.step(270 * SECOND - 1, other, cost=2, claim={"deny": 1, "retry_after": "1ns"})
    t.step(270 * SECOND, other, cost=2, claim={"allow": 1})
    return t


def b22():
    t = Timeline("B22-exact-wait", "B22: the wait counts the part of a token already earned, and the burst.",
                 [limit("one", rate="1/s", burst=1), limit("five", key=("user",), rate="1/s", burst=5),
                  limit("scaled", key=("app",), rate="500/s", burst=500)])
    t.step(0, ACME, claim={"allow": 1})
    t.step(200 * MS, ACME, claim={"deny": 1, "retry_after": "800ms"})
    t.step(SECOND, {"user": "u"}, times=6, claim={"allow": 5, "deny": 1, "retry_after": "1s", "reset_after": "5s"})
    t.step(SECOND, {"user": "u"}, cost=3, claim={"deny": 1, "retry_after": "3s", "reset_after": "5s"})
    t.step(2 * SECOND, {"app": "a"}, cost=500, why="(c) half a token, scaled by 1000", claim={"allow": 1})
    t.step(2400 * MS, {"app": "a"}, cost=500, claim={"deny": 1, "retry_after": "600ms"})
    return t


def b23():
    t = Timeline("B23-refused-is-free", "B23: refused attempts do not extend the block.",
                 [limit("log", algorithm="sliding-log", rate="2/4s"),
                  limit("fixed", key=("user",), algorithm="fixed-window", rate="2/6s"),
                  limit("sliding", key=("app",), algorithm="sliding-window", rate="2/4s")])
    for second, outcome in enumerate("aaddaadda"):
        t.step(second * SECOND, ACME, claim={"allow" if outcome == "a" else "deny": 1})
    base = 12 * SECOND
    for step in range(13):
        t.step(base + 5 * step * SECOND, {"user": "u"}, claim={"allow": 1})
    for second in range(80, 100):
        t.step(second * SECOND, {"app": "a"}, why="a sliding window under polling" if second == 80 else None)
    return t


def b33():
    t = Timeline("B33-fast-limits", "B33: a limit faster than a second is still a limit.",
                 [limit("fast", rate="3/s", burst=1), limit("wide", key=("user",), algorithm="sliding-log", rate="5/250ms"),
                  limit("thousand", key=("app",), algorithm="fixed-window", rate="1000/s")])
    for at in (0, 5 * SECOND):
        t.step(at, ACME, times=100, claim={"allow": 1, "deny": 99})
        t.step(at, {"user": "u"}, times=6, claim={"allow": 5, "deny": 1, "retry_after": "250ms"})
        t.step(at, {"app": "a"}, cost=1000, claim={"allow": 1})
        t.step(at, {"app": "a"}, claim={"deny": 1, "retry_after": "1s"})
    return t


def b57():
    user = limit("per-user", key=("user",), algorithm="fixed-window", rate="1/1m")
    everybody = limit("everybody", key=(), algorithm="fixed-window", rate="10/1m")
    t = Timeline("B57-all-or-nothing", "B57 (a): a limit that refuses leaves the others undebited.", [user, everybody])
    t.step(0, {"user": "u1"}, times=20, claim={"allow": 1, "deny": 19, "limit": "per-user"})
    for number in range(2, 11):
        t.step(0, {"user": f"u{number}"}, claim={"allow": 1})
    for number in (11, 12):
        t.step(0, {"user": f"u{number}"}, claim={"deny": 1, "limit": "everybody"})
    t.step(MINUTE, {"user": "u11"}, why="u11 was not charged for its refusal", claim={"allow": 1})
    t.step(MINUTE, {"user": "u11"}, claim={"deny": 1, "limit": "per-user"})

    fresh = [limit("minute", algorithm="fixed-window", rate="10/1m"),
             limit("half-hour", algorithm="fixed-window", rate="30/30m")]
    s = Timeline("B57-long-budget", "B57 (b): refusals by the minute do not eat the half hour.", fresh)
    allowed = 0
    for number in range(31):
        allowed += s.step(number * 3800 * MS, ACME)["decision"] == "allow"
    assert allowed == 20
    s.step(2 * MINUTE, ACME, times=11, claim={"allow": 10, "deny": 1})
    s.step(3 * MINUTE, ACME, claim={"deny": 1, "limit": "half-hour", "retry_after": "27m"})

    three = [limit("bucket", key=("tenant",), rate="1/s", burst=5),
             limit("log", key=("user",), algorithm="sliding-log", rate="2/10s"),
             limit("global", key=(), algorithm="sliding-window", rate="4/10s")]
    u = Timeline("B57-three-kinds", "B57: bucket, log and sliding window together; whichever refuses, none is charged.",
                 three)
    a, b = {"tenant": "t", "user": "a"}, {"tenant": "t", "user": "b"}
    u.step(0, a, times=3, claim={"allow": 2, "deny": 1, "limit": "log", "retry_after": "10s"})
    u.step(0, {"tenant": "t"}, peek=True, claim={"allow": 1})
    u.step(0, b, times=3, claim={"allow": 2, "deny": 1, "limit": "global"})
    u.step(0, {"tenant": "t"}, claim={"deny": 1, "limit": "global"})
    u.step(20 * SECOND, b, times=2, claim={"allow": 2})
    u.step(20 * SECOND, a, cost=5, why="more than two of the three can ever give", claim={"never": 1})
    return [t, s, u]


FILES = (b01, b03, b07, b09, b11, b13, b15, b17, b19, b22, b23, b33, b57)
