# SPDX-License-Identifier: Apache-2.0
"""One test file: steps are played against the oracle as they are added, and written with what it answered.

A step may carry a claim: what a person, a field report or a worked example says must come out. It is compared
with the oracle at once, so the curated files rest on two derivations.
"""

import copy
import datetime
import json
import re

from models import HORIZON, SECOND, Ambiguous
from oracle import UNKNOWN, Error
from room import Result, Room

OUTCOMES = ("allow", "deny", "never", "refused")
COUNTED = (*OUTCOMES, "unmetered", "duplicate")
LENGTH_FACTS = ("_after", "_at", "waited")
HOLD = 3600 * SECOND  # how long a reservation lasts
LENGTHS = (("d", 86400 * SECOND), ("h", 3600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", 10**6),
           ("us", 10**3), ("ns", 1))
PLAIN = re.compile(r"[a-z][a-z0-9-]*|[0-9]+(?:ns|us|ms|s|m|h|d|w)|[0-9]+%|/[A-Za-z0-9/._-]*|[0-9]+/[0-9]*[a-z]+|calendar [A-Za-z/_]+")


def duration(ns):
    """1m30s and the like; one unit where that reads better."""
    if ns == 0:
        return "0s"
    text = ""
    for unit, length in LENGTHS:
        count, ns = divmod(ns, length)
        text += f"{count}{unit}" if count else ""
    return text


def instant(text):
    """Unix time in ns of 2027-03-02T12:00:00Z."""
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * SECOND


def scalar(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(scalar(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k}: {scalar(v)}" for k, v in value.items()) + " }" if value else "{}"
    return value if PLAIN.fullmatch(value) else json.dumps(value)


def contract_lines(limits):
    lines = ["weir: 1", "limits:"]
    for limit in limits:
        fields = [f"{name}: {scalar(value)}" for name, value in limit.items()]
        lines += ["  - " + fields[0], *("    " + field for field in fields[1:])]
    return lines


class Entry:
    """One step of the file. Its attempts are known when it is written, or when the last of them has ended."""

    def __init__(self, line_parts, expect, attempts=(), claim=None):
        self.parts, self.expect, self.attempts, self.claim = line_parts, expect, attempts, claim or {}


class Timeline:
    claims_hold = True  # store_grid.py plays other instants than those that claims are about

    def __init__(self, name, title, limits, start=None):
        self.name, self.title, self.limits, self.start = name, title, limits, start
        self.first = limits
        self.contract = Room(limits, instant(start) if start else 0, hold=HOLD)
        self.lines, self.step_count, self.now, self.last = [], 0, 0, None
        self.covered = set()
        self.operations = set()
        self.named = {}  # name -> Result, ticket, or None: cut off
        self.shows_limits = any("enforce" in one for one in limits)

    def note(self, text):
        """A comment between steps."""
        self.lines.append(f"  # {text}")

    def step(self, at, request, cost=1, times=1, peek=False, why=None, claim=None, wait=None, name=None):
        """Play a step and write it; Ambiguous leaves the file as it was. Returns the last decision; None: it waits."""
        return self.ask("request", at, request, cost, times, peek, why, claim, wait, name)

    def reserve(self, at, request, name, cost=1, why=None, claim=None, wait=None):
        return self.ask("reserve", at, request, cost, 1, False, why, claim, wait, name)

    def acquire(self, at, request, name, cost=1, times=1, why=None, claim=None, wait=None):
        return self.ask("acquire", at, request, cost, times, False, why, claim, wait, name)

    def ask(self, kind, at, request, cost, times, peek, why, claim, wait, name):
        attempts = self.attempt(lambda: [self.contract.ask(kind, request, at, cost, peek, wait) for _ in range(times)])
        for number, attempt in enumerate(attempts, 1):
            if name:
                self.named[name if times == 1 else f"{name}.{number}"] = attempt
        if kind != "request":
            self.operations.add(kind)
        if wait is not None:
            self.operations.add("wait")
        if any(not isinstance(attempt, Result) for attempt in attempts):
            expect = None
            self.last = None
        else:
            expect = self.decided(attempts)
            self.last = attempts[-1].answer
        more = [f"as: {name}"] if name else []
        more += [f"wait: {duration(wait)}"] if wait is not None else []
        self.write(at, why, f"{kind}: {scalar(request)}", expect, cost, times, peek, claim=claim, more=more,
                   attempts=(attempts, request, wait is not None))
        if expect is not None:
            self.cover(request, expect)
        return self.last

    def finish(self):
        """Wait until nobody waits, and write down what came of those who did."""
        self.contract.advance(HORIZON)
        assert not self.contract.waiting, self.name
        for entry in self.lines:
            if isinstance(entry, Entry) and entry.expect is None:
                attempts, request, _ = entry.attempts
                entry.expect = self.decided([attempt if isinstance(attempt, Result) else self.contract.ended[attempt]
                                             for attempt in attempts])
                self.compare(entry)
                self.cover(request, entry.expect)

    def decided(self, results):
        """What is expected of decisions, the last of them in full."""
        counts = dict.fromkeys((*COUNTED, "left"), 0)
        for result in results:
            counts["left" if result is None else result.answer["decision"]] += 1
        expect = {outcome: count for outcome, count in counts.items() if count}
        if results[-1] is None:
            return expect
        result, last = results[-1], results[-1].answer
        for fact in ("limit", "policy", "reason", "capacity", "remaining", "retry_after", "reset_after"):
            value = last.get(fact, UNKNOWN)
            if value is UNKNOWN or (value is None and fact in ("policy", "reason", "capacity")):
                continue
            is_length = fact.endswith("_after") and value is not None
            expect[fact] = duration(value) if is_length else value
        if result.permit is not None:
            expect["expires_after"] = duration(result.permit.expires_after)
        if result.has_waited:
            expect["served_at" if last["decision"] == "allow" else "ended_at"] = duration(result.at)
            expect["waited"] = duration(result.at - result.arrived)
        if self.shows_limits and (last.get("looks") or last.get("watched")):
            expect["limits"] = self.limits_of(last)
        return expect

    def limits_of(self, last):
        """Each limit that was met, in the order of the contract; those that do not enforce are marked."""
        found = {look["limit"]: {"decision": look["decision"], "remaining": look["remaining"], "enforced": True}
                 for look in last.get("looks", ())}
        for watched in last.get("watched", ()):
            found[watched["limit"]] = {"decision": watched["decision"], "remaining": watched["remaining"],
                                       "enforced": False}
        return [{"limit": one["name"], **{fact: value for fact, value in found[one["name"]].items()
                                          if value is not UNKNOWN}}
                for one in self.limits if one["name"] in found]

    def compare(self, entry):
        for fact, value in entry.claim.items():
            assert not self.claims_hold or entry.expect.get(fact) == value, (self.name, entry.parts, fact, value, entry.expect)

    def write(self, at, why, doing, expect, cost=1, times=1, peek=False, claim=None, more=(), attempts=()):
        parts = [f"at: {duration(at)}", doing, *more]
        parts += [f"cost: {cost}"] if cost != 1 else []
        parts += [f"times: {times}"] if times != 1 else []
        parts += ["peek: true"] if peek else []
        entry = Entry(parts, expect, attempts, claim)
        if expect is not None:
            self.compare(entry)
        if why:
            self.note(why)
        self.lines.append(entry)
        self.step_count += 1
        self.now = max(self.now, at)

    # ---- Beside deciding ----

    def attempt(self, operation):
        """What an operation comes to; Ambiguous leaves everything as it was. So does one that waiters make ambiguous later."""
        before = copy.deepcopy((self.contract, self.named))
        try:
            found = operation()
            if self.contract.waiting:
                future = copy.deepcopy(self.contract)
                future.is_future = True
                future.advance(HORIZON)
            return found
        except Error as error:
            return {"error": str(error)}
        except Ambiguous:
            self.contract, self.named = before
            raise

    def told(self, found):
        return {fact: value for fact, value in found.items() if value is not UNKNOWN}

    def result_of(self, name):
        """What became of a name; Ambiguous while it waits, so that nobody asks for what is not there yet."""
        found = self.named[name]
        found = self.contract.ended.get(found, found) if isinstance(found, int) else found
        if isinstance(found, int):
            raise Ambiguous
        return found

    def leave(self, at, name, why=None, claim=None):
        ticket = self.named[name]

        def go():
            if not isinstance(ticket, int):
                raise Error("ended")
            return self.contract.leave(ticket, at)
        found = self.attempt(go) or {}
        self.operations.add("leave")
        self.write(at, why, f"leave: {name}", found, claim=claim)

    def on_permit(self, kind, at, name, change, why, claim):
        def go():
            self.contract.advance(at)
            result = self.result_of(name)
            return change(result and result.permit, at)
        found = self.attempt(go)
        if "expires_after" in found:
            found["expires_after"] = duration(found["expires_after"])
        self.operations.add(kind)
        self.write(at, why, f"{kind}: {name}", found, claim=claim)
        return found

    def renew(self, at, name, why=None, claim=None):
        return self.on_permit("renew", at, name, self.contract_renew, why, claim)

    def release(self, at, name, why=None, claim=None):
        return self.on_permit("release", at, name, self.contract_release, why, claim)

    def contract_renew(self, permit, at):
        return self.contract.renew(permit, at)

    def contract_release(self, permit, at):
        return self.contract.release(permit, at)

    def reservation_of(self, name, at):
        self.contract.advance(at)
        result = self.result_of(name)
        return result and result.reservation

    def settle(self, at, name, cost, why=None, claim=None):
        found = self.attempt(lambda: self.contract.settle(self.reservation_of(name, at), at, cost))
        self.operations.add("settle")
        self.write(at, why, f"settle: {name}", self.told(found), claim=claim, more=[f"cost: {cost}"])

    def cancel(self, at, name, why=None, claim=None):
        found = self.attempt(lambda: self.contract.cancel(self.reservation_of(name, at), at))
        self.operations.add("cancel")
        self.write(at, why, f"cancel: {name}", self.told(found), claim=claim)

    def refund(self, at, request, cost, why=None, claim=None):
        found = self.attempt(lambda: self.contract.refund(request, at, cost))
        found = {fact: found[fact] for fact in ("returned", "remaining", "limit")}
        self.operations.add("refund")
        self.write(at, why, f"refund: {scalar(request)}", self.told(found), claim=claim, more=[f"cost: {cost}"])

    def reset(self, at, name, key, why=None, claim=None):
        def go():
            self.contract.advance(at)
            limit = self.contract.limit(name)
            if limit and self.contract.queue(limit, tuple(key.get(part) for part in limit.fields["key"])):
                raise Ambiguous  # a reset has no instant of its own, so when who waits is served is nobody's promise
            return self.contract.reset(name, key)
        found = self.attempt(go) or {}
        self.operations.add("reset")
        self.write(at, why, f"reset: {{ limit: {name}, key: {scalar(key)} }}", found, claim=claim)

    def reload(self, at, limits, why=None, claim=None):
        """Put other limits in force; a list of limits, or the text of a contract that is refused."""
        if isinstance(limits, str):
            found, body = {"error": "contract"}, limits.strip("\n").split("\n")
        else:
            found, body = self.attempt(lambda: self.contract.reload(limits, at)), contract_lines(limits)
            self.limits = limits if "error" not in found else self.limits
        self.operations.add("reload")
        self.write(at, why, "reload:", found, claim=claim, more=["  " + line for line in body])

    def restart(self, at, why=None):
        """Whoever waits is cut off, and nothing that was given is good any more."""
        self.contract.advance(at)
        ended, waiting, tickets = self.contract.ended, self.contract.waiting, self.contract.tickets
        ended.update({waiter.ticket: None for waiter in waiting})
        self.contract = Room(self.limits, self.contract.start, lost_at=at, hold=HOLD)
        self.contract.ended, self.contract.tickets = ended, tickets
        self.named = dict.fromkeys(self.named)
        self.operations.add("restart")
        self.write(at, why, "restart: true", {})

    def cover(self, request, expect):
        """Which (algorithm, decision) pairs this step shows: of the limit that bound it, or of the only one met."""
        met = [limit for limit in self.contract.limits if limit.meets(request) and limit.key_of(request) is not None]
        for limit in met:
            if limit.name == expect.get("limit") or len(met) == 1:
                algorithm = limit.fields.get("algorithm", "token-bucket")
                align = limit.fields.get("align", "epoch").split()[0] if algorithm == "fixed-window" else ""
                self.covered |= {((algorithm + " " + align).strip(), o) for o in OUTCOMES if o in expect}

    def text(self):
        head = ["# SPDX-License-Identifier: Apache-2.0",
                "# Written by test/oracle/generate.py from the oracle's exact model: change that, not this file."]
        head += ["#"] + [f"# {line}" for line in self.title.strip().splitlines()]
        head += [f"start: {self.start}"] if self.start else []
        head += ["contract:"] + ["  " + line for line in contract_lines(self.first)]
        lines = [self.entry_text(line) if isinstance(line, Entry) else line for line in self.lines]
        return "\n".join(head + ["timeline:"] + lines) + "\n"

    def entry_text(self, entry):
        expect = {fact: value for fact, value in entry.expect.items() if fact != "waited" or fact in entry.claim}
        facts = ", ".join(f"{k}: {v if k.endswith(LENGTH_FACTS) and v else scalar(v)}" for k, v in expect.items())
        return "  - " + "\n    ".join(entry.parts + ([f"expect: {{ {facts} }}"] if facts else []))


def past_horizon(timeline, request):
    """The last stamp that is decided, and the first that is not."""
    timeline.step(HORIZON, request, why="ten mean years after the start is still decided")
    timeline.step(HORIZON + 1, request, why="one nanosecond later is out of range: not decided, never wrapped",
                  claim={"refused": 1, "reason": "time"})
