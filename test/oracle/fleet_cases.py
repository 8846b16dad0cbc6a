# SPDX-License-Identifier: Apache-2.0
"""Curated files about limits that a fleet shares: replicas, a store that goes away and comes back, and what is spent meanwhile."""

from cases import ACME, HOUR, MINUTE, MS, SECOND, limit
from fleet_timeline import FleetTimeline

BOB, USER = {"tenant": "bob"}, {"user": "u"}
CALL = {"tenant": "acme", "user": "u"}


def shared(name="shared", policy="closed", **more):
    return limit(name, scope="fleet", when_store_fails=policy, **more)


def permits(at_most, hold, name="running", key=("tenant",), policy="closed"):
    return {"name": name, "key": list(key), "algorithm": "concurrency", "at-most": at_most, "hold": hold, "scope": "fleet",
            "when-store-fails": policy}


def one_budget():
    """The same story for each algorithm: what one replica takes the others do not have."""
    found = []
    for name, more, retry in (
            ("token-bucket", {"rate": "1/s", "burst": 8}, "1s"),
            ("leaky-bucket", {"algorithm": "leaky-bucket", "rate": "2/s", "burst": 8}, "500ms"),
            ("fixed-window", {"algorithm": "fixed-window", "rate": "8/10s"}, "10s"),
            ("first-request", {"algorithm": "fixed-window", "rate": "8/10s", "align": "first-request"}, "10s"),
            ("calendar", {"algorithm": "fixed-window", "rate": "8/d", "align": "calendar Europe/Berlin"}, "23h"),
            ("sliding-window", {"algorithm": "sliding-window", "rate": "8/10s"}, "11s250ms"),
            ("sliding-log", {"algorithm": "sliding-log", "rate": "8/10s"}, "10s")):
        t = FleetTimeline(f"70-fleet-{name}", f"Three replicas share eight ({name}).", [shared(**more)])
        for number in range(4):
            for replica in ("a", "b", "c"):
                left = 8 - 3 * number - "abc".index(replica) - 1
                t.on(replica).step(0, ACME, claim={"allow": 1, "remaining": left} if left >= 0 else
                                   {"deny": 1, "limit": "shared", "remaining": 0, "retry_after": retry})
        t.on("b").step(0, BOB, why="another key has its own", claim={"allow": 1, "remaining": 7})
        t.on("c").step(0, ACME, cost=9, claim={"never": 1, "retry_after": None})
        t.on("a").step(t.now, ACME)
        wait = t.last["retry_after"]
        t.on("b").step(wait - 1, ACME, why="a tick early, and then at its instant", claim={"deny": 1, "retry_after": "1ns"})
        t.on("c").step(wait, ACME, claim={"allow": 1})
        t.on("a").step(wait, ACME, peek=True)
        t.on("b").step(wait, ACME, cost=0)
        found.append(t)
    return found


