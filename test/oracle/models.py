# SPDX-License-Identifier: Apache-2.0
"""Each algorithm as an exact, slow, obvious model: the source of every expected value in test/conformance.

Idea: a model answers three questions about a state and an instant, by definition and with exact numbers only:
may `cost` pass, is the budget whole, and what is the state after a charge. Everything that is reported is searched
for with those answers (the largest cost that passes, the first instant at which it passes, the first at which the
budget is whole), so no formula of the implementation is repeated here.

A stamp is nanoseconds since the start of the file; wall time is `start` plus the stamp.
"""

import datetime
import re
import zoneinfo
from fractions import Fraction

SECOND = 10**9
DAY = 86400 * SECOND
HORIZON = 315569520 * SECOND  # ten mean years: a later stamp is refused, reason time
TICK = 1  # ns between two readings of the clock that counts; store_grid.py plays in a store's microseconds
UNITS = {"ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": DAY, "w": 7 * DAY}


class Ambiguous(Exception):
    """The specification leaves this step open (within one tick, or after a reclaim): it is not asserted."""


def first_instant(holds, now, limit=HORIZON):
    """The first instant from `now` on at which a monotone predicate holds, whole ticks later, or None beyond `limit`."""
    if holds(now):
        return now
    step = 1
    while not holds(now + step * TICK):
        if now + step * TICK > limit:
            return None
        step *= 2
    low, high = step // 2, step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(now + middle * TICK) else (middle, high)
    return now + high * TICK


def largest_cost(passes, capacity):
    """The largest cost up to `capacity` that passes; 0 when none does."""
    low, high = 0, capacity + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


class Model:
    """What every algorithm answers. `state` None is "never used"."""

    exact_horizon = False  # an instant beyond the horizon is reported as null

    def remaining(self, state, now):
        return largest_cost(lambda cost: self.passes(state, now, cost), self.capacity)

    def retry_at(self, state, now, cost):
        if cost > self.capacity:
            return None
        return first_instant(lambda at: self.passes(state, at, max(cost, 1)), now)

    def reset_at(self, state, now):
        return first_instant(lambda at: self.is_whole(state, at), now)

    def saw(self, now):
        """A stamp was used under this limit (calendars publish their window)."""

    # Beside deciding: what a refusal charges (1.14), a settlement or refund changes (1.13), what a key whose history was
    # lost had (4.7), and what a state of the model before a change means here (1.17). Tokens done are rounded down.

    def charge_refused(self, state, now, cost):
        raise Ambiguous

    def overdraw(self, state, now, amount):
        """(state, tokens charged) of an unconditional charge."""
        raise Ambiguous

    def give_back(self, state, charged_at, now, amount):
        """(state, tokens given back)."""
        raise Ambiguous

    def lost(self, at):
        raise Ambiguous

    def convert(self, old, state, at):
        raise Ambiguous


class Bucket(Model):
    """Token bucket and leaky bucket as a meter: the exact rational GCRA, E counted in tokens (algorithms 1.2)."""

    exact_horizon = True

    def __init__(self, count, period, burst, debt=0):
        self.rate = Fraction(count, period)
        self.capacity, self.debt = burst, debt

    def clock(self, now):
        return self.rate * now

    clock_up = clock

    def passes(self, state, now, cost):
        return max(0, (state or 0) - self.clock(now)) + cost <= self.capacity

    def is_whole(self, state, now):
        return (state or 0) <= self.clock(now)

    def charge(self, state, now, cost):
        return max(state or 0, self.clock(now)) + cost

    def base(self, state, now):
        """Where a charge begins: at the level, or at the clock where the bucket is full."""
        return self.clock_up(now) if self.is_whole(state, now) else state

    def charge_refused(self, state, now, cost):
        base = self.base(state, now)
        return max(base, min(base + cost, self.clock(now) + 2 * self.capacity))

    def overdraw(self, state, now, amount):
        base = self.base(state, now)
        raised = max(base, min(base + amount, self.clock(now) + self.capacity + self.debt))
        return (raised, int(raised - base)) if raised > base else (state, 0)

    def give_back(self, state, charged_at, now, amount):
        used = max(0, (state or 0) - self.clock(max(now, charged_at)))
        return state if used == 0 else state - min(used, amount), int(min(used, amount))

    def lost(self, at):
        return self.clock_up(at) + self.capacity

    def convert(self, old, state, at):
        used = (state or 0) - old.clock(at)
        return self.clock_up(at) + self.scaled(used) if used > 0 else None

    def scaled(self, used):
        return used


