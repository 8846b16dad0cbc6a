# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: stop accepting, finish what is pending, close what is idle, say so, exit 0."""
import re
import signal
import socket
import unittest

from door import Server, request, wait_for

BODY = b'{"attributes":{"tenant":"acme"}}'


class Drain(unittest.TestCase):
    def finish(self, server):
        self.assertEqual(server.process.wait(30), 0)
        found = re.search(r'level=info event=drained asks=(\d+) answers=(\d+)', server.log())
        self.assertIsNotNone(found, server.log())
        self.assertEqual(found[1], found[2])

    def test_idle_connections_are_closed(self):
        for number in [signal.SIGTERM, signal.SIGINT]:
            with Server() as server:
                idle = [server.connect() for _ in range(20)]
                for connection in idle[:10]:
                    connection.ask('GET', '/healthz')
                server.process.send_signal(number)
                for connection in idle:
                    self.assertTrue(connection.is_closed())
                    connection.socket.close()
                self.finish(server)
                self.assertIn(f'event=draining signal={number.name} waiting=0', server.log())

    def test_a_reload_asked_for_meanwhile_does_not_end_it(self):
        whole = request('POST', '/v1/check', BODY)
        with Server() as server, server.connect() as connection:
            connection.send(whole[:-5])
            self.assertEqual(server.ask('GET', '/healthz').status, 200)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: 'event=draining' in server.log())
            for _ in range(5):
                server.process.send_signal(signal.SIGHUP)
            connection.send(whole[-5:])
            self.assertEqual(connection.reply().status, 200)
            connection.socket.close()
            self.finish(server)

    def test_a_decision_under_way_is_answered(self):
        with Server(hooked=True, env={'WEIR_TEST_LATE': '9:2000'}) as server, server.connect() as connection:
            for _ in range(30):
                connection.send(request('POST', '/v1/check', BODY))
            server.process.send_signal(signal.SIGTERM)
            replies = [connection.reply() for _ in range(30)]
            self.assertEqual([r.status for r in replies], [200] * 20 + [429] * 10)
            self.assertEqual(replies[-1].fields['connection'], 'close', 'the last one says so')
            self.assertTrue(connection.is_closed())
            connection.socket.close()
            self.finish(server)

    def test_half_a_request_may_become_whole(self):
        with Server() as server, server.connect() as connection:
            whole = request('POST', '/v1/check', BODY)
            connection.send(whole[:-5])
            self.assertEqual(server.ask('GET', '/healthz').status, 200)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: 'event=draining' in server.log())
            self.assertTrue(connection.is_silent(0.2))
            connection.send(whole[-5:])
            reply = connection.reply()
            self.assertEqual((reply.status, reply.fields['connection']), (200, 'close'))
            self.assertTrue(connection.is_closed())
            connection.socket.close()
            self.finish(server)

    def test_not_accepting_and_not_ready(self):
        with Server() as server, server.connect() as connection:
            connection.send('GET /readyz HTTP/1.1\r\n')
            self.assertEqual(server.ask('GET', '/readyz').status, 200)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: 'event=draining' in server.log())
            with self.assertRaises(OSError):
                wait_for(lambda: socket.create_connection(('127.0.0.1', server.port), 5).close())
            connection.send('Host: x\r\n\r\n')
            reply = connection.reply()
            self.assertEqual((reply.status, reply.body), (503, b'draining\n'))
            connection.socket.close()
            self.finish(server)

    def test_who_never_finishes_is_cut(self):
        with Server(hooked=True, env={'WEIR_TEST_SECOND_MS': '10'}) as server:
            connections = [server.connect() for _ in range(5)]
            for connection in connections:
                connection.send(request('POST', '/v1/check', BODY)[:-5])
            self.assertEqual(server.ask('GET', '/healthz').status, 200)
            server.process.send_signal(signal.SIGTERM)
            self.finish(server)
            for connection in connections:
                connection.socket.close()


if __name__ == '__main__':
    unittest.main()
