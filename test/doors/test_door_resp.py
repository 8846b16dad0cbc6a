# SPDX-License-Identifier: Apache-2.0
"""The door that speaks the Redis protocol: what clients say first, the calls on the contract's limits, errors in Redis's
words, pipelines, both versions, tokens, and the end of a connection."""
import os
import re
import socket
import subprocess
import unittest

from door import Server, request, wait_for

CONTRACT = """
weir: 1
limits:
  - name: tenant-requests
    key: [tenant]
    missing-key: refuse
    rate: 5/s
    burst: 20
    debt: 5
  - name: jobs
    key: [tenant]
    missing-key: refuse
    when: { path: /jobs }
    algorithm: concurrency
    at-most: 2
    hold: 1h
    wait: { up-to: 10s, queue: 4 }
"""
TOKENS = 'check  0123456789abcdef0  billing\nadmin  fedcba98765432100  operator\n'


class Client:
    """One connection: commands out, replies in, as Python values; errors are returned as Error."""

    class Error(str):
        pass

    def __init__(self, address):
        if isinstance(address, int):
            self.socket = socket.create_connection(('127.0.0.1', address), timeout=30)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(30)
            self.socket.connect(address)
        self.file = self.socket.makefile('rb')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    @staticmethod
    def command(*words):
        data = b'*%d\r\n' % len(words)
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            data += b'$%d\r\n%s\r\n' % (len(word), word)
        return data

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, *words):
        self.send(self.command(*words))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line:
            raise EOFError
        kind, rest = line[:1], line[1:-2]
        if kind == b'+':
            return rest.decode()
        if kind == b'-':
            return Client.Error(rest.decode(errors='replace'))
        if kind == b':':
            return int(rest)
        if kind == b'_' or rest == b'-1':
            return None
        if kind == b'#':
            return rest == b't'
        if kind in b'$=':
            text = self.file.read(int(rest) + 2)[:-2].decode()
            return text[4:] if kind == b'=' else text
        if kind in b'*~':
            return [self.reply() for _ in range(int(rest))]
        if kind == b'%':
            return {self.reply(): self.reply() for _ in range(int(rest))}
        raise AssertionError(line)

    def ends(self):
        return self.file.read(1) == b''


def flat(pairs):
    return dict(zip(pairs[::2], pairs[1::2]))


class Resp(Server):
    def __init__(self, contract=CONTRACT, resp=('127.0.0.1:0',), args=(), **rest):
        more = [word for address in resp for word in ('--resp', address)]
        super().__init__(contract, args=[*args, *more], **rest)

    def __enter__(self):
        super().__enter__()
        self.resp = [int(p) for p in re.findall(r'^listening resp .*:(\d+)$', self.log(), re.M)]
        return self

    def client(self):
        return Client(self.resp[0])