class StrictBucket(Bucket):
    """The same under the strict rule of algorithms 2.3 and 2.4, for rates that no tick divides.

    The number of ticks m is chosen as 2.3 says; the word compares with the clock rounded down and anchors with the
    clock rounded up. Where one nanosecond is a whole number of ticks this is the rational bucket itself.
    """

    def __init__(self, count, period, burst, debt=0, above=0):
        super().__init__(count, period, burst, debt)
        n, p = self.rate.numerator, self.rate.denominator
        if count == 0:
            self.ticks = 1
        else:
            cap = min((2**62 * p) // (n * HORIZON), (2**62 - 1) // max(burst + above, 1))
            if cap < 1:
                raise ValueError("no tick fits this rate and burst")
            self.ticks = p if p <= cap else 2 ** (cap.bit_length() - 1)
        self.is_exact = (self.rate * self.ticks).denominator == 1

    def clock(self, now):
        ticks = self.rate * now * self.ticks
        return Fraction(ticks.numerator // ticks.denominator, self.ticks)

    def clock_up(self, now):
        return self.scaled(self.rate * now)

    def scaled(self, used):
        """Rounded up to a tick."""
        ticks = used * self.ticks
        return Fraction(-((-ticks.numerator) // ticks.denominator), self.ticks)

    def charge(self, state, now, cost):
        return self.base(state, now) + cost


class FixedWindow(Model):
    """At most `count` in each window; windows are multiples of the period since 1970."""

    def __init__(self, count, period, start):
        self.capacity, self.period, self.start = count, period, start

    def window(self, now):
        return (self.start + now) // self.period

    index = window  # that a request is counted in

    def used(self, state, now):
        return state[1] if state is not None and state[0] >= self.index(now) else 0

    def passes(self, state, now, cost):
        return self.used(state, now) + cost <= self.capacity

    def is_whole(self, state, now):
        return self.used(state, now) == 0

    def charge(self, state, now, cost):
        index = self.index(now) if state is None else max(state[0], self.index(now))
        return (index, self.used(state, now) + cost)

    def charge_refused(self, state, now, cost):
        used = self.used(state, now)
        return self.charge(state, now, max(0, min(cost, 2 * self.capacity - used)))

    def overdraw(self, state, now, amount):
        done = max(0, min(amount, self.capacity - self.used(state, now)))
        return (self.charge(state, now, done), done) if done else (state, 0)

    def give_back(self, state, charged_at, now, amount):
        if state is None or not state[0] == self.window(charged_at) == self.index(now):
            return state, 0
        done = min(amount, state[1])
        return (state[0], state[1] - done), done

    def lost(self, at):
        return self.index(at), self.capacity

    def length(self):
        return self.period

    def convert(self, old, state, at):
        if self.length() == old.length():
            return state
        if state is not None and state[0] > old.index(at):
            raise Ambiguous
        used = old.used(state, at)
        return (self.index(at), used) if used else None


class CalendarWindow(FixedWindow):
    """Civil days, weeks from Monday, months and years. The limit's window never goes back (algorithms 2.9)."""

    def __init__(self, count, unit, zone, start):
        super().__init__(count, None, start)
        self.unit, self.zone = unit, zoneinfo.ZoneInfo(zone)
        self.published = None

    def window(self, now):
        seconds = (self.start + now) // SECOND
        instant = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).astimezone(self.zone)
        day = instant.toordinal()  # day 1 was a Monday
        index = {"d": day, "w": (day - 1) // 7, "month": instant.year * 12 + instant.month, "year": instant.year}
        return index[self.unit]

    def index(self, now):
        return self.window(now) if self.published is None else max(self.window(now), self.published)

    def saw(self, now):
        self.published = self.index(now)

    def length(self):
        return self.unit


class FirstRequestWindow(Model):
    """A window that begins at a key's first request, its start rounded up to a power of two of ns (algorithms 2.8)."""

    def __init__(self, count, period, most):
        self.capacity, self.period = count, period
        start_bits = 63 - most.bit_length()
        self.unit = TICK
        while TICK == 1 and 2**start_bits * self.unit < 2 * HORIZON:
            self.unit *= 2

    def used(self, state, now):
        return state[1] if state is not None and now < state[0] + self.period else 0

    def passes(self, state, now, cost):
        return self.used(state, now) + cost <= self.capacity

    def is_whole(self, state, now):
        return self.used(state, now) == 0

    def charge(self, state, now, cost):
        if self.used(state, now) > 0:
            return (state[0], state[1] + cost)
        return (self.round_up(now), cost)

    def round_up(self, start):
        return -(-start // self.unit) * self.unit

    def charge_refused(self, state, now, cost):
        return self.charge(state, now, max(0, min(cost, 2 * self.capacity - self.used(state, now))))

    def overdraw(self, state, now, amount):
        done = max(0, min(amount, self.capacity - self.used(state, now)))
        return (self.charge(state, now, done), done) if done else (state, 0)

    def give_back(self, state, charged_at, now, amount):
        used = self.used(state, now)
        if used == 0 or not state[0] <= charged_at < state[0] + self.period:
            return state, 0
        done = min(amount, used)
        return (state[0], used - done), done

    def lost(self, at):
        return self.round_up(at), self.capacity

    def convert(self, old, state, at):
        """Another period begins at the change, with what was counted."""
        used = old.used(state, at)
        start = state[0] if state is not None and old.period == self.period else at
        return (self.round_up(start), used) if used else None


class SlidingWindow(Model):
    """This window's count plus the last one's, weighted by the share that still overlaps (algorithms 1.6)."""

    def __init__(self, count, period, start):
        self.capacity, self.period, self.start = count, period, start

    def view(self, state, now):
        """(window, previous count, current count, elapsed) with the stale rule: an older window is the stored one."""
        index, elapsed = divmod(self.start + now, self.period)
        if state is None:
            return index, 0, 0, elapsed
        stored, previous, current = state
        if index < stored:
            return stored, previous, current, 0
        if index == stored:
            return index, previous, current, elapsed
        return (index, current, 0, elapsed) if index == stored + 1 else (index, 0, 0, elapsed)

    def passes(self, state, now, cost):
        _, previous, current, elapsed = self.view(state, now)
        weighted = (current + cost) * self.period + previous * (self.period - elapsed)
        return weighted <= self.capacity * self.period

    def is_whole(self, state, now):
        _, previous, current, _ = self.view(state, now)
        return previous == 0 and current == 0

    def charge(self, state, now, cost):
        index, previous, current, _ = self.view(state, now)
        return index, previous, current + cost

    def charge_refused(self, state, now, cost):
        _, _, current, _ = self.view(state, now)
        return self.charge(state, now, max(0, min(cost, 2 * self.capacity - current)))

    def overdraw(self, state, now, amount):
        _, _, current, _ = self.view(state, now)
        done = max(0, min(amount, self.capacity - current))
        return (self.charge(state, now, done), done) if done else (state, 0)

    def give_back(self, state, charged_at, now, amount):
        index, previous, current, _ = self.view(state, now)
        charged = (self.start + charged_at) // self.period
        if charged == index:
            done = min(amount, current)
            return (index, previous, current - done), done
        done = min(amount, previous) if charged + 1 == index else 0
        return ((index, previous - done, current), done) if done else (state, 0)

    def lost(self, at):
        return (self.start + at) // self.period, 0, self.capacity

    def convert(self, old, state, at):
        """Another period: what is used at the change, rounded up, enters the new window that contains it."""
        if self.period == old.period or state is None:
            return state
        if state[0] > (old.start + at) // old.period:
            raise Ambiguous
        _, previous, current, elapsed = old.view(state, at)
        used = current - (-previous * (old.period - elapsed) // old.period)
        return ((self.start + at) // self.period, 0, used) if used else None


class SlidingLog(Model):
    """Every admitted stamp. One exactly a period old no longer counts (algorithms 1.5)."""

    def __init__(self, count, period):
        self.capacity, self.period = count, period

    def live(self, state, now):
        if state is None:
            return 0
        now = max(now, state[-1][0])
        return sum(cost for stamp, cost in state if stamp > now - self.period)

    def passes(self, state, now, cost):
        return self.live(state, now) + cost <= self.capacity

    def is_whole(self, state, now):
        return self.live(state, now) == 0

    def charge(self, state, now, cost):
        stamp = now if state is None else max(now, state[-1][0])
        kept = tuple(entry for entry in state or () if entry[0] > stamp - self.period)
        return kept + ((stamp, cost),)

    def overdraw(self, state, now, amount):
        done = max(0, min(amount, self.capacity - self.live(state, now)))
        return (self.charge(state, now, done), done) if done else (state, 0)

    def give_back(self, state, charged_at, now, amount):
        """The newest stamps not later than the charge."""
        left, kept = amount, []
        for stamp, cost in reversed(state or ()):
            taken = min(left, cost) if stamp <= charged_at and stamp > now - self.period else 0
            left -= taken
            kept += [(stamp, cost - taken)] if cost > taken else []
        return tuple(reversed(kept)) or None, amount - left

    def convert(self, old, state, at):
        """Stamps need no conversion; one that counts no more may be forgotten, so it must not come back."""
        if any(at - self.period < stamp <= at - old.period for stamp, _ in state or ()):
            raise Ambiguous
        return state


class Concurrency(Model):
    """At most N unexpired permits at once; each is a lease of `hold` (algorithms 1.9). State: (expires at, cost, number)."""

    def __init__(self, at_most, hold):
        self.capacity, self.hold, self.given = at_most, hold, 0

    def live(self, state, now):
        return tuple(permit for permit in state or () if permit[0] > now)

    def passes(self, state, now, cost):
        return sum(permit[1] for permit in self.live(state, now)) + cost <= self.capacity

    def is_whole(self, state, now):
        return not self.live(state, now)

    def charge(self, state, now, cost):
        self.given += 1
        return self.live(state, now) + ((now + self.hold, cost, self.given),)

    def holds(self, state, now, number):
        return any(permit[2] == number for permit in self.live(state, now))

    def renew(self, state, now, number):
        return tuple((now + self.hold, *permit[1:]) if permit[2] == number else permit for permit in self.live(state, now))

    def release(self, state, now, number):
        return tuple(permit for permit in self.live(state, now) if permit[2] != number)

    def convert(self, old, state, at):
        self.given = max(self.given, old.given)
        return self.live(state, at) or None


def length_of(text):
    """ns of "60s" or "1m30s", as contracts write it."""
    return sum(int(count) * UNITS[unit] for count, unit in re.findall(r"([0-9]+)([a-z]+)", text))


def parse_rate(text):
    """(count, period in ns or None, unit): "100/15m" is (100, 900 s, "m")."""
    count, _, rest = text.partition("/")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    unit = rest[len(digits):]
    length = UNITS.get(unit)
    return int(count), length and int(digits or 1) * length, unit


def both_models_of(limit):
    """A bucket's exact model and its strict one."""
    count, period, _ = parse_rate(limit["rate"])
    burst, debt = limit.get("burst", 1), limit.get("debt", 0)
    above = max(debt, burst) if limit.get("refused") == "charged" else debt
    return [Bucket(count, period, burst, debt), StrictBucket(count, period, burst, debt, above)]


def models_of(limit, start):
    """The models of one limit of a contract: the exact one first; a second where rounding must be told apart."""
    algorithm = limit.get("algorithm", "token-bucket")
    if algorithm == "concurrency":
        return [Concurrency(limit["at-most"], length_of(limit["hold"]))]
    count, period, unit = parse_rate(limit["rate"])
    is_charged = limit.get("refused") == "charged"
    if algorithm in ("token-bucket", "leaky-bucket", "leaky-queue"):
        exact, strict = both_models_of(limit)
        if TICK > 1:  # the store's bucket carries its remainder, so it is the exact one at every tick (4.2)
            return [exact]
        if "wait" in limit:  # an instant of release is one instant: that of the strict rule, which is never early
            return [strict]
        return [exact] if strict.is_exact else [exact, strict]
    if algorithm == "sliding-window":
        return [SlidingWindow(count, period, start)]
    if algorithm == "sliding-log":
        return [SlidingLog(count, period)]
    align = limit.get("align", "epoch")
    if align == "first-request":
        return [FirstRequestWindow(count, period, 2 * count if is_charged else count)]
    if align.startswith("calendar "):
        return [CalendarWindow(count, unit, align.split()[1], start)]
    return [FixedWindow(count, period, start)]
