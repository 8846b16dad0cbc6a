# SPDX-License-Identifier: Apache-2.0
"""What nginx delays and what it counts as connections, against the contract that `weir import nginx` makes of its file.

Delays: random timelines of callers that can wait for ever. Two meters say beforehand what must come, one exact and one
in nginx's thousandths and milliseconds. nginx must do what the second says to the millisecond (observed: not yet
answered one before, answered at it), weir what the first says to the nanosecond, and one more for each turn before it;
so the two differ by rounding alone. A timeline ends where rounding decides about a request.

Connections: requests begin, end and are abandoned in random order; a permit is acquired and released for each.
LABELS: e2e
"""
import fractions
import os
import random
import select
import socket
import unittest

from clocked_nginx import MS, Nginx, Weir, imported
from door import free_port

SEED = int(os.environ.get('SEED', '20261130'))
TIMELINES = 300
STEPS = 25
PATIENCE = 86400 * 1000 * MS

# Per location: rate count, its unit in s, burst, delay.
PACED = {
    'even': (10, 1, 5, 0), 'bare': (1, 1, 1, 0), 'fast': (1000, 1, 20, 0), 'part': (10, 1, 6, 2),
    'most': (100, 1, 5, 4), 'half': (30, 60, 3, 0), 'third': (3, 1, 3, 0), 'seventh': (7, 1, 7, 3),
    'slow': (2, 60, 3, 0), 'slower': (2, 60, 3, 1), 'uneven': (100, 60, 4, 1),
}
UNITS = {1: 's', 60: 'm'}
WHOLE = [name for name, (count, seconds, _, _) in PACED.items() if count * 1000 % seconds == 0]


