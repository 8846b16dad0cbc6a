# SPDX-License-Identifier: Apache-2.0
"""Permits over HTTP: given, renewed, released, lost; bound to a connection or not; waited for, and never doubled.

Time is virtual unless a test says otherwise: a permit of 30 s expires 30 s after it was given, to the nanosecond.
"""
import base64
import json
import os
import signal
import subprocess
import sys
import unittest

from door import PATIENCE, Server, request, wait_for
from waits import Waiting, is_ready, stamp

JOBS = """
weir: 1
limits:
  - name: jobs
    key: [tenant]
    when: { path: /jobs }
    algorithm: concurrency
    at-most: 2
    hold: 30s
    wait: { up-to: 10s, queue: 100 }
  - name: a-minute
    key: [tenant]
    when: { path: /jobs }
    rate: 60/1m
    burst: 60
"""

# A thousand at once.
MANY = """
weir: 1
limits:
  - name: jobs
    key: [tenant]
    algorithm: concurrency
    at-most: 1000
    hold: 30s
    wait: { up-to: 1h, queue: 2000 }
"""


class Door(Waiting):
    def acquire(self, at=0, **more):
        return self.post('/v1/acquire', self.body(**more), at)

    def body(self, tenant='acme', **more):
        return {'attributes': {'tenant': tenant, 'path': '/jobs'}, **more}

    def renew(self, permit, at=0):
        return self.post('/v1/renew', {'permit': permit}, at)

    def release(self, permit, at=0, **more):
        return self.post('/v1/release', {'permit': permit, **more}, at)


