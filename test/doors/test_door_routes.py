# SPDX-License-Identifier: Apache-2.0
"""Every route of the HTTP door, each answer and each error, as interface.md states them."""
import unittest

from door import Server, request

NEVER_FILLS = """
weir: 1
limits:
  - name: tenant-requests
    key: [tenant]
    rate: 5/s
    burst: 20
  - name: writes
    when: { method: POST }
    key: []
    rate: 1/1h
    burst: 2
"""

PER_USER_AND_ALL = """
weir: 1
limits:
  - name: per-user
    key: [user]
    algorithm: fixed-window
    rate: 1/1m
  - name: all
    key: []
    algorithm: fixed-window
    rate: 10/1m
"""


class Check(unittest.TestCase):
    def test_founding_example(self):
        """Capacity 20, refill 5/s: 20 of 21 pass at 0; 5 of 6 after a second; then cost 2 is refused and free."""
        with Server(virtual=True) as server:
            def at(ns, **more):
                return server.check(headers=[('Weir-Now', ns)], **more)
            statuses = [at(0).status for _ in range(21)]
            self.assertEqual(statuses, [200] * 20 + [429])
            statuses = [at(10**9).status for _ in range(6)]
            self.assertEqual(statuses, [200] * 5 + [429])
            refused = at(10**9 + 2 * 10**8, cost=2)
            self.assertEqual(refused.status, 429)
            self.assertEqual(refused.json['retry_after'], 0.2)
            self.assertEqual(at(10**9 + 2 * 10**8).status, 200, 'the refusal consumed nothing')

    def test_allow(self):
        with Server(virtual=True) as server:
            reply = server.check(headers=[('Weir-Now', 0)])
            self.assertEqual((reply.status, reply.reason), (200, 'OK'))
            self.assertEqual(reply.fields['content-type'], 'application/json')
            self.assertEqual(reply.fields['ratelimit-limit'], '20')
            self.assertEqual(reply.fields['ratelimit-remaining'], '19')
            self.assertEqual(reply.fields['ratelimit-reset'], '1')
            self.assertNotIn('retry-after', reply.fields)
            one = {'limit': 'tenant-requests', 'decision': 'allow', 'capacity': 20, 'remaining': 19,
                   'retry_after': 0, 'reset_after': 0.2}
            self.assertEqual(reply.json, {**one, 'policy': None, 'reason': None, 'limits': [one]})

    def test_deny(self):
        with Server(virtual=True) as server:
            server.check(cost=20, headers=[('Weir-Now', 0)])
            reply = server.check(headers=[('Weir-Now', 0)])
            self.assertEqual((reply.status, reply.reason), (429, 'Too Many Requests'))
            self.assertEqual(reply.fields['content-type'], 'application/problem+json')
            self.assertEqual(reply.fields['cache-control'], 'no-store')
            self.assertEqual(reply.fields['retry-after'], '1', '0.2 s rounded up')
            self.assertEqual(reply.fields['ratelimit-remaining'], '0')
            self.assertEqual(reply.fields['ratelimit-reset'], '1', 'equal to Retry-After on a refusal')
            body = reply.json
            self.assertEqual(body['type'], 'https://iana.org/assignments/http-problem-types#quota-exceeded')
            self.assertEqual((body['status'], body['decision'], body['violated-policies']),
                             (429, 'deny', ['tenant-requests']))
            self.assertEqual((body['retry_after'], body['reset_after']), (0.2, 4))

    def test_never(self):
        with Server() as server:
            reply = server.check(cost=21)
            self.assertEqual(reply.status, 429)
            self.assertNotIn('retry-after', reply.fields, 'no wait can help')
            self.assertEqual(reply.json['type'], 'urn:weir:problem:cost-above-capacity')
            self.assertEqual(reply.json['decision'], 'never')

    def test_no_limit(self):
        with Server() as server:
            reply = server.check('{"path":"/x"}')
            self.assertEqual((reply.status, reply.json['limit'], reply.json['limits']), (200, None, []))
            self.assertFalse([name for name in reply.fields if name.startswith('ratelimit')])

    def test_peek_and_cost_zero_charge_nothing(self):
        with Server(virtual=True) as server:
            now = [('Weir-Now', 0)]
            self.assertEqual(server.check(mode='"peek"', headers=now, cost=5).json['decision'], 'allow')
            self.assertEqual(server.check(headers=now, cost=0).status, 200)
            self.assertEqual(server.check(headers=now, cost=20).status, 200, 'still whole')

    def test_status_200(self):
        with Server() as server:
            reply = server.ask('POST', '/v1/check?status=200', '{"attributes":{"tenant":"a"},"cost":21}')
            self.assertEqual((reply.status, reply.json['decision']), (200, 'never'))

    def test_all_or_nothing(self):
        """A refusal by one limit charges none."""
        with Server(NEVER_FILLS, virtual=True) as server:
            def post(cost):
                return server.check('{"tenant":"a","method":"POST"}', cost=cost, headers=[('Weir-Now', 0)])
            self.assertEqual(post(2).status, 200)
            refused = post(1)
            self.assertEqual((refused.status, refused.json['limit']), (429, 'writes'))
            reply = server.check('{"tenant":"a"}', headers=[('Weir-Now', 0)])
            self.assertEqual(reply.json['remaining'], 17)

    def test_B57_a_refusal_by_one_limit_charges_none(self):
        """1 per user and 10 for all: u1's 20 attempts spend one of the ten; u2..u10 pass; u11, u12 keep their own."""
        with Server(PER_USER_AND_ALL, virtual=True) as server:
            def ask(user, at=0):
                return server.check('{"user":"%s"}' % user, headers=[('Weir-Now', at)])
            self.assertEqual([ask('u1').status for _ in range(20)], [200] + [429] * 19)
            replies = [ask(f'u{i}') for i in range(2, 13)]
            self.assertEqual([r.status for r in replies], [200] * 9 + [429] * 2)
            self.assertEqual(replies[-1].json['limit'], 'all')
            self.assertEqual([ask('u11', 60 * 10**9).status, ask('u11', 60 * 10**9).status], [200, 429])

    def test_batch(self):
        with Server(virtual=True) as server:
            items = ','.join(['{"attributes":{"tenant":"a"},"cost":15}', '{"attributes":{"tenant":"a"},"cost":15}',
                              '{"attributes":{"tenant":"b"},"mode":"peek"}', '{"attributes":{}}'])
            reply = server.ask('POST', '/v1/check', f'{{"requests":[{items}]}}', [('Weir-Now', 0)])
            self.assertEqual(reply.status, 200)
            results = reply.json['results']
            self.assertEqual([r['status'] for r in results], [200, 429, 200, 200])
            self.assertEqual([r['decision'] for r in results], ['allow', 'deny', 'allow', 'allow'])
            self.assertEqual(results[1]['retry_after'], 2)

    def test_batch_of_nothing(self):
        with Server() as server:
            self.assertEqual(server.ask('POST', '/v1/check', '{"requests":[]}').json, {'results': []})

    def test_batch_of_1000_and_not_of_1001(self):
        with Server(virtual=True) as server:
            item = '{"attributes":{"tenant":"a"}}'
            reply = server.ask('POST', '/v1/check', '{"requests":[%s]}' % ','.join([item] * 1000),
                               [('Weir-Now', 0)])
            decisions = [r['decision'] for r in reply.json['results']]
            self.assertEqual(decisions, ['allow'] * 20 + ['deny'] * 980)
            reply = server.ask('POST', '/v1/check', '{"requests":[%s]}' % ','.join([item] * 1001))
            self.assertEqual(reply.status, 400)

    def test_batch_with_one_bad_item_charges_nothing(self):
        with Server(virtual=True) as server:
            good = '{"attributes":{"tenant":"a"},"cost":5}'
            bad = '{"attributes":{"tenant":"a"},"cost":-1}'
            reply = server.ask('POST', '/v1/check', '{"requests":[%s]}' % ','.join([good, good, good, bad]),
                               [('Weir-Now', 0)])
            self.assertEqual((reply.status, reply.json['field']), (400, 'requests[3].cost'))
            self.assertEqual(server.check('{"tenant":"a"}', headers=[('Weir-Now', 0)]).json['remaining'], 19)


