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
from oracle import UNKNOWN, Contract

OUTCOMES = ("allow", "deny", "never", "refused")
LENGTHS = (("d", 86400 * SECOND), ("h", 3600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", 10**6),
           ("us", 10**3), ("ns", 1))
PLAIN = re.compile(r"[a-z][a-z0-9-]*|/[A-Za-z0-9/._-]*|[0-9]+/[0-9]*[a-z]+|calendar [A-Za-z/_]+")


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


class Timeline:
    def __init__(self, name, title, limits, start=None):
        self.name, self.title, self.limits, self.start = name, title, limits, start
        self.contract = Contract(limits, instant(start) if start else 0)
        self.lines, self.step_count, self.now, self.last = [], 0, 0, None
        self.covered = set()

    def note(self, text):
        """A comment between steps."""
        self.lines.append(f"  # {text}")

    def step(self, at, request, cost=1, times=1, peek=False, why=None, claim=None):
        """Play a step and write it; Ambiguous leaves the file as it was. Returns the last decision."""
        before = copy.deepcopy(self.contract)
        counts = dict.fromkeys(OUTCOMES, 0)
        try:
            for _ in range(times):
                last = self.contract.decide(request, at, cost, peek)
                counts[last["decision"]] += 1
        except Ambiguous:
            self.contract = before
            raise
        expect = {outcome: count for outcome, count in counts.items() if count}
        for fact in ("limit", "reason", "capacity", "remaining", "retry_after", "reset_after"):
            value = last[fact]
            if value is UNKNOWN or (value is None and fact in ("reason", "capacity")):
                continue
            is_length = fact.endswith("_after") and value is not None
            expect[fact] = duration(value) if is_length else value
        for fact, value in (claim or {}).items():
            assert expect.get(fact) == value, (self.name, duration(at), fact, value, expect)
        self.write(at, request, cost, times, peek, why, expect)
        self.cover(request, expect)
        self.now, self.last = max(self.now, at), last
        return last

    def write(self, at, request, cost, times, peek, why, expect):
        if why:
            self.note(why)
        parts = [f"at: {duration(at)}", f"request: {scalar(request)}"]
        parts += [f"cost: {cost}"] if cost != 1 else []
        parts += [f"times: {times}"] if times != 1 else []
        parts += ["peek: true"] if peek else []
        facts = ", ".join(f"{k}: {v if k.endswith('_after') and v else scalar(v)}" for k, v in expect.items())
        parts += [f"expect: {{ {facts} }}"]
        self.lines.append("  - " + "\n    ".join(parts))
        self.step_count += 1

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
        head += ["contract:", "  weir: 1", "  limits:"]
        for limit in self.limits:
            fields = [f"{name}: {scalar(value)}" for name, value in limit.items()]
            head.append("    - " + "\n      ".join(fields))
        return "\n".join(head + ["timeline:"] + self.lines) + "\n"


def past_horizon(timeline, request):
    """The last stamp that is decided, and the first that is not."""
    timeline.step(HORIZON, request, why="ten mean years after the start is still decided")
    timeline.step(HORIZON + 1, request, why="one nanosecond later is out of range: not decided, never wrapped",
                  claim={"refused": 1, "reason": "time"})
