# SPDX-License-Identifier: Apache-2.0
"""Reservations and permits of a fleet: one text that works at every replica, or at the one that alone can; what a store that is
away leaves undone, and what happens to what nobody got.

LABELS: e2e
"""
import base64
import json
import random
import unittest

from fleet import Fleet, answer_of, body, check, contract, is_ready, shared
from door import wait_for
from fault_proxy import CUT_AFTER, DECIDING, PASS, FaultProxy, late
from stores import Store

TOKENS = shared('name: tokens', 'rate: 1/d', 'burst: 100', 'cost: { from: tokens, default: 10, max: 100 }')
JOBS = shared('name: jobs', 'algorithm: concurrency', 'at-most: 2', 'hold: 30s')
HERE_TOKENS = ('name: here', 'key: [tenant]', 'rate: 1/d', 'burst: 50')
HERE_JOBS = ('name: here', 'key: [tenant]', 'algorithm: concurrency', 'at-most: 2', 'hold: 30s')


def call(server, path, **members):
    reply = server.ask('POST', path, json.dumps(members))
    answer = answer_of(reply) if reply.body else {'fields': reply.fields}
    answer['http'] = reply.status
    return answer


def raw(token):
    return base64.urlsafe_b64decode(token + '=' * (-len(token) % 4))


def spelt(data):
    return base64.urlsafe_b64encode(data).decode().rstrip('=')


def remaining(server, tenant='acme'):
    return {limit['limit']: limit['remaining'] for limit in check(server, tenant, mode='peek', cost=0)['limits']}


