# SPDX-License-Identifier: Apache-2.0
"""The field cases about reservations, reloads and several limits, by their numbers; claims are the reports' right answers."""

from cases import ACME, HOUR, MINUTE, MS, SECOND, limit
from timeline import Timeline

USER = {"user": "u"}


def b27():
    t = Timeline("B27-cancel", """B27 (a, c): cancelling gives back all that was reserved, whatever others reserved since; twice gives nothing.
(Waiting is not in this version, so the report's R of 10 is refused, with the wait that it names.)""",
                 [limit("twenty", rate="10/s", burst=20)])
    t.reserve(0, ACME, "first", cost=15, claim={"allow": 1})
    t.reserve(100 * MS, ACME, "r", cost=10, claim={"deny": 1, "retry_after": "400ms"})
    t.reserve(100 * MS, ACME, "small", cost=6, claim={"allow": 1, "remaining": 0})
    t.reserve(200 * MS, ACME, "later", claim={"allow": 1, "remaining": 0})
    t.cancel(250 * MS, "small", why="20 + 2.5 - 15 - 1 = 6.5 are there", claim={"returned": 6, "remaining": 6})
    t.cancel(250 * MS, "small", claim={"returned": 0, "repeated": True})
    t.step(250 * MS, ACME, times=7, claim={"allow": 6, "deny": 1, "retry_after": "50ms"})
    t.cancel(10 * SECOND, "first", why="never above the capacity", claim={"returned": 0, "remaining": 20})
    t.step(10 * SECOND, ACME, times=21, claim={"allow": 20, "deny": 1})

    files = [t]
    for rate in (7, 30, 60, 100):
        u = Timeline(f"B27-cancel-{rate}", f"B27 (b): reserved and cancelled at one instant, at {rate}/s; nothing is lost to rounding.",
                     [limit("one", rate=f"{rate}/s", burst=1), limit("three", key=("user",), rate=f"{rate}/s", burst=3)])
        for at in (0, 123456789, 5 * SECOND + 1):
            u.reserve(at, ACME, f"a{at}", claim={"allow": 1})
            u.cancel(at, f"a{at}", claim={"returned": 1, "remaining": 1})
            u.step(at, ACME, peek=True, claim={"allow": 1, "remaining": 1})
            for number in range(3):
                u.reserve(at, USER, f"b{at}-{number}", claim={"allow": 1})
            for number in (2, 1, 0):
                u.cancel(at, f"b{at}-{number}", claim={"returned": 1})
            u.step(at, USER, times=4, claim={"allow": 3, "deny": 1})
            u.refund(at, USER, 3, claim={"returned": 3, "remaining": 3})
        files.append(u)
    return files


def b54():
    def limits(name="bucket", other="1/s"):
        return [limit(name, rate="1/s", burst=100), limit("window", key=("user",), algorithm="fixed-window", rate="50/60s"),
                limit("unrelated", key=("app",), rate=other, burst=5)]
    t = Timeline("B54-reload", """B54: reloading hands out no burst. 100 at once and one a second, 50 a minute; drained, then the unchanged file is
loaded each second.""", limits())
    t.step(0, ACME, times=101, claim={"allow": 100, "deny": 1})
    t.step(0, USER, times=51, claim={"allow": 50, "deny": 1})
    for second in range(1, 31):
        t.reload(second * SECOND, limits(), claim={"kept": 3, "resized": 0})
        t.step(second * SECOND, ACME, times=2, claim={"allow": 1, "deny": 1})
        t.step(second * SECOND, USER, claim={"deny": 1})
    t.reload(31 * SECOND, limits(other="2/s"), why="only an unrelated limit changes", claim={"kept": 2, "resized": 1})
    t.step(31 * SECOND, ACME, times=2, claim={"allow": 1, "deny": 1})
    t.step(31 * SECOND, USER, claim={"deny": 1, "retry_after": "29s"})
    t.reload(32 * SECOND, limits("renamed", "2/s"), why="another name is another limit: it begins afresh, and the reload says so",
             claim={"added": 1, "removed": 1, "kept": 2})
    t.step(32 * SECOND, ACME, times=101, claim={"allow": 100, "deny": 1})
    t.step(60 * SECOND, USER, times=51, claim={"allow": 50, "deny": 1})
    return t