class Session(unittest.TestCase):
    def test_what_clients_say_first(self):
        """Replies of Redis 7, for what the clients that people use send before their first command."""
        rows = [
            (('PING',), 'PONG', 'as a simple string'),
            (('ping', 'hi'), 'hi', 'any case, with a word'),
            (('ECHO', 'x'), 'x', ''),
            (('SELECT', '0'), 'OK', 'the only database'),
            (('SELECT', '1'), 'ERR DB index is out of range', ''),
            (('SELECT', 'a'), 'ERR value is not an integer or out of range', ''),
            (('CLIENT', 'SETNAME', 'billing'), 'OK', ''),
            (('CLIENT', 'GETNAME'), 'billing', ''),
            (('CLIENT', 'SETINFO', 'LIB-NAME', 'redis-py'), 'OK', 'aborts redis-py where it fails'),
            (('CLIENT', 'SETNAME', 'a b'), 'ERR Client names cannot contain spaces, newlines or special characters.', ''),
            (('CLIENT', 'SETNAME'), "ERR wrong number of arguments for 'client|setname' command", ''),
            (('CLIENT', 'MAINT_NOTIFICATIONS', 'ON'), "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
             'an error is fine for all'),
            (('COMMAND', 'DOCS', 'nosuch'), [], ''),
            (('CONFIG', 'GET', 'nosuch'), [], ''),
            (('PING', 'a', 'b'), "ERR wrong number of arguments for 'ping' command", ''),
            (('ECHO',), "ERR wrong number of arguments for 'echo' command", ''),
            (('FOO', 'bar'), "ERR unknown command 'FOO', with args beginning with: 'bar' ", ''),
            (('HELLO', '4'), 'NOPROTO unsupported protocol version', ''),
            (('HELLO', 'abc'), 'ERR Protocol version is not an integer or out of range', ''),
            (('HELLO', '2', 'SETNAME', 'x', 'y'), "ERR Syntax error in HELLO option 'y'", ''),
            (('AUTH', 'p'), 'ERR AUTH <password> called without any password configured for the default user. Are you '
                            'sure your configuration is correct?', ''),
            (('AUTH', 'a', 'b', 'c'), 'ERR syntax error', ''),
        ]
        with Resp() as server, server.client() as client:
            for words, want, why in rows:
                with self.subTest(words=words, why=why):
                    self.assertEqual(client.ask(*words), want)

    def test_hello_in_both_versions(self):
        with Resp() as server, server.client() as client:
            two = flat(client.ask('HELLO'))
            three = client.ask('HELLO', '3', 'SETNAME', 'me')
            self.assertEqual((two['proto'], three['proto']), (2, 3))
            self.assertEqual((two['mode'], two['role'], two['modules']), ('standalone', 'master', []))
            self.assertEqual(set(two), set(three))
            self.assertIsInstance(client.ask('WEIR.CHECK', 'ATTR', 'tenant', 'a'), dict)
            self.assertEqual(client.ask('CLIENT', 'GETNAME'), 'me')
            self.assertEqual(client.ask('RESET'), 'RESET')
            self.assertIsNone(client.ask('CLIENT', 'GETNAME'))
            self.assertIsInstance(client.ask('WEIR.CHECK', 'ATTR', 'tenant', 'a'), list)

    def test_info_and_commands(self):
        with Resp() as server, server.client() as client:
            info = client.ask('INFO')
            self.assertIn('role:master', client.ask('INFO', 'REPLICATION'))
            self.assertIn('loading:0', info)
            every = client.ask('COMMAND')
            self.assertEqual(len(every), client.ask('COMMAND', 'COUNT'))
            self.assertEqual({len(row) for row in every}, {10})
            self.assertEqual(client.ask('COMMAND', 'INFO', 'ping', 'nosuch')[1], None)
            docs = flat(client.ask('COMMAND', 'DOCS'))
            self.assertEqual(set(docs), {row[0] for row in every})

    def test_quit_and_protocol_errors_end_the_connection(self):
        rows = [
            (Client.command('QUIT') + Client.command('PING'), ['OK'], 'nothing behind QUIT is answered'),
            (b'*abc\r\n', ['ERR Protocol error: invalid multibulk length'], ''),
            (b'*1\r\n:1\r\n', ["ERR Protocol error: expected '$', got ':'"], ''),
            (b'*1\r\n$-5\r\n', ['ERR Protocol error: invalid bulk length'], ''),
            (b'PING "a\r\n', ['ERR Protocol error: unbalanced quotes in request'], ''),
            (b'PING\r\n*2\r\n$4\r\nPING\r\n$1\r\nx\r\n*x\r\n', ['PONG', 'x', 'ERR Protocol error: invalid multibulk length'],
             'what came before is answered'),
            (b'POST /v1/check HTTP/1.1\r\nHost: x\r\n\r\n', [], 'a browser that was led here'),
            (b'Host: x\r\n', [], 'the same, a line later'),
        ]
        for data, want, why in rows:
            with self.subTest(data=data, why=why), Resp() as server, server.client() as client:
                client.send(data)
                for reply in want:
                    self.assertEqual(client.reply(), reply)
                self.assertTrue(client.ends())

    def test_inline_and_nothing(self):
        with Resp() as server, server.client() as client:
            client.send(b'\r\n*0\r\n*-1\r\nweir.check attr tenant "a b"\r\nPING\r\n')
            self.assertEqual(flat(client.reply())['decision'], 'allow')
            self.assertEqual(client.reply(), 'PONG')

    def test_replies_are_bounded(self):
        big = 'x' * 40000
        with Resp() as server, server.client() as client:
            self.assertEqual(client.ask('PING', big), 'ERR weir: at most 32768 bytes come back')
            self.assertEqual(client.ask('ECHO', big), 'ERR weir: at most 32768 bytes come back')
            self.assertEqual(client.ask('COMMAND', 'INFO', *['weir.check'] * 900),
                             'ERR weir: at most 128 commands are described at once')
            self.assertEqual(len(client.ask('COMMAND', 'INFO', *['weir.check'] * 128)), 128)
            self.assertEqual(client.ask('PING'), 'PONG')


