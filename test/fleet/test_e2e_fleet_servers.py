# SPDX-License-Identifier: Apache-2.0
"""The servers that people run and the ways they are set up: Valkey, TLS, ACLs, sockets, replicas, full memory.

LABELS: e2e
"""
import os
import re
import subprocess
import tempfile
import time
import unittest

from fleet import Fleet, check, contract, decisions, is_ready, leased, shared, storm, wait_for
from fault_proxy import PASS, FaultProxy
from stores import Cluster, Store

BUILD = os.environ.get('WEIR_BUILD', 'build')
SOURCE = os.environ.get('WEIR_SOURCE', '.')

TEXT = contract(('name: wide', *shared('rate: 40/52w', 'burst: 40')),
                ('name: part', *leased('rate: 1000/52w', 'burst: 1000', most=100, chunk=20)),
                ('name: day', *shared('algorithm: fixed-window', 'rate: 1000/52w', key='[]')))


def documented_user(name):
    """The words behind `user NAME` in docs/fleet.md, with a password in place: what is needed and nothing else."""
    with open(os.path.join(SOURCE, 'docs', 'fleet.md')) as file:
        line, = re.findall(r'^    user %s (.*)$' % name, file.read(), re.M)
    return line.replace('PASSWORD', 'pw').split()


def denied(store):
    """What users were refused, by the store's own log."""
    return [dict(zip(entry[::2], entry[1::2]))[b'object'] for entry in store.command('ACL', 'LOG')]


