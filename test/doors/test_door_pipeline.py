# SPDX-License-Identifier: Apache-2.0
"""Replies keep the order of their requests, however late and in whatever order decisions come; each completion
happens once, also when the caller has hung up. The late decider of the test build makes the rare orders common."""
import os
import re
import socket
import threading
import unittest

from door import BUCKET, Server, request, wait_for

PLENTY = BUCKET.replace('burst: 20', 'burst: 1000000')

# Seeds of the late decider: with 3 ms and 100 requests every run has thousands of inversions.
SEEDS = range(1, 6)


def late(seed, max_ms=3):
    return {'WEIR_TEST_LATE': f'{seed}:{max_ms}'}


def check(tenant, cost=1):
    return request('POST', '/v1/check', f'{{"attributes":{{"tenant":"{tenant}"}},"cost":{cost}}}',
                   [('Weir-Now', 0)])


def asks_and_answers(log):
    found = re.search(r'event=drained asks=(\d+) answers=(\d+)', log)
    return int(found[1]), int(found[2])


class Order(unittest.TestCase):
    def walk_100(self, env):
        with Server(PLENTY, virtual=True, env=env) as server, server.connect() as connection:
            connection.send(b''.join(check('a') for _ in range(100)))
            remaining = [connection.reply().json['remaining'] for _ in range(100)]
            self.assertEqual(remaining, list(range(999999, 999899, -1)))

    def test_100_in_one_write(self):
        self.walk_100({})

    def test_100_in_one_write_decided_late(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.walk_100(late(seed))

    def test_other_replies_wait_their_turn(self):
        """Errors, health and metrics are ready at once and still come after the decisions before them."""
        mixed = [(check('a'), 200), (request('GET', '/nowhere'), 404), (check('a'), 200),
                 (request('GET', '/healthz'), 200), (request('POST', '/v1/check', '{'), 400), (check('b', 'x'), 400),
                 (request('GET', '/metrics'), 200), (check('a'), 200), (request('GET', '/v1/check'), 405),
                 (request('GET', '/v1/auth/x'), 200), (request('GET', '/v1/limits'), 200)]
        for seed in SEEDS:
            with Server(PLENTY, virtual=True, env=late(seed)) as server, server.connect() as connection:
                connection.send(b''.join(data for data, _ in mixed * 5))
                self.assertEqual([connection.reply().status for _ in mixed * 5], [s for _, s in mixed * 5])

    def test_more_than_the_line_holds(self):
        """Beyond 128 waiting requests reading pauses; nothing is lost and nobody else notices."""
        for env in [{}, late(7)]:
            with Server(PLENTY, virtual=True, env=env) as server, server.connect() as connection:
                sender = threading.Thread(target=lambda: connection.send(b''.join(check('a') for _ in range(2000))))
                sender.start()
                remaining = [connection.reply().json['remaining'] for _ in range(2000)]
                sender.join()
                self.assertEqual(remaining, list(range(999999, 997999, -1)))

    def test_batches_decided_late(self):
        item = '{"attributes":{"tenant":"a"}}'
        batch = request('POST', '/v1/check', '{"requests":[%s]}' % ','.join([item] * 300), [('Weir-Now', 0)])
        with Server(PLENTY, virtual=True, env=late(3)) as server, server.connect() as connection:
            connection.send(batch + check('a') + batch)
            first, single, second = (connection.reply().json for _ in range(3))
            remaining = [r['remaining'] for r in first['results']] + [single['remaining']]
            remaining += [r['remaining'] for r in second['results']]
            self.assertEqual(remaining, list(range(999999, 999398, -1)))

    def test_any_split_of_the_bytes(self):
        """The same answers however the network cuts the same bytes."""
        data = check('a') + b'POST /v1/check HTTP/1.1\r\nHost: x\r\nWeir-Now: 0\r\nTransfer-Encoding: chunked\r\n\r\n' \
            + b'10\r\n{"attributes":{"\r\n4;x=y\r\ntena\r\na\r\nnt":"a"}}\n\r\n0\r\nTrailer: x\r\n\r\n' + check('a', 3)
        with Server(PLENTY, virtual=True) as server:
            before = 1000000
            for size in [1, 2, 3, 7, 64, 150, 151, len(data)]:
                with server.connect() as connection:
                    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for at in range(0, len(data), size):
                        connection.send(data[at:at + size])
                    remaining = [connection.reply().json['remaining'] for _ in range(3)]
                    self.assertEqual(remaining, [before - 1, before - 2, before - 5], f'pieces of {size}')
                before -= 5

    def test_reply_larger_than_any_buffer_to_a_reader_that_waits(self):
        """A reply of megabytes leaves whole, and requests behind it are answered after it."""
        item = '{"attributes":{"tenant":"a"}}'
        batch = request('POST', '/v1/check', '{"requests":[%s]}' % ','.join([item] * 1000), [('Weir-Now', 0)])
        with Server(PLENTY, virtual=True) as server, server.connect() as connection:
            sender = threading.Thread(target=lambda: connection.send(batch * 20 + request('GET', '/healthz')))
            sender.start()
            self.assertEqual(sum(len(connection.reply().json['results']) for _ in range(20)), 20000)
            self.assertEqual(connection.reply().body, b'ok\n')
            sender.join()


# Bytes of replies that a worker collects before it sends them (WORKER_OUTPUT).
COLLECTED = 4 * 48 * 1024


class FullOutput(unittest.TestCase):
    """100 Continue behind replies that leave no room for it in what is collected: it used to be lost, and the next
    reply to end the process."""

    ITEM = '{"attributes":{"tenant":"a"},"mode":"peek"}'

    def batch(self, count):
        return request('POST', '/v1/check', '{"requests":[' + ','.join([self.ITEM] * count) + ']}')

    def bad(self, length):
        return request('POST', '/v1/check', '{"attributes":{"%s":1}}' % ('A' * length))

    def size(self, server, data):
        """Of the reply to a request, in bytes."""
        with server.connect() as connection:
            connection.send(data)
            reply = connection.reply()
            head = f'{reply.version} {reply.status} {reply.reason}\r\n'
            return len(head) + sum(len(f'{n}: {v}\r\n') for n, v in reply.fields.items()) + 2 + len(reply.body)

    def fillings(self, server):
        """(items of a batch, bytes of a bad name, how many such before it) for replies just below COLLECTED."""
        item = self.size(server, self.batch(501)) - self.size(server, self.batch(500))
        begin = self.size(server, self.batch(500)) - 500 * item
        bad = [self.size(server, self.bad(length)) for length in range(1, 41)]
        found = []
        for left in range(0, 25):
            found += [(items, length, times) for times in range(1, 9) for length in range(1, 41)
                      for items in [(COLLECTED - left - begin - times * bad[length - 1]) // item]
                      if begin + items * item + times * bad[length - 1] == COLLECTED - left][:1]
        self.assertGreater(len(found), 10)
        return found

    def test_continue_has_no_room(self):
        with Server(PLENTY) as server:
            for items, length, times in self.fillings(server):
                with self.subTest(items=items, length=length, times=times), server.connect() as connection:
                    head = request('POST', '/v1/check', b'{"attributes":{}}', [('Expect', '100-continue')])[:-17]
                    connection.send(self.bad(length) * times + self.batch(items) + head)
                    self.assertEqual([connection.reply().status for _ in range(times + 2)],
                                     [400] * times + [200, 100])
                    connection.send('{"attributes":{}}')
                    self.assertEqual(connection.reply().status, 200)


class Disconnect(unittest.TestCase):
    def test_hang_up_while_decisions_are_under_way(self):
        """asks = answers: each started decision was completed, and none twice (that would abort the server)."""
        item = '{"attributes":{"tenant":"a"}}'
        batch = request('POST', '/v1/check', '{"requests":[%s]}' % ','.join([item] * 50), [('Weir-Now', 0)])
        for seed in SEEDS:
            server = Server(PLENTY, virtual=True, env=late(seed, 20))
            with server:
                for i in range(40):
                    with server.connect() as connection:
                        connection.send(b''.join(check('a') for _ in range(i)) + batch)
                        if i % 3 == 0:
                            connection.reply()
                        if i % 3 == 1:
                            connection.socket.shutdown(socket.SHUT_WR)
                self.assertEqual(server.ask('GET', '/healthz').status, 200)
                server.process.terminate()
                server.process.wait(30)
                asks, answers = asks_and_answers(server.log())
                self.assertGreater(asks, 100)
                self.assertEqual(asks, answers)

    def test_half_closed_callers_get_what_is_decided(self):
        with Server() as server, server.connect() as connection:
            connection.send(check('a') + request('GET', '/healthz'))
            connection.socket.shutdown(socket.SHUT_WR)
            self.assertEqual([connection.reply().status, connection.reply().status], [200, 200])
            self.assertTrue(connection.is_closed())

    def test_reset_connections_leave_nothing_behind(self):
        with Server(hooked=True, env=late(2, 5)) as server:
            def open_files():
                return len(os.listdir(f'/proc/{server.process.pid}/fd'))
            for connection in [server.connect() for _ in range(8)]:
                with connection:  # every worker has had a connection: a loop opens a file of its own for its first
                    connection.ask('GET', '/healthz')
            before = open_files()
            for i in range(100):
                connection = server.connect()
                connection.send(check('a')[:i * 3])
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
                connection.socket.close()
            wait_for(lambda: open_files() <= before)


if __name__ == '__main__':
    unittest.main()