class Reservations(unittest.TestCase):
    def test_made_here_and_settled_there(self):
        with Store() as store, Fleet(contract(TOKENS), store.url, count=2) as fleet:
            one, two = fleet
            made = check(one, path='/v1/reserve', attributes={'tokens': 40})
            self.assertEqual((made['decision'], made['remaining'], made['expires_after']), ('allow', 60, 600))
            done = call(two, '/v1/settle', reservation=made['reservation'], cost=15)
            self.assertEqual((done['http'], done['charged'], done['returned'], done['remaining'], done['limit'],
                              done['repeated']), (200, 0, 25, 85, 'tokens', False))
            again = call(one, '/v1/settle', reservation=made['reservation'], cost=15)
            self.assertEqual((again['http'], again['returned'], again['repeated']), (200, 0, True))
            self.assertEqual(remaining(one), {'tokens': 85})

            made = check(two, path='/v1/reserve', attributes={'tokens': 50})
            done = call(one, '/v1/cancel', reservation=made['reservation'])
            self.assertEqual((done['http'], done['returned'], done['remaining']), (200, 50, 85))
            self.assertNotIn('charged', done)

    def test_with_a_part_of_one_process_it_is_good_there_alone(self):
        with Store() as store, Fleet(contract(HERE_TOKENS, TOKENS), store.url, count=2) as fleet:
            one, two = fleet
            made = check(one, path='/v1/reserve', attributes={'tokens': 40})
            elsewhere = call(two, '/v1/settle', reservation=made['reservation'], cost=15)
            self.assertEqual((elsewhere['http'], elsewhere['field']), (404, 'reservation'))
            self.assertIn('another server', elsewhere['detail'])
            self.assertEqual(remaining(two)['tokens'], 60)  # nothing was settled
            self.assertEqual(call(two, '/v1/cancel', reservation=made['reservation'])['http'], 404)
            done = call(one, '/v1/settle', reservation=made['reservation'], cost=15)
            self.assertEqual((done['http'], done['returned'], done['repeated']), (200, 25, False))
            # Limits without `cost` are not settled where another reads its cost from the request.
            self.assertEqual(remaining(one), {'here': 49, 'tokens': 85})

            made = check(one, path='/v1/reserve', attributes={'tokens': 5})
            done = call(one, '/v1/cancel', reservation=made['reservation'])
            self.assertEqual((done['returned'], done['remaining'], done['limit']), (5, 49, 'here'))
            self.assertEqual(remaining(one), {'here': 49, 'tokens': 85})

    def test_a_settlement_that_the_store_is_needed_for(self):
        with Store() as store, FaultProxy(store) as proxy:
            with Fleet(contract(HERE_TOKENS, TOKENS, deadline='300ms'), proxy.url, count=1) as fleet:
                made = check(fleet[0], path='/v1/reserve', attributes={'tokens': 40})
                for what, script in (('the store did it, and nobody heard', lambda command:
                                      CUT_AFTER if command.verb in DECIDING else PASS),
                                     ('the reply comes too late', lambda command:
                                      late(0.6) if command.verb in DECIDING else PASS)):
                    proxy.script = script
                    away = call(fleet[0], '/v1/settle', reservation=made['reservation'], cost=15)
                    self.assertEqual((away['http'], away['fields']['retry-after']), (503, '1'), what)
                    self.assertIn('shared store', away['detail'])
                    self.assertIn('it counts once', away['detail'])
                proxy.script = lambda command: PASS

                def is_done():
                    done = call(fleet[0], '/v1/settle', reservation=made['reservation'], cost=15)
                    return done['http'] == 200 and done
                wait_for(is_done)
                # A look may be answered by policy while late replies still come in; it changes nothing, so look again.
                wait_for(lambda: remaining(fleet[0])['tokens'] is not None)
                self.assertEqual(remaining(fleet[0]), {'here': 49, 'tokens': 85})

    def test_a_store_that_is_away_gives_no_reservation_of_its_own(self):
        text = contract(TOKENS[:-1] + ('when-store-fails: open',), deadline='200ms')
        with Store() as store, Fleet(text, store.url, count=1) as fleet:
            made = check(fleet[0], path='/v1/reserve')
            store.kill()
            wait_for(lambda: not is_ready(fleet[0]))
            free = check(fleet[0], path='/v1/reserve')
            self.assertEqual((free['decision'], free['reservation'], free['expires_after']), ('unmetered', None, None))
            away = call(fleet[0], '/v1/settle', reservation=made['reservation'], cost=1)
            self.assertEqual(away['http'], 503)
            store.start()  # and has forgotten
            wait_for(lambda: call(fleet[0], '/v1/settle', reservation=made['reservation'], cost=1)['http'] == 404)
            wait_for(lambda: is_ready(fleet[0]))

    def test_a_token_of_a_store_where_there_is_none(self):
        with Store() as store:
            with Fleet(contract(TOKENS), store.url, count=1) as fleet:
                made = check(fleet[0], path='/v1/reserve')
            with Fleet(contract(HERE_TOKENS), None, count=1) as fleet:
                refused = call(fleet[0], '/v1/cancel', reservation=made['reservation'])
                self.assertEqual((refused['http'], refused['field']), (404, 'reservation'))

    def test_refund(self):
        limits = (('name: here', 'key: [tenant]', 'rate: 1/d', 'burst: 50'), shared('name: all', 'rate: 1/d', 'burst: 90'))
        with Store() as store, Fleet(contract(*limits, deadline='300ms'), store.url, count=2) as fleet:
            one, two = fleet
            self.assertEqual([limit['remaining'] for limit in check(one, cost=20)['limits']], [30, 70])
            back = call(one, '/v1/refund', attributes={'tenant': 'acme'}, cost=5)
            self.assertEqual((back['http'], back['returned'], back['remaining'], back['limit']), (200, 5, 35, 'here'))
            self.assertEqual(remaining(one), {'here': 35, 'all': 75})
            self.assertEqual(remaining(two), {'here': 50, 'all': 75})
            bad = call(one, '/v1/refund', attributes={'tenant': 'a\u0001'}, cost=5)
            self.assertEqual((bad['http'], bad['field']), (400, 'attributes.tenant'))
            store.kill()
            wait_for(lambda: not is_ready(one))
            away = call(one, '/v1/refund', attributes={'tenant': 'acme'}, cost=5)
            self.assertEqual(away['http'], 503)
            self.assertIn('twice', away['detail'])
            self.assertEqual({limit['limit']: limit['remaining'] for limit in
                              check(one, mode='peek', cost=0)['limits']}['here'], 35)

    def test_reset(self):
        limits = (('name: here', 'key: [tenant]', 'rate: 1/d', 'burst: 5'), shared('name: all', 'rate: 1/d', 'burst: 9'))
        with Store() as store, Fleet(contract(*limits, deadline='300ms'), store.url, count=2) as fleet:
            one, two = fleet
            check(one, cost=4)
            reset = {'limit': 'all', 'key': {'tenant': 'acme'}}

            def ask(**what):
                reply = two.ask('POST', '/v1/reset', json.dumps(what), unix='admin.sock')
                return reply.status, reply.json.get('field') if reply.body else None
            self.assertEqual(ask(**reset), (204, None))
            self.assertEqual(remaining(one), {'here': 1, 'all': 9})
            self.assertEqual(ask(limit='nobody', key={}), (404, 'limit'))
            self.assertEqual(ask(limit='all', key={'colour': 'red'}), (400, 'key.colour'))
            self.assertEqual(ask(limit='here', key={'tenant': 'acme'}), (204, None))
            store.kill()
            wait_for(lambda: not is_ready(two))
            self.assertEqual(ask(**reset)[0], 503)


