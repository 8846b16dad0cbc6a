# SPDX-License-Identifier: Apache-2.0
"""What grows has an end: connections beyond the descriptors wait their turn, and whoever floods is not crashed into."""
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import unittest

from door import BUCKET, Server, request, wait_for


def read(path):
    with open(path, errors='replace') as file:
        return file.read()


def is_sanitized(server):
    """Sanitizers keep freed memory for a while."""
    return 'libasan' in read(f'/proc/{server.process.pid}/maps') or 'libtsan' in read(
        f'/proc/{server.process.pid}/maps')


class Limited(Server):
    """A server that may have this many descriptors."""

    def __init__(self, descriptors, **more):
        hard = (descriptors, descriptors)
        super().__init__(popen=lambda *a, **k: subprocess.Popen(
            *a, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, hard), **k), **more)


class Bounds(unittest.TestCase):
    def test_connections_beyond_the_descriptors_wait(self):
        with Limited(320, args=['--connections-per-peer', '1000']) as server:
            connections = [server.connect() for _ in range(400)]
            for connection in connections:
                connection.send(request('GET', '/healthz'))
            served = [c for c in connections if not c.is_silent(0.01 if c is not connections[0] else 5)]
            self.assertGreater(len(served), 100)
            self.assertLess(len(served), 320)
            waiting = [c for c in connections if c not in served]
            for connection in served:
                self.assertEqual(connection.reply().status, 200)
                connection.socket.close()
            for connection in waiting:
                self.assertEqual(connection.reply().status, 200, 'its turn came')
                connection.socket.close()

    def test_workers_share_connections_evenly(self):
        """A hundred connections of a proxy on four workers: each thread serves some (the kernel alone would not see
        to that)."""
        with Server(args=['--workers', '4']) as server:
            connections = [server.connect() for _ in range(100)]

            def switches():
                tasks = f'/proc/{server.process.pid}/task'
                return {task: read(f'{tasks}/{task}/status').split('\nvoluntary_ctxt_switches:\t')[1].split()[0]
                        for task in os.listdir(tasks)}
            for connection in connections:
                connection.ask('GET', '/healthz')
            before = switches()
            for connection in connections:
                connection.ask('GET', '/healthz')
            woken = [int(after) - int(before[task]) for task, after in switches().items() if task in before]
            self.assertGreaterEqual(sum(1 for times in woken if times >= 10), 4, woken)
            for connection in connections:
                connection.socket.close()

    def test_150_bodies_of_a_megabyte_at_once(self):
        """Bodies that never end are kept up to a bound for all; beyond it connections are closed, and
        everybody else is served."""
        head = 'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n'
        with Server(args=['--workers', '1']) as server:
            connections = [server.connect() for _ in range(150)]

            def fill(connection):
                try:
                    connection.send(head + ' ' * 1040000)
                except OSError:
                    pass  # closed because there is no room
            threads = [threading.Thread(target=fill, args=(c,)) for c in connections]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            wait_for(lambda: 'event=input_full' in server.log())
            resident_kb = int(read(f'/proc/{server.process.pid}/status').split('VmRSS:')[1].split()[0])
            if not is_sanitized(server):
                self.assertLess(resident_kb, 160 << 10, 'the bound is 64 MiB a worker')
            for connection in connections:
                connection.socket.close()
            self.assertEqual(server.check().status, 200)

    def test_40_replies_of_11_megabytes_that_nobody_reads(self):
        """Replies that wait are bounded before they are kept, also when all of them are made in one turn of the loop:
        memory of a connection that is closed for it comes back only after the turn."""
        limits = ''.join(f'  - {{ name: {"n" * 58}-{i:02}, key: [], rate: 1000000/s, burst: 1000000 }}\n'
                         for i in range(64))
        batch = request('POST', '/v1/check', '{"requests":[' + ','.join(['{"attributes":{}}'] * 1000) + ']}')
        with Server('weir: 1\nlimits:\n' + limits, args=['--workers', '1']) as server:
            connections = [server.connect() for _ in range(40)]
            for connection in connections:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.ask('GET', '/healthz')
            server.process.send_signal(signal.SIGSTOP)
            for connection in connections:
                connection.send(batch)
            server.process.send_signal(signal.SIGCONT)
            self.assertEqual(server.ask('GET', '/healthz').status, 200)
            waiting = [int(bytes) for bytes in re.findall('event=output_full bytes=([0-9]+)', server.log())]
            self.assertGreater(len(waiting), 0)
            self.assertLessEqual(max(waiting), 128 << 20)
            most_kb = int(read(f'/proc/{server.process.pid}/status').split('VmHWM:')[1].split()[0])
            if not is_sanitized(server):
                self.assertLess(most_kb, 224 << 10, 'the bound is 128 MiB a worker')
            for connection in connections:
                connection.socket.close()

    def test_thousands_of_connections_come_and_go(self):
        with Server(BUCKET, args=['--workers', '2']) as server:
            for _ in range(3000):
                server.connect().socket.close()
            self.assertEqual(server.check().status, 200)


if __name__ == '__main__':
    unittest.main()
