# SPDX-License-Identifier: Apache-2.0
"""What the store should say of portions of a budget, from algorithms.md 4.3 to 4.5 alone: exact numbers, no indexes, no sums kept.

Idea: a key's model is that of a strict decision (store_models.py) and knows besides how much of it is out; who holds it is a plain
list of records. A message walks all of them. What is out of the level is refilled as little as what is spent and not reported, and
is over at the latest when the last record is (till): so strict decisions need no records.

Words of 4.4 here: tok is capacity - level; B - out is how far it refills, so the level never drains below out.
"""

from fractions import Fraction

from store_models import SECOND, Bucket, BucketView, Fixed, FixedView, ceil, ceil_div

HOLDERS_MAX = 1000


class Lease:
    """How a limit is handed out; us."""

    def __init__(self, most, chunk, duration):
        self.most, self.chunk, self.duration = most, chunk, duration

    @property
    def grace(self):
        return self.duration // 50 + 1000


def share(wants, capacity, turn=0):
    """Max-min in whole tokens (P45): as much water for each as all but who wants less can have, and what does not divide one by one
    to those who want most, of equals to another one at each turn. `wants` by run."""
    runs = sorted(wants)
    water, above = 0, max(wants.values(), default=0) + 1
    while above - water > 1:
        middle = (water + above) // 2
        water, above = (middle, above) if sum(min(want, middle) for want in wants.values()) <= capacity else (water, middle)
    parts = {run: min(want, water) for run, want in wants.items()}
    rest = capacity - sum(parts.values())
    thirsty = [run for run in runs if wants[run] > water]
    thirsty.sort(key=lambda run: (wants[run], (runs.index(run) + turn) % len(runs)))
    for run in thirsty[len(thirsty) - min(rest, len(thirsty)):]:
        parts[run] += 1
    return parts


class Record:
    def __init__(self):
        self.seq, self.left, self.grant, self.expiry, self.wanted, self.ttl, self.label = 0, 0, 0, 0, 0, 0, ""


class Holders:
    """Who holds portions of one key."""

    def __init__(self):
        self.records = {}
        self.granted = self.returned = self.spent = self.lost = 0
        self.off = self.last = 0  # the clock of leases
        self.till = 0  # the last expiry that was ever said
        self.window = None

    @property
    def out(self):
        return sum(record.left for record in self.records.values())

    def clock(self, us):
        now = us + self.off
        if now < self.last - SECOND:
            self.off += self.last - now
            now = self.last
        self.last = max(now, self.last)
        return self.last


