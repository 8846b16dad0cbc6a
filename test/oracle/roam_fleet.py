# SPDX-License-Identifier: Apache-2.0
"""Random timelines of a fleet, seeded: several replicas, all kinds of requests and operations at any of them, a store that goes
away, comes back and forgets, replicas that begin anew. Instants are drawn as in wander.py."""

from cases import DAY, SECOND, limit
from fleet_cases import permits, shared
from fleet_timeline import FleetTimeline
from models import Ambiguous
from roam import Roam
from wander import NAMES

REPLICAS = (None, "b", "c")


class Elsewhere:
    """A timeline whose every step is at a replica that dice choose; what ends a handle often where it was made."""

    def __init__(self, timeline, walk):
        self.timeline, self.walk = timeline, walk

    def __getattr__(self, name):
        found = getattr(self.timeline, name)
        if name in ("step", "reserve", "acquire", "refund", "reset", "restart"):
            return lambda *args, **more: self.timeline.on(self.walk.replica()) and found(*args, **more)
        if name in ("settle", "cancel", "renew", "release"):
            at_home = self.walk.dice.random() < 0.7
            return lambda *args, **more: (at_home or self.timeline.on(self.walk.replica())) and found(*args, **more)
        return found


class FleetWalk(Roam):
    def __init__(self, timeline, seed, requests, scale, sizes, restarts, loses, holds):
        super().__init__(timeline, seed, requests, scale, sizes, restarts)
        self.t, self.loses, self.holds = Elsewhere(timeline, self), loses, holds
        self.held = []

    def replica(self):
        return self.dice.choice(REPLICAS)

    def cost(self):
        capacity = min(one.models[0].capacity for one in self.t.contract.limits)
        return self.dice.choice([1, 1, 1, 1, 2, 1 + self.dice.below(max(1, capacity)), capacity, capacity + 1, 0])

    def turn(self):
        kind = self.dice.random()
        if kind < 0.86:
            super().turn()
            return
        self.at += self.dice.choice([0, 1, self.dice.below(self.scale // 4), self.dice.below(self.scale)])
        try:
            if kind > 0.98 and self.loses:
                self.t.store(self.at, "lost")
            elif self.t.contract.is_away():
                self.t.store(self.at, "back")
            elif kind > 0.91:
                self.t.store(self.at, "away")
        except Ambiguous:
            return

    def operate(self, kind, request):
        """Permits where there are any, else what Roam does."""
        if not self.holds or kind > 0.8:
            super().operate(kind, request)
        elif kind < 0.4 or not self.held:
            self.named += 1
            name = f"p{self.named}"
            self.t.acquire(self.at, request, name, cost=self.dice.choice([1, 1, 1, 2]))
            self.held.append(name)
        else:
            name = self.dice.choice(self.held)
            (self.t.renew if kind < 0.6 else self.t.release)(self.at, name)


def roam(name, title, limits, seed, steps, scale, requests=None, start=None, sizes=None, restarts=True, loses=True, holds=False):
    t = FleetTimeline(name, f"{title} Random steps, seed {seed}.", limits, start, shows_limits=len(limits) > 1)
    keys = sorted({key for one in limits for key in one["key"]})
    walk = FleetWalk(t, seed, requests or [{key: one for key in keys} for one in NAMES[:2]], scale, sizes, restarts, loses, holds)
    while t.step_count < steps:
        walk.turn()
    return t


def each_policy(make):
    return [make(policy) for policy in ("closed", {"open": "3s"}, {"local": "1/3"})]


def one_limit():
    window = {"algorithm": "fixed-window"}
    found = []
    for number, (name, seed, scale, more, start) in enumerate((
            ("bucket", 801, 4 * SECOND, {"rate": "5/s", "burst": 20, "debt": 8}, None),
            ("leaky", 811, 2 * SECOND, {"algorithm": "leaky-bucket", "rate": "999/s", "burst": 12}, None),
            ("fixed", 821, 10 * SECOND, {**window, "rate": "10/10s"}, "2026-11-30T10:00:03Z"),
            ("first", 831, 10 * SECOND, {**window, "rate": "9/10s", "align": "first-request"}, None),
            ("calendar", 841, DAY // 2, {**window, "rate": "8/d", "align": "calendar Europe/Berlin"}, "2026-10-23T12:00:00Z"),
            ("sliding", 851, 10 * SECOND, {"algorithm": "sliding-window", "rate": "10/10s"}, None),
            ("log", 861, 10 * SECOND, {"algorithm": "sliding-log", "rate": "7/10s"}, None))):
        policy = ("closed", {"open": "3s"}, {"local": "1/3"})[number % 3]
        found.append(roam(f"80-fleet-{name}-roam", f"A fleet's limit ({name}).", [shared(policy=policy, **more)], seed, 100, scale,
                          start=start))
        if policy != {"local": "1/3"}:
            found.append(roam(f"81-fleet-{name}-shares", f"A fleet's limit of which each replica has its share ({name}).",
                              [shared(policy={"local": "2/5"}, **more)], seed + 1, 100, scale, start=start))
    return found


def changed():
    def sizes(rates):
        return [[shared(rate=rate, burst=burst), limit("mine", key=("user",), rate="2/s", burst=5)] for rate, burst in rates]
    limits = sizes((("5/s", 12), ("1/s", 8), ("20/s", 12)))
    return [roam("82-fleet-change", "A fleet's limit beside one of each process, while both change.", limits[0], 871, 100, 3 * SECOND,
                 sizes=limits, restarts=False, loses=False),
            roam("82-fleet-charged", "Refusals of a fleet's limit are charged.",
                 [shared(rate="4/s", burst=6, refused="charged"), limit("mine", key=("user",), rate="8/s", burst=6)], 872, 80, 2 * SECOND)]


def together():
    limits = [limit("mine", rate="2/s", burst=8), shared("window", {"local": "1/2"}, key=("user",), algorithm="fixed-window", rate="9/5s"),
              shared("sliding", "open", key=(), algorithm="sliding-window", rate="20/10s"),
              limit("log", key=("user",), algorithm="sliding-log", rate="12/10s"),
              shared("bucket", {"local": "1/4"}, rate="3/s", burst=12)]
    requests = [{"tenant": tenant, "user": user} for tenant in NAMES[:2] for user in NAMES[:2]] + [{"tenant": "cyd"}]
    return [roam("83-fleet-composite", "Limits of the fleet and of its processes, all or nothing.", limits, 881, 120, 4 * SECOND, requests),
            roam("83-fleet-composite-two", "The same in another order, with one that must be had.", [
                limits[4], limits[0], shared("must", "closed", key=("user",), rate="2/s", burst=10), limits[3]], 882, 120, 4 * SECOND,
                 requests)]


def held():
    return [roam("84-fleet-permits-roam", "Permits of a fleet.", [permits(4, "10s")], 891, 100, 5 * SECOND, holds=True),
            roam("84-fleet-permits-both", "Permits of a fleet and of its processes, and a rate of the fleet.", [
                permits(5, "10s"), {"name": "mine", "key": ["tenant"], "algorithm": "concurrency", "at-most": 3, "hold": "15s"},
                shared("rate", {"local": "1/2"}, key=(), rate="2/s", burst=12)], 892, 110, 4 * SECOND, holds=True)]


FILES = (one_limit, changed, together, held)
