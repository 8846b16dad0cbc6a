# SPDX-License-Identifier: Apache-2.0
"""A weir server under test: started on a free port, asked over raw sockets, stopped by its pid.

Raw sockets, because a client library would repair or refuse what these tests must send as it is.
"""
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

BUILD = os.environ.get('WEIR_BUILD', 'build')
SOURCE = os.environ.get('WEIR_SOURCE', '.')

# How long anything may take that takes milliseconds on an idle machine: sanitizers on a busy one are slow.
PATIENCE = 30

BUCKET = """
weir: 1
limits:
  - name: tenant-requests
    key: [tenant]
    rate: 5/s
    burst: 20
"""


class Server:
    """`weir serve` with this contract text. `hooked`: the test build; `virtual`: its time comes from Weir-Now. `http` may be
    empty, `admin` False: no such option. `popen` starts it otherwise, with other descriptors for instance."""

    def __init__(self, contract=BUCKET, hooked=False, virtual=False, env=None, args=(), http='127.0.0.1:0',
                 files=None, preload=None, admin=True, popen=subprocess.Popen):
        self.dir = tempfile.mkdtemp(prefix='weir-')
        self.contract = os.path.join(self.dir, 'weir.yaml')
        with open(self.contract, 'w') as file:
            file.write(contract)
        for name, (text, mode) in (files or {}).items():
            path = os.path.join(self.dir, name)
            with open(path, 'w') as file:
                file.write(text)
            os.chmod(path, mode)
        self.admin = os.path.join(self.dir, 'admin.sock')
        program = os.path.join(BUILD, 'weir-hooked' if hooked or virtual else 'weir')
        environment = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        environment.update(env or {})
        if virtual:
            environment['WEIR_TEST_WALL'] = '0'
        if preload:
            environment['LD_PRELOAD'] = preload
        arguments = [a.replace('DIR', self.dir) for a in args]
        if admin and '--admin' not in arguments:
            arguments += ['--admin', 'unix:' + self.admin]
        for address in [http] if isinstance(http, str) else http:
            arguments += ['--http', address.replace('DIR', self.dir)]
        self.log_path = os.path.join(self.dir, 'log')
        with open(self.log_path, 'wb') as log:
            with open(self.contract) as stdin:
                self.process = popen([program, 'serve', self.popen_path(), *arguments], stdin=stdin, stderr=log,
                                     stdout=subprocess.DEVNULL, env=environment, cwd=self.dir)
        self.ports = []

    def popen_path(self):
        """The contract's path as the server is told it."""
        return self.contract

    def __enter__(self):
        wait_for(lambda: self.has_event('serving') or self.process.poll() is not None)
        self.ports = [int(p) for p in re.findall(r'door[=":]+http[", ]+addr[=":]+.*:(\d+)\b', self.log())]
        if self.process.poll() is not None:
            raise AssertionError('the server did not start:\n' + self.log())
        return self

    def __exit__(self, *_):
        try:
            if self.process.poll() is None and not self.has_event('draining'):
                self.process.terminate()  # a second one would not wait for the drain
            status = self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            log = self.log()
            shutil.rmtree(self.dir, ignore_errors=True)
        assert status in (0, -signal.SIGKILL), f'the server ended with {status}:\n{log}'

    @property
    def port(self):
        return self.ports[0]

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def has_event(self, name):
        """Whether the log says so, in either of its forms."""
        return re.search(f'event[=":]+{name}[ "\\n]', self.log()) is not None

    def expect_exit(self):
        """For servers that refuse to start: the status and what they said."""
        status = self.process.wait(PATIENCE)
        log = self.log()
        shutil.rmtree(self.dir, ignore_errors=True)
        return status, log

    def connect(self, unix=None):
        return Connection(self.port if unix is None else os.path.join(self.dir, unix))

    def ask(self, method, path, body=b'', headers=(), unix=None):
        """One request on a connection of its own."""
        with self.connect(unix) as connection:
            return connection.ask(method, path, body, headers)

    def check(self, attributes='{"tenant":"acme"}', headers=(), **more):
        members = ''.join(f',"{k}":{v}' for k, v in more.items())
        return self.ask('POST', '/v1/check', f'{{"attributes":{attributes}{members}}}', headers)

    def metric(self, line):
        """The value of one series, 0 where it is not shown."""
        for found in self.ask('GET', '/metrics').text.splitlines():
            if found.startswith(line + ' '):
                return float(found[len(line) + 1:])
        return 0

    def waits(self, end):
        """How many requests that had to wait ended so, of all limits."""
        found = [line.split() for line in self.ask('GET', '/metrics').text.splitlines()
                 if line.startswith('weir_waits_total{') and f'end="{end}"' in line]
        return sum(float(value) for _, value in found)


class Connection:
    def __init__(self, where):
        if isinstance(where, int):
            self.socket = socket.create_connection(('127.0.0.1', where), PATIENCE)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE)
            self.socket.connect(where)
        self.buffer = b''

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def _more(self):
        data = self.socket.recv(1 << 16)
        self.buffer += data
        return len(data) > 0

    def reply(self, head_only=False):
        """The next reply, or None at the end of the connection."""
        while b'\r\n\r\n' not in self.buffer:
            if not self._more():
                assert self.buffer == b'', f'cut in the middle of a reply: {self.buffer!r}'
                return None
        head, self.buffer = self.buffer.split(b'\r\n\r\n', 1)
        reply = Reply(head.decode('latin-1'))
        if reply.status == 100:
            return reply
        length = 0 if head_only else int(reply.fields['content-length'] if reply.status != 204 else 0)
        while len(self.buffer) < length:
            assert self._more(), 'cut in the middle of a body'
        reply.body, self.buffer = self.buffer[:length], self.buffer[length:]
        return reply

    def ask(self, method, path, body=b'', headers=()):
        self.send(request(method, path, body, headers))
        return self.reply(head_only=method == 'HEAD')

    def is_closed(self):
        """Whether the server ends the connection, with nothing more to say."""
        return self.reply() is None

    def is_silent(self, seconds):
        return self.buffer == b'' and select.select([self.socket], [], [], seconds)[0] == []


class Reply:
    def __init__(self, head):
        lines = head.split('\r\n')
        self.version, status, self.reason = lines[0].split(' ', 2)
        self.status = int(status)
        self.fields = {}
        for line in lines[1:]:
            name, value = line.split(': ', 1) if ': ' in line else (line.rstrip(':'), '')
            assert name.lower() not in self.fields, f'{name} twice'
            self.fields[name.lower()] = value
        self.body = b''

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        import json
        return json.loads(self.body)


def request(method, path, body=b'', headers=()):
    body = body if isinstance(body, bytes) else body.encode()
    lines = [f'{method} {path} HTTP/1.1', 'Host: weir.test']
    lines += [f'{name}: {value}' for name, value in headers]
    if body or method == 'POST':
        lines.append(f'Content-Length: {len(body)}')
    return '\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + body


def free_port():
    """For a server that cannot choose one itself. Not of the range that the kernel gives to clients: one of these could
    take it before the server does."""
    with open('/proc/sys/net/ipv4/ip_local_port_range') as file:
        first_of_clients = int(file.read().split()[0])
    while True:
        port = random.randrange(10000, max(first_of_clients, 11000))
        with socket.socket() as probe:
            try:
                probe.bind(('127.0.0.1', port))
                return port
            except OSError:
                pass


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError('it did not happen in time')
        time.sleep(0.01)