def message(model, us, size, began, run, label, seq, used, give, want, seen):
    """What the store answers, as script_drive.h tells it: stale, repeated, damaged, lost writes, granted, left, ttl, remaining,
    retry, ends, and what is seen: version, used, at. `model`: LeasedBucket or LeasedFixed."""
    lease, view = size.lease, model.look(us, size, began)
    if model.holders is None:
        model.holders = Holders()
    holders, stored = model.holders, view.out
    clock = holders.off, holders.last
    now = holders.clock(us)
    old_out = holders.out
    if holders.window != view.window:
        for record in holders.records.values():
            holders.lost += record.left
            record.left = 0
        holders.window = view.window
    gone = [name for name, record in holders.records.items() if record.expiry <= now]
    for name in gone:
        holders.lost += holders.records.pop(name).left
    if model.state is not None and view.out < holders.out:  # decisions have refilled it: what is held is over, or it would be there twice
        for each in holders.records.values():
            holders.lost += each.left
            each.left = 0
    view.join(holders.out)
    record = holders.records.get(run)
    ttl = max(0, min(lease.duration, view.end - us)) if view.letter == "f" else lease.duration

    def answer(stale, repeated, lost, granted, left, length):
        retry = 0 if view.rest() > 0 else view.retry(1)
        if view.letter == "b" and view.out >= size.capacity:
            retry = None
        return (stale, repeated, 0, lost, granted, left, length, view.rest(), retry,
                view.end - us if view.letter == "f" else None, 0 if view.waits else view.ver, view.used(), view.stamp)

    if record is None and len(holders.records) >= HOLDERS_MAX or record is not None and seq <= record.seq:
        if gone or old_out != holders.out or view.out != stored or view.moved or clock[0] != holders.off:
            view.lend(model, us + holders.till - now)
        else:
            holders.off, holders.last = clock  # nothing was written
        if record is None:
            return answer(0, 0, 0, 0, 0, ttl)
        return answer(int(seq < record.seq), int(seq == record.seq), 0, record.grant, record.left, record.ttl)
    lost_writes = 0
    if record is None:
        record = holders.records[run] = Record()
    else:
        version, level, at = seen
        if version > view.ver and not view.waits:
            view.ver = version
            lost_writes = int(view.witness(min(level, size.capacity), at))
        spent = min(used, record.left)
        returned = min(give, record.left - spent)
        record.left -= spent + returned
        holders.spent += spent
        holders.returned += returned
        view.report(spent, returned)
    if want > 0:
        record.wanted = min(record.left + want, max(lease.chunk, record.left))
    else:
        record.wanted = record.left if give > 0 else max(record.left, record.wanted)
    wants = {name: each.wanted for name, each in holders.records.items() if each.wanted > 0}
    granted = 0
    if want > 0:
        mine = share(wants, min(lease.most, view.rest() + view.out), view.ver)[run]
        granted = max(0, min(want, lease.chunk - record.left, lease.most - view.out, mine - record.left, view.rest(),
                             max(1, view.rest() // (2 * len(wants)))))
    record.left += granted
    record.seq, record.grant, record.ttl, record.label = seq, granted, ttl, label
    record.expiry = now + ttl + lease.grace
    holders.granted += granted
    view.grant(granted)
    holders.till = max(holders.till, record.expiry)
    view.lend(model, us + holders.till - now)
    return answer(0, 0, lost_writes, granted, record.left, ttl)


class LeasedBucket(Bucket):
    def __init__(self):
        super().__init__()
        self.out = self.till = self.ver = 0
        self.holders = None

    def look(self, us, size, began=None):
        lease = getattr(size, "lease", None)
        view = self._look(us, size, began, lease)
        view.out = min(view.out, view.used())
        return view

    def _look(self, us, size, began, lease):
        now = us // size.unit
        if self.state is None:
            pause = lease.duration + lease.grace if lease else 0
            refills = min(began or 0, us) + pause
            if size.empty and us < refills:
                view = LeasedBucketView(Fraction(size.capacity), ceil_div(refills, size.unit), now, size)
                view.waits = True
                return view
            level = Fraction(0)
            if size.empty:
                since = max(0, now - ceil_div(refills, size.unit))
                level = max(level, size.capacity - Fraction(since * size.count, size.period))
            return LeasedBucketView(level, max(now, ceil_div(refills, size.unit)) if size.empty else now, now, size)
        level, last, old = self.state
        clock = us // old.unit
        out, till = self.out, self.till
        at = clock if clock < last - SECOND // old.unit else max(clock, last)
        if at < last:
            till = max(0, till - (last - at) * old.unit + SECOND)  # by up to a second more than TIME stepped: never too soon

        def drained(level, ticks, least):
            return max(Fraction(least), level - Fraction(ticks * old.count, old.period))
        held_until = min(max(last, ceil_div(till, old.unit)), at) if us >= till else at
        if at >= last:
            level = drained(level, held_until - last, out)
            if us >= till:
                level = drained(level, at - held_until, 0)
        if us >= till:
            out = 0
        moved = at < last
        if (old.unit, size.unit) == (1, 1000):
            at = at // 1000 + 1
        elif (old.unit, size.unit) == (1000, 1):
            at = max(now, at * 1000)
        level = Fraction(ceil(level * size.period), size.period)  # what is used stays used, up to a tick
        view = LeasedBucketView(level, at, now, size)
        view.out, view.till, view.ver = out, till, self.ver
        rates = [(each.count, each.period, each.unit) for each in (old, size)]
        view.moved = moved or rates[0] != rates[1]
        return view


class LeasedBucketView(BucketView):
    letter, window = "b", 0
    out = till = ver = 0
    waits = lends = False

    def used(self):
        return ceil(self.level)

    def rest(self):
        return max(0, self.size.capacity - self.used())

    def commit(self, model):
        if self.waits:
            return
        super().commit(model)
        if self.ver > 0 or self.lends:
            self.ver += 1
        model.out, model.till, model.ver = self.out, self.till, self.ver

    def lend(self, model, till):
        self.till, self.lends = till, True
        self.commit(model)

    def drop(self):
        """The limit is leased no more."""
        if self.ver > 0:
            self.out, self.ver, self.moved = 0, 0, True

    def join(self, out):
        self.out = min(out, max(self.used(), self.size.capacity))
        self.level = max(self.level, Fraction(self.out))

    def witness(self, level, at):
        level = ceil(level - Fraction(max(0, self.at - at) * self.size.count, self.size.period))
        if level <= self.used():
            return False
        self.level = Fraction(level)
        return True

    def report(self, spent, returned):
        self.out = max(0, self.out - spent - returned)
        self.level = max(Fraction(self.out), self.level - returned)

    def grant(self, amount):
        self.out += amount
        self.level += amount

    def back(self, _at, amount):
        whole = (self.level - self.out).__floor__()
        self.level = self.level - amount if amount <= whole else Fraction(self.out)
        return max(0, min(amount, whole))

    def undo(self, charged_at, cost):
        super().undo(charged_at, cost)
        self.level = max(self.level, Fraction(self.out))


class LeasedFixed(Fixed):
    def __init__(self):
        super().__init__()
        self.out = self.ver = 0
        self.holders = None

    def look(self, us, size, began=None):
        base = super().look(us, size, began)
        view = LeasedFixedView(base.start, base.end, base.count, base.at, us, size)
        view.moved = base.moved
        if self.state is not None:
            view.ver = self.ver
            view.out = self.out if self.state[0] == size.family and us < self.state[2] else 0
        return view


class LeasedFixedView(FixedView):
    letter = "f"
    out = ver = 0
    waits = lends = False

    @property
    def window(self):
        return self.start

    def used(self):
        return self.count

    def rest(self):
        return max(0, self.size.capacity - self.count)

    def commit(self, model):
        super().commit(model)
        if self.ver > 0 or self.lends:
            self.ver += 1
        model.out, model.ver = self.out, self.ver

    def lend(self, model, _till):
        self.lends = True
        self.commit(model)

    def drop(self):
        if self.ver > 0:
            self.out, self.ver, self.moved = 0, 0, True

    def join(self, out):
        self.out = min(out, max(self.count, self.size.capacity))
        self.count = max(self.count, self.out)

    def witness(self, used, at):
        if not self.start <= at < self.end or used <= self.count:
            return False
        self.count = used
        return True

    def report(self, spent, returned):
        self.out = max(0, self.out - spent - returned)
        self.count = max(self.out, self.count - returned)

    def grant(self, amount):
        self.out += amount
        self.count += amount

    def back(self, at, amount):
        done = max(0, min(amount, self.count - self.out)) if self.start <= at < self.end else 0
        self.count -= done
        return done
