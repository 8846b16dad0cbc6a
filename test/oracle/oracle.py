# SPDX-License-Identifier: Apache-2.0
"""A whole contract decided exactly: which limits a request meets, all or nothing, and what is reported.

Written from the specification (design 4, interface 2 and 4, algorithms 0-2), not from the implementation. A fact
that the specification leaves open is UNKNOWN and is not asserted; a step whose outcome is open raises Ambiguous
and is not written at all. Open are, for rates that no tick divides, the instants within one tick at which the
exact bucket and the strict rule of algorithms 2.4 differ; and a stale stamp on a key whose cell might have been
reclaimed in the meantime (algorithms 3.5).
"""

import re

from models import HORIZON, Ambiguous, both_models_of, length_of, models_of, parse_rate



class Unknown:
    """One object, also in the copies on which futures are played."""

    def __deepcopy__(self, _memo):
        return self


UNKNOWN = Unknown()
FACTS = ("limit", "reason", "capacity", "remaining", "retry_after", "reset_after")


def glob(pattern, is_path):
    """A pattern of `when` as a regular expression: in `path`, * stops at / and a final /** is optional."""
    text = re.escape(pattern)
    if is_path:
        text = re.sub(r"/\\\*\\\*$", "(/.*)?", text)
        text = text.replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    else:
        text = text.replace(r"\*", ".*")
    return re.compile(text, re.DOTALL)


def holds(condition, name, value):
    if isinstance(condition, list):
        return any(holds(one, name, value) for one in condition)
    if isinstance(condition, dict) and "not" in condition:
        return not holds(condition["not"], name, value)
    if isinstance(condition, dict):
        return value == condition["is"]
    if condition == "present":
        return value is not None
    if condition == "absent":
        return value is None
    return value is not None and glob(condition, name == "path").fullmatch(value) is not None


