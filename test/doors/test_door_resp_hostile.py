# SPDX-License-Identifier: Apache-2.0
"""The Redis door under clients that mean it badly, or are badly written: floods that nobody reads, halves of commands, sessions
that change while answers are late, ends in the middle, bytes that are no text, and every bound from both sides."""
import socket
import struct
import threading
import time
import unittest

from door import Server, wait_for
from test_door_resp import Client, CONTRACT, Resp, TOKENS, flat

JOBS = ('ATTR', 'tenant', 'a', 'path', '/jobs')
ALONE = """
weir: 1
limits:
  - name: jobs
    key: []
    algorithm: concurrency
    at-most: 2
    hold: 1h
    wait: { up-to: 10s, queue: 4 }
"""
LATE = {'WEIR_TEST_LATE': '7:5'}


def reset(client):
    """The connection ends with a reset, and not with a farewell."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    client.file.close()
    client.socket.close()


class Floods(unittest.TestCase):
    def flood(self, server, count, slowly):
        """Thousands in one stream while their replies are not read, then read, each in its place."""
        with server.client() as client:
            data = b''.join(Client.command('WEIR.CHECK', 'ATTR', 'tenant', 'a') + Client.command('ECHO', i) for i in range(count))
            sender = threading.Thread(target=client.send, args=(data,))
            sender.start()
            if slowly:
                time.sleep(0.3)  # replies pile up until the server reads no more
            for i in range(count):
                self.assertIn(flat(client.reply())['decision'], ('allow', 'deny'))
                self.assertEqual(client.reply(), str(i))
            sender.join()

    def test_thousands_that_are_read_late(self):
        with Resp() as server:
            self.flood(server, 20000, True)

    def test_thousands_whose_answers_are_late(self):
        with Resp(env=LATE, hooked=True) as server:
            self.flood(server, 2000, False)

    def test_who_never_reads_is_bounded_and_others_are_served(self):
        data = Client.command('PING', 'x' * 1000) * 1000
        with Resp() as server:
            floods = [server.client() for _ in range(20)]
            for client in floods:
                client.socket.settimeout(0.2)
                with self.assertRaises(TimeoutError, msg='the server reads without an end what it cannot answer'):
                    for _ in range(200):
                        client.send(data)
            with server.client() as client:
                self.assertEqual(client.ask('PING'), 'PONG')
            with open(f'/proc/{server.process.pid}/status', encoding='ascii') as status:
                resident = next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))
            self.assertLess(resident, 400 * 1024, 'kB; 20 connections with 256 kB and a read or two each, and a machine of sanitizers')
            for client in floods:
                reset(client)


class Halves(unittest.TestCase):
    def test_half_a_command_and_silence(self):
        with Resp(env={'WEIR_TEST_SECOND_MS': '20'}, hooked=True) as server:
            for half in (b'*2\r\n$4\r\nECHO\r\n$5\r\nab', b'*', b'PING', b'*3\r\n$10\r\nWEIR.CHECK\r\n'):
                with server.client() as client:
                    client.send(half)
                    self.assertEqual(client.reply(), 'ERR weir: the request did not arrive in time')
                    self.assertTrue(client.ends())

    def test_who_is_silent_between_commands_may_be(self):
        with Resp(env={'WEIR_TEST_SECOND_MS': '5'}, hooked=True) as server, server.client() as client:
            self.assertEqual(client.ask('PING'), 'PONG')
            time.sleep(0.6)  # 120 of those seconds: HTTP would have ended it
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_halves_of_many_and_their_ends(self):
        with Resp() as server:
            clients = [server.client() for _ in range(200)]
            for i, client in enumerate(clients):
                client.send(Client.command('WEIR.CHECK', 'ATTR', 'tenant', 'a')[:1 + i % 49])
            for client in clients:
                reset(client)
            with server.client() as client:
                self.assertEqual(flat(client.ask('WEIR.PEEK', 'ATTR', 'tenant', 'a'))['reset_after'], '0')  # none was one


class Sessions(unittest.TestCase):
    """HELLO, AUTH, RESET and QUIT between commands whose answers are late: each acts on what stands behind it, and nothing before."""

    CHECK = Client.command('WEIR.CHECK', 'ATTR', 'tenant', 'a')

    def test_versions_change_between_late_answers(self):
        for _ in range(10):
            with Resp(env=LATE, hooked=True) as server, server.client() as client:
                client.send(self.CHECK + Client.command('HELLO', '3') + self.CHECK + Client.command('RESET') + self.CHECK
                            + Client.command('HELLO', '9') + self.CHECK + Client.command('QUIT') + self.CHECK)
                kinds = [type(client.reply()) for _ in range(8)]
                self.assertEqual(kinds, [list, dict, dict, str, list, Client.Error, list, str])
                self.assertTrue(client.ends(), 'nothing behind QUIT is answered')

    def test_a_token_counts_from_its_AUTH_on(self):
        with Resp(env=LATE, hooked=True, files={'tokens': (TOKENS, 0o600)}, args=['--tokens', 'DIR/tokens']) as server, \
                server.client() as client:
            client.send(self.CHECK + Client.command('AUTH', 'nobody') + self.CHECK + Client.command('AUTH', '0123456789abcdef0')
                        + self.CHECK + Client.command('RESET') + self.CHECK)
            noauth = 'NOAUTH Authentication required.'
            replies = [client.reply() for _ in range(7)]
            self.assertEqual(replies[0], noauth)
            self.assertTrue(replies[1].startswith('WRONGPASS'))
            self.assertEqual(replies[2:4], [noauth, 'OK'])
            self.assertEqual(flat(replies[4])['decision'], 'allow')
            self.assertEqual(replies[5:], ['RESET', noauth])

    def test_hanging_up_amid_late_answers(self):
        with Resp(env={'WEIR_TEST_LATE': '3:30'}, hooked=True) as server:
            for i in range(60):
                with server.client() as client:
                    client.send(self.CHECK * (1 + i) + Client.command('QUIT'))
                    if i % 3 == 0:
                        reset(client)
            with server.client() as client:
                self.assertEqual(client.ask('PING'), 'PONG')


class Permits(unittest.TestCase):
    def test_what_is_bound_returns_however_the_connection_ends(self):
        ends = {
            'a farewell': lambda client: client.__exit__(),
            'a reset': reset,
            'QUIT': lambda client: client.ask('QUIT'),
            'bytes that are no command': lambda client: client.send(b'*x\r\n'),
        }
        with Resp(ALONE) as server, server.client() as other:
            for why, end in ends.items():
                with self.subTest(why):
                    client = server.client()
                    for _ in range(2):
                        self.assertEqual(flat(client.ask('WEIR.ACQUIRE', 'BIND', *JOBS))['decision'], 'allow')
                    self.assertEqual(flat(other.ask('WEIR.ACQUIRE', *JOBS))['decision'], 'deny')
                    end(client)
                    for _ in range(2):
                        taken = flat(other.ask('WEIR.ACQUIRE', 'WAIT', '10000', *JOBS))
                        self.assertEqual(taken['decision'], 'allow')
                        other.ask('WEIR.RELEASE', taken['permit'])

    def test_who_waits_and_hangs_up_takes_nobody_s_place(self):
        with Resp(ALONE) as server, server.client() as holder, server.client() as heir:
            permits = [flat(holder.ask('WEIR.ACQUIRE', *JOBS))['permit'] for _ in range(2)]
            waiters = [server.client() for _ in range(4)]
            for waiter in waiters:
                waiter.send(Client.command('WEIR.ACQUIRE', 'WAIT', '10000', 'BIND', *JOBS))
            wait_for(lambda: server.metric('weir_waiting') == 4)
            for i, waiter in enumerate(waiters):
                reset(waiter) if i % 2 == 0 else waiter.__exit__()
            heir.send(Client.command('WEIR.ACQUIRE', 'WAIT', '10000', *JOBS) * 2)
            for permit in permits:
                self.assertEqual(holder.ask('WEIR.RELEASE', permit)[1], 1)
            self.assertEqual([flat(heir.reply())['decision'] for _ in range(2)], ['allow', 'allow'])

    def test_a_permit_that_comes_when_nobody_is_there(self):
        """Decided, answered late, and meanwhile the connection is gone."""
        with Resp(ALONE, env={'WEIR_TEST_LATE': '5:50'}, hooked=True) as server, server.client() as other:
            for _ in range(10):
                client = server.client()
                client.send(Client.command('WEIR.ACQUIRE', 'BIND', *JOBS) * 2)
                reset(client)
                taken = []

                def takes_all():
                    answer = flat(other.ask('WEIR.ACQUIRE', *JOBS))
                    taken.extend([answer['permit']] if answer['decision'] == 'allow' else [])
                    return len(taken) == 2
                wait_for(takes_all)
                for permit in taken:
                    other.ask('WEIR.RELEASE', permit)

    def test_a_connection_has_room_for_128(self):
        with Resp(ALONE.replace('at-most: 2', 'at-most: 200')) as server, server.client() as client:
            replies = [client.ask('WEIR.ACQUIRE', 'BIND', *JOBS) for _ in range(129)]
            self.assertEqual([flat(reply)['decision'] for reply in replies[:128]], ['allow'] * 128)
            self.assertEqual(replies[128], 'ERR weir: bind: this connection has 128 permits already: release some, or open another')


class Bounds(unittest.TestCase):
    def test_a_full_table(self):
        contract = CONTRACT + 'memory: { keys: 64 }\n'
        with Resp(contract) as server, server.client() as client:
            client.send(b''.join(Client.command('CL.THROTTLE', f'k{i}', '0', '1', '3600') for i in range(5000)))
            replies = [client.reply() for _ in range(5000)]
            whole = [reply for reply in replies if isinstance(reply, list)]
            self.assertEqual(whole.count([0, 1, 0, -1, 3600]) + sum(reply[0] == 1 for reply in whole), len(whole))
            self.assertEqual({str(reply) for reply in replies if not isinstance(reply, list)}
                             - {'Cell error: Failed to update rate limit after 5 attempts'}, set())
            self.assertLess(whole.count([0, 1, 0, -1, 3600]), 5000, 'what has no place is not waved through')
            self.assertIsInstance(client.ask('WEIR.CHECK', 'ATTR', 'tenant', 'new'), list)
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_bytes_that_are_no_text(self):
        with Resp() as server, server.client() as client:
            keys = [b'k', b'k\0', b'k\0\0', b'k\r\n', b'\xff\xfe', b'', b'\r\n*1\r\n$4\r\nPING\r\n']
            self.assertEqual([client.ask('CL.THROTTLE', key, '0', '1', '3600')[0] for key in keys], [0] * len(keys))
            self.assertEqual([client.ask('CL.THROTTLE', key, '0', '1', '3600')[0] for key in keys], [1] * len(keys), 'each its own')
            for words in ((b'\0\r\n-ERR', b'a\r\nb'), (b'WEIR.CHECK', b'\r\n+OK\r\n', b'ATTR', b'a', b'b'),
                          (b'WEIR.RESERVE', b'ATTR', b'a\0b', b'x'), (b'WEIR.CANCEL', b'\xff\r\n')):
                self.assertIsInstance(client.ask(*words), Client.Error)
                self.assertEqual(client.ask('PING'), 'PONG', 'one line was one reply')

    def test_the_largest_request(self):
        names = [f'a{i}' for i in range(31)]
        attributes = [word for name in names for word in (name, 'x' * 1024)]
        with Resp() as server, server.client() as client:
            self.assertEqual(flat(client.ask('WEIR.CHECK', 'ATTR', 'tenant', 'a', *attributes))['decision'], 'allow')
            self.assertEqual(client.ask('WEIR.CHECK', 'ATTR', 'tenant', 'a', *attributes, 'more', 'x'),
                             'ERR weir: there are more than 32 attributes: send those that limits read')
            self.assertTrue(client.ask('WEIR.CHECK', 'ATTR', 'tenant', 'x' * 1025).startswith("ERR weir: the value of 'tenant' has 1025"))

    def test_the_largest_command(self):
        most = 128 << 10
        head = b'*2\r\n$4\r\nECHO\r\n$131043\r\n'
        room = most - len(head) - 2
        with Resp() as server:
            for length, want in [(room, 'ERR weir: at most 32768 bytes come back'),
                                 (room + 1, 'ERR Protocol error: too big multibulk request'),
                                 (most + 1, 'ERR Protocol error: invalid bulk length')]:
                with server.client() as client:
                    client.send(b'*2\r\n$4\r\nECHO\r\n$%d\r\n' % length)
                    if length <= room:
                        client.send(b'x' * length + b'\r\n')
                    self.assertEqual(client.reply(), want)

    def test_the_most_words(self):
        with Resp() as server:
            with server.client() as client:
                self.assertTrue(client.ask('NOSUCH', *['x'] * 1023).startswith("ERR unknown command 'NOSUCH'"))
                client.send(b'*1025\r\n')
                self.assertEqual(client.reply(), 'ERR Protocol error: invalid multibulk length')
                self.assertTrue(client.ends())

    def test_lines(self):
        rows = [
            (b'CL.THROTTLE "a b" 0 1 \'60\'\r\n', [0, 1, 0, -1, 60], 'quotes'),
            (b'  CL.THROTTLE\tc  0 1 60  \n', [0, 1, 0, -1, 60], 'blanks and a bare LF'),
            (b'CL.THROTTLE "\\x00\\r\\n" 0 1 60\r\n', [0, 1, 0, -1, 60], 'escapes'),
            (b'weir.cancel x\xff\r\n', "ERR weir: reservation 'x\ufffd': send the text that WEIR.RESERVE answered", 'bytes'),
            (b'nosuch ' + b'x ' * 600 + b'\r\n', None, 'many words'),
            (b'PING "' + b'y' * 1000 + b'"\r\n', 'y' * 1000, 'a long one'),
        ]
        with Resp() as server, server.client() as client:
            for line, want, why in rows:
                with self.subTest(why=why):
                    client.send(line)
                    reply = client.reply()
                    self.assertTrue(isinstance(reply, Client.Error) if want is None else reply == want, reply)
            client.send(b'z' * (65 << 10))
            self.assertEqual(client.reply(), 'ERR Protocol error: too big inline request')


if __name__ == '__main__':
    unittest.main()
