# SPDX-License-Identifier: Apache-2.0
"""How many connections an address may have, how long each part of them may take, and who may connect to a Unix socket.

The test build's seconds last 20 ms here (WEIR_TEST_SECOND_MS). Whatever a hostile client does, somebody else is served meanwhile."""
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import time
import unittest

from door import Connection, Server, request, wait_for
from test_door_tls import Authority

PROXIES = """
weir: 1
identity: { proxies: [127.0.1.0/24] }
limits:
  - { name: a, key: [ip], rate: 100000/s, burst: 100000 }
"""

SECOND = 0.02
HURRY = {'WEIR_TEST_SECOND_MS': '20'}


def connect(port, peer):
    connection = Connection.__new__(Connection)
    connection.socket = socket.create_connection(('127.0.0.1', port), 30, (peer, 0))
    connection.buffer = b''
    return connection


def is_served(connection):
    try:
        connection.send(request('GET', '/healthz'))
        return connection.reply() is not None
    except (ConnectionResetError, BrokenPipeError):
        return False


class Numbers(unittest.TestCase):
    def test_an_address_has_so_many(self):
        with Server(PROXIES, args=['--connections-per-peer', '3']) as server:
            mine = [connect(server.port, '127.0.0.7') for _ in range(3)]
            self.assertEqual([is_served(c) for c in mine], [True] * 3)
            one_more = connect(server.port, '127.0.0.7')
            self.assertFalse(is_served(one_more))
            other = connect(server.port, '127.0.0.8')
            self.assertTrue(is_served(other), 'nobody else is concerned')
            mine[0].socket.close()
            def again():
                with connect(server.port, '127.0.0.7') as connection:
                    return is_served(connection)
            wait_for(again)  # its place is free
            with connect(server.port, '127.0.0.9') as scrape:
                text = scrape.ask('GET', '/metrics').text
            found = re.search(r'^weir_connections_refused_total\{reason="peer-full"\} (\d+)$', text, re.M)
            self.assertGreaterEqual(int(found[1]), 1)
            self.assertIn('event=peer_full peer=127.0.0.7 reason=', server.log())
            for connection in [*mine, one_more, other]:
                connection.socket.close()

    def test_proxies_and_unix_peers_are_not_counted(self):
        with Server(PROXIES + 'server: { connections-per-peer: 2 }\n', http=['127.0.0.1:0', 'unix:DIR/http.sock']) as server:
            many = [connect(server.port, '127.0.1.1') for _ in range(10)] + [server.connect('http.sock') for _ in range(10)]
            self.assertEqual([is_served(c) for c in many], [True] * 20)
            for connection in many:
                connection.socket.close()

    def test_sources_of_proxy_headers_are(self):
        with Server(PROXIES, args=['--connections-per-peer', '2', '--proxy-protocol', 'http']) as server:
            def behind(source):
                connection = connect(server.port, '127.0.1.1')
                connection.send(f'PROXY TCP6 {source} ::1 1 2\r\n')
                return connection
            many = [behind(f'2001:db8:1:2::{i}') for i in range(2)]
            self.assertEqual([is_served(c) for c in many], [True] * 2)
            many += [behind('2001:db8:1:2::9'), behind('2001:db8:1:3::9')]
            self.assertEqual([is_served(c) for c in many[2:]], [False, True], 'a /64 is one address, the next is another')
            for connection in many:
                connection.socket.close()

    def test_by_default_one_cannot_shut_the_others_out(self):
        def limited(*args, **more):
            return subprocess.Popen(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400)), **more)
        with Server(PROXIES, popen=limited) as server:
            most = int(re.search(r' connections=(\d+) ', server.log())[1])
            flood = [connect(server.port, '127.0.0.7') for _ in range(most + 50)]
            with connect(server.port, '127.0.0.8') as other:
                self.assertTrue(is_served(other))
            for connection in flood:
                connection.socket.close()


class Modes(unittest.TestCase):
    def mode_of(self, *args, contract=PROXIES):
        with Server(contract, args=[*args, '--resp', 'unix:DIR/resp.sock'], http='unix:DIR/http.sock') as server:
            return [stat.S_IMODE(os.stat(os.path.join(server.dir, name)).st_mode) for name in ('http.sock', 'resp.sock', 'admin.sock')]

    def test_modes(self):
        before = os.umask(0o077)
        try:
            self.assertEqual(self.mode_of(), [0o660, 0o660, 0o600], 'whatever the umask is')
            self.assertEqual(self.mode_of('--socket-mode', '0666'), [0o666, 0o666, 0o600])
            self.assertEqual(self.mode_of('--socket-mode', '600', contract=PROXIES + 'server: { socket-mode: "0666" }\n'),
                             [0o600, 0o600, 0o600], 'the option wins')
            self.assertEqual(self.mode_of(contract=PROXIES + 'server: { socket-mode: "0600" }\n'), [0o600, 0o600, 0o600])
        finally:
            os.umask(before)

    def test_mistakes(self):
        for mode in ('"0888"', '"66"', '"01777"', '"0000"', '[]'):
            status, log = Server(PROXIES + f'server: {{ socket-mode: {mode} }}\n').expect_exit()
            self.assertEqual(status, 2, mode)
            self.assertIn('write four octal digits in quotes, such as "0660"', log)

    def test_only_listed_users_ask_without_a_token(self):
        """At both doors; the uid is the kernel's word. Ours is not listed."""
        tokens = {'tokens': ('check 0123456789abcdef check\n', 0o600)}
        for uids, status, pong in [('[4242]', 401, b'-NOAUTH'), (f'[{os.getuid()}]', 200, b'*')]:
            contract = PROXIES + f'server: {{ uids: {uids} }}\n'
            args = ['--tokens', 'DIR/tokens', '--resp', 'unix:DIR/resp.sock']
            with Server(contract, args=args, files=tokens, http=['127.0.0.1:0', 'unix:DIR/http.sock']) as server:
                self.assertEqual(server.ask('POST', '/v1/check', b'{"attributes":{"ip":"192.0.2.1"}}', unix='http.sock').status, status)
                with server.connect('resp.sock') as connection:
                    connection.send('WEIR.CHECK ATTR ip 192.0.2.1\r\n')
                    self.assertTrue(connection.socket.recv(4096).startswith(pong))