def across_scopes():
    t = FleetTimeline("71-fleet-and-process", """A budget of each process beside one of the fleet: all or nothing across both.
Where the process refuses, the store is not asked; where the store refuses, the process is not charged.""",
                      [limit("mine", rate="1/s", burst=3), shared(algorithm="fixed-window", rate="5/10s")], shows_limits=True)
    t.on("a").step(0, ACME, times=4, claim={"allow": 3, "deny": 1, "limit": "mine", "retry_after": "1s"})
    t.on("b").step(0, ACME, times=3, why="the refusal above cost the fleet nothing",
                   claim={"allow": 2, "deny": 1, "limit": "shared", "retry_after": "10s"})
    t.on("b").step(0, ACME, peek=True, why="nor did this one cost the process anything", claim={"deny": 1})
    t.on("b").step(0, BOB, claim={"allow": 1, "limit": "mine", "remaining": 2})
    t.on("a").step(0, ACME, cost=4, why="never, of the process", claim={"never": 1, "limit": "mine"})
    t.on("b").step(0, BOB, cost=2, claim={"allow": 1, "limit": "mine", "remaining": 0})
    t.on("c").step(0, BOB, cost=3, why="two are left of the fleet's", claim={"deny": 1, "limit": "shared", "remaining": 2})
    t.on("c").step(0, BOB, cost=2, why="neither has room for two more: contract order", claim={"allow": 1, "limit": "mine", "remaining": 1})

    order = FleetTimeline("71-fleet-first", """Which limit names an answer follows the contract, whoever counts it.""",
                          [shared("all", rate="1/s", burst=4), limit("mine", rate="1/s", burst=4)], shows_limits=True)
    order.step(0, ACME, claim={"allow": 1, "limit": "all", "remaining": 3})
    order.on("b").step(0, ACME, claim={"allow": 1, "limit": "all", "remaining": 2})
    order.step(0, ACME, times=3, claim={"allow": 2, "deny": 1, "limit": "all", "remaining": 0})
    order.on("b").step(0, BOB, cost=4, claim={"allow": 1, "limit": "all", "remaining": 0})
    order.on("b").step(500 * MS, BOB, why="both refuse: the process is asked first, and its refusal is all that is known",
                       claim={"deny": 1, "limit": "mine", "retry_after": "500ms"})

    kinds = FleetTimeline("71-fleet-several", """Several limits of the fleet are one step; with two of the process, five.""", [
        limit("log", algorithm="sliding-log", rate="6/10s"), shared("bucket", rate="1/s", burst=4),
        limit("window", key=("user",), algorithm="fixed-window", rate="7/10s"),
        shared("sliding", key=("user",), algorithm="sliding-window", rate="9/10s"),
        shared("day", key=(), algorithm="fixed-window", rate="12/d", align="calendar UTC")], shows_limits=True)
    kinds.on("a").step(0, CALL, times=5, claim={"allow": 4, "deny": 1, "limit": "bucket"})
    kinds.on("b").step(4 * SECOND, CALL, times=5, claim={"allow": 4, "deny": 1, "limit": "bucket"})
    kinds.on("c").step(9 * SECOND, CALL, times=2, claim={"allow": 1, "deny": 1, "limit": "sliding"})
    kinds.on("a").step(9 * SECOND, {**CALL, "user": "v"}, cost=3, claim={"deny": 1, "limit": "log"})
    kinds.on("c").step(9 * SECOND, {**CALL, "user": "v"}, cost=3, claim={"allow": 1})
    kinds.on("b").step(12 * SECOND, {"tenant": "other", "user": "v"}, claim={"deny": 1, "limit": "day"})
    return [t, order, kinds]


