# SPDX-License-Identifier: Apache-2.0
"""The waiting form of examples/nginx: requests that come too early are held back by nginx's subrequest until their
turn.

One test runs at the example's own pace and only asks that nobody is early. The others slow the same files down until no
turn comes while they look, so that what waits is a count and not a matter of time.
LABELS: e2e
"""
import os
import socket
import time
import unittest

from door import Connection, Server, request, wait_for
from test_nginx import EXAMPLES, Backend, Nginx

PLACES = 9
SLOW = [('rate: 5/s', 'rate: 1/1h'), ('up-to: 2s', 'up-to: 12h'), ('"wait=2"', '"wait=40000"'),
        ('proxy_read_timeout    3s;', 'proxy_read_timeout 50000s;')]


def changed(text, changes):
    for old, new in changes:
        text = text.replace(old, new)
    return text


class SlowNginx(Nginx):
    """nginx with one of the example's files, changed."""
    changes = []

    def text_of(self, name):
        return changed(super().text_of(name), self.changes)


class Stack:
    """An application, weir with the example's contract and nginx with its file, both changed in the same way."""

    def __init__(self, changes):
        with open(os.path.join(EXAMPLES, 'weir-waiting.yaml')) as file:
            contract = changed(file.read(), changes)
        self.app = Backend()
        self.weir = Server(contract)
        self.weir.__enter__()
        nginx = type('ChangedNginx', (SlowNginx,), {'changes': changes})
        self.nginx = nginx('nginx-waiting.conf', self.weir.port, self.app.port)
        self.open = []

    def __enter__(self):
        self.app.__enter__()
        self.nginx.__enter__()
        return self

    def __exit__(self, *_):
        for connection in self.open:
            connection.socket.close()
        self.nginx.__exit__()
        self.weir.__exit__()
        self.app.__exit__()

    def waiting(self):
        return self.weir.metric('weir_waiting')

    def send(self, path, headers=(), method='POST', body=b'x'):
        """A request whose answer is not awaited."""
        connection = Connection.__new__(Connection)
        connection.socket = socket.create_connection(('127.0.0.1', self.nginx.port), 30)
        connection.buffer = b''
        connection.send(request(method, path, body, [*headers, ('Connection', 'close')]))
        self.open.append(connection)
        return connection

    def park(self, count, **more):
        """Requests that wait, in this order."""
        parked = []
        for i in range(count):
            before = self.waiting()
            parked.append(self.send(f'/pay/{i}', **more))
            wait_for(lambda: self.waiting() == before + 1)
        return parked


