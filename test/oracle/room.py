# SPDX-License-Identifier: Apache-2.0
"""Those who wait, and permits: a discrete-event model on top of the exact contract (algorithms 1.3, 1.9, 1.11).

Idea: nothing is promised beforehand. A waiter stands in the queue of every limit of its request that has `wait`; time goes
from one end of a waiting to the next, and at each the whole request is decided anew: at the first instant at which a
waiter is first in all of its queues and all of those limits let it pass, or else at its deadline. So releases, cancels,
refunds and changes need no rule of their own. Whether somebody may begin to wait is found by playing the future on a copy.
"""

import copy

from models import HORIZON, Ambiguous, first_instant, length_of
from oracle import UNKNOWN, Contract, Error

NEVER = 10 * HORIZON  # a deadline that does not come


def first_pass(model, state, cost, start, since, known={}):
    """The first instant from `start` on at which the cost passes. The same futures are played over and over: it remembers."""
    facts = tuple((name, value) for name, value in vars(model).items() if name != "given")
    question = type(model), facts, state, cost, start, since
    if question not in known:
        known[question] = first_instant(lambda at: model.passes(state, max(at, since), cost), start)
    return known[question]


class Waiter:
    def __init__(self, ticket, kind, request, cost, met, queues, arrived, deadline):
        self.ticket, self.kind, self.request, self.cost = ticket, kind, request, cost
        self.met = met  # [(limit's name, key)] of everything that it asks
        self.queues = queues  # those where it stands
        self.arrived, self.deadline = arrived, deadline


class Result:
    """How a request ended: its answer, when, and what it was given."""

    def __init__(self, answer, at, arrived, permit=None, reservation=None, has_waited=False):
        self.answer, self.at, self.arrived = answer, at, arrived
        self.permit, self.reservation, self.has_waited = permit, reservation, has_waited


class Permit:
    def __init__(self, parts, given_at, expires_after):
        self.parts, self.given_at, self.expires_after = parts, given_at, expires_after


