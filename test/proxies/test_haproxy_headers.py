# SPDX-License-Identifier: Apache-2.0
"""HAProxy as a balancer that only passes bytes on, and says by PROXY headers whose: both versions, to each door, also with TLS behind
it, and with its health checks (LOCAL). HAProxy asks from 127.0.1.1, which is in identity.proxies; clients are other addresses.

LABELS: e2e
"""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from proxies import free_port, program, wait_for
from door import PATIENCE, Connection, Server, request
from test_door_tls import Authority

CONTRACT = """
weir: 1
identity: { proxies: [127.0.1.0/24] }
server: { proxy-protocol: [http, resp, grpc] }
limits:
  - { name: by-address, key: [ip], rate: 2/1h, burst: 2 }
"""

CONFIG = """
global
  log stderr local0 warning
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
"""

PASS = """
listen {name}
  bind 127.0.0.1:{front}
  unique-id-format %[uuid()]
  server weir 127.0.0.1:{back} source 127.0.1.1 {options}
"""

VERSIONS = {'v1': 'send-proxy', 'v2': 'send-proxy-v2', 'v2-checked': 'send-proxy-v2 proxy-v2-options unique-id,crc32c,ssl,authority'}

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


class HAProxy:
    def __init__(self, passes):
        self.dir = tempfile.mkdtemp(prefix='weir-haproxy-')
        self.front = {name: free_port() for name in passes}
        text = CONFIG
        for name, (back, options) in passes.items():
            text += PASS.format(name=name, front=self.front[name], back=back, options=options)
        with open(os.path.join(self.dir, 'haproxy.cfg'), 'w') as file:
            file.write(text)

    def __enter__(self):
        haproxy = program('haproxy')
        self.log = open(os.path.join(self.dir, 'log'), 'w+')
        self.process = subprocess.Popen([haproxy, '-db', '-f', os.path.join(self.dir, 'haproxy.cfg')], stdout=self.log, stderr=self.log,
                                        env={**os.environ, 'LD_LIBRARY_PATH': haproxy + '.lib'})
        for port in self.front.values():
            wait_for(lambda port=port: self.is_open(port))
        return self

    def is_open(self, port):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError('haproxy ended:\n' + self.log.read())
        with socket.socket() as probe:
            return probe.connect_ex(('127.0.0.1', port)) == 0

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)

    def connect(self, name, client):
        connection = Connection.__new__(Connection)
        connection.socket = socket.create_connection(('127.0.0.1', self.front[name]), PATIENCE, (client, 0))
        connection.buffer = b''
        return connection

    def status(self, name, client, headers=()):
        with self.connect(name, client) as connection:
            connection.send(request('GET', '/v1/auth', headers=headers))
            return connection.reply().status


def ports_of(server, door):
    return [int(p) for p in re.findall(rf'^listening {door} .*:(\d+)$', server.log(), re.M)]


class Headers(unittest.TestCase):
    def test_http(self):
        for version, options in VERSIONS.items():
            with self.subTest(version=version), Server(CONTRACT) as server, HAProxy({'http': (server.port, options)}) as haproxy:
                forged = [('X-Forwarded-For', '198.51.100.9')]
                self.assertEqual([haproxy.status('http', '127.0.0.7', forged) for _ in range(3)], [200, 200, 429])
                self.assertEqual(haproxy.status('http', '127.0.0.8'), 200, 'another client')
                self.assertNotIn('proxy_header_refused', server.log())

    def test_what_sends_none_is_refused(self):
        with Server(CONTRACT) as server, HAProxy({'http': (server.port, '')}) as haproxy:
            with haproxy.connect('http', '127.0.0.7') as connection:
                connection.send(request('GET', '/v1/auth'))
                try:
                    self.assertEqual(connection.socket.recv(100), b'')
                except ConnectionResetError:
                    pass
            wait_for(lambda: 'event=proxy_header_refused peer=127.0.1.1 ' in server.log())

    def test_health_checks(self):
        with Server(CONTRACT) as server:
            options = 'send-proxy-v2 check check-send-proxy inter 100ms\n  option httpchk GET /readyz\n  log stderr local0 info'
            with HAProxy({'http': (server.port, options)}) as haproxy:
                wait_for(lambda: server.ask('GET', '/metrics').text.count('weir_requests_total{door="readyz",code="200"}') > 0)
                self.assertEqual(haproxy.status('http', '127.0.0.7'), 200)
                self.assertNotIn('proxy_header_refused', server.log())

    def test_redis_clients(self):
        """That the client's address arrived shows in whose place among the connections it takes."""
        for version, options in VERSIONS.items():
            with self.subTest(version=version), Server(CONTRACT, args=['--resp', '127.0.0.1:0', '--connections-per-peer', '2']) as server:
                with HAProxy({'resp': (ports_of(server, 'resp')[0], options)}) as haproxy:
                    held = []
                    for client, answer in [('127.0.0.7', b'+PONG\r\n'), ('127.0.0.7', b'+PONG\r\n'), ('127.0.0.7', b''), ('127.0.0.8', b'+PONG\r\n')]:
                        held.append(haproxy.connect('resp', client))
                        held[-1].send(b'PING\r\n')
                        self.assertEqual(held[-1].socket.recv(100), answer)
                    for connection in held:
                        connection.socket.close()

    def test_grpc(self):
        """HTTP/2 begins behind the header: the first frame that comes back is one of SETTINGS."""
        for version, options in VERSIONS.items():
            with self.subTest(version=version), Server(CONTRACT, args=['--grpc', '127.0.0.1:0']) as server:
                with HAProxy({'grpc': (ports_of(server, 'grpc')[0], options)}) as haproxy, haproxy.connect('grpc', '127.0.0.7') as connection:
                    connection.send(PREFACE)
                    frame = b''
                    while len(frame) < 9:
                        frame += connection.socket.recv(100)
                    self.assertEqual(frame[3], 4)

    def test_before_tls(self):
        authority = Authority()
        self.addCleanup(shutil.rmtree, authority.dir)
        authority.sign('server')
        args = ['--tls-cert', authority.path('server.pem'), '--tls-key', authority.path('server.key')]
        for version, options in VERSIONS.items():
            with self.subTest(version=version), Server(CONTRACT, args=args) as server, HAProxy({'http': (server.port, options)}) as haproxy:
                found = []
                for _ in range(3):
                    with haproxy.connect('http', '127.0.0.7') as connection:
                        with authority.context().wrap_socket(connection.socket, server_hostname='localhost') as secured:
                            secured.sendall(request('GET', '/v1/auth'))
                            found.append(secured.recv(4096)[9:12])
                self.assertEqual(found, [b'200', b'200', b'429'])


if __name__ == '__main__':
    unittest.main()
