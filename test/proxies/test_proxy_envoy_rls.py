# SPDX-License-Identifier: Apache-2.0
"""Envoy asks weir by its rate limit service, over gRPC, with examples/envoy/rls.yaml: what every proxy shows, and what is Envoy's alone.

LABELS: e2e
"""
import http.client
import re
import threading
import unittest

from checks import Checks
from proxies import SOON, Stack, program, wait_for

ACTIONS = """
              - actions:
                - remote_address: {}
                - request_headers: { header_name: ":path", descriptor_key: path }
                - request_headers: { header_name: ":method", descriptor_key: method }
"""


class EnvoyStack(Stack):
    def weir_args(self):
        return ['--grpc', f'127.0.0.1:{self.port_of["grpc"]}']

    def admin(self, path):
        client = http.client.HTTPConnection('127.0.0.1', self.port_of['envoy'], timeout=30)
        try:
            client.request('GET', path)
            return client.getresponse().read().decode()
        finally:
            client.close()

    def health(self):
        """What Envoy thinks of weir: 'healthy', or flags."""
        return re.search(rf'^weir::127.0.0.1:{self.port_of["grpc"]}::health_flags::(.*)$', self.admin('/clusters'), re.M).group(1)

    def counter(self, name):
        return int(re.search(rf'^cluster\.application\.ratelimit\.{name}: (\d+)$', self.admin('/stats'), re.M).group(1))


def stack(policy, actions=None, edits=(), **more):
    edit = [] if policy == 'closed' else [('failure_mode_deny: true\n', 'failure_mode_deny: false\n')]
    if actions:
        edit.append((ACTIONS, '\n' + actions))
    return EnvoyStack('envoy', [program('envoy'), '-c', 'rls.yaml', '--concurrency', '1', '--disable-hot-restart'], edit=[*edit, *edits], **more)


class Rls(Checks, unittest.TestCase):
    # What weir could not decide is an error to Envoy: where it fails open, that passes.
    policies = {'closed': {'down': 503, 'hung': 503, 'undecided': 503},
                'open': {'down': 200, 'hung': 200, 'undecided': 200}}

    waiting = ['closed', ('              timeout: 0.05s ', '              timeout: 3s '),
               ('envoy_grpc: { cluster_name: weir }\n', 'envoy_grpc: { cluster_name: weir }\n                  initial_metadata:'
                ' [ { key: weir-wait-ms, value: "2000" } ]\n')]

    def stack(self, policy, **more):
        return stack(policy, **more)

    def settle(self, stack):
        wait_for(lambda: stack.health() == 'healthy')


class EnvoyAlone(unittest.TestCase):
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
        """weir answers up to 3 s late, Envoy waits 50 ms: what comes too late is an error, answered by the policy and counted as such."""
        for policy, status in (('closed', 503), ('open', 200)):
            with self.subTest(policy), stack(policy, late=3000, virtual=False) as envoy:
                before = envoy.counter('error')
                replies = [envoy.ask() for _ in range(10)]
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
  - { name: slow, when: { job: present }, key: [], rate: 1/10s, burst: 1, wait: { up-to: 20s, queue: 5 } }
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


if __name__ == '__main__':
    unittest.main()