class Permits(unittest.TestCase):
    def acquire(self, server, **more):
        return check(server, path='/v1/acquire', **more)

    def test_acquired_here_renewed_and_released_there(self):
        with Store() as store, Fleet(contract(JOBS), store.url, count=2) as fleet:
            one, two = fleet
            first, second = self.acquire(one), self.acquire(two)
            self.assertEqual([first['decision'], second['decision']], ['allow', 'allow'])
            self.assertGreater(second['fence'], first['fence'])
            self.assertTrue(29 < first['expires_after'] <= 30)
            self.assertEqual(self.acquire(one)['decision'], 'deny')
            renewed = call(two, '/v1/renew', permit=first['permit'])
            self.assertEqual(renewed['http'], 200)
            self.assertTrue(29 < renewed['expires_after'] <= 30)
            self.assertTrue(call(two, '/v1/release', permit=first['permit'])['released'])
            self.assertFalse(call(one, '/v1/release', permit=first['permit'])['released'])
            lost = call(one, '/v1/renew', permit=first['permit'])
            self.assertEqual((lost['http'], lost['field']), (404, 'permit'))
            third = self.acquire(one)
            self.assertGreater(third['fence'], second['fence'])
            self.assertEqual(fleet.metric('weir_permits_total{event="acquired"}'), 3)
            self.assertEqual(fleet.metric('weir_permits_total{event="released"}'), 1)
            self.assertEqual(fleet.metric('weir_permits_total{event="lost"}'), 2)

    def test_with_a_part_of_one_process(self):
        with Store() as store, Fleet(contract(HERE_JOBS, JOBS), store.url, count=2) as fleet:
            one, two = fleet
            held = self.acquire(one)
            self.assertEqual(call(one, '/v1/renew', permit=held['permit'])['http'], 200)
            stranger = call(two, '/v1/renew', permit=held['permit'])
            self.assertEqual((stranger['http'], stranger['field']), (404, 'permit'))
            self.assertIn('another server', stranger['detail'])
            # Released elsewhere: what the fleet has of it returns, and the rest at the one that gave it.
            self.assertEqual(remaining(two), {'here': 2, 'jobs': 1})
            self.assertEqual(call(two, '/v1/release', permit=held['permit'])['http'], 404)
            self.assertEqual(remaining(two), {'here': 2, 'jobs': 2})
            self.assertTrue(call(one, '/v1/release', permit=held['permit'])['released'])
            self.assertEqual(remaining(one), {'here': 2, 'jobs': 2})

            # One part is lost: the permit is.
            held = self.acquire(one)
            store.command('FLUSHALL')
            self.assertEqual(call(one, '/v1/renew', permit=held['permit'])['http'], 404)

    def test_a_permit_whose_store_is_away(self):
        with Store() as store, Fleet(contract(HERE_JOBS, JOBS, deadline='300ms'), store.url, count=1) as fleet:
            held = self.acquire(fleet[0])
            store.freeze()
            try:
                for path in ('/v1/renew', '/v1/release'):
                    away = call(fleet[0], path, permit=held['permit'])
                    self.assertEqual((away['http'], away['fields']['retry-after']), (503, '1'))
                    self.assertIn('shared store', away['detail'])
            finally:
                store.thaw()
            wait_for(lambda: call(fleet[0], '/v1/release', permit=held['permit'])['http'] == 200)
            wait_for(lambda: is_ready(fleet[0]))
            self.assertEqual(remaining(fleet[0]), {'here': 2, 'jobs': 2})

    def test_bound_to_its_connection(self):
        with Store() as store, Fleet(contract(HERE_JOBS, JOBS), store.url, count=2) as fleet:
            one, two = fleet
            with one.connect() as connection:
                kept = answer_of(connection.ask('POST', '/v1/acquire', body(bind='connection')))
                gone = answer_of(connection.ask('POST', '/v1/acquire', body(bind='connection')))
                self.assertEqual([kept['decision'], gone['decision']], ['allow', 'allow'])
                renewed = answer_of(connection.ask('POST', '/v1/renew', json.dumps({'permit': kept['permit']})))
                self.assertGreater(renewed['expires_after'], 29)
                released = answer_of(connection.ask('POST', '/v1/release', json.dumps({'permit': gone['permit']})))
                self.assertTrue(released['released'])
                self.assertEqual(remaining(two), {'here': 2, 'jobs': 1})
            wait_for(lambda: remaining(two) == {'here': 2, 'jobs': 2})
            wait_for(lambda: remaining(one) == {'here': 2, 'jobs': 2})
            self.assertEqual(one.metric('weir_permits_total{event="returned"}'), 1)

    def test_who_hangs_up_while_the_store_is_asked_keeps_nothing(self):
        with Store() as store, FaultProxy(store) as proxy:
            with Fleet(contract(HERE_JOBS, JOBS), proxy.url, count=1, workers=1) as fleet:
                proxy.script = lambda command: late(0.5) if command.verb in DECIDING else PASS
                seen = proxy.count('EVALSHA', 'seen') + proxy.count('EVAL', 'seen')
                connection = fleet[0].connect()
                connection.send(b'POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s'
                                % (len(body()), body().encode()))
                wait_for(lambda: proxy.count('EVALSHA', 'seen') + proxy.count('EVAL', 'seen') > seen)
                connection.__exit__()
                proxy.script = lambda command: PASS
                wait_for(lambda: remaining(fleet[0]) == {'here': 2, 'jobs': 2})


