# SPDX-License-Identifier: Apache-2.0
"""Who may listen where, and who may call: tokens, roles, Unix sockets, the admin socket."""
import functools
import os
import socket
import stat
import subprocess
import unittest

from door import BUCKET, Connection, Server

CHECK = '0123456789abcdef-check'
ADMIN = '0123456789abcdef-admin'
TOKENS = f'# who may call\n\ncheck {CHECK} billing\nadmin {ADMIN}\n'
BODY = '{"attributes":{"tenant":"acme"}}'


def with_tokens(text=TOKENS, mode=0o600, **more):
    return Server(args=['--tokens', 'DIR/tokens'], files={'tokens': (text, mode)}, **more)


class Tokens(unittest.TestCase):
    def test_body_calls_need_one(self):
        with with_tokens() as server:
            for why, value, status in [
                    ('none', None, 401),
                    ('a check token', f'Bearer {CHECK}', 200),
                    ('an admin token', f'Bearer {ADMIN}', 200),
                    ('the scheme in any case', f'bEARER {CHECK}', 200),
                    ('one byte less', f'Bearer {CHECK[:-1]}', 401),
                    ('one byte more', f'Bearer {CHECK}x', 401),
                    ('another last byte', f'Bearer {CHECK[:-1]}x', 401),
                    ('nothing behind the scheme', 'Bearer ', 401),
                    ('another scheme', f'Basic {CHECK}', 401),
                    ('no scheme', CHECK, 401),
                    ('a name', 'Bearer billing', 401),
                    ('a comment', 'Bearer #', 401),
                    ('a long one', 'Bearer ' + 'x' * 5000, 401)]:
                headers = [] if value is None else [('Authorization', value)]
                for method, path in [('POST', '/v1/check'), ('GET', '/v1/limits')]:
                    reply = server.ask(method, path, BODY if method == 'POST' else b'', headers)
                    self.assertEqual(reply.status, status, f'{why} at {path}')
                    self.assertEqual('www-authenticate' in reply.fields, status == 401)
            reply = server.ask('POST', '/v1/check', BODY, [('Authorization', f'Bearer {CHECK}')] * 2)
            self.assertEqual(reply.status, 401, 'two of them')

    def test_open_calls_need_none(self):
        with with_tokens() as server:
            for path in ['/healthz', '/readyz', '/metrics', '/v1/auth', '/v1/auth-nginx/x']:
                self.assertEqual(server.ask('GET', path).status, 200, path)

    def test_nobody_makes_us_read_a_body_without_a_token(self):
        with with_tokens() as server, server.connect() as connection:
            connection.send('POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n')
            self.assertEqual(connection.reply().status, 401)

    def test_secrets_stay_secret(self):
        with with_tokens() as server:
            server.ask('POST', '/v1/check', BODY, [('Authorization', f'Bearer {CHECK}')])
            server.ask('POST', '/v1/check', BODY, [('Authorization', 'Bearer wrong-secret-of-someone')])
            said = server.log() + server.ask('GET', '/metrics').text
            for secret in [CHECK, ADMIN, 'wrong-secret']:
                self.assertNotIn(secret, said)

    def test_refused_files(self):
        for why, text, mode, words in [
                ('others can read it', TOKENS, 0o604, 'chmod 600'),
                ('the group can read it', TOKENS, 0o640, 'chmod 600'),
                ('a short secret', 'check 0123456789abcde\n', 0o600, 'tokens:1: the secret is shorter'),
                ('an unknown role', f'root {CHECK}\n', 0o600, 'tokens:1:'),
                ('no secret', '\ncheck\n', 0o600, 'tokens:2:'),
                ('words behind the name', f'check {CHECK} a b\n', 0o600, 'tokens:1:'),
                ('a secret twice', f'check {CHECK}\nadmin {CHECK}\n', 0o600, 'tokens:2: the secret stands'),
                ('nobody in it', '# nothing\n', 0o600, 'holds no token'),
                ('an endless line', 'check ' + 'x' * 5000, 0o600, 'tokens:1:')]:
            status, log = with_tokens(text, mode).expect_exit()
            self.assertEqual(status, 2, why)
            self.assertIn(words, log, why)
            self.assertNotIn(CHECK, log)

    def test_a_missing_file(self):
        status, log = Server(args=['--tokens', 'DIR/nowhere']).expect_exit()
        self.assertEqual(status, 2)
        self.assertIn('nowhere: cannot be read', log)


