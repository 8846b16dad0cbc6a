# SPDX-License-Identifier: Apache-2.0
"""Curated files about limits that a fleet is handed in portions. One process that stands for the store decides them strictly: a lease
never lets more through (P34). So the model is that of a strict limit, and what is new is what happens without the store: of
`leased` nothing is in hand here, so it refuses."""

from cases import ACME, HOUR, MS, SECOND, limit
from fleet_cases import BOB, CALL, shared
from fleet_timeline import FleetTimeline
from roam_fleet import roam

LEASE = {"most": 4, "chunk": 2}


def leased(name="leased", policy="leased", lease=None, **more):
    return shared(name, policy, lease=lease or LEASE, **more)


def one_budget():
    """From idle one replica is admitted all of it, and the others then nothing."""
    found = []
    for name, more, retry in (
            ("token-bucket", {"rate": "1/s", "burst": 8}, "1s"),
            ("leaky-bucket", {"algorithm": "leaky-bucket", "rate": "2/s", "burst": 8}, "500ms"),
            ("fixed-window", {"algorithm": "fixed-window", "rate": "8/10s"}, "10s"),
            ("first-request", {"algorithm": "fixed-window", "rate": "8/10s", "align": "first-request"}, "10s"),
            ("calendar", {"algorithm": "fixed-window", "rate": "8/d", "align": "calendar Europe/Berlin"}, "23h")):
        t = FleetTimeline(f"77-lease-{name}", f"The whole of a leased budget for one replica ({name}), and no more for three.",
                          [leased(**more)])
        t.on("a").step(0, ACME, times=9, claim={"allow": 8, "deny": 1, "remaining": 0, "retry_after": retry})
        t.on("b").step(0, ACME, claim={"deny": 1, "limit": "leased", "retry_after": retry})
        t.on("c").step(0, BOB, cost=8, why="above the most that may be out: the rest is asked for", claim={"allow": 1, "remaining": 0})
        t.on("c").step(0, BOB, cost=9, claim={"never": 1, "retry_after": None})
        t.on("b").step(0, ACME)
        wait = t.last["retry_after"]
        t.on("c").step(wait - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
        t.on("a").step(wait, ACME, claim={"allow": 1})
        t.on("b").step(wait, ACME, peek=True)
        found.append(t)
    return found


def policies():
    """Without the store: what is not in hand is answered by each policy as without a lease, and by `leased` refused."""
    found = []
    for name, policy, counts, told in (
            ("leased", "leased", {"refused": 2}, "leased"), ("closed", "closed", {"refused": 2}, "closed"),
            ("open", {"open": "30s"}, {"unmetered": 2}, "open"), ("local", {"local": "1/2"}, {"allow": 1, "deny": 1}, "local")):
        t = FleetTimeline(f"78-lease-away-{name}", f"A leased limit whose store is away: {name}.",
                          [leased(policy=policy, rate="1/s", burst=6)])
        t.step(0, ACME, cost=4, claim={"allow": 1, "remaining": 2})
        t.store(SECOND, "away")
        t.on("b").step(3 * SECOND, ACME, times=2, claim={**counts, "policy": told, "reason": "store"})
        t.on("b").step(3 * SECOND, ACME, cost=7, why="what never passes is told all the same", claim={"never": 1, "policy": None})
        t.on("c").step(3 * SECOND, ACME, peek=True)
        t.store(10 * SECOND, "back")
        charged = 1 if told == "local" else 0
        t.on("c").step(10 * SECOND, ACME, times=7, claim={"allow": 6 - charged, "deny": 1 + charged})
        t.store(HOUR, "away")
        t.on("a").step(HOUR + 40 * SECOND, BOB, why="another outage")
        found.append(t)
    return found


def together():
    t = FleetTimeline("78-lease-together", "A leased limit beside a strict one and one of the process: all or nothing.", [
        limit("mine", rate="1/s", burst=3), leased(rate="1/s", burst=9), shared("window", {"local": "1/2"}, key=("user",),
                                                                                algorithm="fixed-window", rate="8/10s")],
                      shows_limits=True)
    t.on("a").step(0, CALL, times=4, claim={"allow": 3, "deny": 1, "limit": "mine"})
    t.on("b").step(0, CALL, times=3, claim={"allow": 3})
    t.on("c").step(0, CALL, times=3, why="the window has two left", claim={"allow": 2, "deny": 1, "limit": "window"})
    t.store(20 * SECOND, "away")
    t.on("a").step(20 * SECOND, CALL, times=5, why="a refusal of one costs the others nothing", claim={"refused": 5})
    t.on("a").step(20 * SECOND, {"user": "u"}, times=5, why="a share of four", claim={"allow": 4, "deny": 1, "policy": "local"})
    t.store(21 * SECOND, "back")
    t.on("b").step(21 * SECOND, CALL, times=4, claim={"allow": 3, "deny": 1, "limit": "mine"})
    return t


def lost():
    found = []
    for name, how, more, left in (
            ("bucket-full", None, {"rate": "1/s", "burst": 6}, 6), ("bucket-empty", "empty", {"rate": "1/s", "burst": 6}, 0),
            ("window-empty", "empty", {"algorithm": "fixed-window", "rate": "6/10s"}, 0)):
        fields = {**more, **({"when_state_lost": how} if how else {})}
        t = FleetTimeline(f"79-lease-lost-{name}", f"A store that comes back empty under a leased limit ({name}).", [leased(**fields)],
                          start="2026-11-30T10:00:00Z")
        t.step(12 * SECOND, ACME, cost=4)
        t.store(13 * SECOND, "lost")
        t.on("b").step(13 * SECOND, ACME, times=7, claim={"allow": left, "deny": 1} if left else {"deny": 7})
        t.on("b").step(16 * SECOND, ACME, times=7)
        t.on("a").step(40 * SECOND, ACME, times=7, claim={"allow": 6, "deny": 1})
        found.append(t)
    return found


def changed():
    """Leasing comes, changes and goes, and the budget goes on."""
    def sizes(*leases):
        return [[shared(rate="1/s", burst=8) if one is None else leased("shared", "closed", one, rate="1/s", burst=8)]
                for one in leases]
    steps = sizes(None, LEASE, {"most": 8, "chunk": 8, "for": "500ms"}, None)
    t = FleetTimeline("79-lease-change", "From strict to leased, to other numbers, and back: what was spent stays spent.", steps[0])
    t.step(0, ACME, cost=5, claim={"allow": 1, "remaining": 3})
    for number, step in enumerate(steps[1:], 1):
        t.reload(number * 500 * MS, step)
        t.on("ab"[number % 2]).step(number * 500 * MS, ACME)
    t.step(2 * SECOND, ACME, times=3, why="five and three were spent, two came back", claim={"allow": 2, "deny": 1})
    return t


def roaming():
    """Anything that a fleet can meet, in any order."""
    return [roam("87-lease-bucket-roam", "A leased limit.", [leased(rate="5/s", burst=20, lease={"most": 12, "chunk": 5})], 901, 100,
                 4 * SECOND),
            roam("87-lease-window-roam", "A leased window.", [leased(policy={"local": "1/3"}, algorithm="fixed-window", rate="10/10s")],
                 902, 100, 10 * SECOND, start="2026-11-30T10:00:03Z"),
            roam("87-lease-together-roam", "A leased limit beside a strict one and one of the process.", [
                limit("mine", rate="2/s", burst=8), leased(rate="3/s", burst=12), shared("day", "closed", key=("user",),
                                                                                        algorithm="fixed-window", rate="30/1m")],
                 903, 110, 3 * SECOND, [{"tenant": tenant, "user": user} for tenant in ("acme", "bob") for user in ("u", "v")])]


FILES = (one_budget, policies, together, lost, changed, roaming)