class Room(Contract):
    def __init__(self, limits, start=0, lost_at=0, hold=None):
        super().__init__(limits, start, lost_at)
        self.hold = hold  # of reservations
        self.waiting = []  # in the order of their tickets
        self.ended = {}  # ticket -> Result, or None: it left
        self.tickets = 0
        self.clock = lost_at

    def limit(self, name):
        return next((limit for limit in self.limits if limit.name == name), None)

    def queue(self, limit, key):
        return [waiter for waiter in self.waiting if (limit.name, key) in waiter.queues]

    def asks(self, waiter):
        """What it still asks: a limit that was removed asks nothing any more."""
        return [(self.limit(name), key) for name, key in waiter.met if self.limit(name) is not None]

    # ---- Beginning ----

    def ask(self, kind, request, now, cost=1, peek=False, wait=None):
        """A Result, or the ticket of somebody who waits. `kind`: request, reserve or acquire."""
        self.advance(now)
        if self.waiting and now < self.newest:
            raise Ambiguous
        if wait is not None:
            look = self.decide(request, now, cost, peek=True, acquires=kind == "acquire")
            if look["decision"] == "deny":
                waiter = self.waiter(kind, request, now, cost, wait, look["looks"])
                if waiter is not None and self.may_wait(waiter):
                    self.waiting.append(waiter)
                    return waiter.ticket
        answer = self.decide(request, now, cost, peek, acquires=kind == "acquire")
        return self.result(kind, request, answer, now, cost, now)

    def waiter(self, kind, request, now, cost, wait, looks):
        """None: a limit that lets nobody wait refuses, or the caller does not wait."""
        met = [(limit, key) for limit, key in self.met_by(request) if not limit.is_unlimited(key)]
        waited = [(limit, key) for limit, key in met if limit.enforce == "always" and "wait" in limit.fields]
        if kind != "acquire":
            if any(limit.is_permits for limit, _ in waited) and len(waited) > 1:
                raise Ambiguous
            waited = [(limit, key) for limit, key in waited if not limit.is_permits]
        names = [limit.name for limit, _ in waited]
        if wait == 0 or any(look["decision"] == "deny" and look["limit"] not in names for look in looks):
            return None
        if any("retries" in limit.fields for limit, _ in met):
            raise Ambiguous
        patience = min([wait] + [length_of(limit.fields["wait"]["up-to"]) for limit, _ in waited])
        self.tickets += 1
        return Waiter(self.tickets, kind, request, cost, [(limit.name, key) for limit, key in met],
                      [(limit.name, key) for limit, key in waited], now, now + patience)

    def may_wait(self, waiter):
        """A queue that is full, or a turn that cannot come in time, refuses on arrival."""
        for name, key in waiter.queues:
            if len(self.queue(self.limit(name), key)) >= self.limit(name).fields["wait"]["queue"]:
                return False
        rates = [(self.limit(name), key) for name, key in waiter.queues if not self.limit(name).is_permits]
        alone = [self.lump(limit, key, self.cost_on(waiter, limit.name)) for limit, key in rates]
        least = None if None in alone else max(alone, default=waiter.arrived)
        is_in_time = least is not None and least <= waiter.deadline
        if is_in_time and any(self.limit(name).is_permits for other in self.waiting + [waiter] for name, _ in other.queues):
            return True  # a permit may come back at any time, so its expiry keeps nobody from waiting for it
        turn = self.foretell(waiter)
        if is_in_time != (turn is not None and turn <= waiter.deadline):
            raise Ambiguous  # how far ahead a turn is known where costs or several limits meet is nobody's promise
        return is_in_time

    def cost_on(self, waiter, name):
        return self.limit(name).cost_of(waiter.request, waiter.cost)

    def lump(self, limit, key, cost):
        """When the last of `cost` units behind those of all who wait would pass, one by one; at the latest its turn."""
        state, at = limit.states_of(key)[0], max(self.clock, limit.since)
        model = copy.deepcopy(limit.models_of(key)[0])
        for _ in range(sum(self.cost_on(other, limit.name) for other in self.queue(limit, key)) + cost):
            at = first_pass(model, state, 1, at, 0)
            if at is None:
                return None
            model.saw(at)
            state = model.charge(state, at, 1)
        return at

    def foretell(self, waiter):
        """The instant of its turn if nothing else happened and it waited for ever."""
        future = copy.deepcopy(self)
        future.is_future = True
        waiter = copy.deepcopy(waiter)
        waiter.deadline = NEVER
        future.waiting.append(waiter)
        future.advance(HORIZON, until=waiter.ticket)
        result = future.ended.get(waiter.ticket)
        return None if result is None else result.at

    def behind(self, limit, key, cost, now):
        """When a request that nobody waits for passes next: behind all of this queue (1.3)."""
        request = dict(zip(limit.fields["key"], key))
        waiter = Waiter(self.tickets + 1, "acquire", request, cost, [(limit.name, key)], [(limit.name, key)], now, NEVER)
        if self.is_future or isinstance(limit.fields.get("cost"), dict):
            return UNKNOWN
        turn = self.foretell(waiter)
        return turn if turn == self.lump(limit, key, cost) else UNKNOWN

    def result(self, kind, request, answer, at, cost, arrived, has_waited=False):
        permit = reservation = None
        if answer["decision"] == "allow" and kind == "acquire" and answer.get("permits"):
            holds = [self.limit(name).models_of(key)[0].hold for name, key, _ in answer["permits"]]
            permit = Permit(answer["permits"], at, min(holds))
        if answer["decision"] == "allow" and kind == "reserve":
            reservation = self.reservation_of(request, at, cost, self.hold)
        return Result(answer, at, arrived, permit, reservation, has_waited)

    # ---- Time ----

    def advance(self, now, until=None):
        """Let everything happen that is due by `now`, each at its instant."""
        while self.waiting and until not in self.ended:
            turns = [(self.turn(waiter), waiter.ticket, waiter) for waiter in self.firsts()]
            turns = [one for one in turns if one[0] is not None and one[0] <= one[2].deadline]
            last = min(waiter.deadline for waiter in self.waiting)
            if turns and min(turns)[0] <= last:
                at, _, waiter = min(turns)
                if at > now:
                    break
                self.clock = at
                self.serve(waiter, at)
            elif last > now:
                break
            else:
                self.clock = last
                self.give_up([waiter for waiter in self.waiting if waiter.deadline == last], last)
        self.clock = max(self.clock, now)

    def firsts(self):
        """Those who are first in all of their queues."""
        first = {}
        for waiter in self.waiting:
            for queue in waiter.queues:
                first.setdefault(queue, waiter)
        return [waiter for waiter in self.waiting if all(first[queue] is waiter for queue in waiter.queues)]

    def turn(self, waiter):
        """The first instant from now on at which every limit that it waits for lets it pass."""
        at = self.clock
        for name, key in waiter.queues:
            limit, cost = self.limit(name), self.cost_on(waiter, name)
            if limit.is_unlimited(key):
                continue
            model, state = limit.models_of(key)[0], limit.states_of(key)[0]
            if cost > model.capacity:
                raise Ambiguous  # since a change; when it is told so is nobody's promise
            own = first_pass(model, state, cost, self.clock, limit.since)
            at = None if own is None or at is None else max(at, own)
        return at

    def serve(self, waiter, at):
        self.waiting.remove(waiter)
        met = self.asks(waiter)
        answer = self.decide(waiter.request, at, waiter.cost, acquires=waiter.kind == "acquire", met=met, turn=waiter.queues)
        self.end(waiter, at, answer)

    def give_up(self, waiters, at):
        """Deadlines of one instant. Whose turn would come because another's deadline is the same instant is left open."""
        for waiter in waiters:
            self.waiting.remove(waiter)
        for waiter in waiters:
            if self.has_free_queues(waiter) and self.turn(waiter) == at and len(waiters) > 1:
                raise Ambiguous
        for waiter in waiters:
            answer = self.decide(waiter.request, at, waiter.cost, peek=True, acquires=waiter.kind == "acquire",
                                 met=self.asks(waiter))
            if answer["decision"] != "deny":
                raise Ambiguous
            if len(waiters) > 1:  # who of them goes first is left open
                answer.update(dict.fromkeys(("limit", "remaining", "retry_after", "reset_after"), UNKNOWN))
            self.end(waiter, at, answer)

    def has_free_queues(self, waiter):
        return not any(self.queue(self.limit(name), key) for name, key in waiter.queues)

    def end(self, waiter, at, answer):
        self.ended[waiter.ticket] = self.result(waiter.kind, waiter.request, answer, at, waiter.cost, waiter.arrived,
                                                has_waited=True)

    # ---- Beside deciding ----

    def leave(self, ticket, now):
        self.advance(now)
        waiter = next((waiter for waiter in self.waiting if waiter.ticket == ticket), None)
        if waiter is None:
            raise Error("ended")
        self.waiting.remove(waiter)
        self.ended[ticket] = None

    def held(self, permit, now):
        """Of each part: (limit, key, number) where it is held, else None."""
        self.advance(now)
        if now < self.newest:
            raise Ambiguous
        self.newest = now
        for name, key, number in permit.parts:
            limit = self.limit(name)
            is_held = (limit is not None and limit.started <= permit.given_at and not limit.is_unlimited(key)
                       and limit.models_of(key)[0].holds(limit.states_of(key)[0], now, number))
            yield (limit, key, number) if is_held else None

    def end_permit(self, permit, now, change):
        """Change every part of a permit; one that is held in part is left open."""
        parts = list(self.held(permit, now)) if permit is not None else []
        if None in parts and any(parts):
            raise Ambiguous
        if not parts or None in parts:
            return []
        for limit, key, number in parts:
            model = limit.models_of(key)[0]
            limit.states[key] = [change(model, limit.states_of(key)[0], number)]
        return [limit.models_of(key)[0].hold for limit, key, _ in parts]

    def renew(self, permit, now):
        holds = self.end_permit(permit, now, lambda model, state, number: model.renew(state, now, number))
        if not holds:
            raise Error("permit")
        return {"expires_after": min(holds)}

    def release(self, permit, now):
        self.advance(now)
        if permit is None:
            raise Error("permit")
        holds = self.end_permit(permit, now, lambda model, state, number: model.release(state, now, number))
        return {"released": bool(holds)}

    def reload(self, limits, now):
        self.advance(now)
        before = [(waiter, self.asks(waiter)) for waiter in self.waiting]
        counts = super().reload(limits, now)
        for waiter, asks in before:
            kinds = {self.kinds.get(limit.name) for limit, _ in asks}
            if "restarted" in kinds:
                self.waiting.remove(waiter)
                self.end(waiter, now, {**dict.fromkeys(("limit", "capacity", "remaining", "retry_after", "reset_after"), UNKNOWN),
                                       "decision": "refused", "reason": "contended"})
            waiter.met = [(name, key) for name, key in waiter.met if self.limit(name) is not None]
            waiter.queues = [(name, key) for name, key in waiter.queues if self.limit(name) is not None]
            if any("wait" not in self.limit(name).fields for name, _ in waiter.queues):
                raise Ambiguous
        return counts

    def settle(self, reservation, now, cost):
        self.advance(now)
        return super().settle(reservation, now, cost)

    def cancel(self, reservation, now):
        self.advance(now)
        return super().cancel(reservation, now)

    def refund(self, request, now, cost):
        self.advance(now)
        return super().refund(request, now, cost)
