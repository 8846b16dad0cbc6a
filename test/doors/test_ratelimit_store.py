# SPDX-License-Identifier: Apache-2.0
# LABELS: e2e
"""weir in the place of envoyproxy/ratelimit, with the Redis that its REDIS_* variables name."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ.get('WEIR_SOURCE', '.'), 'test', 'support'))

from door import wait_for
from h2 import OK, OVER_LIMIT, SHOULD_RATE_LIMIT, call, descriptor
from ratelimit import Descriptor, Folder, Ratelimit, call_body
from stores import Cluster, Sentinels, Store

RULES = {'d.yaml': {'domain': 'd', 'descriptors': [
    {'key': 'k', 'rate_limit': {'unit': 'day', 'requests_per_unit': 3}},
    {'key': 'l', 'rate_limit': {'unit': 'day', 'requests_per_unit': 100}}]}}
COMPATIBLE = ('--ratelimit-compatible',)


def body(value='v', hits=None, key='k'):
    return call_body('d', [Descriptor([(key, value)], hits)])


def environment(store, **more):
    return {'REDIS_URL': f'127.0.0.1:{store.port}', 'REDIS_SOCKET_TYPE': 'tcp', 'REDIS_TIMEOUT': '2s', **more}


class WithAStore(unittest.TestCase):
    def share(self, env, others=None):
        """Two servers have one budget."""
        with Folder(RULES) as folder, Ratelimit(folder.path, env=env) as one, \
                Ratelimit(folder.path, env=others or env) as two:
            for each in (one, two):
                wait_for(lambda server=each: ' event=store-up ' in server.log())
                self.assertIn('counted=store', each.log())
                self.assertNotIn('event=ratelimit_store ', each.log())
            return [server.call(body()).status for server in (one, two, one, two)], one.log() + two.log()

    def test_tcp(self):
        with Store() as store:
            self.assertEqual(self.share(environment(store))[0], [200, 200, 200, 429])
            env = environment(store)
            env['REDIS_URL'] = f'redis://127.0.0.1:{store.port}'
            env.pop('REDIS_SOCKET_TYPE')
            with Folder(RULES) as folder, Ratelimit(folder.path, env=env) as weir:
                self.assertEqual(weir.call(body()).status, 429)  # the same budget

    def test_a_socket_and_a_password_with_everything_in_it(self):
        password = 'p@ss:w/?#%d'
        with Store(unix=True, password=password) as store:
            env = {'REDIS_URL': store.socket_path, 'REDIS_SOCKET_TYPE': 'unix', 'REDIS_AUTH': ':' + password,
                   'REDIS_TIMEOUT': '2s'}
            told, log = self.share(env)
            self.assertEqual(told, [200, 200, 200, 429])
            self.assertNotIn('p@ss', log)

    def test_tls_with_a_certificate(self):
        with Store(tls='mutual') as store:
            authority = store.authority
            env = environment(store, REDIS_TLS='true', REDIS_TLS_CACERT=authority.ca,
                              REDIS_TLS_CLIENT_CERT=authority.client_certificate,
                              REDIS_TLS_CLIENT_KEY=authority.client_key)
            self.assertEqual(self.share(env)[0], [200, 200, 200, 429])

    def test_a_cluster(self):
        with Cluster() as cluster:
            nodes = cluster.url.split('//')[1]
            env = {'REDIS_URL': nodes, 'REDIS_TYPE': 'CLUSTER', 'REDIS_SOCKET_TYPE': 'tcp', 'REDIS_TIMEOUT': '2s'}
            self.assertEqual(self.share(env)[0], [200, 200, 200, 429])

    def test_sentinels(self):
        with Sentinels() as sentinels:
            hosts, name = sentinels.url.split('//')[1].split('/')
            env = {'REDIS_URL': f'{name},{hosts}', 'REDIS_TYPE': 'SENTINEL', 'REDIS_TIMEOUT': '2s'}
            self.assertEqual(self.share(env)[0], [200, 200, 200, 429])

    def test_prefixes_keep_two_services_apart(self):
        with Store() as store:
            told, _ = self.share(environment(store, CACHE_KEY_PREFIX='blue:'),
                                 environment(store, CACHE_KEY_PREFIX='green:'))
            self.assertEqual(told, [200, 200, 200, 200])  # two of each

    def test_refused_hits_count_in_the_store(self):
        with Store() as store, Folder(RULES) as folder:
            with Ratelimit(folder.path, env=environment(store), args=COMPATIBLE) as weir:
                told = [weir.call(body('v', hits)).json['overallCode'] for hits in (2, 2, 1, 1)]
                self.assertEqual(told, ['OK', 'OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT'])
                # more than there ever is takes all there is
                told = [weir.call(body('w', hits)).json['overallCode'] for hits in (9, 1)]
                self.assertEqual(told, ['OVER_LIMIT', 'OVER_LIMIT'])
                both = call_body('d', [Descriptor([('k', 'v')]), Descriptor([('l', 'v')])])
                statuses = [weir.call(both).json['statuses'] for _ in range(2)][1]
                self.assertEqual([s['code'] for s in statuses], ['OVER_LIMIT', 'OK'])
                self.assertEqual(statuses[1]['limitRemaining'], 98)

    def test_what_is_charged_beyond_is_charged_to_whom_it_was_asked_for(self):
        """It is asked for when the store has answered, and other calls were read meanwhile."""
        with Store() as store, Folder(RULES) as folder:
            args = COMPATIBLE + ('--grpc', '127.0.0.1:0', '--workers', '1')
            with Ratelimit(folder.path, env=environment(store, REDIS_TIMEOUT='9s'), args=args) as weir:
                self.assertEqual(weir.grpc('d', [Descriptor([('k', 'x')])])[0], 0)
                store.freeze()
                streams = [weir.stream.begin(SHOULD_RATE_LIMIT, call(descriptor([('k', value)], hits), domain='d'))
                           for value, hits in [('large', 9)] + [(f'small-{i}', 2) for i in range(20)]]
                weir.stream.ping()  # all were read
                store.thaw()
                told = [weir.stream.wait(stream).overall for stream in streams]
                self.assertEqual(told, [OVER_LIMIT] + 20 * [OK])
                left = [weir.call(body(f'small-{i}', 0)).json['statuses'][0]['limitRemaining'] for i in range(20)]
                self.assertEqual(left, 20 * [1])
                self.assertEqual(weir.call(body('large', 1)).status, 429)

    def test_a_store_that_is_away_is_an_error_and_no_denial(self):
        for args in ((), COMPATIBLE):
            with Store() as store, Folder(RULES) as folder:
                env = environment(store, REDIS_TIMEOUT='200ms')
                with Ratelimit(folder.path, env=env, args=args + ('--grpc', '127.0.0.1:0')) as weir:
                    self.assertEqual(weir.call(body()).status, 200)
                    store.kill()
                    reply = weir.call(body())
                    self.assertEqual((reply.status, reply.text), (400, 'Bad Request\n'))
                    self.assertIn('store could not be had', weir.log())
                    self.assertEqual(weir.grpc('d', [Descriptor([('k', 'v')])])[0], 14)  # UNAVAILABLE
                    self.assertEqual(weir.ask('GET', '/healthcheck').status, 200)
                    store.start()
                    wait_for(lambda server=weir: server.call(body('w')).status == 200)


if __name__ == '__main__':
    unittest.main()
