# SPDX-License-Identifier: Apache-2.0
"""The PROXY protocol at the doors: whose headers count, who the client is then, and what becomes of connections without a good one.

127.0.1.0/24 are balancers, everything else of loopback are strangers. The headers are written by hand here; a real HAProxy writes
them in test_haproxy_headers.py."""
import re
import shutil
import socket
import ssl
import struct
import time
import unittest

from door import Connection, Server, request, wait_for
from test_door_tls import Authority

CONTRACT = """
weir: 1
identity:
  proxies: [127.0.1.0/24, 192.0.2.99/32]
  ip: { from: x-forwarded-for }
  tenant: { from: "header:x-tenant", only: authenticated }
limits:
  - { name: by-tenant, when: { tenant: present }, key: [tenant], rate: 7/1m, burst: 7 }
  - { name: by-address, when: { tenant: absent }, key: [ip], rate: 2/1m, burst: 2 }
"""

BALANCER = '127.0.1.1'
STRANGER = '127.0.0.7'
CLIENT = '192.0.2.7'
SIGNATURE = bytes.fromhex('0d0a0d0a000d0a515549540a')
LOCAL = SIGNATURE + b'\x20\x00\x00\x00'
HURRY = {'WEIR_TEST_SECOND_MS': '20'}


def line(source=CLIENT, port=56324):
    return f'PROXY TCP{6 if ":" in source else 4} {source} {"::1" if ":" in source else "127.0.0.1"} {port} 80\r\n'.encode()


def binary(source=CLIENT, more=b''):
    family = socket.AF_INET6 if ':' in source else socket.AF_INET
    addresses = socket.inet_pton(family, source) + bytes(16 if ':' in source else 4) + struct.pack('>HH', 56324, 80) + more
    return SIGNATURE + bytes([0x21, 0x21 if ':' in source else 0x11]) + struct.pack('>H', len(addresses)) + addresses


def connect(server, peer, port=None):
    connection = Connection.__new__(Connection)
    connection.socket = socket.create_connection(('127.0.0.1', port or server.port), 30, (peer, 0))
    connection.buffer = b''
    return connection


def ask(server, peer, header=b'', headers=(), path='/v1/auth'):
    with connect(server, peer) as connection:
        connection.send(header + request('GET', path, headers=headers))
        return connection.reply()


def ended(connection):
    """The server ended it without a word."""
    try:
        return connection.socket.recv(100) == b''
    except ConnectionResetError:
        return True