class Life(unittest.TestCase):
    def test_given_renewed_released(self):
        with Door(JOBS) as door:
            a, b = door.acquire(), door.acquire()
            for reply, left in ((a, 1), (b, 0)):
                self.assertEqual((reply.status, reply.json['decision'], reply.json['remaining'],
                                  reply.json['expires_after']), (200, 'allow', left, 30))
            self.assertLess(a.json['fence'], b.json['fence'])
            refused = door.acquire(at=1)
            self.assertEqual((refused.status, refused.json['limit'], refused.json['retry_after'],
                              refused.json['permit'], refused.json['fence'], refused.json['expires_after']),
                             (429, 'jobs', 29, None, None, None))
            self.assertEqual(refused.fields['retry-after'], '29')

            self.assertEqual((door.renew(b.json['permit'], 10).json), {'expires_after': 30})
            reply = door.release(a.json['permit'], 11)
            self.assertEqual((reply.status, reply.json), (200, {'released': True, 'expires_after': 0}))
            reply = door.release(a.json['permit'], 11, outcome='failed')
            self.assertEqual((reply.status, reply.json), (200, {'released': False, 'expires_after': 0}))
            c = door.acquire(at=11)
            self.assertEqual(c.json['decision'], 'allow')
            self.assertLess(b.json['fence'], c.json['fence'])

            # b expires at 40 now.
            self.assertEqual(door.acquire(at=39.999999999).json['retry_after'], 0.000000001)
            self.assertEqual(door.acquire(at=40).status, 200)
            lost = door.renew(b.json['permit'], 40)
            self.assertEqual((lost.status, lost.json['field']), (404, 'permit'))
            self.assertEqual(door.release(b.json['permit'], 40).json['released'], False)
            rows = [('weir_permits_total{event="acquired"}', 4), ('weir_permits_total{event="renewed"}', 1),
                    ('weir_permits_total{event="released"}', 1), ('weir_permits_total{event="lost"}', 3),
                    ('weir_permits_total{event="returned"}', 0),
                    ('weir_releases_total{outcome="ok"}', 2), ('weir_releases_total{outcome="failed"}', 1),
                    ('weir_releases_total{outcome="dropped"}', 0),
                    ('weir_requests_total{door="acquire",code="200"}', 4),
                    ('weir_requests_total{door="renew",code="404"}', 1),
                    ('weir_requests_total{door="release",code="200"}', 3),
                    ('weir_decisions_total{limit="jobs",decision="allow"}', 4),
                    ('weir_decisions_total{limit="jobs",decision="deny"}', 2),
                    ('weir_decisions_total{limit="a-minute",decision="allow"}', 4)]
            for line, value in rows:
                self.assertEqual(door.server.metric(line), value, line)

    def test_a_cost_takes_several_or_none(self):
        with Door(JOBS) as door:
            self.assertEqual(door.acquire(cost=3).json['decision'], 'never')
            both = door.acquire(cost=2)
            self.assertEqual((both.status, both.json['remaining']), (200, 0))
            self.assertEqual(door.acquire().status, 429)
            self.assertEqual(door.release(both.json['permit']).json['released'], True)
            self.assertEqual(door.acquire().json['remaining'], 1)

    def test_where_no_limit_gives_permits(self):
        with Door(JOBS) as door:
            reply = door.post('/v1/acquire', {'attributes': {'path': '/else'}})
            self.assertEqual((reply.status, reply.json['limit'], reply.json['permit'], reply.json['fence'],
                              reply.json['expires_after']), (200, None, None, None, None))

    def test_a_rate_that_refuses_takes_no_permit(self):
        contract = JOBS.replace('60/1m', '1/1m').replace('burst: 60', 'burst: 1')
        with Door(contract) as door:
            self.assertEqual(door.acquire().status, 200)
            reply = door.acquire()
            self.assertEqual((reply.status, reply.json['limit'], reply.json['permit']), (429, 'a-minute', None))
            # The look shows that one place is still free.
            look = door.post('/v1/check?status=200', door.body(mode='peek'))
            self.assertEqual(look.json['limits'][0]['remaining'], 1)

    def test_other_doors_only_look(self):
        with Door(JOBS) as door:
            self.assertEqual(door.post('/v1/check', door.body()).status, 200)
            held = [door.acquire().json['permit'] for _ in range(2)]
            for path in ('/v1/check', '/v1/reserve'):
                reply = door.post(path, door.body())
                self.assertEqual((reply.status, reply.json['limit'], reply.json['retry_after']), (429, 'jobs', 30), path)
                reply = door.post(path, door.body(wait=5))
                self.assertEqual((reply.status, 'waited' in reply.json), (429, False), 'nobody waits to look')
            for permit in held:
                door.release(permit)
            self.assertEqual([door.post('/v1/check', door.body()).status for _ in range(5)], [200] * 5, 'nothing is held')
            self.assertEqual(door.server.metric('weir_looks_total{limit="jobs",decision="allow"}'), 6)
            self.assertEqual(door.server.metric('weir_looks_total{limit="jobs",decision="deny"}'), 4)
            self.assertEqual(door.server.metric('weir_decisions_total{limit="jobs",decision="allow"}'), 2)
            self.assertEqual(door.server.metric('weir_decisions_total{limit="jobs",decision="deny"}'), 0)
            self.assertEqual(door.server.metric('weir_decisions_total{limit="a-minute",decision="allow"}'), 8)

    def test_who_may_not(self):
        tokens = {'tokens': ('check 0123456789abcdef0\n', 0o600)}
        with Server(JOBS, files=tokens, args=('--tokens', 'DIR/tokens')) as server:
            for path in ('/v1/acquire', '/v1/renew', '/v1/release'):
                self.assertEqual(server.ask('POST', path, '{}').status, 401, path)
                reply = server.ask('GET', path)
                self.assertEqual((reply.status, reply.fields['allow']), (405, 'POST'), path)
                known = [('Authorization', 'Bearer 0123456789abcdef0')]
                self.assertEqual(server.ask('POST', path, '{}', known).status, 400, path)
                self.assertEqual(server.ask('POST', path + '/x', '{}', known).status, 404, path)


class Details(unittest.TestCase):
    def test_who_looks_does_not_wait(self):
        with Door(JOBS.replace('queue: 100', 'queue: 1')) as door:
            for _ in range(2):
                self.assertEqual(door.acquire().status, 200)
            rows = [
                ('it did not ask', '/v1/acquire', {}, 'it did not say how long it can wait: send `wait`, in seconds, to get a turn'),
                ('a check only looks', '/v1/check', {'wait': 5},
                 'this call only looks at permits and does not wait for one: /v1/acquire does'),
                ('nor does a reservation', '/v1/reserve', {},
                 'this call only looks at permits and does not wait for one: /v1/acquire does'),
            ]
            for why, path, more, detail in rows:
                self.assertEqual(door.post(path, door.body(**more)).json.get('detail'), detail, why)
            door.park(door.body(wait=5), path='/v1/acquire')
            # Permits expire in 30 s, later than anybody waits; but one may be given back, so that refuses nobody.
            self.assertEqual(door.acquire(wait=5).json['detail'], '1 wait already: the queue is full, ask again later')