class Servers(unittest.TestCase):
    def admit_forty(self, store, url=None, key='acme'):
        with Fleet(TEXT, url or store.url, 2) as fleet:
            self.assertEqual(decisions(storm(fleet.servers, 40, tenant=key, clients=4)), {'allow': 40, 'deny': 40})

    def test_valkey(self):
        with Store(program='valkey-server') as store:
            self.assertEqual(store.info('server')['server_name'], 'valkey')
            self.admit_forty(store)
            self.admit_forty(store, store.url.replace('redis', 'valkey'), 'other')
            self.assertEqual(store.keys_without_expiry(), [])

    def test_tls_with_a_private_authority(self):
        for tls in (True, 'mutual'):
            with self.subTest(tls=tls), Store(tls=tls) as store:
                self.admit_forty(store)

    def test_tls_of_somebody_else_is_not_trusted(self):
        with Store(tls=True) as store:
            with Fleet(TEXT, store.url.split('?')[0], 1, is_ready=False) as fleet:
                self.assertEqual(check(fleet[0])['policy'], 'closed')
                wait_for(lambda: 'certificate' in fleet[0].log())

    def test_unix_socket(self):
        with Store(unix=True) as store:
            self.admit_forty(store)

    def test_password(self):
        with Store(password='p w:@/%') as store:
            self.admit_forty(store)
            with Fleet(TEXT, store.url_as(None, 'wrong'), 1, is_ready=False) as fleet:
                self.assertEqual(check(fleet[0])['policy'], 'closed')
                wait_for(lambda: 'WRONGPASS' in fleet[0].log())
                self.assertNotIn('wrong@', fleet[0].log(), 'no secret in the log')

    def ask_everything(self, url):
        """Every algorithm, retries, reservations, leases and permits."""
        text = contract(('name: wide', *shared('rate: 40/52w', 'burst: 40')),
                        ('name: part', *leased('rate: 1000/52w', 'burst: 1000', most=100, chunk=20)),
                        ('name: part-fix', *leased('algorithm: fixed-window', 'rate: 1000/52w', most=100, chunk=20)),
                        ('name: win', *shared('algorithm: sliding-window', 'rate: 1000/52w')),
                        ('name: fix', *shared('algorithm: fixed-window', 'rate: 1000/52w', 'retries: { free-within: 60s, by: id }')),
                        ('name: log', *shared('algorithm: sliding-log', 'rate: 45/52w')),
                        ('name: jobs', 'when: { path: /jobs }', *shared('algorithm: concurrency', 'at-most: 2', 'hold: 9s')))
        with Fleet(text, url, 2) as fleet:
            counted = decisions(storm(fleet.servers, 40, clients=4))
            self.assertEqual(counted, {'allow': 40, 'deny': 40})
            self.assertGreater(fleet.metric('weir_lease_granted_total'), 0)
            for _ in range(2):
                self.assertEqual(check(fleet[0], 'r', attributes={'id': 'x'})['http'], 200)
            held = check(fleet[0], 's', path='/v1/reserve')
            for call, more in (('settle', '{"reservation":"%s","cost":0}' % held['reservation']),
                               ('refund', '{"attributes":{"tenant":"r"},"cost":1}')):
                self.assertEqual(fleet[1].ask('POST', '/v1/' + call, more).status, 200)
            permit = check(fleet[0], path='/v1/acquire', attributes={'path': '/jobs'}, tenant='j')['permit']
            for call in ('renew', 'release'):
                self.assertEqual(fleet[1].ask('POST', '/v1/' + call, '{"permit":"%s"}' % permit).status, 200)
            reset = fleet[0].ask('POST', '/v1/reset', '{"limit":"wide","key":{"tenant":"acme"}}', unix='admin.sock')
            self.assertEqual(reset.status, 204, reset.text)

    def test_the_least_rights(self):
        """The users that docs/fleet.md describes can do everything that weir does, and are refused nothing."""
        with Store() as store:
            for name in ('weir', 'operator'):
                store.command('ACL', 'SETUSER', name, *documented_user(name))
            self.ask_everything(store.url_as('weir', 'pw'))
            self.assertEqual(denied(store), [])
            for words in (('status',), ('keys', '--limit', 'wide'), ('leases',), ('leases', 'tenant=acme', '--limit', 'part'),
                          ('keys', '--limit', 'part'), ('keys', '--limit', 'part', '--reset', '--all', '--yes'),
                          ('keys', '--limit', 'wide', '--reset', '--all', '--yes')):
                done = run_weir('fleet', words[0], self.contract_file(), *words[1:], store=store.url_as('operator', 'pw'))
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(denied(store), [])

    def test_the_least_rights_in_a_cluster(self):
        with Cluster() as cluster:
            for node in cluster.nodes:
                node.command('ACL', 'SETUSER', 'weir', *documented_user('weir'))
            self.ask_everything(cluster.url.replace('//', '//weir:pw@'))
            for node in cluster.nodes:
                self.assertEqual(denied(node), [])

    def contract_file(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(folder, 'weir.yaml')
        with open(path, 'w') as file:
            file.write(TEXT)
        return path

    def test_without_the_right_to_load_scripts(self):
        with Store() as store:
            store.command('ACL', 'SETUSER', 'default', '-script')
            self.admit_forty(store)

    def test_the_script_cache_is_flushed_under_load(self):
        with Store() as store, FaultProxy(store) as proxy, Fleet(TEXT, proxy.url, 2) as fleet:
            client = store.client()

            def flush_now_and_then(command):
                if command.number % 10 == 0:
                    client.command('SCRIPT', 'FLUSH')
                return PASS
            proxy.script = flush_now_and_then
            self.assertEqual(decisions(storm(fleet.servers, 40, clients=4)), {'allow': 40, 'deny': 40})
            client.close()

    def test_a_replica_is_not_decided_on(self):
        with Store() as store, Store(replica_of=store) as replica:
            wait_for(lambda: replica.info('replication').get('master_link_status') == 'up')
            with Fleet(TEXT, replica.url, 1, is_ready=False) as fleet:
                answer = check(fleet[0])
                self.assertEqual((answer['decision'], answer['policy'], answer['http']), ('refused', 'closed', 503))
                replica.command('REPLICAOF', 'NO', 'ONE')
                wait_for(lambda: check(fleet[0])['decision'] == 'allow')

    def test_a_full_store_is_a_store_that_failed(self):
        with Store(maxmemory='100mb') as store, Fleet(TEXT, store.url, 1) as fleet:
            self.assertEqual(check(fleet[0], 'first')['decision'], 'allow')
            store.command('CONFIG', 'SET', 'maxmemory', 1)
            answer = check(fleet[0], 'second')
            self.assertEqual((answer['decision'], answer['policy'], answer['http']), ('refused', 'closed', 503))
            store.command('CONFIG', 'SET', 'maxmemory', 0)
            wait_for(lambda: check(fleet[0], 'second', mode='peek')['decision'] == 'allow')

    def test_a_restarted_store_is_empty_and_says_so(self):
        """when-state-lost: empty - a key that is absent may have been used up before."""
        text = contract(('name: lossy', 'when: { path: /lossy }', *shared('rate: 1/1s', 'burst: 5')),
                        ('name: strict', 'when: { path: /strict }', *shared('rate: 1/1s', 'burst: 5', 'when-state-lost: empty')))
        with Store() as store, Fleet(text, store.url, 2) as fleet:
            def ask(path, times):
                return decisions(check(fleet[i % 2], 'k', attributes={'path': path}) for i in range(times))['allow']
            # A store that was just started has lost its state, for all that anybody knows.
            wait_for(lambda: check(fleet[0], 'k', mode='peek', attributes={'path': '/strict'}).get('remaining') == 5)
            for path in ('/lossy', '/strict'):
                self.assertEqual(ask(path, 5), 5, 'and no refusal that a replica could remember')
            began = time.monotonic()
            store.kill()
            store.start()
            wait_for(lambda: all(is_ready(server) for server in fleet.servers))
            self.assertEqual(ask('/lossy', 5), 5, 'full again, as `explain` says')
            allowed = ask('/strict', 5)
            self.assertLessEqual(allowed, time.monotonic() - began, 'only what came since: nobody knows what had been used')

    def test_a_store_with_an_append_only_file_remembers(self):
        with Store(keep=True) as store, Fleet(TEXT, store.url, 1) as fleet:
            for _ in range(30):
                check(fleet[0])
            store.kill()
            store.start()
            wait_for(lambda: check(fleet[0], mode='peek')['policy'] is None)
            self.assertEqual(decisions(storm(fleet.servers, 40))['allow'], 10)

    def test_two_contracts_in_one_store(self):
        """Limits of one name are one budget, in whatever contract they stand; others do not meet."""
        one = contract(('name: a', *shared('rate: 10/52w', 'burst: 10')))
        two = contract(('name: b', *shared('rate: 10/52w', 'burst: 10')))
        with Store() as store, Fleet(one, store.url, 1) as first, Fleet(two, store.url, 1) as second, \
                Fleet(one, store.url, 1) as third:
            self.assertEqual(decisions(storm(first.servers, 20))['allow'], 10)
            self.assertEqual(decisions(storm(second.servers, 20))['allow'], 10)
            self.assertEqual(decisions(storm(third.servers, 20))['allow'], 0)

    def test_the_command_shows_and_resets(self):
        with Store(password='secret') as store, Fleet(TEXT, store.url, 1) as fleet:
            self.assertEqual(decisions(storm(fleet.servers, 50))['allow'], 40)
            status = run_weir('fleet', 'status', store=store.url)
            self.assertEqual(status.returncode, 0, status.stderr)
            self.assertIn(f'127.0.0.1:{store.port}', status.stdout)
            self.assertNotIn('secret', status.stdout + status.stderr)
            path = self.contract_file()
            keys = run_weir('fleet', 'keys', path, '--limit', 'wide', store=store.url)
            self.assertEqual(keys.returncode, 0, keys.stderr)
            self.assertIn('tenant=acme', keys.stdout)
            reset = run_weir('fleet', 'keys', path, 'tenant=acme', '--limit', 'wide', '--reset', '--yes', store=store.url)
            self.assertEqual(reset.returncode, 0, reset.stderr)
            with Fleet(TEXT, store.url, 1) as fresh:  # which remembers no refusal
                self.assertEqual(check(fresh[0], mode='peek')['limits'][0]['remaining'], 40)


def run_weir(*words, store=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
    if store:
        environment['WEIR_STORE'] = store
    return subprocess.run([os.path.join(BUILD, 'weir'), *words], env=environment, capture_output=True, text=True, timeout=60)


if __name__ == '__main__':
    unittest.main()
