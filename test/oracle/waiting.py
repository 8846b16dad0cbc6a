# SPDX-License-Identifier: Apache-2.0
"""Curated files about waiting: the leaky queue, `wait` on every limit on rates, and requests under several limits."""

from cases import ACME, DAY, MINUTE, MS, SECOND, limit
from models import HORIZON
from timeline import Timeline, past_horizon

USER, APP, TEAM = {"user": "u"}, {"app": "a"}, {"team": "t"}


def wait(up_to, queue):
    return {"up-to": up_to, "queue": queue}


def paced(rate, up_to, queue, name="paced", key=("tenant",), **more):
    return limit(name, key=key, algorithm="leaky-queue", rate=rate, wait=wait(up_to, queue), **more)


def leaky_queue():
    vector = Timeline("50-leaky-queue", """The vectors of algorithms 8.1: two a second, one at a time, for up to a second.
Nothing is promised on arrival, so what it costs is paid at release.""", [paced("2/s", "1s", 10)])
    vector.step(0, ACME, wait=SECOND, times=4, name="w", why="they leave at 0, 0.5 and 1 s; the fourth would be too late",
                claim={"allow": 3, "deny": 1, "retry_after": "1s500ms"})
    vector.step(0, ACME, why="who cannot wait gets a time behind those who do", claim={"deny": 1, "retry_after": "1s500ms"})
    vector.step(0, ACME, cost=2, wait=SECOND, why="more than one at a time never passes", claim={"never": 1})
    vector.step(500 * MS, ACME, peek=True, why="the second has left: one is ahead", claim={"deny": 1, "retry_after": "1s"})
    vector.step(1500 * MS, ACME, claim={"allow": 1})

    short = Timeline("50-leaky-queue-deadline", """Whose deadline is before its turn is refused on arrival; at its very turn it is served.""",
                     [paced("2/s", "1s", 10)])
    short.step(0, ACME, claim={"allow": 1, "capacity": 1, "remaining": 0})
    short.step(0, ACME, wait=400 * MS, claim={"deny": 1, "retry_after": "500ms"})
    short.step(0, ACME, wait=500 * MS - 1, claim={"deny": 1, "retry_after": "500ms"})
    short.step(0, ACME, wait=500 * MS, claim={"allow": 1, "served_at": "500ms", "waited": "500ms"})
    short.step(0, ACME, wait=0, why="a wait of nothing is none", claim={"deny": 1, "retry_after": "1s"})
    short.step(MS, ACME, wait=DAY, why="the contract's bound is a second: its turn is just within",
               claim={"allow": 1, "served_at": "1s", "waited": "999ms"})
    short.step(MS, ACME, wait=DAY, why="and this one's is not", claim={"deny": 1, "retry_after": "1s499ms"})
    short.step(1499999999, ACME, claim={"deny": 1, "retry_after": "1ns"})
    short.step(1500 * MS, ACME, claim={"allow": 1})
    past_horizon(short, ACME)
    short.step(HORIZON, ACME, wait=SECOND, why="a turn that would be beyond it does not come", claim={"deny": 1, "retry_after": None})
    short.step(HORIZON + 1, ACME, wait=SECOND, claim={"refused": 1, "reason": "time"})

    full = Timeline("50-leaky-queue-full", """A queue holds so many and no more, however long they could wait; a key has its own.""",
                    [paced("1/s", "1h", 3)])
    full.step(0, ACME, wait=MINUTE, times=6, name="w", claim={"allow": 3, "deny": 2, "left": 1, "retry_after": "4s"})
    full.step(0, {"tenant": "b"}, wait=MINUTE, times=2, why="another key's", claim={"allow": 2, "served_at": "1s"})
    full.step(1500 * MS, ACME, wait=MINUTE, times=2, why="one has left", claim={"allow": 1, "deny": 1})
    full.leave(1500 * MS, "w.3", why="and when one gives up there is room again")
    full.step(1500 * MS, ACME, wait=MINUTE, claim={"allow": 1, "served_at": "4s"})
    full.leave(10 * SECOND, "w.2", why="it was served long ago", claim={"error": "ended"})

    cancel = Timeline("50-leaky-queue-cancel", """Who gives up moves those behind it up, and nobody before it.""",
                      [paced("5/s", "30s", 100)])
    for number in range(1, 9):
        cancel.step(0, ACME, wait=30 * SECOND, name=f"w{number}")
    cancel.leave(300 * MS, "w4")
    cancel.leave(300 * MS, "w4", why="twice is once", claim={"error": "ended"})
    cancel.leave(500 * MS, "w8", why="the last one: nobody moves")
    cancel.leave(600 * MS, "w6", why="at the very instant at which it would have been next")
    cancel.step(700 * MS, ACME, wait=30 * SECOND, claim={"allow": 1})

    thirds = Timeline("50-leaky-queue-thirds", """3/s: a third of a second is no whole number of nanoseconds, so each turn is rounded up, never down.""",
                      [paced("3/s", "10s", 100)])
    for _ in range(7):
        thirds.step(0, ACME, wait=10 * SECOND)
    thirds.step(2 * SECOND, ACME)
    return [vector, short, full, cancel, thirds]


