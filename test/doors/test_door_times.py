# SPDX-License-Identifier: Apache-2.0
"""Slow and silent clients: each wait has an end. The test build's seconds last 20 ms here (WEIR_TEST_SECOND_MS), so
nothing sleeps for real minutes, and what must not end is shown by waiting many such seconds."""
import socket
import time
import unittest

from door import Server, request

SECOND = 0.02
HURRY = {'WEIR_TEST_SECOND_MS': '20'}


class Times(unittest.TestCase):
    def test_a_head_has_10_seconds(self):
        with Server(hooked=True, env=HURRY) as server, server.connect() as connection:
            connection.send('GET /healthz HTTP/1.1\r\nHost: x\r\n')
            self.assertEqual(connection.reply().status, 408)
            self.assertTrue(connection.is_closed())

    def test_a_head_in_drops_has_no_more(self):
        """Each byte restarts nothing: the head as a whole has its time."""
        with Server(hooked=True, env=HURRY) as server, server.connect() as connection:
            try:
                for byte in b'GET /healthz HTTP/1.1\r\nHost: x\r\nX: ' + b'y' * 1000:
                    connection.send(bytes([byte]))
                    time.sleep(SECOND)
                self.fail('a thousand seconds for one head')
            except OSError:
                pass  # we went on after the server had ended the connection

    def test_a_body_has_60_seconds_and_charges_nothing(self):
        with Server(hooked=True, env=HURRY) as server:
            with server.connect() as connection:
                connection.send(request('POST', '/v1/check', b'{"attributes":{"tenant":"acme"}}')[:-1])
                self.assertEqual(connection.reply().status, 408)
                self.assertTrue(connection.is_closed())
            self.assertEqual(server.check().json['remaining'], 19)

    def test_an_idle_connection_has_60_seconds(self):
        with Server(hooked=True, env=HURRY) as server, server.connect() as connection:
            self.assertEqual(connection.ask('GET', '/healthz').status, 200)
            self.assertTrue(connection.is_silent(40 * SECOND), 'still open after 40 s')
            self.assertEqual(connection.ask('GET', '/healthz').status, 200)
            self.assertTrue(connection.is_silent(40 * SECOND), 'the request began a new 60 s')
            self.assertTrue(connection.is_closed(), 'and then it ends without a word')

    def test_a_decision_may_take_longer(self):
        env = {**HURRY, 'WEIR_TEST_LATE': '4:3000'}
        with Server(hooked=True, env=env) as server, server.connect() as connection:
            for _ in range(3):
                self.assertEqual(connection.ask('GET', '/v1/auth').status, 200)

    def test_a_reader_that_never_reads(self):
        """Its requests stop being read once 256 KiB wait for it, and after 60 s without progress it is gone."""
        with Server(hooked=True, env=HURRY) as server, server.connect() as connection:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.socket.settimeout(1)
            sent = 0
            try:
                while sent < 200 << 20:
                    sent += connection.socket.send(request('GET', '/metrics') * 100)
                self.fail('200 MiB of requests were taken in')
            except OSError:
                pass  # full, or ended
            connection.socket.settimeout(30)
            try:
                while connection.socket.recv(1 << 20):
                    pass
            except ConnectionResetError:
                pass
            self.assertEqual(server.ask('GET', '/healthz').status, 200)

    def test_many_slow_clients_do_not_keep_a_quick_one_waiting(self):
        with Server(hooked=True) as server:
            slow = [server.connect() for _ in range(200)]
            for i, connection in enumerate(slow):
                connection.send(request('POST', '/v1/check', b'{"attributes":{}}')[:20 + i % 60])
            self.assertEqual(server.check().status, 200)
            for connection in slow:
                connection.socket.close()


if __name__ == '__main__':
    unittest.main()