class Calls(unittest.TestCase):
    def test_check_and_peek(self):
        with Resp() as server, server.client() as client:
            client.ask('HELLO', '3')
            first = client.ask('WEIR.CHECK', 'COST', '20', 'ATTR', 'tenant', 'a')
            self.assertEqual((first['decision'], first['remaining'], first['limit']), ('allow', 0, 'tenant-requests'))
            self.assertEqual((first['retry_after'], first['reset_after']), ('0', '4'))
            refused = client.ask('WEIR.CHECK', 'COST', '20', 'ATTR', 'tenant', 'a')
            self.assertEqual(refused['decision'], 'deny')
            self.assertLessEqual(float(refused['retry_after']), 4)
            never = client.ask('WEIR.CHECK', 'COST', '21', 'ATTR', 'tenant', 'a')
            self.assertEqual((never['decision'], never['retry_after']), ('never', None))
            for call in (('WEIR.PEEK', 'COST', '20'), ('WEIR.CHECK', 'COST', '20', 'PEEK')):
                self.assertEqual(client.ask(*call, 'ATTR', 'tenant', 'b')['decision'], 'allow')

    def test_it_is_the_same_budget_as_by_http(self):
        with Resp() as server, server.client() as client, server.connect() as http:
            client.ask('WEIR.CHECK', 'COST', '15', 'ATTR', 'tenant', 'a')
            http.send(request('POST', '/v1/check', '{"attributes":{"tenant":"a"},"cost":20}', []))
            self.assertEqual(http.reply().json['decision'], 'deny')

    def test_reserve_settle_cancel_refund(self):
        with Resp() as server, server.client() as client:
            taken = flat(client.ask('WEIR.RESERVE', 'COST', '10', 'EXPIRES', '60000', 'ATTR', 'tenant', 'a'))
            self.assertEqual((taken['decision'], taken['expires_after']), ('allow', '60'))
            settled = flat(client.ask('WEIR.SETTLE', taken['reservation'], '13'))
            self.assertEqual((settled['charged'], settled['returned']), (3, 0))
            again = flat(client.ask('WEIR.RESERVE', 'COST', '5', 'ATTR', 'tenant', 'b'))
            returned = flat(client.ask('WEIR.CANCEL', again['reservation']))['returned']
            self.assertLessEqual(returned, 5)  # less what the rate has paid back meanwhile (P12)
            self.assertEqual(flat(client.ask('WEIR.REFUND', 'COST', '2', 'ATTR', 'tenant', 'a'))['returned'], 2)
            self.assertEqual(flat(client.ask('WEIR.REFUND', 'ATTR', 'tenant', 'a'))['returned'], 1)
            self.assertTrue(client.ask('WEIR.SETTLE', 'nonsense', '1').startswith('ERR weir: the reservation '))

    def test_permits(self):
        with Resp() as server, server.client() as client, server.client() as other:
            where = ('ATTR', 'tenant', 'a', 'path', '/jobs')
            first = flat(client.ask('WEIR.ACQUIRE', *where))
            bound = flat(other.ask('WEIR.ACQUIRE', 'BIND', *where))
            self.assertGreater(bound['fence'], first['fence'])
            self.assertEqual(flat(client.ask('WEIR.ACQUIRE', *where))['decision'], 'deny')
            self.assertEqual(flat(client.ask('WEIR.RENEW', first['permit']))['expires_after'], '3600')
            client.send(Client.command('WEIR.ACQUIRE', 'WAIT', '10000', *where))
            other.__exit__()  # the permit that is bound there returns, and is the waiter's
            third = flat(client.reply())
            self.assertEqual(third['decision'], 'allow')
            self.assertEqual(client.ask('WEIR.RELEASE', first['permit'], 'OK')[1], 1)
            self.assertEqual(client.ask('WEIR.RELEASE', third['permit'])[1], 1)

    def test_what_is_wrong_charges_nothing(self):
        rows = [
            (('WEIR.CHECK', 'ATTR', 'tenant', 'a', 'tenant', 'b'), 'ERR weir: '),
            (('WEIR.CHECK', 'COST', '1', 'NOPE', 'ATTR', 'tenant', 'a'), "ERR weir: there is no option 'NOPE'"),
            (('WEIR.CHECK', 'ATTR', 'tenant', b'\xff'), "ERR weir: no UTF-8 is the value of 'tenant': send text, or a hash of it"),
            (('WEIR.CHECK',), 'ERR weir: ATTR is missing: WEIR.CHECK [COST n] '),
            (('WEIR.CHECK', 'tenant', 'a'), "ERR weir: there is no option 'tenant': WEIR.CHECK [COST n] "),
            (('WEIR.CHECK', 'ATTR', 'tenant'), "ERR weir: an attribute has no value: 'tenant': WEIR.CHECK [COST n] "),
            (('WEIR.CHECK', 'ATTR', 'tenant', 'a', 'COST', '2'), 'ERR weir: COST stands behind ATTR: options come first: '),
            (('WEIR.CHECK', 'ATTR', 'Tenant', 'a'),
             "ERR weir: attribute name 'Tenant' is not 1 to 32 of a-z, 0-9 and '-', beginning with a letter"),
            (('WEIR.CHECK', 'ATTR', 'tenant', 'a', 'tenant', 'b'), "ERR weir: attribute 'tenant' is given twice"),
            (('WEIR.CHECK', 'ATTR', 'tenant', 'x' * 1025), "ERR weir: the value of 'tenant' has 1025 bytes: at most 1024 "),
            (('WEIR.CHECK', 'ATTR', 'tenant', 'a\0b'), "ERR weir: the value of 'tenant' has a control byte (0x00) at index 1"),
            (('WEIR.CHECK', 'COST', '2x', 'ATTR', 'tenant', 'a'), "ERR weir: COST '2x': write a whole number from 0 to "),
            (('WEIR.CHECK', 'WAIT', '2s', 'ATTR', 'tenant', 'a'), "ERR weir: WAIT '2s': write milliseconds as a whole number "),
            (('WEIR.PEEK', 'WAIT', '5', 'ATTR', 'tenant', 'a'), "ERR weir: there is no option 'WAIT': WEIR.PEEK "),
            (('WEIR.REFUND', 'COST', '-2', 'ATTR', 'tenant', 'a'), "ERR weir: COST '-2': write a whole number from 0 to "),
            (('WEIR.CANCEL', 'bogus'), "ERR weir: reservation 'bogus': send the text that WEIR.RESERVE answered"),
            (('WEIR.RENEW', 'x'), "ERR weir: permit 'x': send the text that WEIR.ACQUIRE answered"),
            (('WEIR.SETTLE', 'x'), "ERR weir: reservation 'x': send the text that WEIR.RESERVE answered"),
            (('WEIR.RELEASE',), 'ERR weir: too few words: WEIR.RELEASE permit [OK|FAILED|DROPPED]'),
            (('WEIR.RESET', 'tenant-requests', 'ATTR', 'tenant', 'a'), 'NOPERM weir.reset needs an admin token: '),
        ]
        with Resp() as server, server.client() as client:
            for words, want in rows:
                with self.subTest(words=words):
                    answer = client.ask(*words)
                    self.assertIsInstance(answer, Client.Error)
                    self.assertTrue(answer.startswith(want), answer)
            self.assertEqual(flat(client.ask('WEIR.PEEK', 'ATTR', 'tenant', 'a'))['reset_after'], '0')

    def test_a_pipeline_keeps_its_order(self):
        with Resp(env={'WEIR_TEST_LATE': '3:3'}, hooked=True) as server, server.client() as client:
            data = b''
            for _ in range(200):
                data += Client.command('WEIR.CHECK', 'ATTR', 'tenant', 'a') + Client.command('PING')
            client.send(data)
            replies = [client.reply() for _ in range(400)]
            self.assertEqual(replies[1::2], ['PONG'] * 200)
            decisions = [flat(reply)['decision'] for reply in replies[::2]]
            self.assertEqual(decisions[:20], ['allow'] * 20)
            self.assertIn('deny', decisions)

    def test_byte_by_byte(self):
        with Resp() as server, server.client() as client:
            for byte in Client.command('WEIR.CHECK', 'ATTR', 'tenant', 'a'):
                client.send(bytes([byte]))
            self.assertEqual(flat(client.reply())['decision'], 'allow')


