# SPDX-License-Identifier: Apache-2.0
"""Curated files about permits, about waiting for them, and about changes under those who wait or hold (algorithms 1.9, 1.17)."""

from cases import ACME, HOUR, MINUTE, MS, SECOND, limit
from models import HORIZON
from timeline import Timeline, past_horizon
from waiting import APP, USER, paced, wait


def running(at_most, hold="30s", name="running", key=("tenant",), **more):
    fields = {"name": name}
    if "when" in more:
        fields["when"] = more.pop("when")
    fields.update({"key": list(key), "algorithm": "concurrency", "at-most": at_most, "hold": hold})
    return {**fields, **more}


def permits():
    t = Timeline("53-permits", """At most two at once; a permit is held for 30 s, or renewed, or given back (algorithms 1.9).""", [running(2)])
    t.acquire(0, ACME, "a", claim={"allow": 1, "capacity": 2, "remaining": 1, "expires_after": "30s", "reset_after": "30s"})
    t.acquire(5 * SECOND, ACME, "b", claim={"allow": 1, "remaining": 0, "reset_after": "30s"})
    t.acquire(6 * SECOND, ACME, "c", why="the earliest expiry is the time to try again, the last one when all are free",
              claim={"deny": 1, "retry_after": "24s", "reset_after": "29s"})
    t.renew(6 * SECOND, "c", why="what was refused is no permit", claim={"error": "permit"})
    t.release(6 * SECOND, "c", claim={"error": "permit"})
    t.acquire(6 * SECOND, {"tenant": "b"}, "other", why="another key has its own", claim={"allow": 1, "remaining": 1})
    t.renew(20 * SECOND, "a", claim={"expires_after": "30s"})
    t.acquire(29 * SECOND, ACME, "d", claim={"deny": 1, "retry_after": "6s"})
    t.release(30 * SECOND, "b", claim={"released": True})
    t.release(30 * SECOND, "b", why="twice is once", claim={"released": False})
    t.renew(30 * SECOND, "b", claim={"error": "permit"})
    t.acquire(30 * SECOND, ACME, "e", claim={"allow": 1, "remaining": 0})
    t.renew(50 * SECOND - 1, "a", why="the last nanosecond", claim={"expires_after": "30s"})
    t.acquire(60 * SECOND - 1, ACME, "f", claim={"deny": 1, "retry_after": "1ns"})
    t.acquire(60 * SECOND, ACME, "g", why="e has expired: its holder is dead, or slow", claim={"allow": 1})
    t.release(60 * SECOND, "e", why="a late release takes nothing from the one who has the place now", claim={"released": False})
    t.renew(60 * SECOND, "e", claim={"error": "permit"})
    t.acquire(60 * SECOND, ACME, "h", claim={"deny": 1})
    t.acquire(60 * SECOND, ACME, "i", cost=3, why="more than there are at all", claim={"never": 1, "retry_after": None})
    t.acquire(HOUR, ACME, "all", times=3, claim={"allow": 2, "deny": 1, "reset_after": "30s"})
    t.renew(HOUR + 30 * SECOND - 1, "all.1", why="one is renewed in its last nanosecond, the other a nanosecond later",
            claim={"expires_after": "30s"})
    t.renew(HOUR + 30 * SECOND, "all.2", claim={"error": "permit"})
    t.release(HOUR + 60 * SECOND - 1, "all.1", why="at that very instant it has expired: release or renew is too late",
              claim={"released": False})
    past_horizon(t, ACME)
    t.acquire(HORIZON + 1, ACME, "late", claim={"refused": 1, "reason": "time"})

    cost = Timeline("53-permits-cost", "A permit may cover several places: all or none.", [running(5, "1m")])
    cost.acquire(0, ACME, "three", cost=3, claim={"allow": 1, "remaining": 2})
    cost.acquire(10 * SECOND, ACME, "more", cost=3, claim={"deny": 1, "remaining": 2, "retry_after": "50s"})
    cost.acquire(10 * SECOND, ACME, "two", cost=2, claim={"allow": 1, "remaining": 0})
    cost.acquire(10 * SECOND, ACME, "five", cost=5, why="only when all have expired", claim={"deny": 1, "retry_after": "1m"})
    cost.release(20 * SECOND, "three", claim={"released": True})
    cost.acquire(20 * SECOND, ACME, "four", cost=4, claim={"deny": 1, "remaining": 3, "retry_after": "50s"})
    cost.acquire(20 * SECOND, ACME, "single", times=4, claim={"allow": 3, "deny": 1})
    cost.release(21 * SECOND, "single.2", claim={"released": True})
    cost.release(21 * SECOND, "single.4", claim={"error": "permit"})
    cost.acquire(70 * SECOND, ACME, "six", cost=3, why="two have expired, one was released", claim={"allow": 1, "remaining": 0})
    cost.acquire(70 * SECOND, ACME, "seven", cost=6, claim={"never": 1})

    looks = Timeline("53-permits-looks", """Who cannot return a permit takes none: a request only looks, and is refused while all are held.""",
                     [running(2), limit("rate", rate="10/s", burst=10)])
    looks.step(0, ACME, times=5, why="five pass, and hold nothing", claim={"allow": 5})
    looks.acquire(0, ACME, "a", times=2, claim={"allow": 2})
    looks.step(0, ACME, why="and are refused while it is full, charged nowhere", claim={"deny": 1, "limit": "running", "retry_after": "30s"})
    looks.step(0, ACME, wait=MINUTE, why="nobody waits for what it does not take", claim={"deny": 1})
    looks.acquire(0, ACME, "b", why="as many refusals do not make it more", claim={"deny": 1, "limit": "running"})
    looks.reserve(0, ACME, "r", claim={"deny": 1})
    looks.release(SECOND, "a.1")
    looks.reserve(SECOND, ACME, "s", cost=1, claim={"allow": 1})
    looks.settle(SECOND, "s", 0, claim={"returned": 1, "limit": "rate"})
    looks.step(SECOND, ACME, cost=2, why="one is free, and it asks for two", claim={"deny": 1, "limit": "running"})
    looks.step(SECOND, ACME, peek=True, claim={"allow": 1})
    return [t, cost, looks]


