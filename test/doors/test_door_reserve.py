# SPDX-License-Identifier: Apache-2.0
"""Costs that are known only afterwards: reserve, settle, cancel, refund; reset; and handles that are not ours.

Expected numbers are computed by hand, in the comments; time is virtual, so nothing refills unasked.
"""
import base64
import json
import os
import re
import unittest

from door import BUCKET, SOURCE, Server

S = 10**9

with open(os.path.join(SOURCE, 'include/weir.h')) as header:
    LONGEST = int(re.search(r'WEIR_RESERVATION_MAX (\d+)', header.read()).group(1))

# What a tenant may ask of a language model: 100,000 tokens a minute, 200,000 at once. What an answer will cost is known
# only when it is written, so each request says the most it may take.
INFERENCE = """
weir: 1
limits:
  - name: inference-tokens
    key: [tenant]
    missing-key: refuse
    rate: 100000/1m
    burst: 200000
    cost: { from: tokens, default: 500, max: 32000 }
    debt: 50000
"""


class Client:
    """Calls at virtual instants."""

    def __init__(self, server):
        self.server = server

    def post(self, path, body, at=0, headers=(), unix=None):
        body = body if isinstance(body, str) else json.dumps(body)
        return self.server.ask('POST', path, body, [('Weir-Now', str(round(at * S))), *headers], unix=unix)

    def reserve(self, at=0, cost=None, path='/v1/reserve', expires_after=None, **attributes):
        body = {'attributes': {'tenant': 'acme', **attributes}}
        if cost is not None:
            body['cost'] = cost
        if expires_after is not None:
            body['expires_after'] = expires_after
        return self.post(path, body, at)

    def settle(self, reservation, cost, at=0):
        return self.post('/v1/settle', {'reservation': reservation, 'cost': cost}, at)

    def cancel(self, reservation, at=0):
        return self.post('/v1/cancel', {'reservation': reservation}, at)

    def remaining(self, at=0, **attributes):
        return self.post('/v1/check?status=200', {'attributes': {'tenant': 'acme', **attributes}, 'mode': 'peek'},
                         at).json['limits'][0]['remaining']


def numbers(reply, *names):
    assert reply.status == 200, reply.body
    return tuple(reply.json[name] for name in names)


class Inference(unittest.TestCase):
    def test_the_story_in_numbers(self):
        with Server(INFERENCE, virtual=True) as server:
            client = Client(server)
            held = []
            for left in [168000, 136000, 104000]:
                reply = client.reserve(tokens=32000)
                self.assertEqual(numbers(reply, 'decision', 'remaining', 'expires_after'), ('allow', left, 600))
                held.append(reply.json['reservation'])

            # At 6 s 10,000 are back: 86,000 used. 12,000 of 32,000: 20,000 come back, 66,000 used.
            self.assertEqual(numbers(client.settle(held[0], 12000, 6), 'charged', 'returned', 'dropped', 'remaining'),
                             (0, 20000, 0, 134000))
            # 40,000 instead of 32,000: 8,000 more, 74,000 used.
            self.assertEqual(numbers(client.settle(held[1], 40000, 6), 'charged', 'returned', 'dropped', 'remaining'),
                             (8000, 0, 0, 126000))
            # The third did not happen: 42,000 used.
            self.assertEqual(numbers(client.cancel(held[2], 6), 'returned', 'remaining'), (32000, 158000))

            # Four more: 170,000 used. One of them costs 132,000: of 100,000 more 80,000 fit under the debt.
            last = [client.reserve(6, tokens=32000).json for _ in range(4)]
            self.assertEqual(last[3]['remaining'], 30000)
            self.assertEqual(numbers(client.settle(last[3]['reservation'], 132000, 6), 'charged', 'returned', 'dropped',
                                     'remaining', 'limit', 'repeated'),
                             (80000, 0, 20000, 0, 'inference-tokens', False))
            self.assertEqual(server.metric('weir_debt_lost_total'), 20000)

            # 250,000 used. 500, the default, fit when 199,500 are: 50,500 tokens at 100,000 a minute are 30.3 s.
            reply = client.reserve(6)
            self.assertEqual((reply.status, reply.json['retry_after'], reply.json['reservation'],
                              reply.json['expires_after']), (429, 30.3, None, None))
            self.assertEqual(client.reserve(36.299999999).status, 429, 'one nanosecond early')
            self.assertEqual(client.reserve(36.3).status, 200)

    def test_estimates_out_of_range(self):
        with Server(INFERENCE, virtual=True) as server:
            client = Client(server)
            reply = client.reserve(tokens=32001)
            self.assertEqual((reply.status, reply.json['decision'], reply.json['reservation']), (429, 'never', None))
            reply = client.reserve(tokens='many')
            self.assertEqual((reply.status, reply.json['field']), (400, 'attributes.tokens'))
            reply = client.reserve(tenant='')
            self.assertEqual((reply.json['decision'], reply.json['reason']), ('never', 'missing-key'))
            self.assertEqual(client.remaining(), 200000, 'nothing was charged')
            reply = client.reserve(path='/v1/reserve?status=200', tokens=32001)
            self.assertEqual((reply.status, reply.json['decision'], reply.json['reservation']), (200, 'never', None))

    def test_the_cost_of_the_call_is_the_estimate_elsewhere(self):
        with Server(BUCKET, virtual=True) as server:
            client = Client(server)
            reply = client.reserve(cost=15)
            self.assertEqual(numbers(reply, 'decision', 'remaining'), ('allow', 5))
            self.assertEqual(numbers(client.settle(reply.json['reservation'], 4), 'returned', 'remaining'), (11, 16))
            self.assertEqual(client.reserve(cost=17).status, 429)
            self.assertEqual(client.remaining(), 16)


