# SPDX-License-Identifier: Apache-2.0
"""The Redis clients that people use, each driven for real against the door: what it says on connect, with and without a token, a call
that passes and one that does not, CL.THROTTLE, a pipeline, errors. resp_clients/ has the programs, tools/clients what they need."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from door import SOURCE
from test_door_resp import Resp, TOKENS

PROGRAMS = os.path.join(SOURCE, 'test', 'doors', 'resp_clients')
TOKEN = '0123456789abcdef0'
CONTRACT = """
weir: 1
limits:
  - { name: tenant-requests, key: [tenant], rate: 1/h, burst: 20 }
"""


def tool(*words):
    return subprocess.run([os.path.join(SOURCE, 'tools', words[0]), *words[1:]], capture_output=True, text=True, check=True).stdout.strip()


def run(words, **rest):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **rest)


def as_map(reply):
    """A RESP3 map, or the flat array that RESP2 has for it."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


class Client(unittest.TestCase):
    """What each of them has to show."""

    resp = 3         # that it speaks with a server that knows both
    has_maps = True  # and gives as maps

    @classmethod
    def setUpClass(cls):
        cls.installed = tool('clients', '--where')
        if not os.path.exists(cls.installed):
            raise AssertionError('the clients are not installed: tools/clients says what is missing')

    def talk(self, server, *words):
        done = run([*self.command(), str(server.resp[0]), *words], env={**os.environ, **self.environment()})
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return json.loads(done.stdout)

    def environment(self):
        return {}

    def check_talk(self, got):
        self.assertEqual((got['ping'], got['resp']), ('PONG', self.resp))
        allowed, denied, peeked = (as_map(got[word]) for word in ('allowed', 'denied', 'peeked'))
        self.assertEqual((allowed['decision'], allowed['remaining']), ('allow', 0))
        self.assertEqual((denied['decision'], denied['limit'], denied['remaining']), ('deny', 'tenant-requests', 0))
        self.assertIsInstance(denied['retry_after'], str)
        self.assertTrue(3500 < float(denied['retry_after']) <= 3600, denied['retry_after'])
        self.assertEqual((peeked['decision'], peeked['remaining']), ('allow', 20))
        self.assertEqual([type(got[word]) for word in ('allowed', 'denied')], [dict if self.has_maps else list] * 2)
        self.assertEqual(got['throttled'][0], [0, 1, 0, -1, 1000])
        self.assertEqual(got['throttled'][1][:3], [1, 1, 0])
        self.assertTrue(900 < got['throttled'][1][3] <= 1000, got['throttled'])
        pong, throttled, decided = got['pipeline']
        self.assertIn(pong, ('PONG', True))
        self.assertEqual(throttled, [0, 16, 15, -1, 2])
        self.assertEqual(as_map(decided)['remaining'], 19)
        self.assertIn("unknown command 'NOSUCH', with args beginning with: 'word'", got['error'])
        self.assertIn("weir: COST 'many': write a whole number", got['refused'])

    def test_as_it_connects_by_default(self):
        with Resp(CONTRACT) as server:
            self.check_talk(self.talk(server))

    def test_with_a_token(self):
        with Resp(CONTRACT, files={'tokens': (TOKENS, 0o600)}, args=['--tokens', 'DIR/tokens']) as server:
            self.check_talk(self.talk(server, TOKEN))
            for words, want in (([], 'NOAUTH|Authentication required|already authenticated'),
                                (['wrong-' + TOKEN], 'invalid username-password')):
                with self.subTest(words=words):
                    got = self.talk(server, *words)
                    self.assertEqual(list(got), ['failed'])
                    self.assertRegex(got['failed'], want)


class RedisPy(Client):
    def command(self):
        return [sys.executable, os.path.join(PROGRAMS, 'redis_py.py')]

    def environment(self):
        return {'PYTHONPATH': os.path.join(self.installed, 'python')}


class NodeRedis(Client):
    def command(self):
        return ['node', os.path.join(self.installed, 'node', 'node_redis.mjs')]


class IoRedis(Client):
    has_maps = False  # of commands that it does not know

    def command(self):
        return ['node', os.path.join(self.installed, 'node', 'ioredis.mjs')]


class GoRedis(Client):
    def command(self):
        return [os.path.join(self.installed, 'go_redis')]


