# SPDX-License-Identifier: Apache-2.0
"""SIGTERM with every door under load: whatever was decided is answered, whatever is not answered was not decided.

Clients of all protocols ask as fast as they can when the signal comes. Each then counts the answers it got; the server says in its last line how
many decisions it made. The two must be equal: a decision whose answer was lost would show as one more. A request that gets no answer ends
with a connection that was closed in order (never reset), or with a GOAWAY that names an earlier stream: its caller may ask elsewhere.

LABELS: e2e
"""
import collections
import re
import shutil
import signal
import socket
import threading
import time
import unittest

from door import PATIENCE, Connection, Server, request, wait_for
from h2 import H2, SHOULD_RATE_LIMIT, call

CONTRACT = """
weir: 1
limits:
  - { name: fast, when: { queue: absent }, key: [tenant], rate: 1000000/s, burst: 1000000 }
  - { name: slow, when: { queue: present }, key: [queue], algorithm: leaky-queue, rate: 2/s, wait: { up-to: 60s, queue: 100 } }
  - { name: running, when: { job: present }, key: [job], algorithm: concurrency, at-most: 10, hold: 60s }
"""
BODY = '{"attributes":{"tenant":"load"}}'


class Client(threading.Thread):
    """Asks until the server ends the connection."""

    def __init__(self, said):
        super().__init__(daemon=True)
        self.said, self.fault = said, None
        self.answered = self.unanswered = 0

    def run(self):
        try:
            self.ask()
        except Exception as fault:  # told by the test's own thread
            self.fault = f'{type(self).__name__}: {fault!r}'


class Http(Client):
    def ask(self):
        with Connection(self.said) as connection:
            while True:
                connection.send(request('POST', '/v1/check', BODY))
                reply = connection.reply()
                if reply is None:
                    self.unanswered += 1
                    return
                assert reply.status == 200, reply.status
                self.answered += 1
                if reply.fields.get('connection') == 'close':
                    assert connection.is_closed()
                    return


class Pipeline(Client):
    def ask(self):
        with Connection(self.said) as connection:
            while True:
                connection.send(request('POST', '/v1/check', BODY) * 8)
                for _ in range(8):
                    reply = connection.reply()
                    if reply is None:
                        self.unanswered += 1
                        return
                    assert reply.status == 200, reply.status
                    self.answered += 1


class Resp(Client):
    def ask(self):
        with socket.create_connection(('127.0.0.1', self.said), PATIENCE) as connection, connection.makefile('rb') as lines:
            def read():
                line = lines.readline()
                if not line:
                    return None
                assert line.endswith(b'\r\n'), f'cut in the middle of a reply: {line!r}'
                kind, rest = line[:1], line[1:-2]
                if kind == b'*':
                    return [read() for _ in range(int(rest))]
                if kind == b'$' and int(rest) >= 0:
                    return lines.read(int(rest) + 2)[:-2]
                assert kind != b'-', line
                return rest
            while True:
                connection.sendall(b'WEIR.CHECK ATTR tenant load\r\n' * 8)
                for _ in range(8):
                    reply = read()
                    if reply is None:
                        self.unanswered += 1
                        return
                    assert dict(zip(reply[::2], reply[1::2]))[b'decision'] == b'allow', reply
                    self.answered += 1


class Grpc(Client):
    def ask(self):
        with H2(self.said) as connection:
            while True:
                streams = [connection.begin(SHOULD_RATE_LIMIT, call([('tenant', 'load')])) for _ in range(8)]
                while not all(connection.replies[stream].is_over for stream in streams):
                    if connection.step():
                        continue
                    last = min(goaway[0] for goaway in connection.goaways)
                    for stream in streams:
                        if connection.replies[stream].is_over:
                            self.count(connection.replies[stream])
                        else:
                            assert stream > last, f'stream {stream} was promised an answer by GOAWAY {connection.goaways}'
                            self.unanswered += 1
                    return
                for stream in streams:
                    self.count(connection.replies[stream])
                if connection.goaways:
                    assert connection.wait_end()
                    return

    def count(self, reply):
        if reply.reset is not None or reply.code == 14:  # not taken any more: a clean refusal
            self.unanswered += 1
            return
        assert reply.code == 0, reply.fields
        self.answered += 1