class Once(unittest.TestCase):
    def test_B27_a_second_settlement_changes_nothing(self):
        with Server(BUCKET, virtual=True) as server:
            client = Client(server)
            for why, first, second in [('settle, settle', ('settle', 2), ('settle', 9)),
                                       ('settle, cancel', ('settle', 2), ('cancel', None)),
                                       ('cancel, cancel', ('cancel', None), ('cancel', None)),
                                       ('cancel, settle', ('cancel', None), ('settle', 9))]:
                with self.subTest(why):
                    client.post('/v1/reset', {'limit': 'tenant-requests', 'key': {'tenant': 'acme'}},
                                unix='admin.sock')
                    held = client.reserve(cost=5).json['reservation']
                    client.reserve(cost=10)
                    left = 13 if first[0] == 'settle' else 10

                    def finish(call, cost):
                        return client.settle(held, cost) if call == 'settle' else client.cancel(held)
                    expected = 5 - (first[1] or 0)
                    self.assertEqual(numbers(finish(*first), 'returned', 'repeated'), (expected, False))
                    before = client.remaining()
                    self.assertEqual(before, 20 - 10 - (first[1] or 0))
                    for _ in range(2):
                        reply = finish(*second)
                        self.assertEqual(numbers(reply, 'returned', 'remaining', 'repeated'), (0, before, True))
                        self.assertEqual(reply.json.get('charged', 0), 0)
                    self.assertEqual(client.remaining(), before, left)

    def test_B27_full_amounts_come_back(self):
        """(a) capacity 20, 10 per s: reserve 15, then 10 less what is there, then cancel: nothing is lost to rounding."""
        with Server(BUCKET.replace('5/s', '10/s'), virtual=True) as server:
            client = Client(server)
            client.reserve(0, cost=15)
            held = client.reserve(0.1, cost=6).json['reservation']  # 15 - 1 + 6 = 20 used
            self.assertEqual(client.reserve(0.1, cost=1).status, 429)
            # At 0.25 s 1.5 more are back: 18.5 used, 12.5 without the reservation.
            self.assertEqual(numbers(client.cancel(held, 0.25), 'returned', 'remaining'), (6, 7))
            self.assertEqual(client.reserve(0.25, cost=8).status, 429)
            self.assertEqual(numbers(client.reserve(0.25, cost=7), 'remaining'), (0,))
            # (c) after it was whole again a late cancel gives nothing.
            late = client.reserve(10, cost=3).json['reservation']
            self.assertEqual(numbers(client.cancel(late, 20), 'returned', 'remaining'), (0, 20))

    def test_B27_reserve_three_cancel_three(self):
        for rate in [7, 30, 60, 100]:
            with self.subTest(rate), Server(BUCKET.replace('5/s', f'{rate}/s').replace('20', '3'),
                                            virtual=True) as server:
                client = Client(server)
                held = [client.reserve(5, cost=1).json['reservation'] for _ in range(3)]
                for reservation in reversed(held):
                    self.assertEqual(numbers(client.cancel(reservation, 5), 'returned'), (1,))
                self.assertEqual(numbers(client.reserve(5, cost=3), 'decision', 'remaining'), ('allow', 0))


