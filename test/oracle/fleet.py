# SPDX-License-Identifier: Apache-2.0
"""Limits that a fleet shares, and those of each of its processes: one request under both (algorithms 1.11 "Across scopes", 5).

Idea: the store is one exact contract that holds the shared limits; each replica is one that holds the others. A request is
looked at by its replica first: where that refuses, the store is not asked. Else the store decides, all or nothing, and the
replica is charged when it passes. While the store is away each shared limit answers by its policy; what a replica let through
out of its share is charged to the store when it is back, as far as it fits.

The share of a bucket begins empty with each outage, the share of a window or log whole, once.
"""

from fractions import Fraction

from models import Ambiguous, length_of
from oracle import FACTS, UNKNOWN, Error, Limit, Reservation, binding
from room import Result, Room

BUCKETS = ("token-bucket", "leaky-bucket")
RANK = ("never", "deny", "refused", "unmetered", "allow")  # what speaks for a request under several limits


def is_shared(fields):
    return fields.get("scope") == "fleet"


def share_of(fields):
    """N/M of a limit: (numerator, denominator), or None."""
    policy = fields.get("when-store-fails")
    if not isinstance(policy, dict) or "local" not in policy:
        return None
    share = Fraction(policy["local"])
    return share.numerator, share.denominator


def with_share(fields, part, whole):
    """The same limit with its share of every number."""
    def rate(text):
        count, rest = text.split("/")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if fields.get("algorithm", "token-bucket") in BUCKETS:
            return f"{int(count) * part}/{int(digits or 1) * whole}{rest[len(digits):]}"
        return f"{int(count) * part // whole}/{rest}"

    def shared(size):
        found = dict(size)
        if "rate" in found:
            found["rate"] = rate(found["rate"])
        if "burst" in found:
            found["burst"] = found["burst"] * part // whole
        found.pop("debt", None)
        return found
    found = shared(fields)
    if "overrides" in fields:
        found["overrides"] = [shared(one) for one in fields["overrides"]]
    return found


class Share:
    """What one replica may spend of one limit while the store is away."""

    def __init__(self, fields, start):
        self.fields, self.start = fields, start
        self.is_bucket = fields.get("algorithm", "token-bucket") in BUCKETS
        self.limit = Limit(with_share(fields, *share_of(fields)), start)
        self.outage = 0

    def begin(self, number, at):
        if number != self.outage and self.is_bucket:
            self.limit.states, self.limit.starts_empty, self.limit.lost_at = {}, True, at
        self.outage = number


class Replica:
    def __init__(self, limits, start, hold, lost_at=0):
        self.room = Room([one for one in limits if not is_shared(one)], start, lost_at=lost_at, hold=hold)
        self.shares = {one["name"]: Share(one, start) for one in limits if is_shared(one) and share_of(one)}
        self.spent = {}  # (limit, key) -> cost
        self.starts = 1
        self.newest_share = 0


class Both:
    """What a request was given, by its replica and by the store; either may be None."""

    def __init__(self, own, shared, replica, starts, losses):
        self.own, self.shared, self.replica, self.starts, self.losses = own, shared, replica, starts, losses

    @property
    def expires_after(self):
        return min(one.expires_after for one in (self.own, self.shared) if one is not None)