def rates():
    bucket = Timeline("51-wait-token-bucket", """A token bucket that lets its callers wait: ten at once, then one every 0.5 s.""",
                      [limit("b", rate="2/s", burst=10, wait=wait("5s", 20))])
    bucket.step(0, ACME, wait=5 * SECOND, times=21, claim={"allow": 20, "deny": 1, "retry_after": "5s500ms"})
    bucket.step(2 * SECOND, ACME, why="six have been let through; six are ahead", claim={"deny": 1, "retry_after": "3s500ms"})
    bucket.step(20 * SECOND, ACME, cost=10, claim={"allow": 1})
    bucket.step(20 * SECOND, ACME, cost=6, wait=5 * SECOND, claim={"allow": 1, "served_at": "23s"})
    bucket.step(21 * SECOND, ACME, cost=1, wait=5 * SECOND, why="small ones do not overtake a large one",
                claim={"allow": 1, "served_at": "23s500ms"})
    bucket.step(21 * SECOND, ACME, claim={"deny": 1, "retry_after": "3s"})
    bucket.step(25 * SECOND, ACME, times=4, claim={"allow": 3, "deny": 1})

    meter = Timeline("51-wait-leaky-bucket", "A leaky bucket of four that lets its callers wait.",
                     [limit("m", algorithm="leaky-bucket", rate="1/10s", burst=4, wait=wait("1m", 3))])
    meter.step(0, ACME, wait=MINUTE, times=8, claim={"allow": 7, "deny": 1, "retry_after": "40s"})
    meter.step(35 * SECOND, ACME, wait=10 * SECOND, claim={"allow": 1, "served_at": "40s"})

    fixed = Timeline("51-wait-fixed-window", """Waiting for the next window: five pass at its edge together, and so it goes on.""",
                     [limit("w", algorithm="fixed-window", rate="5/10s", wait=wait("30s", 100))], start="2026-11-30T10:00:03Z")
    fixed.step(0, ACME, wait=30 * SECOND, times=12, claim={"allow": 12, "served_at": "17s"})
    fixed.step(SECOND, ACME, wait=6 * SECOND, why="the next window has gone to those before", claim={"deny": 1, "retry_after": "16s"})
    fixed.step(7 * SECOND, ACME, why="and they have left", claim={"deny": 1, "retry_after": "10s"})
    fixed.step(17 * SECOND, ACME, times=4, claim={"allow": 3, "deny": 1})
    fixed.step(18 * SECOND, ACME, cost=4, wait=30 * SECOND, claim={"allow": 1, "served_at": "27s"})
    fixed.step(18 * SECOND, ACME, cost=2, wait=30 * SECOND, why="one of a window is left, so it waits for the one after",
               claim={"allow": 1, "served_at": "37s"})
    fixed.step(18 * SECOND, ACME, cost=6, wait=30 * SECOND, claim={"never": 1})

    first = Timeline("51-wait-first-request", "A window from the first request: it begins when somebody is let in.",
                     [limit("w", algorithm="fixed-window", rate="2/10s", align="first-request", wait=wait("1m", 10))])
    first.step(3 * SECOND, ACME, wait=MINUTE, times=6, claim={"allow": 6, "served_at": "23s"})
    first.step(23 * SECOND, ACME, claim={"deny": 1, "retry_after": "10s"})

    calendar = Timeline("51-wait-calendar", "Waiting for midnight in Berlin.",
                        [limit("w", algorithm="fixed-window", rate="2/d", align="calendar Europe/Berlin", wait=wait("1h", 5))],
                        start="2026-10-24T21:30:00Z")
    calendar.step(0, ACME, wait=60 * MINUTE, times=4, claim={"allow": 4, "served_at": "30m"})
    calendar.step(40 * MINUTE, ACME, wait=60 * MINUTE, why="the next day is 25 hours long, further off than anybody may wait",
                  claim={"deny": 1, "retry_after": "1d50m"})

    sliding = Timeline("51-wait-sliding-window", "A sliding window: what weighs less and less lets one after the other through.",
                       [limit("w", algorithm="sliding-window", rate="5/10s", wait=wait("30s", 20))])
    sliding.step(0, ACME, times=5, claim={"allow": 5})
    for _ in range(7):
        sliding.step(SECOND, ACME, wait=30 * SECOND)
    sliding.step(14 * SECOND, ACME, claim={"deny": 1})

    log = Timeline("51-wait-sliding-log", "A sliding log: each turn is a period behind one that passed.",
                   [limit("w", algorithm="sliding-log", rate="3/10s", wait=wait("1m", 20))])
    for at in (0, SECOND, 3 * SECOND):
        log.step(at, ACME, claim={"allow": 1})
    for _ in range(5):
        log.step(3 * SECOND, ACME, wait=MINUTE)
    log.step(3 * SECOND, ACME, claim={"deny": 1, "retry_after": "20s"})
    log.step(12 * SECOND, ACME, cost=2, wait=MINUTE)
    log.step(60 * SECOND, ACME, cost=3, wait=MINUTE, claim={"allow": 1})
    log.step(65 * SECOND, ACME, cost=2, wait=MINUTE, claim={"allow": 1, "served_at": "1m10s"})
    return [bucket, meter, fixed, first, calendar, sliding, log]