class Handles(unittest.TestCase):
    def refused(self, reply, status):
        self.assertEqual((reply.status, reply.json['field']), (status, 'reservation'), reply.text)

    def test_what_is_not_ours_changes_nothing(self):
        with Server(BUCKET, virtual=True) as server, Server(BUCKET, virtual=True) as other:
            client = Client(server)
            held = client.reserve(cost=5).json['reservation']
            raw = base64.urlsafe_b64decode(held + '=' * (-len(held) % 4))
            self.assertEqual(base64.urlsafe_b64encode(raw).rstrip(b'=').decode(), held)

            def text(data):
                return base64.urlsafe_b64encode(bytes(data)).rstrip(b'=').decode()
            for i in range(len(raw)):
                for bit in range(8):
                    forged = bytearray(raw)
                    forged[i] ^= 1 << bit
                    self.refused(client.settle(text(forged), 0), 404)
            for cut in range(1, len(raw)):
                self.refused(client.cancel(text(raw[:cut])), 404)
            for more in [b'\0', raw, bytes(LONGEST - len(raw))]:
                self.refused(client.cancel(text(raw + more)), 404)
            self.refused(client.cancel(text(raw + bytes(LONGEST + 1 - len(raw)))), 400)
            for bad in ['', '=', held + '=', held + '\\n', ' ' + held, held[:-1] + '*', held.replace(held[0], '/', 1)]:
                self.refused(client.post('/v1/cancel', f'{{"reservation":"{bad}"}}'), 400)
            self.refused(Client(other).settle(held, 0), 404)
            self.assertEqual(client.remaining(), 15)
            self.assertEqual(numbers(client.settle(held, 0), 'returned'), (5,))

    def test_expiry(self):
        with Server(BUCKET.replace('5/s', '1/1h'), virtual=True) as server:
            client = Client(server)
            for asked, good, bad in [(60, 59.999999999, 60.000000001), (0.5, 0.499999999, 0.500000001)]:
                first, second = (client.reserve(cost=2, expires_after=asked).json for _ in range(2))
                self.assertEqual(first['expires_after'], asked)
                self.refused(client.settle(first['reservation'], 0, bad), 404)
                self.assertEqual(numbers(client.settle(second['reservation'], 0, good), 'returned'), (2,))
            self.assertEqual(client.remaining(61), 16, 'what is never settled stays consumed')

    def test_a_request_that_meets_no_limit(self):
        """Whatever was answered can be sent back: a caller need not know whether some limit applied."""
        with Server(BUCKET, virtual=True) as server:
            client = Client(server)
            reply = client.post('/v1/reserve', '{"attributes":{}}')
            self.assertEqual((reply.status, reply.json['limit']), (200, None))
            if reply.json['reservation'] is not None:
                self.assertEqual(numbers(client.settle(reply.json['reservation'], 7), 'charged', 'limit'), (0, None))