def b56():
    def size(rate, burst):
        return [limit("k", rate=rate, burst=burst)]
    t = Timeline("B56-live-keys", "B56 (a - c): new limits reach keys that exist, at once, and give no fresh burst.", size("30/s", 30))
    t.step(0, ACME, times=12, why="the key is busy", claim={"allow": 12})
    t.reload(0, size("5/s", 5), why="(a) at most five of ten")
    t.step(0, ACME, times=10, claim={"deny": 10})
    t.step(0, {"tenant": "new"}, times=10, claim={"allow": 5, "deny": 5})
    t.step(2 * SECOND, ACME, times=10, why="12 - 10 are used", claim={"allow": 3, "deny": 7})
    t.reload(2 * SECOND, size("30/s", 30), why="(b) the old balance, and then the new rate")
    t.step(2 * SECOND, ACME, times=30, claim={"allow": 25, "deny": 5})
    t.step(2100 * MS, ACME, times=30, claim={"allow": 3, "deny": 27})
    t.reload(3 * SECOND, size("30/s", 0), why="(c) blocked at once")
    t.step(3 * SECOND, ACME, times=3, claim={"never": 3})
    t.step(3 * SECOND, {"tenant": "new"}, claim={"never": 1})
    t.reload(4 * SECOND, size("100/s", 100), why="and then 100/s applies")
    t.step(4 * SECOND, ACME, times=101, claim={"allow": 100, "deny": 1})
    t.step(4010 * MS, ACME, times=2, claim={"allow": 1, "deny": 1})

    w = Timeline("B56-live-windows", "B56 with windows: a count that is lowered or raised applies to what was counted.",
                 [limit("fixed", algorithm="fixed-window", rate="10/1m"),
                  limit("sliding", key=("user",), algorithm="sliding-window", rate="10/1m"),
                  limit("log", key=("app",), algorithm="sliding-log", rate="10/1m")])
    app = {"app": "a"}
    for request in (ACME, USER, app):
        w.step(SECOND, request, times=6, claim={"allow": 6})
    w.reload(2 * SECOND, [{**one, "rate": "5/1m"} for one in w.limits], claim={"resized": 3})
    for request in (ACME, USER, app):
        w.step(2 * SECOND, request, claim={"deny": 1, "remaining": 0, "capacity": 5})
    w.reload(3 * SECOND, [{**one, "rate": "8/1m"} for one in w.limits], claim={"resized": 3})
    for request in (ACME, USER, app):
        w.step(3 * SECOND, request, times=3, claim={"allow": 2, "deny": 1, "capacity": 8})
    return [t, w]


def b57():
    three = [limit("user", key=("user",), rate="1/m", burst=4, debt=2), limit("tenant", rate="1/m", burst=10),
             limit("global", key=(), algorithm="fixed-window", rate="12/1h")]
    t = Timeline("B57-reservations", """B57 with reservations: one that a limit refuses takes from none, one that is cancelled gives back to each,
and what one limit drops is charged to the others.""", three)
    a, b = {"tenant": "t", "user": "a"}, {"tenant": "t", "user": "b"}
    t.reserve(0, a, "one", cost=4, claim={"allow": 1, "limit": "user", "remaining": 0})
    t.reserve(0, a, "two", claim={"deny": 1, "limit": "user"})
    t.reserve(0, b, "three", cost=5, claim={"never": 1, "limit": "user"})
    t.step(0, {"tenant": "t"}, peek=True, why="4 of 10 are used: nothing of the refused", claim={"allow": 1, "remaining": 6})
    t.cancel(0, "one", claim={"returned": 4, "remaining": 4, "limit": "user"})
    t.step(0, {"tenant": "t"}, peek=True, claim={"allow": 1, "remaining": 10})
    t.reserve(0, a, "four", cost=4)
    t.reserve(0, b, "five", cost=4)
    t.settle(0, "four", 8, why="two into the user's debt, two more of the tenant, four of all",
             claim={"charged": 4, "dropped": 2, "remaining": 0})
    t.step(0, {"tenant": "t"}, why="both are spent; the hour frees last", claim={"deny": 1, "limit": "global"})
    t.step(0, {}, claim={"deny": 1, "limit": "global"})
    t.step(0, {"user": "a"}, claim={"deny": 1})

    u = Timeline("B57-charged", """B57: counting anyway is an option that is named (refused: charged), and concerns the limit that refuses alone.""",
                 [limit("user", key=("user",), algorithm="fixed-window", rate="2/1m", refused="charged"),
                  limit("everybody", key=(), algorithm="fixed-window", rate="10/1m")])
    u.step(0, {"user": "u1"}, times=20, claim={"allow": 2, "deny": 18, "limit": "user"})
    for number in range(2, 6):
        u.step(0, {"user": f"u{number}"}, times=2, claim={"allow": 2})
    u.step(0, {"user": "u6"}, times=2, claim={"deny": 2, "limit": "everybody"})
    u.step(MINUTE, {"user": "u6"}, times=3, claim={"allow": 2, "deny": 1, "limit": "user"})
    return [t, u]


def f10():
    def per(period, count):
        return limit(period, key=("api-key",), algorithm="fixed-window", rate=f"{count}/1{period[0]}")
    t = Timeline("F10-several-periods", """F10: a gateway's parallel periods on one identity are three limits, all or nothing: what one refuses is not
counted by the others.""", [per("second", 5), per("minute", 60), per("hour", 1000)])
    key = {"api-key": "k"}
    for second in range(11):
        t.step(second * SECOND, key, times=7, claim={"allow": 5, "deny": 2, "limit": "second", "retry_after": "1s"})
    t.step(11 * SECOND, key, times=7, why="both refuse: the minute frees last",
           claim={"allow": 5, "deny": 2, "limit": "minute", "retry_after": "49s"})
    t.step(12 * SECOND, key, why="sixty in this minute", claim={"deny": 1, "limit": "minute", "retry_after": "48s"})
    t.step(12 * SECOND, {"api-key": "other"}, claim={"allow": 1, "limit": "second", "remaining": 4})
    for minute in range(1, 16):
        for second in range(12):
            t.step(minute * MINUTE + second * SECOND, key, cost=5, claim={"allow": 1})
    t.step(16 * MINUTE, key, cost=5, times=2, claim={"allow": 1, "deny": 1})
    for second in range(1, 8):
        t.step(16 * MINUTE + second * SECOND, key, cost=5, claim={"allow": 1})
    t.step(16 * MINUTE + 8 * SECOND, key, why="a thousand in this hour", claim={"deny": 1, "limit": "hour", "retry_after": "43m52s"})
    t.step(HOUR, key, times=6, claim={"allow": 5, "deny": 1, "limit": "second"})
    return t


FILES = (b27, b54, b56, b57, f10)