class Throttle(unittest.TestCase):
    """CL.THROTTLE, as redis-cell 0.5 answers it; rates so slow that the test's own time does not show but where it is waited for."""

    def test_vectors(self):
        rows = [
            ('user123 15 30 60', [0, 16, 15, -1, 2], 'redis-cell\'s README'),
            ('k 0 1 2 1', [0, 1, 0, -1, 2], 'one at a time'),
            ('k 0 1 2 1', [1, 1, 0, 2, 2], 'and no second one'),
            ('a 4 1 1000 6', [1, 5, 5, -1, 0], 'more than ever fits: never, and nothing is charged'),
            ('a 4 1 1000', [0, 5, 4, -1, 1000], 'a quantity of one'),
            ('a 4 1 1000 0', [0, 5, 4, -1, 1000], 'a quantity of none looks'),
            ('a 4 1 1000 4', [0, 5, 0, -1, 5000], 'the rest'),
            ('a 4 1 1000', [1, 5, 0, 1000, 5000], 'used up'),
            ('a 5 1 1000', [0, 6, 0, -1, 6000], 'another burst: what is used stays used'),
            ('b 0 3 10', [0, 1, 0, -1, 4], 'a third of ten seconds is not cut'),
            ('c +4 01 1000', [0, 5, 4, -1, 1000], 'numbers as Rust reads them'),
        ]
        with Resp() as server, server.client() as client:
            for words, want, why in rows:
                with self.subTest(words=words, why=why):
                    self.assertEqual(client.ask('CL.THROTTLE', *words.split()), want)

    def test_errors(self):
        rows = [
            ('', 'Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]'),
            ('k 1 1', 'Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]'),
            ('k 1 1 1 1 1', 'Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]'),
            ('k x 1 1', "Cell error: Couldn't parse as integer: x"),
            ('k 1 1 1 1.0', "Cell error: Couldn't parse as integer: 1.0"),
            ('k 9223372036854775808 1 1', "Cell error: Couldn't parse as integer: 9223372036854775808"),
            ('k 1 0 1', 'Cell error: Zero rates are not supported'),
            ('k 1 1 0', 'Cell error: Zero rates are not supported'),
            ('k -1 1 1', 'Cell error: Must not be negative: -1'),
            ('k 1 1 1 -1', 'Cell error: Must not be negative: -1'),
            ('k 9223372036854775807 1 9223372036854775807',
             'Cell error: More time than fits: max_burst + 1 tokens take longer than 146 years'),
        ]
        with Resp() as server, server.client() as client:
            for words, want in rows:
                with self.subTest(words=words):
                    self.assertEqual(client.ask('CL.THROTTLE', *words.split()), want)
            self.assertEqual(client.ask('CL.THROTTLE', 'x' * 4097, '1', '1', '1'),
                             'Cell error: the key is longer than WEIR_KEY_MAX')
            self.assertEqual(client.ask('CL.THROTTLE', b'\xff\x00', '1', '1', '9', '9223372036854775807')[0], 1)

    def test_a_reload_keeps_what_was_used(self):
        with Resp() as server, server.client() as client:
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '1', '1000', '5')[0], 0)
            with open(server.contract, 'a') as file:
                file.write('  - { name: more, key: [], rate: 1/s, burst: 5 }\n')
            server.ask('POST', '/v1/reload', unix='admin.sock')
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '1', '1000')[:3], [1, 5, 0])
            self.assertEqual(len(flat(client.ask('WEIR.PEEK', 'ATTR', 'tenant', 'a'))['limits']), 2)
            self.assertIn('kept=2 ', server.log())

    def test_its_name_is_taken(self):
        server = Resp(CONTRACT.replace('tenant-requests', 'cl.throttle'))
        with self.assertRaises(AssertionError), server:
            pass
        self.assertIn("name 'cl.throttle' is the name of what CL.THROTTLE counts", server.log())

    def test_redis_benchmark(self):
        with Resp() as server:
            out = subprocess.run(['redis-benchmark', '-p', str(server.resp[0]), '-n', '20000', '-c', '20', '-P', '16', '-r', '1000',
                                  '-q', 'CL.THROTTLE', 'key:__rand_int__', '15', '30', '60'],
                                 capture_output=True, text=True, timeout=120, check=True)
            self.assertIn('requests per second', out.stdout)
            self.assertNotIn('WARNING', out.stdout + out.stderr)
            self.assertEqual(server.metric('weir_requests_total{door="resp-throttle",code="200"}')
                             + server.metric('weir_requests_total{door="resp-throttle",code="429"}'), 20000)