class Operators(unittest.TestCase):
    def test_refund(self):
        with Server(INFERENCE, virtual=True) as server:
            client = Client(server)
            client.post('/v1/check', {'attributes': {'tenant': 'acme', 'tokens': 30000}})
            body = {'attributes': {'tenant': 'acme'}, 'cost': 10000}
            self.assertEqual(numbers(client.post('/v1/refund', body), 'returned', 'remaining', 'limit'),
                             (10000, 180000, 'inference-tokens'))
            body['cost'] = 10**9
            self.assertEqual(numbers(client.post('/v1/refund', body), 'returned', 'remaining'), (20000, 200000),
                             'never above the capacity')

    def test_reset(self):
        with Server(BUCKET, virtual=True) as server:
            client = Client(server)
            client.reserve(cost=20)
            for why, body, status, field in [
                    ('an unknown limit', {'limit': 'x', 'key': {'tenant': 'acme'}}, 404, 'limit'),
                    ('not its key', {'limit': 'tenant-requests', 'key': {'path': '/'}}, 400, 'key.path'),
                    ('half a key', {'limit': 'tenant-requests', 'key': {}}, 400, 'key'),
                    ('no key', {'limit': 'tenant-requests'}, 400, 'key')]:
                reply = client.post('/v1/reset', body, unix='admin.sock')
                self.assertEqual((reply.status, reply.json['field']), (status, field), why)
            self.assertEqual(client.remaining(), 0)
            body = {'limit': 'tenant-requests', 'key': {'tenant': 'acme'}}
            self.assertEqual(client.post('/v1/reset', body, unix='admin.sock').status, 204)
            self.assertEqual(client.remaining(), 20)

    def test_roles(self):
        check, admin = '0123456789abcdef-check', '0123456789abcdef-admin'
        tokens = f'check {check}\nadmin {admin}\n'
        calls = [('/v1/reserve', '{"attributes":{}}', 200, False), ('/v1/settle', '{"reservation":"AA","cost":1}', 404, False),
                 ('/v1/cancel', '{"reservation":"AA"}', 404, False),
                 ('/v1/refund', '{"attributes":{},"cost":1}', 200, False),
                 ('/v1/reset', '{"limit":"tenant-requests","key":{"tenant":"a"}}', 204, True),
                 ('/v1/reload', '', 200, True)]
        with Server(args=['--tokens', 'DIR/tokens'], files={'tokens': (tokens, 0o600)}) as server:
            client = Client(server)
            for path, body, good, is_admin in calls:
                for secret, expected in [(None, 401), (check, 403 if is_admin else good), (admin, good),
                                         (admin + 'x', 401)]:
                    headers = [] if secret is None else [('Authorization', f'Bearer {secret}')]
                    self.assertEqual(client.post(path, body, headers=headers).status, expected, (path, secret))
                self.assertEqual(client.post(path, body, unix='admin.sock').status, good, path)
        with Server() as server:
            client = Client(server)
            for path, body, good, is_admin in calls:
                self.assertEqual(client.post(path, body).status, 403 if is_admin else good, f'{path} without tokens')

    def test_bodies(self):
        with Server(virtual=True) as server:
            client = Client(server)
            for path, body, field in [('/v1/reserve', '{"attributes":{},"mode":"peek"}', 'mode'),
                                      ('/v1/reserve', '{"attributes":{"path":"/%zz"}}', 'attributes.path'),
                                      ('/v1/settle', '{"reservation":"AA"}', 'cost'),
                                      ('/v1/cancel', '{"reservation":"AA","cost":1}', 'cost'),
                                      ('/v1/refund', '{"attributes":{"path":"/%zz"},"cost":1}', 'attributes.path'),
                                      ('/v1/refund', '{"attributes":{},"cost":-1}', 'cost')]:
                reply = client.post(path, body)
                self.assertEqual((reply.status, reply.json['field']), (400, field), path)


class Late(unittest.TestCase):
    def test_reservations_wait_in_line(self):
        """Answers that come late and in any order still carry each its own reservation, in the order of the requests."""
        with Server(BUCKET, virtual=True, env={'WEIR_TEST_LATE': '7:20'}) as server, server.connect() as connection:
            body = '{"attributes":{"tenant":"acme"},"cost":1}'
            head = f'POST /v1/reserve HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n'
            connection.send((head + body) * 25)
            replies = [connection.reply() for _ in range(25)]
            self.assertEqual([r.status for r in replies], [200] * 20 + [429] * 5)
            self.assertEqual([r.json['remaining'] for r in replies], [*range(19, -1, -1)] + [0] * 5)
            held = [r.json['reservation'] for r in replies[:20]]
            self.assertEqual(len(set(held)), 20)
            client = Client(server)
            for i, reservation in enumerate(held):
                self.assertEqual(numbers(client.cancel(reservation), 'returned', 'remaining'), (1, i + 1))


if __name__ == '__main__':
    unittest.main()
