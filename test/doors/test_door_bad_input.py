# SPDX-License-Identifier: Apache-2.0
"""Bad input: a clear 4xx, nothing charged, the process alive, and no request hidden inside another."""
import unittest

from door import BUCKET, Server, request

NOW = ('Weir-Now', 0)

# Only attributes that some limit reads are brought into their one spelling.
READS_PATH_AND_IP = BUCKET + """
  - name: elsewhere
    when: { path: "/elsewhere" }
    key: [ip]
    rate: 1/s
    burst: 1
"""

ATTRIBUTE = '{"attributes":{"tenant":%s}}'
COST = '{"attributes":{"tenant":"a"},"cost":%s}'

# why, body, field named by the answer
BODIES = [
    ('no body', '', None),
    ('not JSON', 'tenant=a', None),
    ('cut', '{"attributes":{"tenant":"a"}', None),
    ('text behind it', '{"attributes":{"tenant":"a"}} x', None),
    ('a list', '[]', None),
    ('nothing asked', '{}', None),
    ('an unknown member', '{"attributes":{"tenant":"a"},"costs":1}', 'costs'),
    ('a member twice', '{"attributes":{"tenant":"a"},"cost":1,"cost":1}', None),
    ('an attribute twice', '{"attributes":{"tenant":"a","tenant":"b"}}', None),
    ('attributes of the wrong type', '{"attributes":7}', 'attributes'),
    ('a comma too many', '{"attributes":{"tenant":"a"},}', None),
    ('bytes that are no UTF-8', b'{"attributes":{"tenant":"\xff"}}', None),
    ('half a surrogate pair', ATTRIBUTE % '"\\ud800"', None),
    ('a NUL in a key', ATTRIBUTE % '"a\\u0000b"', 'attributes.tenant'),
    ('a line end in a key', ATTRIBUTE % '"a\\nb"', 'attributes.tenant'),
    ('a bare line end in a key', ATTRIBUTE % '"a\nb"', None),
    ('a key of 10 KB', ATTRIBUTE % ('"' + 'k' * 10240 + '"'), 'attributes.tenant'),
    ('a fractional key', ATTRIBUTE % '1.5', 'attributes.tenant'),
    ('a null key', ATTRIBUTE % 'null', 'attributes.tenant'),
    ('a nested key', ATTRIBUTE % '{"a":"b"}', 'attributes.tenant'),
    ('cost -1', COST % '-1', 'cost'),
    ('cost 1e3', COST % '1e3', 'cost'),
    ('cost 1.0', COST % '1.0', 'cost'),
    ('cost 2^63', COST % '9223372036854775808', 'cost'),
    ('cost -2^63 - 1', COST % '-9223372036854775809', 'cost'),
    ('cost ""', COST % '""', 'cost'),
    ('cost "1"', COST % '"1"', 'cost'),
    ('cost true', COST % 'true', 'cost'),
    ('cost null', COST % 'null', 'cost'),
    ('cost 01', COST % '01', None),
    ('cost +1', COST % '+1', None),
    ('cost NaN', COST % 'NaN', None),
    ('an unknown mode', '{"attributes":{"tenant":"a"},"mode":"steal"}', 'mode'),
    ('a negative wait', '{"attributes":{"tenant":"a"},"wait":-1}', 'wait'),
    ('33 attributes', '{"attributes":{%s}}' % ','.join(f'"a{i}":"b"' for i in range(33)), None),
    ('deep nesting', '[' * 5000, None),
    ('a batch within a batch', '{"requests":[{"requests":[]}]}', None),
    ('a batch and a request', '{"requests":[{"attributes":{"tenant":"a"}}],"cost":1}', None),
    ('a bad escape in a path', '{"attributes":{"tenant":"a","path":"/%zz"}}', 'attributes.path'),
    ('an address that is none', '{"attributes":{"tenant":"a","ip":"1.2.3"}}', 'attributes.ip'),
]

LINE = 'POST /v1/check HTTP/1.1\r\n'
BODY = '{"attributes":{"tenant":"a"}}'
HIDDEN = 'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 29\r\n\r\n' + BODY

