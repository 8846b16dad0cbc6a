# SPDX-License-Identifier: Apache-2.0
"""What stands in the store: values that are none of ours, keys without expiry, how long keys live, and what a script may touch.

B31 counter without expiry, B33 expiry below a second, B35 foreign or damaged values.
"""

import itertools
import os
import struct
import subprocess
import unittest

from script_world import BUILD, SECOND, Item, Run, limit_line
from store_models import Size
from stores import Store

KINDS = {
    "b": Size(5, count=1, period=SECOND),
    "f": Size(5, period=60 * SECOND),
    "s": Size(5, period=60 * SECOND),
    "l": Size(5, period=60 * SECOND),
    "c": Size(5, period=60 * SECOND),
}
PERMIT = "0123456789abcdef0123456789abcdef"
# What the scripts call, and no more: what an ACL has to allow (docs/fleet.md).
COMMANDS = ("time get set del exists pttl pexpire lindex llen lrange ltrim rpush rpop zadd zscore zcount zrange zrangebyscore "
            "zrem zremrangebyscore eval evalsha").split()


class Driver:
    """`test_script drive`, asked one operation at a time."""

    def __init__(self, store, sizes):
        self.process = subprocess.Popen([os.path.join(BUILD, "test", "test_script"), "drive", store.socket_path],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for i, (letter, size) in enumerate(sizes):
            self.process.stdin.write(limit_line(i, letter, size) + "\n")

    def ask(self, line):
        self.process.stdin.write(line + "\n!\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def decide(self, verb, limit, key, cost=1, now=0, retry=None):
        reply = self.ask(f"D {verb} {now} 0 {PERMIT} - 0 1 {Item(limit, key, cost, retry)}")
        if reply.startswith("error"):
            return reply
        names = ("outcome", "remaining", "retry", "reset", "charged", "damaged", "fence", "stamp")
        return dict(zip(names, map(int, reply.split())))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def plant(store, key, value):
    """A value of some type, without expiry."""
    store.command("DEL", key)
    if isinstance(value, dict):
        store.command("HSET", key, *[word for pair in value.items() for word in pair])
    elif isinstance(value, list):
        store.command("RPUSH", key, *value)
    elif isinstance(value, set):
        store.command("SADD", key, *value)
    elif isinstance(value, tuple):
        store.command("ZADD", key, *value)
    else:
        store.command("SET", key, value)


def bucket_value(used=1.0, rem=0.0, last=1e15, n=1.0, p=1e6, tag=b"b"):
    return struct.pack("<cddddd", tag, used, rem, last, n, p)


FOREIGN = {
    "a text": "hello",
    "nothing": "",
    "32 random bytes": bytes(range(100, 132)),
    "a number of 40 digits": "1234567890" * 4,
    "a list": ["a", "b"],
    "a hash": {"a": "b"},
    "a set": {"a"},
    "a sorted set": (1, "a"),
    "a sorted set like ours, with half of it": (-5, "t"),
    "a list of our length": [b"l" + bytes(24), b"x" * 25],
    "a list of our length that is no number": [struct.pack("<cddd", b"l", float("nan"), 1, 1)],
    "a bucket of not a number": bucket_value(used=float("nan")),
    "a bucket of infinity": bucket_value(last=float("inf")),
    "a bucket of less than nothing": bucket_value(used=-1e300),
    "a bucket of parts": bucket_value(used=0.5),
    "a bucket whose remainder is too large": bucket_value(rem=1e6),
    "a bucket of more than a double counts": bucket_value(used=2.0**53),
    "a bucket of 10^300": bucket_value(used=1e300),
    "a bucket that was used before there was time": bucket_value(last=-1e300),
    "a bucket with half a remainder": bucket_value(rem=0.5),
    "a bucket without a period": bucket_value(p=0.0),
    "a window that ends before it begins": struct.pack("<cdddd", b"f", 0, 2e15, 1e15, 1),
    "a sliding window of no length": struct.pack("<cdddd", b"s", 0, 0, 1, 1),
    "a stream-like text of our length": "x" * 41,
    "another text of our length": "x" * 33,
}


class Values(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = Store(unix=True).__enter__()
        cls.addClassCleanup(cls.store.__exit__, None, None, None)
        cls.letters = list(KINDS)
        cls.sizes = [(letter, size) for letter, size in KINDS.items()]

    def setUp(self):
        self.store.command("FLUSHALL")

    def take(self, driver, limit, key, cost=1, now=0):
        return driver.decide("a" if self.letters[limit] == "c" else "t", limit, key, cost, now)

    def test_B35_what_is_none_of_ours_is_taken_for_absent_told_and_overwritten(self):
        with Driver(self.store, self.sizes) as driver:
            for limit, letter in enumerate(self.letters):
                for (why, value), lives in itertools.product(FOREIGN.items(), (None, 100_000)):
                    with self.subTest(letter=letter, value=why, lives=lives):
                        self.store.command("FLUSHALL")
                        self.take(driver, limit, "other", 2)
                        plant(self.store, "k", value)
                        if lives:
                            self.store.command("PEXPIRE", "k", lives)
                        answer = self.take(driver, limit, "k")
                        self.assertEqual((answer["outcome"], answer["remaining"], answer["damaged"], answer["charged"]),
                                         (0, 4, 1, 1))
                        answer = self.take(driver, limit, "k")
                        self.assertEqual((answer["outcome"], answer["remaining"], answer["damaged"]), (0, 3, 0))
                        self.assertEqual(driver.decide("p", limit, "other", 0)["remaining"], 3)
                        self.assertEqual(self.store.keys_without_expiry(), [])

    def test_B35_a_look_at_it_removes_it(self):
        with Driver(self.store, self.sizes) as driver:
            for limit, letter in enumerate(self.letters):
                for why, value in FOREIGN.items():
                    with self.subTest(letter=letter, value=why):
                        plant(self.store, "k", value)
                        answer = driver.decide("p", limit, "k")
                        self.assertEqual((answer["outcome"], answer["remaining"], answer["damaged"]), (0, 5, 1))
                        self.assertEqual(self.store.command("EXISTS", "k"), 0)

    def test_B35_a_retry_key_of_something_else(self):
        sizes = [("b", Size(5, count=1, period=60 * SECOND, free=SECOND))]
        for why, value in FOREIGN.items():
            with self.subTest(value=why), Driver(self.store, sizes) as driver:
                plant(self.store, "r", value)
                answer = driver.decide("p", 0, "k", retry="r")
                self.assertEqual((answer["outcome"], answer["damaged"]), (0, 1))
                self.assertEqual(self.store.command("EXISTS", "r"), 0)
                plant(self.store, "r", value)
                self.assertEqual(driver.decide("t", 0, "k", retry="r")["charged"], 1)
                self.assertEqual(driver.decide("t", 0, "k", retry="r")["outcome"], 4)
                self.assertEqual(self.store.keys_without_expiry(), [])
                self.store.command("FLUSHALL")

    def test_B31_a_counter_without_expiry_is_repaired_when_first_seen(self):
        verbs = {"a take": "t", "a look": "p"}
        with Driver(self.store, self.sizes) as driver:
            for limit, letter in enumerate(self.letters):
                for why, verb in verbs.items():
                    for cost in (5, 1):  # refused, or passes
                        with self.subTest(letter=letter, verb=why, cost=cost):
                            self.take(driver, limit, "k", 4)
                            self.store.command("PERSIST", "k")
                            answer = self.take(driver, limit, "k", cost) if verb == "t" else driver.decide("p", limit, "k", cost)
                            self.assertEqual((answer["outcome"], answer["damaged"]), (2 if cost == 5 else 0, 0))
                            self.assertEqual(self.store.keys_without_expiry(), [])
                            self.assertGreaterEqual(self.store.command("PTTL", "k"), answer["reset"] // 1000)
                            self.store.command("FLUSHALL")

    def test_B31_a_planted_count_of_99_lets_go_with_its_window(self):
        now = 1_700_000_000 * SECOND
        begins = now // (60 * SECOND) * 60 * SECOND
        with Driver(self.store, self.sizes) as driver:
            self.store.command("SET", "k", struct.pack("<cdddd", b"f", 0, begins, begins + 60 * SECOND, 99))
            self.assertEqual(driver.decide("t", 1, "k", 1, now)["outcome"], 2)
            self.assertEqual(driver.decide("t", 1, "k", 1, begins + 60 * SECOND)["remaining"], 4)
            self.assertEqual(self.store.keys_without_expiry(), [])

    def test_B33_limits_faster_than_the_shortest_expiry(self):
        sizes = [("b", Size(1, count=3, period=SECOND)), ("b", Size(1000, count=1, period=1000)),
                 ("f", Size(5, period=250_000, align="first")), ("s", Size(5, period=250_000)), ("l", Size(5, period=1000)),
                 ("c", Size(1, period=1000)), ("b", Size(1, count=1000, period=1)), ("b", Size(3, count=0))]
        now = 1_700_000_000 * SECOND
        with Driver(self.store, sizes) as driver:
            for limit, (letter, size) in enumerate(sizes):
                with self.subTest(limit=limit):
                    verb = "a" if letter == "c" else "t"
                    answers = [driver.decide(verb, limit, "k", 1, now)["outcome"] for _ in range(size.capacity + 5)]
                    if letter != "c":  # there the same id holds already
                        self.assertEqual(answers, [0] * size.capacity + [2] * 5)
                    self.assertGreater(self.store.command("PTTL", "k"), 0)
                    self.store.command("FLUSHALL")

    def test_a_key_lives_until_it_is_full_and_not_much_longer(self):
        """By the store's own clock: the expiry is what the answer says, up to a second and a few ms of margin."""
        sizes = [("b", Size(100, count=7, period=999_983)), ("b", Size(4, count=1, period=86_400_000, unit=1000)),
                 ("f", Size(5, period=3600 * SECOND)), ("f", Size(5, period=3600 * SECOND, align="first")),
                 ("s", Size(5, period=100 * SECOND)), ("l", Size(5, period=100 * SECOND)), ("c", Size(5, period=100 * SECOND)),
                 ("b", Size(5, count=0))]
        with Driver(self.store, sizes) as driver:
            for limit, (letter, size) in enumerate(sizes):
                for cost in (1, size.capacity - 2, 1, 9):
                    with self.subTest(limit=limit, cost=cost):
                        answer = driver.decide("a" if letter == "c" else "t", limit, "k", cost)
                        lives = self.store.command("PTTL", "k")
                        if size.count == 0 and letter == "b":
                            self.assertEqual(answer["reset"], -1)
                            self.assertGreater(lives, 9 * 365 * 86_400_000)
                        else:
                            full = answer["reset"] * size.unit // 1000
                            self.assertTrue(full <= lives + 3000 and lives <= full + 1002, (answer, lives))
                            self.assertGreaterEqual(lives + 3000, full + 1000)
                self.store.command("FLUSHALL")

    def test_an_undo_is_done_once(self):
        now = 1_700_000_000 * SECOND
        with Driver(self.store, self.sizes) as driver:
            for limit in range(4):
                with self.subTest(letter=self.letters[limit]):
                    self.store.command("FLUSHALL")
                    driver.decide("t", limit, "k", 2, now)
                    driver.decide("t", limit, "k", 2, now + 1)
                    self.assertEqual(driver.ask(f"U {now + 1}"), "1")
                    self.assertEqual(driver.ask(f"U {now + 1}"), "1")
                    self.assertEqual(driver.decide("p", limit, "k", 0, now + 1)["remaining"], 3)
                    self.assertEqual(self.store.keys_without_expiry(), [])

    def test_a_settlement_keeps_the_rate_that_a_value_has(self):
        """Reserved under one rate, changed to another, settled under the first: the value is of the second."""
        sizes = [("b", Size(10, count=1, period=SECOND)), ("b", Size(10, count=7, period=3 * SECOND))]
        now = 1_700_000_000 * SECOND
        item = Item(0, "k", 4, estimate=True)
        with Driver(self.store, sizes) as driver:
            driver.ask(f"D r {now} {60 * SECOND} {PERMIT} kept 0 1 {item}")
            driver.decide("t", 1, "k", 1, now)
            self.assertEqual(driver.ask(f"S {now} {PERMIT} kept 1 1 {item}"), "1 0 0 3 0 8 0")
            used, rem, last, n, p = struct.unpack("<xddddd", self.store.command("GET", "k"))
            self.assertEqual((used, rem, last, n, p), (2, 0, now, 7, 3 * SECOND))

    def test_a_change_begins_with_the_first_call_also_where_that_is_refused(self):
        """Which would else come later with each refusal: what was raised would stay shut, what was lowered drain at the old rate."""
        slow, fast = 8640 * SECOND, 6 * SECOND
        now = 1_700_000_000 * SECOND
        kinds = {"b": lambda period: Size(10, count=1, period=period), "f": lambda period: Size(10, period=10 * period),
                 "s": lambda period: Size(10, period=10 * period)}
        for letter, size in kinds.items():
            for before, after in ((slow, fast), (fast, slow)):
                with self.subTest(letter=letter, before=before), Driver(self.store, [(letter, size(before)), (letter, size(after))]) as driver:
                    self.store.command("FLUSHALL")
                    driver.decide("t", 0, "k", 10, now)
                    refused = driver.decide("t", 1, "k", 1, now)
                    self.assertEqual(refused["outcome"], 2)
                    opens = now + refused["retry"]
                    for at in range(now, opens, max(1, (opens - now) // 50)):
                        answer = driver.decide("t", 1, "k", 1, at)
                        self.assertEqual((answer["outcome"], at + answer["retry"]), (2, opens))
                    self.assertEqual(driver.decide("t", 1, "k", 1, opens - 1)["outcome"], 2)
                    self.assertEqual(driver.decide("t", 1, "k", 1, opens)["outcome"], 0)

    def test_a_change_that_no_double_holds_forgives_nothing(self):
        """Two periods whose product is far above 2^53: what is used may grow by a little, and never shrinks."""
        slow, slower = 899_999_999_999_989, 1_000_000_000_000_037
        sizes = [("b", Size(4, count=1, period=slow)), ("b", Size(4, count=1, period=slower))]
        now = 1_700_000_000 * SECOND
        with Driver(self.store, sizes) as driver:
            driver.decide("t", 0, "k", 3, now)
            later = now + 500_000_000_000_011
            exact = 3 * slower - -(-500_000_000_000_011 * slower // slow)  # ticks until full, rounded down
            reset = int(struct.unpack("<xddddd", self.store.command("GET", "k"))[2]) and driver.decide("t", 1, "k", 1, later)
            self.assertEqual(reset["reset"], -1)  # beyond ten years
            used, rem, _, _, p = struct.unpack("<xddddd", self.store.command("GET", "k"))
            level = int(used) * int(p) - int(rem) - slower  # without the one just taken
            self.assertGreaterEqual(level, exact)
            self.assertLessEqual(level, exact + 4)

    def test_an_acl_of_these_commands_and_our_keys_is_enough(self):
        """And without one of them the answer is an error, never a decision."""
        run = Run(self.sizes, 700)
        items = [Item(i, f"k{i}", 1, estimate=True) for i in range(4)] + [Item(4, "k4", 1)]
        run.decide("r", items[:4], PERMIT, "kept", SECOND)
        run.settle("S", items[:4], PERMIT, "kept", 0)
        run.decide("a", items, PERMIT)
        run.undo()
        run.decide("a", items, PERMIT)
        run.hold("N", items[4:], PERMIT)
        run.hold("E", items[4:], PERMIT)
        run.settle("F", items)
        run.settle("P", items)
        run.reset(items)
        with Store(unix=True) as store:
            store.command("ACL", "SETUSER", "default", "-@all", "+acl", *[f"+{name}" for name in COMMANDS])
            done = subprocess.run([os.path.join(BUILD, "test", "test_script"), "drive", store.socket_path],
                                  input="\n".join(run.lines + ["!", ""]), capture_output=True, text=True, check=True)
            self.assertNotIn("error", done.stdout)
            store.command("ACL", "SETUSER", "default", "-get")
            with Driver(store, self.sizes) as driver:
                for verb, limit in (("t", 0), ("p", 1)):
                    self.assertRegex(str(driver.decide(verb, limit, "k")), "^error .*(NOPERM|can't run)", "not taken for absent")

    def test_a_clock_outside_the_calendar_windows_decides_nothing(self):
        size = Size(5, windows=lambda us: None, align="calendar")
        size.calendar = (0, "UTC")
        with Driver(self.store, [("f", size)]) as driver:
            self.store.command("SET", "k", "hello")
            # has_time makes the store's clock ours, so the windows are always around it: plant the arguments by hand
            blob = struct.pack("<BBddddd", ord("f"), 0, 1, 5, 0, 77, 1) + struct.pack("<dddd", 0, 1, 2, 3)
            driver.decide("t", 0, "other")
            digest = [line for line in [self.script_hash(driver)] if line]
            with self.assertRaisesRegex(Exception, "outside the calendar windows"):
                self.store.command("EVALSHA", digest[0], 1, "k", blob)

    def script_hash(self, driver):
        """Of the decision's script: the one that the store has just been given."""
        path = os.path.join(BUILD, "test", "test_script")
        done = subprocess.run([path, "hash"], capture_output=True, text=True, check=True)
        return done.stdout.strip()


if __name__ == "__main__":
    unittest.main()
