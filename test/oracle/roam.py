# SPDX-License-Identifier: Apache-2.0
"""Random timelines, seeded, in which requests meet everything else: reservations and their ends, refunds, resets, changes of
the limits, restarts. Instants are drawn as in wander.py; of ten steps about four are operations."""

from cases import DAY, MINUTE, MS, SECOND, limit
from models import Ambiguous
from timeline import Timeline
from wander import NAMES, Walk


class Roam(Walk):
    """`sizes`: the sets of limits among which it changes."""

    def __init__(self, timeline, seed, requests, scale, sizes, restarts=False):
        super().__init__(timeline, seed, requests, scale)
        self.sizes, self.restarts, self.open, self.named = sizes, restarts, [], 0

    def turn(self):
        if self.dice.random() < 0.6:
            super().turn()
            return
        self.at += self.dice.choice([0, 0, 1, self.dice.below(self.scale // 8), self.dice.below(self.scale)])
        try:
            self.operate(self.dice.random(), self.dice.choice(self.requests))
        except Ambiguous:
            return

    def operate(self, kind, request):
        t, dice = self.t, self.dice
        if kind < 0.35:
            self.named += 1
            name = f"r{self.named}"
            t.reserve(self.at, request, name, cost=max(1, self.cost()))
            self.open.append(name)
        elif kind < 0.6 and self.open:
            name = dice.choice(self.open)
            t.settle(self.at, name, dice.choice([0, 1, 2, 5, self.cost(), 3 * self.cost()]))
            if dice.random() < 0.8:
                self.open.remove(name)
        elif kind < 0.72 and self.open:
            name = self.open[-1]
            t.cancel(self.at, name)
            self.open.pop()
        elif kind < 0.82:
            t.refund(self.at, request, 1 + dice.below(4))
        elif kind < 0.87:
            one = dice.choice(t.limits)
            t.reset(self.at, one["name"], {name: request[name] for name in one["key"] if name in request})
        elif kind < 0.89 and self.restarts:
            t.restart(self.at)
            self.open = []
        elif self.sizes:
            t.reload(self.at, dice.choice(self.sizes))


def roam(name, title, sizes, seed, steps, scale, requests=None, start=None, restarts=False):
    t = Timeline(name, f"{title} Random steps, seed {seed}.", sizes[0], start)
    names = sorted({key for one in sizes[0] for key in one["key"]})
    walk = Roam(t, seed, requests or [{key: one for key in names} for one in NAMES], scale,
                sizes if len(sizes) > 1 else None, restarts)
    while t.step_count < steps:
        walk.turn()
    return t


def rates(texts, **more):
    """One limit in several sizes: "5/s 20" is a bucket's."""
    found = []
    for text in texts:
        rate, _, burst = text.partition(" ")
        found.append([limit("l", rate=rate, burst=int(burst) if burst else None, **more)])
    return found


def buckets():
    return [roam("40-bucket-roam", "A bucket that is reserved from and overdrawn.", rates(["5/s 20"], debt=15), 401, 90, 4 * SECOND),
            roam("40-bucket-change", "A bucket whose size changes.",
                 rates(["5/s 20", "1/s 8", "50/s 30", "2/m 5", "5/s 20"], debt=10), 402, 100, 4 * SECOND),
            roam("40-bucket-inexact", "A bucket between rates that no tick divides.",
                 rates(["999/s 10", "1000003/h 40", "7/s 12", "1/s 10"], debt=5), 403, 90, SECOND),
            roam("40-bucket-charged", "A bucket whose refusals are charged, and whose size changes.",
                 rates(["4/s 6", "9/s 9", "4/s 2"], refused="charged"), 404, 80, 2 * SECOND),
            roam("40-bucket-lost", "A bucket that begins empty after each restart.", rates(["2/s 10"], when_state_lost="empty"),
                 405, 80, 3 * SECOND, restarts=True)]


def windows():
    fixed = {"algorithm": "fixed-window"}
    return [roam("41-fixed-roam", "A fixed window whose count and period change.",
                 rates(["7/10s", "12/10s", "3/10s", "9/4s", "20/1m"], **fixed), 411, 90, 10 * SECOND, start="2026-11-30T10:00:03Z"),
            roam("41-fixed-charged", "A fixed window whose refusals are charged.", rates(["5/10s"], refused="charged", **fixed), 412, 60,
                 10 * SECOND),
            roam("42-first-roam", "A window from the first request whose count and period change.",
                 rates(["6/10s", "7/10s", "2/10s", "7/3s", "5/1m"], align="first-request", **fixed), 421, 90, 10 * SECOND),
            roam("43-calendar-roam", "Civil days and months, to and fro.",
                 rates(["5/d", "9/d", "20/month", "30/w"], align="calendar Europe/Berlin", **fixed), 431, 70, DAY // 2,
                 start="2027-03-20T12:00:00Z"),
            roam("44-sliding-roam", "A sliding window whose count and period change.",
                 rates(["7/10s", "15/10s", "3/10s", "10/4s", "25/1m"], algorithm="sliding-window"), 441, 110, 10 * SECOND),
            roam("44-sliding-charged", "A sliding window whose refusals are charged.",
                 rates(["7/10s"], algorithm="sliding-window", refused="charged"), 442, 70, 10 * SECOND),
            roam("45-log-roam", "A sliding log whose count and period change.",
                 rates(["6/10s", "9/10s", "2/10s", "6/4s"], algorithm="sliding-log"), 451, 90, 10 * SECOND),
            roam("46-windows-lost", "Windows that begin spent after each restart.",
                 [[limit("fixed", algorithm="fixed-window", rate="5/10s", when_state_lost="empty"),
                   limit("sliding", key=("user",), algorithm="sliding-window", rate="8/10s", when_state_lost="empty"),
                   limit("first", key=("app",), algorithm="fixed-window", rate="4/10s", align="first-request",
                         when_state_lost="empty")]], 461, 70, 10 * SECOND,
                 requests=[{"tenant": "ada"}, {"user": "ada"}, {"app": "ada"}, {"tenant": "bob", "user": "bob"}], restarts=True)]


def together():
    def limits(rate, burst, count, period):
        return [limit("bucket", rate=rate, burst=burst, debt=4),
                limit("window", key=("user",), algorithm="fixed-window", rate=f"{count}/{period}"),
                limit("sliding", key=(), algorithm="sliding-window", rate="20/10s")]
    requests = [{"tenant": tenant, "user": user} for tenant in NAMES[:2] for user in NAMES[:2]] + [{"tenant": "cyd"}]
    return [roam("49-composite-roam", "Three limits, all or nothing, that change.",
                 [limits("2/s", 8, 9, "5s"), limits("1/s", 12, 6, "5s"), limits("2/s", 8, 9, "20s")], 491, 110, 5 * SECOND, requests)]


FILES = (buckets, windows, together)