class Listening(unittest.TestCase):
    def test_beyond_loopback_only_with_tokens_or_insecure(self):
        for address in ['0.0.0.0:0', '[::]:0']:
            status, log = Server(http=address).expect_exit()
            self.assertEqual(status, 2, address)
            self.assertIn('--insecure', log)
            self.assertNotIn('listening', log)
            for more in [{'args': ['--insecure']},
                         {'args': ['--tokens', 'DIR/tokens'], 'files': {'tokens': (TOKENS, 0o600)}}]:
                with Server(http=address, **more) as server:
                    self.assertEqual(server.ask('GET', '/healthz').status, 200)

    def test_beyond_loopback_at_every_door(self):
        """Also where only one of several addresses is, and where the contract says it. The admin door takes no token, so tokens do not open it."""
        contract = {'http': 'server: { http: "0.0.0.0:0" }', 'resp': 'server: { resp: ["127.0.0.1:0", "[::]:0"] }',
                    'grpc': 'server: { grpc: "0.0.0.0:0" }', 'admin': 'server: { admin: "0.0.0.0:0" }'}
        tokens = {'files': {'tokens': (TOKENS, 0o600)}}
        for door in ('http', 'resp', 'grpc', 'admin'):
            for address in ('0.0.0.0:0', '[::]:0', '[::ffff:0.0.0.0]:0'):
                rows = [({'args': ['--' + door, address]}, ['--tokens', 'DIR/tokens']),
                        ({'args': ['--' + door, '127.0.0.1:0'] * (door != 'admin') + ['--' + door, address]}, ['--tokens', 'DIR/tokens'])]
                if address == '0.0.0.0:0':
                    rows.append(({'contract': BUCKET + contract[door], 'admin': door != 'admin', 'http': [] if door == 'http' else '127.0.0.1:0'}, []))
                for how, opening in rows:
                    with self.subTest(door=door, how=how):
                        status, log = Server(**how).expect_exit()
                        self.assertEqual(status, 2)
                        self.assertIn('can be reached from other machines', log)
                        self.assertIn('--insecure', log)
                        self.assertNotIn('listening', log)
                        args = how.get('args', [])
                        with Server(**{**how, 'args': args + ['--insecure']}):
                            pass
                        if not opening:
                            continue
                        with_tokens = Server(**{**how, 'args': args + opening}, **tokens)
                        if door == 'admin':
                            self.assertEqual(with_tokens.expect_exit()[0], 2)
                        else:
                            with with_tokens:
                                pass

    def test_addresses(self):
        with Server(http=['127.0.0.1:0', '[::1]:0', 'localhost:0', '0', 'unix:DIR/weir.sock']) as server:
            lines = [line for line in server.log().splitlines() if line.startswith('listening http ')]
            self.assertEqual(len(lines), 5)
            self.assertRegex(lines[1], r'^listening http \[::1\]:\d+$')
            self.assertRegex(lines[3], r'^listening http 127\.0\.0\.1:\d+$', 'a bare port is on loopback')
            self.assertEqual(lines[4], f'listening http unix:{server.dir}/weir.sock')
            self.assertEqual(server.ask('GET', '/healthz', unix='weir.sock').status, 200)

    def test_wrong_addresses(self):
        for address in ['127.0.0.1', '127.0.0.1:65536', '::1:80', 'http://x:80', 'unix:', 'fd:x', ':80', '']:
            status, log = Server(http=address).expect_exit()
            self.assertEqual(status, 2, address)
            self.assertIn(f"'{address}'", log)

    def test_an_address_in_use(self):
        with Server() as server:
            status, log = Server(http=f'127.0.0.1:{server.port}').expect_exit()
            self.assertEqual(status, 3)
            self.assertIn('address already in use; stop what listens there', log)

    def test_a_left_over_socket_is_replaced_and_a_live_one_is_not(self):
        with Server(http='unix:DIR/weir.sock') as server:
            path = f'unix:{server.dir}/weir.sock'
            self.assertEqual(Server(http=path).expect_exit()[0], 3)
            server.process.kill()
            server.process.wait()
            with Server(http=path) as second:
                with Connection(path[5:]) as connection:
                    self.assertEqual(connection.ask('GET', '/healthz').status, 200)
                self.assertIsNone(second.process.poll())
            self.assertFalse(os.path.exists(path[5:]), 'removed at the end')

    def test_inherited_descriptor(self):
        """fd:N, as a service manager hands sockets over."""
        with socket.create_server(('127.0.0.1', 0)) as listener:
            os.set_inheritable(listener.fileno(), True)
            port = listener.getsockname()[1]
            popen = functools.partial(subprocess.Popen, pass_fds=[listener.fileno()])
            server = Server(http=f'fd:{listener.fileno()}', popen=popen)
            with server:
                self.assertEqual(server.port, port)
                self.assertEqual(server.ask('GET', '/healthz').status, 200)


class Unix(unittest.TestCase):
    def test_a_listed_uid_needs_no_token(self):
        for uids, status in [('', 200), (f'server: {{ uids: [{os.getuid()}] }}', 200),
                             (f'server: {{ uids: [{os.getuid() + 1}] }}', 401)]:
            with Server(BUCKET + uids, args=['--tokens', 'DIR/tokens'], http=['127.0.0.1:0', 'unix:DIR/weir.sock'],
                        files={'tokens': (TOKENS, 0o600)}) as server:
                self.assertEqual(server.ask('POST', '/v1/check', BODY, unix='weir.sock').status, status, uids)
                self.assertEqual(server.ask('POST', '/v1/check', BODY).status, 401)


class Admin(unittest.TestCase):
    def test_it_is_private_and_trusted(self):
        with with_tokens() as server:
            mode = os.stat(server.admin).st_mode
            self.assertTrue(stat.S_ISSOCK(mode))
            self.assertEqual(stat.S_IMODE(mode), 0o600)
            self.assertEqual(server.ask('GET', '/v1/limits', unix='admin.sock').status, 200)
            self.assertIn(f'listening admin unix:{server.admin}', server.log())

    def test_busy_or_unwritable_is_a_warning(self):
        with Server() as server:
            for address in [f'unix:{server.admin}', 'unix:/nowhere/admin.sock']:
                with Server(args=['--admin', address]) as other:
                    self.assertEqual(other.ask('GET', '/healthz').status, 200)
                    self.assertIn('level=warn event=admin_unavailable', other.log())
                    self.assertIn('cure="--admin unix:PATH', other.log())
            self.assertEqual(server.ask('GET', '/healthz', unix='admin.sock').status, 200, 'untouched')

    def test_beyond_loopback_is_refused(self):
        status, log = Server(args=['--admin', '0.0.0.0:0']).expect_exit()
        self.assertEqual(status, 2)
        self.assertIn('asks for no token', log)


if __name__ == '__main__':
    unittest.main()