class Headers(unittest.TestCase):
    def start(self, *args, contract=CONTRACT, **more):
        server = Server(contract, args=args, **more)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def test_the_source_is_the_client(self):
        for header in (line, binary):
            with self.subTest(header=header.__name__):
                server = self.start('--proxy-protocol', 'http')
                statuses = [ask(server, BALANCER, header()).status for _ in range(3)]
                self.assertEqual(statuses, [200, 200, 429])
                self.assertEqual(ask(server, '127.0.1.2', header()).status, 429, 'through whichever balancer')
                self.assertEqual(ask(server, BALANCER, header('192.0.2.8')).status, 200, 'another client')
                self.assertEqual([ask(server, BALANCER, header(f'2001:db8:1:2::{i}')).status for i in range(3)], [200, 200, 429],
                                 'a /64 is one client')

    def test_what_the_client_says_of_itself_is_not_believed(self):
        """The balancer passes on all bytes: headers behind its own are the client's."""
        server = self.start('--proxy-protocol', 'http')
        forged = [[('X-Forwarded-For', f'198.51.100.{i}')] for i in range(3)]
        self.assertEqual([ask(server, BALANCER, line(), headers).status for headers in forged], [200, 200, 429])
        self.assertEqual(ask(server, BALANCER, line('192.0.2.20'), [('X-Tenant', 'acme')]).fields['ratelimit-limit'], '2',
                         'and it is not authenticated')

    def test_a_proxy_behind_the_balancer_is_still_one(self):
        server = self.start('--proxy-protocol', 'http')
        headers = [('X-Forwarded-For', '198.51.100.1'), ('X-Tenant', 'acme')]
        self.assertEqual(ask(server, BALANCER, line('192.0.2.99'), headers).fields['ratelimit-limit'], '7')

    def test_a_header_that_names_nobody_makes_nobody_trusted(self):
        """The balancer's own address counts, and what comes with it is somebody's whom it does not tell."""
        unix = SIGNATURE + b'\x21\x31' + struct.pack('>H', 216) + bytes(216)
        for name, header in [('local', LOCAL), ('unknown', b'PROXY UNKNOWN\r\n'), ('unix', unix)]:
            with self.subTest(header=name):
                server = self.start('--proxy-protocol', 'http')
                headers = [('X-Forwarded-For', '198.51.100.1'), ('X-Tenant', 'acme')]
                statuses = [ask(server, BALANCER, header, headers).status for _ in range(3)]
                self.assertEqual(statuses, [200, 200, 429])
                self.assertEqual(ask(server, '127.0.1.2', header).status, 200, 'the address is that of the balancer')

    def test_a_balancer_must_send_one(self):
        server = self.start('--proxy-protocol', 'http')
        for name, bytes_ in [('none', request('GET', '/healthz')), ('two blanks', b'PROXY  TCP4 192.0.2.7 127.0.0.1 1 80\r\n'),
                             ('a bad checksum', binary(more=b'\x03\x00\x04\x00\x00\x00\x00')), ('a bad version', SIGNATURE + b'\x31\x11\x00\x00'),
                             ('a second header', line() + line())]:
            with self.subTest(header=name), connect(server, BALANCER) as connection:
                connection.send(bytes_)
                if name == 'a second header':
                    self.assertEqual(connection.reply().status, 400)
                else:
                    self.assertTrue(ended(connection))
        self.assertIn('event=proxy_header_refused peer=127.0.1.1 reason=', server.log())
        metrics = server.ask('GET', '/metrics').text
        self.assertIn('weir_connections_refused_total{reason="proxy-header"} 4\n', metrics)

    def test_others_are_served_as_they_are(self):
        server = self.start('--proxy-protocol', 'http')
        self.assertEqual([ask(server, STRANGER).status for _ in range(3)], [200, 200, 429])
        reply = ask(server, STRANGER, line())
        self.assertEqual(reply.status, 400, 'a header of theirs is a bad request, and nobody is believed')

    def test_other_doors_know_no_headers(self):
        server = self.start('--proxy-protocol', 'resp', '--resp', '127.0.0.1:0')
        self.assertEqual(ask(server, BALANCER).status, 200)
        self.assertEqual(ask(server, BALANCER, line()).status, 400)

    def test_resp(self):
        server = self.start('--resp', '127.0.0.1:0', contract=CONTRACT + 'server: { proxy-protocol: [resp] }\n')
        port = int(re.search(r'^listening resp .*:(\d+)$', server.log(), re.M)[1])
        for header in (line(), binary(), LOCAL):
            with connect(server, BALANCER, port) as connection:
                connection.send(header + b'PING\r\n')
                self.assertEqual(connection.socket.recv(100), b'+PONG\r\n')
        with connect(server, BALANCER, port) as connection:
            connection.send(b'PING\r\n')
            self.assertTrue(ended(connection))

    def test_byte_by_byte_and_all_at_once(self):
        server = self.start('--proxy-protocol', 'http')
        for header in (line(), binary(more=b'\x04\x00\x02ab')):
            with connect(server, BALANCER) as connection:
                for byte in header + request('GET', '/healthz'):
                    connection.send(bytes([byte]))
                    time.sleep(0.001)
                self.assertEqual(connection.reply().status, 200)
            with connect(server, BALANCER) as connection:
                connection.send(header + request('GET', '/healthz') * 3)
                self.assertEqual([connection.reply().status for _ in range(3)], [200] * 3)
        longest = binary(more=b'\xe0' + struct.pack('>H', 65535 - 15) + bytes(65535 - 15))
        self.assertEqual(ask(server, BALANCER, longest, path='/healthz').status, 200)

    def test_a_header_has_10_seconds(self):
        server = self.start('--proxy-protocol', 'http', hooked=True, env=HURRY)
        for part in (b'', b'PROXY TCP4 ', binary()[:20]):
            with self.subTest(part=part), connect(server, BALANCER) as connection:
                connection.send(part)
                self.assertTrue(ended(connection))
        with connect(server, BALANCER) as connection:
            with self.assertRaises(OSError, msg='each byte restarts nothing'):
                for byte in SIGNATURE + b'\x21\x11\xff\xff' + bytes(1000):
                    connection.send(bytes([byte]))
                    time.sleep(0.02)
        self.assertIn('did not arrive in time', server.log())
        self.assertEqual(ask(server, STRANGER, path='/healthz').status, 200)

    def test_a_balancer_on_a_unix_socket(self):
        """Its uid is listed, so it must send a header, and then speaks for somebody else."""
        server = self.start('--proxy-protocol', 'http', http=['127.0.0.1:0', 'unix:DIR/http.sock'],
                            contract=CONTRACT)
        with server.connect('http.sock') as connection:
            connection.send(line('192.0.2.50') + request('GET', '/v1/auth', headers=[('X-Tenant', 'acme')]))
            self.assertEqual(connection.reply().fields['ratelimit-limit'], '2')
        with server.connect('http.sock') as connection:
            connection.send(request('GET', '/v1/auth'))
            self.assertTrue(ended(connection))

    def test_a_uid_speaks_for_nobody_else(self):
        tokens = {'tokens': ('check 0123456789abcdef check\n', 0o600)}
        server = self.start('--proxy-protocol', 'http', '--tokens', 'DIR/tokens', files=tokens,
                            http=['127.0.0.1:0', 'unix:DIR/http.sock'])
        body = b'{"attributes":{"ip":"192.0.2.1"}}'
        for header in (line(), LOCAL):
            with server.connect('http.sock') as connection:
                connection.send(header + request('POST', '/v1/check', body))
                self.assertEqual(connection.reply().status, 401)
            with server.connect('http.sock') as connection:
                connection.send(header + request('POST', '/v1/check', body, [('Authorization', 'Bearer 0123456789abcdef')]))
                self.assertEqual(connection.reply().status, 200)

    def test_before_tls(self):
        authority = Authority()
        self.addCleanup(shutil.rmtree, authority.dir)
        for name in ('server', 'client'):
            authority.sign(name)
        server = self.start('--proxy-protocol', 'http', '--tls-cert', authority.path('server.pem'), '--tls-key', authority.path('server.key'),
                            '--tls-client-ca', authority.path('ca.pem'))
        context = authority.context(client='client')
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.maximum_version = version
            for header in (line(), binary(), line()):
                plain = socket.create_connection(('127.0.0.1', server.port), 30, (BALANCER, 0))
                plain.sendall(header)
                with context.wrap_socket(plain, server_hostname='localhost') as secured:
                    secured.sendall(request('GET', '/v1/auth'))
                    self.assertRegex(secured.recv(4096), rb'^HTTP/1.1 (200|429) ')
        # The header and the first bytes of the handshake in one packet, which is what balancers send.
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing, server_hostname='localhost')
        plain = socket.create_connection(('127.0.0.1', server.port), 30, (BALANCER, 0))
        head = binary('192.0.2.60')
        with plain:
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain.sendall(head + outgoing.read())
                    head = b''
                    incoming.write(plain.recv(1 << 16))
            session.write(request('GET', '/v1/auth'))
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(1 << 16))
            self.assertIn(b'HTTP/1.1 200 ', session.read(4096))
        # A header within TLS is nonsense, and one that is no handshake behind it ends the connection.
        with connect(server, BALANCER) as connection:
            connection.send(line() + b'GET / HTTP/1.1\r\n\r\n')
            self.assertNotIn(b'HTTP', connection.socket.recv(100), 'an alert of TLS, or nothing')
        wait_for(lambda: 'event=handshake_failed' in server.log())

    def test_mistakes_are_told(self):
        for args, said in [(('--proxy-protocol', 'https'), "there is no door 'https'; write http, resp or grpc"),
                           (('--socket-mode', '0999'), "'0999' is no mode; write octal digits such as 0660"),
                           (('--connections-per-peer', '0'), 'connections-per-peer')]:
            status, log = Server(args=args).expect_exit()
            self.assertEqual(status, 2)
            self.assertIn(said, log)
        status, log = Server(CONTRACT + 'server: { proxy-protocol: [https] }\n').expect_exit()
        self.assertEqual(status, 2)
        self.assertIn('write a list of doors such as [http, grpc]', log)
        server = self.start(contract='weir: 1\nserver: { proxy-protocol: [http] }\nlimits: [{ name: a, key: [], rate: 1/s, burst: 1 }]\n')
        self.assertIn('names nobody who would send a header', server.log())


if __name__ == '__main__':
    unittest.main()
