# SPDX-License-Identifier: Apache-2.0
"""Real proxies under test, with the very files of examples/NAME: the folder is copied, its ports are replaced, and where they say 50 ms
ten times that, since the tests' machine has other things to do; nothing else.

An application behind, weir beside, the proxy in front, each on a port of its own on loopback, each stopped by its pid. A program that is
missing fails the test: tools/proxies installs them.
"""
import atexit
import contextlib
import hashlib
import http.client
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'doors'))
from door import SOURCE, Server, free_port, wait_for  # noqa: E402

EXAMPLES = os.path.join(SOURCE, 'examples')
# What an answer may take however busy the machine is, and less than the seconds that a proxy waits by itself.
SOON = 3

LONGER = {'50ms': '500ms', '0.05s': '0.5s', '50': '500'}

_running = {}


@atexit.register
def _stop_all():
    for process in _running.values():
        if process.poll() is None:
            process.kill()
            process.wait()


def program(name):
    folder = subprocess.run([os.path.join(SOURCE, 'tools', 'proxies'), '--where'], capture_output=True, text=True,
                            check=True).stdout.strip()
    path = os.path.join(folder, name)
    if not os.access(path, os.X_OK):
        raise AssertionError(f'{name} is not installed: tools/proxies says what is missing')
    return path