class Fleet:
    is_future = False
    waiting = ()

    def __init__(self, limits, start=0, hold=None):
        self.fields, self.start, self.hold = limits, start, hold
        self.store = Room([one for one in limits if is_shared(one)], start, hold=hold)
        self.replicas = {}
        self.who = None  # the replica that the next call is made at
        self.away_since, self.outages, self.losses = None, 0, 0
        self.ended = {}

    # ---- What timeline.py asks of a contract ----

    @property
    def limits(self):
        return self.store.limits + self.here().room.limits

    def limit(self, name):
        return next((limit for limit in self.limits if limit.name == name), None)

    def queue(self, limit, key):
        return ()

    def advance(self, now):
        pass

    def here(self):
        if self.who not in self.replicas:
            self.replicas[self.who] = Replica(self.fields, self.start, self.hold)
        return self.replicas[self.who]

    def is_away(self):
        return self.away_since is not None

    # ---- Deciding ----

    def ask(self, kind, request, now, cost=1, peek=False, wait=None):
        assert wait is None, "who waits in a fleet is not modelled"
        here, acquires = self.here(), kind == "acquire"
        own_met, shared_met = here.room.met_by(request), self.store.met_by(request)
        if any(key is False for _, key in own_met + shared_met):
            raise Ambiguous
        look = here.room.decide(request, now, cost, peek=True, acquires=acquires)
        if not shared_met or look["decision"] not in ("allow", "duplicate"):
            answer = here.room.decide(request, now, cost, peek, acquires)
            return self.result(kind, request, now, cost, answer, answer if own_met else None, None)
        shared = (self.fall_back(here, request, now, cost, peek) if self.is_away()
                  else self.store.decide(request, now, cost, peek, acquires))
        passes = shared["decision"] in ("allow", "duplicate", "unmetered")
        own = here.room.decide(request, now, cost, peek or not passes, acquires) if own_met else None
        answer = self.whole(own, shared) if own else shared
        return self.result(kind, request, now, cost, answer, own, None if self.is_away() else shared)

    def whole(self, own, shared):
        """One answer of both; which limit names it follows the order of the contract."""
        facts = {**dict.fromkeys(FACTS, UNKNOWN), "policy": UNKNOWN}
        decision = next((one for one in RANK if one in (own["decision"], shared["decision"])), "duplicate")
        answer = {**facts, "decision": decision, "watched": own.get("watched", []) + shared.get("watched", [])}
        looks = own.get("looks"), shared.get("looks")
        if decision == "duplicate" or None in looks or not all(looks):
            return {**answer, "policy": shared.get("policy", UNKNOWN)} if decision == shared["decision"] != "allow" else answer
        names = [one["name"] for one in self.fields]
        every = sorted(looks[0] + looks[1], key=lambda look: names.index(look["limit"]))
        bound = bound_by(every) or {}
        return {**answer, **{fact: bound[fact] for fact in (*FACTS, "policy") if fact in bound}, "decision": decision,
                "looks": every, "reason": bound.get("reason", UNKNOWN if not bound else None),
                "policy": bound.get("policy", UNKNOWN if not bound else None)}

    def fall_back(self, here, request, now, cost, peek):
        """Each shared limit by its policy (5): shares all or nothing, and nothing is taken where one refuses."""
        if now < self.away_since or now < here.newest_share:
            raise Ambiguous
        looks, watched, taken = [], [], []
        for limit, key in self.store.met_by(request):
            if limit.is_unlimited(key) or "retries" in limit.fields:
                raise Ambiguous
            look, share = self.by_policy(here, limit, key, request, now, cost)
            (watched if limit.enforce == "shadow" else looks).append(look)
            taken.append((limit, key, look, share))
        passes = all(look["decision"] in ("allow", "unmetered") for look in looks)
        here.newest_share = now
        for limit, key, look, share in taken:
            if share is None:
                continue
            if passes and look["decision"] == "allow" and not peek:
                share.charge(key, now, look["cost"])
                here.spent[limit.name, key] = here.spent.get((limit.name, key), 0) + look["cost"]
            elif look["decision"] == "deny" and not peek and look["limit"] and limit.fields.get("refused") == "charged":
                raise Ambiguous
            if look["decision"] != "never" and look["retry_after"] is UNKNOWN:
                share.report(look, now, now)
        facts = {**dict.fromkeys(FACTS, UNKNOWN), "policy": UNKNOWN}
        if not looks:
            return {**facts, "decision": "allow", "watched": watched}
        bound = bound_by(looks) or {}
        decision = next(one for one in RANK if any(look["decision"] == one for look in looks))
        return {**facts, **{fact: bound[fact] for fact in (*FACTS, "policy") if fact in bound}, "decision": decision,
                "looks": looks, "watched": watched}

    def by_policy(self, here, limit, key, request, now, cost):
        """(look, the share's limit or None)."""
        policy = limit.fields["when-store-fails"]
        look = {"limit": limit.name, "key": key, "cost": limit.cost_of(request, cost), "reason": "store",
                "capacity": UNKNOWN, "remaining": None, "retry_after": UNKNOWN, "reset_after": UNKNOWN}
        if look["cost"] is None or look["cost"] > limit.models_of(key)[0].capacity:  # no store is needed to know that (P9)
            return {**look, "reason": None, "policy": None, "decision": "never", "remaining": UNKNOWN, "retry_after": None}, None
        if policy == "open" or "open" in policy and now < self.away_since + length_of(policy["open"]):
            return {**look, "decision": "unmetered", "policy": "open"}, None
        if policy == "leased":  # what is in a replica's hand is not modelled here: a lease lets no more through (4.4)
            return {**look, "decision": "refused", "policy": "leased"}, None
        if policy == "closed" or "open" in policy:
            return {**look, "decision": "refused", "policy": "closed"}, None
        share = here.shares[limit.name]
        share.begin(self.outages, self.away_since)
        found = share.limit.look(key, now, look["cost"])
        if found["decision"] == "never":  # it does not fit the share, and may fit the store when it is back
            return {**look, "decision": "deny", "policy": "local", "remaining": UNKNOWN, "retry_after": None}, None
        return {**look, **found, "policy": "local"}, share.limit

    def result(self, kind, request, now, cost, answer, own, shared):
        here = self.here()
        permit = reservation = None
        if answer["decision"] == "allow" and kind == "acquire":
            parts = [self.permit_of(room, one, now) for room, one in ((here.room, own), (self.store, shared))]
            permit = Both(*parts, self.who, here.starts, self.losses) if any(parts) else None
        if answer["decision"] in ("allow", "unmetered") and kind == "reserve":
            reservation = self.reservation_of(request, now, cost, own is not None, shared is not None)
        return Result(answer, now, now, permit, reservation)

    def permit_of(self, room, answer, now):
        found = answer and room.result("acquire", {}, answer, now, 1, now).permit
        return found

    def reservation_of(self, request, now, cost, has_own, has_shared):
        """What was taken where; a settlement changes what one contract of both would change (1.13)."""
        here = self.here()
        met = [(room, limit, key) for room, is_there in ((here.room, has_own), (self.store, has_shared)) if is_there
               for limit, key in room.met_by(request) if not limit.is_unlimited(key) and not limit.is_permits]
        every = [(limit, key) for room in (here.room, self.store) for limit, key in room.met_by(request)]
        settled = here.room.settled_limits(every)
        if any(limit.enforce != "always" or "retries" in limit.fields for _, limit, _ in met):
            raise Ambiguous
        parts = {}
        for room, limit, key in met:
            if now < room.newest:
                raise Ambiguous
            parts.setdefault(room is self.store, []).append(
                (limit.name, key, limit.cost_of(request, cost), (limit, key) in settled, now))
        own, shared = (Reservation(parts.get(which, []), now + self.hold) if is_there else None
                       for which, is_there in ((False, has_own), (True, has_shared)))
        return Both(own, shared, self.who, here.starts, self.losses) if own or shared else None

    # ---- Beside deciding ----

    def at_home(self, given):
        return given.replica == self.who and given.starts == self.here().starts

    def check_store(self, given, error):
        if given.shared is None:
            return
        if self.is_away():
            raise Error("store")
        if given.losses != self.losses:
            raise Error(error)

    def finish(self, given, change, changes):
        """End the parts of a reservation, the store's first. A part of which nothing is changed has no say in the numbers."""
        if given is None or given.own is not None and not self.at_home(given):
            raise Error("reservation")
        self.check_store(given, "reservation")
        rooms = [(self.store, given.shared), (self.here().room, given.own)]
        found = [(one, change(room, one)) for room, one in rooms if one is not None]
        return merged([facts for one, facts in found if any(changes(ask) for ask in one.asks)] or [facts for _, facts in found])

    def settle(self, given, now, cost):
        return self.finish(given, lambda room, one: room.settle(one, now, cost), lambda ask: ask[3])

    def cancel(self, given, now):
        return self.finish(given, lambda room, one: room.cancel(one, now), lambda ask: True)

    def refund(self, request, now, cost):
        here = self.here()
        met = [(room, limit, key) for room in (here.room, self.store) for limit, key in room.met_by(request) if key is not False]
        settled = here.room.settled_limits([(limit, key) for _, limit, key in met])
        if self.is_away() and any(room is self.store for room, _, _ in met):
            raise Error("store")
        asks = [(room, [(limit.name, key, now, -cost) for own, limit, key in met if own is room and (limit, key) in settled])
                for room in (here.room, self.store)]
        return merged([room.changed(asked, now) for room, asked in asks if asked])

    def parts_of(self, permit, now):
        rooms = [(self.store, permit.shared), (self.here().room, permit.own)]
        held = [(room, one, all(list(room.held(one, now)))) for room, one in rooms if one is not None]
        if len({is_held for _, _, is_held in held}) > 1:
            raise Ambiguous
        return held

    def renew(self, permit, now):
        if permit is None or permit.own is not None and not self.at_home(permit):
            raise Error("permit")
        self.check_store(permit, "permit")
        return {"expires_after": min(room.renew(one, now)["expires_after"] for room, one, _ in self.parts_of(permit, now))}

    def release(self, permit, now):
        if permit is None:
            raise Error("permit")
        self.check_store(permit, "permit")
        if permit.own is not None and not self.at_home(permit):
            if permit.shared is not None:
                self.store.release(permit.shared, now)
            raise Error("permit")
        return {"released": all(room.release(one, now)["released"] for room, one, _ in self.parts_of(permit, now))}

    def reset(self, name, key):
        shared = self.store.limit(name)
        if any(part not in key for part in self.limit(name).fields["key"]):
            raise Ambiguous
        if shared is not None and self.is_away():
            raise Error("store")
        return (self.store if shared is not None else self.here().room).reset(name, key)

    def reload(self, limits, now):
        """Everywhere at once."""
        scopes = {one["name"]: one.get("scope") for one in self.fields}
        if self.is_away() or any(share_of(one) for one in limits + self.fields) or any(
                scopes.get(one["name"], one.get("scope")) != one.get("scope") for one in limits):
            raise Ambiguous
        self.here()
        found = [room.reload([one for one in limits if is_shared(one) == (room is self.store)], now)
                 for room in [self.store] + [one.room for one in self.replicas.values()]]
        self.fields = limits
        return {fact: found[0][fact] + found[1][fact] for fact in found[0]}

    # ---- What happens to the store and to processes ----

    def take_away(self, now):
        self.away_since, self.outages = now, self.outages + 1

    def bring_back(self, now):
        """What was spent meanwhile is charged as far as it fits (1.13)."""
        self.away_since = None
        if now < self.store.newest:
            raise Ambiguous
        for replica in self.replicas.values():
            for (name, key), cost in replica.spent.items():
                self.store.limit(name).settle(key, now, now, cost)
            replica.spent = {}
        self.store.newest = now

    def lose(self, now):
        self.store = Room([one for one in self.fields if is_shared(one)], self.start, lost_at=now, hold=self.hold)
        self.losses += 1

    def restart(self, now):
        starts = self.here().starts
        self.replicas[self.who] = Replica(self.fields, self.start, self.hold, lost_at=now)
        self.replicas[self.who].starts = starts + 1


