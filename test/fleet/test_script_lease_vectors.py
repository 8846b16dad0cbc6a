# SPDX-License-Identifier: Apache-2.0
"""Leases by hand: the vector of algorithms 8.1, the fair split (P45), what a repeated message is told, witnesses, strict decisions of a
key that is leased, a limit that is leased no more, and what stands in the store."""

import itertools
import os
import random
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
from lease_model import share  # noqa: E402
from lease_world import leased  # noqa: E402
from script_world import SECOND, Item, limit_line  # noqa: E402
from store_models import Size  # noqa: E402
from stores import Store  # noqa: E402
from test_script_values import Driver, plant  # noqa: E402

NOW = 1_700_000_000 * SECOND
NAMES = "stale repeated damaged lost granted left ttl remaining retry ends version used at".split()


class Leaser(Driver):
    """`test_script drive` with limits that are leased."""

    def __init__(self, store, sizes):
        super().__init__(store, [])
        for i, (letter, size) in enumerate(sizes):
            lease = getattr(size, "lease", None)
            self.process.stdin.write(limit_line(i, letter, size) +
                                     (f" {lease.most} {lease.chunk} {lease.duration}\n" if lease else "\n"))
        self.seqs = {}

    def lease(self, run, want, used=0, give=0, seq=None, now=NOW, key="k", limit=0, seen=(0, 0, 0), began=1):
        if seq is None:
            seq = self.seqs[run] = self.seqs.get(run, 0) + 1
        reply = self.ask(f"K {now} {run} label-{run} {began} 1 {limit} {key} {seq} {used} {give} {want} " + " ".join(map(str, seen)))
        if reply.startswith("error"):
            return reply
        return dict(zip(NAMES, map(int, reply.split())))

    def holders(self, key="k"):
        parts = [part.split() for part in self.ask(f"H {key}").split(" ; ")]
        names = "out granted returned spent lost count".split()
        return dict(zip(names, map(int, parts[0]))), {int(run): (label, int(left), int(wanted), int(after))
                                                      for run, label, left, wanted, after in parts[1:]}


