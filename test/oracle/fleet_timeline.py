# SPDX-License-Identifier: Apache-2.0
"""A test file with several replicas and a store that can go away: `t.on("b").step(...)` is a step at replica b."""

from fleet import Fleet
from timeline import HOLD, Timeline, instant, scalar

AS_MADE = object()  # no replica is named: that which made the handle, or the first


class FleetTimeline(Timeline):
    def __init__(self, name, title, limits, start=None, shows_limits=False):
        super().__init__(name, title, limits, start)
        self.contract = Fleet(limits, instant(start) if start else 0, hold=HOLD)
        self.shows_limits = shows_limits
        self.makers = {}  # of handles -> replica
        self.where = AS_MADE

    def on(self, replica):
        """The replica of the next step; None: the first, named all the same by nothing."""
        self.where = AS_MADE if replica is None else replica
        return self

    def at(self, operation, maker=None):
        """Do something at the replica that was named, and forget the name."""
        self.contract.who = maker if self.where is AS_MADE else self.where
        self.contract.here()
        try:
            return operation()
        finally:
            self.where = AS_MADE

    def ask(self, kind, at, request, cost, times, peek, why, claim, wait, name):
        parent = super()

        def go():
            if name:
                self.makers.update({f"{name}.{number}" if times > 1 else name: self.contract.who
                                    for number in range(1, times + 1)})
            return parent.ask(kind, at, request, cost, times, peek, why, claim, wait, name)
        return self.at(go)

    def write(self, at, why, doing, expect, cost=1, times=1, peek=False, claim=None, more=(), attempts=()):
        if self.where is not AS_MADE:
            more = [*more, f"replica: {self.where}"]
        super().write(at, why, doing, expect, cost, times, peek, claim, more, attempts)

    def on_permit(self, kind, at, name, change, why, claim):
        parent = super()
        return self.at(lambda: parent.on_permit(kind, at, name, change, why, claim), self.makers[name])

    def settle(self, at, name, cost, why=None, claim=None):
        parent = super()
        return self.at(lambda: parent.settle(at, name, cost, why, claim), self.makers[name])

    def cancel(self, at, name, why=None, claim=None):
        parent = super()
        return self.at(lambda: parent.cancel(at, name, why, claim), self.makers[name])

    def refund(self, at, request, cost, why=None, claim=None):
        def go():
            found = self.attempt(lambda: self.contract.refund(request, at, cost))
            found = {fact: found[fact] for fact in ("returned", "remaining", "limit", "error") if fact in found}
            self.operations.add("refund")
            self.write(at, why, f"refund: {scalar(request)}", self.told(found), claim=claim, more=[f"cost: {cost}"])
        return self.at(go)

    def reset(self, at, name, key, why=None, claim=None):
        parent = super()
        return self.at(lambda: parent.reset(at, name, key, why, claim))

    def reload(self, at, limits, why=None, claim=None):
        parent = super()
        return self.at(lambda: parent.reload(at, limits, why, claim))

    def restart(self, at, why=None):
        def go():
            self.contract.restart(at)
            self.operations.add("restart")
            self.write(at, why, "restart: true", {})
        return self.at(go)

    def store(self, at, event, why=None):
        {"away": self.contract.take_away, "back": self.contract.bring_back, "lost": self.contract.lose}[event](at)
        self.operations.add("store")
        self.write(at, why, f"store: {event}", {})
