# SPDX-License-Identifier: Apache-2.0
"""What leases promise, over whole runs against a real store: P34 the fleet's bound, P36 crashes, P37 and P44 losses of state, a window's
budget; with workers that hoard and then spend everything at once. Time does not step here.

LABELS: slow
"""

import unittest
from fractions import Fraction

from lease_world import SECOND, Item, LeaseRun, leased
from store_models import Size


def most_over(events, rate):
    """The most that any interval admits above rate * its length."""
    level, most, last = Fraction(0), Fraction(0), None
    for at, cost in events:
        level = max(Fraction(0), level - (rate * (at - last) if last is not None else 0)) + cost
        most, last = max(most, level), at
    return most


def admitted(run, key):
    return sorted((at, cost) for at, each, cost in run.spent + run.strict if each == key)


def hoard(test, size, seed, count, losses=0.0, letter="b", crashes=0.01, strict=0.1):
    """Workers fill their hands, time passes, everything is spent at once: again and again, with messages lost and repeated."""
    run = LeaseRun([(letter, size)], seed, workers=4)
    r, key = run.random, "k0"
    lost_at = []
    for _ in range(count):
        worker = r.choice(run.workers)
        dice = r.random()
        if dice < 0.3:
            run.move(back=False)
        elif dice < 0.32:
            run.now += r.choice((size.lease.duration // 2, size.lease.duration, 3 * size.lease.duration))
        elif dice < 0.62:
            hand = worker.hand(key)
            flight = run.speak(worker, 0, key, r.choice((0, 1, size.lease.chunk, size.lease.chunk)), r.choice((0, 0, hand["have"])))
            if r.random() < 0.9:
                run.deliver([flight], heard=r.random() < 0.9)
        elif dice < 0.68 and run.network:
            run.deliver([r.choice(run.network[-30:])], heard=r.random() < 0.5)
        elif dice < 0.68 + strict:
            cost = r.choice((1, 1, 2, max(1, size.capacity // 3), size.capacity))
            if run.decide("t", [Item(0, key, cost)], "0" * 32)[0][0] == 0:
                run.strict.append((run.now, key, cost))
        elif dice < 0.9:
            run.spend(worker, key, 1)
        elif dice < 0.9 + crashes:
            run.workers[run.workers.index(worker)] = run.start()
        elif dice < 0.9 + crashes + losses:
            run.lose_everything([(0, key)])
            lost_at.append(run.now)
        elif dice > 0.97:
            for each in run.workers:  # everything at once
                while run.spend(each, key, 1):
                    pass
    run.holders(key)
    run.check(test)
    return run, lost_at


class Bounds(unittest.TestCase):
    SIZES = {
        "100/s, burst 80": leased(Size(80, count=1, period=10_000), 30, 10),
        "the whole burst may be out": leased(Size(20, count=1, period=200_000), 20, 20, 500_000),
        "slow": leased(Size(10, count=1, period=SECOND), 5, 3),
        "by the ms": leased(Size(60, count=7, period=11, unit=1000), 60, 60, 500_000),
        "odd": leased(Size(50, count=3, period=70_001), 40, 25, 200_000),
    }

    def rate(self, size):
        return Fraction(size.count, size.period * size.unit)

    def test_P34_P36_the_fleet_admits_at_most_burst_and_rate(self):
        for i, (why, size) in enumerate(self.SIZES.items()):
            with self.subTest(why):
                run, _ = hoard(self, size, 1000 + i, 12_000, crashes=0.03)
                self.assertLessEqual(most_over(admitted(run, "k0"), self.rate(size)), size.capacity)
                self.assertGreater(len(run.spent), 200)

    def test_P37_P44_losses_of_state_add_nothing_where_it_starts_empty(self):
        for i, (why, size) in enumerate(self.SIZES.items()):
            empty = leased(Size(size.capacity, count=size.count, period=size.period, unit=size.unit, empty=True), size.lease.most,
                           size.lease.chunk, size.lease.duration)
            with self.subTest(why):
                run, lost_at = hoard(self, empty, 1100 + i, 12_000, losses=0.005)
                self.assertGreater(len(lost_at), 10)
                events = admitted(run, "k0")
                self.assertLessEqual(most_over(events, self.rate(size)), size.capacity)
                # P44: what the new incarnation gave away, by strict decisions, is what came back since all old portions are over
                pause = empty.lease.duration + empty.lease.grace
                for at in lost_at:
                    for when, _, cost in run.strict:
                        if at < when < at + pause:
                            self.fail(f"{cost} admitted {when - at} us after the loss")

    def test_the_same_losses_add_up_where_it_starts_full(self):
        """So the checks above can fail."""
        size = self.SIZES["100/s, burst 80"]
        run, _ = hoard(self, size, 1200, 12_000, losses=0.005)
        self.assertGreater(most_over(admitted(run, "k0"), self.rate(size)), size.capacity)

    def test_P36_a_crash_wastes_one_chunk_once(self):
        size = leased(Size(40, count=1, period=100_000), 20, 8)
        run = LeaseRun([("b", size)], 1300)
        dead, alive = run.workers[:2]
        run.exchange(dead, 0, "k0", 8)
        run.exchange(alive, 0, "k0", 8)
        self.assertEqual(run.world.models["k0"].holders.out, 16)
        run.now += size.lease.duration + size.lease.grace
        run.exchange(alive, 0, "k0", 0)  # its record was over as well: what it held is lost too
        holders = run.world.models["k0"].holders
        self.assertEqual((holders.lost, holders.out), (16, 0))
        run.now += 16 * 100_000
        self.assertEqual(run.decide("t", [Item(0, "k0", 40)], "0" * 32)[0][0], 0)  # and all of it comes back
        run.check(self)

    def test_P36_what_a_crash_held_comes_back_where_only_strict_decisions_go_on(self):
        size = leased(Size(40, count=1, period=100_000), 20, 8)
        run = LeaseRun([("b", size)], 1301)
        run.exchange(run.workers[0], 0, "k0", 8)
        over = run.now + size.lease.duration + size.lease.grace
        while run.now < over + 8 * 100_000:
            run.now += 50_000
            self.assertEqual(run.decide("t", [Item(0, "k0", 40)], "0" * 32)[0][0], 2 if run.now < over + 8 * 100_000 else 0)
        run.check(self)

    def test_a_windows_budget_is_never_exceeded(self):
        for i, size in enumerate((leased(Size(100, period=10 * SECOND), 50, 20),
                                  leased(Size(30, period=2 * SECOND, empty=True), 30, 30, 5 * SECOND))):
            with self.subTest(i):
                run, lost_at = hoard(self, size, 1400 + i, 12_000, letter="f", losses=0.003 if size.empty else 0)
                windows = {}
                for at, cost in admitted(run, "k0"):
                    windows[at // size.length] = windows.get(at // size.length, 0) + cost
                self.assertLessEqual(max(windows.values()), size.capacity)
                self.assertGreater(max(windows.values()), size.capacity * 3 // 4)

    def test_from_idle_one_worker_has_the_whole_burst(self):
        """In portions, and near exhaustion by strict decisions."""
        size = leased(Size(80, count=1, period=SECOND), 30, 10)
        run = LeaseRun([("b", size)], 1500)
        worker, passed = run.workers[0], 0
        for _ in range(200):
            if not run.spend(worker, "k0", 1):
                if run.exchange(worker, 0, "k0", 10)[4] == 0:
                    break
                continue
            passed += 1
        while run.decide("t", [Item(0, "k0", 1)], "0" * 32)[0][0] == 0:
            passed += 1
        self.assertEqual(passed, 80)
        run.check(self)


if __name__ == "__main__":
    unittest.main()