# why, bytes; each is refused with 400 (or the status given) and the end of the connection
HEADS = [
    ('bare LF', 'GET /healthz HTTP/1.1\nHost: x\n\n', 400),
    ('bare CR', 'GET /healthz HTTP/1.1\r\nHost: x\rX: y\r\n\r\n', 400),
    ('folded line', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n', 400),
    ('blank before the colon', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n', 400),
    ('no colon', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX\r\n\r\n', 400),
    ('no host', 'GET /healthz HTTP/1.1\r\n\r\n', 400),
    ('two hosts', 'GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n', 400),
    ('NUL in a value', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n', 400),
    ('blank in the target', 'GET /health z HTTP/1.1\r\nHost: x\r\n\r\n', 400),
    ('not HTTP', '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n', 400),
    ('HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505),
    ('a length and a coding', LINE + 'Host: x\r\nContent-Length: 29\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
     + HIDDEN, 400),
    ('two lengths', LINE + 'Host: x\r\nContent-Length: 29\r\nContent-Length: 30\r\n\r\n' + HIDDEN, 400),
    ('a list of lengths', LINE + 'Host: x\r\nContent-Length: 29, 29\r\n\r\n' + BODY + HIDDEN, 400),
    ('a signed length', LINE + 'Host: x\r\nContent-Length: +29\r\n\r\n' + BODY + HIDDEN, 400),
    ('a negative length', LINE + 'Host: x\r\nContent-Length: -1\r\n\r\n' + HIDDEN, 400),
    ('a length in hex', LINE + 'Host: x\r\nContent-Length: 0x1d\r\n\r\n' + BODY + HIDDEN, 400),
    ('a length of 20 digits', LINE + 'Host: x\r\nContent-Length: 99999999999999999999\r\n\r\n' + HIDDEN, 400),
    ('another coding', LINE + 'Host: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n' + HIDDEN, 501),
    ('a disguised coding', LINE + 'Host: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n' + HIDDEN, 501),
    ('two codings', LINE + 'Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
     + HIDDEN, 400),
    ('a coding in 1.0', 'POST /v1/check HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + HIDDEN, 400),
    ('a chunk size with a sign', LINE + 'Host: x\r\nTransfer-Encoding: chunked\r\n\r\n+1d\r\n' + BODY + HIDDEN, 400),
    ('a chunk size with 0x', LINE + 'Host: x\r\nTransfer-Encoding: chunked\r\n\r\n0x1d\r\n' + BODY + HIDDEN, 400),
    ('a chunk without its end', LINE + 'Host: x\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n' + BODY + 'xx0\r\n\r\n'
     + HIDDEN, 400),
    ('a chunk size that wraps', LINE + 'Host: x\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\n' + HIDDEN,
     400),
    ('101 fields', 'GET /healthz HTTP/1.1\r\nHost: x\r\n' + 'X: y\r\n' * 100 + '\r\n', 431),
    ('a head over 32 KiB', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX: ' + 'y' * 33000 + '\r\n\r\n', 431),
    ('an endless head', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX: ' + 'y' * 200000, 431),
]


class Bodies(unittest.TestCase):
    def test_bad_bodies(self):
        for env in [{}, {'WEIR_TEST_LATE': '5:1'}]:
            self.refuse_bodies(env)

    def refuse_bodies(self, env):
        with Server(READS_PATH_AND_IP, virtual=True, env=env) as server, server.connect() as connection:
            for why, body, field in BODIES:
                with self.subTest(why):
                    reply = connection.ask('POST', '/v1/check', body, [NOW])
                    self.assertEqual(reply.status, 400)
                    self.assertEqual(reply.fields['content-type'], 'application/problem+json')
                    problem = reply.json
                    self.assertEqual(problem['status'], 400)
                    self.assertGreater(len(problem['detail']), 10)
                    if field is not None:
                        self.assertEqual(problem.get('field'), field)
            reply = server.check('{"tenant":"a"}', headers=[NOW])
            self.assertEqual(reply.json['remaining'], 19, 'nothing was charged')

    def test_more_limits_than_a_request_may_meet(self):
        """A contract's mistake: at /v1/check the caller can narrow its attributes, a proxy's client cannot."""
        limits = ''.join(f'  - name: l{i}\n    key: []\n    rate: 1/s\n    burst: 1\n' for i in range(65))
        with Server('weir: 1\nlimits:\n' + limits) as server:
            reply = server.check('{}')
            self.assertEqual(reply.status, 400)
            self.assertIn('more than 64 limits', reply.json['detail'])
            reply = server.ask('POST', '/v1/check', '{"requests":[{"attributes":{}}]}')
            self.assertEqual(reply.status, 400)
            self.assertEqual(server.ask('GET', '/v1/auth').status, 500)
            self.assertIn('event=undecidable door=auth code=WEIR_ERR_ASKS', server.log())

    def test_1_MiB_and_one_byte_more(self):
        blanks = b' ' * ((1 << 20) - len(BODY))
        with Server(virtual=True) as server, server.connect() as connection:
            reply = connection.ask('POST', '/v1/check', BODY.encode() + blanks, [NOW])
            self.assertEqual(reply.status, 200)
            connection.send(request('POST', '/v1/check', b'', [NOW]).replace(b'Content-Length: 0',
                                                                             b'Content-Length: 1048577'))
            self.assertEqual(connection.reply().status, 413, 'refused before it is sent')
            self.assertTrue(connection.is_closed())

    def test_chunked_body_over_1_MiB(self):
        with Server() as server, server.connect() as connection:
            connection.send(LINE + 'Host: x\r\nTransfer-Encoding: chunked\r\n\r\n' + '100000\r\n' + ' ' * 0x100000
                            + '\r\n1\r\n')
            self.assertEqual(connection.reply().status, 413)
            self.assertTrue(connection.is_closed())

    def test_auth_bodies_are_bounded_too(self):
        with Server() as server, server.connect() as connection:
            connection.send('PUT /v1/auth HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n')
            self.assertEqual(connection.reply().status, 413)

    def test_expect_100_continue(self):
        with Server() as server, server.connect() as connection:
            head = LINE + f'Host: x\r\nExpect: 100-continue\r\nContent-Length: {len(BODY)}\r\n\r\n'
            connection.send(request('GET', '/healthz').decode() + head)
            self.assertEqual(connection.reply().body, b'ok\n', 'the earlier reply comes first')
            self.assertEqual(connection.reply().status, 100)
            connection.send(BODY)
            self.assertEqual(connection.reply().status, 200)
            connection.send(head + BODY)
            self.assertEqual(connection.reply().status, 200, 'the body is here: nothing to continue')

    def test_expect_where_nobody_reads_the_body(self):
        """A final answer instead of `100 Continue`, and the end: the body may come or not."""
        with Server() as server:
            for line in ['POST /v1/auth', 'POST /nowhere']:
                with server.connect() as connection:
                    connection.send(line + ' HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n')
                    reply = connection.reply()
                    self.assertNotEqual(reply.status, 100)
                    self.assertEqual(reply.fields['connection'], 'close')
                    self.assertTrue(connection.is_closed())


class Heads(unittest.TestCase):
    def test_refused_heads(self):
        with Server(virtual=True) as server:
            for why, data, status in HEADS:
                with self.subTest(why), server.connect() as connection:
                    connection.send(data.encode('latin-1'))
                    reply = connection.reply()
                    self.assertEqual(reply.status, status, reply.text)
                    self.assertEqual(reply.fields.get('connection'), 'close')
                    self.assertGreater(len(reply.json['detail']), 10)
                    self.assertTrue(connection.is_closed(), 'no second answer: nothing was smuggled')
            reply = server.check('{"tenant":"a"}', headers=[NOW])
            self.assertEqual(reply.json['remaining'], 19, 'nothing was charged')

    def test_the_requests_before_a_bad_one_are_answered(self):
        with Server(hooked=True, env={'WEIR_TEST_LATE': '1:5'}) as server, server.connect() as connection:
            connection.send(request('POST', '/v1/check', BODY) * 3 + b'GET / HTTP/9.9\r\n\r\n')
            self.assertEqual([connection.reply().status for _ in range(4)][:3], [200] * 3)
            self.assertTrue(connection.is_closed())

    def test_oddities_that_are_fine(self):
        with Server() as server, server.connect() as connection:
            connection.send('\r\nGET /healthz HTTP/1.1\r\nhOST:x\r\nX:\r\nY: \t a b \t\r\n\r\n')
            self.assertEqual(connection.reply().status, 200)
            connection.send('GET http://somewhere.test/healthz HTTP/1.1\r\nHost: somewhere.test\r\n\r\n')
            self.assertEqual(connection.reply().status, 200)
            connection.send('GET /healthz HTTP/1.1\r\nHost: x\r\n' + 'X: y\r\n' * 99 + '\r\n')
            self.assertEqual(connection.reply().status, 200)


class Cases(unittest.TestCase):
    def test_B07_negative_cost_mints_nothing(self):
        """Cost -3: invalid, no change; cost 1: deny; cost 0: a look that passes and changes nothing; cost 1: deny."""
        for limit in ['rate: 5/1m\n    burst: 5', 'algorithm: fixed-window\n    rate: 5/1m',
                      'algorithm: sliding-window\n    rate: 5/1m', 'algorithm: sliding-log\n    rate: 5/1m']:
            with self.subTest(limit), Server(f'weir: 1\nlimits:\n  - name: x\n    key: []\n    {limit}\n',
                                             virtual=True) as server:
                def take(cost):
                    return server.check('{}', cost=cost, headers=[NOW]).status
                self.assertEqual(take(5), 200)
                self.assertEqual([take(-3), take(1), take(0), take(1)], [400, 429, 200, 429])
                self.assertEqual(take(-9223372036854775808), 400)


if __name__ == '__main__':
    unittest.main()
