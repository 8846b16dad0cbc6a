# SPDX-License-Identifier: Apache-2.0
"""Two replicas, and between them and the store whatever can go wrong, drawn by chance: the books stay right.

For every policy: what the store's path admits never exceeds the limit, what a fallback admits is marked and within its share,
every answer comes soon after its deadline, and no key is without expiry at any moment.

LABELS: e2e
"""
import random
import sys
import threading
import time
import unittest

from fleet import Fleet, answer_of, body, check, contract, shared, wait_for
from fault_proxy import (CUT_AFTER, CUT_BEFORE, CUT_INSIDE, PASS, STALL_AFTER, STALL_BEFORE, TWICE, FaultProxy, answer, late,
                         random_faults, slow)
from stores import Store

DEADLINE = 0.1
SLACK = 3  # of an answer, on a machine that is busy with other tests
CAPACITY = 60
TENANTS = 4
SECONDS = 4

WEIGHTS = {PASS: 400, late(0.02): 10, late(0.3): 3, slow(0.02): 10, slow(0.3): 2, TWICE: 10, CUT_BEFORE: 4, CUT_AFTER: 4,
           CUT_INSIDE: 4, STALL_BEFORE: 1, STALL_AFTER: 1, answer('LOADING Redis is loading'): 2,
           answer("READONLY You can't write against a read only replica."): 2, answer('BUSY running a script'): 2,
           answer('ERR something else'): 1, answer('NOSCRIPT No matching script.'): 2}