class Access(unittest.TestCase):
    def with_tokens(self, **rest):
        return Resp(files={'tokens': (TOKENS, 0o600)}, args=['--tokens', 'DIR/tokens'], **rest)

    def test_tokens(self):
        with self.with_tokens() as server, server.client() as client:
            for words in (('PING',), ('WEIR.CHECK', 'ATTR', 'tenant', 'a'), ('NOSUCH',)):
                self.assertEqual(client.ask(*words), 'NOAUTH Authentication required.')
            self.assertTrue(client.ask('HELLO', '3').startswith('NOAUTH HELLO must be called'))
            self.assertTrue(client.ask('AUTH', 'wrong').startswith('WRONGPASS'))
            self.assertTrue(client.ask('HELLO', '3', 'AUTH', 'any', 'wrong').startswith('WRONGPASS'))
            self.assertEqual(client.ask('AUTH', '0123456789abcdef0'), 'OK')
            self.assertEqual(client.ask('PING'), 'PONG')
            self.assertTrue(client.ask('WEIR.RESET', 'tenant-requests', 'ATTR', 'tenant', 'a').startswith('NOPERM'))
            self.assertEqual(client.ask('AUTH', 'default', 'fedcba98765432100'), 'OK')
            self.assertEqual(client.ask('WEIR.RESET', 'tenant-requests', 'ATTR', 'tenant', 'a'), 'OK')
            self.assertEqual(client.ask('RESET'), 'RESET')
            self.assertEqual(client.ask('PING'), 'NOAUTH Authentication required.')

    def test_strangers_are_kept_short(self):
        for data, want in [(b'*11\r\n', 'ERR Protocol error: unauthenticated multibulk length'),
                           (b'*1\r\n$20000\r\n', 'ERR Protocol error: unauthenticated bulk length')]:
            with self.with_tokens() as server, server.client() as client:
                client.send(data)
                self.assertEqual(client.reply(), want)
                self.assertTrue(client.ends())

    def test_beyond_loopback_only_with_tokens(self):
        server = Resp(resp=['0.0.0.0:0'])
        with self.assertRaises(AssertionError), server:
            pass
        self.assertIn('can be reached from other machines', server.log())

    def test_a_unix_socket_and_the_contract_s_own_address(self):
        contract = CONTRACT.replace('limits:', 'server: { resp: [ "unix:resp.sock" ] }\nlimits:')
        with Resp(contract, resp=()) as server, Client(os.path.join(server.dir, 'resp.sock')) as client:
            self.assertEqual(client.ask('PING'), 'PONG')


