# SPDX-License-Identifier: Apache-2.0
"""What every proxy that asks weir over HTTP has to show. A test_proxy_NAME.py says how its proxy is started, and where it differs.

weir's time stands still (test build, no Weir-Now reaches it), so counts are exact: per-address admits 20, sign-in 5.
"""
import hashlib
import json
import os
import threading
import time

from proxies import SOON, Stack, free_port

FLEET = """
weir: 1
identity:
  proxies: [127.0.0.0/8, "::1"]
  ip: { from: "IP" }
store: { url: "redis://127.0.0.1:PORT", deadline: 10ms }
limits:
  - { name: shared, key: [ip], rate: 10/s, burst: 20, scope: fleet, when-store-fails: closed }
"""

WAITING = """
weir: 1
server: { auth-wait: true }
identity:
  proxies: [127.0.0.0/8, "::1"]
  ip: { from: "IP" }
limits:
  - { name: pace, key: [], algorithm: leaky-queue, rate: 5/s, wait: { up-to: 2s, queue: 9 } }
"""

# A client that sends these would like to be somebody else, ask for something else, or wait.
FORGED = [
    [('X-Forwarded-For', '203.0.113.7')],
    [('X-Forwarded-For', '203.0.113.7, 127.0.0.1')],
    [('X-Forwarded-For', ''), ('X-Forwarded-For', '203.0.113.7')],
    [('X_Forwarded_For', '203.0.113.7')],
    [('X-Client-Address', '203.0.113.7')],
    [('X-Client-Address', '203.0.113.7'), ('X-Client-Address', '203.0.113.8')],
    [('Forwarded', 'for=203.0.113.7')],
    [('X-Real-IP', '203.0.113.7')],
    [('Client-IP', '203.0.113.7')],
    [('True-Client-IP', '203.0.113.7')],
    [('X-Envoy-External-Address', '203.0.113.7')],
    [('X-Original-URI', '/free')],
    [('X-Original-Method', 'GET')],
    [('X-Original-URL', '/free'), ('X-Rewrite-URL', '/free')],
    [('X-Envoy-Original-Path', '/free')],
    [('X-Forwarded-Uri', '/free')],
    [('X-Forwarded-Uri', '/%zz')],
    [('X-Forwarded-Method', 'GET')],
    [('X-Forwarded-Host', 'free.test')],
    [('X-Http-Method-Override', 'GET')],
    [('X-Forwarded-Method', 'GET'), ('X-Forwarded-Uri', '/free'), ('X-Forwarded-For', '203.0.113.7')],
    [('Connection', 'close, X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Client-Address')],
    [('Prefer', 'wait=10')],
    [('Weir-Token', '0123456789abcdef')],
    [('Weir-Now', '3600000000000')],
    [('Authorization', 'Bearer 0123456789abcdef')],
    [('Host', 'free.test')],
]

# What an application may take for POST /login, or be made to.
SPELLINGS = ['/login?x', '/login?', '//login', '/a/../login', '/./login', '/%6cogin', '/%6Cogin?free', '/a/%2e%2e/login', '/%2e/login',
             '/a/.%2E/login', '/login/', '/login/?x', '/login//', '/login/.', '/login/x/..', '/../login', '/..//login', '/a/b/../../login',
             '/login#/free', '///login', '/login/../login', '/login?/../free', '/login?/../../v1/auth/free', '/../../login']