SHAPES = {
    'bucket': ('rate: %d/52w' % CAPACITY, 'burst: %d' % CAPACITY),
    'fixed': ('algorithm: fixed-window', 'rate: %d/52w' % CAPACITY),
    'log': ('algorithm: sliding-log', 'rate: %d/52w' % CAPACITY),
}
# The policy, and what one replica may admit of one key by it in all its outages.
POLICIES = {
    'closed': ('closed', 0),
    'open': ('open', None),
    'bounded': ('{ open: 500ms }', None),
    'local': ('{ local: 1/4 }', CAPACITY // 4),
}


class Watch(threading.Thread):
    """Looks for keys without expiry, as fast as it can."""

    def __init__(self, store):
        super().__init__()
        self.client, self.stop, self.found, self.looked = store.client(), threading.Event(), [], 0

    def run(self):
        while not self.stop.wait(0.002):
            cursor = b'0'
            while True:
                cursor, names = self.client.command('SCAN', cursor, 'MATCH', 'weir:1:*', 'COUNT', 200)
                left = self.client.pipeline([('PTTL', name) for name in names])
                self.found += [name for name, ms in zip(names, left) if ms == -1]
                self.looked += len(names)
                if cursor == b'0':
                    break

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join()
        self.client.close()


class Faults(unittest.TestCase):
    def play(self, shape, seed):
        text = contract(*[('name: %s' % name, 'when: { path: /%s }' % name, *shared(*SHAPES[shape], fails=fails))
                          for name, (fails, _) in POLICIES.items()], deadline='%dms' % (DEADLINE * 1000))
        answers, failures, end = [], [], threading.Event()

        def client(server, draw):
            try:
                while not end.is_set():
                    with server.connect() as connection:
                        for _ in range(20):
                            policy, tenant = draw.choice(list(POLICIES)), f't{draw.randrange(TENANTS)}'
                            asked = time.monotonic()
                            told = answer_of(connection.ask('POST', '/v1/check', body(tenant, attributes={'path': '/' + policy})))
                            answers.append((policy, tenant, server, told, time.monotonic() - asked))
                            time.sleep(0.002)
            except BaseException as error:
                failures.append(error)

        with Store() as store, FaultProxy(store) as proxy, Fleet(text, proxy.url, 2) as fleet, Watch(store) as watch:
            proxy.script = random_faults(seed, WEIGHTS)
            threads = [threading.Thread(target=client, args=(server, random.Random(seed * 100 + i)))
                       for i, server in enumerate(fleet.servers * 3)]
            for thread in threads:
                thread.start()
            time.sleep(SECONDS)
            end.set()
            for thread in threads:
                thread.join()
            proxy.script = lambda command: PASS
            met = proxy.faults()
            # All is well again, and the budgets are what is left of them.
            for server in fleet.servers:
                wait_for(lambda: check(server, 'calm', mode='peek', attributes={'path': '/closed'})['decision'] == 'allow')
            for policy in POLICIES:
                for tenant in (f't{i}' for i in range(TENANTS)):
                    for _ in range(CAPACITY + 1):
                        told = check(fleet[0], tenant, attributes={'path': '/' + policy})
                        answers.append((policy, tenant, fleet[0], told, 0))
                        if told['decision'] == 'deny':
                            break
        self.assertEqual(failures, [])
        self.assertEqual(watch.found, [], 'a key without expiry')
        self.assertGreater(watch.looked, 100)
        self.assertGreater(sum(n for kind, n in met.items() if kind != 'pass'), 50, met)
        self.judge(answers, fleet)

    def judge(self, answers, fleet):
        self.assertLess(max(took for *_, took in answers), DEADLINE + SLACK)
        for policy, (_, share) in POLICIES.items():
            for tenant in (f't{i}' for i in range(TENANTS)):
                mine = [(server, told) for p, t, server, told, _ in answers if (p, t) == (policy, tenant)]
                by_store = sum(told['decision'] == 'allow' and told['policy'] is None for _, told in mine)
                self.assertLessEqual(by_store, CAPACITY, (policy, tenant))
                kinds = {(told['decision'], told['policy']) for _, told in mine}
                if policy == 'closed':
                    self.assertLessEqual(kinds, {('allow', None), ('deny', None), ('refused', 'closed')})
                elif policy == 'open':
                    self.assertLessEqual(kinds, {('allow', None), ('deny', None), ('unmetered', 'open')})
                elif policy == 'bounded':
                    self.assertLessEqual(kinds, {('allow', None), ('deny', None), ('unmetered', 'open'), ('refused', 'open'),
                                                 ('refused', 'closed')})
                else:
                    for replica in fleet.servers:
                        local = sum(server is replica and told['decision'] == 'allow' and told['policy'] == 'local'
                                    for server, told in mine)
                        self.assertLessEqual(local, share, (policy, tenant))
                for _, told in mine:
                    if told['policy'] is not None:
                        self.assertEqual(told['reason'], 'store')
                        self.assertEqual('weir-degraded' in told['fields'], told['decision'] != 'refused', told)

    def test_token_bucket(self):
        self.play('bucket', 1)

    def test_fixed_window(self):
        self.play('fixed', 2)

    def test_sliding_log(self):
        self.play('log', 3)

    def test_permits_and_reservations_come_back(self):
        """What is taken and given back through faults: never more than at-most at once, and none lost for longer than hold."""
        text = contract(shared('algorithm: concurrency', 'at-most: 5', 'hold: 2s'), deadline='%dms' % (DEADLINE * 1000))
        lock, held, most, failures, end = threading.Lock(), [0], [0], [], threading.Event()

        def worker(server):
            try:
                while not end.is_set():
                    told = answer_of(server.ask('POST', '/v1/acquire', body('jobs')))
                    if told['decision'] != 'allow':
                        time.sleep(0.005)
                        continue
                    with lock:
                        held[0] += 1
                        most[0] = max(most[0], held[0])
                    time.sleep(0.01)
                    with lock:
                        held[0] -= 1
                    server.ask('POST', '/v1/release', '{"permit": "%s"}' % told['permit'])
            except BaseException as error:
                failures.append(error)

        with Store() as store, FaultProxy(store) as proxy, Fleet(text, proxy.url, 2) as fleet:
            proxy.script = random_faults(5, WEIGHTS)
            threads = [threading.Thread(target=worker, args=(server,)) for server in fleet.servers * 4]
            for thread in threads:
                thread.start()
            time.sleep(SECONDS)
            end.set()
            for thread in threads:
                thread.join()
            proxy.script = lambda command: PASS
            self.assertEqual(failures, [])
            self.assertLessEqual(most[0], 5)
            self.assertGreater(most[0], 1)
            wait_for(lambda: check(fleet[0], 'jobs', mode='peek').get('remaining') == 5)


if __name__ == '__main__':
    unittest.main()