def policies():
    closed = FleetTimeline("72-fleet-closed", "A store that is away refuses what it alone may pass.", [shared(rate="1/s", burst=5)])
    closed.step(0, ACME, cost=3, claim={"allow": 1})
    closed.store(SECOND, "away")
    closed.step(SECOND, ACME, times=2, claim={"refused": 2, "policy": "closed", "reason": "store"})
    closed.on("b").step(2 * SECOND, ACME, cost=0, claim={"refused": 1})
    closed.step(2 * SECOND, ACME, cost=6, why="what never passes is told all the same", claim={"never": 1})
    closed.store(3 * SECOND, "back")
    closed.on("b").step(3 * SECOND, ACME, cost=5, why="nothing was charged meanwhile", claim={"allow": 1, "remaining": 0})

    for name, policy, edge in (("72-fleet-open", "open", None), ("72-fleet-open-for", {"open": "30s"}, 40 * SECOND)):
        t = FleetTimeline(name, "A limit that is advisory: everything passes while the store is away"
                          + (", for so long." if edge else "."), [shared(policy=policy, rate="1/s", burst=2)])
        t.step(0, ACME, times=3, claim={"allow": 2, "deny": 1})
        t.store(10 * SECOND, "away")
        t.step(10 * SECOND, ACME, times=50, claim={"unmetered": 50, "policy": "open", "reason": "store"})
        t.on("b").step(39 * SECOND, ACME, claim={"unmetered": 1})
        if edge:
            t.step(edge - 1, ACME, claim={"unmetered": 1})
            t.step(edge, ACME, why="30 s after it began, however often it was asked", claim={"refused": 1, "policy": "closed"})
        t.step(HOUR, ACME, claim={"refused" if edge else "unmetered": 1})
        t.store(HOUR, "back")
        t.step(HOUR, ACME, times=3, why="what passed unmetered was charged to nobody", claim={"allow": 2, "deny": 1})
        t.store(HOUR + 10 * SECOND, "away")
        t.step(HOUR + 20 * SECOND, ACME, why="another outage counts from its own beginning", claim={"unmetered": 1})
        found = t if edge else None
        if edge is None:
            opened = t
    local = FleetTimeline("72-fleet-local", """A quarter of the budget for each of four replicas while the store is away.
The share of a bucket begins empty, so an outage mints nothing; what was spent is charged when the store is back.""",
                          [shared(policy={"local": "1/4"}, rate="4/s", burst=20)])
    local.step(0, ACME, cost=20, claim={"allow": 1, "remaining": 0})
    local.store(10 * SECOND, "away")
    local.on("a").step(10 * SECOND, ACME, why="empty: one comes back each second", claim={"deny": 1, "policy": "local", "retry_after": "1s"})
    local.on("a").step(11 * SECOND - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    local.on("a").step(11 * SECOND, ACME, claim={"allow": 1, "policy": "local", "reason": "store", "remaining": 0})
    local.on("b").step(14 * SECOND, ACME, times=5, why="each replica has its own", claim={"allow": 4, "deny": 1})
    local.on("c").step(HOUR, ACME, times=6, why="a quarter of the burst at most", claim={"allow": 5, "deny": 1})
    local.on("c").step(HOUR, ACME, cost=6, why="more than the share holds, and not more than the limit: when the store is back",
                       claim={"deny": 1, "retry_after": None})
    local.on("c").step(HOUR, ACME, cost=21, claim={"never": 1})
    local.on("d").step(HOUR, ACME, peek=True, claim={"allow": 1, "remaining": 5})
    local.store(HOUR, "back")
    local.on("d").step(HOUR, ACME, peek=True, why="one, four and five were spent: ten of twenty", claim={"allow": 1, "remaining": 10})
    local.on("a").step(HOUR, ACME, cost=10, claim={"allow": 1, "remaining": 0})
    local.store(HOUR, "away")
    local.on("c").step(HOUR, ACME, why="and begins empty with the next outage", claim={"deny": 1, "retry_after": "1s"})
    local.on("c").step(HOUR + 2 * SECOND, ACME, times=3, claim={"allow": 2, "deny": 1})
    local.store(HOUR + 2 * SECOND, "back")
    local.step(HOUR + 2 * SECOND, ACME, cost=6, why="eight came back, two were spent", claim={"allow": 1, "remaining": 0})
    return [closed, opened, found, local]


def shares():
    """A share of each kind."""
    window = FleetTimeline("73-fleet-local-windows", """Shares of windows and logs begin whole, once: a store that comes and goes hands out nothing more.""", [
        shared("fixed", {"local": "1/3"}, algorithm="fixed-window", rate="10/1m"),
        shared("first", {"local": "1/3"}, key=("user",), algorithm="fixed-window", rate="7/1m", align="first-request"),
        shared("sliding", {"local": "1/2"}, key=("app",), algorithm="sliding-window", rate="9/1m"),
        shared("log", {"local": "2/3"}, key=("team",), algorithm="sliding-log", rate="4/1m"),
        shared("day", {"local": "1/10"}, key=("host",), algorithm="fixed-window", rate="25/d", align="calendar Asia/Kathmandu")])
    asked = (ACME, 3, 10), (USER, 2, 7), ({"app": "a"}, 4, 9), ({"team": "t"}, 2, 4), ({"host": "h"}, 2, 25)
    window.store(SECOND, "away")
    for request, share, _ in asked:
        window.on("a").step(SECOND, request, times=share + 2, claim={"allow": share, "deny": 2, "policy": "local"})
        window.on("b").step(SECOND, request, claim={"allow": 1, "remaining": share - 1})
    window.store(2 * SECOND, "back")
    for request, share, count in asked:
        window.on("c").step(2 * SECOND, request, times=count - share, why="what both spent is charged",
                            claim={"allow": count - share - 1, "deny": 1})
    window.store(3 * SECOND, "away")
    for request, share, _ in asked:
        window.on("a").step(3 * SECOND, request, why="the share was spent before", claim={"deny": 1, "policy": "local"})
        if share > 1:
            window.on("b").step(3 * SECOND, request, cost=share, why="of this one a part", claim={"deny": 1})
            window.on("b").step(3 * SECOND, request, cost=share - 1, claim={"allow": 1, "remaining": 0})
    window.store(70 * SECOND, "back")
    window.on("a").step(70 * SECOND, ACME, times=10, why="what was spent is charged in the window of its return", claim={"allow": 8, "deny": 2})

    buckets = FleetTimeline("73-fleet-local-buckets", """Shares of buckets: the rate exactly, the burst rounded down. What does not fit the store is dropped;
with debt more fits.""", [
        shared("plain", {"local": "1/3"}, rate="7/10s", burst=10), shared("debt", {"local": "1/2"}, key=("user",), rate="1/s", burst=4, debt=3),
        shared("big", {"local": "1/2"}, key=("app",), rate="2/s", burst=6, overrides=[{"key": {"app": "vip"}, "rate": "20/s", "burst": 60}])])
    vip = {"app": "vip"}
    buckets.on("a").step(0, USER, cost=4, claim={"allow": 1})
    buckets.store(0, "away")
    buckets.on("a").step(SECOND, ACME, why="7/30s: a token after 30/7 s, rounded up", claim={"deny": 1, "retry_after": "3s285ms714us286ns"})
    buckets.on("a").step(100 * SECOND, ACME, times=4, claim={"allow": 3, "deny": 1})
    buckets.on("a").step(3 * SECOND + 100 * SECOND, vip, cost=30, claim={"allow": 1, "capacity": 30, "remaining": 0})
    buckets.on("b").step(3 * SECOND + 100 * SECOND, {"app": "x"}, times=4, claim={"allow": 3, "deny": 1})
    for replica in ("a", "b", "c", "d"):
        buckets.on(replica).step(3 * SECOND + 100 * SECOND, USER, cost=2, claim={"allow": 1})
    buckets.store(3 * SECOND + 100 * SECOND, "back")
    buckets.on("a").step(103 * SECOND, ACME, peek=True, claim={"allow": 1, "remaining": 7})
    buckets.on("b").step(103 * SECOND, USER, why="eight of four were spent: three are debt, one is dropped",
                         claim={"deny": 1, "remaining": 0, "retry_after": "4s"})
    buckets.on("b").step(103 * SECOND, vip, peek=True, claim={"allow": 1, "remaining": 30})

    together = FleetTimeline("73-fleet-local-together", """Several limits while the store is away: all or nothing, each by its policy.""", [
        shared("share", {"local": "1/2"}, algorithm="fixed-window", rate="8/1m"),
        shared("must", "closed", key=("user",), rate="1/s", burst=5),
        shared("may", "open", key=("app",), rate="1/s", burst=5), limit("mine", key=(), rate="1/s", burst=6)], shows_limits=True)
    together.store(0, "away")
    together.on("a").step(0, CALL, why="one refuses: nothing was taken", claim={"refused": 1, "limit": "must", "policy": "closed"})
    together.on("a").step(0, {"tenant": "acme", "app": "x"}, times=5,
                          claim={"unmetered": 4, "deny": 1, "limit": "share", "policy": "local"})
    together.on("a").step(0, {"app": "x"}, times=3, why="of the process two are left", claim={"unmetered": 2, "deny": 1, "limit": "mine"})
    together.on("b").step(0, ACME, times=5, claim={"allow": 4, "deny": 1})
    together.store(SECOND, "back")
    together.on("c").step(SECOND, {"tenant": "acme"}, why="both shares were spent: all eight", claim={"deny": 1, "limit": "share"})
    return [window, buckets, together]


def given():
    """Reservations and permits live in the store."""
    t = FleetTimeline("74-fleet-reserve", """What one replica reserved another may settle: it is the store that knows.""",
                      [shared(rate="1/s", burst=10, debt=5)])
    t.on("a").reserve(0, ACME, "x", cost=6, claim={"allow": 1, "remaining": 4})
    t.on("b").settle(0, "x", 2, claim={"returned": 4, "remaining": 8})
    t.on("c").cancel(0, "x", why="twice is once", claim={"repeated": True})
    t.on("b").reserve(0, ACME, "y", cost=8, claim={"allow": 1, "remaining": 0})
    t.settle(0, "y", 12, claim={"charged": 4, "remaining": 0})
    t.on("c").reserve(20 * SECOND, ACME, "z", cost=5)
    t.store(20 * SECOND, "away")
    t.settle(20 * SECOND, "z", 1, why="it can be tried again", claim={"error": "store"})
    t.on("a").refund(20 * SECOND, ACME, 1, claim={"error": "store"})
    t.on("a").reset(20 * SECOND, "shared", ACME, claim={"error": "store"})
    t.on("a").reserve(20 * SECOND, ACME, "none", claim={"refused": 1})
    t.on("a").settle(20 * SECOND, "none", 1, claim={"error": "reservation"})
    t.store(21 * SECOND, "back")
    t.on("a").settle(21 * SECOND, "z", 1, claim={"returned": 4, "remaining": 10})
    t.on("b").reserve(30 * SECOND, ACME, "lost", cost=5)
    t.store(30 * SECOND, "lost")
    t.on("b").settle(30 * SECOND, "lost", 1, claim={"error": "reservation"})
    t.on("b").step(30 * SECOND, ACME, peek=True, claim={"remaining": 10})
    t.on("a").step(30 * SECOND, ACME, cost=7)
    t.on("b").refund(30 * SECOND, ACME, 2, claim={"returned": 2, "remaining": 5})
    t.on("c").reset(30 * SECOND, "shared", ACME)
    t.on("a").step(30 * SECOND, ACME, peek=True, claim={"remaining": 10})

    both = FleetTimeline("74-fleet-reserve-both", """A reservation of both kinds is one; its part of the process is good at that process only.""", [
        limit("mine", rate="1/s", burst=20), shared(rate="1/s", burst=10),
        shared("calls", key=("user",), rate="1/s", burst=10, cost=1)])
    both.on("a").reserve(0, CALL, "x", cost=6, claim={"allow": 1, "limit": "shared", "remaining": 4})
    both.on("b").settle(0, "x", 2, why="another process", claim={"error": "reservation"})
    both.on("a").settle(0, "x", 2, claim={"returned": 4, "remaining": 8, "limit": "shared"})
    both.on("a").reserve(0, CALL, "y", cost=6)
    both.on("a").restart(SECOND)
    both.settle(SECOND, "y", 1, why="that process has ended", claim={"error": "reservation"})
    both.on("a").reserve(SECOND, USER, "z", why="no limit of the process is met: any may end it")
    both.on("b").cancel(SECOND, "z", claim={"returned": 1, "limit": "calls"})
    both.on("b").step(SECOND, CALL, peek=True, claim={"allow": 1, "limit": "shared", "remaining": 3})

    held = FleetTimeline("74-fleet-permits", """Permits of the fleet: at most three at once, whoever holds them; any replica renews or releases.""",
                         [permits(3, "30s")])
    held.on("a").acquire(0, ACME, "a", times=2, claim={"allow": 2, "remaining": 1, "expires_after": "30s"})
    held.on("b").acquire(10 * SECOND, ACME, "b", times=2, claim={"allow": 1, "deny": 1, "retry_after": "20s"})
    held.on("c").step(10 * SECOND, ACME, claim={"deny": 1})
    held.on("b").renew(20 * SECOND, "a.1", claim={"expires_after": "30s"})
    held.on("c").release(20 * SECOND, "b.1", claim={"released": True})
    held.release(20 * SECOND, "b.1", claim={"released": False})
    held.on("c").acquire(25 * SECOND, ACME, "c", claim={"allow": 1, "remaining": 0})
    held.on("a").acquire(30 * SECOND - 1, ACME, "d", claim={"deny": 1, "retry_after": "1ns"})
    held.on("a").acquire(30 * SECOND, ACME, "e", why="one has expired", claim={"allow": 1})
    held.renew(30 * SECOND, "a.2", claim={"error": "permit"})
    held.store(31 * SECOND, "away")
    held.on("a").acquire(31 * SECOND, ACME, "f", claim={"refused": 1, "policy": "closed"})
    held.renew(31 * SECOND, "c", claim={"error": "store"})
    held.release(31 * SECOND, "c", claim={"error": "store"})
    held.store(32 * SECOND, "back")
    held.on("a").renew(32 * SECOND, "c", claim={"expires_after": "30s"})
    held.on("a").restart(33 * SECOND, why="a process ends, and its permits live on until they expire")
    held.on("a").acquire(33 * SECOND, ACME, "g", claim={"deny": 1})
    held.on("b").release(33 * SECOND, "e", claim={"released": True})
    held.on("a").acquire(33 * SECOND, ACME, "h", claim={"allow": 1})

    mixed = FleetTimeline("74-fleet-permits-both", """A place in the process and one in the fleet are one permit.""", [
        {"name": "mine", "key": ["tenant"], "algorithm": "concurrency", "at-most": 2, "hold": "10s"}, permits(3, "20s", "all", ())])
    mixed.on("a").acquire(0, ACME, "a", times=3, claim={"allow": 2, "deny": 1, "limit": "mine"})
    mixed.on("b").acquire(0, ACME, "b", times=2, claim={"allow": 1, "deny": 1, "limit": "all", "retry_after": "20s"})
    mixed.on("b").acquire(0, BOB, "c", why="no place of the process is held for it", claim={"deny": 1, "limit": "all"})
    mixed.on("a").release(SECOND, "a.1", claim={"released": True})
    mixed.on("b").acquire(SECOND, ACME, "d", claim={"allow": 1, "limit": "mine", "remaining": 0, "expires_after": "10s"})
    mixed.on("a").renew(2 * SECOND, "d", why="another process", claim={"error": "permit"})
    mixed.on("b").renew(2 * SECOND, "d", claim={"expires_after": "10s"})
    mixed.on("a").release(2 * SECOND, "d", why="the fleet's place comes back, the process's when it expires", claim={"error": "permit"})
    mixed.on("c").acquire(2 * SECOND, ACME, "e", claim={"allow": 1, "limit": "all", "remaining": 0})
    return [t, both, held, mixed]


def lost():
    t = FleetTimeline("75-fleet-state-lost", """A store that forgets: `full` hands out a budget more, `empty` none.""", [
        shared("full", rate="1/s", burst=5), shared("empty", key=("user",), rate="1/s", burst=5, when_state_lost="empty"),
        shared("window", key=("app",), algorithm="fixed-window", rate="5/10s", when_state_lost="empty")])
    asked = ACME, USER, {"app": "a"}
    t.step(10 * SECOND, ACME, times=6, claim={"allow": 5, "deny": 1})
    t.step(10 * SECOND, USER, times=6, claim={"allow": 5, "deny": 1})
    t.step(10 * SECOND, asked[2], times=6, claim={"allow": 5, "deny": 1})
    t.store(11 * SECOND, "lost", why="it ends and comes back without what it knew")
    t.on("b").step(11 * SECOND, ACME, times=6, claim={"allow": 5, "deny": 1})
    t.on("b").step(11 * SECOND, USER, claim={"deny": 1, "retry_after": "1s"})
    t.on("b").step(11 * SECOND, {"user": "new"}, why="who is new cannot be told from who was forgotten", claim={"deny": 1})
    t.on("b").step(11 * SECOND, asked[2], claim={"deny": 1, "retry_after": "9s"})
    t.on("b").step(14 * SECOND, USER, times=4, claim={"allow": 3, "deny": 1})
    t.on("b").step(20 * SECOND, asked[2], claim={"allow": 1, "remaining": 4})
    t.store(21 * SECOND, "away")
    t.store(21 * SECOND, "lost")
    t.step(21 * SECOND, ACME, claim={"refused": 1})
    t.store(22 * SECOND, "back")
    t.step(22 * SECOND, USER, times=2, claim={"allow": 1, "deny": 1})
    t.on("b").restart(23 * SECOND, why="a process that ends takes nothing of the fleet's with it")
    t.on("b").step(23 * SECOND, ACME, times=6, claim={"allow": 5, "deny": 1})
    t.on("b").restart(23 * SECOND)
    t.on("b").step(23 * SECOND, ACME, claim={"deny": 1})

    spent = FleetTimeline("75-fleet-spent-lost", """What a process spent while the store was away is forgotten when it ends before the store is back.""", [
        shared(policy={"local": "1/2"}, algorithm="fixed-window", rate="10/1m")])
    spent.store(0, "away")
    for replica in ("a", "b"):
        spent.on(replica).step(SECOND, ACME, times=6, claim={"allow": 5, "deny": 1})
    spent.on("a").restart(2 * SECOND)
    spent.store(3 * SECOND, "back")
    spent.on("b").step(3 * SECOND, ACME, times=6, why="of ten, five are known to be spent", claim={"allow": 5, "deny": 1})
    return [t, spent]


def rest():
    charged = FleetTimeline("76-fleet-refused-charged", """A refusal is charged where a limit says so, and only by the one that refuses.""", [
        shared("mine", rate="1/s", burst=3, refused="charged"), limit("own", key=(), rate="1/s", burst=8)])
    charged.on("a").step(0, ACME, times=5, claim={"allow": 3, "deny": 2, "limit": "mine", "retry_after": "3s"})
    charged.on("b").step(0, BOB, claim={"allow": 1})
    charged.on("b").step(0, BOB, cost=8, why="the process refuses, so nobody asks whether the fleet ever would",
                         claim={"deny": 1, "limit": "own"})
    charged.on("a").step(0, BOB, times=3, why="the process has five left after three, and the fleet two for this key",
                         claim={"allow": 2, "deny": 1})

    retries = FleetTimeline("76-fleet-retries", """A request that is asked again elsewhere is the same request.""", [
        shared(rate="1/1m", burst=3, retries={"free-within": "1m", "by": "request-id"})])
    first = {**ACME, "request-id": "r1"}
    retries.on("a").step(0, first, claim={"allow": 1, "remaining": 2})
    retries.on("b").step(SECOND, first, times=3, claim={"duplicate": 3, "remaining": 2})
    retries.on("c").step(SECOND, {**ACME, "request-id": "r2"}, claim={"allow": 1, "remaining": 1})
    retries.on("c").step(SECOND, ACME, times=2, claim={"allow": 1, "deny": 1})
    retries.on("a").step(SECOND, {**ACME, "request-id": "r3"}, times=2, why="a refusal is not remembered", claim={"deny": 2})
    retries.on("b").step(59 * SECOND, first, claim={"duplicate": 1})

    watched = FleetTimeline("76-fleet-shadow", """A shared limit that only watches; one with an override, and one that nobody counts.""", [
        shared("watch", rate="1/s", burst=2, enforce="shadow"), shared("real", key=(), rate="1/s", burst=4),
        shared("sized", key=("user",), rate="1/s", burst=2, overrides=[{"key": {"user": "big"}, "rate": "2/s", "burst": 6}])],
        shows_limits=True)
    watched.on("a").step(0, ACME, times=3, claim={"allow": 3, "limit": "real", "remaining": 1})
    watched.on("b").step(0, ACME, times=2, claim={"allow": 1, "deny": 1, "limit": "real"})
    watched.on("b").step(10 * SECOND, {"user": "big"}, times=5, claim={"allow": 4, "deny": 1, "limit": "real"})
    watched.on("a").step(10 * SECOND, {"user": "big"}, cost=3, claim={"deny": 1})
    watched.on("a").step(20 * SECOND, {"user": "u"}, times=3, claim={"allow": 2, "deny": 1, "limit": "sized"})

    costs = FleetTimeline("76-fleet-costs", """Costs from an attribute and costs of its own, shared and not.""", [
        limit("calls", rate="1/s", burst=9, cost=2),
        shared("tokens", rate="10/s", burst=100, cost={"from": "tokens", "default": 50, "max": 80}, debt=40)])
    call = {"tenant": "acme", "tokens": "30"}
    costs.on("a").reserve(0, call, "x", claim={"allow": 1, "limit": "tokens", "remaining": 70})
    costs.on("a").settle(0, "x", 45, why="only what is measured is settled", claim={"charged": 15, "remaining": 55, "limit": "tokens"})
    costs.on("b").step(0, ACME, claim={"allow": 1, "limit": "tokens", "remaining": 5})
    costs.on("b").step(0, {**ACME, "tokens": "81"}, claim={"never": 1, "limit": "tokens"})
    costs.on("a").step(0, {**ACME, "tokens": "5"}, times=2, claim={"allow": 1, "deny": 1, "limit": "tokens"})

    slow = FleetTimeline("76-fleet-slow", """So slow and so large that a store counts it in milliseconds: 1,264,000, one of them an hour.""",
                         [shared(rate="1/1h", burst=1264000)])
    slow.on("a").step(5, ACME, cost=1263999, claim={"allow": 1, "remaining": 1})
    slow.on("b").step(7, ACME, times=2, claim={"allow": 1, "deny": 1, "retry_after": "59m59s999ms999us998ns"})
    slow.on("a").step(HOUR + 4, ACME, claim={"deny": 1, "retry_after": "1ns"})
    slow.on("b").step(HOUR + 5, ACME, claim={"allow": 1, "remaining": 0})
    slow.on("b").step(HOUR + MINUTE, ACME, cost=3, claim={"deny": 1})
    slow.on("a").step(HOUR + MINUTE + slow.last["retry_after"] - 1, ACME, cost=3, claim={"deny": 1, "retry_after": "1ns"})
    slow.on("a").step(slow.now + 1, ACME, cost=3, claim={"allow": 1, "remaining": 0})
    return [charged, retries, watched, costs, slow]


def b59():
    """Each process has its own quota: ten a minute, three nodes, sixty requests in turn."""
    def window(**more):
        return limit("ten", key=(), algorithm="fixed-window", rate="10/1m", **more)

    def play(name, title, one, cut=None, back=None, start=1):
        t = FleetTimeline(name, title, [one])
        allowed, left = {}, 10
        for number in range(1, 61):
            if number == cut:
                t.store(t.now, "away")
            if number == back:
                t.store(t.now, "back")
            last = t.on("abc"[number % 3]).step(number * 100 * MS, {})
            allowed.setdefault(last["decision"], []).append(number)
            if one.get("scope") == "fleet" and cut is None and t.claims_hold:
                assert last["remaining"] <= left, "`remaining` never rises within the window"
                left = last["remaining"]
        return t, allowed

    up, allowed = play("B59-shared", "B59 (a): one quota for three nodes.", window(scope="fleet", when_store_fails="closed"))
    assert not up.claims_hold or allowed["allow"] == list(range(1, 11))
    own, allowed = play("B59-each-its-own", "B59 (b): without a scope each process has its own, and three have thirty.", window())
    assert not own.claims_hold or len(allowed["allow"]) == 30
    found = [up, own]
    for name, policy, expected in (("closed", "closed", {"allow": 10, "deny": 2, "refused": 48}),
                                   ("open", "open", {"allow": 10, "deny": 2, "unmetered": 48}),
                                   ("local", {"local": "1/3"}, {"allow": 19, "deny": 41})):
        t, allowed = play(f"B59-cut-{name}", f"B59 (c): the store is cut at request 13; {name}.",
                          window(scope="fleet", when_store_fails=policy), cut=13)
        counted = {decision: len(numbers) for decision, numbers in allowed.items()}
        assert not t.claims_hold or counted == expected, (name, counted)
        found.append(t)
    for name, policy in (("closed", "closed"), ("open", "open"), ("local", {"local": "1/3"})):
        t, allowed = play(f"B59-back-{name}", f"B59 (d): cut at request 13, back at request 40; {name}. No fresh ten.",
                          window(scope="fleet", when_store_fails=policy), cut=13, back=40)
        assert not t.claims_hold or [number for number in allowed["allow"] if number >= 40] == []
        t.step(MINUTE, {}, times=11, why="the next window is a new one", claim={"allow": 10, "deny": 1})
        found.append(t)
    early = FleetTimeline("B59-spent-is-charged", "B59 (d): cut before anything was spent: what the shares let through is all that is there.",
                          [window(scope="fleet", when_store_fails={"local": "1/3"})])
    early.store(0, "away")
    for replica in "abc":
        early.on(replica).step(SECOND, {}, times=20, claim={"allow": 3, "deny": 17})
    early.store(2 * SECOND, "back")
    early.on("a").step(2 * SECOND, {}, times=20, claim={"allow": 1, "deny": 19})
    return [*found, early]


FILES = (one_budget, across_scopes, policies, shares, given, lost, rest, b59)
