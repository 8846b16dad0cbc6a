# SPDX-License-Identifier: Apache-2.0
# LABELS: slow
"""Ten thousand requests that wait, each on a connection of its own: under two kilobytes each, everything included, and
they leave in the order in which they came.

Virtual time, so that all of them wait at once for as long as it takes to look.
"""
import json
import os
import resource
import unittest

from door import request, wait_for
from waits import Waiting, stamp

COUNT = 10000
GROUP = 100  # sent together: within a group any order is as good

# Every request meets the first two and, by its path, one or two more. The pace is the first's: one each 0.1 ms.
CONTRACT = """
weir: 1
server: { connections-per-peer: 20000 }
limits:
  - name: pace
    key: [tenant]
    algorithm: leaky-queue
    rate: 10000/s
    wait: { up-to: 1h, queue: 20000 }
  - name: each-user
    key: [user]
    rate: 5/s
    burst: 5
    wait: { up-to: 1h, queue: 20000 }
  - name: three
    when: { path: [/three, /four] }
    key: [tenant]
    rate: 100000/s
    burst: 10
    wait: { up-to: 1h, queue: 20000 }
  - name: four
    when: { path: /four }
    key: [tenant]
    algorithm: fixed-window
    rate: 1000000/1d
"""


def resident(door):
    with open(f'/proc/{door.server.process.pid}/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


class Many(unittest.TestCase):
    def one_by_one(self, path):
        with Waiting(CONTRACT) as door:
            attributes = {'tenant': 'acme', 'path': path}
            # What is allocated once is there before we begin to count.
            self.assertEqual(door.post('/v1/check', {'attributes': attributes}).status, 200)
            warm = [door.park({'attributes': attributes, 'wait': 1000}) for _ in range(20)]
            for connection in warm:
                connection.socket.close()
            wait_for(lambda: door.waiting() == 0)

            before = resident(door)
            connections = []
            for i in range(COUNT):
                connection = door.server.connect()
                door.connections.append(connection)
                connections.append(connection)
                body = json.dumps({'attributes': {**attributes, 'user': f'u{i}'}, 'wait': 1000})
                connection.send(request('POST', '/v1/check', body, [stamp(0)]))
                if (i + 1) % GROUP == 0:
                    wait_for(lambda: door.waiting() == i + 1)
            each = (resident(door) - before) / COUNT
            print(f'{path}: {each:.0f} bytes each')
            self.assertLess(each, 2048)

            door.go(COUNT / 20000)  # half of them, to the nanosecond
            self.assertEqual(door.waiting(COUNT / 20000), COUNT // 2)
            door.go(COUNT / 10000)
            self.assertEqual(door.waiting(COUNT / 10000), 0)
            for group in range(0, COUNT, GROUP):
                waited = sorted(round(c.reply().json['waited'] * 10000) for c in connections[group:group + GROUP])
                self.assertEqual(waited, list(range(group + 1, group + GROUP + 1)))
            self.assertEqual(door.server.waits('served'), COUNT)

    def test_that_meet_two_limits(self):
        self.one_by_one('/two')

    def test_that_meet_four_limits(self):
        self.one_by_one('/four')


if __name__ == '__main__':
    wanted = COUNT + 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else wanted, hard))
    unittest.main()