class Foreign(unittest.TestCase):
    def test_permits_that_are_not_ours(self):
        with Door(JOBS) as door, Door(JOBS) as other:
            ours, theirs = door.acquire().json['permit'], other.acquire().json['permit']
            raw = bytearray(base64.urlsafe_b64decode(ours + '=='))
            rows = [('of another server', theirs, 404), ('two bytes', 'AAAA', 404), ('too long', 'A' * 2400, 400),
                    ('not base64url', 'a+b/', 400), ('nothing', '', 400), ('padded', ours + '=', 400),
                    ('cut', base64.urlsafe_b64encode(raw[:-3]).decode().rstrip('='), 404)]
            for i in range(len(raw)):
                changed = bytearray(raw)
                changed[i] ^= 1 << i % 8
                rows.append((f'byte {i} changed', base64.urlsafe_b64encode(changed).decode().rstrip('='), 404))
            for why, permit, status in rows:
                for path in ('/v1/renew', '/v1/release'):
                    reply = door.post(path, {'permit': permit})
                    self.assertEqual((reply.status, reply.json['field']), (status, 'permit'), (path, why))
                    if status == 404:
                        self.assertIn('given by another server or before a restart', reply.json['detail'], why)
            self.assertEqual(door.renew(ours).status, 200, 'it is still held')

    def test_bodies(self):
        rows = [
            ('/v1/acquire', '{}', 'attributes'), ('/v1/acquire', '{"attributes":{},"mode":"take"}', 'mode'),
            ('/v1/acquire', '{"requests":[]}', 'requests'), ('/v1/acquire', '{"attributes":{},"bind":"host"}', 'bind'),
            ('/v1/acquire', '{"attributes":{},"bind":null}', 'bind'), ('/v1/acquire', '{"attributes":{},"cost":-1}', 'cost'),
            ('/v1/acquire', '{"attributes":{},"hold":5}', 'hold'), ('/v1/acquire', '{"attributes":[]}', 'attributes'),
            ('/v1/renew', '{}', 'permit'), ('/v1/renew', '{"permit":1}', 'permit'),
            ('/v1/renew', '{"permit":"AA","outcome":"ok"}', 'outcome'), ('/v1/release', '{"outcome":"ok"}', 'permit'),
            ('/v1/release', '{"permit":"AA","outcome":"OK"}', 'outcome'),
            ('/v1/release', '{"permit":"AA","outcome":null}', 'outcome'), ('/v1/release', '{"permit":"AA","cost":1}', 'cost'),
            ('/v1/release', '', None), ('/v1/release', '[]', None), ('/v1/release', '{"permit":"AA"', None),
        ]
        with Server(JOBS) as server:
            for path, text, field in rows:
                reply = server.ask('POST', path, text)
                self.assertEqual((reply.status, reply.json.get('field')), (400, field), (path, text))


class Waiters(unittest.TestCase):
    def test_a_release_lets_the_next_in(self):
        with Door(JOBS) as door:
            a, b = door.acquire().json['permit'], door.acquire().json['permit']
            first, second = (door.park(door.body(wait=10), path='/v1/acquire') for _ in range(2))
            self.assertEqual(door.acquire(at=1).status, 429, 'nobody overtakes')
            self.assertTrue(door.release(a, 3).json['released'])
            reply = first.reply()
            self.assertEqual((reply.json['waited'], reply.json['expires_after'], reply.json['remaining']), (3, 30, 0))
            self.assertFalse(is_ready(second))
            self.assertTrue(door.release(b, 4).json['released'])
            reply = second.reply()
            self.assertEqual(reply.json['waited'], 4)
            self.assertEqual(door.renew(reply.json['permit'], 33.999999999).status, 200)

    def test_an_expiry_lets_the_next_in(self):
        with Door(JOBS.replace('30s', '5s')) as door:
            door.acquire(), door.acquire()
            parked = door.park(door.body(wait=10), path='/v1/acquire')
            door.go(4.999999999)
            self.assertFalse(is_ready(parked))
            door.go(5)
            self.assertEqual(parked.reply().json['waited'], 5)

    def test_patience_ends(self):
        with Door(JOBS) as door:
            door.acquire(), door.acquire()
            parked = door.park(door.body(wait=4), path='/v1/acquire')
            door.go(3.999999999)
            self.assertFalse(is_ready(parked))
            door.go(4)
            reply = parked.reply()
            self.assertEqual((reply.status, reply.json['decision'], reply.json['waited'], reply.json['retry_after'],
                              reply.json['permit']), (429, 'deny', 4, 26, None))
            self.assertEqual(door.server.waits('timeout'), 1)

    def test_a_permit_that_nobody_gets_comes_back(self):
        """The holder hangs up in the moment in which it is served: given or not, in the end the place is free."""
        with Door(JOBS) as door:
            held = [door.acquire().json['permit'] for _ in range(2)]
            for i in range(40):
                parked = door.park(door.body(wait=10), path='/v1/acquire', at=0)
                with door.server.connect() as connection:
                    connection.send(request('POST', '/v1/release', json.dumps({'permit': held.pop()}), [stamp(0)]))
                    parked.socket.close()
                    self.assertTrue(connection.reply().json['released'])
                wait_for(lambda: door.waiting() == 0)
                # Either it was cancelled in time, or it was served and its reply went nowhere: then it holds for its time.
                reply = door.acquire()
                if reply.status != 200:
                    break
                held.append(reply.json['permit'])


