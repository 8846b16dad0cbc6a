# SPDX-License-Identifier: Apache-2.0
"""Write the conformance files once more, as a real store is asked: `python3 test/oracle/store_grid.py FOLDER`.

Every limit gets `scope: fleet` (in files about fleets those that have it), and every instant lies on the store's tick: 1 us, or 1 ms where a limit's numbers need it
(algorithms 4.2). An instant that does not is moved to the tick before it, or behind it where it is hardly later, so the two sides
of a boundary are the ticks on its two sides. The oracle decides at the moved instants, and what it says of lengths of time is the
first tick that is not early. So these files are the same stories, and other numbers only where a nanosecond mattered.

What a store does not know is left out, and why is told on standard output as `left out: NAME: WHY`: files with limits that cannot
be shared, and single steps: stale readings of the clock (a store has its own), what lies beyond ten years, and reloads of another
size, where a store converts a key when it is next asked (4.2); the story goes on under the sizes that it has. A restart is played,
and of what is shared nothing is lost by it. The store stays where it is.
"""

import pathlib
import re
import sys
from math import gcd

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import fleet_timeline  # noqa: E402
import models  # noqa: E402
import timeline as base  # noqa: E402

MICROSECOND, MILLISECOND = 10**3, 10**6
WHOLE = 2**52
NO_QUEUE = "a store has no queue"
LEASED = "what a replica has in hand it decides by itself"  # and what others hold they are refused


class Nothing(dict):
    """The answer to what was not asked."""

    def __missing__(self, _fact):
        return 0


