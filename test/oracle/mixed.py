# SPDX-License-Identifier: Apache-2.0
"""Curated files about requests that meet several limits, about keys, conditions and costs."""

from cases import ACME, MINUTE, MS, SECOND, limit
from timeline import Timeline


def composite():
    t = Timeline("09-composite", """Tenant, address and global budgets together: one refusal charges none.
On a refusal the binding limit is the one that frees last, on an allowance the one with the fewest such requests left.""",
                 [limit("tenant", rate="5/s", burst=20),
                  limit("address", key=("ip",), algorithm="sliding-log", rate="6/1m"),
                  limit("global", key=(), algorithm="fixed-window", rate="10/1m")])
    one, two = {"tenant": "acme", "ip": "192.0.2.1"}, {"tenant": "acme", "ip": "192.0.2.2"}
    t.step(0, one, claim={"allow": 1, "limit": "address", "remaining": 5})
    t.step(0, one, cost=5, claim={"allow": 1, "limit": "address", "remaining": 0})
    t.step(0, one, times=3, why="the address refuses: neither tenant nor global is charged",
           claim={"deny": 3, "limit": "address", "retry_after": "1m"})
    t.step(0, two, claim={"allow": 1, "limit": "global", "remaining": 3})
    t.step(0, two, times=4, claim={"allow": 3, "deny": 1, "limit": "global", "retry_after": "1m"})
    t.step(0, one, why="both refuse and free together; the text does not say which is named", claim={"deny": 1})
    t.step(30 * SECOND, {"tenant": "b", "ip": "192.0.2.3"}, claim={"deny": 1, "limit": "global", "retry_after": "30s"})
    t.step(30 * SECOND, {"tenant": "b", "ip": "192.0.2.3"}, cost=7, why="above the address's six: never",
           claim={"never": 1, "limit": "address", "retry_after": None})
    t.step(MINUTE, {"tenant": "b", "ip": "192.0.2.3"}, cost=6, peek=True, why="a peek reports, charged nowhere",
           claim={"allow": 1, "limit": "address", "remaining": 6})
    t.step(MINUTE, {"tenant": "b", "ip": "192.0.2.3"}, cost=6, claim={"allow": 1, "remaining": 0})
    t.step(MINUTE + 500 * MS, {"tenant": "b", "ip": "192.0.2.4"}, cost=5, claim={"deny": 1, "limit": "global"})
    t.step(MINUTE + 500 * MS, {"tenant": "b", "ip": "192.0.2.4"}, cost=4,
           why="neither has room for another such request: contract order", claim={"allow": 1, "limit": "address"})

    four = Timeline("09-composite-four", "Four limits of four kinds; each in turn is the one that refuses.",
                    [limit("burst", rate="1/s", burst=4), limit("meter", algorithm="leaky-bucket", rate="2/s", burst=6),
                     limit("window", algorithm="fixed-window", rate="9/10s"),
                     limit("sliding", algorithm="sliding-window", rate="12/20s")])
    four.step(0, ACME, times=5, claim={"allow": 4, "deny": 1, "limit": "burst", "retry_after": "1s"})
    four.step(SECOND, ACME, cost=2, claim={"deny": 1, "limit": "burst", "retry_after": "1s"})
    four.step(4 * SECOND, ACME, cost=4, claim={"allow": 1, "limit": "burst"})
    four.step(8 * SECOND, ACME, cost=3, claim={"deny": 1, "limit": "window", "retry_after": "2s"})
    four.step(8 * SECOND, ACME, cost=5, claim={"never": 1, "limit": "burst"})
    four.step(10 * SECOND, ACME, cost=4, claim={"allow": 1})
    four.step(16 * SECOND, ACME, times=2, claim={"deny": 2, "limit": "sliding"})
    four.step(four.now + four.last["retry_after"] - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
    four.step(four.now + 1, ACME, claim={"allow": 1})

    still = Timeline("09-composite-still", "A limit that never refills frees last of all.",
                     [limit("still", rate="0/s", burst=1), limit("slow", rate="1/1d", burst=1)])
    still.step(0, ACME, claim={"allow": 1, "remaining": 0})
    still.step(0, ACME, claim={"deny": 1, "limit": "still", "retry_after": None})
    return [t, four, still]


def keys():
    t = Timeline("10-keys", "Keys do not affect each other; a request without the key is skipped, shared or refused.",
                 [limit("pair", key=("user", "app"), rate="1/1h", burst=1),
                  limit("shared", key=("team",), rate="1/1h", burst=2, when={"path": "/share/**"}, missing_key="share"),
                  limit("strict", key=("tenant",), algorithm="fixed-window", rate="1/1h", when={"path": "/strict/**"},
                        missing_key="refuse")])
    for user, app in (("a", "bc"), ("ab", "c"), ("abc", "d"), ("a", "b-c")):
        t.step(0, {"user": user, "app": app}, times=2, claim={"allow": 1, "deny": 1})
    t.step(0, {"user": "a"}, why="half a key is no key: the limit is skipped", claim={"allow": 1, "limit": None})
    t.step(0, {"path": "/share/x"}, times=2, why="all that lack a team share one budget", claim={"allow": 2})
    t.step(0, {"path": "/share/y"}, claim={"deny": 1, "limit": "shared"})
    t.step(0, {"path": "/share/x", "team": "red"}, claim={"allow": 1, "remaining": 1})
    t.step(0, {"path": "/strict/x"}, claim={"never": 1, "limit": "strict", "reason": "missing-key", "retry_after": None})
    t.step(0, {"path": "/strict/x", "tenant": "acme"}, claim={"allow": 1, "limit": "strict", "remaining": 0})
    t.step(0, {"path": "/strict/x", "user": "z", "app": "z"}, why="refused for want of a tenant: the pair is not charged",
           claim={"never": 1, "reason": "missing-key"})
    t.step(0, {"user": "z", "app": "z"}, claim={"allow": 1, "limit": "pair"})
    t.step(0, {"path": "/elsewhere"}, claim={"allow": 1, "limit": None})
    return t


def conditions():
    t = Timeline("11-when", "Which requests a limit concerns.",
                 [limit("items", key=(), algorithm="fixed-window", rate="1/1h", when={"path": "/v1/*/items"}),
                  limit("tree", key=(), algorithm="fixed-window", rate="2/1h", when={"path": "/tree/**"}),
                  limit("writes", key=(), algorithm="fixed-window", rate="1/1h", when={"method": ["POST", "PUT"]}),
                  limit("nobody", key=(), algorithm="fixed-window", rate="1/1h",
                        when={"tenant": "absent", "path": "/anonymous"}),
                  limit("outsiders", key=("team",), algorithm="fixed-window", rate="1/1h",
                        when={"team": {"not": ["red", "blue-*"]}, "app": "present"})])
    t.step(0, {"path": "/v1/a/items"}, times=2, claim={"allow": 1, "deny": 1, "limit": "items"})
    t.step(0, {"path": "/v1/b/items"}, why="one budget for all that match", claim={"deny": 1})
    t.step(0, {"path": "/v1/a/b/items"}, why="a single star stops at a slash", claim={"allow": 1, "limit": None})
    t.step(0, {"path": "/tree"}, why="a final /** also matches the path without it", claim={"allow": 1, "limit": "tree"})
    t.step(0, {"path": "/tree/a/b"}, times=2, claim={"allow": 1, "deny": 1, "limit": "tree"})
    t.step(0, {"path": "/trees"}, claim={"allow": 1, "limit": None})
    t.step(0, {"path": "/x", "method": "POST"}, claim={"allow": 1, "limit": "writes"})
    t.step(0, {"path": "/x", "method": "PUT"}, claim={"deny": 1, "limit": "writes"})
    t.step(0, {"path": "/x", "method": "GET"}, claim={"allow": 1, "limit": None})
    t.step(0, {"path": "/anonymous"}, times=2, claim={"allow": 1, "deny": 1, "limit": "nobody"})
    t.step(0, {"path": "/anonymous", "tenant": "acme"}, claim={"allow": 1, "limit": None})
    t.step(0, {"app": "web", "team": "green"}, times=2, claim={"allow": 1, "deny": 1, "limit": "outsiders"})
    for request in ({"app": "web", "team": "red"}, {"app": "web", "team": "blue-two"}, {"team": "green"}):
        t.step(0, request, claim={"allow": 1, "limit": None})
    return t


def costs():
    t = Timeline("12-costs", "A limit with a cost of its own charges that; the request's cost goes to the others.",
                 [limit("plain", rate="1/s", burst=10), limit("fixed-price", rate="1/s", burst=20, cost=4)])
    t.step(0, ACME, claim={"allow": 1, "limit": "fixed-price", "remaining": 16})
    t.step(0, ACME, cost=8, claim={"allow": 1, "limit": "plain", "remaining": 1})
    t.step(0, ACME, cost=2, claim={"deny": 1, "limit": "plain", "retry_after": "1s"})
    t.step(0, ACME, claim={"allow": 1, "limit": "plain", "remaining": 0})
    t.step(8 * SECOND, ACME, times=4, claim={"allow": 4, "limit": "fixed-price", "remaining": 0})
    t.step(8 * SECOND, ACME, claim={"deny": 1, "limit": "fixed-price", "retry_after": "4s"})
    t.step(8 * SECOND, ACME, cost=11, claim={"never": 1, "limit": "plain"})
    t.step(8 * SECOND, ACME, cost=5, why="both refuse; the one that frees last is named",
           claim={"deny": 1, "limit": "fixed-price", "retry_after": "4s"})
    t.step(100 * SECOND, ACME, cost=10, peek=True, claim={"allow": 1, "limit": "plain", "remaining": 10})
    return t


FILES = (composite, keys, conditions, costs)
