# SPDX-License-Identifier: Apache-2.0
"""nginx in front of an application, asking weir, with the very files of examples/nginx (only ports are replaced).

weir's time stands still here (test build, no Weir-Now reaches it), so counts are exact: per-address admits 20,
sign-in 5.
"""
import http.server
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from door import SOURCE, Connection, Server, free_port, request, wait_for

EXAMPLES = os.path.join(SOURCE, 'examples', 'nginx')
NGINX = shutil.which('nginx') or '/usr/sbin/nginx'


class Backend:
    """An HTTP server in a thread: the application, or something in weir's place."""

    def __init__(self, status=200, delay=0, fields=()):
        self.seen = []
        self.times = []  # (method, path, when it came)
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def answer(self):
                self.rfile.read(int(self.headers.get('Content-Length', 0)))  # unread, it would reset the connection
                backend.times.append((self.command, self.path, time.monotonic()))
                backend.seen.append((self.command, self.path, dict(self.headers)))
                time.sleep(delay)
                body = b'forbidden by the application' if self.path == '/own-403' else b'the application'
                self.send_response(403 if self.path == '/own-403' else status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # nginx no longer waits

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Nginx:
    def __init__(self, name, weir_port, app_port):
        self.dir = tempfile.mkdtemp(prefix='nginx-')
        os.chmod(self.dir, 0o755)  # started by root, its workers are somebody else
        self.port = free_port()
        text = self.text_of(name)
        for old, new in [('127.0.0.1:8080', weir_port), ('127.0.0.1:8000', app_port), ('127.0.0.1:8090', self.port)]:
            assert len(re.findall(f'^[^#]*{old}', text, re.M)) == 1, f'{old} once, so that the test can replace it'
            text = re.sub(old, f'127.0.0.1:{new}', text)
        config = os.path.join(self.dir, 'nginx.conf')
        with open(config, 'w') as file:
            file.write(text)
        self.log_path = os.path.join(self.dir, 'log')
        with open(self.log_path, 'wb') as log:
            self.process = subprocess.Popen([NGINX, '-p', self.dir, '-c', config], stderr=log)

    def text_of(self, name):
        with open(os.path.join(EXAMPLES, name)) as file:
            return file.read()

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def __enter__(self):
        def answers():
            assert self.process.poll() is None, self.log()
            try:
                socket.create_connection(('127.0.0.1', self.port), 1).close()
                return True
            except OSError:
                return False
        wait_for(answers)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.dir, ignore_errors=True)

    def ask(self, path='/', method='GET', headers=(), source='127.0.0.1', body=b''):
        connection = Connection.__new__(Connection)
        connection.socket = socket.create_connection(('127.0.0.1', self.port), 30, (source, 0))
        connection.buffer = b''
        with connection:
            connection.send(request(method, path, body, [*headers, ('Connection', 'close')]))
            return connection.reply()


def example_contract():
    with open(os.path.join(EXAMPLES, 'weir.yaml')) as file:
        return file.read()


class Stack:
    """An application, weir with the example's contract and frozen time, and nginx with one of the example's files."""

    def __init__(self, name):
        self.app = Backend()
        self.weir = Server(example_contract(), virtual=True)
        self.weir.__enter__()
        self.nginx = Nginx(name, self.weir.port, self.app.port)

    def __enter__(self):
        self.app.__enter__()
        self.nginx.__enter__()
        return self

    def __exit__(self, *_):
        self.nginx.__exit__()
        self.weir.__exit__()
        self.app.__exit__()

    def stop_weir(self):
        self.weir.process.terminate()
        self.weir.process.wait(30)


BOTH = ['nginx-fail-open.conf', 'nginx-fail-closed.conf']