def products(fields, unit):
    """The largest product that a script computes with for these numbers, in ticks of `unit` ns (4.2)."""
    algorithm = fields.get("algorithm", "token-bucket")
    if "rate" not in fields or algorithm not in ("token-bucket", "leaky-bucket", "sliding-window"):
        return 0
    count, period, _ = models.parse_rate(fields["rate"])
    ticks = -(-period // unit)
    if algorithm == "sliding-window":
        return (2 if fields.get("refused") == "charged" else 1) * count * ticks
    common = gcd(count, ticks) or 1
    above = max(fields.get("debt", 0), fields["burst"] if fields.get("refused") == "charged" else 0)
    return (fields["burst"] + above) * (ticks // common) + count // common + ticks // common


def tick_of(limits):
    """1 us, 1 ms, or None: the numbers fit neither."""
    sizes = [{**fields, **more} for fields in limits for more in ({}, *fields.get("overrides", ()))]
    for unit in (MICROSECOND, MILLISECOND):
        if all(products(size, unit) < WHOLE for size in sizes):
            return unit
    return None


def why_not(limits):
    """Why a store cannot count these limits; None: it can."""
    for fields in limits:
        if fields.get("algorithm") == "leaky-queue" or "wait" in fields:
            return NO_QUEUE
        if "lease" in fields:
            return LEASED
        if fields.get("rate", "").endswith(("ns", "us")):
            return "a length of time is no whole number of microseconds"
    return None if tick_of(limits) else "its numbers fit no script"


class Grid:
    """What is put before a class of timelines."""

    claims_hold = False  # what is claimed is claimed of the nanosecond, and of a store that comes and goes
    left_out = []  # (name, why)

    def __init__(self, name, title, limits, start=None, **more):
        self.ends = why_not(limits)
        self.tick = tick_of(limits) or MICROSECOND
        models.TICK = self.tick
        super().__init__(name, title, limits, start, **more)
        if self.ends:
            self.left_out.append((name, self.ends))
            self.named[""] = 0  # nobody is asked, and random files want to have named somebody
        elif self.is_shared_by_itself():
            self.limits = self.first = [{**fields, "scope": "fleet", "when-store-fails": "closed"} for fields in limits]
        self.given, self.dropped, self.reloads = limits, 0, 0

    def is_shared_by_itself(self):
        """Whether no limit of the file says who shares it."""
        return True

    def skip(self):
        self.step_count += 1  # who counts steps comes to an end
        self.dropped += 1
        self.last = Nothing(decision=None)
        return self.last

    def instant(self, at):
        beyond = at % self.tick
        return at - beyond + (self.tick if 0 < beyond < self.tick // 2 else 0)

    def plays(self, at, *names):
        """Whether a step is asked: not in the past, or after ten years; nor what ends that which was not."""
        models.TICK = self.tick
        return (self.ends is None and self.now <= self.instant(at) <= models.HORIZON - self.tick
                and all(name in self.named for name in names))

    def finish(self):
        models.TICK = self.tick
        super().finish()

    def ask(self, kind, at, request, cost, times, peek, why, claim, wait, name):
        if not self.plays(at):
            return self.skip()
        try:
            return super().ask(kind, self.instant(at), request, cost, times, peek, why, claim, wait, name)
        except models.Ambiguous:
            self.skip()
            raise

    def on_permit(self, kind, at, name, change, why, claim):
        if not self.plays(at, name):
            return self.skip()
        return super().on_permit(kind, self.instant(at), name, change, why, claim)

    def settle(self, at, name, cost, why=None, claim=None):
        if not self.plays(at, name):
            return self.skip()
        return super().settle(self.instant(at), name, cost, why, claim)

    def cancel(self, at, name, why=None, claim=None):
        if not self.plays(at, name):
            return self.skip()
        return super().cancel(self.instant(at), name, why, claim)

    def refund(self, at, request, cost, why=None, claim=None):
        if not self.plays(at):
            return self.skip()
        return super().refund(self.instant(at), request, cost, why, claim)

    def reset(self, at, name, key, why=None, claim=None):
        if not self.plays(at):
            return self.skip()
        return super().reset(self.instant(at), name, key, why, claim)

    def leave(self, at, name, why=None, claim=None):
        self.skip()

    def reload(self, at, limits, why=None, claim=None):
        if not self.plays(at) or not (limits == self.given or isinstance(limits, str)):
            self.reloads += limits != self.given
            return self.skip()
        return super().reload(self.instant(at), limits if isinstance(limits, str) else self.limits, why, claim)

    def text(self):
        lines = super().text().split("\n")
        unit = "1 us" if self.tick == MICROSECOND else "1 ms"
        lines[1:2] = ["# Written by test/oracle/store_grid.py, in ticks of the store: " + unit + "."]
        return "\n".join(lines)


class GridTimeline(Grid, base.Timeline):
    def restart(self, at, why=None):
        if not self.plays(at):
            return self.skip()
        self.operations.add("restart")
        return self.write(self.instant(at), why, "restart: true", {})


class GridFleet(Grid, fleet_timeline.FleetTimeline):
    """Several replicas and one store, which stays. A replica trusts a refusal for up to five seconds, so what another gives back
    meanwhile it may see late: nothing is asked of it then."""

    TRUST = 5 * models.SECOND

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.denied, self.given_back = {}, {}  # the latest instants, by replica

    def is_shared_by_itself(self):
        return False

    def may_be_late(self, at):
        here = None if self.where is fleet_timeline.AS_MADE else self.where
        last = self.denied.get(here)
        return (last is not None and at <= last + self.TRUST
                and any(given >= last for replica, given in self.given_back.items() if replica != here))

    def ask(self, kind, at, request, cost, times, peek, why, claim, wait, name):
        if self.plays(at) and self.may_be_late(self.instant(at)):
            return self.skip()
        return super().ask(kind, at, request, cost, times, peek, why, claim, wait, name)

    def decided(self, results):
        expect = super().decided(results)
        if "deny" in expect:
            self.denied[self.contract.who] = results[-1].at
            expect.pop("limits", None)  # those that were not asked again are left out
        return expect

    def write(self, at, why, doing, *args, **more):
        if doing.split(":")[0] in ("settle", "cancel", "refund", "reset", "release", "restart"):
            self.given_back[self.contract.who] = at
        super().write(at, why, doing, *args, **more)

    def skip(self):
        self.where = fleet_timeline.AS_MADE
        return super().skip()

    def restart(self, at, why=None):
        return super().restart(self.instant(at), why) if self.plays(at) else self.skip()

    def store(self, at, event, why=None):
        self.skip()


def timelines():
    """Those of generate.py."""
    base.Timeline, fleet_timeline.FleetTimeline = GridTimeline, GridFleet  # before the modules take them from there
    import generate
    yield from generate.timelines()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    files = steps = dropped = 0
    for timeline in timelines():
        played = timeline.step_count - timeline.dropped
        if played == 0:
            continue
        (folder / f"{timeline.name}.test.yaml").write_text(timeline.text(), encoding="utf-8")
        files, steps, dropped = files + 1, steps + played, dropped + timeline.dropped
    for name, why in Grid.left_out:
        print(f"left out: {name}: {why}")
    print(f"{files} files, {steps} steps, {dropped} steps left out")


if __name__ == "__main__":
    main()