def together():
    t = Timeline("53-permits-and-rates", """A rate and a number at once: all or nothing. A release gives the place back, and never the token.""",
                 [limit("rate", rate="1/s", burst=3), running(2, "10s")])
    t.acquire(0, ACME, "a", claim={"allow": 1, "limit": "running", "remaining": 1})
    t.acquire(0, ACME, "b", claim={"allow": 1})
    t.acquire(0, ACME, "c", why="no place: no token is spent", claim={"deny": 1, "limit": "running", "retry_after": "10s"})
    t.release(0, "a", claim={"released": True})
    t.acquire(0, ACME, "d", claim={"allow": 1, "limit": "rate", "remaining": 0})
    t.release(0, "d")
    t.acquire(0, ACME, "e", why="no token: no place is held", claim={"deny": 1, "limit": "rate", "retry_after": "1s"})
    t.acquire(SECOND, ACME, "f", claim={"allow": 1})
    t.acquire(SECOND, ACME, "g", claim={"deny": 1, "limit": "running", "retry_after": "9s"})

    two = Timeline("53-permits-several", """A permit of several limits is one: renewed and given back as a whole.""",
                   [running(3, "10s", name="mine"), running(4, "20s", name="all", key=())])
    two.acquire(0, ACME, "a", times=3, claim={"allow": 3, "expires_after": "10s", "limit": "mine"})
    two.acquire(0, ACME, "b", claim={"deny": 1, "limit": "mine", "retry_after": "10s"})
    two.acquire(0, {"tenant": "b"}, "c", claim={"allow": 1, "limit": "all", "remaining": 0})
    two.acquire(0, {"tenant": "b"}, "d", claim={"deny": 1, "limit": "all", "retry_after": "20s"})
    two.release(5 * SECOND, "a.2", claim={"released": True})
    two.acquire(5 * SECOND, {"tenant": "b"}, "e", claim={"allow": 1})
    two.renew(6 * SECOND, "c", claim={"expires_after": "10s"})
    two.acquire(6 * SECOND, {}, "f", why="it meets only `all`", claim={"deny": 1, "retry_after": "14s"})

    none = Timeline("53-permits-none", """Where no limit gives permits there is none to give back.""",
                    [limit("rate", rate="1/s", burst=3), running(1, key=("user",), overrides=[
                        {"key": {"user": "root"}, "unlimited": True}, {"key": {"user": "big"}, "at-most": 3}])])
    none.acquire(0, ACME, "a", claim={"allow": 1, "remaining": 2})
    none.release(0, "a", claim={"error": "permit"})
    none.acquire(0, APP, "b", claim={"allow": 1, "limit": None})
    none.acquire(0, {"user": "root"}, "c", times=5, claim={"allow": 5})
    none.acquire(0, {"user": "big"}, "d", times=4, why="an override", claim={"allow": 3, "deny": 1, "capacity": 3})
    none.acquire(0, USER, "e", times=2, claim={"allow": 1, "deny": 1, "capacity": 1})
    return [t, two, none]