class Meter:
    """One key of one zone, waiting requests included, since nginx counts them when they come."""

    def __init__(self, count, seconds, burst, delay):
        self.rate = fractions.Fraction(count, seconds)
        self.thousandths = count * 1000 // seconds
        self.burst, self.delay = burst, delay
        self.exact = self.kept = self.last = None

    def look(self, now):
        """How far one more request is ahead of the rate: exactly, and as nginx keeps it."""
        if self.last is None:
            return fractions.Fraction(0), 0
        passed = now - self.last
        return (max(fractions.Fraction(0), self.exact - self.rate * passed / 1000 + 1),
                max(0, self.kept - self.thousandths * passed // 1000 + 1000))

    def charge(self, now):
        """The delays of a request that passes: exact in ns, and nginx's in ms."""
        self.exact, self.kept = self.look(now)
        self.last = now
        return (max(fractions.Fraction(0), (self.exact - self.delay) / self.rate * 10 ** 9),
                max(0, self.kept - self.delay * 1000) * 1000 // self.thousandths)


def gap(rng, meter):
    """Milliseconds to the next request: crowds, places on and beside the boundary, and idle times."""
    period = 1000 / meter.rate
    kind = rng.random()
    if kind < 0.5:
        return 0
    if kind < 0.7:
        return rng.randrange(0, int(2 * period) + 2)
    if kind < 0.9:
        exact = period * rng.randrange(1, meter.burst + 3)
        return max(0, -(-exact.numerator // exact.denominator) + rng.choice((-1, 0, 0, 1)))
    return rng.randrange(0, int((meter.burst + 3) * period) + 1)


class Case(unittest.TestCase):
    def start(self, http, server):
        self.rng = random.Random(SEED)
        self.nginx = Nginx(['limit_req_status 429; limit_conn_status 429;', *http], server)
        self.addCleanup(self.nginx.stop)
        self.weir = Weir(imported(self.nginx.config))
        self.addCleanup(self.weir.stop)


class Delays(Case):
    now = 1000000

    def until(self, instant):
        """Let time pass; at each release that nginx owes, look one millisecond before and at it."""
        while self.owed and self.owed[0][0] <= instant:
            due, connection, text = self.owed.pop(0)
            for at, is_there in ((due - 1, False), (due, True)):
                if at < self.now:
                    continue
                self.now = at
                self.nginx.set(at)
                self.nginx.settle()
                has_come = len(select.select([connection], [], [], 0)[0]) > 0
                self.assertEqual(has_come, is_there, f'{text}, due {due}, at {at}')
            self.assertEqual(self.nginx.receive(connection), 200, text)
            connection.close()
        self.now = instant
        self.nginx.set(instant)
        self.nginx.settle()
        self.weir.tick(instant * MS)

    def ask(self, name, location, key, meter, text):
        """One request of both. Whether the timeline goes on: not where only rounding says why they differ."""
        exact, kept = meter.look(self.now)
        weir_passes, nginx_passes = exact <= meter.burst, kept <= meter.burst * 1000
        attributes = [('path', f'/{location}/x.gif'), ('x-key', key)]
        self.weir.ask(name, attributes, PATIENCE, self.now * MS)
        connection = self.nginx.connect()
        self.nginx.send(connection, f'/{location}/x.gif', key)
        self.nginx.settle()
        waits_ns, waits_ms = meter.charge(self.now) if weir_passes and nginx_passes else (0, 0)
        if nginx_passes and waits_ms > 0:
            self.owed.append((self.now + waits_ms, connection, text))
            self.owed.sort(key=lambda row: row[0])
        else:
            self.assertEqual(self.nginx.receive(connection), 200 if nginx_passes else 429, text)
            connection.close()
        # Turns before this one are late by a nanosecond each: a place that is free at this very instant is not yet.
        is_edge = (self.weir.decided.get(name) == (False, 0)
                   and meter.burst - meter.rate * STEPS / 10 ** 9 < exact <= meter.burst)
        if is_edge or weir_passes != nginx_passes:
            counts = self.edges if is_edge else self.between
            counts[location] = counts.get(location, 0) + 1
            return False
        self.expected[name] = (weir_passes, waits_ns, waits_ms, text)
        return True

    def play(self, number, location):
        meter = Meter(*PACED[location])
        key = f'k{number}'
        for step in range(self.rng.randrange(5, STEPS)):
            self.until(self.now + (gap(self.rng, meter) if step > 0 else 1))
            text = f'seed {SEED}, timeline {number} at /{location}/, step {step}'
            if not self.ask((number, step), location, key, meter, text):
                break
        self.until(max([self.now, *[due for due, _, _ in self.owed]]))
        self.until(self.now + int((meter.burst + 2) * 1000 / meter.rate))
        self.compare(location)

    def compare(self, location):
        for name, (passes, waits_ns, waits_ms, text) in self.expected.items():
            got_passes, got_ns = self.weir.decided.pop(name)
            self.assertEqual(got_passes, passes, text)
            exact_ns = -(-waits_ns // 1) if passes else 0
            # Each turn is at a whole nanosecond, and the next one's period begins there: one more for each before it.
            self.assertLessEqual(exact_ns, got_ns, text)
            self.assertLessEqual(got_ns, exact_ns + STEPS, text)
            self.waited += got_ns > 0
            self.passed += passes
            self.decisions += 1
            if passes:
                self.apart[location] = max(self.apart.get(location, 0), abs(waits_ms - got_ns / MS))
        self.expected.clear()

    def test_timelines(self):
        self.owed, self.expected, self.between, self.edges, self.apart = [], {}, {}, {}, {}
        self.decisions = self.passed = self.waited = 0
        self.start([f'limit_req_zone $http_x_key zone={name}:8m rate={count}r/{UNITS[seconds]};'
                    for name, (count, seconds, _, _) in PACED.items()],
                   [f'location /{name}/ {{ empty_gif; limit_req zone={name} burst={burst} delay={delay or "0"}; }}'
                    .replace(' delay=0', '') for name, (_, _, burst, delay) in PACED.items()])
        names = list(PACED)
        for number in range(TIMELINES):
            self.play(number, names[number % len(names)])
        print(f'{TIMELINES} timelines, {self.decisions} decisions, {self.passed} passed, {self.waited} of them after '
              f'waiting; between thousandths: {self.between}, nanoseconds: {self.edges}; most ms apart: '
              f'{ {name: round(ms, 3) for name, ms in self.apart.items()} }')
        self.assertGreater(self.decisions, 5 * TIMELINES)
        self.assertGreater(self.waited, self.decisions // 10)
        self.assertGreater(self.decisions - self.passed, self.decisions // 20)
        for name in WHOLE:  # under STEPS requests, each of less than a thousandth and a millisecond
            period = 1000 * PACED[name][1] / PACED[name][0]
            self.assertLess(self.apart[name], STEPS * period / 1000 + 1, name)

    def test_F06(self):
        """The whole case, five requests at once from an address of its own for each location."""
        self.owed, self.expected = [], {}
        self.start(['geo $trusted { default 0; 127.10.0.0/16 1; }',
                    'map $trusted $lim_key { 1 ""; 0 $binary_remote_addr; }',
                    'limit_req_zone $lim_key zone=perip:10m rate=2r/m;',
                    'limit_req_zone $server_name zone=all:1m rate=100r/s;'],
                   ['location /a { limit_req zone=perip; empty_gif; }',
                    'location /b { limit_req zone=perip burst=3; empty_gif; }',
                    'location /c { limit_req zone=perip burst=3 nodelay; limit_req zone=all burst=20; empty_gif; }',
                    'location /d { limit_req zone=perip burst=3 delay=1; empty_gif; }'])
        for path, source, seconds in [('/a', '127.1.0.1', [0]), ('/b', '127.1.0.2', [0, 30, 60, 90]),
                                      ('/c', '127.1.0.3', [0, 0, 0, 0]), ('/d', '127.1.0.4', [0, 0, 30, 60]),
                                      ('/a', '127.10.1.1', [0, 0, 0, 0, 0])]:
            with self.subTest(f'{path} from {source}'):
                self.until(self.now + 1)
                begin = self.now
                replies = []
                for i in range(5):
                    self.weir.ask((path, i), [('ip', source), ('path', path)], PATIENCE, begin * MS)
                    connection = self.nginx.connect(source)
                    self.nginx.send(connection, path, 'x')
                    self.nginx.settle()
                    # At a rate of 0.033 nginx has 30.303, 60.606, 90.909 s.
                    due = begin + (seconds[i] * 1000 * 100 // 99 if i < len(seconds) else 0)
                    if due > begin:
                        self.owed.append((due, connection, f'{path}, request {i}'))
                    else:
                        replies.append(self.nginx.receive(connection))
                        connection.close()
                self.assertEqual(replies, [200] * seconds.count(0) + [429] * (5 - len(seconds)))
                self.until(begin + 100000)
                self.assertEqual([self.weir.decided.pop((path, i)) for i in range(5)],
                                 [(True, s * 10 ** 9) for s in seconds] + [(False, 0)] * (5 - len(seconds)))


# Per location: the numbers in force, of a zone by X-Key and of one by the host, which is the same for all.
CONNECTIONS = {'one': {'key': 1}, 'three': {'key': 3}, 'both': {'key': 2, 'wide': 5}}


class Connections(Case):
    """Each location has zones of its own here, so that no budget is shared by places with different numbers."""

    def begin(self, location, key):
        """One request: (client's connection, nginx's to the application, permit), or None where both refuse it."""
        client = self.nginx.connect()
        self.nginx.send(client, f'/{location}/', key)
        ready, _, _ = select.select([client, self.application], [], [], 30)
        permit = self.weir.acquire([('path', f'/{location}/'), ('x-key', key), ('host', 'x')], 0)
        self.assertEqual(self.application in ready, permit is not None)
        if permit is None:
            self.assertEqual(self.nginx.receive(client), 429)
            client.close()
            return None
        upstream, _ = self.application.accept()
        return client, upstream, permit

    def end(self, client, upstream, permit):
        if self.rng.random() < 0.7:
            upstream.sendall(b'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n')
            upstream.close()
            self.assertEqual(self.nginx.receive(client), 200)
            client.close()
        else:  # the client gives up: nginx ends the request, and closes its connection to the application
            client.close()
            while upstream.recv(4096):
                pass
            upstream.close()
        self.nginx.settle()
        self.weir.release(permit, 0)

    def test_requests_in_processing(self):
        port = free_port()
        self.application = socket.create_server(('127.0.0.1', port), backlog=100)
        self.addCleanup(self.application.close)
        http, server = [], []
        for name, zones in CONNECTIONS.items():
            for zone in zones:
                by = '$http_x_key' if zone == 'key' else '$host'
                http.append(f'limit_conn_zone {by} zone={name}_{zone}:1m;')
            uses = ' '.join(f'limit_conn {name}_{zone} {most};' for zone, most in zones.items())
            server.append(f'location /{name}/ {{ {uses} proxy_pass http://127.0.0.1:{port}; }}')
        self.start(http, server)
        held = {}  # (location, key): list of what begin() gave
        counts = {'begun': 0, 'refused': 0}
        for _ in range(1500):
            location, key = self.rng.choice(list(CONNECTIONS)), self.rng.choice('abcd')
            mine = held.setdefault((location, key), [])
            if mine and self.rng.random() < 0.4:
                self.end(*mine.pop(self.rng.randrange(len(mine))))
                continue
            all_here = sum(len(list_) for (place, _), list_ in held.items() if place == location)
            has_room = len(mine) < CONNECTIONS[location]['key'] and all_here < CONNECTIONS[location].get('wide', 99)
            begun = self.begin(location, key)
            self.assertEqual(begun is not None, has_room)
            counts['begun' if begun else 'refused'] += 1
            if begun:
                mine.append(begun)
        print(counts)
        self.assertGreater(min(counts.values()), 150)
        for mine in held.values():
            for one in mine:
                self.end(*one)


if __name__ == '__main__':
    unittest.main()