class Slow(unittest.TestCase):
    """One hostile connection after another, of one byte now and then, until the server has ended it."""

    def others_are_served(self, server):
        with connect(server.port, '127.0.0.99') as other:
            self.assertTrue(is_served(other))

    def dribble(self, server, port, head, rest, pause=SECOND, most=20000):
        """Send `rest` a byte at a time; how many seconds of the server's it took until the connection was over."""
        with connect(port, '127.0.0.7') as connection:
            begun = time.monotonic()
            connection.send(head)
            connection.socket.setblocking(False)
            try:
                for i in range(most):
                    connection.socket.send(rest[i % len(rest):i % len(rest) + 1])
                    time.sleep(pause)
                    if i % 50 == 0:
                        self.others_are_served(server)
                    try:
                        if connection.socket.recv(4096) == b'':
                            break
                    except BlockingIOError:
                        pass
                else:
                    self.fail('it was never ended')
            except (ConnectionResetError, BrokenPipeError):
                pass
            return (time.monotonic() - begun) / SECOND

    def test_heads_and_bodies(self):
        length = b'Content-Length: 1000000\r\n\r\n'
        rows = [
            ('a head', b'GET /healthz HTTP/1.1\r\nX: ', b'y', 10),
            ('a body', b'POST /v1/check HTTP/1.1\r\nHost: x\r\n' + length, b' ', 60),
            ('a body that nobody reads', b'GET /v1/auth HTTP/1.1\r\nHost: x\r\n' + length, b' ', 60),
            ('chunks that nobody reads', b'GET /v1/auth HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n', b'1\r\nx\r\n', 60),
            ('chunks', b'POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n', b'1\r\n \r\n', 60),
        ]
        with Server(PROXIES, hooked=True, env=HURRY) as server:
            for name, head, rest, seconds in rows:
                with self.subTest(row=name):
                    took = self.dribble(server, server.port, head, rest)
                    self.assertGreater(took, seconds * 0.9, 'it had its time')
            self.assertGreaterEqual(server.metric('weir_connections_refused_total{reason="slow"}'), 5)

    def test_commands(self):
        with Server(PROXIES, args=['--resp', '127.0.0.1:0'], hooked=True, env=HURRY) as server:
            port = int(re.search(r'^listening resp .*:(\d+)$', server.log(), re.M)[1])
            for head in (b'*2\r\n$4\r\nECHO\r\n$60000\r\n', b'ECHO '):
                self.assertGreater(self.dribble(server, port, head, b'y'), 9)

    def test_handshakes(self):
        authority = Authority()
        self.addCleanup(shutil.rmtree, authority.dir)
        authority.sign('server')
        tls = ['--tls-cert', authority.path('server.pem'), '--tls-key', authority.path('server.key')]
        with Server(PROXIES, args=[*tls, '--resp', '127.0.0.1:0'], hooked=True, env=HURRY, http=['127.0.0.1:0', 'unix:DIR/http.sock']) as server:
            port = int(re.search(r'^listening resp .*:(\d+)$', server.log(), re.M)[1])
            self.others_are_served = lambda server: self.assertEqual(server.ask('GET', '/healthz', unix='http.sock').status, 200)
            for door in (server.port, port):
                took = self.dribble(server, door, b'\x16\x03\x01\x20\x00\x01\x00\x1f\xfc\x03\x03', b'y')
                self.assertGreater(took, 9)
                with connect(door, '127.0.0.7') as silent:
                    self.assertIn(silent.socket.recv(100)[:1], (b'', b'\x15'))
            failed = server.ask('GET', '/metrics', unix='http.sock').text
            self.assertIn('weir_tls_handshakes_failed_total 4\n', failed)

    def test_many_at_once_stay_small(self):
        """A thousand that each send half a head and wait: some kilobytes each, and then all are gone."""
        with Server(PROXIES, args=['--connections-per-peer', '2000'], hooked=True, env={'WEIR_TEST_SECOND_MS': '200'}) as server:
            def resident():
                with open(f'/proc/{server.process.pid}/statm') as file:
                    return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE')
            before = resident()
            many = [connect(server.port, f'127.0.{i % 5 + 2}.7') for i in range(1000)]
            for connection in many:
                connection.send(b'POST /v1/check HTTP/1.1\r\nX: ' + b'y' * 1000)
            self.others_are_served(server)
            self.assertLess(resident() - before, 32 << 20)
            wait_for(lambda: server.metric('weir_connections_refused_total{reason="slow"}') == 1000)
            for connection in many:
                connection.socket.close()


if __name__ == '__main__':
    unittest.main()
