# SPDX-License-Identifier: Apache-2.0
"""Random timelines, seeded: drawn towards the instants where limiters go wrong.

One step in four goes to a retry instant and the nanosecond before it, one in eight to the end of a budget or a
window and the nanosecond before; the rest are bursts, small and far gaps, stale stamps, looks, and costs of 0, of
several, of all and of one too many. Steps whose answer the specification leaves open are drawn again.
"""

import random

from cases import DAY, MINUTE, MS, SECOND, limit
from models import HORIZON, Ambiguous
from timeline import Timeline

NAMES = ("ada", "bob", "cyd")


class Dice:
    """Only random.random(), whose sequence Python promises to keep for a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, bound):
        return int(self.random() * bound)

    def choice(self, items):
        return items[self.below(len(items))]


class Walk:
    def __init__(self, timeline, seed, requests, scale):
        self.t, self.dice, self.requests, self.scale = timeline, Dice(seed), requests, scale
        self.at = self.dice.below(scale)

    def cost(self):
        capacity = min(one.models[0].capacity for one in self.t.contract.limits)
        return self.dice.choice([1, 1, 1, 1, 2, 1 + self.dice.below(max(1, capacity)), capacity, capacity + 1, 0])

    def try_step(self, at, request, **how):
        try:
            self.t.step(at, request, **how)
        except Ambiguous:
            return False
        self.at = max(self.at, at)
        return True

    def two_sides(self, wait, request, cost):
        """The nanosecond before an instant, and the instant."""
        if wait is None or not isinstance(wait, int) or not 0 < self.t.now + wait < HORIZON // 2:
            return
        at = self.t.now + wait
        self.try_step(at - 1, request, cost=cost)
        self.try_step(at, request, cost=cost)

    def turn(self):
        dice, request, cost = self.dice, self.dice.choice(self.requests), self.cost()
        kind = dice.random()
        if kind < 0.25:
            if self.try_step(self.at, request, cost=cost, peek=dice.random() < 0.3) and self.t.last["decision"] == "deny":
                self.two_sides(self.t.last["retry_after"], request, cost)
        elif kind < 0.37:
            if self.try_step(self.at, request, cost=0):
                self.two_sides(self.t.last["reset_after"], request, cost)
        elif kind < 0.55:
            self.try_step(self.at, request, times=2 + dice.below(11))
        elif kind < 0.72:
            self.try_step(self.at + 1 + dice.below(self.scale // 8), request, cost=cost)
        elif kind < 0.84:
            self.try_step(max(0, self.at - 1 - dice.below(self.scale)), request, cost=cost)
        elif kind < 0.95:
            self.try_step(self.at + dice.below(self.scale), request, cost=cost, peek=dice.random() < 0.2)
        else:
            self.try_step(self.at + self.scale + dice.below(39 * self.scale), request, cost=cost)


def wander(name, title, limits, seed, steps, scale, requests=None, start=None):
    t = Timeline(name, f"{title} Random steps, seed {seed}.", limits, start)
    names = sorted({key for one in limits for key in one["key"]})
    requests = requests or [{key: one for key in names} for one in NAMES]
    walk = Walk(t, seed, requests, scale)
    while t.step_count < steps:
        walk.turn()
    return t


def buckets():
    return [wander("20-token-bucket-wander", "A token bucket, 5/s up to 20.", [limit("b", rate="5/s", burst=20)],
                   201, 100, 4 * SECOND),
            wander("20-token-bucket-thirds", "3/s: a token is no whole number of nanoseconds, a tick is.",
                   [limit("b", rate="3/s", burst=4)], 202, 80, 2 * SECOND),
            wander("20-token-bucket-inexact", """999/s: no tick divides a nanosecond.
Only what the exact bucket and the strict rule agree upon is stated.""", [limit("b", rate="999/s", burst=10)],
                   203, 90, 10 * MS),
            wander("20-token-bucket-huge", "1,000,003 an hour, 1000 at once: also inexact.",
                   [limit("b", rate="1000003/1h", burst=1000)], 204, 60, 4 * SECOND),
            wander("21-leaky-bucket-wander", "A leaky bucket, 7/s up to 10.",
                   [limit("b", algorithm="leaky-bucket", rate="7/s", burst=10)], 211, 100, 2 * SECOND),
            wander("21-leaky-bucket-slow", "A leaky bucket of days: 3 a week, 3 at once.",
                   [limit("b", algorithm="leaky-bucket", rate="3/w", burst=3)], 212, 60, 4 * DAY)]


def windows():
    def fixed(name, rate, **more):
        return limit(name, algorithm="fixed-window", rate=rate, **more)

    return [wander("23-fixed-window-wander", "A fixed window by the clock, 7 per 10 s.", [fixed("w", "7/10s")], 231, 100,
                   10 * SECOND, start="2026-11-30T10:00:03Z"),
            wander("24-first-request-wander", "A window from the first request, 6 per 10 s.",
                   [fixed("w", "6/10s", align="first-request")], 241, 100, 10 * SECOND),
            wander("24-first-request-coarse", "A window from the first request whose start is rounded to 128 ns.",
                   [fixed("w", "600/1ms", align="first-request")], 242, 60, MS),
            wander("25-calendar-wander", "Civil days around the change to winter time.",
                   [fixed("w", "5/d", align="calendar Europe/Berlin")], 251, 80, 12 * 3600 * SECOND,
                   start="2026-10-22T22:00:00Z"),
            wander("25-calendar-months", "Civil months in New York.",
                   [fixed("w", "5/month", align="calendar America/New_York")], 252, 60, 15 * DAY,
                   start="2027-11-20T00:00:00Z"),
            wander("26-sliding-window-wander", "A sliding window, 7 per 10 s.",
                   [limit("w", algorithm="sliding-window", rate="7/10s")], 261, 120, 10 * SECOND),
            wander("26-sliding-window-large", "A sliding window with the largest count of a minute.",
                   [limit("w", algorithm="sliding-window", rate="524287/1m")], 262, 60, MINUTE,
                   start="2026-11-30T10:00:41Z"),
            wander("27-sliding-log-wander", "A sliding log, 6 per 10 s.",
                   [limit("w", algorithm="sliding-log", rate="6/10s")], 271, 120, 10 * SECOND)]


def together():
    limits = [limit("bucket", rate="2/s", burst=8), limit("window", key=("user",), algorithm="fixed-window", rate="9/5s"),
              limit("sliding", key=(), algorithm="sliding-window", rate="20/10s")]
    requests = [{"tenant": tenant, "user": user} for tenant in NAMES[:2] for user in NAMES[:2]] + [{"tenant": "cyd"}]
    more = limits[:2] + [limit("log", algorithm="sliding-log", rate="7/4s"),
                         limit("first", key=("tenant", "user"), algorithm="fixed-window", rate="6/3s",
                               align="first-request")]
    return [wander("29-composite-wander", "Three limits, all or nothing.", limits, 291, 110, 5 * SECOND, requests),
            wander("29-composite-four-wander", "Four limits, all or nothing.", more, 292, 110, 4 * SECOND, requests)]


FILES = (buckets, windows, together)