class Bound(unittest.TestCase):
    def acquire(self, door, connection, at=0, **more):
        connection.send(request('POST', '/v1/acquire', json.dumps(door.body(bind='connection', **more)), [stamp(at)]))
        return connection.reply()

    def free(self, door, at=0):
        return door.post('/v1/check?status=200', door.body(mode='peek'), at).json['limits'][0]['remaining']

    def test_it_ends_with_its_connection(self):
        with Door(JOBS) as door:
            connection = door.server.connect()
            self.assertEqual([self.acquire(door, connection).status for _ in range(2)], [200, 200])
            self.assertEqual(self.free(door), 0)
            connection.socket.close()
            wait_for(lambda: self.free(door) == 2)
            self.assertEqual(door.server.metric('weir_permits_total{event="returned"}'), 2)

    def test_only_what_was_asked_for_does(self):
        with Door(JOBS) as door:
            connection = door.server.connect()
            self.assertEqual(self.acquire(door, connection).status, 200)
            connection.send(request('POST', '/v1/acquire', json.dumps(door.body()), [stamp(0)]))
            self.assertEqual(connection.reply().status, 200)
            connection.socket.close()
            wait_for(lambda: self.free(door) == 1)
            self.assertEqual(self.free(door), 1)

    def test_a_waiter_gets_what_a_closed_connection_held(self):
        with Door(JOBS) as door:
            connection = door.server.connect()
            self.assertEqual([self.acquire(door, connection).status for _ in range(2)], [200, 200])
            parked = door.park(door.body(wait=10, bind='connection'), path='/v1/acquire')
            connection.socket.close()
            reply = parked.reply()
            self.assertEqual((reply.status, reply.json['decision']), (200, 'allow'))
            self.assertEqual(self.free(door), 1)
            parked.socket.close()
            wait_for(lambda: self.free(door) == 2)

    def test_released_and_lost_ones_are_forgotten(self):
        with Door(JOBS) as door:
            connection = door.server.connect()
            door.connections.append(connection)
            for i in range(300):  # more than a connection may hold at once
                reply = self.acquire(door, connection, at=i * 2)
                self.assertEqual(reply.status, 200, i)
                connection.send(request('POST', '/v1/release', json.dumps({'permit': reply.json['permit']}),
                                        [stamp(i * 2)]))
                self.assertTrue(connection.reply().json['released'])
            for i in range(300):
                self.assertEqual(self.acquire(door, connection, at=1000 + i * 30).status, 200, f'{i}: the last expired')

    def test_a_connection_holds_so_many(self):
        with Door(MANY) as door:
            connection = door.server.connect()
            body = {'attributes': {'tenant': 'a'}, 'bind': 'connection'}
            sent = request('POST', '/v1/acquire', json.dumps(body), [stamp(0)])
            connection.send(sent * 130)
            self.assertEqual([connection.reply().status for _ in range(130)], [200] * 128 + [400] * 2)
            connection.socket.close()
            wait_for(lambda: door.server.metric('weir_permits_total{event="returned"}') == 128)

    def test_renewed_ones_stay_bound(self):
        with Door(JOBS) as door:
            connection = door.server.connect()
            reply = self.acquire(door, connection)
            connection.send(request('POST', '/v1/renew', json.dumps({'permit': reply.json['permit']}), [stamp(20)]))
            self.assertEqual(connection.reply().status, 200)
            self.assertEqual(self.free(door, 40), 1)
            connection.socket.close()
            wait_for(lambda: self.free(door, 40) == 2)


# One of several processes that hold permits, until it is killed: it says when all are there.
HOLDER = """
import json, os, sys
sys.path.insert(0, {folder!r})
from door import Connection, request
held = []
for i in range({count}):
    connection = Connection({port})
    connection.send(request('POST', '/v1/acquire', json.dumps({{'attributes': {{'tenant': 'a'}}, **{more!r}}}),
                            [('Weir-Now', '0')]))
    assert connection.reply().status == 200
    held.append(connection)
print('held', flush=True)
sys.stdin.read()
"""


