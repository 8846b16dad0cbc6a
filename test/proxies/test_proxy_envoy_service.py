# SPDX-License-Identifier: Apache-2.0
"""What of Envoy's rate limit service no other proxy has: its fields, clients of gRPC, hits, descriptors, deadlines, health, mutual TLS.

LABELS: e2e
"""
import os
import shutil
import sys
import tempfile
import threading
import unittest

from envoy import ACTIONS, DropIn, stack
from proxies import SOON, SOURCE, wait_for

sys.path.insert(0, os.path.join(SOURCE, 'test', 'doors'))
from test_door_tls import Authority  # noqa: E402


HEALTH = "    # A weir that is about to stop says so"
TLS = """    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: localhost
        common_tls_context:
          alpn_protocols: [ h2 ]
          tls_certificates: [ { certificate_chain: { filename: PEM }, private_key: { filename: KEY } } ]
          validation_context:
            trusted_ca: { filename: CA }
            match_typed_subject_alt_names: [ { san_type: DNS, matcher: { exact: localhost } } ]
""" + HEALTH


class Service(unittest.TestCase):
    def test_envoys_own_fields(self):
        """x-ratelimit-* are of the limit with least left; the window is the time from empty to full."""
        with stack('closed') as envoy:
            replies = [envoy.ask('/login', 'POST') for _ in range(6)]
            self.assertEqual([r.status for r in replies], [200] * 5 + [429])
            self.assertEqual([r.fields['x-ratelimit-remaining'] for r in replies], ['4', '3', '2', '1', '0', '0'])
            for reply in replies:
                self.assertRegex(reply.fields['x-ratelimit-limit'], r'^5\b')
            self.assertEqual([r.fields['x-ratelimit-reset'] for r in replies], ['12', '24', '36', '48', '60', '12'])
            self.assertEqual(replies[5].fields['x-envoy-ratelimited'], 'true')
            self.assertEqual((envoy.counter('ok'), envoy.counter('over_limit')), (6, 1), 'one of them to see that it is ready')

    def test_grpc_client(self):
        """A client of gRPC is refused in its own words: 200 with grpc-status 8, and the problem document as its message."""
        with stack('closed') as envoy:
            def ask():
                return envoy.ask('/package.Service/Method', 'POST', [('Content-Type', 'application/grpc'), ('TE', 'trailers')])
            self.assertEqual([ask().fields.get('grpc-status') for _ in range(20)], [None] * 20)
            refused = ask()
            self.assertEqual((refused.status, refused.fields['grpc-status'], refused.fields['content-type']),
                             (200, '8', 'application/grpc'))
            self.assertIn('quota-exceeded', refused.fields['grpc-message'])
            self.assertEqual((refused.fields['retry-after'], refused.fields['ratelimit-limit']), ('1', '20'))
            self.assertEqual(len(envoy.app.seen), 20)

    def test_hits(self):
        """A descriptor costs what it says: fixed, or from a header, where 0 looks and refuses nobody (B07, B39)."""
        fixed = ACTIONS[1:] + '                hits_addend: { number: 7 }\n'
        with stack('closed', fixed) as envoy:
            replies = [envoy.ask(source='127.0.0.2') for _ in range(3)]
            self.assertEqual([r.status for r in replies], [200, 200, 429])
            self.assertEqual([r.fields['ratelimit-remaining'] for r in replies], ['13', '6', '6'], 'refused is free')
            self.assertEqual(envoy.ask(source='127.0.0.3').fields['ratelimit-remaining'], '13')
        header = ACTIONS[1:] + '                hits_addend: { format: "%REQ(x-hits)%" }\n'
        with stack('closed', header) as envoy:
            def ask(hits):
                reply = envoy.ask(headers=[('X-Hits', str(hits))])
                return reply.status, reply.fields.get('ratelimit-remaining')
            self.assertEqual([ask(hits) for hits in (0, 5, 0, 15, 0, 1, 0)],
                             [(200, '20'), (200, '15'), (200, '15'), (200, '0'), (200, '0'), (429, '0'), (200, '0')])
            self.assertEqual(ask(21)[0], 429, 'more than it ever holds')
            self.assertEqual(ask('many'), (200, None), 'Envoy drops such a descriptor: a header that a client writes is a way out')

    def test_several_descriptors_pass_together_or_not_at_all(self):
        contract = """
weir: 1
limits:
  - { name: address, when: { domain: site, descriptor: remote_address }, key: [ip], rate: 10/s, burst: 20 }
  - { name: user, when: { domain: site, descriptor: x-user }, key: [x-user], rate: 1/1m, burst: 3 }
"""
        two = """
              - actions: [ { remote_address: {} } ]
              - actions: [ { request_headers: { header_name: x-user, descriptor_key: x-user } } ]
"""[1:]
        with stack('closed', two, contract=contract) as envoy:
            def ask(user, source='127.0.0.1'):
                return envoy.ask(headers=[('X-User', user)] if user else [], source=source)
            self.assertEqual([ask('ada').status for _ in range(5)], [200] * 3 + [429] * 2)
            refused = ask('ada')
            self.assertEqual((refused.fields['retry-after'], refused.fields['x-ratelimit-remaining']), ('60', '0'))
            # Three were admitted, and the three that `user` refused cost the address nothing.
            self.assertEqual([ask(None).status for _ in range(18)], [200] * 17 + [429])
            self.assertEqual(ask('grace').status, 429, 'by the address')
            self.assertEqual([ask('grace', '127.0.0.5').status for _ in range(4)], [200] * 3 + [429], 'and was charged nothing then')

    def test_late_answers(self):
        """weir answers up to 2 s late, Envoy waits 0.5 s: what comes too late is an error, answered by the policy and counted as such."""
        for policy, status in (('closed', 503), ('open', 200)):
            with self.subTest(policy), stack(policy, late=2000, virtual=False) as envoy:
                before = envoy.counter('error')
                replies = [envoy.ask() for _ in range(8)]
                self.assertEqual({r.status for r in replies} - {200, status}, set())
                self.assertLess(max(r.took for r in replies), SOON)
                errors = envoy.counter('error') - before
                self.assertGreater(errors, 0)
                self.assertEqual(sum('ratelimit-limit' not in r.fields for r in replies), errors)
                self.assertEqual(sum(r.status == 503 for r in replies), errors if policy == 'closed' else 0)

    def test_a_weir_that_ends_says_so_first(self):
        """While it drains, its health says NOT_SERVING: Envoy asks it no more, and asks again when it is back."""
        contract = """
weir: 1
limits:
  - { name: per-address, when: { method: present }, key: [ip], rate: 10/s, burst: 20 }
  - { name: slow, when: { job: present }, key: [], rate: 1/5s, burst: 1, wait: { up-to: 20s, queue: 5 } }
"""
        with stack('closed', contract=contract, virtual=False) as envoy:
            self.assertEqual(envoy.ask().status, 200)
            check = '{"attributes": {"job": "x"}, "wait": 15}'
            self.assertEqual(envoy.weir.ask('POST', '/v1/check', check).status, 200)
            waiting = []
            thread = threading.Thread(target=lambda: waiting.append(envoy.weir.ask('POST', '/v1/check', check).status))
            thread.start()
            wait_for(lambda: envoy.weir.ask('GET', '/v1/limits').json['limits'][1]['waiting'] == 1)
            envoy.weir.process.terminate()
            wait_for(lambda: 'failed_active_hc' in envoy.health())
            self.assertIsNone(envoy.weir.process.poll(), 'it is still there, for the one that waits')
            reply = envoy.ask()
            self.assertEqual((reply.status, reply.fields['retry-after']), (503, '1'))
            thread.join()
            self.assertEqual(waiting, [200], 'it got its turn')
            envoy.stop_weir()
            envoy.start_weir()
            wait_for(lambda: envoy.health() == 'healthy')
            self.assertEqual(envoy.ask().fields['ratelimit-remaining'], '19')

    def test_mutual_tls(self):
        """Both show a certificate, ALPN says h2; one of another authority is none."""
        authority, stranger = Authority(), Authority()
        try:
            for who in (authority, stranger):
                who.sign('client', 'envoy')
            authority.sign('server')
            for client, status in ((authority, 200), (stranger, 503)):
                socket = TLS.replace('CA', authority.path('ca.pem')).replace('PEM', client.path('client.pem')).replace(
                    'KEY', client.path('client.key'))
                with self.subTest(status), stack('closed', edits=[(HEALTH, socket)], weir_args=[
                        '--tls-cert', authority.path('server.pem'), '--tls-key', authority.path('server.key'), '--tls-client-ca',
                        authority.path('ca.pem')]) as envoy:
                    reply = envoy.ask()
                    self.assertEqual(reply.status, status, reply)
                    self.assertEqual(reply.fields.get('ratelimit-remaining'), '19' if status == 200 else None)
        finally:
            for who in (authority, stranger):
                shutil.rmtree(who.dir, ignore_errors=True)

    def test_in_the_place_of_envoyproxy_ratelimit(self):
        """Its configuration as it is, and descriptors as its users write them."""
        config = """
domain: site
descriptors:
  - key: remote_address
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: generic_key
    value: slow
    descriptors:
      - key: x-user
        rate_limit: { unit: minute, requests_per_unit: 2 }
"""
        actions = """
              - actions: [ { remote_address: {} } ]
              - actions: [ { generic_key: { descriptor_value: slow } }, { request_headers: { header_name: x-user, descriptor_key: x-user } } ]
"""[1:]
        with stack('closed', actions, contract=config, server=DropIn) as envoy:
            def ask(user=None, source='127.0.0.1'):
                return envoy.ask(headers=[('X-User', user)] if user else [], source=source)
            replies = [ask() for _ in range(6)]
            self.assertEqual([r.status for r in replies], [200] * 5 + [429])
            self.assertEqual([r.fields['x-ratelimit-remaining'] for r in replies], ['4', '3', '2', '1', '0', '0'])
            self.assertRegex(replies[0].fields['x-ratelimit-limit'], '^5, 5;w=3600')
            self.assertEqual((replies[5].fields['x-ratelimit-reset'], replies[5].fields['retry-after']), ('3600', '3600'))
            self.assertEqual([ask('ada', '127.0.0.5').status for _ in range(3)], [200, 200, 429])
            self.assertEqual(ask('ada', '127.0.0.6').fields['x-ratelimit-remaining'], '0', 'the user has one budget, wherever')
            self.assertEqual(ask('grace', '127.0.0.5').fields['x-ratelimit-remaining'], '1')

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory(prefix='weir-grpc-') as folder:
            path = os.path.join(folder, 'rls.sock')
            tcp = '{ socket_address: { address: 127.0.0.1, port_value: 8081 } }'
            with stack('closed', edits=[(tcp, f'{{ pipe: {{ path: {path} }} }}')], grpc='unix:' + path) as envoy:
                self.assertEqual([envoy.ask().status for _ in range(21)], [200] * 20 + [429])


if __name__ == '__main__':
    unittest.main()
