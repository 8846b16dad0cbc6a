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
from oracle import UNKNOWN, Contract, Error

OUTCOMES = ("allow", "deny", "never", "refused")
COUNTED = (*OUTCOMES, "duplicate")
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


class Timeline:
    def __init__(self, name, title, limits, start=None):
        self.name, self.title, self.limits, self.start = name, title, limits, start
        self.first = limits
        self.contract = Contract(limits, instant(start) if start else 0)
        self.lines, self.step_count, self.now, self.last = [], 0, 0, None
        self.covered = set()
        self.operations = set()
        self.reserved = {}  # name -> reservation
        self.shows_limits = any("enforce" in one for one in limits)

    def note(self, text):
        """A comment between steps."""
        self.lines.append(f"  # {text}")

    def step(self, at, request, cost=1, times=1, peek=False, why=None, claim=None):
        """Play a step and write it; Ambiguous leaves the file as it was. Returns the last decision."""
        before = copy.deepcopy(self.contract)
        counts = dict.fromkeys(COUNTED, 0)
        try:
            for _ in range(times):
                last = self.contract.decide(request, at, cost, peek)
                counts[last["decision"]] += 1
        except Ambiguous:
            self.contract = before
            raise
        expect = self.decided(last, counts)
        self.write(at, why, f"request: {scalar(request)}", expect, cost, times, peek, claim=claim)
        self.cover(request, expect)
        self.last = last
        return last

    def decided(self, last, counts):
        """What is expected of decisions, the last of them in full."""
        expect = {outcome: count for outcome, count in counts.items() if count}
        for fact in ("limit", "reason", "capacity", "remaining", "retry_after", "reset_after"):
            value = last[fact]
            if value is UNKNOWN or (value is None and fact in ("reason", "capacity")):
                continue
            is_length = fact.endswith("_after") and value is not None
            expect[fact] = duration(value) if is_length else value
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

    def write(self, at, why, doing, expect, cost=1, times=1, peek=False, claim=None, more=()):
        for fact, value in (claim or {}).items():
            assert expect.get(fact) == value, (self.name, duration(at), fact, value, expect)
        if why:
            self.note(why)
        parts = [f"at: {duration(at)}", doing, *more]
        parts += [f"cost: {cost}"] if cost != 1 else []
        parts += [f"times: {times}"] if times != 1 else []
        parts += ["peek: true"] if peek else []
        facts = ", ".join(f"{k}: {v if k.endswith('_after') and v else scalar(v)}" for k, v in expect.items())
        parts += [f"expect: {{ {facts} }}"] if facts else []
        self.lines.append("  - " + "\n    ".join(parts))
        self.step_count += 1
        self.now = max(self.now, at)

    # ---- Beside deciding ----

    def attempt(self, operation):
        """What an operation comes to; Ambiguous leaves everything as it was."""
        before, reserved = copy.deepcopy((self.contract, self.reserved)), self.reserved
        try:
            return operation()
        except Error as error:
            return {"error": str(error)}
        except Ambiguous:
            self.contract, self.reserved = before
            raise

    def told(self, found):
        return {fact: value for fact, value in found.items() if value is not UNKNOWN}

    def reserve(self, at, request, name, cost=1, why=None, claim=None):
        answer, self.reserved[name] = self.attempt(lambda: self.contract.reserve(request, at, cost, HOLD))
        counts = dict.fromkeys(COUNTED, 0)
        counts[answer["decision"]] = 1
        expect = self.decided(answer, counts)
        self.operations.add("reserve")
        self.write(at, why, f"reserve: {scalar(request)}", expect, cost, claim=claim, more=[f"as: {name}"])
        self.cover(request, expect)
        self.last = answer
        return answer

    def settle(self, at, name, cost, why=None, claim=None):
        found = self.attempt(lambda: self.contract.settle(self.reserved[name], at, cost))
        self.operations.add("settle")
        self.write(at, why, f"settle: {name}", self.told(found), claim=claim, more=[f"cost: {cost}"])

    def cancel(self, at, name, why=None, claim=None):
        found = self.attempt(lambda: self.contract.cancel(self.reserved[name], at))
        self.operations.add("cancel")
        self.write(at, why, f"cancel: {name}", self.told(found), claim=claim)

    def refund(self, at, request, cost, why=None, claim=None):
        found = self.attempt(lambda: self.contract.refund(request, at, cost))
        found = {fact: found[fact] for fact in ("returned", "remaining", "limit")}
        self.operations.add("refund")
        self.write(at, why, f"refund: {scalar(request)}", self.told(found), claim=claim, more=[f"cost: {cost}"])

    def reset(self, at, name, key, why=None, claim=None):
        found = self.attempt(lambda: self.contract.reset(name, key)) or {}
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
        self.contract = Contract(self.limits, self.contract.start, lost_at=at)
        self.reserved = {}
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
        return "\n".join(head + ["timeline:"] + self.lines) + "\n"


def past_horizon(timeline, request):
    """The last stamp that is decided, and the first that is not."""
    timeline.step(HORIZON, request, why="ten mean years after the start is still decided")
    timeline.step(HORIZON + 1, request, why="one nanosecond later is out of range: not decided, never wrapped",
                  claim={"refused": 1, "reason": "time"})
