# SPDX-License-Identifier: Apache-2.0
"""weir under a service manager: what it says to NOTIFY_SOCKET, sockets that were opened for it, logs as JSON.

The manager is played by this test: a datagram socket that hears, and descriptors from 3 on that the server inherits by exec.
"""
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from door import BUCKET, BUILD, PATIENCE, Connection, Server, free_port, wait_for

TOKENS = 'check  0123456789abcdef0  billing\n'
BODY = '{"attributes":{"tenant":"acme"}}'


class Manager:
    """Hears what a service says. `abstract`: in the abstract namespace."""

    def __init__(self, abstract=False):
        self.dir = tempfile.mkdtemp(prefix='weir-notify-')
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = f'@weir-test-{os.getpid()}-{id(self)}' if abstract else os.path.join(self.dir, 'notify')
        self.socket.bind('\0' + path[1:] if abstract else path)
        self.socket.settimeout(PATIENCE)
        self.env = {'NOTIFY_SOCKET': path}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        shutil.rmtree(self.dir)

    def next(self, skip='WATCHDOG=1'):
        """The next message as a dict; signs of life are skipped."""
        while True:
            text = self.socket.recv(65536).decode()
            assert text.endswith('\n') and '\0' not in text, repr(text)
            if text != skip + '\n':
                return dict(line.split('=', 1) for line in text.splitlines())


def inheriting(sockets, names=None, pid=None, count=None):
    """A popen whose child finds these sockets from descriptor 3 on, as a service manager passes them: by exec, with the same pid."""
    def popen(args, env=None, **rest):
        env = dict(env, LISTEN_FDS=str(len(sockets) if count is None else count))
        if names is not None:
            env['LISTEN_FDNAMES'] = ':'.join(names)
        held = [os.dup(s.fileno()) for s in sockets]
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in held]

        def move():
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)

        shell = ['sh', '-c', f'export LISTEN_PID={"$$" if pid is None else pid}; exec "$@"', 'sh', *args]
        try:
            return subprocess.Popen(shell, env=env, preexec_fn=move, pass_fds=range(3, 3 + len(sockets)), **rest)
        finally:
            for fd in held + high:
                os.close(fd)
    return popen


def tcp(address='127.0.0.1'):
    return socket.create_server((address, 0), family=socket.AF_INET6 if ':' in address else socket.AF_INET)


def unix(path, mode=0o600):
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    os.chmod(path, mode)
    made.listen(16)
    return made


def ping(port):
    with socket.create_connection(('127.0.0.1', port), PATIENCE) as connection:
        connection.sendall(b'*1\r\n$4\r\nPING\r\n')
        return connection.recv(100)


class Notify(unittest.TestCase):
    def test_the_life_of_a_service(self):
        for abstract in (False, True):
            with self.subTest(abstract=abstract), Manager(abstract) as manager, \
                    Server(env=manager.env, args=['--resp', '127.0.0.1:0']) as server:
                told = manager.next()
                self.assertEqual(told['READY'], '1')
                self.assertEqual(server.ask('GET', '/readyz').status, 200)  # all doors are open by then
                self.assertRegex(told['STATUS'], rf'^Serving 1 limits \(contract [0-9a-f]{{16}}\) on admin unix:.*, http 127.0.0.1:{server.port}, resp 127')

                before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
                server.process.send_signal(signal.SIGHUP)
                told = manager.next()
                self.assertEqual(told['RELOADING'], '1')
                self.assertGreaterEqual(int(told['MONOTONIC_USEC']), before)
                self.assertLessEqual(int(told['MONOTONIC_USEC']), time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
                self.assertEqual(manager.next()['READY'], '1')

                with open(server.contract, 'w') as file:
                    file.write('weir: 1\nlimits: \n')
                self.assertEqual(server.ask('POST', '/v1/reload', unix='admin.sock').status, 422)
                told = manager.next()
                while 'RELOADING' in told or 'last reload failed' not in told['STATUS']:  # the file's change is another one
                    told = manager.next()
                self.assertEqual(told['READY'], '1', 'it goes on with the old one')

                server.process.terminate()
                told = manager.next()
                while 'STOPPING' not in told:
                    told = manager.next()
                self.assertEqual(told['STOPPING'], '1')

    def test_nobody_to_tell(self):
        rows = [
            ('no path', 'notify', 'it is no path'),
            ('another kind of address', 'vsock:2:1234', 'it is no path'),
            ('empty', '', 'it is no path'),
            ('too long', '/' + 'x' * 200, 'it is no path'),
            ('nobody there', '/nowhere/notify', 'No such file'),
            ('a line end, which must not forge a line', '/nowhere/a\nlevel=error', 'No such file'),
        ]
        for why, value, words in rows:
            with self.subTest(why=why), Server(env={'NOTIFY_SOCKET': value}) as server:
                self.assertEqual(server.check().status, 200)
                [line] = [line for line in server.log().splitlines() if 'event=notify_ignored' in line]
                self.assertIn(words, line)
                self.assertNotIn('\nlevel=error', server.log())

    def test_a_manager_that_went_away_stops_nobody(self):
        with Manager() as manager:
            server = Server(env=manager.env)
            server.__enter__()
            manager.next()
        with server:
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'event=notify_failed' in server.log())
            self.assertEqual(server.check().status, 200)

    def test_signs_of_life(self):
        with Manager() as manager, Server(env={**manager.env, 'WATCHDOG_USEC': '400000'}) as server:
            manager.next()
            for _ in range(5):
                self.assertEqual(manager.socket.recv(100), b'WATCHDOG=1\n')
            self.assertEqual(server.check().status, 200)

    def test_watchdog_of_another_process_or_malformed(self):
        for env, is_told in (({'WATCHDOG_USEC': '100000', 'WATCHDOG_PID': '1'}, False), ({'WATCHDOG_USEC': 'often'}, True),
                             ({'WATCHDOG_USEC': '0'}, True)):
            with self.subTest(env=env), Manager() as manager, Server(env={**manager.env, **env}) as server:
                manager.next()
                self.assertEqual('event=notify_ignored variable=WATCHDOG_USEC' in server.log(), is_told)
                manager.socket.settimeout(0.4)
                with self.assertRaises(TimeoutError):
                    manager.socket.recv(100)