class Hiredis(Client):
    resp, has_maps = 2, False

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='hiredis-')
        cls.program = os.path.join(cls.folder, 'hiredis')
        flags = subprocess.run(['pkg-config', '--cflags', '--libs', 'hiredis'], capture_output=True, text=True, check=True).stdout.split()
        subprocess.run([os.environ.get('CC', 'cc'), '-O1', '-Wall', '-Wextra', '-o', cls.program,
                        os.path.join(PROGRAMS, 'hiredis.c'), *flags], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def command(self):
        return [self.program]


class RedisCli(unittest.TestCase):
    """redis-cli, in both versions and as a person uses it; redis-benchmark."""

    def cli(self, server, *words, **rest):
        return run(['redis-cli', '-p', str(server.resp[0]), *words], **rest)

    def test_calls(self):
        with Resp(CONTRACT) as server:
            for i, version in enumerate(('-2', '-3')):
                with self.subTest(version=version):
                    rows = [
                        (('WEIR.CHECK', 'COST', '20', 'ATTR', 'tenant', version), r'decision\W+allow\b'),
                        (('WEIR.CHECK', 'ATTR', 'tenant', version), r'decision\W+deny\b(.|\n)*retry_after\W+35\d\d\.'),
                        (('CL.THROTTLE', version, '15', '30', '60'), r'0\n16\n15\n-1\n2\n'),
                        (('NOSUCH', 'word'), r"unknown command 'NOSUCH', with args beginning with: 'word'"),
                        (('WEIR.CHECK', 'COST', 'many', 'ATTR', 'tenant', 'a'), r"weir: COST 'many'"),
                    ]
                    for words, want in rows:
                        done = self.cli(server, version, *words)
                        self.assertEqual((done.returncode, done.stderr), (0, ''))
                        self.assertRegex(done.stdout, want)

    def test_lines_and_a_pipe(self):
        """Commands on standard input, and the mass insertion of --pipe, which ends with an ECHO of its own."""
        with Resp(CONTRACT) as server:
            done = self.cli(server, input='PING\nCL.THROTTLE "a key" 15 30 60\nSELECT 1\n')
            self.assertEqual(done.stdout, 'PONG\n0\n16\n15\n-1\n2\nERR DB index is out of range\n\n')
            command = b'*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$5\r\n99999\r\n$1\r\n1\r\n$4\r\n1000\r\n'
            done = subprocess.run(['redis-cli', '-p', str(server.resp[0]), '--pipe'], input=command * 5000, capture_output=True,
                                  timeout=120, check=True)
            self.assertIn(b'errors: 0, replies: 5000', done.stdout)
            self.assertIn('\n95000\n', self.cli(server, 'CL.THROTTLE', 'k', '99999', '1', '1000', '0').stdout)

    def test_with_a_token(self):
        with Resp(CONTRACT, files={'tokens': (TOKENS, 0o600)}, args=['--tokens', 'DIR/tokens']) as server:
            for words, want in [((), 'NOAUTH'), (('--no-auth-warning', '-a', TOKEN), 'PONG'),
                                (('--user', 'any', '--no-auth-warning', '--pass', TOKEN, '-n', '0'), 'PONG'),
                                (('-3', '--no-auth-warning', '-a', TOKEN), 'PONG'),
                                (('--no-auth-warning', '-a', 'wrong'), 'WRONGPASS')]:
                with self.subTest(words=words):
                    done = self.cli(server, *words, 'PING')
                    self.assertIn(want, done.stdout + done.stderr)
                    self.assertEqual('PONG' in done.stdout, want == 'PONG')

    def test_on_a_terminal_it_knows_the_commands(self):
        """There it asks for COMMAND DOCS first."""
        with Resp(CONTRACT) as server:
            done = run(['script', '-qec', f'redis-cli -p {server.resp[0]}', '/dev/null'],
                       input='PING\nhelp weir.settle\nquit\n', env={**os.environ, 'TERM': 'dumb', 'HOME': server.dir})
            self.assertIn('PONG', done.stdout)
            self.assertIn('What a reservation cost in the end', done.stdout)

    def test_redis_benchmark(self):
        """16 deep, over several connections; every request is decided."""
        with Resp(CONTRACT.replace('1/h', '1/s'), files={'tokens': (TOKENS, 0o600)}, args=['--tokens', 'DIR/tokens']) as server:
            for words in (['CL.THROTTLE', 'key:__rand_int__', '15', '30', '60'], ['WEIR.CHECK', 'ATTR', 'tenant', 't__rand_int__'],
                          ['WEIR.PEEK', 'ATTR', 'tenant', 'one']):
                done = run(['redis-benchmark', '-p', str(server.resp[0]), '-a', TOKEN, '-n', '4800', '-c', '8', '-P', '16', '-r', '1000',
                            '-q', *words], check=True)
                self.assertRegex(done.stdout, r'requests per second')
                self.assertNotRegex(done.stdout + done.stderr, r'WARNING|[Ee]rror')
            for door, count in (('resp-throttle', 4800), ('resp-check', 9600)):
                got = sum(server.metric(f'weir_requests_total{{door="{door}",code="{code}"}}') for code in (200, 429))
                self.assertEqual(got, count)


del Client  # it has nothing to show of its own

if __name__ == '__main__':
    unittest.main()