class Waiting(unittest.TestCase):
    def test_turns_at_the_pace_of_the_contract(self):
        """All at once: one passes, others in turn, and some find no place. The application sees what the pace allows."""
        with Stack([]) as stack:
            begun = time.monotonic()
            sent = [stack.send(f'/pay/{i}') for i in range(PLACES + 4)]
            replies = [connection.reply() for connection in sent]
            statuses = sorted(reply.status for reply in replies)
            seen = [at for _, path, at in stack.app.times if path.startswith('/pay/')]
            self.assertEqual(statuses.count(200), len(seen))
            self.assertEqual(statuses.count(429), len(sent) - len(seen))
            for i, at in enumerate(seen):
                self.assertGreaterEqual(at - begun, i * 0.2, f'payment {i} was early')
            self.assertGreater(len(seen), 1, 'some have waited')
            for reply in replies:
                if reply.status == 429:
                    self.assertIn(reply.fields['retry-after'], ('2', '3'), 'behind the queue')

    def test_a_queue_that_is_full_refuses(self):
        with Stack(SLOW) as stack:
            self.assertEqual(stack.nginx.ask('/pay/0', 'POST').status, 200)
            stack.park(PLACES)
            refused = stack.nginx.ask('/pay/x', 'POST')
            self.assertEqual(refused.status, 429)
            # Nine turns of an hour are taken, and the pace began a moment ago.
            self.assertTrue(9 * 3600 < int(refused.fields['retry-after']) <= 10 * 3600, refused.fields)
            self.assertEqual(stack.nginx.ask('/shop').status, 200, 'only payments wait')
            self.assertEqual(len(stack.app.seen), 2)

    def test_B27_a_client_that_goes_away_frees_its_place(self):
        """nginx sees it during the subrequest and closes its connection to weir. (It cannot behind a body that is too
        long for the socket's buffers, of which it reads nothing yet.)"""
        ways = {'GET': dict(method='GET', body=b''), 'POST': dict(body=b'x' * 10000)}
        for why, how in ways.items():
            with self.subTest(why), Stack(SLOW) as stack:
                self.assertEqual(stack.nginx.ask('/pay/0', 'POST').status, 200)
                parked = stack.park(PLACES, **how)
                parked[4].socket.close()
                wait_for(lambda: stack.waiting() == PLACES - 1)
                stack.park(1)
                self.assertEqual(stack.nginx.ask('/pay/x', 'POST').status, 429, 'full again')
                self.assertEqual(len(stack.app.seen), 1)

    def test_a_client_does_not_choose_its_wait(self):
        """It neither gets out of waiting nor has a say in how long."""
        with Stack(SLOW) as stack:
            self.assertEqual(stack.nginx.ask('/pay/0', 'POST').status, 200)
            for i, wish in enumerate(['wait=0', 'wait=1', 'respond-async, wait=99999']):
                stack.send('/pay/1', [('Prefer', wish)])
                wait_for(lambda: stack.waiting() == i + 1)
        # Where nginx does not wait, neither does the client.
        with Stack([*SLOW, ('"wait=40000"', '""')]) as stack:
            self.assertEqual(stack.nginx.ask('/pay/0', 'POST').status, 200)
            self.assertEqual(stack.nginx.ask('/pay/1', 'POST', [('Prefer', 'wait=40000')]).status, 429)

    def test_what_reaches_weir(self):
        with Backend() as weir, Backend() as app, Nginx('nginx-waiting.conf', weir.port, app.port) as nginx:
            nginx.ask('/pay/1', 'POST', [('Prefer', 'wait=1'), ('Cookie', 'x')], source='127.0.0.7')
            method, path, headers = weir.seen[0]
            self.assertEqual((method, path), ('GET', '/v1/auth-nginx'))
            self.assertEqual({k.lower(): v for k, v in headers.items()},
                             {'host': 'weir.test', 'x-original-method': 'POST', 'x-original-uri': '/pay/1',
                              'x-forwarded-for': '127.0.0.7', 'prefer': 'wait=2'})

    SHORT = [*SLOW[:3], ('proxy_read_timeout    3s;', 'proxy_read_timeout 300ms;')]
    OPEN = [('proxy_set_header Connection        "";', 'proxy_set_header Connection "";\n'
             '      proxy_intercept_errors on;\n      error_page 500 502 504 =204 /_weir_open;'),
            ('    location @limited {',
             '    location = /_weir_open { internal; return 204; }\n    location @limited {')]

    def test_a_time_out_below_the_wait(self):
        """Failing closed it refuses whom weir would have let pass, failing open it lets pass without a turn; the place
        is free in either case."""
        for why, changes, status in [('closed', self.SHORT, 503), ('open', [*self.SHORT, *self.OPEN], 200)]:
            with self.subTest(why), Stack(changes) as stack:
                self.assertEqual(stack.nginx.ask('/pay/0', 'POST').status, 200)
                replies = [stack.nginx.ask(f'/pay/{i}', 'POST') for i in (1, 2)]
                self.assertEqual([reply.status for reply in replies], [status] * 2)
                wait_for(lambda: stack.waiting() == 0)
                self.assertEqual(len(stack.app.seen), 3 if why == 'open' else 1)


if __name__ == '__main__':
    unittest.main()