def waits():
    t = Timeline("54-permits-wait", """Waiting for a place: first come, first served, by whoever returns one or is dead.""",
                 [running(2, "30s", wait=wait("1m", 4))])
    t.acquire(0, ACME, "a", claim={"allow": 1})
    t.acquire(10 * SECOND, ACME, "b", claim={"allow": 1})
    t.acquire(11 * SECOND, ACME, "w", times=5, wait=MINUTE, why="four may wait; the fifth is refused", claim={"allow": 4, "deny": 1})
    t.acquire(11 * SECOND, ACME, "x", why="and who cannot wait is behind them: 30, 40, 60 and 70 s are taken",
              claim={"deny": 1})
    t.release(12 * SECOND, "b", why="one comes back: the first of them has it at once, for 30 s of its own")
    t.renew(20 * SECOND, "w.1", claim={"expires_after": "30s"})
    t.acquire(20 * SECOND, ACME, "y", wait=5 * SECOND, why="it would have to wait longer than it can", claim={"deny": 1})
    t.renew(29 * SECOND, "a", why="who holds is before who waits", claim={"expires_after": "30s"})
    t.release(31 * SECOND, "a")
    t.release(32 * SECOND, "w.2", claim={"released": True})
    t.step(33 * SECOND, ACME, why="a look is refused too while others wait", claim={"deny": 1})
    t.release(34 * SECOND, "w.1")
    t.release(36 * SECOND, "w.3")
    t.acquire(36 * SECOND, ACME, "z", claim={"allow": 1})

    leave = Timeline("54-permits-wait-leave", """Who gives up leaves a place in the queue; who dies while it holds leaves its place at the expiry.""",
                     [running(1, "10s", wait=wait("1m", 10))])
    leave.acquire(0, ACME, "a", claim={"allow": 1})
    for number in range(1, 5):
        leave.acquire(SECOND, ACME, f"w{number}", wait=MINUTE)
    leave.leave(2 * SECOND, "w2")
    leave.acquire(2 * SECOND, ACME, "late", wait=7999 * MS, why="four ahead", claim={"deny": 1})
    leave.leave(11 * SECOND, "w1", why="it has its permit: it cannot leave any more", claim={"error": "ended"})
    leave.release(12 * SECOND, "w1", claim={"released": True})
    leave.acquire(13 * SECOND, ACME, "last", wait=MINUTE)

    cost = Timeline("54-permits-wait-cost", """A large one waits until all of it fits; those behind it do not overtake.""",
                    [running(4, "10s", wait=wait("1m", 10))])
    for number in range(4):
        cost.acquire(number * SECOND, ACME, f"a{number}")
    cost.acquire(4 * SECOND, ACME, "large", cost=3, wait=MINUTE, claim={"allow": 1, "served_at": "12s", "remaining": 0})
    cost.acquire(5 * SECOND, ACME, "small", wait=MINUTE, claim={"allow": 1, "served_at": "13s"})
    cost.acquire(6 * SECOND, ACME, "huge", cost=5, wait=MINUTE, claim={"never": 1})
    cost.release(13 * SECOND, "large")

    both = Timeline("54-permits-wait-rate", """A rate and a number, both waited for: served when both let it, charged then.""",
                    [paced("1/s", "1m", 50, name="paced", key=()), running(2, "5s", wait=wait("1m", 50))])
    both.acquire(0, ACME, "w", times=5, wait=MINUTE)
    both.acquire(0, {"tenant": "b"}, "v", times=2, wait=MINUTE, why="behind them for the pace, though it has places of its own")
    both.release(2 * SECOND, "w.1")
    both.acquire(20 * SECOND, ACME, "x", claim={"allow": 1})

    shut = Timeline("54-permits-wait-refused", """A rate that lets nobody wait denies at the turn, and no place is held then.""",
                    [limit("rate", rate="1/h", burst=2), running(1, "10s", wait=wait("1m", 50))])
    shut.acquire(0, ACME, "a", claim={"allow": 1})
    shut.acquire(SECOND, ACME, "b", wait=MINUTE, claim={"allow": 1, "served_at": "10s"})
    shut.acquire(SECOND, ACME, "c", wait=MINUTE, claim={"deny": 1, "limit": "rate", "ended_at": "20s"})
    shut.acquire(21 * SECOND, ACME, "d", wait=MINUTE, claim={"deny": 1, "limit": "rate", "retry_after": "59m39s"})
    return [t, leave, cost, both, shut]