class Activation(unittest.TestCase):
    def test_names_are_doors(self):
        folder = tempfile.mkdtemp(prefix='weir-sockets-')
        with tcp() as resp, tcp() as http, tcp('::1') as http6, unix(folder + '/http.sock') as local, unix(folder + '/admin.sock') as admin:
            sockets, names = [resp, http, local, http6, admin], ['resp', 'http', 'http', 'http', 'admin']
            with Server(http=[], admin=False, popen=inheriting(sockets, names)) as server:
                port = http.getsockname()[1]
                self.assertEqual(server.ports, [port, http6.getsockname()[1]])
                self.assertEqual(server.check().status, 200)
                self.assertEqual(ping(resp.getsockname()[1]), b'+PONG\r\n')
                for path in ('/http.sock', '/admin.sock'):
                    with Connection(folder + path) as connection:
                        self.assertEqual(connection.ask('GET', '/healthz').status, 200)
                with Connection(folder + '/admin.sock') as connection:  # and is the admin's
                    self.assertEqual(connection.ask('POST', '/v1/reload').status, 200)
                with open(f'/proc/{server.process.pid}/environ') as file:
                    self.assertIn('LISTEN_FDS=5', file.read())  # what exec gave; that it is unset shows a child only
                for fd in range(3, 8):
                    with open(f'/proc/{server.process.pid}/fdinfo/{fd}') as file:
                        flags = int(re.search(r'^flags:\s*(\d+)$', file.read(), re.M)[1], 8)
                        self.assertTrue(flags & os.O_CLOEXEC, f'descriptor {fd}')
            # It has ended: the sockets go on, were not shut down, and their files are still there.
            self.assertTrue(os.path.exists(folder + '/http.sock'))
            with socket.create_connection(('127.0.0.1', port), PATIENCE) as waiting:
                with Server(http=[], admin=False, popen=inheriting(sockets, names)):  # the next one answers who waited
                    waiting.sendall(b'GET /healthz HTTP/1.0\r\n\r\n')
                    self.assertIn(b' 200 ', waiting.recv(4096))
        shutil.rmtree(folder)

    def test_addresses_may_name_them(self):
        with tcp() as one, tcp() as two:
            ports = {one.getsockname()[1], two.getsockname()[1]}
            with Server(http='fd:web', popen=inheriting([one, two], ['web', 'web'])) as server:
                self.assertEqual(set(server.ports), ports)
            with Server(http=['fd:3'], args=['--resp', 'fd:4'], popen=inheriting([one, two], ['a', 'b'])) as server:
                self.assertEqual(ping(two.getsockname()[1]), b'+PONG\r\n')

    def test_what_is_for_another_process_is_left_alone(self):
        with tcp() as other, Server(popen=inheriting([other], ['http'], pid=1)) as server:
            self.assertNotEqual(server.port, other.getsockname()[1])

    def test_what_cannot_be_a_door_is_refused(self):
        folder = tempfile.mkdtemp(prefix='weir-sockets-')
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagram.bind(('127.0.0.1', 0))
        bound = socket.socket()
        bound.bind(('127.0.0.1', 0))
        pair = socket.socketpair()
        with tcp() as good, tcp() as good2, open('/dev/null') as file, unix(folder + '/open.sock', 0o666) as open_admin:
            rows = [
                ('no socket', [file], ['http'], {}, 'it is no socket'),
                ('datagrams', [datagram], ['http'], {}, 'write ListenStream='),
                ('not listening', [bound], ['http'], {}, 'write Accept=no'),
                ('a connection, of Accept=yes', [pair[0]], ['http'], {}, 'write Accept=no'),
                ('a name that no door has', [good], ['weir-http.socket'], {}, "the socket 'weir-http.socket' (descriptor 3) was passed and no door uses it"),
                ('no names at all', [good], None, {}, "the socket 'unknown'"),
                ('a door that has an address', [good], ['http'], {'http': '127.0.0.1:0'}, 'give that door no other address'),
                ('fewer names than sockets', [good, good2], ['http'], {}, 'LISTEN_FDNAMES names another number'),
                ('more', [good], ['http', 'resp'], {}, 'LISTEN_FDNAMES names another number'),
                ('a name that was not passed', [good], ['http'], {'http': ['fd:http', 'fd:web']}, 'no socket of this name was passed'),
                ('more than there can be', [good], None, {'count': 5000}, 'at most'),
                ('two admin sockets', [good, good2], ['admin', 'admin'], {}, 'one is all it takes'),
                ('an admin socket for everybody', [good, open_admin], ['http', 'admin'], {}, 'SocketMode=0600'),
            ]
            for why, sockets, names, more, words in rows:
                with self.subTest(why=why):
                    popen = inheriting(sockets, names, count=more.get('count'))
                    status, log = Server(http=more.get('http', []), admin=False, popen=popen).expect_exit()
                    self.assertEqual((status, words in log), (2, True), log)
        for closing in (datagram, bound, *pair):
            closing.close()
        shutil.rmtree(folder)

    def test_beyond_loopback_only_with_tokens_or_insecure(self):
        """Whoever opened the socket: who it is that may call is ours to say."""
        for address in ('0.0.0.0', '::'):
            for door in ('http', 'resp', 'admin'):
                with self.subTest(address=address, door=door), tcp(address) as open_, tcp() as http:
                    sockets, names = ([open_], [door]) if door == 'http' else ([open_, http], [door, 'http'])
                    status, log = Server(http=[], admin=False, popen=inheriting(sockets, names)).expect_exit()
                    self.assertEqual(status, 2)
                    self.assertIn('--insecure', log)
                    self.assertNotIn('listening', log)
                    with Server(http=[], admin=False, args=['--insecure'], popen=inheriting(sockets, names)):
                        pass
                    if door != 'admin':
                        with Server(http=[], admin=False, args=['--tokens', 'DIR/tokens'], files={'tokens': (TOKENS, 0o600)},
                                    popen=inheriting(sockets, names)):
                            pass

    def test_systemd_socket_activate(self):
        """The real thing that passes sockets: it opens them, waits for a connection, and execs weir."""
        port, resp = free_port(), free_port()
        folder = tempfile.mkdtemp(prefix='weir-activate-')
        with open(folder + '/weir.yaml', 'w') as file:
            file.write(BUCKET)
        with open(folder + '/log', 'wb') as log:
            process = subprocess.Popen(['systemd-socket-activate', '-l', f'127.0.0.1:{port}', '-l', f'127.0.0.1:{resp}', '--fdname=http:resp',
                                        os.path.join(os.path.abspath(BUILD), 'weir'), 'serve', 'weir.yaml', '--admin', 'unix:admin.sock'],
                                       cwd=folder, stderr=log)
        try:
            def is_there():
                try:
                    socket.create_connection(('127.0.0.1', resp), PATIENCE).close()
                    return True
                except ConnectionRefusedError:
                    return False
            wait_for(is_there)
            with Connection(port) as connection:
                self.assertEqual(connection.ask('POST', '/v1/check', BODY).status, 200)
            self.assertEqual(ping(resp), b'+PONG\r\n')
            process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            shutil.rmtree(folder)


