# SPDX-License-Identifier: Apache-2.0
"""Random timelines, seeded, of those who wait and hold: they come, leave, renew, release, and limits change under them.

Of the instants that are drawn one in four is the end of somebody's waiting or of a permit, or the nanosecond before it; of the times that
callers can wait one in three is exactly the time until their turn, or a nanosecond less.
"""

import copy

from cases import HOUR, MINUTE, MS, SECOND, limit
from models import HORIZON, Ambiguous
from permits import running
from room import Result
from timeline import Timeline
from waiting import paced, wait
from wander import NAMES, Dice


class Crowd:
    """`costs`, and `acts`: which of leave, permit, reserve, reload there are."""

    def __init__(self, timeline, seed, requests, scale, costs, acts, sizes):
        self.t, self.dice, self.requests, self.scale = timeline, Dice(seed), requests, scale
        self.costs, self.acts, self.sizes = costs, acts, sizes
        self.at, self.named = 0, 0
        self.permits, self.reserved, self.waiters = [], [], []

    def name(self, letter):
        self.named += 1
        return f"{letter}{self.named}"

    def next_end(self):
        """The instant at which the next one who waits ends; None where nobody does."""
        future = copy.deepcopy(self.t.contract)
        future.is_future = True
        known = len(future.ended)
        while future.waiting and len(future.ended) == known:
            turns = [future.turn(waiter) for waiter in future.firsts()]
            soonest = min([at for at in turns if at is not None] + [waiter.deadline for waiter in future.waiting])
            if soonest > HORIZON // 2:
                return None
            future.advance(soonest)
        return future.clock if len(future.ended) > known else None

    def next_expiry(self):
        """The instant at which the next permit expires; None where none is held."""
        ends = [permit[0] for limit in self.t.contract.limits if limit.is_permits
                for states in limit.states.values() for permit in states[0] or () if permit[0] > self.at]
        return min(ends, default=None)

    def move(self):
        kind = self.dice.random()
        if kind < 0.25:
            end = self.next_end() if self.dice.random() < 0.6 else self.next_expiry()
            if end is not None:
                self.at = max(self.at, end - self.dice.below(2))
        elif kind < 0.6:
            self.at += self.dice.below(self.scale // 4)
        elif kind < 0.66:
            self.at += self.dice.below(6 * self.scale)

    def patience(self, kind, request, cost):
        drawn = self.dice.random()
        if drawn < 0.33:
            room = copy.deepcopy(self.t.contract)
            room.advance(self.at)
            waiter = room.waiter(kind, request, self.at, cost, 20 * HOUR, ())
            turn = room.foretell(waiter) if waiter is not None else None
            if turn is not None and turn - self.at < 20 * HOUR:
                return max(0, turn - self.at - self.dice.below(2))
        long = 20 * HOUR
        return min(long, self.dice.choice([0, 1 + self.dice.below(self.scale), self.dice.below(4 * self.scale), 20 * self.scale, long]))

    def ask(self, kind):
        request, cost = self.dice.choice(self.requests), self.dice.choice(self.costs)
        patience = self.patience(kind, request, cost) if self.dice.random() < 0.75 else None
        name = self.name({"request": "w", "reserve": "r", "acquire": "p"}[kind])
        before = len(self.t.lines)
        if kind == "request":
            self.t.step(self.at, request, cost=cost, wait=patience, name=name if patience is not None else None)
        elif kind == "reserve":
            self.t.reserve(self.at, request, name, cost=cost, wait=patience)
        else:
            self.t.acquire(self.at, request, name, cost=cost, wait=patience)
        if len(self.t.lines) > before:
            if patience is not None:
                self.waiters.append(name)
            if kind == "acquire":
                self.permits.append(name)
            if kind == "reserve":
                self.reserved.append(name)

    def pick(self, names):
        """Mostly one of the last: the others have ended long ago."""
        return names[max(0, len(names) - 1 - self.dice.below(12))]

    def act(self):
        kind = self.dice.choice(self.acts)
        if kind in ("request", "reserve", "acquire"):
            self.ask(kind)
        elif kind == "leave" and self.waiters:
            self.t.leave(self.at, self.pick(self.waiters))
        elif kind == "renew" and self.permits:
            self.t.renew(self.at, self.pick(self.permits))
        elif kind == "release" and self.permits:
            self.t.release(self.at, self.pick(self.permits))
        elif kind == "settle" and self.reserved:
            self.t.settle(self.at, self.pick(self.reserved), self.dice.below(6))
        elif kind == "refund":
            self.t.refund(self.at, self.dice.choice(self.requests), 1 + self.dice.below(2))
        elif kind == "reload":
            self.t.reload(self.at, self.dice.choice(self.sizes))

    def turn(self):
        self.move()
        self.at = max(self.at, self.t.contract.newest, self.t.contract.changed_at)
        try:
            self.act()
        except Ambiguous:
            return


def crowd(name, title, sizes, seed, steps, scale, acts, costs=(1,), requests=None, start=None):
    t = Timeline(name, f"{title} Random steps, seed {seed}.", sizes[0], start)
    names = sorted({key for one in sizes[0] for key in one["key"]})
    walk = Crowd(t, seed, requests or [{key: one for key in names} for one in NAMES[:2]], scale, costs, acts.split(), sizes)
    while t.step_count < steps:
        walk.turn()
    assert any(isinstance(one, (int, Result)) for one in t.named.values())
    return t


ASKS = "request request request request leave"


def rates():
    fixed = {"algorithm": "fixed-window"}
    return [crowd("60-leaky-queue-roam", "A leaky queue.", [[paced("5/s", "4s", 6)]], 601, 110, SECOND, ASKS),
            crowd("60-leaky-queue-thirds", "A leaky queue at 3/s.", [[paced("3/s", "10s", 8)]], 602, 80, SECOND, ASKS),
            crowd("60-leaky-queue-fast", "A leaky queue at 5,000/s.", [[paced("5000/s", "10ms", 12)]], 603, 80, MS, ASKS),
            crowd("60-leaky-queue-inexact", "A leaky queue at 999,983/s: no tick divides a nanosecond.",
                  [[paced("999983/s", "1ms", 12)]], 604, 80, 4000, ASKS),
            crowd("61-bucket-wait-roam", "A token bucket that lets its callers wait, and costs of several.",
                  [[limit("b", rate="2/s", burst=6, wait=wait("12s", 8))]], 611, 110, 2 * SECOND, ASKS, (1, 1, 1, 2, 3, 6, 7)),
            crowd("61-bucket-wait-settled", "A token bucket: those who wait reserve, settle and refund.",
                  [[limit("b", rate="2/s", burst=6, debt=6, wait=wait("12s", 8))]], 612, 100, 2 * SECOND,
                  ASKS + " reserve reserve settle settle refund", (1, 1, 2, 4)),
            crowd("61-bucket-wait-change", "A token bucket that changes under those who wait.",
                  [[limit("b", rate=rate, burst=burst, wait=wait(up_to, 8))]
                   for rate, burst, up_to in (("2/s", 6, "12s"), ("5/s", 6, "12s"), ("1/s", 9, "20s"), ("2/s", 7, "5s"))],
                  613, 110, 2 * SECOND, ASKS + " reload"),
            crowd("62-fixed-wait-roam", "A fixed window that lets its callers wait.",
                  [[limit("w", rate="4/10s", wait=wait("25s", 9), **fixed)]], 621, 90, 5 * SECOND, ASKS, (1, 1, 1, 2, 4),
                  start="2026-11-30T10:00:03Z"),
            crowd("62-first-wait-roam", "A window from the first request that lets its callers wait.",
                  [[limit("w", rate="4/10s", align="first-request", wait=wait("25s", 9), **fixed)]], 622, 90, 5 * SECOND, ASKS,
                  (1, 1, 1, 2, 4)),
            crowd("62-calendar-wait-roam", "Civil days that let their callers wait, around the change to winter time.",
                  [[limit("w", rate="3/d", align="calendar Europe/Berlin", wait=wait("20h", 9), **fixed)]], 623, 60, 300 * MINUTE, ASKS,
                  start="2026-10-23T20:00:00Z"),
            crowd("63-sliding-wait-roam", "A sliding window that lets its callers wait.",
                  [[limit("w", algorithm="sliding-window", rate="5/10s", wait=wait("25s", 9))]], 631, 90, 5 * SECOND, ASKS, (1, 1, 1, 2)),
            crowd("63-log-wait-roam", "A sliding log that lets its callers wait.",
                  [[limit("w", algorithm="sliding-log", rate="4/10s", wait=wait("25s", 9))]], 632, 90, 5 * SECOND, ASKS, (1, 1, 1, 2)),
            crowd("63-windows-wait-change", "Windows that change under those who wait.",
                  [[limit("fixed", key=("user",), rate=f"{count}/{period}", wait=wait("40s", 9), **fixed),
                    limit("sliding", algorithm="sliding-window", rate=f"{count}/{period}", wait=wait("40s", 9))]
                   for count, period in ((4, "10s"), (6, "10s"), (2, "10s"), (5, "4s"))], 633, 90, 5 * SECOND, ASKS + " reload",
                  requests=[{"tenant": "ada"}, {"user": "ada"}])]


def holding():
    acts = "acquire acquire acquire renew release release leave"
    return [crowd("64-permits-roam", "Permits, acquired, renewed, released and lost.", [[running(3, "10s")]], 641, 110, 5 * SECOND,
                  "acquire acquire acquire renew release release request", (1, 1, 2, 3, 4)),
            crowd("64-permits-wait-roam", "Permits that are waited for.", [[running(2, "10s", wait=wait("30s", 6))]], 642, 110, 5 * SECOND,
                  acts),
            crowd("64-permits-wait-costs", "Permits of several places that are waited for.",
                  [[running(4, "10s", wait=wait("30s", 6))]], 643, 100, 5 * SECOND, acts, (1, 1, 2, 3, 4, 5)),
            crowd("64-permits-change", "Permits whose number and time change.",
                  [[running(at_most, hold, wait=wait("40s", 6))] for at_most, hold in ((2, "10s"), (4, "10s"), (1, "10s"), (3, "15s"))],
                  644, 110, 5 * SECOND, acts + " reload"),
            crowd("64-permits-rates", "Permits and a rate, all or nothing.",
                  [[limit("rate", rate="1/s", burst=4), running(2, "10s", key=("user",))]], 645, 90, 3 * SECOND,
                  "acquire acquire acquire request renew release release",
                  requests=[{"tenant": tenant, "user": user} for tenant in NAMES[:2] for user in NAMES[:2]])]


def together():
    pairs = [{"tenant": tenant, "user": user} for tenant in NAMES[:2] for user in NAMES[:2]] + [{"tenant": "cyd"}]
    return [crowd("65-composite-wait-roam", "Two paces and a bucket, waited for as a whole.",
                  [[paced("2/s", "20s", 9), paced("3/s", "20s", 9, name="user", key=("user",)),
                    limit("all", key=(), rate="4/s", burst=5, wait=wait("20s", 12))]], 651, 110, 2 * SECOND, ASKS, requests=pairs),
            crowd("65-composite-wait-denied", "A pace that is waited for, and a quota that is not.",
                  [[paced("2/s", "20s", 9), limit("quota", key=("user",), algorithm="sliding-window", rate="6/10s")]],
                  652, 90, 2 * SECOND, ASKS, requests=pairs),
            crowd("65-composite-permits-roam", "A pace and permits, waited for as a whole.",
                  [[paced("2/s", "20s", 12, key=()), running(2, "6s", key=("user",), wait=wait("20s", 6))]], 653, 110, 2 * SECOND,
                  "acquire acquire acquire release release leave renew request", requests=pairs)]


FILES = (rates, holding, together)