class Limit:
    """One limit: its models, one list per size, and the state of each key, one per model of its size."""

    def __init__(self, fields, start, lost_at=0):
        self.fields, self.name = fields, fields["name"]
        self.models = models_of(fields, start)
        self.sizes, self.given = {}, {}  # key -> models of its own (None: unlimited), and its fields
        for override in fields.get("overrides", ()):
            key = tuple(override["key"][name] for name in fields["key"])
            size = {name: value for name, value in override.items() if name != "key"}
            self.given[key] = size
            self.sizes[key] = None if size.get("unlimited") else models_of({**fields, **size}, start)
        self.states, self.is_plain = {}, True  # plain: requests alone changed them
        self.since = self.started = 0  # no decision is made earlier; when its counters began
        self.starts_empty = fields.get("when-state-lost") == "empty"
        self.lost_at = lost_at
        self.enforce = fields.get("enforce", "always")
        self.is_permits = fields.get("algorithm") == "concurrency"
        self.remembered = {}  # (key, request id) -> until when

    def meets(self, request):
        return (self.enforce != "off"
                and all(holds(c, name, request.get(name)) for name, c in self.fields.get("when", {}).items()))

    def key_of(self, request):
        """The key, None where the limit does not apply, False where the request is refused for lack of one."""
        names = self.fields["key"]
        if all(request.get(name) for name in names):
            return tuple(request[name] for name in names)
        return {"skip": None, "share": (), "refuse": False}[self.fields.get("missing-key", "skip")]

    def is_unlimited(self, key):
        return self.sizes.get(key, self.models) is None

    def models_of(self, key):
        return self.sizes.get(key, self.models)

    def cost_of(self, request, cost):
        """What the request costs here; None: more than its `max`."""
        stated = self.fields.get("cost", cost)
        if not isinstance(stated, dict):
            return stated
        found = request.get(stated["from"])
        found = stated.get("default", 1) if found is None else int(found)
        return None if found > stated.get("max", found) else found

    def states_of(self, key):
        models = self.models_of(key)
        if key not in self.states and self.starts_empty:
            return [model.lost(self.lost_at) for model in models]
        return self.states.get(key, [None] * len(models))

    def agreed(self, question, key=None):
        """The one answer of all models of a key, or UNKNOWN."""
        answers = [question(model, index) for index, model in enumerate(self.models_of(key))]
        return answers[0] if all(answer == answers[0] for answer in answers) else UNKNOWN

    def look(self, key, now, cost):
        states = self.states_of(key)
        if cost is None or cost > self.models_of(key)[0].capacity:
            outcome = "never"
        else:
            passes = self.agreed(lambda model, i: cost == 0 or model.passes(states[i], now, cost), key)
            if passes is UNKNOWN:
                raise Ambiguous
            outcome = "allow" if passes else "deny"
        return {"limit": self.name, "decision": outcome, "key": key, "cost": cost}

    def charge(self, key, now, cost):
        if cost > 0:
            states = [m.charge(s, now, cost) for m, s in zip(self.models_of(key), self.states_of(key))]
            if len(states) == 2 and self.is_plain:  # P2: the strict bucket stays less than a tick above the exact one
                assert 0 <= (states[1] - states[0]) * self.models_of(key)[1].ticks < 1
            self.states[key] = states

    def charge_refused(self, key, now, cost):
        if self.fields.get("refused") == "charged":
            states = [m.charge_refused(s, now, cost) for m, s in zip(self.models_of(key), self.states_of(key))]
            self.states[key], self.is_plain = states, False

    def settle(self, key, charged_at, now, amount):
        """Charge `amount` (negative: give back) and tell how much was; UNKNOWN where rounding decides."""
        done, states = [], []
        if amount < 0 and key not in self.states:
            return 0  # of what was lost nothing comes back
        for model, state in zip(self.models_of(key), self.states_of(key)):
            changed, tokens = (model.overdraw(state, now, amount) if amount > 0
                               else model.give_back(state, charged_at, now, -amount))
            states.append(changed)
            done.append(tokens)
        if amount != 0:
            self.states[key], self.is_plain = states, False
        return done[0] if all(one == done[0] for one in done) else UNKNOWN

    def left(self, key, now):
        states = self.states_of(key)
        return self.agreed(lambda m, i: m.remaining(states[i], now), key)

    def report(self, look, now, effective):
        """The numbers of an answer, after whatever was charged. A length is counted from the request's own stamp."""
        key = look["key"]
        states, models = self.states_of(key), self.models_of(key)

        def length(instant):
            def answer(model, i):
                at = instant(model, states[i])
                return None if at is None or at > HORIZON else at - now
            found = self.agreed(answer, key)
            return UNKNOWN if found is None and not models[0].exact_horizon else found

        look["capacity"] = models[0].capacity
        look["remaining"] = self.left(key, effective)
        look["reset_after"] = length(lambda m, s: m.reset_at(s, effective))
        if look["decision"] == "never":
            look["retry_after"] = None
        elif look["decision"] == "deny":
            look["retry_after"] = length(lambda m, s: m.retry_at(s, effective, look["cost"]))
        else:
            # A look of cost 0 names when one unit would pass (1.12); asserted only where that is now.
            one_passes = look["cost"] > 0 or look["remaining"] not in (0, UNKNOWN)
            look["retry_after"] = 0 if one_passes else UNKNOWN

    def dead(self, key, newest):
        return any(m.is_whole(s, newest) for m, s in zip(self.models_of(key), self.states_of(key)))

    def is_plain_when_stale(self, key, newest):
        """Whether a stamp older than `newest` finds this key's state for certain: it is live, or nothing ever died."""
        return key in self.states and not self.dead(key, newest)

    def has_dead(self, newest):
        return any(self.dead(key, newest) for key in self.states)

    # ---- Live change (1.17) ----

    IDENTITY = ("name", "algorithm", "align", "key")
    SIZE = ("rate", "burst", "debt", "refused", "when-state-lost", "when-full", "retries", "overrides", "at-most", "hold", "wait")

    def succeed(self, old, at):
        """Take over the counters of `old`; tells what became of the limit."""
        def same(names):
            return all(self.fields.get(name) == old.fields.get(name) for name in names)

        def unit(limit):
            return parse_rate(limit.fields["rate"])[2]

        if not same(self.IDENTITY) or ("calendar" in self.fields.get("align", "") and unit(self) != unit(old)):
            if self.starts_empty:
                raise Ambiguous
            return "restarted"
        self.remembered = old.remembered
        if self.starts_empty or old.starts_empty:
            raise Ambiguous
        for model, before in zip(self.models, old.models):
            if hasattr(before, "round_up"):  # as many counts as before are kept, so the start is as coarse
                model.unit = max(model.unit, before.unit)
            if hasattr(before, "published") and model.length() == before.length():
                model.published = before.published
        if same(self.SIZE):
            self.models, self.sizes = old.models, old.sizes
            self.states, self.since, self.is_plain = old.states, old.since, old.is_plain
            return "kept" if same(("lease",)) else "resized"  # how it is handed out is part of its size, and counts nothing
        self.since, self.is_plain = at, False
        if any(len(models) == 2 for models in [old.models, *filter(None, old.sizes.values())]):
            # What was rounded before stays rounded: from now on both accounts are kept.
            self.models = both_models_of(self.fields)
            self.sizes = {key: models and both_models_of({**self.fields, **self.given[key]})
                          for key, models in self.sizes.items()}
        for key, states in old.states.items():
            if self.is_unlimited(key):
                continue
            if old.is_unlimited(key):
                raise Ambiguous
            before, after = old.models_of(key), self.models_of(key)
            pairs = [(after[min(i, len(after) - 1)], before[min(i, len(before) - 1)], states[min(i, len(states) - 1)])
                     for i in range(len(after))]
            converted = [model.convert(was, state, at) for model, was, state in pairs]
            if any(state is not None for state in converted):
                self.states[key] = converted
        return "resized"