def bound_by(looks):
    """The look that names the answer; None where the text does not say which."""
    worst = next(one for one in RANK if any(look["decision"] == one for look in looks))
    if worst in ("refused", "unmetered"):
        found = [look for look in looks if look["decision"] == worst]
        return found[0] if len(found) == 1 else None
    return binding([look for look in looks if look["decision"] in ("never", "deny", "allow")])


def merged(found):
    """Of several settlements the largest numbers, and what is left of the limit that has least left now."""
    def largest(fact):
        numbers = [one[fact] for one in found if fact in one]
        return UNKNOWN if any(number is UNKNOWN for number in numbers) else max(numbers, default=0)
    merged_facts = {fact: largest(fact) for fact in ("charged", "returned", "dropped")}
    left = [one for one in found if one.get("remaining", UNKNOWN) is not UNKNOWN]
    known = len(left) == len(found) and left
    least = min((one["remaining"] for one in left), default=None)
    names = [one["limit"] for one in left if one["remaining"] == least]
    merged_facts["remaining"] = least if known else UNKNOWN
    merged_facts["limit"] = names[0] if known and len(names) == 1 else UNKNOWN
    if any("repeated" in one for one in found):
        merged_facts["repeated"] = any(one.get("repeated") for one in found)
    return merged_facts
