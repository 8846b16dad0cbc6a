# SPDX-License-Identifier: Apache-2.0
"""The field cases about waiting and permits, by their numbers; claims are the reports' right answers."""

from cases import ACME, MINUTE, MS, SECOND, limit
from permits import running
from timeline import Timeline, duration
from waiting import APP, USER, paced, wait


def b25():
    t = Timeline("B25-in-flight", """B25 (a) in order: at most ten, nine of them held; of those who come at once exactly one has the tenth.
(At one barrier, by threads, it is a test of its own.)""", [running(10, "1m")])
    t.acquire(0, ACME, "held", times=9, claim={"allow": 9, "remaining": 1})
    t.acquire(SECOND, ACME, "three", times=3, claim={"allow": 1, "deny": 2, "remaining": 0})
    t.release(2 * SECOND, "held.1", claim={"released": True})
    t.acquire(2 * SECOND, ACME, "many", times=64, claim={"allow": 1, "deny": 63})
    for number in range(2, 10):
        t.release(3 * SECOND, f"held.{number}", claim={"released": True})
    t.release(3 * SECOND, "three.1", claim={"released": True})
    t.release(3 * SECOND, "many.1", claim={"released": True})
    t.acquire(3 * SECOND, ACME, "all", cost=10, why="in the end nobody holds any", claim={"allow": 1, "remaining": 0})
    return t


def b27():
    def start(name, title):
        t = Timeline(name, title, [limit("twenty", rate="10/s", burst=20, wait=wait("1m", 100))])
        t.reserve(0, ACME, "first", cost=15, claim={"allow": 1, "remaining": 5})
        return t
    plain = start("B27-waiting", "B27 (a): R waits 0.4 s, the one behind it 0.5 s.")
    plain.reserve(100 * MS, ACME, "r", cost=10, wait=MINUTE, claim={"allow": 1, "served_at": "500ms", "waited": "400ms"})
    plain.reserve(200 * MS, ACME, "two", cost=2, wait=MINUTE, claim={"allow": 1, "served_at": "700ms", "waited": "500ms"})

    left = start("B27-waiting-cancel", """B27 (a): R gives up at 0.25 s. Nothing was taken for it, so all of it is there: the one behind is served at
once, and 5.5 are left.""")
    left.reserve(100 * MS, ACME, "r", cost=10, wait=MINUTE, claim={"left": 1})
    left.reserve(200 * MS, ACME, "two", cost=2, wait=MINUTE, claim={"allow": 1, "served_at": "250ms"})
    left.leave(250 * MS, "r")
    left.reserve(250 * MS, ACME, "one", wait=MINUTE, claim={"allow": 1, "remaining": 4})
    left.leave(250 * MS, "r", why="(c) twice gives nothing back", claim={"error": "ended"})
    left.step(250 * MS, ACME, times=5, claim={"allow": 4, "deny": 1, "retry_after": "50ms"})

    files = [plain, left]
    for rate in (7, 30, 60, 100):
        u = Timeline(f"B27-waiting-{rate}", f"B27 (b): one at a time, {rate}/s; three wait at one instant, leave in reverse order, and nothing is lost.",
                     [paced(f"{rate}/s", "10s", 10)])
        for at in (0, 5 * SECOND + 1, 10 * SECOND + 123456789):
            u.step(at, ACME, claim={"allow": 1})
            for number in range(3):
                u.step(at, ACME, wait=10 * SECOND, name=f"w{at}-{number}", claim={"left": 1})
            for number in (2, 1, 0):
                u.leave(at, f"w{at}-{number}")
            turn = u.contract.foretell(u.contract.waiter("request", ACME, at, 1, 10 * SECOND, ()))
            u.step(turn - 1, ACME, claim={"deny": 1, "retry_after": "1ns"})
            u.step(turn, ACME, claim={"allow": 1})
        files.append(u)
    return files


def b29():
    def waiters(name, title, leaves):
        t = Timeline(name, title, [paced("5/s", "30s", 100, name="drip")])
        for number in range(1, 101):
            moved = 1 if leaves and number > 50 else 0
            at = duration((number - 1 - moved) * 200 * MS)
            claim = {"left": 1} if leaves and number == 50 else {"allow": 1} if number == 1 else {"allow": 1, "served_at": at}
            t.step(0, ACME, wait=30 * SECOND, name=f"w{number}", claim=claim)
        if leaves:
            t.leave(3 * SECOND, "w50")
        return t
    together = Timeline("B29-waiters-at-once", "B29 (a) in one step: the hundredth leaves at 19.8 s.", [paced("5/s", "30s", 100, name="drip")])
    together.step(0, ACME, wait=30 * SECOND, times=100, name="w", claim={"allow": 100, "served_at": "19s800ms", "waited": "19s800ms"})
    together.step(SECOND, ACME, why="who comes and cannot wait is told a time behind them all", claim={"deny": 1, "retry_after": "19s"})

    large = Timeline("B29-large-first", """B29 (b): 5 at once, one a second, empty. The first asks for five, nineteen more for one each: they do not overtake.""",
                     [limit("bucket", rate="1/s", burst=5, wait=wait("1m", 100))])
    large.step(0, ACME, cost=5, claim={"allow": 1, "remaining": 0})
    for number in range(1, 21):
        large.step(number * 100 * MS, ACME, cost=5 if number == 1 else 1, wait=MINUTE, name=f"w{number}",
                   claim={"allow": 1, "served_at": f"{number + 4}s"})
    return [waiters("B29-waiters", "B29 (a): five a second, a hundred at once, in order: waiter i leaves at (i - 1) * 0.2 s.", False),
            waiters("B29-waiters-cancel", "B29 (c): waiter 50 gives up at 3 s, and 51 to 100 move up by 0.2 s.", True), together, large]


