# SPDX-License-Identifier: Apache-2.0
"""The fault proxy and the stores do what the tests of shared budgets rely on: asked by a client of our own.

LABELS: e2e
"""
import time
import unittest

from fleet import wait_for
from fault_proxy import (CUT_AFTER, CUT_BEFORE, CUT_INSIDE, PASS, STALL_AFTER, STALL_BEFORE, TWICE, FaultProxy, answer, astray,
                         echo, late, one_in, random_faults, slow)
from stores import Client, Cluster, Store, StoreError, slot_of

COUNT = ('EVAL', "return redis.call('INCR', 'n')", 0)


class Faults(unittest.TestCase):
    def test_what_the_store_counts_and_what_the_client_hears(self):
        rows = [  # fault, counted, heard, why
            (PASS, 1, 1, 'nothing is wrong'),
            (CUT_BEFORE, 0, ConnectionError, 'the store never saw it'),
            (CUT_AFTER, 1, ConnectionError, 'it did, and nobody knows'),
            (CUT_INSIDE, 1, ConnectionError, 'half a reply is none'),
            (STALL_BEFORE, 0, TimeoutError, 'the connection stays, and nothing comes'),
            (STALL_AFTER, 1, TimeoutError, 'the same, and it was done'),
            (TWICE, 2, 1, 'once more on another connection, and the first reply is heard'),
            (late(0.1), 1, 1, 'late, and whole'),
            (late(1), 1, TimeoutError, 'later than the client waits'),
            (slow(0.1), 1, 1, 'done late'),
            (echo(0.1), 2, 1, 'once more, when the reply is long there'),
            (astray(0.1), 1, ConnectionError, 'the connection has ended, and it is done all the same'),
            (answer('READONLY no'), 0, StoreError, 'the store never saw it'),
        ]
        with Store() as store, FaultProxy(store) as proxy:
            for fault, counted, heard, why in rows:
                with self.subTest(fault=fault, why=why):
                    store.command('DEL', 'n')
                    proxy.script = lambda command: fault if command.verb == 'EVAL' else PASS
                    with Client(proxy.port, timeout=0.5) as client:
                        if isinstance(heard, int):
                            self.assertEqual(client.command(*COUNT), heard)
                        else:
                            with self.assertRaises(heard):
                                client.command(*COUNT)
                    wait_for(lambda: int(store.command('GET', 'n') or 0) >= counted)
                    self.assertEqual(int(store.command('GET', 'n') or 0), counted)

    def test_a_proxy_that_freezes_goes_and_comes_back(self):
        with Store() as store, FaultProxy(store) as proxy:
            proxy.freeze()
            with Client(proxy.port, timeout=0.2) as client, self.assertRaises(TimeoutError):
                client.command('PING')
            proxy.thaw()
            with Client(proxy.port) as client:
                client.command('PING')
                proxy.down()
                with self.assertRaises(OSError):
                    client.command('PING')
                with self.assertRaises(ConnectionRefusedError):
                    Client(proxy.port)
                proxy.up()
            with Client(proxy.port) as client:
                self.assertEqual(client.command('PING'), b'PONG')

    def test_replies_stay_in_order_and_chance_is_repeatable(self):
        with Store() as store, FaultProxy(store) as proxy:
            seen = []
            for _ in range(2):
                store.command('DEL', 'n')
                proxy.script = random_faults(7, {PASS: 5, late(0.01): 1, answer('BUSY'): 2})
                with Client(proxy.port) as client:
                    seen.append([str(reply) for reply in client.pipeline([COUNT] * 40)])
            self.assertEqual(seen[0], seen[1])
            counted = [int(reply) for reply in seen[0] if reply != 'BUSY']
            self.assertEqual(counted, list(range(1, len(counted) + 1)))
            proxy.script = one_in(4, answer('LOADING'))
            with Client(proxy.port) as client:
                self.assertEqual([isinstance(r, int) for r in client.pipeline([COUNT] * 8)], [True, False, False, False] * 2)


class Stores(unittest.TestCase):
    def test_a_clock_that_is_stepped(self):
        with Store(clock=0) as store:
            def offset():
                seconds, micros = store.command('EVAL', "return redis.call('TIME')", 0)
                return int(seconds) + int(micros) / 1e6 - time.time()
            for step in (0, 3600, -3600, -5.25):
                store.clock_set(step)
                self.assertLess(abs(offset() - step), 1)
            store.command('SET', 'k', 'v', 'PX', 10_000)
            store.clock_set(3600)
            self.assertIsNone(store.command('GET', 'k'), 'its expiries follow')

    def test_a_slot_moves_key_by_key(self):
        with Cluster() as cluster:
            slot = slot_of('{foo}')
            self.assertEqual(cluster.nodes[0].command('CLUSTER', 'KEYSLOT', 'a{foo}b'), slot)
            source = cluster.owner(slot)
            target = (source + 1) % 3
            for i in range(3):
                cluster.nodes[source].command('SET', '{foo}%d' % i, i)
            move = cluster.migration(slot, target)
            move.begin()
            self.assertEqual(move.keys(1), 1)
            with cluster.nodes[source].client() as client:
                replies = client.pipeline([('GET', '{foo}%d' % i) for i in range(3)])
            kinds = [str(reply).split()[0] if isinstance(reply, StoreError) else 'here' for reply in replies]
            self.assertEqual(sorted(kinds), ['ASK', 'here', 'here'])
            while move.keys(1):
                pass
            move.end()
            self.assertEqual(cluster.owner(slot), target)
            wait_for(lambda: len(cluster.nodes[target].keys('{foo}*')) == 3)


if __name__ == '__main__':
    unittest.main()