def binding(looks):
    """The look that names the answer (algorithms 1.11), or None where the text does not say which."""
    def latest(look):
        wait = look["retry_after"]
        return float("inf") if wait is None else wait

    decisions = {look["decision"] for look in looks}
    if "never" in decisions:
        found = [look for look in looks if look["decision"] == "never"]
    elif "deny" in decisions:
        denying = [look for look in looks if look["decision"] == "deny"]
        if len(denying) > 1 and any(look["retry_after"] is UNKNOWN for look in denying):
            return None
        found = denying if len(denying) == 1 else [look for look in denying if latest(look) == max(map(latest, denying))]
    else:
        counted = [look for look in looks if look["cost"] > 0] or looks
        if len(looks) > 1 and (counted is looks and looks[0]["cost"] == 0):
            return None
        if len(looks) == 1:
            return looks[0]
        if any(look["remaining"] is UNKNOWN for look in counted):
            return None
        return min(counted, key=lambda look: look["remaining"] // look["cost"])  # ties: contract order
    return found[0] if len(found) == 1 else None


class Error(Exception):
    """The operation is answered by an error: its word."""


class Reservation:
    def __init__(self, asks, expires_at):
        self.asks, self.expires_at = asks, expires_at  # asks: (limit's name, key, estimate, is settled, charged at)
        self.is_done = False


class Contract:
    """A contract and its state. decide() answers one request; the rest are the operations beside deciding."""

    is_future = False  # a copy on which the future is played: of its answers only the decision is asked

    def __init__(self, limits, start=0, lost_at=0):
        self.start = start
        self.limits = [Limit(fields, start, lost_at) for fields in limits]
        self.newest = self.changed_at = lost_at

    def effective(self, limit, now):
        if now < self.changed_at and limit.since != self.changed_at:
            raise Ambiguous  # whether a limit that was kept is decided as of the change is nobody's promise
        return max(now, limit.since)

    def guard(self, met, now):
        """Refuse to predict a stale stamp that a reclaim could have touched."""
        stale = [(limit, key) for limit, key in met if self.effective(limit, now) < self.newest]
        self.newest = max(self.newest, now)
        any_dead = any(limit.has_dead(self.newest) for limit in self.limits) if stale else False
        for limit, key in stale:
            if limit.is_permits:
                raise Ambiguous
            fresh_and_quiet = key not in limit.states and not any_dead
            if not fresh_and_quiet and not limit.is_plain_when_stale(key, self.newest):
                raise Ambiguous

    def met_by(self, request):
        met = [(limit, limit.key_of(request)) for limit in self.limits if limit.meets(request)]
        return [(limit, key) for limit, key in met if key is not None]

    def is_repeated(self, limit, key, request, now):
        """Whether this limit counted the request already (1.15); its memory is kept in milliseconds."""
        retries = limit.fields.get("retries")
        name = retries and request.get(retries.get("by", "request-id"))
        if not name:
            return False
        until = limit.remembered.get((key, name))
        if until is not None and abs(until - now) <= 2 * 10**6:
            raise Ambiguous
        return until is not None and now < until

    def remember(self, limit, key, request, now):
        retries = limit.fields.get("retries")
        name = retries and request.get(retries.get("by", "request-id"))
        if name:
            limit.remembered[key, name] = now + length_of(retries["free-within"])

    def queue(self, limit, key):
        """Who waits for this key, first come first; see room.py."""
        return ()

    def behind(self, limit, key, cost, now):
        """The instant at which a request behind all who wait would pass."""
        raise Ambiguous

    def decide(self, request, now, cost=1, peek=False, acquires=False, met=None, turn=()):
        """{decision, limit, ...}; a fact that is open is UNKNOWN. `acquires`: permits are taken, else they are looked at.
        `met`: under these limits and keys; `turn`: of which these are the request's turn, whoever waits behind it."""
        met = self.met_by(request) if met is None else met
        facts = dict.fromkeys(FACTS, UNKNOWN)
        if not met:
            return {**facts, "decision": "allow", "limit": None}
        if now > HORIZON:
            return {**facts, "decision": "refused", "reason": "time"}
        keyless = [limit for limit, key in met if key is False]
        if keyless:
            return {**facts, "decision": "never", "reason": "missing-key", "retry_after": None,
                    "limit": keyless[0].name if len(keyless) == 1 else UNKNOWN}
        limited = [(limit, key) for limit, key in met if not limit.is_unlimited(key)]
        self.guard(limited, now)
        enforced = [(limit, key) for limit, key in limited if limit.enforce == "always"]
        if not enforced:
            answer = {**facts, "decision": "allow"}
        else:
            answer = self.decide_together(enforced, request, now, cost, peek, acquires, turn)
        for one in limited:
            if one[0].enforce == "shadow":
                watched = self.decide_together([one], request, now, cost, peek or answer["decision"] != "allow")
                answer.setdefault("watched", []).append(watched)
        if len(limited) < len(met):
            answer = {**dict.fromkeys(FACTS, UNKNOWN), "decision": answer["decision"]} if not enforced else answer
        return answer

    def decide_together(self, met, request, now, cost, peek, acquires=False, turn=()):
        facts = dict.fromkeys(FACTS, UNKNOWN)
        repeated = [limit for limit, key in met if self.is_repeated(limit, key, request, now)]
        looks = [limit.look(key, self.effective(limit, now), 0 if limit in repeated else limit.cost_of(request, cost))
                 for limit, key in met]
        barred = [(limit.name, key) not in turn and len(self.queue(limit, key)) > 0 for limit, key in met]
        for look, is_barred in zip(looks, barred):
            if is_barred and look["cost"] == 0:
                raise Ambiguous
            if is_barred and look["decision"] == "allow":
                look["decision"] = "deny"  # nobody overtakes
        outcome = next(o for o in ("never", "deny", "allow") if any(look["decision"] == o for look in looks))
        permits = []
        for (limit, key), look, is_barred in zip(met, looks, barred):
            effective = self.effective(limit, now)
            for model in limit.models:
                model.saw(effective)
            if peek or limit in repeated or (limit.is_permits and not acquires):
                pass
            elif outcome == "allow":
                limit.charge(key, effective, look["cost"])
                self.remember(limit, key, request, now)
                if limit.is_permits and look["cost"] > 0:
                    permits.append((limit.name, key, limit.states[key][0][-1][2]))
            elif outcome == "deny" and look["decision"] == "deny":
                limit.charge_refused(key, effective, look["cost"])
            if self.is_future:
                continue
            limit.report(look, now, effective)
            if is_barred and look["decision"] == "deny":
                at = self.behind(limit, key, look["cost"], now)
                # Nothing is left for who comes: what remains could be consumed at once (P8).
                look.update(retry_after=at if at in (None, UNKNOWN) else at - now, reset_after=UNKNOWN, remaining=0)
        if self.is_future:
            return {**facts, "decision": outcome, "permits": permits}
        if outcome == "allow" and len(repeated) == len(met):
            look = looks[0] if len(looks) == 1 else {}
            return {**facts, "decision": "duplicate", "remaining": look.get("remaining", UNKNOWN)}
        if repeated:
            return {**facts, "decision": outcome}
        bound = binding(looks) or {}
        return {**facts, **{fact: bound[fact] for fact in FACTS if fact in bound}, "decision": outcome,
                "reason": None if outcome != "never" else UNKNOWN, "looks": looks, "permits": permits,
                "retry_after": bound.get("retry_after", None if outcome == "never" else
                                         0 if outcome == "allow" else UNKNOWN)}

    # ---- Costs that are known only afterwards (1.13) ----

    def settled_limits(self, met):
        """Those that a settlement changes: with a cost from an attribute or, if there are none, without `cost`."""
        met = [one for one in met if not one[0].is_permits]
        by_attribute = [one for one in met if isinstance(one[0].fields.get("cost"), dict)]
        return by_attribute or [one for one in met if "cost" not in one[0].fields]

    def reservation_of(self, request, now, cost, hold):
        """What a reservation that was allowed at `now` may settle later."""
        met = [one for one in self.met_by(request)
               if one[1] is not False and not one[0].is_unlimited(one[1]) and not one[0].is_permits]
        if now < self.newest or any(limit.enforce != "always" or "retries" in limit.fields for limit, _ in met):
            raise Ambiguous
        settled = self.settled_limits(met)
        asks = [(limit.name, key, limit.cost_of(request, cost), (limit, key) in settled, now) for limit, key in met]
        return Reservation(asks, now + hold)

    def changed(self, asks, now):
        """Settle (name, key, charged at, amount): {charged, returned, dropped, remaining}."""
        found = {"charged": 0, "returned": 0, "dropped": 0, "remaining": UNKNOWN, "limit": UNKNOWN}
        left = []
        if now < self.newest:
            raise Ambiguous
        self.newest = now
        for name, key, charged_at, amount in asks:
            limit = next((limit for limit in self.limits if limit.name == name), None)
            if limit is None or limit.is_unlimited(key) or charged_at < limit.started:
                continue
            done = limit.settle(key, charged_at, now, amount)
            more = ({"returned": done} if amount <= 0 else
                    {"charged": done, "dropped": UNKNOWN if done is UNKNOWN else amount - done})
            for fact, tokens in more.items():
                found[fact] = UNKNOWN if UNKNOWN in (tokens, found[fact]) else max(tokens, found[fact])
            left.append((limit.left(key, now), name))
        if left and all(remaining is not UNKNOWN for remaining, _ in left):
            found["remaining"] = min(left)[0]
            names = [name for remaining, name in left if remaining == min(left)[0]]
            found["limit"] = names[0] if len(names) == 1 else UNKNOWN
        return found

    def finish(self, reservation, now, amount_of):
        """End a reservation; `amount_of` an ask is what is charged (negative: given back), None where nothing changes."""
        if reservation is None:
            raise Error("reservation")
        if reservation.is_done:
            return {"charged": 0, "returned": 0, "dropped": 0, "repeated": True}
        if abs(now - reservation.expires_at) < 10**9:
            raise Ambiguous
        if now > reservation.expires_at:
            raise Error("reservation")
        changes = [(name, key, charged_at, amount_of(estimate, is_settled))
                   for name, key, estimate, is_settled, charged_at in reservation.asks if estimate > 0]
        found = self.changed([change for change in changes if change[3] is not None], now)
        reservation.is_done = True
        return {**found, "repeated": False}

    def settle(self, reservation, now, cost):
        return self.finish(reservation, now, lambda estimate, is_settled: cost - estimate if is_settled else None)

    def cancel(self, reservation, now):
        return self.finish(reservation, now, lambda estimate, _: -estimate)

    def refund(self, request, now, cost):
        met = [one for one in self.met_by(request) if one[1] is not False]
        return self.changed([(limit.name, key, now, -cost) for limit, key in self.settled_limits(met)], now)

    def reset(self, name, key):
        limit = next((limit for limit in self.limits if limit.name == name), None)
        if limit is None:
            raise Error("limit")
        if limit.starts_empty:
            raise Ambiguous
        limit.states.pop(tuple(key[name] for name in limit.fields["key"]), None)

    # ---- Change ----

    def reload(self, limits, now):
        """Put other limits in force; {kept, resized, added, restarted, removed}."""
        if now < self.newest:
            raise Ambiguous
        old = {limit.name: limit for limit in self.limits}
        counts = dict.fromkeys(("kept", "resized", "added", "restarted", "removed"), 0)
        made, self.kinds = [], {}
        for fields in limits:
            limit = Limit(fields, self.start)
            before = old.pop(limit.name, None)
            if before is None and limit.starts_empty:
                raise Ambiguous
            kind = "added" if before is None else limit.succeed(before, now)
            limit.started = before.started if kind in ("kept", "resized") else now
            counts[kind] += 1
            self.kinds[limit.name] = kind
            made.append(limit)
        counts["removed"] = len(old)
        self.limits, self.newest, self.changed_at = made, now, now
        return counts