class Auth(unittest.TestCase):
    CONTRACT = """
weir: 1
identity:
  proxies: [127.0.0.0/8]
  tenant: { from: "header:x-tenant" }
limits:
  - name: per-tenant
    when: { path: "/v1/**" }
    key: [tenant]
    rate: 5/s
    burst: 2
"""

    def walk(self, path, headers, statuses):
        with Server(self.CONTRACT, virtual=True) as server:
            replies = [server.ask('GET', path, headers=[('Weir-Now', 0), ('X-Tenant', 'a'), *headers])
                       for _ in statuses]
            self.assertEqual([reply.status for reply in replies], statuses)
            return replies

    def test_auth(self):
        allowed, _, refused = self.walk('/v1/auth', [('X-Forwarded-Uri', '/v1/items?x=1')], [200, 200, 429])
        self.assertEqual((allowed.body, allowed.fields['ratelimit-remaining']), (b'', '1'))
        self.assertEqual(refused.fields['retry-after'], '1')
        self.assertEqual(refused.json['limit'], 'per-tenant')

    def test_path_below_the_door(self):
        self.walk('/v1/auth/v1/items?x', [], [200, 200, 429])

    def test_nginx_door_says_403(self):
        replies = self.walk('/v1/auth-nginx', [('X-Original-URI', '/v1/items')], [200, 200, 403])
        self.assertEqual(replies[2].fields['retry-after'], '1')
        self.assertEqual(replies[2].fields['ratelimit-remaining'], '0')

    def test_accel_door_hands_back(self):
        replies = self.walk('/v1/auth-accel/v1/items', [('X-Original-URI', '/v1/items')], [200, 200, 429])
        self.assertEqual(replies[0].fields['x-accel-redirect'], '@app')
        self.assertNotIn('x-accel-redirect', replies[2].fields)

    def test_each_family_belongs_to_one_door(self):
        """Whichever family a proxy does not write, its client can: so each door reads its own only."""
        for path, foreign in [('/v1/auth/free', 'X-Original-URI'), ('/v1/auth-nginx/free', 'X-Forwarded-Uri'),
                              ('/v1/auth-accel/free', 'X-Forwarded-Uri')]:
            with Server(self.CONTRACT) as server:
                reply = server.ask('GET', path, headers=[('X-Tenant', 'a'), (foreign, '/v1/items')])
                self.assertEqual(reply.status, 200)
                self.assertNotIn('ratelimit-limit', reply.fields, f'{foreign} at {path}')

    def test_every_method_and_a_body_that_nobody_reads(self):
        with Server(self.CONTRACT) as server, server.connect() as connection:
            for method in ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'PROPFIND']:
                reply = connection.ask(method, '/v1/auth', b'GET /v1/check HTTP/1.1\r\n\r\n')
                self.assertEqual(reply.status, 200, method)
            connection.send('POST /v1/auth HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
                            '5\r\nhello\r\n0\r\n\r\n' + request('GET', '/healthz').decode())
            self.assertEqual([connection.reply().status, connection.reply().body], [200, b'ok\n'])

    def test_authorization_is_the_clients(self):
        with Server(self.CONTRACT, args=['--tokens', 'DIR/tokens'],
                    files={'tokens': ('check 0123456789abcdef0\n', 0o600)}) as server:
            reply = server.ask('GET', '/v1/auth', headers=[('Authorization', 'Bearer not-a-weir-token')])
            self.assertEqual(reply.status, 200)