class App:
    """The application: records what reaches it, and says 403 and 429 of its own where it is asked to."""

    def __init__(self):
        self.seen = []  # (method, path, {name: value}, length of the body, its SHA-256)
        self.connections = []
        app = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def setup(self):
                super().setup()
                app.connections.append(self.connection)

            def answer(self):
                body = b''.join(self.body())
                app.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, len(body),
                                 hashlib.sha256(body).hexdigest()))
                text = b'the application'
                own = re.search(r'/own-(\d+)', self.path)
                self.send_response(int(own.group(1)) if own else 200)
                if own:
                    self.send_header('Retry-After', '77')
                self.send_header('Content-Length', str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def body(self):
                if self.headers.get('Transfer-Encoding') != 'chunked':
                    yield self.rfile.read(int(self.headers.get('Content-Length', 0)))
                    return
                while size := int(self.rfile.readline().split(b';')[0], 16):
                    yield self.rfile.read(size)
                    self.rfile.readline()
                while self.rfile.readline() not in (b'\r\n', b''):
                    pass

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer

            def log_message(self, *_):
                pass

        class HttpServer(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a proxy ended its connection

        self.server = HttpServer(('127.0.0.1', 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        if self.server is None:
            return
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server = None


class Reply:
    def __init__(self, response, took):
        self.status = response.status
        self.body = response.read()
        self.took = took
        self.fields = {}
        for name, value in response.getheaders():
            assert name.lower() not in self.fields, f'{name} twice: {response.getheaders()}'
            self.fields[name.lower()] = value

    def __repr__(self):
        return f'<{self.status} {self.fields} {self.body[:200]}>'


class Stack:
    """An application, weir and a proxy. `edit`: (old, new) pairs to replace in the example's files, each exactly once in
    a file."""

    ports = {'app': 8000, 'http': 8080, 'grpc': 8081, 'site': 8090, 'envoy': 9901}  # of the examples

    def __init__(self, folder, command, contract='weir.yaml', edit=(), env=None, virtual=True, late=None, weir=True,
                 end=signal.SIGKILL):
        self.dir = tempfile.mkdtemp(prefix='weir-proxy-')
        os.chmod(self.dir, 0o755)  # started by root, a proxy's workers may be somebody else
        self.app = App()
        self.port_of = {name: free_port() for name in self.ports}
        self.port_of['app'] = self.app.port
        self.virtual, self.late = virtual, late
        self.end = end  # of one process there is nothing to tidy up, and some take seconds over it
        self.weir = None
        self.process = None
        self.command, self.environment = command, env or {}
        self.log_path = os.path.join(self.dir, 'log')
        try:
            self.copy(os.path.join(EXAMPLES, folder), edit)
            self.contract = contract if '\n' in contract else self.read(contract)
            if weir:
                self.start_weir()
            self.start_proxy()
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    # ---- Files

    def copy(self, folder, edit):
        left = list(edit)
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            for old, new in edit:
                if old in text:
                    assert text.count(old) == 1, f'{old!r} is in {name} more than once'
                    text = text.replace(old, new)
                    left = [pair for pair in left if pair != (old, new)]
            for which, port in self.ports.items():
                text = re.sub(rf'(127\.0\.0\.1:|//:|port_value: ){port}\b', rf'\g<1>{self.port_of[which]}', text)
            text = re.sub(r'(?<=[ /])(50ms|0\.05s|50(?= open| closed))\b', lambda found: LONGER[found.group()], text)
            with open(os.path.join(self.dir, name), 'w') as file:
                file.write(text)
        assert left == [], f'not in {folder}: {left}'

    def read(self, name):
        with open(os.path.join(self.dir, name)) as file:
            return file.read()

    # ---- Processes

    def start_weir(self, late=None):
        env = {'WEIR_TEST_LATE': f'1:{late or self.late}'} if late or self.late else {}
        address = [f'127.0.0.1:{self.port_of["http"]}']
        self.weir = self.server(self.contract, virtual=self.virtual, hooked=bool(env), http=address, env=env, args=self.weir_args())
        self.weir.__enter__()

    def weir_args(self):
        return []

    server = Server

    def stop_weir(self):
        weir, self.weir = self.weir, None
        weir.__exit__()

    def hang_weir(self):
        """All of its threads: on a busy machine one may go on for a while."""
        tasks = f'/proc/{self.weir.process.pid}/task'

        def state(task):
            with open(f'{tasks}/{task}/stat') as file:
                return file.read().rsplit(')', 1)[1].split()[0]
        os.kill(self.weir.process.pid, signal.SIGSTOP)
        wait_for(lambda: all(state(task) == 'T' for task in os.listdir(tasks)))

    def wake_weir(self):
        os.kill(self.weir.process.pid, signal.SIGCONT)

    def start_proxy(self):
        with open(self.log_path, 'wb') as log:
            self.process = subprocess.Popen(self.command, cwd=self.dir, stdout=log, stderr=log,
                                            env={**os.environ, 'HOME': self.dir, 'XDG_CONFIG_HOME': self.dir,
                                                 'XDG_DATA_HOME': self.dir, **self.environment})
        _running[self.process.pid] = self.process
        wait_for(self.is_ready)
        self.app.seen.clear()

    def is_ready(self):
        """Routes may come after the port: until then it answers 404. Asked by an address that no test has."""
        assert self.process.poll() is None, self.log()
        try:
            return self.ask('/ready', source='127.0.0.99').status != 404
        except OSError:
            return False

    def log(self):
        with open(self.log_path, errors='replace') as file:
            return ''.join(file.readlines()[-60:])

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print(f'---- log of the proxy:\n{self.log() if self.process else ""}', file=sys.stderr)
            if self.weir is not None:
                print(f'---- log of weir:\n{self.weir.log()}', file=sys.stderr)
        try:
            if self.process is not None:
                self.process.send_signal(self.end)
                try:
                    self.process.wait(10)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                del _running[self.process.pid]
            if self.weir is not None:
                self.wake_weir()
                self.stop_weir()
        finally:
            self.app.stop()
            shutil.rmtree(self.dir, ignore_errors=True)

    # ---- A client

    def ask(self, path='/', method='GET', headers=(), source='127.0.0.1', body=b'', chunk=0):
        """One request on a connection of its own, path and headers as they are; in chunks of that size where it says so."""
        client = http.client.HTTPConnection('127.0.0.1', self.port_of['site'], timeout=30, source_address=(source, 0))
        begun = time.monotonic()
        try:
            client.putrequest(method, path, skip_accept_encoding=True, skip_host=any(n.lower() == 'host' for n, _ in headers))
            for name, value in headers:
                client.putheader(name, value)
            if chunk:
                client.putheader('Transfer-Encoding', 'chunked')
                body = b''.join(b'%x\r\n%s\r\n' % (len(part), part) for part in
                                [*(body[i:i + chunk] for i in range(0, len(body), chunk)), b''])
            elif body or method in ('POST', 'PUT'):
                client.putheader('Content-Length', str(len(body)))
            # In one piece with the head: what is refused may be answered, and its connection closed, before a second one.
            client.endheaders(body or None)
            return Reply(client.getresponse(), time.monotonic() - begun)
        finally:
            client.close()
