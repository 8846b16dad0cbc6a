# SPDX-License-Identifier: Apache-2.0
"""Curated files about what is beside deciding: charged refusals, reservations, refunds, retries, lost state, overrides,
limits that only watch, costs from attributes."""

from cases import ACME, DAY, HOUR, MINUTE, MS, SECOND, limit
from timeline import Timeline, instant

USER, APP, TEAM = {"user": "u"}, {"app": "a"}, {"team": "t"}


def charged():
    bucket = Timeline("30-refused-charged", """A refusal is charged as well, up to one capacity more (algorithms 1.14).
Who hammers stays out until it slows down below the rate.""", [limit("b", rate="1/s", burst=10, refused="charged")])
    bucket.step(0, ACME, cost=8, claim={"allow": 1, "remaining": 2})
    bucket.step(0, ACME, cost=5, why="denied, and charged: 13 of 10 are used",
                claim={"deny": 1, "remaining": 0, "retry_after": "8s"})
    bucket.step(2 * SECOND, ACME, why="used 11", claim={"deny": 1, "retry_after": "3s"})
    bucket.step(2 * SECOND, ACME, cost=11, why="never is never charged", claim={"never": 1})
    bucket.step(2 * SECOND, ACME, peek=True, why="nor is a look", claim={"deny": 1, "retry_after": "3s"})
    bucket.step(5 * SECOND - 1, ACME, why="one early is charged again", claim={"deny": 1, "retry_after": "1s1ns"})
    bucket.step(6 * SECOND, ACME, claim={"allow": 1, "remaining": 0})
    bucket.step(6 * SECOND, ACME, times=30, why="a flood fills one capacity more, and no further",
                claim={"deny": 30, "retry_after": "11s", "reset_after": "20s"})
    bucket.step(40 * SECOND, ACME, cost=10, why="and then it is whole again", claim={"allow": 1})

    windows = Timeline("30-refused-charged-windows", "Charged refusals in windows: the count goes to twice the limit.", [
        limit("fixed", algorithm="fixed-window", rate="5/10s", refused="charged"),
        limit("first", key=("user",), algorithm="fixed-window", rate="5/10s", align="first-request", refused="charged"),
        limit("sliding", key=("app",), algorithm="sliding-window", rate="5/10s", refused="charged")])
    for request in (ACME, USER, APP):
        windows.step(SECOND, request, times=12, claim={"allow": 5, "deny": 7, "remaining": 0})
    windows.step(10 * SECOND, ACME, why="a new window is a new count", claim={"allow": 1, "remaining": 4})
    windows.step(11 * SECOND - 1, USER, claim={"deny": 1, "retry_after": "1ns"})
    windows.step(11 * SECOND, USER, claim={"allow": 1, "remaining": 4})
    windows.step(15 * SECOND, APP, why="ten of the last window weigh five at its half",
                 claim={"deny": 1, "remaining": 0})
    windows.step(19 * SECOND, APP, peek=True, why="ten weigh one, and a refusal counts one", claim={"allow": 1, "remaining": 3})
    windows.step(19 * SECOND, APP, times=4, claim={"allow": 3, "deny": 1})

    both = Timeline("30-refused-charged-composite", """A refusal is charged only to a limit that refuses itself.
Where another limit refuses, one that would have passed is not touched.""", [
        limit("mine", rate="1/s", burst=3, refused="charged"), limit("free", key=(), rate="1/s", burst=5)])
    both.step(0, ACME, times=3, claim={"allow": 3})
    both.step(0, ACME, why="denied by `mine`: charged there, not to `free`", claim={"deny": 1, "limit": "mine", "retry_after": "2s"})
    both.step(0, {"tenant": "b"}, times=3, why="two are left of `free`; its refusal charges nobody",
              claim={"allow": 2, "deny": 1, "limit": "free"})
    both.step(0, {"tenant": "b"}, peek=True, claim={"deny": 1})
    both.step(SECOND, {"tenant": "b"}, claim={"allow": 1, "limit": "free", "remaining": 0})
    both.step(2 * SECOND, ACME, claim={"allow": 1})
    return [bucket, windows, both]