def given_back():
    t = Timeline("51-wait-given-back", """What others give back is there for who waits, at that instant.""",
                 [limit("b", rate="1/s", burst=10, debt=20, wait=wait("1m", 20))])
    t.reserve(0, ACME, "held", cost=10, claim={"allow": 1})
    t.step(0, ACME, cost=4, wait=MINUTE, claim={"allow": 1, "served_at": "1s"})
    t.step(0, ACME, cost=4, wait=MINUTE, claim={"allow": 1, "served_at": "2s"})
    t.step(0, ACME, cost=4, wait=MINUTE, claim={"allow": 1, "served_at": "6s"})
    t.settle(SECOND, "held", 5, why="five come back: the first goes now, and two are left for the second", claim={"returned": 5})
    t.refund(2 * SECOND, ACME, 1, why="one more: four of five", claim={"returned": 1})
    t.reserve(10 * SECOND, ACME, "late", cost=10, wait=MINUTE, why="a reservation that had to wait is one from when it was served",
              claim={"allow": 1, "served_at": "16s"})
    t.reserve(10 * SECOND, ACME, "never", cost=10, wait=SECOND, claim={"deny": 1})
    t.cancel(10 * SECOND, "never", claim={"error": "reservation"})
    t.settle(17 * SECOND, "late", 25, why="more than estimated: those who come wait longer", claim={"charged": 15})
    t.step(17 * SECOND, ACME, wait=MINUTE, claim={"allow": 1, "served_at": "32s"})
    t.reset(20 * SECOND, "b", {"tenant": "b"}, why="another key's is nobody's here")
    t.step(21 * SECOND, ACME, peek=True, claim={"deny": 1, "retry_after": "12s"})

    charged = Timeline("51-wait-settled-later", """A settlement that charges more moves everybody's turn back; who is too late then is denied at its deadline.""",
                       [limit("b", rate="1/s", burst=5, debt=20, wait=wait("10s", 20))])
    charged.reserve(0, ACME, "held", cost=5)
    charged.step(0, ACME, wait=3 * SECOND, claim={"deny": 1, "ended_at": "3s", "waited": "3s"})
    charged.step(0, ACME, wait=8 * SECOND, claim={"allow": 1, "served_at": "7s"})
    charged.settle(500 * MS, "held", 11, claim={"charged": 6})
    charged.step(4 * SECOND, ACME, claim={"deny": 1, "retry_after": "4s"})
    return [t, charged]


