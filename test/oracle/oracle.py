# SPDX-License-Identifier: Apache-2.0
"""A whole contract decided exactly: which limits a request meets, all or nothing, and what is reported.

Written from the specification (design 4, interface 2 and 4, algorithms 0-2), not from the implementation. A fact
that the specification leaves open is UNKNOWN and is not asserted; a step whose outcome is open raises Ambiguous
and is not written at all. Open are, for rates that no tick divides, the instants within one tick at which the
exact bucket and the strict rule of algorithms 2.4 differ; and a stale stamp on a key whose cell might have been
reclaimed in the meantime (algorithms 3.5).
"""

import re

from models import HORIZON, Ambiguous, models_of

UNKNOWN = object()
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
    def __init__(self, fields, start):
        self.fields, self.name = fields, fields["name"]
        self.models = models_of(fields, start)
        self.states = {}  # key -> one state per model

    def meets(self, request):
        return all(holds(c, name, request.get(name)) for name, c in self.fields.get("when", {}).items())

    def key_of(self, request):
        """The key, None where the limit does not apply, False where the request is refused for lack of one."""
        names = self.fields["key"]
        if all(request.get(name) for name in names):
            return tuple(request[name] for name in names)
        return {"skip": None, "share": (), "refuse": False}[self.fields.get("missing-key", "skip")]

    def cost_of(self, cost):
        return self.fields.get("cost", cost)

    def agreed(self, question):
        """The one answer of all models of this limit, or UNKNOWN."""
        answers = [question(model, index) for index, model in enumerate(self.models)]
        return answers[0] if all(answer == answers[0] for answer in answers) else UNKNOWN

    def look(self, key, now, cost):
        states = self.states.get(key, [None] * len(self.models))
        if cost > self.models[0].capacity:
            outcome = "never"
        else:
            passes = self.agreed(lambda model, i: cost == 0 or model.passes(states[i], now, cost))
            if passes is UNKNOWN:
                raise Ambiguous
            outcome = "allow" if passes else "deny"
        return {"limit": self.name, "decision": outcome, "key": key, "cost": cost}

    def charge(self, key, now, cost):
        if cost > 0:
            states = self.states.get(key, [None] * len(self.models))
            states = [m.charge(s, now, cost) for m, s in zip(self.models, states)]
            if len(states) == 2:  # P2: the strict bucket stays less than one tick above the exact one
                assert 0 <= (states[1] - states[0]) * self.models[1].ticks < 1
            self.states[key] = states

    def report(self, look, now):
        """The numbers of an answer, after whatever was charged. A length is counted from the request's own stamp."""
        states = self.states.get(look["key"], [None] * len(self.models))

        def length(instant):
            def answer(model, i):
                at = instant(model, states[i])
                return None if at is None or at > HORIZON else at - now
            found = self.agreed(answer)
            return UNKNOWN if found is None and not self.models[0].exact_horizon else found

        look["capacity"] = self.models[0].capacity
        look["remaining"] = self.agreed(lambda m, i: m.remaining(states[i], now))
        look["reset_after"] = length(lambda m, s: m.reset_at(s, now))
        if look["decision"] == "never":
            look["retry_after"] = None
        elif look["decision"] == "deny":
            look["retry_after"] = length(lambda m, s: m.retry_at(s, now, look["cost"]))
        else:
            # A look of cost 0 names when one unit would pass (1.12); asserted only where that is now.
            one_passes = look["cost"] > 0 or look["remaining"] not in (0, UNKNOWN)
            look["retry_after"] = 0 if one_passes else UNKNOWN

    def is_plain_when_stale(self, key, newest):
        """Whether a stamp older than `newest` finds this key's state for certain: it is live, or nothing ever died."""
        states = self.states.get(key)
        return states is not None and not any(m.is_whole(s, newest) for m, s in zip(self.models, states))

    def has_dead(self, newest):
        return any(m.is_whole(s, newest) for states in self.states.values() for m, s in zip(self.models, states))


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
        if any(look["retry_after"] is UNKNOWN for look in denying):
            return None
        found = [look for look in denying if latest(look) == max(map(latest, denying))]
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


class Contract:
    """A contract and its state. decide() answers one request; probe() tells the same without charging."""

    def __init__(self, limits, start=0):
        self.limits = [Limit(fields, start) for fields in limits]
        self.newest = 0

    def guard(self, met, now):
        """Refuse to predict a stale stamp that a reclaim could have touched."""
        if now >= self.newest:
            self.newest = now
            return
        any_dead = any(limit.has_dead(self.newest) for limit in self.limits)
        for limit, key in met:
            fresh_and_quiet = key not in limit.states and not any_dead
            if not fresh_and_quiet and not limit.is_plain_when_stale(key, self.newest):
                raise Ambiguous

    def decide(self, request, now, cost=1, peek=False):
        """{decision, limit, ...}; a fact that is open is UNKNOWN."""
        met = [(limit, limit.key_of(request)) for limit in self.limits if limit.meets(request)]
        met = [(limit, key) for limit, key in met if key is not None]
        facts = dict.fromkeys(FACTS, UNKNOWN)
        if not met:
            return {**facts, "decision": "allow", "limit": None}
        if now > HORIZON:
            return {**facts, "decision": "refused", "reason": "time"}
        keyless = [limit for limit, key in met if key is False]
        if keyless:
            return {**facts, "decision": "never", "reason": "missing-key", "retry_after": None,
                    "limit": keyless[0].name if len(keyless) == 1 else UNKNOWN}
        self.guard(met, now)
        looks = [limit.look(key, now, limit.cost_of(cost)) for limit, key in met]
        passes = all(look["decision"] == "allow" for look in looks)
        for (limit, key), look in zip(met, looks):
            for model in limit.models:
                model.saw(now)
            if passes and not peek:
                limit.charge(key, now, look["cost"])
            limit.report(look, now)
        outcome = next(o for o in ("never", "deny", "allow") if any(look["decision"] == o for look in looks))
        bound = binding(looks) or {}
        return {**facts, **{fact: bound[fact] for fact in FACTS if fact in bound}, "decision": outcome,
                "reason": None if outcome != "never" else UNKNOWN,
                "retry_after": bound.get("retry_after", None if outcome == "never" else 0 if passes else UNKNOWN)}
