# SPDX-License-Identifier: Apache-2.0
"""TLS at the doors: HTTP and Redis clients, who is refused, certificates of clients, other files at a reload, what is plain."""
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from door import BUCKET, Server, wait_for


def openssl(*words, cwd):
    subprocess.run(['openssl', *words], cwd=cwd, check=True, capture_output=True, timeout=60)


class Authority:
    """A private authority and what it signed: NAME.pem and NAME.key in a folder."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix='weir-tls-')
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=ca',
                '-keyout', 'ca.key', '-out', 'ca.pem', cwd=self.dir)

    def sign(self, name, common='localhost'):
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=' + common,
                '-keyout', name + '.key', '-out', name + '.csr', cwd=self.dir)
        with open(self.path('ext'), 'w') as file:
            file.write('subjectAltName=DNS:localhost,IP:127.0.0.1\n')
        openssl('x509', '-req', '-in', name + '.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2',
                '-extfile', 'ext', '-out', name + '.pem', cwd=self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def context(self, client=None, version=None):
        context = ssl.create_default_context(cafile=self.path('ca.pem'))
        if client:
            context.load_cert_chain(self.path(client + '.pem'), self.path(client + '.key'))
        if version:
            context.minimum_version = context.maximum_version = version
        return context


class Tls(Server):
    def __init__(self, authority, client_ca=False, args=(), resp=True, http='127.0.0.1:0', contract=BUCKET, **rest):
        args = [*args, '--tls-cert', authority.path('server.pem'), '--tls-key', authority.path('server.key')]
        if client_ca:
            args += ['--tls-client-ca', authority.path('ca.pem')]
        if resp:
            args += ['--resp', '127.0.0.1:0']
        super().__init__(contract, args=args, http=http, **rest)
        self.authority = authority

    def __enter__(self):
        super().__enter__()
        self.resp = [int(p) for p in re.findall(r'^listening resp .*:(\d+)$', self.log(), re.M)]
        return self

    def open(self, port=None, **how):
        plain = socket.create_connection(('127.0.0.1', port or self.port), 30)
        return self.authority.context(**how).wrap_socket(plain, server_hostname='localhost')


def post(secured, body='{"attributes":{"tenant":"acme"}}', path='/v1/check', headers=''):
    secured.sendall(f'POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}'.encode())


def reply(secured):
    data = b''
    while b'\r\n\r\n' not in data:
        more = secured.recv(65536)
        if not more:
            return data
        data += more
    head, rest = data.split(b'\r\n\r\n', 1)
    length = int(re.search(rb'(?i)content-length: (\d+)', head)[1])
    while len(rest) < length:
        rest += secured.recv(65536)
    return head + b'\r\n\r\n' + rest


class Doors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()
        for name in ('server', 'client'):
            cls.authority.sign(name)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.authority.dir)

    def test_http(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version=version), Tls(self.authority) as server, server.open(version=version) as secured:
                for remaining in (19, 18):
                    post(secured)
                    answer = reply(secured)
                    self.assertIn(b' 200 ', answer.split(b'\r\n')[0])
                    self.assertIn(b'"remaining":%d' % remaining, answer)

    def test_a_long_pipeline_and_a_large_reply(self):
        with Tls(self.authority) as server, server.open() as secured:
            item = '{"attributes":{"tenant":"acme"}}'
            post(secured, '{"requests":[%s]}' % ','.join([item] * 1000))
            self.assertEqual(reply(secured).count(b'"status":'), 1000)
            for _ in range(100):
                secured.sendall(b'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
            got = b''
            while got.count(b'HTTP/1.1 200') < 100:
                got += secured.recv(65536)

    def test_redis_cli(self):
        with Tls(self.authority) as server:
            out = subprocess.run(['redis-cli', '--tls', '--cacert', self.authority.path('ca.pem'), '-h', 'localhost', '-p', str(server.resp[0]),
                                  'WEIR.CHECK', 'ATTR', 'tenant', 'acme'], capture_output=True, text=True, timeout=60, check=True)
            self.assertRegex(out.stdout, r'decision\s+allow')

    def test_who_is_refused(self):
        with Tls(self.authority) as server:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                server.open(version=ssl.TLSVersion.TLSv1_1)
            with socket.create_connection(('127.0.0.1', server.port), 30) as plain:
                post(plain)
                self.assertNotIn(b'HTTP/1.1', plain.recv(65536))
            with server.open() as secured:  # the door is as before
                post(secured)
                self.assertIn(b' 200 ', reply(secured))

    def test_unix_sockets_are_plain(self):
        with Tls(self.authority, http=['127.0.0.1:0', 'unix:DIR/http.sock']) as server:
            with server.connect('http.sock') as connection:
                self.assertEqual(connection.ask('GET', '/healthz').status, 200)
            self.assertEqual(server.ask('GET', '/healthz', unix='admin.sock').status, 200)

    def test_certificates_of_clients(self):
        contract = """
