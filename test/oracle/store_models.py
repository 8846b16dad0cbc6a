# SPDX-License-Identifier: Apache-2.0
"""What the strict script should say, from algorithms.md alone: exact numbers, the store's tick, the store's clock.

Idea: a model's state is what was admitted, kept in the plainest form that can be (a rational level, lists of stamps); a look at it is
a new state, and whoever charges commits it. Nothing here is the script's arithmetic: levels are fractions, instants of a retry are
searched for where there is something to search.

Clocks: a stamp up to a second before the latest one counts as that; an earlier one means that the clock stepped back, and what is
counted goes on from there with nothing credited. Lengths count from the store's reading.
"""

from fractions import Fraction

SECOND = 10**6
ALLOW, DENY, NEVER, DUPLICATE = "allow", "deny", "never", "duplicate"


def ceil_div(x, y):
    return -(-x // y)


def ceil(x):
    return -((-x.numerator) // x.denominator)


def first_instant(holds, now, limit=10**16):
    """The first instant from now on at which something holds that goes on holding."""
    if holds(now):
        return now
    step = 1
    while not holds(now + step):
        if step > limit:
            return None
        step *= 2
    low, high = now + step // 2, now + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class Size:
    """One size of a limit; period and hold in ticks of `unit` us."""

    def __init__(self, capacity, period=1, count=0, debt=0, unit=1, charges=False, empty=False, free=0, align="epoch",
                 family=None, windows=None):
        self.capacity, self.period, self.count, self.debt, self.unit = capacity, period, count, debt, unit
        self.charges, self.empty, self.free, self.align = charges, empty, free, align
        self.family, self.windows = family or align, windows  # windows(us) -> (begins, ends), of a calendar

    @property
    def most(self):
        return 2 * self.capacity if self.charges else self.capacity

    @property
    def length(self):
        return self.period * self.unit


class Bucket:
    """level: tokens used, a rational."""

    letter = "b"

    def __init__(self):
        self.state = None  # level, last (ticks), size

    def look(self, us, size, began=None):
        now = us // size.unit
        state = self.state
        if state is None and size.empty:
            state = (Fraction(size.capacity), ceil_div(min(began, us), size.unit), size)
        if state is None:
            return BucketView(Fraction(0), now, now, size)
        level, last, old = state
        clock = us // old.unit
        at = clock if clock < last - SECOND // old.unit else max(clock, last)
        stepped = at < last
        if not stepped:
            level = max(Fraction(0), level - Fraction((at - last) * old.count, old.period))
        if (old.unit, size.unit) == (1, 1000):
            at = at // 1000 + 1
        elif (old.unit, size.unit) == (1000, 1):
            at = max(now, at * 1000)
        level = Fraction(ceil(level * size.period), size.period)  # what is used stays used, up to a tick
        view = BucketView(level, at, now, size)
        rates = [(each.count, each.period, each.unit) for each in (old, size)]
        view.moved = stepped or rates[0] != rates[1]
        return view


class BucketView:
    moved = False  # the clock stepped back or the limit changed: kept by who is refused, too

    def __init__(self, level, at, now, size):
        self.level, self.at, self.now, self.size = level, at, now, size

    @property
    def stamp(self):
        return self.at

    def commit(self, model):
        model.state = (self.level, self.at, self.size)

    def passes(self, cost):
        return self.level + cost <= self.size.capacity

    def remaining(self):
        return max(0, (self.size.capacity - self.level).__floor__())

    def _until(self, above):
        """Ticks from now until the level has fallen by so much."""
        if above <= 0:
            return 0
        if self.size.count == 0:
            return None
        return ceil(Fraction(above) * self.size.period / self.size.count) + self.at - self.now

    def retry(self, cost):
        return None if cost > self.size.capacity else self._until(self.level + cost - self.size.capacity)

    def reset(self):
        return self._until(self.level)

    def take(self, cost):
        self.level += cost

    def refuse(self, cost):
        self.level = max(self.level, min(self.level + cost, 2 * self.size.capacity))

    def put(self, amount):
        full = self.size.capacity + self.size.debt
        done = max(0, min(amount, (full - self.level).__floor__()))
        self.level = self.level + amount if done == amount else max(self.level, Fraction(full))
        return done, amount - done

    def back(self, _at, amount):
        done = min(amount, self.level.__floor__())
        self.level = self.level - amount if done == amount else Fraction(0)
        return done

    def undo(self, charged_at, cost):
        left = cost - Fraction((self.at - charged_at) * self.size.count, self.size.period)
        if left > 0 and self.at >= charged_at:
            self.level = max(Fraction(0), self.level - left)


class Fixed:
    """start, end (us) and count of the window that is counted in."""

    letter = "f"

    def __init__(self):
        self.state = None  # family, start, end, count

    def look(self, us, size, began=None):
        if size.windows:
            begins, ends = size.windows(us)
        elif size.align == "first":
            begins, ends = us, us + size.length
        else:
            begins = us // size.length * size.length
            ends = begins + size.length
        view = FixedView(begins, ends, 0, us, us, size)
        state = self.state
        if state is None and size.empty:
            lost = min(began, us)
            if size.align == "first":
                state = (size.family, lost, lost + size.length, size.capacity)
            elif lost >= begins:
                state = (size.family, begins, ends, size.capacity)
        if state is None or state[0] != size.family or us >= state[2]:
            return view
        _, start, end, count = state
        same = size.windows is not None or end - start == size.length
        if us < start:
            view.count = count
            if start - us > max(SECOND, end - start):
                view.moved = True
                return view  # counted on where the clock is now
            view.at = start
            if not same and size.align == "epoch":
                start = start // size.length * size.length
            view.start, view.end = start, end if same else start + size.length
            view.moved = not same
        elif count > 0:
            view.count = count
            if size.align == "first" and same:
                view.start, view.end = start, end
            view.moved = (view.start, view.end) != (start, end)
        return view


class FixedView:
    moved = False  # the clock stepped back or the limit changed: kept by who is refused, too

    def __init__(self, start, end, count, at, us, size):
        self.start, self.end, self.count, self.at, self.us, self.size = start, end, count, at, us, size

    @property
    def stamp(self):
        return self.at

    def commit(self, model):
        model.state = (self.size.family, self.start, self.end, self.count)

    def passes(self, cost):
        return self.count + cost <= self.size.capacity

    def remaining(self):
        return max(0, self.size.capacity - self.count)

    def _end(self):
        return ceil_div(self.end - self.us, self.size.unit)

    def retry(self, cost):
        if cost > self.size.capacity:
            return None
        return 0 if self.passes(cost) else self._end()

    def reset(self):
        return self._end() if self.count > 0 else 0

    def take(self, cost):
        self.count += cost

    def refuse(self, cost):
        self.count = max(self.count, min(self.count + cost, self.size.most))

    def put(self, amount):
        done = max(0, min(amount, self.size.capacity - self.count))
        self.count += done
        return done, amount - done

    def back(self, at, amount):
        done = min(amount, self.count) if self.start <= at < self.end else 0
        self.count -= done
        return done

    def undo(self, charged_at, cost):
        self.back(charged_at, cost)


class Sliding:
    """Counts by number of their window, in ticks of the size that they were counted under."""

    letter = "s"

    def __init__(self):
        self.state = None  # size, window, previous, current

    def look(self, us, size, began=None):
        state = self.state
        if state is None and size.empty:
            state = (size, min(began, us) // size.unit // size.period, 0, size.capacity)
        now = us // size.unit
        if state is None:
            return SlidingView(now // size.period, 0, 0, now, size)
        old, window, previous, current = state
        clock = us // old.unit
        here, moved = clock // old.period, (old.period, old.unit) != (size.period, size.unit)
        if here < window:
            if window * old.period - clock > max(SECOND // old.unit, old.period):
                window, previous, current = here, 0, previous + current
                moved = True
        elif here > window:
            previous, current = (current if here == window + 1 else 0), 0
            window = here
        if (old.period, old.unit) != (size.period, size.unit):
            elapsed = max(0, clock - window * old.period)
            current += ceil(Fraction(previous * (old.period - elapsed), old.period))
            previous = 0
            window = max(us, window * old.period * old.unit) // size.unit // size.period
        view = SlidingView(window, previous, current, now, size)
        view.moved = moved
        return view


class SlidingView:
    moved = False  # the clock stepped back or the limit changed: kept by who is refused, too

    def __init__(self, window, previous, current, now, size):
        self.window, self.previous, self.current, self.now, self.size = window, previous, current, now, size
        self.at = max(now, window * size.period)

    @property
    def stamp(self):
        return self.at

    def commit(self, model):
        model.state = (self.size, self.window, self.previous, self.current)

    def _level(self, at):
        """Weighted count times the period, at an instant of this window or a later one, if nobody calls."""
        window = at // self.size.period
        current, previous = self.current, self.previous
        if window == self.window + 1:
            current, previous = 0, current
        elif window > self.window:
            current, previous = 0, 0
        return current * self.size.period + previous * (self.size.period - (at - window * self.size.period))

    def passes(self, cost, at=None):
        level = self._level(self.at if at is None else at)
        return level + cost * self.size.period <= self.size.capacity * self.size.period

    def remaining(self):
        return max(0, (self.size.capacity * self.size.period - self._level(self.at)) // self.size.period)

    def retry(self, cost):
        if cost > self.size.capacity:
            return None
        if self.passes(cost):
            return 0
        return first_instant(lambda at: self.passes(cost, at), self.at) - self.now

    def reset(self):
        if self.current > 0:
            return (self.window + 2) * self.size.period - self.now
        return (self.window + 1) * self.size.period - self.now if self.previous > 0 else 0

    def take(self, cost):
        self.current += cost

    def refuse(self, cost):
        self.current = max(self.current, min(self.current + cost, self.size.most))

    def put(self, amount):
        done = max(0, min(amount, self.size.capacity - self.current))
        self.current += done
        return done, amount - done

    def back(self, at, amount):
        window = at // self.size.period
        if window == self.window:
            done = min(amount, self.current)
            self.current -= done
        elif window + 1 == self.window:
            done = min(amount, self.previous)
            self.previous -= done
        else:
            done = 0
        return done

    def undo(self, charged_at, cost):
        self.back(charged_at, cost)


class Log:
    """A stamp (us) for each unit, and how late it has been."""

    letter = "l"

    def __init__(self):
        self.state = None  # stamps, latest

    def look(self, us, size, began=None):
        if self.state is None:
            blocked = min(began, us) + size.length if size.empty else 0
            return LogView([], us, us, size, blocked if us < blocked else None)
        stamps, latest = self.state
        shift = latest - us if us < latest - SECOND else 0
        at = max(us, latest - shift)
        kept = [t - shift for t in stamps]
        view = LogView([t for t in kept if t > at - size.length], at, us, size, None, latest - shift, shift)
        view.kept, view.moved = kept, shift > 0
        return view


class LogView:
    moved = False  # the clock stepped back or the limit changed: kept by who is refused, too

    def __init__(self, stamps, at, us, size, blocked, latest=0, shift=0):
        self.stamps, self.at, self.us, self.size, self.blocked, self.latest = stamps, at, us, size, blocked, latest
        self.shift = shift  # since the last charge the clock has stepped back by so much

    @property
    def stamp(self):
        return self.at

    def commit(self, model):
        model.state = (self.stamps, max(self.latest, self.stamps[-1] if self.stamps else 0))

    def passes(self, cost):
        return not self.blocked and len(self.stamps) + cost <= self.size.capacity

    def remaining(self):
        return 0 if self.blocked else max(0, self.size.capacity - len(self.stamps))

    def _ticks(self, at):
        return ceil_div(at - self.us, self.size.unit)

    def retry(self, cost):
        if cost > self.size.capacity:
            return None
        if self.blocked:
            return self._ticks(self.blocked)
        leaving = len(self.stamps) + cost - self.size.capacity
        return 0 if leaving <= 0 else self._ticks(self.stamps[leaving - 1] + self.size.length)

    def reset(self):
        if self.blocked:
            return self._ticks(self.blocked)
        return self._ticks(self.stamps[-1] + self.size.length) if self.stamps else 0

    def _add(self, amount):
        self.stamps = self.stamps + [self.at] * amount
        return amount

    def take(self, cost):
        self._add(cost)

    def refuse(self, cost):
        self._add(max(0, min(cost, self.size.most - len(self.stamps))))

    def put(self, amount):
        done = 0 if self.blocked else self._add(max(0, min(amount, self.size.capacity - len(self.stamps))))
        return done, amount - done

    def _out(self, fits, amount):
        mine = [i for i, stamp in enumerate(self.stamps) if fits(stamp)][-amount:] if amount else []
        self.stamps = [stamp for i, stamp in enumerate(self.stamps) if i not in mine]
        return len(mine)

    def back(self, at, amount):
        return self._out(lambda stamp: stamp <= at - self.shift, amount)

    def undo(self, charged_at, cost):
        """Whether there was something; also of what has left the period, and what has stays for who is a little late."""
        self.stamps = self.kept
        return self._out(lambda stamp: stamp == charged_at - self.shift, cost) > 0


class Permits:
    """Who holds how much until when."""

    letter = "c"

    def __init__(self):
        self.state = None  # {id: (cost, expiry)}, latest, fence

    def look(self, us, size, began=None):
        if self.state is None:
            blocked = min(began, us) + size.length if size.empty else 0
            return PermitsView({}, us, us, size, 0, blocked if us < blocked else None)
        held, latest, fence = self.state
        shift = latest - us if us < latest - SECOND else 0
        at = max(us, latest - shift)
        held = {name: (cost, expiry - shift) for name, (cost, expiry) in held.items() if expiry - shift > at}
        view = PermitsView(held, at, us, size, fence, None)
        view.moved = shift > 0
        return view


class PermitsView:
    moved = False  # the clock stepped back or the limit changed: kept by who is refused, too

    def __init__(self, held, at, us, size, fence, blocked):
        self.held, self.at, self.us, self.size, self.fence, self.blocked = held, at, us, size, fence, blocked

    @property
    def stamp(self):
        return self.fence

    def commit(self, model):
        model.state = (self.held, self.at, self.fence)

    def _count(self, at):
        return sum(cost for cost, expiry in self.held.values() if expiry > at)

    def passes(self, cost, at=None):
        return not self.blocked and self._count(self.at if at is None else at) + cost <= self.size.capacity

    def remaining(self):
        return 0 if self.blocked else max(0, self.size.capacity - self._count(self.at))

    def _ticks(self, at):
        return ceil_div(at - self.us, self.size.unit)

    def retry(self, cost):
        if cost > self.size.capacity:
            return None
        if self.blocked:
            return self._ticks(self.blocked)
        if self.passes(cost):
            return 0
        return self._ticks(min(expiry for _, expiry in self.held.values() if self.passes(cost, expiry)))

    def reset(self):
        if self.blocked:
            return self._ticks(self.blocked)
        return self._ticks(max(expiry for _, expiry in self.held.values())) if self.held else 0

    def take(self, cost, name):
        self.held = {**self.held, name: (cost, self.at + self.size.length)}
        self.fence = max(self.at, self.fence + 1)

    def put(self, _amount):
        return 0, 0

    def back(self, _at, _amount):
        return 0


KINDS = {"b": Bucket, "f": Fixed, "s": Sliding, "l": Log, "c": Permits}
