# SPDX-License-Identifier: Apache-2.0
"""The gRPC clients that people use, each driven for real against the door: calls that pass and one that does not, health, a deadline
that ends a wait, a wait, hundreds at once, with and without a token. grpc_clients/ has the programs, tools/grpc-clients what they need."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from door import SOURCE
from h2 import OK, OVER_LIMIT, Grpc, call, fields_of, number, piece

PROGRAMS = os.path.join(SOURCE, 'test', 'doors', 'grpc_clients')
TOKEN = '0123456789abcdef0'
CONTRACT = """
weir: 1
limits:
  - { name: per-tenant, when: { domain: test }, key: [tenant], rate: 1/h, burst: 2 }
  - { name: queue, when: { domain: slow }, key: [tenant], rate: 1/s, burst: 1, wait: { up-to: 60s, queue: 100 } }
"""


class Client(unittest.TestCase):
    """What each of them has to show."""

    @classmethod
    def setUpClass(cls):
        tool = os.path.join(SOURCE, 'tools', 'grpc-clients')
        cls.installed = subprocess.run([tool, '--where'], capture_output=True, text=True, check=True).stdout.strip()
        if not os.path.exists(cls.installed):
            raise AssertionError('the clients are not installed: tools/grpc-clients says what is missing')

    def talk(self, server, *token):
        messages = (call([('tenant', 'acme')]), call([('tenant', 'acme')], domain='slow'), piece(1, 'other'))
        done = subprocess.run([*self.command(), str(server.grpc[0]), *(m.hex() for m in messages), *token], capture_output=True, text=True,
                              timeout=120, env={**os.environ, 'PYTHONPATH': os.path.join(self.installed, 'python')})
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return json.loads(done.stdout)

    def check_talk(self, got):
        overall = [dict(fields_of(bytes.fromhex(answer)))[1] for answer in [*got['answers'], got['waited']]]
        self.assertEqual(overall, [OK, OK, OVER_LIMIT, OK])
        self.assertEqual((got['health'], got['watched']), (number(1, 1).hex(), number(1, 1).hex()))
        self.assertEqual((got['unknown'], got['nobody'], got['first'], got['many']), (12, 5, 0, 500))
        self.assertIn(got['late'], (0, 4))  # OVER_LIMIT, as it is known that its turn comes too late; or DEADLINE_EXCEEDED

    def test_as_it_connects_by_default(self):
        with Grpc(CONTRACT) as server:
            self.check_talk(self.talk(server))

    def test_with_a_token(self):
        with Grpc(CONTRACT, args=['--tokens', 'DIR/tokens'], files={'tokens': (f'check {TOKEN} app\n', 0o600)}) as server:
            self.check_talk(self.talk(server, TOKEN))


class Grpcio(Client):
    def command(self):
        return [sys.executable, os.path.join(PROGRAMS, 'grpcio_client.py')]


class GrpcJs(Client):
    """Its modules are sought from where the program lies: beside them."""

    def setUp(self):
        folder = tempfile.mkdtemp(prefix='weir-grpc-js-')
        self.addCleanup(shutil.rmtree, folder)
        os.symlink(os.path.join(self.installed, 'node', 'node_modules'), os.path.join(folder, 'node_modules'))
        self.program = shutil.copy(os.path.join(PROGRAMS, 'node', 'grpc_js.mjs'), folder)

    def command(self):
        return ['node', self.program]


del Client

if __name__ == '__main__':
    unittest.main()
