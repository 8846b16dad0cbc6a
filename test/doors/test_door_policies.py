# SPDX-License-Identifier: Apache-2.0
"""What a limit says of itself over HTTP: enforcement, the look of a refusal, overrides, retries, reply fields."""
import json
import unittest

from door import Server

S = 10**9


def contract(*limits, headers=None):
    head = 'weir: 1\n' + (f'headers: {headers}\n' if headers else '') + 'limits:\n'
    return head + ''.join(f'  - {{ {limit} }}\n' for limit in limits)


LIMIT = 'name: one, key: [tenant], missing-key: share, rate: 1/1h, burst: 2'
WATCHED = 'name: two, key: [tenant], missing-key: share, rate: 1/1h, burst: 1'


def check(server, at=0, path='/v1/check', **attributes):
    return server.ask('POST', path, json.dumps({'attributes': {'tenant': 'acme', **attributes}}),
                      [('Weir-Now', str(round(at * S)))])


def allowed(server, limit):
    return server.metric(f'weir_decisions_total{{limit="{limit}",decision="allow"}}')


def shadow(server, limit, decision):
    return server.metric(f'weir_shadow_total{{limit="{limit}",decision="{decision}"}}')


class Enforcement(unittest.TestCase):
    def test_shadow_tells_and_does_not_refuse(self):
        with Server(contract(LIMIT, WATCHED + ', enforce: shadow'), virtual=True) as server:
            replies = [check(server) for _ in range(3)]
            self.assertEqual([r.status for r in replies], [200, 200, 429])
            self.assertEqual([r.json['limit'] for r in replies], ['one'] * 3)
            self.assertEqual([[(l['limit'], l['decision'], l.get('enforced')) for l in r.json['limits']] for r in replies],
                             [[('one', 'allow', None), ('two', 'allow', False)],
                              [('one', 'allow', None), ('two', 'deny', False)],
                              [('one', 'deny', None), ('two', 'deny', False)]])
            self.assertEqual(replies[2].json['violated-policies'], ['one'])
            self.assertEqual(replies[1].fields['ratelimit-limit'], '2', 'the fields are the binding limit\'s')
            self.assertEqual(allowed(server, 'one'), 2)
            self.assertEqual((allowed(server, 'two'), shadow(server, 'two', 'allow')), (0, 1))
            self.assertGreaterEqual(shadow(server, 'two', 'deny'), 1)
            two = server.ask('GET', '/v1/limits').json['limits'][1]
            self.assertEqual(two['counters']['allow'], 0)
            self.assertEqual(two['counters']['shadow']['allow'], 1)

    def test_alone_in_the_shadow(self):
        with Server(contract(WATCHED + ', enforce: shadow'), virtual=True) as server:
            for _ in range(3):
                reply = check(server)
                self.assertEqual((reply.status, reply.json['decision'], reply.json['limit']), (200, 'allow', None))
                self.assertNotIn('ratelimit-limit', reply.fields)
            self.assertEqual(server.metric('weir_decisions_total{limit="",decision="allow"}'), 3)
            self.assertEqual(shadow(server, 'two', 'deny'), 2)

    def test_off_is_not_met(self):
        with Server(contract(LIMIT, WATCHED + ', enforce: off'), virtual=True) as server:
            reply = check(server)
            self.assertEqual([limit['limit'] for limit in reply.json['limits']], ['one'])

    def test_a_share_of_keys(self):
        """Which keys are in the share is fixed by the key, and about as many as it says are."""
        with Server(contract(WATCHED + ', enforce: 30%'), virtual=True) as server:
            enforced = 0
            for i in range(200):
                first, second, third = (check(server, tenant=f't{i}') for _ in range(3))
                self.assertEqual(first.status, 200)
                self.assertEqual(second.status, third.status)
                self.assertEqual(second.status == 200, second.json['limits'][0].get('enforced') is False)
                enforced += second.status == 429
            self.assertTrue(25 <= enforced <= 95, enforced)  # 60 expected; five standard deviations are 32
            self.assertEqual(shadow(server, 'two', 'allow'), 200 - enforced)

    def test_watched_limits_are_in_no_draft_field(self):
        with Server(contract(LIMIT, WATCHED + ', enforce: shadow', headers='draft'), virtual=True) as server:
            fields = check(server).fields
            self.assertEqual(fields['ratelimit-policy'], '"one";q=2;w=7200')
            self.assertEqual(fields['ratelimit'], '"one";r=1;t=3600')