def reservations():
    t = Timeline("31-reserve-debt", """Reserve an estimate, settle what it was (the worked example of algorithms 1.13):
10/s, 10 at once, and a settlement may overdraw by 20.""", [limit("tokens", rate="10/s", burst=10, debt=20)])
    t.reserve(0, ACME, "a", cost=8, claim={"allow": 1, "remaining": 2})
    t.settle(100 * MS, "a", 30, why="22 more are charged: the balance is -19",
             claim={"charged": 22, "returned": 0, "dropped": 0, "remaining": 0, "repeated": False})
    t.settle(100 * MS, "a", 30, why="settling twice changes nothing", claim={"charged": 0, "repeated": True})
    t.cancel(100 * MS, "a", why="nor does cancelling what was settled", claim={"returned": 0, "repeated": True})
    t.step(100 * MS, ACME, claim={"deny": 1, "retry_after": "2s"})
    t.step(2100 * MS - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    t.step(2100 * MS, ACME, claim={"allow": 1, "remaining": 0})
    t.reserve(2100 * MS, ACME, "b", why="nothing was reserved", claim={"deny": 1})
    t.settle(2100 * MS, "b", 5, claim={"error": "reservation"})
    t.reserve(10 * SECOND, ACME, "c", cost=10, claim={"allow": 1, "remaining": 0})
    t.settle(10 * SECOND, "c", 40, why="debt is bounded: ten of it are charged to nobody",
             claim={"charged": 20, "dropped": 10, "remaining": 0})
    t.step(10 * SECOND, ACME, claim={"deny": 1, "retry_after": "2s100ms", "reset_after": "3s"})
    t.reserve(20 * SECOND, ACME, "d", cost=10)
    t.settle(20 * SECOND, "d", 3, why="less than was reserved comes back", claim={"returned": 7, "remaining": 7})
    t.reserve(20 * SECOND, ACME, "e", cost=7)
    t.settle(20 * SECOND, "e", 7, why="exactly", claim={"charged": 0, "returned": 0, "remaining": 0})
    t.reserve(30 * SECOND, ACME, "f", cost=4)
    t.cancel(30 * SECOND + 100 * MS, "f", why="one has come back by itself: three were used",
             claim={"returned": 3, "remaining": 10})
    t.reserve(40 * SECOND, ACME, "g", cost=4)
    t.settle(40 * SECOND + HOUR + 10 * SECOND, "g", 1, why="it expired after an hour: its estimate stays charged",
             claim={"error": "reservation"})

    late = Timeline("31-refund-late", """A late full refund admits more than the bucket alone (algorithms 1.13, P11): 10, one per second.
Twenty at one instant, of which ten were given back: the bound is capacity + refill + what was returned.""",
                    [limit("b", rate="1/s", burst=10)])
    late.reserve(0, ACME, "held", cost=10, claim={"allow": 1})
    late.step(10 * SECOND, ACME, cost=10, why="the bucket has refilled, and somebody else takes it", claim={"allow": 1})
    late.cancel(10 * SECOND, "held", claim={"returned": 10, "remaining": 10})
    late.step(10 * SECOND, ACME, cost=10, times=2, claim={"allow": 1, "deny": 1})
    late.reserve(100 * SECOND, ACME, "again", cost=5)
    late.cancel(102 * SECOND, "again", why="two had come back by themselves; above the capacity nothing is kept",
                claim={"returned": 3, "remaining": 10})
    late.step(102 * SECOND, ACME, times=11, claim={"allow": 10, "deny": 1})

    several = Timeline("31-reserve-several", """A settlement changes limits with a cost from an attribute; a cancel gives back everything.
Where none has one, those without `cost` are settled.""", [
        limit("requests", rate="1/s", burst=5, cost=1),
        limit("tokens", rate="10/s", burst=100, cost={"from": "tokens", "default": 50, "max": 80}, debt=40),
        limit("plain", key=("user",), rate="1/s", burst=10), limit("priced", key=("user",), rate="1/s", burst=10, cost=2)])
    call = {"tenant": "acme", "tokens": "30"}
    several.reserve(0, call, "a", claim={"allow": 1, "limit": "tokens", "remaining": 70})
    several.settle(0, "a", 45, claim={"charged": 15, "remaining": 55, "limit": "tokens"})
    several.reserve(0, ACME, "b", why="without the attribute: its default", claim={"allow": 1, "remaining": 5})
    several.cancel(0, "b", why="the request's own unit comes back as well", claim={"returned": 50})
    several.step(0, {"tenant": "acme", "tokens": "81"}, why="more than its max is never", claim={"never": 1})
    several.step(0, {"tenant": "acme", "tokens": "55"}, claim={"allow": 1, "limit": "tokens", "remaining": 0})
    several.reserve(10 * SECOND, USER, "c", cost=6, claim={"allow": 1, "limit": "plain", "remaining": 4})
    several.settle(10 * SECOND, "c", 1, why="only `plain` is settled", claim={"returned": 5, "remaining": 9, "limit": "plain"})
    several.refund(10 * SECOND, USER, 5, claim={"returned": 1, "remaining": 10, "limit": "plain"})
    several.step(10 * SECOND, USER, times=4, claim={"allow": 4, "limit": "priced", "remaining": 0})
    return [t, late, several]


def inference():
    t = Timeline("31-inference-tokens", """Tokens of a language model: 100,000 a minute, 200,000 at once, overdraft 50,000.
What an answer costs is known when it is written; 500 are assumed where the caller does not say.""",
                 [limit("inference-tokens", rate="100000/1m", burst=200000,
                        cost={"from": "tokens", "default": 500, "max": 32000}, debt=50000)])
    def call(tokens):
        return {"tenant": "acme", "tokens": str(tokens)}
    t.reserve(0, call(4000), "chat", claim={"allow": 1, "remaining": 196000})
    t.settle(3 * SECOND, "chat", 2600, why="1,400 fewer than estimated; the bucket was whole but for 4,000 - 5,000 refilled",
             claim={"charged": 0, "returned": 0, "remaining": 200000})
    for i in range(6):
        t.reserve(3 * SECOND, call(32000), f"long{i}", claim={"allow": 1})
    t.step(3 * SECOND, call(32000), why="8,000 are left", claim={"deny": 1, "remaining": 8000, "retry_after": "14s400ms"})
    t.settle(3 * SECOND, "long0", 40000, why="it became longer", claim={"charged": 8000, "remaining": 0})
    t.settle(3 * SECOND, "long1", 90000, why="50,000 of overdraft, and 8,000 nobody pays",
             claim={"charged": 50000, "dropped": 8000})
    t.step(3 * SECOND, {"tenant": "acme"}, why="30 s of debt, and 0.3 s for 500",
           claim={"deny": 1, "retry_after": "30s300ms"})
    t.cancel(3 * SECOND, "long2", why="the caller hung up", claim={"returned": 32000, "remaining": 0})
    t.step(3 * SECOND, {"tenant": "acme"}, claim={"deny": 1, "retry_after": "11s100ms"})
    t.step(3 * SECOND, call(32001), claim={"never": 1})
    t.step(14 * SECOND + 100 * MS, {"tenant": "acme"}, claim={"allow": 1, "remaining": 0})
    return t


def refunds():
    t = Timeline("32-refund-windows", """In windows what was charged comes back only in its own window; a sliding window's counts as the previous
one for one window more.""", [
        limit("fixed", algorithm="fixed-window", rate="10/10s"),
        limit("first", key=("user",), algorithm="fixed-window", rate="7/10s", align="first-request"),
        limit("sliding", key=("app",), algorithm="sliding-window", rate="10/10s"),
        limit("log", key=("team",), algorithm="sliding-log", rate="10/10s")])
    for base, request, name in ((0, ACME, "fixed"), (100, USER, "first"), (200, APP, "sliding"), (300, TEAM, "log")):
        def at(seconds):
            return (base + seconds) * SECOND
        t.reserve(at(2), request, name + "1", cost=6, claim={"allow": 1})
        t.settle(at(3), name + "1", 4, why="two come back", claim={"returned": 2})
        t.reserve(at(3), request, name + "2", cost=3, claim={"allow": 1, "remaining": 0 if name == "first" else 3})
        t.settle(at(3), name + "2", 9, why="what does not fit the count is dropped",
                 claim={"charged": 0 if name == "first" else 3, "dropped": 6 if name == "first" else 3})
        t.refund(at(4), request, 2, claim={"returned": 2, "remaining": 2})
        t.step(at(4), request, times=3, claim={"allow": 2, "deny": 1})
    for request, name in ((ACME, "fixed"), (USER, "first"), (APP, "sliding"), (TEAM, "log")):
        t.reserve(400 * SECOND, request, name + "3", cost=5)
    t.cancel(410 * SECOND, "fixed3", why="another window by now: nothing comes back", claim={"returned": 0, "remaining": 10})
    t.step(410 * SECOND, ACME, times=11, claim={"allow": 10, "deny": 1})
    t.cancel(410 * SECOND, "first3", claim={"returned": 0})
    t.step(412 * SECOND, APP, why="5 * 0.8 + 1", claim={"allow": 1, "remaining": 5})
    t.cancel(412 * SECOND, "sliding3", why="from the previous window's five", claim={"returned": 5, "remaining": 9})
    t.cancel(412 * SECOND, "log3", why="an entry a period old no longer counts", claim={"returned": 0})

    month = Timeline("32-refund-calendar", "A month's quota: a refund counts in the same month only.",
                     [limit("monthly", algorithm="fixed-window", rate="5/month", align="calendar Europe/Berlin")],
                     start="2027-01-31T22:59:58Z")
    month.reserve(0, ACME, "january", cost=3, claim={"allow": 1, "remaining": 2})
    month.reserve(SECOND, ACME, "also", cost=2, claim={"allow": 1, "remaining": 0})
    month.settle(SECOND, "also", 1, claim={"returned": 1, "remaining": 1})
    month.reserve(2 * SECOND, ACME, "february", cost=4, why="local midnight", claim={"allow": 1, "remaining": 1})
    month.cancel(2 * SECOND, "january", claim={"returned": 0, "remaining": 1})
    month.cancel(3 * SECOND, "february", claim={"returned": 4, "remaining": 5})
    return [t, month]


def refund_and_reset():
    t = Timeline("33-refund-reset", """`refund` gives back without a reservation, never above the capacity; `reset` forgets a key.""", [
        limit("bucket", rate="1/s", burst=10), limit("window", key=("user",), algorithm="fixed-window", rate="10/1m"),
        limit("sliding", key=("app",), algorithm="sliding-window", rate="10/1m"),
        limit("log", key=("team",), algorithm="sliding-log", rate="10/1m"),
        limit("pair", key=("tenant", "user"), rate="1/s", burst=3)])
    for request in (ACME, USER, APP, TEAM):
        t.refund(SECOND, request, 3, why="a whole budget takes nothing back", claim={"returned": 0, "remaining": 10})
        t.step(SECOND, request, cost=7, claim={"allow": 1, "remaining": 3})
        t.refund(SECOND, request, 2, claim={"returned": 2, "remaining": 5})
        t.refund(SECOND, request, 100, claim={"returned": 5, "remaining": 10})
        t.step(SECOND, request, cost=10, claim={"allow": 1, "remaining": 0})
    t.reset(SECOND, "bucket", {"tenant": "acme"})
    t.reset(SECOND, "bucket", {"tenant": "nobody"}, why="a key that was never used may be reset too")
    t.reset(SECOND, "window", {"user": "u"})
    t.reset(SECOND, "sliding", {"app": "a"})
    t.reset(SECOND, "log", {"team": "t"})
    for request in (ACME, USER, APP, TEAM):
        t.step(SECOND, request, times=11, why="whole again", claim={"allow": 10, "deny": 1})
    t.reset(SECOND, "nothing", {"tenant": "acme"}, claim={"error": "limit"})
    both = {"tenant": "b", "user": "w"}
    t.step(2 * SECOND, both, times=4, claim={"allow": 3, "deny": 1, "limit": "pair"})
    t.reset(2 * SECOND, "pair", both)
    t.step(2 * SECOND, both, times=4, claim={"allow": 3, "deny": 1, "limit": "pair"})
    t.refund(2 * SECOND, both, 1, why="one to each limit that it meets", claim={"returned": 1, "remaining": 1, "limit": "pair"})
    return t


def retries():
    once = {"free-within": "60s", "by": "request-id"}
    t = Timeline("34-retries", """A request that is asked again within a minute is answered again, and charged once (algorithms 1.15).
Only what was allowed is remembered; limits without `retries` count a repetition.""", [
        limit("bucket", rate="1/1h", burst=3, retries=once),
        limit("window", key=("user",), algorithm="fixed-window", rate="2/1h", retries=once),
        limit("counts-all", key=("app",), rate="1/1h", burst=5),
        limit("counts-once", key=("app",), rate="1/1h", burst=3, retries=once)])
    def ask(name, **request):
        return {**request, "request-id": name}
    t.step(0, ask("r1", tenant="acme"), claim={"allow": 1, "remaining": 2})
    t.step(0, ask("r1", tenant="acme"), times=5, why="the same request", claim={"duplicate": 5, "remaining": 2})
    t.step(SECOND, ask("r1", tenant="other"), why="the name is its key's own", claim={"allow": 1, "remaining": 2})
    t.step(30 * SECOND, ask("r2", tenant="acme"), claim={"allow": 1, "remaining": 1})
    t.step(60 * SECOND - 5 * MS, ask("r1", tenant="acme"), why="just within the minute", claim={"duplicate": 1})
    t.step(60 * SECOND + 5 * MS, ask("r1", tenant="acme"), why="and behind it: counted again", claim={"allow": 1, "remaining": 0})
    t.step(61 * SECOND, ask("r3", tenant="acme"), times=2, why="a refusal is not remembered", claim={"deny": 2})
    t.step(61 * SECOND, ask("r2", tenant="acme"), why="a repetition passes an empty budget",
           claim={"duplicate": 1, "remaining": 0})
    t.step(61 * SECOND, ACME, why="without a name it is a request like any other", claim={"deny": 1})
    t.step(2 * HOUR, ask("r3", tenant="acme"), why="once there is room it passes", claim={"allow": 1})
    t.step(2 * HOUR, ask("r3", tenant="acme"), peek=True, claim={"duplicate": 1})
    t.step(2 * HOUR, ask("w1", user="u"), claim={"allow": 1, "remaining": 1})
    t.step(2 * HOUR, ask("w1", user="u"), times=3, claim={"duplicate": 3, "remaining": 1})
    t.step(2 * HOUR, ask("w2", user="u"), claim={"allow": 1, "remaining": 0})
    t.step(2 * HOUR, ask("w3", user="u"), claim={"deny": 1})
    t.step(3 * HOUR, ask("m1", app="a"), times=2, why="one limit counts both, the other one", claim={"allow": 2})
    t.step(3 * HOUR, ask("m1", app="a"), times=4, why="three are left to the one that counts", claim={"allow": 3, "deny": 1})
    t.step(4 * HOUR, ask("m2", app="a"), claim={"allow": 1, "limit": "counts-all", "remaining": 0})
    return t


def lost():
    empty = {"when_state_lost": "empty"}
    t = Timeline("35-state-lost-empty", """After a loss of state nothing more passes than without one (algorithms 4.7, P44): a key that nobody
remembers had nothing left when the limiter started.""", [
        limit("bucket", rate="1/s", burst=10, **empty),
        limit("fixed", key=("user",), algorithm="fixed-window", rate="10/10s", **empty),
        limit("first", key=("app",), algorithm="fixed-window", rate="7/10s", align="first-request", **empty),
        limit("sliding", key=("team",), algorithm="sliding-window", rate="10/10s", **empty)], start="1970-01-01T00:00:00Z")
    t.step(0, ACME, why="the limiter has just started", claim={"deny": 1, "remaining": 0, "retry_after": "1s"})
    t.step(3 * SECOND, ACME, times=4, claim={"allow": 3, "deny": 1})
    t.step(5 * SECOND, {"tenant": "b"}, times=6, why="another key, as unknown", claim={"allow": 5, "deny": 1})
    t.step(5 * SECOND, USER, claim={"deny": 1, "retry_after": "5s"})
    t.step(10 * SECOND - 1, APP, claim={"deny": 1, "retry_after": "1ns"})
    t.step(10 * SECOND, USER, times=11, why="the window of the loss is over", claim={"allow": 10, "deny": 1})
    t.step(10 * SECOND, APP, claim={"allow": 1, "remaining": 6})
    t.step(12 * SECOND, TEAM, times=3, why="ten of the last window weigh eight", claim={"allow": 2, "deny": 1})
    t.step(20 * SECOND, {"tenant": "c"}, times=11, why="by now the key would be whole", claim={"allow": 10, "deny": 1})
    t.step(20 * SECOND, {"team": "late"}, times=11, claim={"allow": 10, "deny": 1})
    t.restart(25 * SECOND, why="started again: everything is forgotten")
    t.step(25 * SECOND, {"tenant": "c"}, claim={"deny": 1, "retry_after": "1s"})
    t.step(27 * SECOND, {"tenant": "d"}, times=3, claim={"allow": 2, "deny": 1})
    t.step(27 * SECOND, USER, claim={"deny": 1, "retry_after": "3s"})
    t.step(34 * SECOND, APP, why="a window from the restart", claim={"deny": 1, "retry_after": "1s"})
    t.step(36 * SECOND, APP, claim={"allow": 1})
    t.step(38 * SECOND, TEAM, times=9, claim={"allow": 8, "deny": 1})

    full = Timeline("35-state-lost-full", "Without it a restart gives every key a whole budget again.",
                    [limit("bucket", rate="1/s", burst=10),
                     limit("fixed", key=("user",), algorithm="fixed-window", rate="10/1h")])
    for request in (ACME, USER):
        full.step(SECOND, request, times=11, claim={"allow": 10, "deny": 1})
    full.restart(2 * SECOND)
    for request in (ACME, USER):
        full.step(2 * SECOND, request, times=11, claim={"allow": 10, "deny": 1})
    return [t, full]


def overrides():
    def other(tenant, **size):
        return {"key": {"tenant": tenant}, **size}
    t = Timeline("36-overrides", "Keys with another size than their limit's, or with none.", [
        limit("bucket", rate="1/s", burst=5, overrides=[other("big", rate="10/s", burst=50),
                                                        other("small", rate="1/10s", burst=1),
                                                        other("blocked", rate="0/s", burst=0),
                                                        other("free", unlimited=True)]),
        limit("window", key=("user",), algorithm="fixed-window", rate="5/1m",
              overrides=[{"key": {"user": "vip"}, "rate": "20/1m"}, {"key": {"user": "root"}, "unlimited": True}]),
        limit("pair", key=("app", "team"), algorithm="sliding-window", rate="3/1m",
              overrides=[{"key": {"app": "a", "team": "t"}, "rate": "6/1m"}])])
    t.step(0, ACME, times=6, claim={"allow": 5, "deny": 1, "capacity": 5, "retry_after": "1s"})
    t.step(0, {"tenant": "big"}, times=51, claim={"allow": 50, "deny": 1, "capacity": 50, "retry_after": "100ms"})
    t.step(0, {"tenant": "big"}, cost=51, claim={"never": 1})
    t.step(0, {"tenant": "small"}, times=2, claim={"allow": 1, "deny": 1, "capacity": 1, "retry_after": "10s"})
    t.step(0, {"tenant": "small"}, cost=2, claim={"never": 1})
    t.step(0, {"tenant": "blocked"}, claim={"never": 1, "capacity": 0})
    t.step(0, {"tenant": "free"}, times=1000, claim={"allow": 1000})
    t.step(0, {"tenant": "free"}, cost=10**9, claim={"allow": 1})
    t.step(SECOND, {"tenant": "big"}, times=11, claim={"allow": 10, "deny": 1})
    t.step(10 * SECOND, {"tenant": "small"}, times=2, claim={"allow": 1, "deny": 1})
    t.step(10 * SECOND, {"user": "u"}, times=6, claim={"allow": 5, "deny": 1})
    t.step(10 * SECOND, {"user": "vip"}, times=21, claim={"allow": 20, "deny": 1, "capacity": 20})
    t.step(10 * SECOND, {"user": "root"}, times=100, claim={"allow": 100})
    t.step(10 * SECOND, {"user": "root", "tenant": "small"}, why="unlimited here, not there", claim={"deny": 1, "limit": "bucket"})
    t.step(10 * SECOND, {"app": "a", "team": "t"}, times=7, claim={"allow": 6, "deny": 1})
    t.step(10 * SECOND, {"app": "a", "team": "other"}, times=4, claim={"allow": 3, "deny": 1})
    t.step(10 * SECOND, {"app": "at", "team": ""}, why="an empty attribute is none: the limit does not apply",
           claim={"allow": 1, "limit": None})
    return t


def enforcement():
    t = Timeline("37-enforce", """A limit in shadow counts and tells what it would have done; it takes no part in the answer.
One that is off is not looked at.""", [
        limit("real", rate="1/s", burst=5), limit("shadow", rate="1/s", burst=2, enforce="shadow"),
        limit("off", rate="1/s", burst=1, enforce="off"),
        limit("alone", key=("user",), algorithm="fixed-window", rate="2/1m", enforce="shadow")])
    t.step(0, ACME, times=2, claim={"allow": 2, "limit": "real", "remaining": 3})
    t.step(0, ACME, why="the shadow would have refused", claim={"allow": 1, "limit": "real", "remaining": 2})
    t.step(0, ACME, times=3, why="and is not charged for what another limit refused", claim={"allow": 2, "deny": 1})
    t.step(SECOND, ACME, claim={"allow": 1, "remaining": 0})
    t.step(SECOND, ACME, peek=True, claim={"deny": 1, "limit": "real"})
    t.step(SECOND, USER, times=3, why="only watched: everything passes", claim={"allow": 3})
    return t


def prices():
    t = Timeline("38-cost-from", "What a request costs may be an attribute of it, with a default and a maximum.", [
        limit("bytes", rate="1000/s", burst=5000, cost={"from": "size", "default": 100, "max": 3000}),
        limit("rows", key=("user",), algorithm="fixed-window", rate="100/1m", cost={"from": "rows", "default": 1})])
    def send(size):
        return {"tenant": "acme", "size": str(size)}
    t.step(0, send(3000), claim={"allow": 1, "remaining": 2000})
    t.step(0, send(3001), why="above its max it is never let through", claim={"never": 1})
    t.step(0, ACME, why="not said: the default", claim={"allow": 1, "remaining": 1900})
    t.step(0, ACME, cost=50, why="the request's own cost is for limits without one", claim={"allow": 1, "remaining": 1800})
    t.step(0, send(2000), claim={"deny": 1, "retry_after": "200ms"})
    t.step(200 * MS, send(2000), claim={"allow": 1, "remaining": 0})
    t.step(200 * MS, send(0), why="nothing costs nothing", claim={"allow": 1, "remaining": 0})
    t.step(200 * MS, send(1), claim={"deny": 1, "retry_after": "1ms"})
    t.step(SECOND, {"user": "u", "rows": "99"}, claim={"allow": 1, "remaining": 1})
    t.step(SECOND, USER, times=2, claim={"allow": 1, "deny": 1})
    t.step(SECOND, {"user": "w", "rows": "101"}, why="without a max the capacity is one", claim={"never": 1})
    return t


FILES = (charged, reservations, inference, refunds, refund_and_reset, retries, lost, overrides, enforcement, prices)