class JsonLog(unittest.TestCase):
    def test_every_line_is_an_object(self):
        for how in ({'args': ['--log-format', 'json']}, {'env': {'WEIR_LOG_FORMAT': 'json'}},
                    {'contract': BUCKET + 'server: { log-format: json }\n'}):
            with self.subTest(how=list(how)), Server(**how) as server:
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda: server.has_event('reloaded'))
                with open(server.contract, 'w') as file:
                    file.write('weir: 1\nlimits: "\x01"\n')
                self.assertEqual(server.ask('POST', '/v1/reload', unix='admin.sock').status, 422)
                server.process.terminate()
                server.process.wait(PATIENCE)
                lines = [json.loads(line) for line in server.log().splitlines()]
                for line in lines:
                    self.assertEqual(list(line)[:3], ['ts', 'level', 'event'])
                    self.assertIn(line['level'], ('info', 'warn', 'error'))
                [serving] = [line for line in lines if line['event'] == 'serving']
                self.assertEqual(serving['limits'], 1)
                self.assertEqual(serving['contract'], server.contract)
                self.assertIn('reload_failed', [line['event'] for line in lines])

    def test_an_unknown_form(self):
        status, log = Server(args=['--log-format', 'xml']).expect_exit()
        self.assertEqual((status, log), (2, "weir serve: --log-format 'xml': write logfmt or json\n"))

    def test_denials_are_no_events(self):
        with Server() as server:
            for _ in range(100):
                server.check()
            self.assertEqual(server.check().status, 429)
            self.assertNotIn('den', server.log().replace('identity', ''))
            self.assertNotIn('acme', server.log())


if __name__ == '__main__':
    unittest.main()