class Around(unittest.TestCase):
    def test_metrics_name_the_door(self):
        with Resp() as server, server.client() as client, server.connect() as http:
            client.ask('WEIR.CHECK', 'ATTR', 'tenant', 'a')
            client.ask('WEIR.CHECK', 'ATTR', 'tenant')
            client.ask('PING')
            http.send(request('GET', '/metrics'))
            text = http.reply().body.decode()
            self.assertIn('weir_requests_total{door="resp-check",code="200"} 1', text)
            self.assertIn('weir_requests_total{door="resp",code="200"} 1', text)

    def test_drain_answers_and_ends(self):
        with Resp() as server, server.client() as client:
            self.assertEqual(client.ask('PING'), 'PONG')
            server.process.terminate()
            self.assertTrue(client.ends())
            wait_for(lambda: server.process.poll() is not None)

    def test_redis_cli(self):
        with Resp() as server:
            for version in ('-2', '-3'):
                out = subprocess.run(['redis-cli', version, '-p', str(server.resp[0]), 'WEIR.CHECK', 'COST', '3', 'ATTR',
                                      'tenant', 'cli' + version], capture_output=True, text=True, timeout=60, check=True).stdout
                self.assertRegex(out, r'decision\s+allow')
                self.assertRegex(out, r'remaining\s+17')


if __name__ == '__main__':
    unittest.main()