def b54():
    def limits(name="waited", other="1/s"):
        return [running(5, "2m", name="slots"), paced("1/s", "1h", 100, name=name, key=("user",)),
                limit("unrelated", key=("app",), rate=other, burst=5)]
    t = Timeline("B54-reload-held", """B54: the unchanged file is loaded each second. Five slots stay held and counted, and their later release lowers the
count; those who wait keep their places.""", limits())
    t.acquire(0, ACME, "slot", times=5, claim={"allow": 5, "remaining": 0})
    t.step(0, USER, claim={"allow": 1})
    for number in range(1, 41):
        t.step(0, USER, wait=10 * MINUTE, claim={"allow": 1, "served_at": f"{number}s"})
    for second in range(1, 31):
        t.reload(second * SECOND, limits(), claim={"kept": 3, "resized": 0})
        t.acquire(second * SECOND, ACME, f"more{second}", claim={"deny": 1, "remaining": 0})
    t.reload(31 * SECOND, limits(other="2/s"), why="only an unrelated limit changes", claim={"kept": 2, "resized": 1})
    t.acquire(31 * SECOND, ACME, "still", claim={"deny": 1})
    for number in range(1, 6):
        t.release(31 * SECOND, f"slot.{number}", claim={"released": True})
        t.release(31 * SECOND, f"slot.{number}", claim={"released": False})
    t.acquire(31 * SECOND, ACME, "again", times=6, claim={"allow": 5, "deny": 1})
    t.step(31500 * MS, USER, claim={"deny": 1, "retry_after": "9s500ms"})
    return t


def b57():
    t = Timeline("B57-queue", """B57 (c): one a second for each user, by a queue, and ten a minute for all. What waits a second is debited once, then.""",
                 [paced("1/s", "5s", 10, name="mine", key=("user",)), limit("all", key=(), algorithm="fixed-window", rate="10/1m")])
    t.step(0, USER, claim={"allow": 1})
    t.step(0, USER, wait=5 * SECOND, claim={"allow": 1, "served_at": "1s"})
    t.step(500 * MS, APP, peek=True, why="while it waits, nothing is debited", claim={"allow": 1, "limit": "all", "remaining": 9})
    t.step(1500 * MS, APP, peek=True, why="and one when it was served", claim={"allow": 1, "remaining": 8})
    t.step(2 * SECOND, APP, times=9, claim={"allow": 8, "deny": 1})
    t.step(3 * SECOND, USER, wait=5 * SECOND, why="`all` lets nobody wait", claim={"deny": 1, "limit": "all"})
    return t


def f06():
    thirty = 30 * SECOND
    t = Timeline("F06-nginx-shapes", """F06: limit_req at 2r/m without burst, with burst=3, with burst=3 nodelay, with burst=3 delay=1. Five requests each, from a
fresh address.""",
                 [limit("a", key=("ip",), algorithm="leaky-bucket", rate="2/m", burst=1, when={"path": "/a"}),
                  limit("b", key=("ip",), algorithm="leaky-queue", rate="2/m", wait=wait("90s", 3), when={"path": "/b"}),
                  limit("c", key=("ip",), algorithm="leaky-bucket", rate="2/m", burst=4, when={"path": "/c"}),
                  limit("all", key=(), algorithm="leaky-bucket", rate="100/s", burst=21, when={"path": "/c"}),
                  limit("d", key=("ip",), algorithm="leaky-bucket", rate="2/m", burst=2, wait=wait("1m", 2), when={"path": "/d"})])
    def ask(path, number):
        return {"ip": f"192.0.2.{number}", "path": path}
    t.step(0, ask("/a", 1), wait=10 * MINUTE, times=5, claim={"allow": 1, "deny": 4, "retry_after": "30s"})
    for number in range(4):
        claim = {"served_at": duration(number * thirty)} if number else {}
        t.step(0, ask("/b", 2), wait=10 * MINUTE, claim={"allow": 1, **claim})
    t.step(0, ask("/b", 2), wait=10 * MINUTE, claim={"deny": 1})
    t.step(0, ask("/c", 3), wait=10 * MINUTE, times=5, claim={"allow": 4, "deny": 1, "limit": "c"})
    for number in range(4):
        claim = {"served_at": duration((number - 1) * thirty)} if number > 1 else {}
        t.step(0, ask("/d", 4), wait=10 * MINUTE, claim={"allow": 1, **claim})
    t.step(0, ask("/d", 4), wait=10 * MINUTE, claim={"deny": 1})
    t.step(0, {"path": "/b"}, wait=10 * MINUTE, times=9, why="an empty key: not limited", claim={"allow": 9})
    return t


FILES = (b25, b27, b29, b54, b57, f06)