class Example(unittest.TestCase):
    def test_burst_then_429(self):
        for name in BOTH:
            with self.subTest(name), Stack(name) as stack:
                replies = [stack.nginx.ask(f'/items/{i}?q=1') for i in range(21)]
                self.assertEqual([r.status for r in replies], [200] * 20 + [429])
                self.assertEqual([r.fields['ratelimit-remaining'] for r in replies[:20]],
                                 [str(19 - i) for i in range(20)])
                self.assertEqual(replies[0].fields['ratelimit-limit'], '20')
                self.assertEqual(replies[0].body, b'the application')
                refused = replies[20]
                self.assertEqual(refused.fields['retry-after'], '1', '100 ms, rounded up')
                self.assertEqual((refused.fields['ratelimit-limit'], refused.fields['ratelimit-remaining'],
                                  refused.fields['ratelimit-reset']), ('20', '0', '1'))
                self.assertEqual(refused.fields['cache-control'], 'no-store')
                self.assertEqual(refused.fields['content-type'], 'application/problem+json')
                self.assertEqual(refused.json['status'], 429)
                self.assertEqual(len(stack.app.seen), 20, 'the refused one never reached the application')
                self.assertEqual(stack.nginx.ask(source='127.0.0.5').status, 200, 'another address has its own')

    def test_what_passes_is_untouched(self):
        with Stack(BOTH[0]) as stack:
            reply = stack.nginx.ask('/own-403')
            self.assertEqual((reply.status, reply.body), (403, b'forbidden by the application'))
            reply = stack.nginx.ask('/form', 'POST', body=b'x' * 100000)
            self.assertEqual(reply.status, 200, stack.nginx.log())
            self.assertEqual(stack.app.seen[-1][:2], ('POST', '/form'))
            self.assertNotIn('unexpected status', stack.nginx.log())

    def test_weir_stopped(self):
        for name, statuses in [('nginx-fail-open.conf', [200] * 3), ('nginx-fail-closed.conf', [503] * 3)]:
            with self.subTest(name), Stack(name) as stack:
                self.assertEqual(stack.nginx.ask().status, 200)
                stack.stop_weir()
                replies = [stack.nginx.ask() for _ in range(3)]
                self.assertEqual([r.status for r in replies], statuses)
                if statuses[0] == 503:
                    self.assertEqual(replies[0].fields['retry-after'], '1')
                    self.assertEqual(replies[0].fields['cache-control'], 'no-store')
                    self.assertEqual(len(stack.app.seen), 1)

    def test_weir_late_or_undecided(self):
        """50 ms late counts as down; weir's own 503 counts as its word, in both."""
        for why, backend, open_status, closed_status in [
                ('late', {'delay': 0.5}, 200, 503),
                ('undecided', {'status': 503, 'fields': [('Retry-After', '7')]}, 503, 503)]:
            for name, status in zip(BOTH, [open_status, closed_status]):
                with self.subTest(f'{why}, {name}'), Backend(**backend) as weir, Backend() as app, \
                        Nginx(name, weir.port, app.port) as nginx:
                    reply = nginx.ask()
                    self.assertEqual(reply.status, status)
                    if why == 'undecided':
                        self.assertEqual(reply.fields['retry-after'], '7')

    def test_accel(self):
        """What passes reaches the application whole; a refusal reaches the client as weir wrote it."""
        with Stack('nginx-accel.conf') as stack:
            for i in range(20):
                reply = stack.nginx.ask(f'/items/{i}?q=1', 'PUT', [('X-Mine', 'y')], body=b'x' * 1000)
                self.assertEqual((reply.status, reply.body), (200, b'the application'))
            method, path, headers = stack.app.seen[-1]
            self.assertEqual((method, path, headers['X-Mine'], headers['Content-Length']),
                             ('PUT', '/items/19?q=1', 'y', '1000'))
            refused = stack.nginx.ask('/', headers=[('X-Forwarded-For', '203.0.113.7'), ('X-Original-URI', '/y')])
            self.assertEqual((refused.status, refused.json['limit']), (429, 'per-address'))
            self.assertEqual((refused.fields['retry-after'], refused.fields['ratelimit-remaining']), ('1', '0'))
            self.assertEqual(len(stack.app.seen), 20)
            stack.stop_weir()
            self.assertEqual(stack.nginx.ask().status, 502)

    def test_heads_that_nginx_accepts_reach_a_decision(self):
        """An old client without Host, and a path of raw bytes: weir would refuse a head that passed them on as such."""
        for name in [*BOTH, 'nginx-accel.conf']:
            with Stack(name) as stack:
                for head in ['GET /old HTTP/1.0\r\n', 'GET /caf\xe9?\xe9 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n']:
                    with self.subTest(name=name, head=head), Connection(stack.nginx.port) as connection:
                        connection.send(head.encode('latin-1') + b'\r\n')
                        self.assertEqual(connection.reply().status, 200)

    # A client that sends these would like to be somebody else, ask for something else, or wait.
    FORGED = [
        [('X-Forwarded-For', '203.0.113.7')],
        [('X-Forwarded-For', '203.0.113.7, 127.0.0.1')],
        [('X-Forwarded-For', ''), ('X-Forwarded-For', '203.0.113.7')],
        [('X_Forwarded_For', '203.0.113.7')],
        [('Forwarded', 'for=203.0.113.7')],
        [('X-Real-IP', '203.0.113.7')],
        [('Client-IP', '203.0.113.7')],
        [('X-Original-URI', '/free')],
        [('X-Original-URI', '/%zz')],
        [('X-Original-Method', 'GET')],
        [('X-Forwarded-Uri', '/free')],
        [('X-Forwarded-Method', 'GET')],
        [('X-Forwarded-Host', 'free.test')],
        [('X-Original-Method', 'GET'), ('X-Original-URI', '/free'), ('X-Forwarded-For', '203.0.113.7')],
        [('Prefer', 'wait=10')],
        [('Weir-Token', '0123456789abcdef')],
        [('Weir-Now', '3600000000000')],
        [('Authorization', 'Bearer 0123456789abcdef')],
        [('Connection', 'X-Original-URI, X-Forwarded-For')],
        [('Transfer-Encoding', 'chunked')],
        [('X-Forwarded-For', '203.0.113.7, ' * 300)],
        [(f'X-{i}', 'y') for i in range(150)],
    ]

    def test_B49_client_chooses_no_address_path_method_or_wait(self):
        """With its budget spent, each forged head is still refused, at once, and counted for nobody else."""
        with Stack(BOTH[0]) as stack:
            self.assertEqual([stack.nginx.ask('/login', 'POST').status for _ in range(6)], [200] * 5 + [429])
            for forged in self.FORGED:
                with self.subTest(forged[0]):
                    body = b'0\r\n\r\n' if forged[0][0] == 'Transfer-Encoding' else b''
                    begun = time.monotonic()
                    if body:
                        reply = self.chunked_post(stack.nginx)
                    else:
                        reply = stack.nginx.ask('/login', 'POST', forged)
                    self.assertEqual(reply.status, 429)
                    self.assertEqual(reply.fields['retry-after'], '12', 'one in 12 s, whatever the client wishes')
                    self.assertLess(time.monotonic() - begun, 5, 'it did not wait the 10 s it asked for')
            self.assertEqual(len(stack.app.seen), 5)
            for spelling in ['/login?x', '//login', '/a/../login', '/%6cogin', '/login#/free', '/./login?/../free',
                             '/login/', '/login/?x']:
                self.assertEqual(stack.nginx.ask(spelling, 'POST').status, 429, spelling)

    def test_B49_nobody_spends_the_budget_of_another(self):
        with Stack(BOTH[0]) as stack:
            for _ in range(25):
                stack.nginx.ask(headers=[('X-Forwarded-For', '127.0.0.9'), ('Forwarded', 'for=127.0.0.9')])
            reply = stack.nginx.ask(source='127.0.0.9')
            self.assertEqual((reply.status, reply.fields['ratelimit-remaining']), (200, '19'))

    def chunked_post(self, nginx):
        with Connection(nginx.port) as connection:
            connection.send('POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n'
                            'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
            return connection.reply()

    def test_what_reaches_weir(self):
        """The head that nginx sends is made of its own words only."""
        with Backend() as weir, Backend() as app, Nginx(BOTH[0], weir.port, app.port) as nginx:
            nginx.ask('/a%20b?c=d', 'POST', [('Cookie', 'x'), ('X-Forwarded-For', 'y'), ('Prefer', 'wait=1'),
                                            ('Weir-Token', 'z')], source='127.0.0.7')
            method, path, headers = weir.seen[0]
            self.assertEqual((method, path), ('GET', '/v1/auth-nginx'))
            self.assertEqual({k.lower(): v for k, v in headers.items()},
                             {'host': 'weir.test', 'x-original-method': 'POST', 'x-original-uri': '/a%20b?c=d',
                              'x-forwarded-for': '127.0.0.7'})


if __name__ == '__main__':
    unittest.main()
