# SPDX-License-Identifier: Apache-2.0
"""Clocks that are wrong: replicas five seconds before and behind, and a store whose clock is stepped by an hour.

LABELS: e2e
"""
import tempfile
import time
import unittest

from fleet import Fleet, check, contract, decisions, shared, storm, wait_for
from stores import ShiftedClock, Store

HOUR = 3600


class Replicas(unittest.TestCase):
    def test_replicas_that_are_five_seconds_apart_from_the_truth_share_one_window(self):
        """Windows and buckets are the store's: no replica sees the next window before the others."""
        limits = [('window', ('algorithm: fixed-window', 'rate: 50/52w')),
                  ('minute', ('algorithm: fixed-window', 'rate: 40/1h', 'align: first-request')),
                  ('bucket', ('rate: 40/1h', 'burst: 40')),
                  ('sliding', ('algorithm: sliding-window', 'rate: 30/52w')),
                  ('log', ('algorithm: sliding-log', 'rate: 30/1h'))]
        admitted = {'window': 50, 'minute': 40, 'bucket': 40, 'sliding': 30, 'log': 30}
        text = contract(*[('name: ' + n, 'when: { path: /%s }' % n, *shared(*fields)) for n, fields in limits])
        clocks = []
        for offset in (5, -5):
            folder = self.enterContext(tempfile.TemporaryDirectory())
            clocks.append(ShiftedClock(folder, offset))
        with Store() as store, Fleet(text, store.url, 2, env=[clock.environment for clock in clocks]) as fleet:
            for name, expected in admitted.items():
                with self.subTest(limit=name):
                    answers = storm(fleet.servers, 40, attributes={'path': '/' + name})
                    self.assertEqual(decisions(answers), {'allow': expected, 'deny': 80 - expected})
            # A refusal's time is a length, so both replicas name nearly the same although their clocks are ten apart.
            waits = [check(server, attributes={'path': '/minute'})['retry_after'] for server in fleet.servers]
            self.assertLess(abs(waits[0] - waits[1]), 5)
            self.assertLess(max(waits), HOUR + 1)
            clocks[0].offset_set(-4000)  # and stepped under way
            self.assertEqual(decisions(storm(fleet.servers, 10, attributes={'path': '/bucket'})), {'deny': 20})


class StoreClock(unittest.TestCase):
    def setUp(self):
        self.store = self.enterContext(Store(clock=0))

    def take(self, fleet, path, n):
        return decisions(check(fleet[i % 2], 'k', attributes={'path': path}) for i in range(n))

    def test_a_step_forward_admits_no_more_than_the_time_it_pretends(self):
        text = contract(('name: slow', 'when: { path: /slow }', *shared('rate: 3/1h', 'burst: 10')),
                        ('name: long', 'when: { path: /long }', *shared('algorithm: fixed-window', 'rate: 10/52w')))
        with Fleet(text, self.store.url, 2) as fleet:
            for path in ('/slow', '/long'):
                self.assertEqual(self.take(fleet, path, 12), {'allow': 10, 'deny': 2})
            self.store.clock_set(HOUR)
            # Keys hold out to the time to full and beyond, also by the stepped clock.
            with Fleet(text, self.store.url, 2) as fresh:  # knows of no refusal
                self.assertEqual(self.take(fresh, '/slow', 12)['allow'], 3, 'min(B, r x an hour)')
                self.assertEqual(self.take(fresh, '/long', 12)['allow'], 0)
            self.assertEqual(self.store.keys_without_expiry(), [])

    def test_a_step_back_freezes_no_bucket(self):
        """2 a second: drained, an hour back, and two seconds later there must be some again; the hour is not credited."""
        text = contract(('name: bucket', 'when: { path: /bucket }', *shared('rate: 2/1s', 'burst: 6')),
                        ('name: log', 'when: { path: /log }', *shared('algorithm: sliding-log', 'rate: 4/2s')),
                        ('name: window', 'when: { path: /window }', *shared('algorithm: fixed-window', 'rate: 4/2s')),
                        ('name: sliding', 'when: { path: /sliding }', *shared('algorithm: sliding-window', 'rate: 4/2s')),
                        ('name: first', 'when: { path: /first }', *shared('algorithm: fixed-window', 'rate: 4/2s',
                                                                          'align: first-request')))
        paths = ('/bucket', '/log', '/window', '/sliding', '/first')
        with Fleet(text, self.store.url, 2) as fleet:
            for path in paths:
                self.take(fleet, path, 20)
            for step in (-HOUR, HOUR, 0):
                with self.subTest(step=step):
                    self.store.clock_set(step)
                    for path in paths:
                        self.take(fleet, path, 1)
                    began = time.monotonic()
                    waiting = set(paths)
                    while waiting and time.monotonic() < began + 10:
                        time.sleep(0.2)
                        waiting -= {p for p in waiting if self.take(fleet, p, 1)['allow']}
                    self.assertEqual(waiting, set(), 'refused for as long as the clock was stepped back')
                    self.assertEqual(self.store.keys_without_expiry(), [])

    def test_steps_to_and_fro_mint_nothing(self):
        """What a forward step credits is worth at most the hour it pretends, each time; a step back takes nothing off."""
        text = contract(('name: slow', *shared('rate: 1/1h', 'burst: 10')))
        with Fleet(text, self.store.url, 2) as fleet:
            allowed = decisions(storm(fleet.servers, 10))['allow']
            self.assertEqual(allowed, 10)
            forward = 0
            for step in (-HOUR, 0, -HOUR, 0, HOUR, 0):
                before = getattr(self, 'shift', 0)
                self.store.clock_set(step)
                self.shift = step
                forward += step > before
                with Fleet(text, self.store.url, 1) as fresh:
                    allowed += decisions(check(fresh[0]) for _ in range(12))['allow']
            self.assertLessEqual(allowed, 10 + forward)

    def test_an_idle_hour_is_not_refused(self):
        text = contract(shared('rate: 100/1h', 'burst: 10'))
        with Fleet(text, self.store.url, 2) as fleet:
            self.assertEqual(decisions(storm(fleet.servers, 10))['allow'], 10)
            self.store.clock_set(HOUR)
            with Fleet(text, self.store.url, 2) as fresh:
                self.assertEqual(decisions(storm(fresh.servers, 10))['allow'], 10)


if __name__ == '__main__':
    unittest.main()
