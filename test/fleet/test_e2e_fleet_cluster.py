# SPDX-License-Identifier: Apache-2.0
"""A Cluster whose slots move while it decides, and whose nodes die.

LABELS: e2e
"""
import threading
import time
import unittest

from fleet import Fleet, check, contract, decisions, shared, storm, wait_for
from stores import Cluster, slot_of

TENANTS = 12
CAPACITY = 40


def slot_of_tenant(name):
    return slot_of('{tenant=%s}' % name)


class Moves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(node_timeout=1000)
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        for node in self.cluster.nodes:
            node.command('FLUSHALL')

    def test_slots_that_move_under_load_lose_and_repeat_nothing(self):
        """Two limits with one hash tag, so a script has two keys: where these are apart it is TRYAGAIN, not a count."""
        names = [f't{i}' for i in range(TENANTS)]
        text = contract(('name: wide', *shared('rate: %d/52w' % CAPACITY, 'burst: %d' % CAPACITY)),
                        ('name: day', *shared('algorithm: fixed-window', 'rate: 1000/52w')))
        end, moved, failure = threading.Event(), [], []

        def move():
            try:
                while not end.is_set():
                    for name in names:
                        slot = slot_of_tenant(name)
                        owner = self.cluster.owner(slot)
                        migration = self.cluster.migration(slot, (owner + 1) % 3)
                        migration.begin()
                        time.sleep(0.02)
                        while migration.keys(1):
                            time.sleep(0.02)
                        migration.end()
                        moved.append(slot)
            except BaseException as error:
                failure.append(error)

        with Fleet(text, self.cluster.url, 3) as fleet:
            mover = threading.Thread(target=move)
            mover.start()
            try:
                answers = []
                # Who is refused because its slot is on the move asks again: refused is not charged, here as elsewhere.
                for _ in range(12):
                    answers += storm(fleet.servers, 10 * TENANTS, tenant=lambda n: names[n % TENANTS])
            finally:
                end.set()
                mover.join()
            self.assertEqual(failure, [])
            self.assertGreater(len(moved), 10)
            for name in names:
                while True:  # what the moves kept anybody from taking
                    answer = check(fleet[0], name)
                    answers.append(dict(answer, tenant=name))
                    if answer['decision'] == 'deny':
                        break
                counted = decisions(a for a in answers if a['tenant'] == name)
                self.assertEqual(counted['allow'], CAPACITY, (name, counted))
            self.assertEqual(set(decisions(answers)) - {'allow', 'deny', 'refused'}, set())
            for node in self.cluster.nodes:
                self.assertEqual(node.keys_without_expiry(), [])

    def test_limits_in_different_slots_are_charged_together_or_not_at_all(self):
        text = contract(('name: each', *shared('rate: 10/52w', 'burst: 10')),
                        ('name: everybody', 'when: { path: /all }',
                         *shared('algorithm: fixed-window', 'rate: 25/52w', key='[]')),
                        ('name: place', *shared('algorithm: sliding-log', 'rate: 12/52w', key='[region]')))
        with Fleet(text, self.cluster.url, 2) as fleet:
            answers = []
            for i in range(8):
                answers += storm(fleet.servers, 15, tenant=f'x{i}', attributes={'region': f'r{i % 3}', 'path': '/all'})
            allowed = decisions(answers)['allow']
            self.assertLessEqual(allowed, 25)
            self.assertGreater(allowed, 15, 'a charge that will be undone may refuse others for a moment')
        # Asked of a replica that knows of no refusals: what a charge that was undone refused for a moment is over.
        with Fleet(text, self.cluster.url, 1) as fresh:
            for limit, key, name in (('each', 'tenant', 'x%d'), ('place', 'region', 'r%d')):
                used = 0
                for i in range(8):
                    attributes = {'tenant': 'nobody', 'region': 'nowhere', key: name % i}
                    answer = check(fresh[0], mode='peek', attributes=attributes)
                    entry, = [e for e in answer['limits'] if e['limit'] == limit]
                    used += entry['capacity'] - entry['remaining']
                self.assertEqual(used, allowed, f'{limit}: what another one refused is not charged')

    def test_permits_are_counted_across_slots(self):
        text = contract(('name: jobs', *shared('algorithm: concurrency', 'at-most: 5', 'hold: 60s')),
                        ('name: day', *shared('algorithm: fixed-window', 'rate: 100/52w', key='[]')))
        with Fleet(text, self.cluster.url, 2) as fleet:
            held = [a for a in storm(fleet.servers, 20, path='/v1/acquire', tenant='p') if a['decision'] == 'allow']
            self.assertEqual(len(held), 5)
            for i, answer in enumerate(held):
                self.assertEqual(fleet[i % 2].ask('POST', '/v1/release', '{"permit": "%s"}' % answer['permit']).status, 200)
            self.assertEqual(decisions(storm(fleet.servers, 20, path='/v1/acquire', tenant='p'))['allow'], 5)


class Down(unittest.TestCase):
    def test_CLUSTERDOWN_is_a_store_that_failed_not_a_denial(self):
        with Cluster(node_timeout=500) as cluster:
            text = contract(shared('rate: 10/52w', 'burst: 10'), deadline='1s')
            name = next(f'n{i}' for i in range(1000) if cluster.owner(slot_of_tenant(f'n{i}')) == 0)
            with Fleet(text, cluster.url, 1) as fleet:
                self.assertEqual(check(fleet[0], name)['decision'], 'allow')
                cluster.nodes[2].kill()
                wait_for(lambda: b'cluster_state:fail' in cluster.nodes[0].command('CLUSTER', 'INFO'))
                answer = check(fleet[0], name)
                self.assertEqual((answer['decision'], answer['policy'], answer['http']), ('refused', 'closed', 503))
                cluster.nodes[2].start()
                wait_for(lambda: check(fleet[0], name, mode='peek')['decision'] == 'allow')
                self.assertEqual(check(fleet[0], name)['remaining'], 8, 'one before, one now')


if __name__ == '__main__':
    unittest.main()
