# SPDX-License-Identifier: Apache-2.0
"""B11: a wall clock that is stepped under a running server changes no token-bucket decision; calendar windows follow
it forward and never give a finished window a second time."""
import email.utils
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from door import SOURCE, Server, wait_for

HOUR = 3600
DAY = 24 * HOUR

# Slow enough that no real time of a test refills anything; a step of an hour would, if it counted.
CONTRACT = """
weir: 1
limits:
  - name: bucket
    when: { path: "/bucket" }
    key: []
    rate: 5/1h
    burst: 10
  - name: first
    when: { path: "/first" }
    key: []
    algorithm: fixed-window
    align: first-request
    rate: 10/1h
  - name: log
    when: { path: "/log" }
    key: []
    algorithm: sliding-log
    rate: 10/1h
  - name: daily
    when: { path: "/daily" }
    key: []
    algorithm: fixed-window
    align: calendar UTC
    rate: 2/1d
"""


class WallClock(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='clock-')
        self.addCleanup(shutil.rmtree, self.dir)
        self.shim = os.path.join(self.dir, 'stepped_clock.so')
        self.file = os.path.join(self.dir, 'seconds')
        source = os.path.join(SOURCE, 'test', 'doors', 'stepped_clock.c')
        subprocess.run([os.environ.get('CC', 'cc'), '-shared', '-fPIC', '-O1', '-D_GNU_SOURCE', '-o', self.shim,
                        source], check=True)
        self.write(0)

    def write(self, seconds):
        with open(self.file + '.new', 'w') as file:
            file.write(str(seconds))
        os.rename(self.file + '.new', self.file)

    def step(self, server, seconds):
        """Step the clock, and wait until the server shows that it has noticed (its Date is made once a second)."""
        self.write(seconds)

        def noticed():
            shown = email.utils.parsedate_to_datetime(server.ask('GET', '/healthz').fields['date']).timestamp()
            return abs(shown - seconds - time.time()) < 30
        wait_for(noticed)
        time.sleep(1.1)  # the wall offset of calendars is read once a second, too

    def server(self):
        env = {'STEPPED_CLOCK': self.file, 'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0'}
        return Server(CONTRACT, preload=self.shim, env=env)

    def test_B11b_steps_change_no_decision(self):
        with self.server() as server:
            def ask(path):
                return server.check('{"path":"%s"}' % path)
            taken = 0
            for seconds in [0, -HOUR, HOUR, 0, -11, HOUR]:
                self.step(server, seconds)
                for path in ['/bucket', '/first', '/log']:
                    reply = ask(path)
                    self.assertEqual((reply.status, reply.json['remaining']), (200, 9 - taken), f'{path} at {seconds}')
                taken += 1
            for path in ['/bucket', '/first', '/log']:
                statuses = [ask(path).status for _ in range(6)]
                self.assertEqual(statuses, [200] * 4 + [429] * 2, path)
                self.assertLessEqual(ask(path).json['retry_after'], HOUR)

    def test_calendar_windows_are_not_reopened(self):
        with self.server() as server:
            def ask():
                return server.check('{"path":"/daily"}').status
            # Noon today, so that neither the test nor an hour more reaches an edge.
            noon = DAY // 2 - int(time.time()) % DAY
            self.step(server, noon)
            self.assertEqual([ask() for _ in range(3)], [200, 200, 429])
            self.step(server, noon + HOUR)
            self.assertEqual(ask(), 429, 'the same day')
            self.step(server, noon + DAY)
            self.assertEqual([ask() for _ in range(3)], [200, 200, 429], 'the next day')
            self.step(server, noon)
            self.assertEqual(ask(), 429, 'yesterday does not come back')
            self.step(server, noon + DAY)
            self.assertEqual(ask(), 429, 'and neither does today')


if __name__ == '__main__':
    unittest.main()
