# SPDX-License-Identifier: Apache-2.0
"""One budget of a hundred for four processes that hold portions of it: never more than that, and hardly less.

LABELS: e2e
"""
import math
import time
import unittest

from fleet import Fleet, check, contract, decisions, leased, leases, storm
from stores import Store

REPLICAS = 4
BURST = 100
# Of those that were asked for everywhere, so many may lie in a hand whose callers have had enough.
ENOUGH = 95

BUCKET = ('rate: 100/1m', 'burst: 100')
WINDOW = ('algorithm: fixed-window', 'rate: 100/1m')


def clear_of_the_edge(seconds):
    """Not so close to the end of a minute: a window that begins meanwhile has a hundred of its own."""
    left = 60 - time.time() % 60
    if left < seconds:
        time.sleep(left + 0.2)


class Counts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = Store()
        cls.store.start()

    @classmethod
    def tearDownClass(cls):
        cls.store.close()

    def expect_a_hundred(self, answers, began, refills=100 / 60):
        """At most the burst and what came back since `began`, which was before the first of them was asked."""
        most = BURST + math.floor(refills * (time.monotonic() - began))
        counted = decisions(answers)
        self.assertLessEqual(counted['allow'], most)
        self.assertGreaterEqual(counted['allow'], ENOUGH)
        self.assertEqual(set(counted), {'allow', 'deny'}, 'it was asked beyond its end, and nobody was in doubt')

    def expect_books(self, fleet, tenant, limit='limit-0'):
        """What the store says of a key: every token that was granted is somewhere, and none twice."""
        told = leases(fleet[0], self.store.url, limit)[tenant]
        self.assertEqual(told['granted'], told['out'] + told['spent'] + told['returned'] + told['lost'], told)
        self.assertEqual(told['out'], sum(holder['left'] for holder in told['holders']), told)
        return told

    def test_the_self_check(self):
        """Four replicas, 400 requests at once: what was 400, and strictly shared 100, is 95 to 100."""
        rows = [  # the limit, its lease, what comes back, why
            (BUCKET, dict(most=50, chunk=10), 100 / 60, 'portions of a tenth'),
            (BUCKET, dict(most=100, chunk=25, lasts='10s'), 100 / 60, 'all of it may be out: a quarter for each'),
            (BUCKET, dict(most=100, chunk=100), 100 / 60, 'one replica may hold it all'),
            (BUCKET, dict(most=1, chunk=1, lasts='200ms'), 100 / 60, 'next to nothing may be out: nearly strict'),
            (WINDOW, dict(most=50, chunk=10), 0, 'a window of a minute'),
            (WINDOW, dict(most=100, chunk=100), 0, 'a window that may be out as a whole'),
            (('algorithm: fixed-window', 'rate: 100/1h', 'align: first-request'), dict(most=50, chunk=10), 0,
             'a window that begins with the first of them'),
            (('algorithm: fixed-window', 'rate: 100/year', 'align: calendar UTC'), dict(most=50, chunk=10), 0, 'a year'),
            (('algorithm: leaky-bucket', 'rate: 100/1h', 'burst: 100'), dict(most=50, chunk=10), 100 / 3600,
             'the same bucket by its other name'),
        ]
        for i, (fields, lease, refills, why) in enumerate(rows):
            with self.subTest(limit=fields, lease=lease, why=why), \
                    Fleet(contract(leased(*fields, **lease)), self.store.url, REPLICAS) as fleet:
                clear_of_the_edge(10)
                began = time.monotonic()
                answers = storm(fleet.servers, 100, tenant=f'self-{i}')
                self.expect_a_hundred(answers, began, refills)
                self.expect_books(fleet, f'self-{i}')
        self.assertEqual(self.store.keys_without_expiry(), [])

    def test_from_idle_one_replica_alone_is_admitted_the_whole_burst(self):
        sizes = 'cost: { from: size, default: 1, max: 100 }'
        rows = [  # cost of each, clients at once, workers, how many pass, why
            (1, 1, 1, 100, 'one after the other'),
            (1, 16, 2, 100, 'many at once, on two workers'),
            (7, 1, 1, 14, '14 of 7 are 98'),
            (10, 4, 2, 10, 'a whole chunk each'),
            (33, 1, 1, 3, 'more than a chunk: the rest is asked for'),
            (60, 2, 2, 1, 'more than may be out at all'),
            (100, 2, 2, 1, 'the whole burst in one'),
        ]
        for scheme in (('rate: 100/52w', 'burst: 100'), ('algorithm: fixed-window', 'rate: 100/52w')):
            for cost, clients, workers, admitted, why in rows:
                tenant = f'idle-{len(scheme)}-{scheme[0][0]}-{cost}-{clients}'
                with self.subTest(scheme=scheme, cost=cost, clients=clients, why=why), \
                        Fleet(contract(leased(*scheme, sizes, most=50, chunk=10)), self.store.url, 2, workers) as fleet:
                    answers = storm([fleet[0]], max(2 * admitted, 4), clients, tenant=tenant, attributes={'size': str(cost)})
                    self.assertEqual(decisions(answers)['allow'], admitted)
                    told = self.expect_books(fleet, tenant) if admitted > 3 else None
                    # What no request of this cost could have is still to be had, by whoever asks for less.
                    rest = [check(fleet[0], tenant, attributes={'size': '1'}) for _ in range(100 - admitted * cost + 1)]
                    self.assertEqual(decisions(rest), decisions([{'decision': 'allow'}] * (100 - admitted * cost)
                                                                + [{'decision': 'deny'}]), told)

    def test_wherever_the_load_falls(self):
        """Nine requests of ten at one replica, and the tenth at three others, which hold some of it."""
        lease = dict(most=50, chunk=20, lasts='500ms')
        with Fleet(contract(leased(*BUCKET, **lease)), self.store.url, REPLICAS) as fleet:
            began = time.monotonic()
            answers = storm(fleet.servers[1:], 6, clients=1, tenant='skew')
            answers += storm([fleet[0]], 200, clients=10, tenant='skew')
            # Who had enough gives back what it holds, and then there is nothing but to wait for what comes back.
            time.sleep(1.5)
            answers += storm([fleet[0]], 100, clients=4, tenant='skew')
            self.expect_a_hundred(answers, began)
            self.assertEqual(self.expect_books(fleet, 'skew')['lost'], 0, 'all was spent or given back')

    def test_many_keys_have_a_hundred_each(self):
        names = [f'many-{i}' for i in range(12)]
        with Fleet(contract(leased('rate: 100/1h', 'burst: 100', most=60, chunk=15)), self.store.url, REPLICAS) as fleet:
            answers = storm(fleet.servers, 45 * len(names), tenant=lambda number: names[number % len(names)], clients=4)
            for name in names:
                with self.subTest(tenant=name):
                    counted = decisions(a for a in answers if a['tenant'] == name)
                    self.assertLessEqual(counted['allow'], BURST)
                    self.assertGreaterEqual(counted['allow'], ENOUGH)
                    self.expect_books(fleet, name)
            # Most were decided out of the hand: that is what it is for.
            by_hand = fleet.metric('weir_lease_decisions_total')
            self.assertGreater(by_hand, len(names) * BURST / 4)
        self.assertEqual(self.store.keys_without_expiry(), [])

    def test_what_passes_over_time(self):
        """Asked without pause for some seconds: the burst and what comes back, and no more in any part of the time."""
        rate, burst, seconds = 40, 40, 4
        lease = dict(most=20, chunk=8, lasts='400ms')
        with Fleet(contract(leased(f'rate: {rate}/s', f'burst: {burst}', **lease)), self.store.url, REPLICAS) as fleet:
            passed, began = [], time.monotonic()
            while time.monotonic() < began + seconds:
                asked = time.monotonic()
                allowed = decisions(storm(fleet.servers, 4, clients=1, tenant='steady')).get('allow', 0)
                passed.append((asked, time.monotonic(), allowed))
            for i, (first, _, _) in enumerate(passed):
                counted = 0
                for _, last, allowed in passed[i:]:
                    counted += allowed
                    self.assertLessEqual(counted, burst + rate * (last - first), 'within a part of the time')
            total, took = sum(allowed for _, _, allowed in passed), passed[-1][1] - began
            wanted = min(4 * REPLICAS * len(passed), burst + rate * took)
            self.assertGreaterEqual(total, wanted - lease['most'] - rate * (passed[-1][1] - passed[-1][0]) - 1,
                                    'no more than may be stranded is missing')

    def test_two_leased_limits_and_one_that_is_not(self):
        """All or nothing, whatever each of them has in hand."""
        text = contract(('name: wide', *leased('rate: 100/52w', 'burst: 100', most=40, chunk=10)),
                        ('name: day', *leased('algorithm: fixed-window', 'rate: 70/52w', most=30, chunk=10)),
                        ('name: log', 'algorithm: sliding-log', 'rate: 60/52w', 'key: [tenant]', 'scope: fleet',
                         'when-store-fails: closed'))
        with Fleet(text, self.store.url, REPLICAS) as fleet:
            counted = decisions(storm(fleet.servers, 50, tenant='both'))
            self.assertLessEqual(counted['allow'], 60)
            self.assertGreaterEqual(counted['allow'], 55)
            time.sleep(1.5)  # what is in hands is given back
            left = {}
            for entry in check(fleet[0], 'both', mode='peek')['limits']:
                left[entry['limit']] = entry['capacity'] - entry['remaining']
            self.assertEqual(left, {name: counted['allow'] for name in ('wide', 'day', 'log')}, 'charged together')


if __name__ == '__main__':
    unittest.main()