class Tampering(unittest.TestCase):
    """Whatever is sent in place of a token is refused with its field, and changes nothing."""

    def test_changed_and_cut(self):
        draw = random.Random(20261133)
        with Store() as store, Fleet(contract(HERE_TOKENS, TOKENS, JOBS), store.url, count=1) as fleet:
            server = fleet[0]
            reservation = check(server, path='/v1/reserve', attributes={'tokens': 40})['reservation']
            permit = check(server, path='/v1/acquire', attributes={'tokens': 10})['permit']
            before = remaining(server)
            for path, member, token in (('/v1/cancel', 'reservation', reservation), ('/v1/release', 'permit', permit)):
                whole = raw(token)
                for i in range(150):
                    kind = draw.randrange(4)
                    data = bytearray(whole)
                    if kind == 0:
                        data = data[:draw.randrange(1, len(data))]
                    elif kind == 1:
                        data += bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))
                    else:
                        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
                    reply = call(server, path, **{member: spelt(bytes(data))})
                    if reply.get('released') is False:
                        continue  # a name that nobody has: as one that was lost before
                    self.assertIn(reply['http'], (400, 404), (path, i, data.hex(), reply))
                    self.assertEqual(reply['field'], member, (path, i, data.hex(), reply))
            self.assertEqual(remaining(server)['tokens'], before['tokens'])
            self.assertEqual(call(server, '/v1/cancel', reservation=reservation)['http'], 200)
            self.assertEqual(remaining(server)['tokens'], before['tokens'] + 40)

    def test_a_part_of_each(self):
        with Store() as store, Fleet(contract(TOKENS, JOBS), store.url, count=1) as fleet:
            server = fleet[0]
            reservation = check(server, path='/v1/reserve')['reservation']
            permit = check(server, path='/v1/acquire')['permit']
            self.assertEqual(call(server, '/v1/settle', reservation=permit, cost=1)['http'], 404)
            self.assertIn(call(server, '/v1/renew', permit=reservation)['http'], (400, 404))
            for token in ('', '!', 'Ag', 'AgAA', spelt(b'\x02\x00\x00' + b'x' * (49 << 10)), spelt(b'\x02\xff\xff' + b'x' * 99)):
                reply = call(server, '/v1/settle', reservation=token, cost=1)
                self.assertEqual((reply['http'], reply['field']), (400, 'reservation'), token[:20])


if __name__ == '__main__':
    unittest.main()