class Looks(unittest.TestCase):
    def test_the_binding_limit_says_how_it_refuses(self):
        paid = ("name: plan, key: [tenant], rate: 1/1h, burst: 2, "
                "reply: { status: 402, title: 'The \"free\" plan is used up', detail: 'See https://example.test/plans' }")
        with Server(contract(paid, 'name: all, key: [], rate: 1/1h, burst: 5'), virtual=True) as server:
            for _ in range(2):
                check(server)
            reply = check(server)
            self.assertEqual((reply.status, reply.reason), (402, 'Payment Required'))
            self.assertEqual((reply.json['status'], reply.json['title'], reply.json['detail']),
                             (402, 'The "free" plan is used up', 'See https://example.test/plans'))
            self.assertEqual(reply.json['type'], 'https://iana.org/assignments/http-problem-types#quota-exceeded')
            self.assertEqual((reply.json['decision'], reply.fields['retry-after']), ('deny', '3600'))
            self.assertEqual(check(server, path='/v1/check?status=200').status, 200)
            batch = server.ask('POST', '/v1/check', '{"requests":[{"attributes":{"tenant":"acme"}}]}',
                               [('Weir-Now', '0')]).json['results']
            self.assertEqual(batch[0]['status'], 402)
            self.assertEqual(server.metric('weir_requests_total{door="check",code="402"}'), 1)
            for _ in range(2):
                check(server, tenant='b')
            check(server, tenant='c')
            reply = check(server, tenant='d')
            self.assertEqual((reply.status, reply.json['limit'], reply.json['title']), (429, 'all', 'Too many requests'))

    def test_at_the_doors_of_proxies(self):
        teapot = 'name: a, key: [path], rate: 1/1h, burst: 1, reply: { status: 418, detail: later }'
        with Server(contract(teapot), virtual=True) as server:
            for path, status in [('/v1/auth', 418), ('/v1/auth-nginx', 403), ('/v1/auth-accel', 418)]:
                at = [('Weir-Now', '0')]
                self.assertEqual(server.ask('GET', path + '/x' + str(status) + path[-3:], headers=at).status, 200)
                reply = server.ask('GET', path + '/x' + str(status) + path[-3:], headers=at)
                self.assertEqual((reply.status, reply.json['status'], reply.json['detail']), (status, status, 'later'))


class Overrides(unittest.TestCase):
    def test_sizes_of_their_own(self):
        limit = (LIMIT + ', overrides: [ { key: { tenant: big }, rate: 100/1h, burst: 100 },'
                         ' { key: { tenant: free }, unlimited: true } ]')
        with Server(contract(limit, headers='draft'), virtual=True) as server:
            reply = check(server, tenant='big')
            self.assertEqual((reply.json['capacity'], reply.json['remaining']), (100, 99))
            self.assertTrue(reply.fields['ratelimit-policy'].startswith('"one";q=100'))
            reply = check(server, tenant='free')
            self.assertEqual((reply.status, reply.json['decision'], reply.json['capacity'], reply.json['remaining']),
                             (200, 'allow', None, None))
            self.assertNotIn('ratelimit', reply.fields)
            self.assertEqual(check(server).json['capacity'], 2)


class Retries(unittest.TestCase):
    def test_a_repeated_request_is_a_duplicate(self):
        limit = LIMIT + ', retries: { free-within: 60s, by: request-id }'
        with Server(contract(limit), virtual=True) as server:
            first = check(server, **{'request-id': 'r1'})
            self.assertEqual((first.json['decision'], first.json['remaining']), ('allow', 1))
            for _ in range(3):
                again = check(server, 1, **{'request-id': 'r1'})
                self.assertEqual((again.status, again.json['decision'], again.json['remaining'],
                                  again.json['retry_after']), (200, 'duplicate', 1, 0))
            self.assertEqual(check(server, 1, **{'request-id': 'r2'}).json['remaining'], 0)
            self.assertEqual(check(server, 1, **{'request-id': 'r3'}).status, 429)
            self.assertEqual(server.metric('weir_decisions_total{limit="one",decision="duplicate"}'), 3)
            self.assertEqual(allowed(server, 'one'), 2)


class Fields(unittest.TestCase):
    def test_each_form(self):
        for headers, expected in [
                ('trio', {'ratelimit-limit': '2', 'ratelimit-remaining': '1', 'ratelimit-reset': '3600'}),
                ('x-ratelimit', {'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': '3600'}),
                ('draft', {'ratelimit-policy': '"one";q=2;w=7200, "wide";q=50;w=60',
                           'ratelimit': '"one";r=1;t=3600, "wide";r=49;t=60'}),
                ('none', {})]:
            wide = 'name: wide, key: [], rate: 50/1m, algorithm: fixed-window'
            with Server(contract(LIMIT, wide, headers=headers), virtual=True) as server:
                found = {name: value for name, value in check(server).fields.items() if 'ratelimit' in name}
                self.assertEqual(found, expected, headers)

    def test_a_reload_changes_the_form(self):
        with Server(contract(LIMIT), virtual=True) as server:
            self.assertIn('ratelimit-limit', check(server).fields)
            with open(server.contract, 'w') as file:
                file.write(contract(LIMIT, headers='x-ratelimit'))
            self.assertEqual(server.ask('POST', '/v1/reload', unix='admin.sock').status, 200)
            self.assertIn('x-ratelimit-limit', check(server).fields)


if __name__ == '__main__':
    unittest.main()
