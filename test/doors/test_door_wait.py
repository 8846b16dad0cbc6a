# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for their turn: exact in virtual time, in order, bounded, and gone with their callers.

Expected instants are computed by hand: at 5/s one leaves every 0.2 s.
"""
import json
import signal
import socket
import unittest

from door import PATIENCE, Server, request, wait_for
from waits import Waiting, body, is_ready, stamp

PACE = """
weir: 1
limits:
  - name: pace
    key: [tenant]
    when: { path: /q }
    algorithm: leaky-queue
    rate: 5/s
    wait: { up-to: 60s, queue: 200 }
  - name: plain
    key: [tenant]
    when: { path: /plain }
    rate: 1/s
    burst: 1
"""

# Two that let wait, one that does not.
SEVERAL = """
weir: 1
limits:
  - name: per-user
    key: [user]
    rate: 10/s
    burst: 1
    wait: { up-to: 10s, queue: 100 }
  - name: per-tenant
    key: [tenant]
    rate: 5/s
    burst: 1
    wait: { up-to: 5s, queue: 3 }
  - name: a-day
    key: [tenant]
    algorithm: fixed-window
    rate: 4/1d
"""


class Turns(unittest.TestCase):
    def test_B29_a_hundred_leave_one_by_one(self):
        with Waiting(PACE) as door:
            first = door.post('/v1/check', body(wait=60))
            self.assertEqual((first.status, first.json['decision'], 'waited' in first.json), (200, 'allow', False))
            parked = [door.park(body(wait=60)) for _ in range(99)]
            for i, connection in enumerate(parked, start=1):
                if i < 4:  # never early, by a nanosecond
                    door.go(i * 0.2 - 1e-9)
                    self.assertFalse(is_ready(connection))
                    door.go(i * 0.2)
                    self.assertTrue(is_ready(connection), 'its reply comes before the one that moved time')
            door.go(100)
            for i, connection in enumerate(parked, start=1):
                reply = connection.reply()
                self.assertEqual((reply.status, reply.json['decision'], reply.json['waited']),
                                 (200, 'allow', round(i * 0.2, 9)))
            self.assertEqual(door.waiting(100), 0)

    def test_whoever_leaves_lets_the_others_move_up(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            a, b, c = (door.park(body(wait=60)) for _ in range(3))
            b.socket.close()
            wait_for(lambda: door.waiting() == 2)
            door.go(0.4)
            self.assertEqual([x.reply().json['waited'] for x in (a, c)], [0.2, 0.4])
            self.assertEqual(door.server.waits('left'), 1)

    def test_half_a_connection_has_left(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            connection = door.park(body(wait=60))
            connection.socket.shutdown(socket.SHUT_WR)
            self.assertIsNone(connection.reply(), 'it looks like one that has hung up')
            wait_for(lambda: door.waiting() == 0)
            self.assertEqual(door.post('/v1/check', body(), at=0.2).status, 200, 'nothing was charged for it')

    def test_nobody_overtakes(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = door.park(body(wait=60))
            for at in (0.1, 0.199999999):
                reply = door.post('/v1/check', body(), at=at)
                self.assertEqual((reply.status, reply.json['decision']), (429, 'deny'))
                # The one that waits leaves at 0.2, the next could at 0.4.
                self.assertEqual(reply.json['retry_after'], round(0.4 - at, 9))
            reply = door.post('/v1/check', body(), at=0.2)
            self.assertEqual(reply.status, 429, 'at 0.2 the token is of the one who waited')
            self.assertEqual(parked.reply().json['waited'], 0.2)
            self.assertEqual(door.post('/v1/check', body(), at=0.4).status, 200, 'and then as was promised')

    def test_the_shorter_of_patience_and_up_to(self):
        with Waiting(SEVERAL) as door:
            def ask(wait, user):
                return {'attributes': {'tenant': 'acme', 'user': user}, 'wait': wait}
            self.assertEqual(door.post('/v1/check', ask(0, 'u')).status, 200)
            rows = [
                ('no wish', '0'), ('a nanosecond too short', '0.199999999'), ('a tiny one', '0.000000001'),
            ]
            for why, wait in rows:
                text = '{"attributes":{"tenant":"acme","user":"v"},"wait":%s}' % wait
                reply = door.post('/v1/check', text)
                self.assertEqual((reply.status, reply.json['retry_after']), (429, 0.2), why)
            exact = door.park(ask(0.2, 'v'))
            more = [door.park(ask(80000, f'w{i}')) for i in range(2)]
            reply = door.post('/v1/check', ask(5, 'x'))
            self.assertEqual((reply.status, reply.json['limit'], reply.json['retry_after']), (429, 'per-tenant', 0.8),
                             'the queue is full with three')
            door.go(0.6)
            self.assertEqual([c.reply().json['waited'] for c in (exact, *more)], [0.2, 0.4, 0.6])
            # Four of four for the day: a limit that lets nobody wait refuses, at once.
            reply = door.post('/v1/check', ask(5, 'y'), at=1)
            self.assertEqual((reply.status, reply.json['limit'], 'waited' in reply.json), (429, 'a-day', False))

    def test_a_limit_without_wait_refuses_at_the_turn(self):
        contract = SEVERAL.replace('4/1d', '2/1d')
        with Waiting(contract) as door:
            def ask(wait, user):
                return {'attributes': {'tenant': 'acme', 'user': user}, 'wait': wait}
            self.assertEqual(door.post('/v1/check', ask(0, 'u')).status, 200)
            a, b = door.park(ask(5, 'v')), door.park(ask(5, 'w'))
            door.go(0.4)
            self.assertEqual(a.reply().status, 200)
            reply = b.reply()
            self.assertEqual((reply.status, reply.json['decision'], reply.json['limit'], reply.json['waited']),
                             (429, 'deny', 'a-day', 0.4))
            self.assertEqual(door.server.waits('refused'), 1)

    def test_a_denied_waiter_passes_when_it_was_told_to_retry(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = [door.park(body(wait=1)) for _ in range(5)]
            reply = door.post('/v1/check', body(wait=1))
            self.assertEqual((reply.status, reply.json['retry_after']), (429, 1.2), 'five are before it')
            self.assertEqual(reply.fields['retry-after'], '2')
            self.assertEqual(door.post('/v1/check', body(), at=1.199999999).status, 429)
            self.assertEqual(door.post('/v1/check', body(), at=1.2).status, 200)
            self.assertEqual([p.reply().json['waited'] for p in parked], [0.2, 0.4, 0.6, 0.8, 1])

    def test_a_reservation_is_made_at_the_turn(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = door.park(body(wait=1, expires_after=10), path='/v1/reserve')
            door.go(0.2)
            reply = parked.reply()
            self.assertEqual((reply.json['decision'], reply.json['waited'], reply.json['expires_after']),
                             ('allow', 0.2, 10))
            cancel = {'reservation': reply.json['reservation']}
            self.assertEqual(door.post('/v1/cancel', cancel, at=10.199999999).status, 200)
            self.assertEqual(door.post('/v1/cancel', cancel, at=10.2).status, 404, 'ten seconds after it was made')

    def test_who_looks_or_asks_elsewhere_does_not_wait(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            plain = body(wait=5, attributes={'path': '/plain'})
            self.assertEqual(door.post('/v1/check', plain).status, 200)
            rows = [
                ('a limit that lets nobody wait', '/v1/check', plain, 429),
                ('a look', '/v1/check', body(wait=0, mode='peek'), 429),
                ('no limit at all', '/v1/check', body(wait=5, attributes={'path': '/else'}), 200),
            ]
            for why, path, what, status in rows:
                reply = door.post(path, what)
                self.assertEqual((reply.status, 'waited' in reply.json), (status, False), why)

    def test_200_whatever_is_decided(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = door.park(body(wait=5), path='/v1/check?status=200')
            door.go(0.2)
            self.assertEqual((parked.reply().json['waited'], door.waiting(0.2)), (0.2, 0))


class Lines(unittest.TestCase):
    """Pipelined requests behind one that waits."""

    def send(self, connection, *requests):
        connection.send(b''.join(request('POST', '/v1/check', json.dumps(what), [stamp(at)]) for what, at in requests))

    def test_replies_keep_their_order(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            connection = door.park(body(wait=60))
            other = body(attributes={'tenant': 'other'})
            self.send(connection, (other, 0), (body(wait=60), 0), (other, 0))
            connection.send(request('GET', '/healthz', headers=[stamp(0)]))
            wait_for(lambda: door.waiting() == 2)
            self.assertFalse(is_ready(connection))
            door.go(0.2)
            self.assertEqual([connection.reply().json.get('waited') for _ in range(2)], [0.2, None])
            self.assertFalse(is_ready(connection))
            door.go(0.4)
            self.assertEqual(connection.reply().json['waited'], 0.4)
            self.assertEqual((connection.reply().status, connection.reply().body), (429, b'ok\n'))

    def test_the_one_behind_may_move_time(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            connection = door.server.connect()
            door.connections.append(connection)
            other = body(attributes={'tenant': 'other'})
            self.send(connection, (body(wait=60), 0), (body(wait=60), 0), (other, 0.1), (other, 0.4))
            replies = [connection.reply() for _ in range(4)]
            self.assertEqual([(r.status, r.json.get('waited')) for r in replies],
                             [(200, 0.2), (200, 0.4), (200, None), (200, None)])

    def test_replies_behind_it_are_bounded(self):
        """Batches of a thousand behind one that waits: reading stops, and the rest comes when it may."""
        items = json.dumps({'requests': [{'attributes': {'tenant': 'x' * 900, 'path': '/q'}}] * 1000})
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            connection = door.park(body(wait=60))
            connection.socket.settimeout(1)
            sent = b''.join([request('POST', '/v1/check', items, [stamp(0)])] * 40)
            done = 0
            try:
                while done < len(sent):
                    done += connection.socket.send(sent[done:done + 65536])
            except TimeoutError:
                pass
            self.assertLess(done, len(sent), 'it is not read on')
            connection.socket.settimeout(PATIENCE)
            with open(f'/proc/{door.server.process.pid}/statm') as file:
                self.assertLess(int(file.read().split()[1]) * 4096, 200 << 20)
            door.go(0.2)
            self.assertEqual(connection.reply().json['waited'], 0.2)
            import threading
            rest = threading.Thread(target=connection.send, args=(sent[done:],))
            rest.start()
            for _ in range(40):
                self.assertEqual(len(connection.reply().json['results']), 1000)
            rest.join()

    def test_who_leaves_a_line_that_is_not_read(self):
        """With as many turns as a line has, reading stops, and so no event tells that the peer is gone."""
        with Waiting(PACE, env={'WEIR_TEST_SECOND_MS': '50'}) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            connection = door.park(body(wait=60))
            self.send(connection, *[(body(attributes={'tenant': f't{i}'}), 0) for i in range(300)])
            connection.socket.close()
            wait_for(lambda: door.waiting() == 0)


class Counts(unittest.TestCase):
    def test_a_request_that_waited_is_counted_once(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = [door.park(body(wait=60)) for _ in range(3)]
            self.assertEqual(door.server.metric('weir_decisions_total{limit="pace",decision="deny"}'), 0)
            self.assertEqual(door.server.metric('weir_waiting'), 3)
            parked.pop().socket.close()
            wait_for(lambda: door.waiting() == 2)
            door.go(1)
            self.assertEqual([p.reply().status for p in parked], [200, 200])
            self.assertEqual(door.post('/v1/check', body(), at=1).status, 200)
            self.assertEqual(door.post('/v1/check', body(wait=0.1), at=1).status, 429)
            rows = [
                ('weir_decisions_total{limit="pace",decision="allow"}', 4),
                ('weir_decisions_total{limit="pace",decision="deny"}', 1),
                ('weir_waits_total{limit="pace",end="served"}', 2),
                ('weir_waits_total{limit="",end="left"}', 1),
                ('weir_waits_total{limit="pace",end="refused"}', 1),
                ('weir_waits_total{limit="pace",end="timeout"}', 0),
                ('weir_wait_seconds_count', 2),
                ('weir_wait_seconds_sum', 0.6),
                ('weir_wait_seconds_bucket{le="0.1"}', 0),
                ('weir_wait_seconds_bucket{le="0.2"}', 1),
                ('weir_wait_seconds_bucket{le="0.5"}', 2),
                ('weir_requests_total{door="check",code="200"}', 4),
                ('weir_waiting', 0),
            ]
            for line, value in rows:
                self.assertEqual(door.server.metric(line), value, line)

    def test_each_limit_has_its_queue(self):
        """Who waits for two limits stands in the queues of both; requests are counted once."""
        with Waiting(SEVERAL) as door:
            def ask(user, wait=5):
                return {'attributes': {'tenant': 'acme', **user}, 'wait': wait}
            self.assertEqual(door.post('/v1/check', ask({'user': 'u'})).status, 200)
            parked = [door.park(ask({'user': 'v'})), door.park(ask({'user': 'w'})), door.park(ask({}))]
            self.assertEqual(door.post('/v1/check', ask({'user': 'x'})).json['limit'], 'per-tenant', 'three: it is full')
            limits = {limit['name']: limit.get('waiting') for limit in door.server.ask('GET', '/v1/limits').json['limits']}
            self.assertEqual(limits, {'per-user': 2, 'per-tenant': 3, 'a-day': None})
            rows = [
                ('weir_waiting', 3),
                ('weir_queued{limit="per-user"}', 2),
                ('weir_queued{limit="per-tenant"}', 3),
                ('weir_waits_total{limit="per-tenant",end="refused"}', 1),
                ('weir_waits_total{limit="per-user",end="refused"}', 0),
            ]
            for line, value in rows:
                self.assertEqual(door.server.metric(line), value, line)
            text = door.server.ask('GET', '/metrics').text
            self.assertIn('weir_waits_total{limit="per-user",end="timeout"} 0\n', text, 'there from the start')
            self.assertIn('weir_waits_total{limit="",end="drained"} 0\n', text)
            self.assertNotIn('weir_queued{limit="a-day"}', text, 'it lets nobody wait')
            door.go(0.6)
            self.assertEqual([p.reply().status for p in parked], [200, 200, 200])
            self.assertEqual(door.server.metric('weir_queued{limit="per-tenant"}'), 0)


class BadInput(unittest.TestCase):
    def test_a_wait_that_is_none(self):
        values = ['-1', '-0.000000001', '1e400', '1e3', '0.0000000001', '"1"', '"1s"', 'null', 'true', '[1]', '{}',
                  '86400.000000001', '315569520', '99999999999999999999999999999', 'NaN', 'Infinity', '01', '1.', '.5', '+1']
        with Server(PACE) as server, server.connect() as connection:
            for path in ('/v1/check', '/v1/reserve', '/v1/acquire'):
                for value in values:
                    reply = connection.ask('POST', path, '{"attributes":{"tenant":"a"},"wait":%s}' % value)
                    self.assertEqual(reply.status, 400, (path, value))
                    is_json = value not in ('NaN', 'Infinity', '01', '1.', '.5', '+1')
                    self.assertEqual(reply.json.get('field'), 'wait' if is_json else None, (path, value))
            reply = connection.ask('POST', '/v1/check', '{"requests":[{"attributes":{}},{"attributes":{},"wait":1}]}')
            self.assertEqual((reply.status, reply.json['field']), (400, 'requests[1].wait'))
            reply = connection.ask('POST', '/v1/check', '{"attributes":{},"mode":"peek","wait":1}')
            self.assertEqual((reply.status, reply.json['field']), (400, 'wait'), 'a look does not wait')
            self.assertEqual(connection.ask('GET', '/healthz').status, 200)

    def test_a_huge_wait_is_as_good_as_up_to(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = door.park('{"attributes":{"tenant":"acme","path":"/q"},"wait":86400}')
            door.go(0.2)
            self.assertEqual(parked.reply().json['waited'], 0.2)

    def test_tiny_waits_and_cancels_leave_nothing_behind(self):
        tiny = request('POST', '/v1/check', '{"attributes":{"tenant":"acme","path":"/q"},"wait":0.000000001}')
        with Server(PACE.replace('5/s', '1/10m').replace('60s', '1d'), args=('--workers', '2')) as server:
            with server.connect() as connection:
                self.assertEqual(connection.ask('POST', '/v1/check', json.dumps(body())).status, 200)
                for _ in range(1000):
                    connection.send(tiny * 100)
                    self.assertEqual({connection.reply().status for _ in range(100)}, {429})
            long = request('POST', '/v1/check', json.dumps(body(wait=80000)))
            for i in range(50):
                connections = [server.connect() for _ in range(100)]
                for connection in connections:
                    connection.send(long)
                if i == 0:
                    wait_for(lambda: server.metric('weir_waiting') == 100)
                for connection in connections[i % 2:]:
                    connection.socket.close()
                for connection in connections[:i % 2]:
                    connection.socket.shutdown(socket.SHUT_WR)
                    reply = connection.reply()  # a refusal, while those of before have not all left
                    self.assertTrue(reply is None or reply.status == 429)
                    connection.socket.close()
            wait_for(lambda: server.metric('weir_waiting') == 0)
            self.assertGreaterEqual(server.waits('refused'), 100000)
            self.assertEqual(server.waits('served'), 0)


class Prefer(unittest.TestCase):
    CONTRACT = PACE + 'identity: { proxies: [127.0.0.0/8], tenant: { from: "header:X-Tenant" } }\n'
    ALLOWED = CONTRACT + 'server: { auth-wait: true }\n'

    def headers(self, *prefer):
        return [('X-Tenant', 'acme'), ('X-Forwarded-Uri', '/q'), ('X-Original-URI', '/q'),
                *[('Prefer', value) for value in prefer]]

    def test_it_is_heard_only_where_it_is_allowed(self):
        with Waiting(self.CONTRACT) as door:
            for status in (200, 429):
                reply = door.server.ask('GET', '/v1/auth', headers=[stamp(0), *self.headers('wait=5')])
                self.assertEqual((reply.status, 'preference-applied' in reply.fields), (status, False))

    def test_a_proxy_asks_for_it(self):
        for path, refused in (('/v1/auth', 429), ('/v1/auth-nginx', 403), ('/v1/auth-accel', 429)):
            with Waiting(self.ALLOWED) as door:
                reply = door.server.ask('GET', path, headers=[stamp(0), *self.headers('wait=5')])
                self.assertEqual((reply.status, 'preference-applied' in reply.fields), (200, False), 'no need to wait')
                parked = [door.park('', path=path, method='GET', headers=self.headers('respond-async, Wait = "2";a'))
                          for _ in range(10)]
                reply = door.server.ask('GET', path, headers=[stamp(0), *self.headers('wait=2')])
                self.assertEqual((reply.status, reply.fields['retry-after']), (refused, '3'), 'its turn is at 2.2')
                for value in ('wait=-1', 'wait=1.5', 'wait', 'waiting=9', 'wait=x, wait=9', 'foo; wait=9'):
                    reply = door.server.ask('GET', path, headers=[stamp(0), *self.headers(value)])
                    self.assertEqual(reply.status, refused, value)
                door.go(2)
                for connection in parked:
                    reply = connection.reply()
                    self.assertEqual((reply.status, reply.fields['preference-applied']), (200, 'wait=2'), path)
                self.assertEqual(door.server.metric('weir_wait_seconds_sum'), 11)  # 0.2 + 0.4 + ... + 2

    def test_two_lines_are_one_list(self):
        with Waiting(self.ALLOWED) as door:
            self.assertEqual(door.server.ask('GET', '/v1/auth', headers=[stamp(0), *self.headers()]).status, 200)
            parked = door.park('', path='/v1/auth', method='GET', headers=self.headers('respond-async', 'wait=1'))
            door.go(0.2)
            self.assertEqual(parked.reply().status, 200)

    def test_what_was_applied_is_told(self):
        rows = [
            ('less than the limit allows', '60s', 'wait=59', 'wait=59'),
            ('more: the limit counts', '2s', 'wait=99999', 'wait=2'),
            ('a part of a second, rounded up', '1500ms', 'wait=5', 'wait=2'),
        ]
        for why, up_to, wish, applied in rows:
            with Waiting(self.ALLOWED.replace('60s', up_to)) as door:
                self.assertEqual(door.server.ask('GET', '/v1/auth', headers=[stamp(0), *self.headers()]).status, 200)
                parked = door.park('', path='/v1/auth', method='GET', headers=self.headers(wish))
                door.go(0.2)
                self.assertEqual(parked.reply().fields['preference-applied'], applied, why)


class Workers(unittest.TestCase):
    def test_two_workers_share_one_room(self):
        """In real time: all are served, whoever's loop they are on, and none before its time by the server's clock."""
        with Server(PACE.replace('5/s', '100/s'), args=('--workers', '2')) as server:
            connections = [server.connect() for _ in range(60)]
            sent = request('POST', '/v1/check', json.dumps(body(wait=30)))
            for connection in connections:
                connection.send(sent)
            replies = [connection.reply() for connection in connections]
            self.assertEqual([r.status for r in replies], [200] * 60)
            waits = sorted(r.json.get('waited', 0) for r in replies)
            self.assertEqual(server.waits('served'), sum(w > 0 for w in waits))
            self.assertEqual(server.metric('weir_waiting'), 0)
            for connection in connections:
                connection.socket.close()

    def test_the_others_serve_meanwhile(self):
        with Server(PACE.replace('5/s', '1/1h').replace('60s', '1d'), args=('--workers', '2')) as server:
            connections = [server.connect() for _ in range(150)]
            sent = request('POST', '/v1/check', json.dumps(body(wait=86400)))
            for connection in connections:
                connection.send(sent)
            wait_for(lambda: server.metric('weir_waiting') == 24)  # the others' turn is more than a day away
            self.assertEqual(server.ask('POST', '/v1/check', json.dumps(body(attributes={'tenant': 'b'}))).status, 200)
            for connection in connections:
                connection.socket.close()
            wait_for(lambda: server.metric('weir_waiting') == 0)


class Reloads(unittest.TestCase):
    def reload(self, door, contract, at=0):
        with open(door.server.contract, 'w') as file:
            file.write(contract)
        reply = door.server.ask('POST', '/v1/reload', headers=[stamp(at)], unix='admin.sock')
        self.assertEqual(reply.status, 200, reply.body)
        return reply

    def test_they_go_on_under_the_new_rate(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = [door.park(body(wait=60)) for _ in range(4)]
            door.go(0.2)
            self.assertEqual(parked[0].reply().json['waited'], 0.2)
            # At 0.2 the next is 0.2 s away; from then on 10/s: what was half used stays used, so 0.3, 0.4, 0.5.
            self.reload(door, PACE.replace('5/s', '10/s'), 0.2)
            door.go(2)
            self.assertEqual([p.reply().json['waited'] for p in parked[1:]], [0.3, 0.4, 0.5])

    def test_they_do_not_keep_the_old_contract(self):
        """Each reload must be let go of by every worker before the next one can begin: a parked request holds nothing."""
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = door.park(body(wait=60))
            for i in range(6):
                text = PACE.replace('/plain', f'/plain{i}').replace('name: plain', f'name: plain{i}')
                version = self.reload(door, text).json['version']
            door.go(0.2)
            reply = parked.reply()
            self.assertEqual((reply.status, reply.json['limits'][0]['limit']), (200, 'pace'))
            self.assertEqual(door.server.metric(f'weir_contract_info{{version="{version}"}}'), 1)

    def test_a_limit_that_is_gone_asks_nothing_any_more(self):
        without = PACE[:PACE.index('  - name: pace')] + PACE[PACE.index('  - name: plain'):]
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = [door.park(body(wait=60)) for _ in range(3)]
            self.reload(door, without, 0.1)
            door.go(0.1)
            for connection in parked:
                reply = connection.reply()
                self.assertEqual((reply.status, reply.json['limit'], reply.json['limits']), (200, None, []))

    def test_a_limit_that_starts_afresh_has_lost_its_queue(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = door.park(body(wait=60))
            self.reload(door, PACE.replace('key: [tenant]\n    when: { path: /q }', 'key: [path]\n    when: { path: /q }'))
            door.go(0)
            reply = parked.reply()
            self.assertEqual((reply.status, reply.json['decision'], reply.json['reason']), (503, 'refused', 'contended'))
            self.assertEqual(reply.json['detail'], 'the limit was changed and starts afresh: ask again')
            self.assertIn('retry-after', reply.fields)


class Drain(unittest.TestCase):
    def finish(self, server, count):
        self.assertEqual(server.process.wait(PATIENCE), 0, server.log())
        found = [line for line in server.log().splitlines() if 'event=drained' in line]
        self.assertEqual(len(found), 1)
        self.assertIn(f'asks={count} answers={count}', found[0])

    def test_they_are_served_before_it_ends(self):
        for workers in ('1', '2'):
            with Server(PACE.replace('5/s', '50/s'), args=('--workers', workers)) as server:
                connections = [server.connect() for _ in range(20)]
                for connection in connections:
                    connection.send(request('POST', '/v1/check', json.dumps(body(wait=30))))
                wait_for(lambda: server.metric('weir_waiting') > 0)
                server.process.send_signal(signal.SIGTERM)
                for connection in connections:
                    reply = connection.reply()
                    self.assertEqual(reply.status, 200)
                    self.assertTrue(connection.is_closed())
                    connection.socket.close()
                self.finish(server, 20)

    def test_or_told_that_it_does(self):
        for workers in ('1', '2'):
            contract = PACE.replace('5/s', '1/1h').replace('60s', '1d')
            with Server(contract, hooked=True, env={'WEIR_TEST_SECOND_MS': '20'}, args=('--workers', workers)) as server:
                self.assertEqual(server.ask('POST', '/v1/check', json.dumps(body())).status, 200)
                connections = [server.connect() for _ in range(20)]
                for connection in connections:
                    connection.send(request('POST', '/v1/check', json.dumps(body(wait=80000))))
                wait_for(lambda: server.metric('weir_waiting') == 20)
                server.process.send_signal(signal.SIGTERM)
                wait_for(lambda: 'event=draining signal=SIGTERM waiting=20' in server.log())
                for connection in connections:
                    reply = connection.reply()
                    self.assertEqual((reply.status, reply.fields['retry-after'], reply.fields['connection']),
                                     (503, '1', 'close'))
                    self.assertTrue(connection.is_closed())
                    connection.socket.close()
                self.finish(server, 21)

    def test_whoever_is_gone_is_not_waited_for(self):
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            connection = door.park(body(wait=60))
            door.server.process.send_signal(signal.SIGTERM)
            connection.socket.close()
            self.finish(door.server, 2)


class Times(unittest.TestCase):
    def test_time_outs_do_not_end_a_wait(self):
        """Idle for a minute and more, and then served, and then good for another request."""
        with Waiting(PACE, env={'WEIR_TEST_SECOND_MS': '5'}) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            connection = door.park(body(wait=60))
            watcher = door.server.connect()  # what is idle is closed after 60 seconds, of 5 ms
            self.assertTrue(watcher.is_closed())
            watcher.socket.close()
            self.assertFalse(is_ready(connection))
            door.go(0.2)
            self.assertEqual(connection.reply().json['waited'], 0.2)
            connection.send(request('GET', '/healthz', headers=[stamp(0.2)]))
            self.assertEqual(connection.reply().status, 200)


if __name__ == '__main__':
    unittest.main()
