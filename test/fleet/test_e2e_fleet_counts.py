# SPDX-License-Identifier: Apache-2.0
"""One budget for four processes: what was 400 is 100, for every algorithm against its own bound.

LABELS: e2e
"""
import unittest

from fleet import Fleet, check, contract, decisions, shared, storm
from stores import Store

REPLICAS = 4
EACH = 100

# What, its fields, what the whole fleet may admit of 400 in a moment, and why that much.
RATES = [
    ('token-bucket', ('rate: 100/1h', 'burst: 100'), 100, 'the burst; one comes back in 36 s'),
    ('leaky-bucket', ('algorithm: leaky-bucket', 'rate: 100/1h', 'burst: 60'), 60, 'the burst; one in 36 s'),
    ('fixed-window', ('algorithm: fixed-window', 'rate: 100/52w'), 100, 'the count, in a window of a year'),
    ('first-request', ('algorithm: fixed-window', 'rate: 100/1h', 'align: first-request'), 100, 'the count'),
    ('calendar', ('algorithm: fixed-window', 'rate: 100/year', 'align: calendar UTC'), 100, 'the count'),
    ('sliding-window', ('algorithm: sliding-window', 'rate: 100/52w'), 100, 'the count, nothing in the window before'),
    ('sliding-log', ('algorithm: sliding-log', 'rate: 100/1h'), 100, 'the count'),
]


class Counts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = Store()
        cls.store.start()

    @classmethod
    def tearDownClass(cls):
        cls.store.close()

    def test_one_limit_of_a_hundred_in_four_processes(self):
        for scope, admitted, why in (('process', 400, 'each process has its own hundred'),
                                     ('fleet', 100, 'they share one')):
            lines = ('key: [tenant]',) if scope == 'process' else ('key: [tenant]', 'scope: fleet',
                                                                   'when-store-fails: closed')
            with self.subTest(scope=scope, why=why), \
                    Fleet(contract(('rate: 100/1h', 'burst: 100', *lines)), self.store.url, REPLICAS) as fleet:
                answers = storm(fleet.servers, EACH + 20)[:]
                counted = decisions(answers)
                self.assertEqual(counted['allow'], admitted)
                self.assertEqual(counted['deny'], REPLICAS * (EACH + 20) - admitted)
        self.assertEqual(self.store.keys_without_expiry(), [])

    def test_every_algorithm_against_its_own_bound(self):
        text = contract(*[('name: ' + name, 'when: { path: "/%s" }' % name, *shared(*fields))
                          for name, fields, _, _ in RATES])
        with Fleet(text, self.store.url, REPLICAS) as fleet:
            for name, _, admitted, why in RATES:
                with self.subTest(algorithm=name, why=why):
                    answers = storm(fleet.servers, EACH, tenant='t-' + name, attributes={'path': '/' + name})
                    self.assertEqual(decisions(answers), {'allow': admitted, 'deny': REPLICAS * EACH - admitted})
                    # Refused or not, every answer tells of the same limit, and `remaining` counts down to zero.
                    left = sorted((a['remaining'] for a in answers if a['decision'] == 'allow'), reverse=True)
                    self.assertEqual(left, list(range(admitted - 1, -1, -1)), 'each unit was taken once')
        self.assertEqual(self.store.keys_without_expiry(), [])

    def test_costs_that_do_not_divide_the_budget(self):
        text = contract(shared('rate: 100/1h', 'burst: 100', 'cost: { from: size, default: 1, max: 100 }'))
        with Fleet(text, self.store.url, REPLICAS) as fleet:
            answers = storm(fleet.servers, 30, tenant='sizes', attributes={'size': '7'})
            self.assertEqual(decisions(answers)['allow'], 14, '14 of 7 are 98')
            self.assertEqual(check(fleet[0], 'sizes', attributes={'size': '3'})['decision'], 'deny')
            self.assertEqual(check(fleet[1], 'sizes', attributes={'size': '2'})['decision'], 'allow', '2 are left')

    def test_permits(self):
        text = contract(shared('algorithm: concurrency', 'at-most: 10', 'hold: 60s'))
        with Fleet(text, self.store.url, REPLICAS) as fleet:
            answers = storm(fleet.servers, 25, path='/v1/acquire', tenant='jobs')
            held = [a for a in answers if a['decision'] == 'allow']
            self.assertEqual(len(held), 10)
            self.assertEqual(len({a['permit'] for a in held}), 10)
            self.assertEqual(len({a['fence'] for a in held}), 10, 'a fence is given once in the whole fleet')
            # Any replica takes a permit back, also of another one.
            for i, answer in enumerate(held[:3]):
                reply = fleet[i % REPLICAS].ask('POST', '/v1/release', '{"permit": "%s"}' % answer['permit'])
                self.assertEqual(reply.status, 200, reply.text)
            again = decisions(storm(fleet.servers, 5, path='/v1/acquire', tenant='jobs'))
            self.assertEqual(again['allow'], 3)

    def test_two_shared_limits_and_one_of_the_process_are_charged_together_or_not_at_all(self):
        text = contract(('name: own', 'rate: 30/1h', 'burst: 30', 'key: [tenant]'),
                        ('name: wide', *shared('rate: 100/1h', 'burst: 100')),
                        ('name: all', 'when: { path: /all }', *shared('algorithm: fixed-window', 'rate: 70/52w', key='[]')))
        with Fleet(text, self.store.url, REPLICAS) as fleet:
            counted = decisions(storm(fleet.servers, EACH, tenant='a', attributes={'path': '/all'}))
            self.assertEqual(counted['allow'], 70, 'the one for everybody')
            # 4 x 30 of their own, of which 70 were kept; what was refused elsewhere was undone.
            looks = [{e['limit']: e for e in check(server, 'a', mode='peek')['limits']} for server in fleet.servers]
            # (What refilled meanwhile is no whole token, but `remaining` rounds down in each process.)
            left = sum(look['own']['remaining'] for look in looks)
            self.assertLessEqual(left, REPLICAS * 30 - 70)
            self.assertGreaterEqual(left, REPLICAS * 30 - 70 - REPLICAS)
            # (Where its own is used up, an answer says nothing of the others.)
            self.assertEqual({look['wide']['remaining'] for look in looks if 'wide' in look} - {30}, set())


if __name__ == '__main__':
    unittest.main()