class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = Store(unix=True).__enter__()
        cls.addClassCleanup(cls.store.__exit__, None, None, None)

    def setUp(self):
        self.store.command("FLUSHALL")

    def leaser(self, *sizes):
        leaser = Leaser(self.store, [(("f" if size.count == 0 and size.period > 1 else "b"), size) for size in sizes])
        self.addCleanup(leaser.__exit__)
        return leaser

    def test_the_vector_of_the_reference(self):
        """100 tokens/s, B=80, q_max=10, O=30."""
        leaser = self.leaser(leased(Size(80, count=1, period=10_000), 30, 10))
        first = leaser.lease(1, 10)
        self.assertEqual((first["granted"], first["left"], first["remaining"], first["repeated"]), (10, 10, 70, 0))
        again = leaser.lease(1, 10, seq=1)
        self.assertEqual((again["granted"], again["left"], again["remaining"], again["repeated"]), (10, 10, 70, 1))
        self.assertEqual(leaser.holders()[0]["out"], 10)
        leaser.lease(1, 10, used=7, give=3)
        sums, rows = leaser.holders()
        self.assertEqual(sums, {"out": 10, "granted": 20, "returned": 3, "spent": 7, "lost": 0, "count": 1})
        self.assertEqual(rows[1][:3], ("label-1", 10, 10))
        self.assertEqual(leaser.lease(1, 10, seq=1)["stale"], 1)
        self.assertEqual(self.store.keys_without_expiry(), [])

    def test_grants_shrink_as_the_pool_empties_and_the_last_go_one_by_one(self):
        leaser = self.leaser(leased(Size(80, count=0), 80, 80))
        granted = [leaser.lease(1, 80)["granted"] for _ in range(12)]
        self.assertEqual(granted, [40, 20, 10, 5, 2, 1, 1, 1, 0, 0, 0, 0])  # halves of what is left, rounded down
        self.assertEqual(leaser.lease(1, 80)["retry"], -1)

    def test_P45_max_min_as_a_table(self):
        rows = (  # capacity, wants, parts
            (120, (1000, 50, 10), (60, 50, 10)),
            (120, (10, 50, 1000), (10, 50, 60)),
            (7, (5, 5, 5), (2, 2, 3)),
            (8, (5, 5, 5), (2, 3, 3)),
            (9, (5, 5, 5), (3, 3, 3)),
            (100, (5, 5, 5), (5, 5, 5)),
            (2, (9, 9, 9, 9), (0, 0, 1, 1)),
            (0, (3, 4), (0, 0)),
            (10, (1, 3, 8), (1, 3, 6)),
        )
        for capacity, wants, parts in rows:
            with self.subTest(capacity=capacity, wants=wants):
                self.assertEqual(tuple(share(dict(enumerate(wants)), capacity).values()), parts)
        turns = {tuple(share({1: 5, 2: 5, 3: 5}, 7, turn).values()) for turn in range(3)}
        self.assertEqual(turns, {(2, 2, 3), (2, 3, 2), (3, 2, 2)}, "the remainder goes round")

    def test_P45_max_min_as_a_property(self):
        r = random.Random(45)
        for _ in range(3000):
            wants = {run: r.choice((r.randrange(4), r.randrange(100), 10**9)) for run in range(r.randrange(1, 9))}
            capacity, turn = r.randrange(200), r.randrange(9)
            parts = share(wants, capacity, turn)
            self.assertEqual(sum(parts.values()), min(capacity, sum(wants.values())), "nothing is kept back, nothing is made")
            for run, part in parts.items():
                self.assertLessEqual(part, wants[run])
                if part < wants[run]:  # who wants more has as much as anybody, but for one that does not divide
                    self.assertGreaterEqual(part + 1, max(parts.values()))

    def test_P45_holdings_become_the_fair_split(self):
        """Everybody says what it wants, and asks until nobody is given anything."""
        for capacity, wants, expected in ((120, (1000, 50, 10), [(10, 50, 60)]), (7, (5, 5, 5), [(2, 2, 3)]), (2, (9, 9, 9, 9), [(0, 0, 1, 1)])):
            for order in itertools.permutations(range(len(wants))):
                with self.subTest(capacity=capacity, order=order):
                    self.store.command("FLUSHALL")
                    leaser = self.leaser(leased(Size(capacity, count=0), capacity, capacity))
                    left = dict.fromkeys(order, 0)
                    for i in order:
                        leaser.lease(i + 1, wants[i])
                        left[i] = leaser.lease(i + 1, 0, give=capacity)["left"]
                    self.assertEqual(set(left.values()), {0})
                    for i in order:  # what the first are given is theirs, however many come after: so nobody takes more than one
                        left[i] = leaser.lease(i + 1, wants[i], give=0)["left"]
                    for _ in range(300):
                        before = dict(left)
                        for i in order:
                            left[i] = leaser.lease(i + 1, max(0, wants[i] - left[i]))["left"]
                        if left == before:
                            break
                    self.assertEqual(sum(left.values()), min(capacity, sum(wants)))
                    self.assertIn(tuple(sorted(left.values())), expected)

    def test_strict_decisions_beside_leases(self):
        leaser = self.leaser(leased(Size(10, count=1, period=SECOND), 6, 6))
        self.assertEqual(leaser.lease(1, 6)["granted"], 5)
        self.assertEqual(leaser.lease(1, 6)["granted"], 1)
        self.assertEqual(leaser.decide("t", 0, "k", 5, NOW)["outcome"], 2)
        self.assertEqual(leaser.decide("t", 0, "k", 4, NOW)["remaining"], 0)
        # 4 come back, what is out does not
        self.assertEqual(leaser.decide("p", 0, "k", 0, NOW + SECOND)["remaining"], 1)
        self.assertEqual(leaser.decide("p", 0, "k", 0, NOW + 4 * SECOND)["remaining"], 4, "2.041 s back to 8, and on")
        leaser.lease(1, 0, now=NOW + SECOND)
        self.assertEqual(leaser.decide("p", 0, "k", 0, NOW + 3 * SECOND)["remaining"], 3)

    def test_nothing_that_is_given_back_falls_below_what_is_out(self):
        """PROOF's story: taken, refilled, granted, and then undone, cancelled or refunded."""
        for how in "undo", "refund", "cancel":
            with self.subTest(how):
                self.store.command("FLUSHALL")
                leaser = self.leaser(leased(Size(2, count=1, period=SECOND), 2, 2))
                permit, item = "0123456789abcdef0123456789abcdef", Item(0, "k", 1, estimate=True)
                if how == "cancel":
                    leaser.ask(f"D r {NOW} {60 * SECOND} {permit} kept 0 1 {item}")
                else:
                    leaser.decide("t", 0, "k", 1, NOW)
                leaser.lease(1, 2, now=NOW + SECOND)
                self.assertEqual(leaser.lease(1, 2, now=NOW + SECOND)["left"], 2)
                leaser.ask({"undo": f"U {NOW + SECOND}", "refund": f"F {NOW + SECOND} 1 1 {item}",
                            "cancel": f"C {NOW + SECOND} {permit} kept 0 1 {item}"}[how])
                self.assertEqual(leaser.decide("p", 0, "k", 0, NOW + SECOND)["remaining"], 0)

    def test_a_limit_that_is_leased_no_more_forgets_what_is_out(self):
        leaser = self.leaser(leased(Size(10, count=1, period=SECOND), 10, 10), Size(10, count=1, period=SECOND))
        leaser.lease(1, 10)
        leaser.decide("t", 1, "k", 10, NOW)  # refused, and the limit changed by that
        self.assertEqual(len(self.store.command("GET", "k")), 41)
        self.assertEqual(leaser.decide("p", 0, "k", 0, NOW + SECOND)["remaining"], 6)
        back = leaser.lease(1, 0, give=5, now=NOW + SECOND)
        self.assertEqual((back["left"], back["used"]), (0, 4), "a second of it came back, so nothing of it can be given back as well")

    def test_what_decisions_have_refilled_is_over_though_the_clock_steps_back(self):
        """P34: till has passed by TIME, and a decision refills what is out; then TIME steps back and the record lives by its own clock."""
        size = Size(10, count=1, period=SECOND)
        leaser = self.leaser(leased(size, 10, 10))
        first = leaser.lease(1, 5)
        self.assertEqual((first["granted"], first["used"]), (5, 5))
        self.assertEqual(leaser.decide("t", 0, "k", 1, NOW + 4 * SECOND)["remaining"], 5, "it was given up after 2.041 s: 1.959 came back, and one is taken")
        back = leaser.lease(1, 0, give=5, now=NOW - 30 * SECOND)
        self.assertEqual((back["left"], back["used"]), (0, 5), "and is credited to nobody")

    def test_a_witness_of_lost_writes(self):
        """A store that is back at an earlier state of the key is told by who has seen a later one."""
        leaser = self.leaser(leased(Size(50, count=1, period=SECOND), 40, 20))
        leaser.lease(1, 5)
        earlier = self.store.command("DUMP", "k"), self.store.command("DUMP", "k:l:holders")
        seen = leaser.lease(1, 15, used=5)
        self.assertEqual(leaser.decide("t", 0, "k", 20, NOW)["remaining"], 10)
        seen = leaser.lease(1, 0)
        told = (seen["version"], seen["used"], seen["at"])
        self.assertEqual(seen["used"], 40)
        for name, dump in zip(("k", "k:l:holders"), earlier):
            self.store.command("RESTORE", name, 60_000, dump, "REPLACE")
        self.assertEqual(leaser.decide("p", 0, "k", 0, NOW)["remaining"], 45)
        back = leaser.lease(1, 0, now=NOW + 3 * SECOND // 2, seen=told, seq=9)
        self.assertEqual((back["lost"], back["used"], back["version"]), (1, 39, told[0] + 1), "drained for a second and a half")
        self.assertEqual(leaser.lease(1, 0, now=NOW + 2 * SECOND, seen=told, seq=10)["lost"], 0)
        self.store.command("FLUSHALL")
        back = leaser.lease(1, 0, now=NOW + SECOND, seen=told, seq=11)
        self.assertEqual((back["lost"], back["used"]), (0, 0), "whom the store does not know is no witness: the key may have been reset")

    def test_a_portion_ends_with_its_window(self):
        leaser = self.leaser(leased(Size(100, period=10 * SECOND), 50, 20))
        begins = NOW // (10 * SECOND) * 10 * SECOND
        first = leaser.lease(1, 20, now=begins + 9 * SECOND)
        self.assertEqual((first["granted"], first["ttl"], first["ends"]), (20, SECOND, SECOND))
        leaser.lease(2, 20, now=begins + 9 * SECOND)
        second = leaser.lease(1, 20, used=20, now=begins + 10 * SECOND)
        self.assertEqual((second["granted"], second["left"], second["remaining"]), (20, 20, 80), "what is reported now was another window's")
        sums, rows = leaser.holders()
        self.assertEqual(sums, {"out": 20, "granted": 60, "returned": 0, "spent": 0, "lost": 40, "count": 2})
        self.assertEqual(sorted(left for _, left, _, _ in rows.values()), [0, 20])

    def test_an_absent_key_waits_for_the_portions_of_before(self):
        leaser = self.leaser(leased(Size(10, count=1, period=SECOND, empty=True), 5, 5))
        starts = NOW + 2 * SECOND + 41_000  # duration and a fiftieth and a ms
        for now, remaining in ((NOW, 0), (NOW + SECOND, 0), (starts, 0), (starts + SECOND, 1), (starts + 9 * SECOND, 9)):
            with self.subTest(now=now - NOW):
                self.assertEqual(leaser.ask(f"D p {now} 0 - - {NOW} 1 0 k 0 - 0").split()[1], str(remaining))
        refused = leaser.ask(f"D t {NOW} 0 - - {NOW} 1 0 k 1 - 0").split()
        self.assertEqual((refused[0], refused[2]), ("2", str(3 * SECOND + 41_000)))
        leaser.lease(1, 5, now=NOW, began=NOW)
        self.assertEqual(self.store.command("EXISTS", "k"), 0, "nothing is written that looks like a clock that stepped back")
        self.assertEqual(leaser.lease(1, 5, now=starts + SECOND, began=NOW)["granted"], 1)

    def test_B35_values_that_are_none_of_ours(self):
        number = struct.pack
        sums = number("<c13d", b"t", *([5] + [0] * 12))
        record = number("<c7d", b"k", 1, 5, 5, NOW + 9 * SECOND, 5, 1, 2 * SECOND)
        planted = {
            "a text": "hello", "a list": ["a"], "a set": {"a"},
            "a hash of others": {"a": "b", "t": "x"},
            "sums alone, of not a number": {"t": number("<c13d", b"t", *([float("nan")] * 13))},
            "more spent than was granted": {"t": number("<c13d", b"t", *([1, 1, 1, 1] + [0] * 9))},
            "a record without sums": {f"{1:016x}": record},
            "a record of another length": {"t": sums, f"{1:016x}": record[:-1]},
            "a record of somebody else": {"t": sums, f"{1:016x}": "x" * 57},
            "infinity": {"t": sums, f"{1:016x}": number("<c7d", b"k", 1, float("inf"), 5, NOW, 5, 1, 1)},
        }
        leaser = self.leaser(leased(Size(80, count=1, period=10_000), 30, 10))
        for why, value in planted.items():
            with self.subTest(why):
                self.store.command("FLUSHALL")
                plant(self.store, "k:l:holders", value)
                reply = leaser.lease(1, 10, seq=2)
                self.assertEqual((reply["damaged"], reply["granted"], reply["left"]), (1, 10, 10))
                self.assertEqual(leaser.lease(1, 0, seq=3)["damaged"], 0)
                self.assertEqual(leaser.holders()[0], {"out": 10, "granted": 10, "returned": 0, "spent": 0, "lost": 0, "count": 1})
                self.assertEqual(self.store.keys_without_expiry(), [])
        for why, extra in (("more out than used", (11, 1, 0)), ("half a token", (0.5, 1, 0)), ("not a number", (1, float("nan"), 0)),
                           ("till before time", (1, 1, -5)), ("infinity", (1, 1, float("inf")))):
            with self.subTest(why):
                self.store.command("FLUSHALL")
                self.store.command("SET", "k", number("<cdddddddd", b"b", 10, 0, NOW, 1, 10_000, *extra))
                reply = leaser.decide("t", 0, "k", 1, NOW)
                self.assertEqual((reply["damaged"], reply["remaining"]), (1, 79))

    def test_sums_that_records_belie_are_none(self):
        """Found when the records are walked: then all begins afresh, and what is out is lost."""
        leaser = self.leaser(leased(Size(80, count=1, period=10_000), 30, 10))
        leaser.lease(1, 10)
        leaser.lease(2, 10)
        self.store.command("HDEL", "k:l:holders", f"{2:016x}")
        later = NOW + 2 * SECOND + 41_000
        self.assertEqual(leaser.lease(3, 10, now=later)["damaged"], 1)
        self.assertEqual(leaser.holders()[0]["out"], 10)

    def test_both_keys_live_as_long_as_what_is_out_and_not_much_longer(self):
        """By the store's own clock."""
        leaser = self.leaser(leased(Size(80, count=1, period=100_000), 30, 10), leased(Size(80, period=3600 * SECOND), 30, 10))
        for limit, key in enumerate(("a", "b")):
            leaser.lease(1, 10, now=0, key=key, limit=limit)
            holders, value = self.store.command("PTTL", f"{key}:l:holders"), self.store.command("PTTL", key)
            self.assertTrue(2041 < holders <= 3042, holders)
            if limit == 0:
                self.assertTrue(2041 + 1000 < value <= 3041 + 1001, value)  # until it is over, and refilled
                self.assertAlmostEqual(leaser.holders(key)[1][1][3], 2_041_000, delta=2_000_000)
        self.assertEqual(self.store.keys_without_expiry(), [])

    def test_messages_of_one_call_are_each_for_itself(self):
        leaser = self.leaser(*[leased(Size(80, count=1, period=10_000), 30, 10)] * 2)
        parts = " ".join(f"{i % 2} k{i} 1 0 0 {i + 1} 0 0 0" for i in range(16))
        reply = leaser.ask(f"K {NOW} 1 x 1 16 {parts}")
        self.assertEqual([int(part.split()[4]) for part in reply.split(" ; ")], [min(i + 1, 10) for i in range(16)])

    def test_a_key_has_room_for_a_thousand_runs(self):
        leaser = self.leaser(leased(Size(5000, count=1, period=10_000), 5000, 1))
        for run in range(1, 1001):
            self.assertEqual(leaser.lease(run, 1)["granted"], 1)
        late = leaser.lease(1001, 1)
        self.assertEqual((late["granted"], late["left"], leaser.holders()[0]["count"]), (0, 0, 1000))
        later = NOW + 2 * SECOND + 41_000
        self.assertEqual(leaser.lease(1001, 1, seq=2, now=later)["granted"], 1)
        self.assertEqual(leaser.holders()[0], {"out": 1, "granted": 1001, "returned": 0, "spent": 0, "lost": 1000, "count": 1})


if __name__ == "__main__":
    unittest.main()