class Waiting(Client):
    """One request that waits for its turn: it gets it, or is told that it will not come."""

    def ask(self):
        with Connection(self.said) as connection:
            reply = connection.ask('POST', '/v1/check', '{"attributes":{"tenant":"w","queue":"q"},"wait":60}')
            assert reply.status in (200, 503), reply.status
            self.answered += 1
            self.told = reply.status


class Drain(unittest.TestCase):
    def server(self, **more):
        return Server(CONTRACT, args=['--workers', '2', '--resp', '127.0.0.1:0', '--grpc', '127.0.0.1:0'], http=['127.0.0.1:0', 'unix:DIR/http.sock'], **more)

    def port(self, server, door):
        return int(re.search(rf'^listening {door} .*:(\d+)$', server.log(), re.M)[1])

    def test_all_doors_under_load(self):
        with self.server(hooked=True, env={'WEIR_TEST_SECOND_MS': '200'}) as server:  # its 15 seconds are 3
            resp, grpc = self.port(server, 'resp'), self.port(server, 'grpc')
            clients = [make(where) for _ in range(3)
                       for make, where in ((Http, server.port), (Http, server.dir + '/http.sock'), (Pipeline, server.port), (Resp, resp), (Grpc, grpc))]
            waiting = [Waiting(server.port) for _ in range(20)]  # at 2 a second, more than there is time for
            holder = server.connect()
            self.assertEqual(holder.ask('POST', '/v1/acquire', '{"attributes":{"tenant":"h","job":"j"},"bind":"connection"}').status, 200)
            for client in clients + waiting:
                client.start()
            wait_for(lambda: server.metric('weir_waiting') >= 15)
            time.sleep(0.5)  # of load
            server.process.send_signal(signal.SIGTERM)
            for client in clients + waiting:
                client.join(PATIENCE)
                self.assertFalse(client.is_alive(), type(client).__name__)
            self.assertTrue(holder.is_closed())
            holder.socket.close()
            self.assertEqual(server.process.wait(PATIENCE), 0)

            self.assertEqual([client.fault for client in clients + waiting if client.fault], [])
            for kind in (Http, Pipeline, Resp, Grpc):
                self.assertGreater(sum(client.answered for client in clients if isinstance(client, kind)), 50, kind.__name__)
            answered = sum(client.answered for client in clients + waiting) + 1  # the permit
            said = re.search(r'event=draining signal=SIGTERM waiting=(\d+) connections=(\d+)', server.log())
            self.assertGreaterEqual(int(said[1]), 10)
            self.assertGreaterEqual(int(said[2]), len(clients))
            said = re.search(r'event=drained asks=(\d+) answers=(\d+)', server.log())
            self.assertEqual(said[1], said[2])
            self.assertEqual(answered, int(said[2]), 'a decision whose answer was lost, or an answer that nobody decided')
            told = collections.Counter(client.told for client in waiting)
            self.assertGreater(told[200], 0, 'who waited and had its turn')
            self.assertGreater(told[503], 0, 'who was told that it will not come')

    def test_a_second_signal_ends_it_at_once(self):
        for second in (signal.SIGTERM, signal.SIGINT):
            server = self.server()
            server.__enter__()  # and no __exit__, which expects an end in order
            self.addCleanup(shutil.rmtree, server.dir)
            with server.connect() as connection:
                whole = request('POST', '/v1/check', BODY)
                connection.send(whole[:-1])  # it would be waited for
                self.assertEqual(server.ask('GET', '/healthz').status, 200)
                server.process.send_signal(signal.SIGTERM)
                wait_for(lambda: 'event=draining' in server.log())
                server.process.send_signal(second)
                self.assertEqual(server.process.wait(PATIENCE), -second)
                self.assertNotIn('event=drained', server.log())


if __name__ == '__main__':
    unittest.main()