weir: 1
identity:
  tenant: { from: "header:x-tenant", only: authenticated }
limits:
  - { name: known, key: [tenant], rate: 1/h, burst: 1 }
  - { name: all, key: [], rate: 1000/s, burst: 1000 }
"""
        tokens = 'check  0123456789abcdef0  billing\n'
        with Tls(self.authority, client_ca=True, contract=contract, args=['--tokens', 'DIR/tokens'],
                 files={'tokens': (tokens, 0o600)}) as server:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                with server.open() as secured:
                    post(secured)
                    if secured.recv(100) == b'':
                        raise ConnectionError
            with server.open(client='client') as secured:
                post(secured, '{"attributes":{"tenant":"another"}}')  # without a token
                self.assertIn(b' 200 ', reply(secured))
                for status in (b' 200 ', b' 429 '):  # what only authenticated callers may say is heard
                    post(secured, '', '/v1/auth', 'X-Tenant: acme\r\n')
                    self.assertIn(status, reply(secured))

    def test_beyond_loopback_with_certificates_of_clients(self):
        with Tls(self.authority, client_ca=True, http='0.0.0.0:0') as server, server.open(client='client') as secured:
            post(secured)
            self.assertIn(b' 200 ', reply(secured))
        server = Tls(self.authority, http='0.0.0.0:0')
        with self.assertRaises(AssertionError), server:
            pass
        self.assertIn('can be reached from other machines', server.log())

    def test_the_contract_says_it(self):
        contract = BUCKET + f"server: {{ tls: {{ cert: {self.authority.path('server.pem')}, key: {self.authority.path('server.key')} }} }}\n"
        with Server(contract) as server:
            plain = socket.create_connection(('127.0.0.1', server.port), 30)
            with self.authority.context().wrap_socket(plain, server_hostname='localhost') as secured:
                post(secured)
                self.assertIn(b' 200 ', reply(secured))

    def test_a_reload_reads_the_files_again(self):
        authority = Authority()
        authority.sign('server', 'first')

        def subject(server):
            with server.open() as secured:
                return dict(pair for part in secured.getpeercert()['subject'] for pair in part)['commonName']

        with Tls(authority) as server, server.open() as held:
            self.assertEqual(subject(server), 'first')
            authority.sign('server', 'second')
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'event=tls_reloaded' in server.log())
            self.assertEqual(subject(server), 'second')
            post(held)  # as it began
            self.assertIn(b' 200 ', reply(held))
        shutil.rmtree(authority.dir)

    def test_a_reload_that_keeps_the_old_certificate_says_so_everywhere(self):
        """Whoever rotates certificates reads the answer; who watches, a series; who looks, /healthz. Not only the log."""
        authority = Authority()
        authority.sign('server')
        authority.sign('other')
        with open(authority.path('server.pem')) as cert, open(authority.path('server.key')) as key:
            good = cert.read(), key.read()
        with open(authority.path('other.key')) as file:
            other_key = file.read()
        rows = [
            ('a key of another certificate', good[0], other_key, 'server.key: is not the key of the certificate'),
            ('swapped', good[1], good[0], 'server.pem: holds a key and no certificate; were the two files swapped?'),
            ('half written', good[0][:200], good[1], 'server.pem: holds no certificate in PEM that can be read'),
            ('no key', good[0], '', 'server.key: holds no key in PEM without a passphrase'),
            ('gone', None, good[1], 'server.pem: No such file or directory'),
        ]

        def put(cert, key):
            for name, text in (('server.pem', cert), ('server.key', key)):
                if text is None:
                    os.unlink(authority.path(name))
                    continue
                with open(authority.path(name), 'w') as file:
                    file.write(text)

        def reload(server):
            answer = server.ask('POST', '/v1/reload', unix='admin.sock')
            self.assertEqual(answer.status, 200)  # the contract is in force
            return [row for row in answer.json['warnings'] if row['line'] == 0]  # not those about the contract

        def metric(server, series):
            found = [line for line in server.ask('GET', '/metrics', unix='admin.sock').text.splitlines() if line.startswith(series + ' ')]
            return float(found[0].split(' ')[1])

        with Tls(authority) as server:
            ends = subprocess.run(['openssl', 'x509', '-in', authority.path('server.pem'), '-noout', '-enddate'], check=True,
                                  capture_output=True, text=True).stdout.strip().split('=')[1]
            self.assertEqual(metric(server, 'weir_tls_certificate_expiry_timestamp_seconds'), ssl.cert_time_to_seconds(ends))
            self.assertEqual(reload(server), [])
            for count, (why, cert, key, words) in enumerate(rows, 1):
                with self.subTest(why=why):
                    put(cert, key)
                    [warning] = reload(server)
                    self.assertEqual(warning['severity'], 'warning')
                    self.assertIn(words, warning['message'])
                    self.assertIn('the old certificate stays in use', warning['message'])
                    self.assertIn('reload again', warning['cure'])
                    health = server.ask('GET', '/healthz', unix='admin.sock')
                    self.assertEqual(health.status, 200)
                    self.assertRegex(health.text, r'^ok; tls: last reload failed at \d{4}-.*Z: ')
                    self.assertIn(words, health.text)
                    self.assertEqual(metric(server, 'weir_tls_reload_total{result="failed"}'), count)
                    self.assertIn(words, server.log().split('event=tls_kept')[-1])
                    for jargon in ('PEM lib', 'X509', 'error:'):
                        self.assertNotIn(jargon, health.text)
                    with server.open() as secured:  # the old pair serves
                        post(secured)
                        self.assertIn(b' 200 ', reply(secured))
            put(*good)
            self.assertEqual(reload(server), [])
            self.assertEqual(server.ask('GET', '/healthz', unix='admin.sock').text, 'ok\n')
            self.assertEqual(metric(server, 'weir_tls_reload_total{result="ok"}'), 2)

            put(good[0], other_key)  # and beside a contract with errors
            with open(server.contract, 'w') as file:
                file.write('weir: 1\n')
            answer = server.ask('POST', '/v1/reload', unix='admin.sock')
            self.assertEqual(answer.status, 422)
            self.assertEqual([(row['severity'], row['line']) for row in answer.json['diagnostics'][:1]], [('warning', 0)])
            self.assertRegex(server.ask('GET', '/healthz', unix='admin.sock').text, '^ok; contract: last reload .*; tls: last reload ')
        shutil.rmtree(authority.dir)

    def test_what_is_no_tls_is_counted(self):
        with Tls(self.authority) as server:
            with socket.create_connection(('127.0.0.1', server.port), 30) as plain:
                post(plain)
                plain.recv(65536)
            wait_for(lambda: 'weir_tls_handshakes_failed_total 1\n' in server.ask('GET', '/metrics', unix='admin.sock').text)
            self.assertIn('event=handshake_failed peer=127.0.0.1 reason="TLS: what it sends is not TLS"', server.log())

    def test_files_that_do_not_fit(self):
        cert, key = self.authority.path('server.pem'), self.authority.path('server.key')
        rows = [
            (['--tls-cert', cert], 'TLS needs a certificate and its key', 'half of it'),
            (['--tls-client-ca', cert], 'TLS needs a certificate and its key', 'nothing to show'),
            (['--tls-cert', '/nowhere.pem', '--tls-key', key], '/nowhere.pem', 'no such file'),
            (['--tls-cert', cert, '--tls-key', self.authority.path('client.key')], 'client.key', 'of another certificate'),
        ]
        for args, said, why in rows:
            with self.subTest(why=why):
                status, log = Server(args=args).expect_exit()
                self.assertEqual(status, 2)
                self.assertIn(said, log)

    def test_drain(self):
        with Tls(self.authority) as server, server.open() as secured:
            post(secured)
            reply(secured)
            server.process.terminate()
            self.assertEqual(secured.recv(100), b'')


if __name__ == '__main__':
    unittest.main()