def composites():
    whole = Timeline("52-composite-wait", """A request under two limits waits whole: it is charged to neither before both let it pass.
Each key has its own queue, and the same request stands in both.""",
                     [paced("1/s", "1m", 50, name="user", key=("user",)), paced("2/s", "1m", 50, name="all", key=())])
    for number in range(3):
        whole.step(0, USER, wait=MINUTE, name=f"u{number}")
    for number in range(3):
        whole.step(0, {"user": "v"}, wait=MINUTE, name=f"v{number}")
    whole.step(0, {"user": "w"}, why="nobody of its own waits, but others do for all", claim={"deny": 1, "limit": "all"})
    whole.step(0, {"app": "a"}, wait=MINUTE, why="who meets only one of the two stands behind all the same", claim={"allow": 1})
    whole.leave(500 * MS, "u1", why="and who leaves, leaves both")
    whole.step(10 * SECOND, USER, claim={"allow": 1})

    other = Timeline("52-composite-wait-refused", """A limit without `wait` denies: on arrival, and again at the turn, and then nothing is charged.""",
                     [paced("1/s", "1m", 50, name="paced", key=()), limit("quota", key=("user",), rate="1/h", burst=2)])
    other.step(0, USER, claim={"allow": 1, "limit": "paced", "remaining": 0})
    for number in range(3):
        other.step(0, USER, wait=MINUTE, name=f"w{number}")
    other.step(0, APP, wait=MINUTE, why="it asks only `paced`: two that are denied at their turn cost it no time",
               claim={"allow": 1, "served_at": "2s"})
    other.step(1500 * MS, USER, wait=MINUTE, why="spent: it is not even let wait",
               claim={"deny": 1})
    other.step(3 * SECOND, APP, claim={"allow": 1})

    queue = Timeline("52-composite-wait-full", """One full queue of several refuses; patience is the smallest of all.""",
                     [paced("10/s", "10s", 2, name="small", key=("user",)), paced("1/s", "3s", 50, name="slow", key=())])
    queue.step(0, USER, claim={"allow": 1})
    queue.step(0, USER, wait=MINUTE, times=3, claim={"allow": 2, "deny": 1})
    queue.step(0, APP, wait=MINUTE, claim={"allow": 1, "served_at": "3s"})
    queue.step(0, APP, wait=MINUTE, why="its turn would be at 4 s, and `slow` lets nobody wait longer than 3", claim={"deny": 1})

    watch = Timeline("52-wait-watched", """A limit that only watches makes nobody wait, and counts who was served when it was.""",
                     [paced("1/s", "1m", 50, name="paced", key=()),
                      limit("watched", key=(), algorithm="leaky-queue", rate="1/10s", wait=wait("1m", 5), enforce="shadow")])
    watch.step(0, USER, claim={"allow": 1})
    watch.step(0, USER, wait=MINUTE, claim={"allow": 1, "served_at": "1s"})
    watch.step(0, USER, wait=MINUTE, claim={"allow": 1, "served_at": "2s"})
    watch.step(10 * SECOND, USER, claim={"allow": 1})

    keys = Timeline("52-wait-keys", """Keys wait by themselves; a limit that does not apply is not waited for; an override has its own pace.""",
                    [paced("1/s", "1m", 5, overrides=[{"key": {"tenant": "big"}, "rate": "10/s"},
                                                      {"key": {"tenant": "free"}, "unlimited": True}])])
    for tenant in ("a", "b", "big", "free"):
        keys.step(0, {"tenant": tenant}, wait=MINUTE, times=4)
    keys.step(0, USER, wait=MINUTE, times=3, claim={"allow": 3})
    keys.step(200 * MS, {"tenant": "big"}, wait=MINUTE)
    keys.step(200 * MS, {"tenant": "a"}, wait=MINUTE, times=3)
    return [whole, other, queue, watch, keys]


def restarted():
    t = Timeline("56-wait-restart", """A restart cuts off whoever waits, and everybody begins anew.""", [paced("1/s", "1m", 5)])
    t.step(0, ACME, wait=MINUTE, times=4, name="w", claim={"allow": 2, "left": 2})
    t.restart(1500 * MS)
    t.leave(1600 * MS, "w.4", claim={"error": "ended"})
    t.step(2 * SECOND, ACME, wait=MINUTE, times=2, claim={"allow": 2, "served_at": "3s"})
    return t


FILES = (leaky_queue, rates, given_back, composites, restarted)
