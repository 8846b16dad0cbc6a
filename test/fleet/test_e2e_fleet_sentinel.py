# SPDX-License-Identifier: Apache-2.0
"""A master that is killed under load: the fleet finds the next one, and what was counted twice stays within the bound.

LABELS: e2e
"""
import threading
import time
import unittest

from fleet import Fleet, contract, check, decisions, shared, storm, wait_for
from stores import Sentinels

CAPACITY = 300
TENANTS = 8


class Failover(unittest.TestCase):
    def test_P38_kill_9_of_the_master_under_load(self):
        """Admitted at most B + min(B + r x D, what was granted in D): D is what the replica had not seen yet."""
        text = contract(shared('rate: %d/52w' % CAPACITY, 'burst: %d' % CAPACITY), deadline='200ms')
        with Sentinels(down_after_ms=700) as group, Fleet(text, group.url, 2) as fleet:
            stop, answers, threads = threading.Event(), [], []
            names = [f't{i}' for i in range(TENANTS)]

            def client(server, first):
                number = first
                with server.connect() as connection:
                    while not stop.is_set():
                        name = names[number % TENANTS]
                        asked = time.monotonic()
                        answer = connection.ask('POST', '/v1/check', '{"attributes":{"tenant":"%s"}}' % name).json
                        answers.append((time.monotonic(), asked, name, answer))
                        number += 1
                        time.sleep(0.005)

            for server in fleet.servers:
                threads += [threading.Thread(target=client, args=(server, i * 3)) for i in range(2)]
            for thread in threads:
                thread.start()
            try:
                time.sleep(1)
                killed = time.monotonic()
                group.master.kill()
                group.wait_for_master(group.replica)
                wait_for(lambda: answers[-1][3]['policy'] is None)
                back = time.monotonic()
                wait_for(lambda: all(any(n == name and t > back and a['decision'] == 'deny' for t, _, n, a in answers[-400:])
                                     for name in names))
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            for name in names:
                allowed = [(t, asked) for t, asked, n, a in answers if n == name and a['decision'] == 'allow']
                lost = sum(killed - 1 <= t <= killed + 0.2 for t, _ in allowed)
                self.assertGreaterEqual(len(allowed), CAPACITY - 20, 'those with no answer may have been counted')
                self.assertLessEqual(len(allowed), CAPACITY + min(CAPACITY, lost), name)
            self.assertLess(max(t - asked for t, asked, _, _ in answers), 3, 'nobody waits for the failover')
            away = [a for t, asked, _, a in answers if killed + 0.5 < asked < killed + 0.7]
            self.assertEqual({(a['decision'], a['policy'], a['reason']) for a in away}, {('refused', 'closed', 'store')})
            # The old master comes back as a replica: nobody decides there.
            group.master.start()
            wait_for(lambda: group.master.info('replication')['role'] == 'slave')
            self.assertEqual(decisions(storm(fleet.servers, 20, tenant='after', clients=2)), {'allow': 40})
            self.assertEqual(group.replica.keys_without_expiry(), [])

    def test_a_switch_by_hand_loses_nothing(self):
        text = contract(shared('rate: %d/52w' % CAPACITY, 'burst: %d' % CAPACITY), deadline='200ms')
        with Sentinels(program='valkey-server') as group, Fleet(text, group.url, 2) as fleet:
            self.assertEqual(decisions(storm(fleet.servers, 30, clients=2)), {'allow': 60})
            wait_for(lambda: group.replica.info('replication')['slave_repl_offset'] ==
                     group.master.info('replication')['master_repl_offset'])
            group.sentinels[0].command('SENTINEL', 'FAILOVER', group.name)
            group.wait_for_master(group.replica)
            wait_for(lambda: all(check(s, mode='peek')['policy'] is None for s in fleet.servers))
            self.assertEqual(decisions(storm(fleet.servers, 150, clients=4))['allow'], CAPACITY - 60)


if __name__ == '__main__':
    unittest.main()