class Killed(unittest.TestCase):
    """kill -9 of a thousand holders."""

    def hold(self, door, more):
        holders = []
        for _ in range(4):
            code = HOLDER.format(folder=os.path.dirname(os.path.abspath(__file__)), count=250, port=door.server.port,
                                 more=more)
            holders.append(subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        for holder in holders:
            self.assertEqual(holder.stdout.readline(), b'held\n')
        return holders

    def kill(self, holders):
        for holder in holders:
            os.kill(holder.pid, signal.SIGKILL)
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()

    def left(self, door, at):
        peek = {'attributes': {'tenant': 'a'}, 'mode': 'peek'}
        return door.post('/v1/check?status=200', peek, at).json['limits'][0]['remaining']

    def test_every_permit_returns_at_its_expiry(self):
        with Door(MANY) as door:
            self.kill(self.hold(door, {}))
            self.assertEqual(self.left(door, 0), 0)
            parked = door.park({'attributes': {'tenant': 'a'}, 'wait': 3000}, path='/v1/acquire')
            self.assertEqual(self.left(door, 29.999999999), 0)
            self.assertFalse(is_ready(parked))
            self.assertEqual(self.left(door, 30), 999)
            self.assertEqual(parked.reply().json['waited'], 30)

    def test_and_at_once_when_it_is_bound(self):
        with Door(MANY) as door:
            holders = self.hold(door, {'bind': 'connection'})
            self.assertEqual(self.left(door, 0), 0)
            parked = door.park({'attributes': {'tenant': 'a'}, 'wait': 3000}, path='/v1/acquire')
            self.kill(holders)
            wait_for(lambda: self.left(door, 0) == 999)
            self.assertEqual(parked.reply().json['waited'], 0)
            self.assertEqual(door.server.metric('weir_permits_total{event="returned"}'), 1000)


class Changes(unittest.TestCase):
    def test_permits_go_on_through_a_reload(self):
        with Door(JOBS) as door:
            a, b = door.acquire().json['permit'], door.acquire().json['permit']
            parked = [door.park(door.body(wait=10), path='/v1/acquire') for _ in range(3)]
            with open(door.server.contract, 'w') as file:
                file.write(JOBS.replace('at-most: 2', 'at-most: 3'))
            reply = door.server.ask('POST', '/v1/reload', headers=[stamp(1)], unix='admin.sock')
            self.assertEqual(reply.status, 200, reply.body)
            door.go(1)
            self.assertEqual((parked[0].reply().json['waited'], is_ready(parked[1])), (1, False), 'one place more, not three')
            self.assertTrue(door.release(a, 2).json['released'])
            self.assertEqual(parked[1].reply().json['waited'], 2)
            self.assertTrue(door.release(b, 3).json['released'])
            self.assertEqual(parked[2].reply().json['waited'], 3)
            self.assertEqual(door.acquire(at=4).status, 429)

    def test_a_drain_serves_who_waits_when_a_holder_releases(self):
        """In real time."""
        with Server(JOBS) as server:
            body = {'attributes': {'tenant': 'a', 'path': '/jobs'}}
            holder = server.connect()
            held = []
            for _ in range(2):
                reply = holder.ask('POST', '/v1/acquire', json.dumps(body))
                held.append(reply.json['permit'])
            waiters = [server.connect() for _ in range(2)]
            for waiter in waiters:
                waiter.send(request('POST', '/v1/acquire', json.dumps({**body, 'wait': 10, 'bind': 'connection'})))
            wait_for(lambda: server.metric('weir_waiting') == 2)
            holder.send(request('POST', '/v1/release', json.dumps({'permit': held[0]}))[:-5])
            self.assertEqual(server.ask('GET', '/healthz').status, 200)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: 'event=draining' in server.log())
            holder.send(request('POST', '/v1/release', json.dumps({'permit': held[0]}))[-5:])
            self.assertTrue(holder.reply().json['released'])
            wait_for(lambda: any(is_ready(w) for w in waiters))
            served = next(w for w in waiters if is_ready(w))
            reply = served.reply()
            self.assertEqual((reply.status, reply.json['decision'], reply.fields['connection']), (200, 'allow', 'close'))
            # Its connection ends, and what was bound to it passes to the other.
            served.socket.close()
            other = next(w for w in waiters if w is not served)
            self.assertEqual(other.reply().json['decision'], 'allow')
            for connection in (holder, other):
                connection.socket.close()
            self.assertEqual(server.process.wait(PATIENCE), 0)
            self.assertIn('asks=4 answers=4', server.log())


if __name__ == '__main__':
    unittest.main()