class Checks:
    """Mixed into a TestCase. `stack(policy, **more)` starts it; `policies` are those that the proxy knows, each with the statuses that a
    client sees where weir is `down`, is `hung`, and says 503 (`undecided`)."""

    policies = {}
    tells = True      # RateLimit fields of requests that pass
    body = True       # weir's own body reaches the client that it refuses
    identity = 'x-forwarded-for'
    waiting = []      # a policy, and what to replace so that requests wait up to 2 s
    respelt = {}      # paths that mean another one to this proxy, which weir and the application then hear of

    def stack(self, policy, **more) -> Stack:
        raise NotImplementedError

    def settle(self, stack):
        """weir is back, or goes on: wait until the proxy knows, where it does not look at each request."""

    def any(self, **more):
        return self.stack(next(iter(self.policies)), **more)

    def check_refused(self, reply, retry='1', limit='20'):
        self.assertEqual(reply.status, 429, reply)
        self.assertEqual(reply.fields['retry-after'], retry, reply)
        self.assertEqual((reply.fields['ratelimit-limit'], reply.fields['ratelimit-remaining']), (limit, '0'), reply)
        self.assertEqual(reply.fields['ratelimit-reset'], retry, reply)
        self.assertEqual(reply.fields['content-type'], 'application/problem+json')
        self.assertEqual(reply.fields['cache-control'], 'no-store')

    def test_burst_then_429(self):
        for policy in self.policies:
            with self.subTest(policy), self.stack(policy) as stack:
                replies = [stack.ask(f'/items/{i}?q=1') for i in range(21)]
                self.assertEqual([r.status for r in replies], [200] * 20 + [429])
                self.assertEqual(replies[0].body, b'the application')
                remaining = [str(19 - i) for i in range(20)] if self.tells else [None] * 20
                self.assertEqual([r.fields.get('ratelimit-remaining') for r in replies[:20]], remaining)
                self.assertEqual(replies[0].fields.get('ratelimit-limit'), '20' if self.tells else None)
                self.assertNotIn('retry-after', replies[0].fields)
                self.check_refused(replies[20])
                self.assertIn(b'"limit":"per-address"' if self.body else b'"status":429', replies[20].body)
                self.assertEqual(len(stack.app.seen), 20, 'the refused one never reached the application')
                self.assertEqual([path for _, path, *_ in stack.app.seen], [f'/items/{i}?q=1' for i in range(20)])
                self.assertEqual(stack.ask(source='127.0.0.5').status, 200, 'another address has its own')
                self.assertEqual(stack.ask().status, 429)

    def test_what_passes_is_untouched(self):
        data = os.urandom(1 << 20)
        with self.any() as stack:
            for path, status in (('/own-403', 403), ('/own-429', 429), ('/own-503', 503), ('/own-502', 502)):
                reply = stack.ask(path)
                self.assertEqual((reply.status, reply.body, reply.fields['retry-after']), (status, b'the application', '77'), path)
            for method, chunk, size in (('POST', 0, 1), ('POST', 0, 1 << 20), ('POST', 1 << 16, 1 << 20), ('PUT', 1000, 5000),
                                        ('PUT', 0, 0), ('DELETE', 0, 0)):
                with self.subTest(method=method, chunk=chunk, size=size):
                    reply = stack.ask('/form?a=b%20c', method, [('X-Mine', 'y')], body=data[:size], chunk=chunk)
                    self.assertEqual(reply.status, 200, reply)
                    got_method, path, headers, length, digest = stack.app.seen[-1]
                    self.assertEqual((got_method, path, headers['x-mine'], length, digest),
                                     (method, '/form?a=b%20c', 'y', size, hashlib.sha256(data[:size]).hexdigest()))
            self.assertEqual(stack.ask('/', 'HEAD').status, 200)
            self.assertEqual(stack.app.seen[-1][0], 'HEAD')
            self.assertEqual(len(stack.app.seen), 11, 'each reached the application once')

    def test_without_a_limit_there_are_no_fields(self):
        with self.any(contract='weir: 1\nlimits: [ { name: other, when: { path: /other }, key: [], rate: 1/s, burst: 1 } ]\n') as stack:
            reply = stack.ask()
            self.assertEqual((reply.status, reply.body), (200, b'the application'))
            self.assertEqual([name for name in reply.fields if 'ratelimit' in name or name == 'retry-after'], [], reply)

    def test_application_gone_is_no_matter_of_weir(self):
        with self.any() as stack:
            stack.app.stop()
            reply = stack.ask()
            self.assertIn(reply.status, (502, 503), reply)
            self.assertNotIn(b'No decision', reply.body)

    def test_bodies_of_refused_requests_go_nowhere(self):
        with self.any() as stack:
            for _ in range(20):
                stack.ask()
            for size, chunk in ((100, 0), (100, 10)):
                self.check_refused(stack.ask('/form', 'POST', body=b'x' * size, chunk=chunk))
            self.assertEqual(len(stack.app.seen), 20)
            self.assertEqual(stack.ask(source='127.0.0.6').status, 200)

    def spend_sign_in(self, stack):
        self.assertEqual([stack.ask('/login', 'POST').status for _ in range(6)], [200] * 5 + [429])

    def test_B49_client_chooses_no_address_path_method_or_wait(self):
        """With its budget spent, each forged head is still refused, at once, and counted for nobody else."""
        with self.any() as stack:
            self.spend_sign_in(stack)
            for forged in FORGED:
                with self.subTest(forged[0]):
                    reply = stack.ask('/login', 'POST', forged)
                    if reply.status == 400 and forged[0][0] == 'Connection':
                        continue  # Envoy refuses such a request itself
                    self.check_refused(reply, '12', '5')
                    self.assertLess(reply.took, 5, 'it did not wait the 10 s it asked for')
            self.assertEqual(len(stack.app.seen), 5)

    def test_hostile_paths_count_as_what_they_are(self):
        with self.any() as stack:
            self.spend_sign_in(stack)
            for spelling in SPELLINGS:
                with self.subTest(spelling):
                    del stack.app.seen[:]
                    reply = stack.ask(spelling, 'POST')
                    if spelling in self.respelt:
                        self.assertEqual([path for _, path, *_ in stack.app.seen], [self.respelt[spelling]])
                    else:
                        self.assertIn(reply.status, (429, 400, 404), reply)
                        self.assertEqual(stack.app.seen, [])
            self.assertEqual(stack.ask('/login').status, 200, 'GET is no attempt to sign in')

    def test_B49_nobody_spends_the_budget_of_another(self):
        with self.any() as stack:
            for _ in range(25):
                stack.ask(headers=[(name, value.replace('203.0.113.7', '127.0.0.9')) for name, value in
                                   (('X-Forwarded-For', '203.0.113.7'), ('Forwarded', 'for=203.0.113.7'),
                                    ('X-Client-Address', '203.0.113.7'), ('X-Real-IP', '203.0.113.7'))])
            self.assertEqual([stack.ask(source='127.0.0.9').status for _ in range(21)], [200] * 20 + [429])

    def test_weir_stopped_and_back(self):
        for policy, client in self.policies.items():
            with self.subTest(policy), self.stack(policy) as stack:
                self.assertEqual(stack.ask(source='127.0.0.7').status, 200)
                stack.stop_weir()
                # What is refused may be closed while its body is under way, so only what passes has a long one.
                data = os.urandom(300000 if client['down'] == 200 else 100)
                for _ in range(3):
                    reply = stack.ask('/form', 'POST', body=data)
                    self.assertEqual(reply.status, client['down'], reply)
                    self.assertLess(reply.took, SOON)
                    if client['down'] == 200:
                        self.assertEqual(stack.app.seen[-1][3:], (len(data), hashlib.sha256(data).hexdigest()))
                        self.assertNotIn('ratelimit-limit', reply.fields)
                    if client['down'] == 503:
                        self.assertEqual((reply.fields['retry-after'], reply.fields['cache-control']), ('1', 'no-store'), reply)
                        self.assertEqual(reply.fields['content-type'], 'application/problem+json')
                        self.assertEqual(json.loads(reply.body)['status'], 503)
                self.assertEqual(len(stack.app.seen), 1 + 3 * (client['down'] == 200))
                stack.start_weir()
                self.settle(stack)
                self.assertEqual([stack.ask().status for _ in range(21)], [200] * 20 + [429], 'by itself')

    def test_weir_hangs_and_goes_on(self):
        """It accepts connections and says nothing: nobody waits for long, and nothing is charged twice."""
        for policy, client in self.policies.items():
            if client['hung'] is None:
                continue
            with self.subTest(policy), self.stack(policy) as stack:
                self.assertEqual(stack.ask(source='127.0.0.7').status, 200)
                stack.hang_weir()
                for _ in range(3):
                    reply = stack.ask()
                    self.assertEqual(reply.status, client['hung'], reply)
                    self.assertLess(reply.took, SOON)
                stack.wake_weir()
                self.settle(stack)
                statuses = [stack.ask().status for _ in range(24)]
                passed = statuses.index(429)
                self.assertTrue(17 <= passed <= 20, f'{passed} passed: 20, less those of the three that weir still read')
                self.assertEqual(statuses, [200] * passed + [429] * (24 - passed))

    def test_requests_wait_for_their_turn(self):
        """Where the proxy says that it can wait, and waits: five at once, one each 200 ms, and a client's own wish changes nothing."""
        with self.stack(*self.waiting[:1], contract=WAITING.replace('"IP"', f'"{self.identity}"'), virtual=False, edits=self.waiting[1:]) as stack:
            statuses = []
            begun = time.monotonic()
            threads = [threading.Thread(target=lambda: statuses.append(stack.ask('/pay', headers=[('Prefer', 'wait=0')]).status))
                       for _ in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            took = time.monotonic() - begun
            self.assertEqual(statuses, [200] * 5)
            self.assertGreater(took, 0.75, 'the last one waited 0.8 s for its turn')
            self.assertEqual(len(stack.app.seen), 5)

    def test_undecided_is_weirs_word(self):
        """The store of a limit that says `closed` is away: weir says 503, and so does who does not want it open."""
        contract = FLEET.replace('PORT', str(free_port())).replace('"IP"', f'"{self.identity}"')
        for policy, client in self.policies.items():
            with self.subTest(policy), self.stack(policy, contract=contract, virtual=False) as stack:
                replies = [stack.ask() for _ in range(3)]
                self.assertEqual([r.status for r in replies], [client['undecided']] * 3, replies[0])
                self.assertEqual(len(stack.app.seen), 3 * (client['undecided'] == 200))
                if client['undecided'] == 503:
                    self.assertGreaterEqual(int(replies[0].fields['retry-after']), 1)