def changes():
    rate = Timeline("55-change-rate", """Another pace under those who wait: they keep their places and their deadlines.""", [paced("1/s", "1m", 50)])
    rate.step(0, ACME, wait=MINUTE, times=5)
    for number in range(4):
        rate.step(0, ACME, wait=20 * SECOND)
    rate.reload(1500 * MS, [paced("1/10s", "1m", 50)], claim={"resized": 1})
    rate.step(12 * SECOND, ACME, claim={"deny": 1})
    rate.reload(15 * SECOND, [paced("10/s", "1m", 50)], claim={"resized": 1})
    rate.step(16 * SECOND, ACME, claim={"allow": 1})

    burst = Timeline("55-change-burst", """A larger burst is there for who waits at once.""", [limit("b", rate="1/10s", burst=2, wait=wait("1h", 50))])
    burst.step(0, ACME, wait=HOUR, times=6)
    burst.reload(SECOND, [limit("b", rate="1/10s", burst=5, wait=wait("1h", 50))], claim={"resized": 1})
    burst.step(2 * SECOND, ACME, wait=HOUR)
    burst.step(2 * SECOND, ACME, claim={"deny": 1})

    window = Timeline("55-change-window", "A window that counts more, and then one that is longer.",
                      [limit("w", algorithm="fixed-window", rate="2/10s", wait=wait("1h", 50))])
    window.step(SECOND, ACME, wait=HOUR, times=9)
    window.reload(2 * SECOND, [limit("w", algorithm="fixed-window", rate="4/10s", wait=wait("1h", 50))], claim={"resized": 1})
    window.reload(12 * SECOND, [limit("w", algorithm="fixed-window", rate="4/1m", wait=wait("1h", 50))], claim={"resized": 1})
    window.step(13 * SECOND, ACME, claim={"deny": 1})

    at_most = Timeline("55-change-at-most", """More places at once; fewer take none away, they only give none before enough have come back.""",
                       [running(2, "30s", wait=wait("2m", 50))])
    at_most.acquire(0, ACME, "a", times=2)
    at_most.acquire(0, ACME, "w", times=4, wait=2 * MINUTE)
    at_most.reload(SECOND, [running(4, "30s", wait=wait("2m", 50))], claim={"resized": 1})
    at_most.renew(2 * SECOND, "w.1", claim={"expires_after": "30s"})
    at_most.reload(3 * SECOND, [running(1, "30s", wait=wait("2m", 50))], claim={"resized": 1})
    at_most.renew(4 * SECOND, "a.1", why="four of one are held: nobody's is taken away", claim={"expires_after": "30s"})
    at_most.release(5 * SECOND, "a.1", claim={"released": True})
    at_most.release(5 * SECOND, "a.2", claim={"released": True})
    at_most.release(6 * SECOND, "w.1", claim={"released": True})
    at_most.acquire(6 * SECOND, ACME, "x", claim={"deny": 1})
    at_most.release(7 * SECOND, "w.2", claim={"released": True})
    at_most.release(8 * SECOND, "w.3", claim={"released": True})
    at_most.acquire(9 * SECOND, ACME, "y", claim={"deny": 1})

    hold = Timeline("55-change-hold", "Another `hold`: for who acquires or renews from now on.", [running(2, "30s")])
    hold.acquire(0, ACME, "a", claim={"expires_after": "30s"})
    hold.reload(SECOND, [running(2, "2m")], claim={"resized": 1})
    hold.acquire(SECOND, ACME, "b", claim={"expires_after": "2m", "reset_after": "2m"})
    hold.acquire(SECOND, ACME, "c", claim={"deny": 1, "retry_after": "29s"})
    hold.renew(2 * SECOND, "a", claim={"expires_after": "2m"})
    hold.reload(3 * SECOND, [running(2, "5s")])
    hold.acquire(4 * SECOND, ACME, "d", claim={"deny": 1, "retry_after": "1m57s"})
    hold.renew(5 * SECOND, "b", claim={"expires_after": "5s"})
    hold.acquire(10 * SECOND, ACME, "e", claim={"allow": 1, "expires_after": "5s"})

    kept = Timeline("55-change-kept", """The unchanged contract again and again: who waits keeps its place, who holds its permit.""",
                    [paced("1/s", "1m", 50), running(1, "30s", key=("user",), wait=wait("1m", 50))])
    kept.step(0, ACME, wait=MINUTE, times=9)
    kept.acquire(0, USER, "a")
    kept.acquire(0, USER, "w", wait=MINUTE)
    for second in range(1, 7):
        kept.reload(second * SECOND + 500 * MS, kept.limits, claim={"kept": 2})
        kept.step(second * SECOND + 500 * MS, ACME, claim={"deny": 1})
    kept.acquire(7 * SECOND, USER, "x", claim={"deny": 1})
    kept.release(8 * SECOND, "a", claim={"released": True})
    kept.renew(8 * SECOND, "w", claim={"expires_after": "30s"})

    removed = Timeline("55-change-removed", """A limit that is gone asks nothing of who waited for it, and its permits are none any more.""",
                       [paced("1/s", "1m", 50), running(1, "30s", key=("user",), wait=wait("1m", 50))])
    removed.step(0, ACME, wait=MINUTE, times=4)
    removed.acquire(0, USER, "a")
    removed.acquire(0, USER, "w", wait=MINUTE)
    removed.reload(1500 * MS, [limit("new", rate="1/s", burst=1)], claim={"removed": 2, "added": 1})
    removed.release(2 * SECOND, "a", claim={"released": False})
    removed.reload(3 * SECOND, [paced("1/s", "1m", 50), running(1, "30s", key=("user",))], claim={"removed": 1, "added": 2})
    removed.acquire(3 * SECOND, USER, "b", why="back again, and fresh", claim={"allow": 1})
    removed.release(3 * SECOND, "a", why="the old permit is not of this one", claim={"released": False})
    removed.acquire(3 * SECOND, USER, "c", claim={"deny": 1})

    partly = Timeline("55-change-removed-partly", """One limit of two is gone: the other one is still waited for.""",
                      [paced("1/s", "1m", 50, name="slow", key=()), paced("2/s", "1m", 50, name="fast", key=())])
    partly.step(0, ACME, wait=MINUTE, times=6)
    partly.reload(1200 * MS, [paced("2/s", "1m", 50, name="fast", key=())], claim={"removed": 1, "kept": 1})
    partly.step(1300 * MS, ACME, wait=MINUTE)

    afresh = Timeline("55-change-restarted", """A limit that begins afresh knows nobody of before: who waited for it is to ask again.""",
                      [paced("1/s", "1m", 50), running(1, "30s", key=("user",), wait=wait("1m", 50))])
    afresh.step(0, ACME, wait=MINUTE, times=3, claim={"allow": 2, "refused": 1, "reason": "contended", "ended_at": "1s500ms"})
    afresh.acquire(0, USER, "a")
    afresh.acquire(0, USER, "w", wait=MINUTE, claim={"refused": 1, "reason": "contended"})
    afresh.reload(1500 * MS, [limit("paced", rate="1/s", burst=5, wait=wait("1m", 5)),
                              running(1, "30s", key=("user", "app"), wait=wait("1m", 50))], claim={"restarted": 2})
    afresh.renew(2 * SECOND, "a", claim={"error": "permit"})
    afresh.step(2 * SECOND, ACME, times=6, claim={"allow": 5, "deny": 1})

    restart = Timeline("56-permits-restart", """A restart forgets who holds and who waits.""", [running(1, "30s", wait=wait("1m", 50))])
    restart.acquire(0, ACME, "a", claim={"allow": 1})
    restart.acquire(0, ACME, "w", wait=MINUTE, claim={"left": 1})
    restart.restart(SECOND)
    restart.release(2 * SECOND, "a", claim={"error": "permit"})
    restart.renew(2 * SECOND, "w", claim={"error": "permit"})
    restart.acquire(2 * SECOND, ACME, "b", times=2, claim={"allow": 1, "deny": 1})
    restart.release(2 * SECOND, "b.1", claim={"released": True})
    return [rate, burst, window, at_most, hold, kept, removed, partly, afresh, restart]


FILES = (permits, together, waits, changes)