class Others(unittest.TestCase):
    def test_limits(self):
        with Server() as server:
            for cost in [20, 20, 21]:
                server.check(cost=cost)
            body = server.ask('GET', '/v1/limits').json
            self.assertRegex(body['version'], '^[0-9a-f]{16}$')
            limit, = body['limits']
            self.assertEqual((limit['name'], limit['burst']), ('tenant-requests', 20))
            self.assertEqual(limit['counters'], {'allow': 1, 'deny': 1, 'never': 1, 'duplicate': 0,
                                                 'unmetered': 0, 'refused': 0, 'overflow': 0})

    def test_health(self):
        with Server() as server:
            self.assertEqual(server.ask('GET', '/healthz').status, 200)
            self.assertEqual(server.ask('GET', '/readyz').status, 200)

    def test_unknown_paths(self):
        with Server() as server:
            for path in ['/', '/v1', '/v1/', '/v1/checks', '/v1/check/', '/v1/authority', '//v1/check', '/V1/check',
                         '/v1/reserves', '/v1/reload/', '/v1/settle/x', '/healthz/x']:
                reply = server.ask('GET', path)
                self.assertEqual((reply.status, reply.json['status']), (404, 404), path)

    def test_wrong_methods_name_the_right_ones(self):
        with Server() as server:
            for method, path, allow in [('GET', '/v1/check', 'POST'), ('PUT', '/v1/check', 'POST'),
                                        ('GET', '/v1/reserve', 'POST'), ('GET', '/v1/reload', 'POST'),
                                        ('POST', '/v1/limits', 'GET, HEAD'), ('DELETE', '/metrics', 'GET, HEAD'),
                                        ('POST', '/healthz', 'GET, HEAD')]:
                reply = server.ask(method, path)
                self.assertEqual((reply.status, reply.fields['allow']), (405, allow), f'{method} {path}')

    def test_head_has_the_fields_without_the_body(self):
        with Server() as server, server.connect() as connection:
            for path in ['/healthz', '/readyz', '/metrics', '/v1/limits', '/v1/auth', '/nowhere', '/v1/check']:
                whole = connection.ask('GET', path)
                head = connection.ask('HEAD', path)
                self.assertEqual(head.status, whole.status, path)
                if path not in ('/metrics', '/v1/limits'):
                    self.assertEqual(head.fields['content-length'], whole.fields['content-length'], path)

    def test_http_1_0(self):
        """nginx's default towards upstreams: one request, then the end."""
        with Server() as server, server.connect() as connection:
            connection.send('GET /v1/auth HTTP/1.0\r\n\r\n')
            self.assertEqual(connection.reply().status, 200)
            self.assertTrue(connection.is_closed())

    def test_connection_close(self):
        with Server() as server, server.connect() as connection:
            reply = connection.ask('GET', '/healthz', headers=[('Connection', 'close')])
            self.assertEqual(reply.fields['connection'], 'close')
            self.assertTrue(connection.is_closed())


if __name__ == '__main__':
    unittest.main()
