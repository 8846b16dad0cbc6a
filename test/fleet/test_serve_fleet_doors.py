# SPDX-License-Identifier: Apache-2.0
"""Shared limits behind the doors as they are: pipelines, batches, auth, reloads and drains while the store is slow or away.

LABELS: e2e
"""
import json
import signal
import unittest

from fleet import Fleet, answer_of, body, check, contract, decisions, is_ready, shared, storm
from door import Server, request, wait_for
from fault_proxy import DECIDING, PASS, FaultProxy, late
from stores import Store

ALL = shared('name: all', 'rate: 1/d', 'burst: 1000', 'when: { scope: fleet }')
HERE = ('name: here', 'key: [tenant]', 'rate: 1/d', 'burst: 1000', 'when: { scope: here }')
SLOW = late(0.3)


def slow(command):
    return SLOW if command.verb in DECIDING else PASS


def asked(proxy):
    return proxy.count('EVALSHA', 'seen') + proxy.count('EVAL', 'seen')


def post(scope, tenant='acme', path='/v1/check', **more):
    return request('POST', path, body(tenant, attributes={'scope': scope}, **more))


class Order(unittest.TestCase):
    def test_pipelined_answers_keep_their_order(self):
        """Those of this process are decided at once, and wait behind those that the store is asked about."""
        with Store() as store, FaultProxy(store) as proxy:
            with Fleet(contract(HERE, ALL), proxy.url, count=1, workers=1) as fleet:
                proxy.script = slow
                scopes = ['fleet', 'here', 'here', 'fleet', 'here', 'none', 'fleet', 'here'] * 4
                with fleet[0].connect() as connection:
                    connection.send(b''.join(post(scope) for scope in scopes)
                                    + request('GET', '/healthz') + post('fleet', cost=-1))
                    for scope in scopes:
                        answer = answer_of(connection.reply())
                        expected = {'fleet': 'all', 'here': 'here', 'none': None}[scope]
                        self.assertEqual((answer['decision'], answer['limit']), ('allow', expected))
                    self.assertEqual(connection.reply().text, 'ok\n')
                    self.assertEqual(connection.reply().status, 400)

    def test_two_connections_at_once(self):
        """An answer that comes while another connection is served leaves both as they should be."""
        with Store() as store, Fleet(contract(HERE, ALL), store.url, count=1, workers=1) as fleet:
            check(fleet[0], 'warm', attributes={'scope': 'fleet'})  # the store knows the script
            connections = [fleet[0].connect() for _ in range(8)]
            for _ in range(20):
                for connection in connections:
                    connection.send(post('fleet') + post('here') + post('fleet'))
            for connection in connections:
                for i in range(60):
                    answer = answer_of(connection.reply())
                    self.assertEqual((answer['limit'], answer['decision']), (['all', 'here', 'all'][i % 3], 'allow'))
                connection.__exit__()
            look = check(fleet[0], mode='peek', cost=0, attributes={'scope': 'fleet'})
            self.assertEqual(look['remaining'], 1000 - 8 * 20 * 2)

    def test_a_batch_is_one_answer(self):
        with Store() as store, FaultProxy(store) as proxy:
            text = contract(HERE, shared('name: all', 'rate: 1/d', 'burst: 30', 'when: { scope: fleet }'))
            with Fleet(text, proxy.url, count=1) as fleet:
                proxy.script = slow
                items = [{'attributes': {'tenant': 'acme', 'scope': 'fleet' if i % 2 else 'here'}} for i in range(100)]
                reply = fleet[0].ask('POST', '/v1/check', json.dumps({'requests': items}))
                results = reply.json['results']
                self.assertEqual(len(results), 100)
                self.assertEqual([result['limit'] for result in results], ['here', 'all'] * 50)
                fleet_s = [result['status'] for result in results[1::2]]
                self.assertEqual(sorted(fleet_s), [200] * 30 + [429] * 20)
                self.assertEqual({result['status'] for result in results[0::2]}, {200})

    def test_the_auth_doors(self):
        text = contract(shared('name: all', 'rate: 1/d', 'burst: 2'), deadline='200ms') + \
            'identity: { proxies: [127.0.0.1], tenant: header:x-tenant }\n'
        with Store() as store, Fleet(text, store.url, count=1) as fleet:
            def ask(path):
                return fleet[0].ask('GET', path, headers=[('X-Tenant', 'acme')])
            self.assertEqual([ask('/v1/auth').status, ask('/v1/auth-nginx').status], [200, 200])
            self.assertEqual([ask('/v1/auth').status, ask('/v1/auth-nginx').status], [429, 403])
            store.kill()
            wait_for(lambda: not is_ready(fleet[0]))
            fresh = fleet[0].ask('GET', '/v1/auth', headers=[('X-Tenant', 'other')])
            self.assertEqual((fresh.status, fresh.fields.get('cache-control')), (503, 'no-store'))

    def test_many_at_once(self):
        """Exactly as many pass as may, whatever the store's answers overtake."""
        text = contract(HERE, shared('name: all', 'rate: 1/d', 'burst: 300', 'when: { scope: fleet }'))
        with Store() as store, Fleet(text, store.url, count=2) as fleet:
            answers = storm(fleet.servers, 400, attributes={'scope': 'fleet'})
            self.assertEqual(decisions(answers), {'allow': 300, 'deny': 500})


class Crowds(unittest.TestCase):
    def test_without_room_the_policies_answer_at_once(self):
        """Memory for one request: whoever comes while it is under way is answered as if the store could not be had."""
        text = contract(('name: here', 'key: [tenant]', 'rate: 1/d', 'burst: 50'),
                        shared('name: all', 'rate: 1/d', 'burst: 50', fails='open'))
        with Store() as store, FaultProxy(store) as proxy:
            with Server(text, hooked=True, args=['--store', proxy.url, '--workers', '1'],
                        env={'WEIR_TEST_SHARED_MAX': '1'}) as server, server.connect() as connection:
                wait_for(lambda: is_ready(server))
                check(server, 'warm')
                proxy.script = slow
                before = asked(proxy)
                connection.send(request('POST', '/v1/check', body()))
                wait_for(lambda: asked(proxy) == before + 1)
                free = check(server)
                self.assertEqual((free['decision'], free['policy'], free['reason'], free['fields']['weir-degraded']),
                                 ('unmetered', 'open', 'store', 'open'))
                self.assertEqual(answer_of(connection.reply())['policy'], None)
                proxy.script = lambda command: PASS
                look = check(server, mode='peek', cost=0)
                self.assertEqual({limit['limit']: limit['remaining'] for limit in look['limits']}, {'here': 48, 'all': 49})


class HangingUp(unittest.TestCase):
    def test_what_was_charged_here_is_undone_and_in_the_store_stands(self):
        text = contract(('name: here', 'key: [tenant]', 'rate: 1/d', 'burst: 50'),
                        shared('name: all', 'rate: 1/d', 'burst: 50'))
        with Store() as store, FaultProxy(store) as proxy:
            with Fleet(text, proxy.url, count=1, workers=1) as fleet:
                check(fleet[0], 'warm')  # the store knows the script
                proxy.script = slow
                before = asked(proxy)
                connections = [fleet[0].connect() for _ in range(5)]
                for connection in connections:
                    connection.send(request('POST', '/v1/check', body(cost=2)) + request('POST', '/v1/check', body(cost=2)))
                wait_for(lambda: asked(proxy) == before + 10)
                for connection in connections:
                    connection.__exit__()
                proxy.script = lambda command: PASS

                def left():
                    look = check(fleet[0], mode='peek', cost=0)
                    return {limit['limit']: limit['remaining'] for limit in look['limits']}
                wait_for(lambda: left() == {'here': 50, 'all': 30})
                self.assertEqual(check(fleet[0])['decision'], 'allow')


class Waiting(unittest.TestCase):
    """For a limit of the process, and then for the store."""

    PACED = contract(('name: paced', 'key: [tenant]', 'rate: 1/10m', 'burst: 1', 'wait: { up-to: 2h, queue: 5 }'),
                     shared('name: all', 'rate: 1/d', 'burst: 9'))

    def park(self, server, connection):
        parked = server.metric('weir_waiting')
        connection.send(request('POST', '/v1/check', body(wait=7000)))
        wait_for(lambda: server.metric('weir_waiting') == parked + 1)

    def test_who_hangs_up_leaves_the_queue_and_asked_nothing(self):
        with Store() as store, Fleet(self.PACED, store.url, count=1, workers=1) as fleet:
            self.assertEqual(check(fleet[0])['decision'], 'allow')
            with fleet[0].connect() as first, fleet[0].connect() as second:
                self.park(fleet[0], first)
                self.park(fleet[0], second)
            wait_for(lambda: fleet[0].metric('weir_waiting') == 0)
            self.assertEqual(fleet[0].waits('left'), 2)
            look = check(fleet[0], mode='peek', cost=0)
            self.assertEqual({limit['limit']: limit['remaining'] for limit in look['limits']}['all'], 8)

    def test_refusals_say_why_nobody_waits(self):
        with Store() as store, Fleet(self.PACED, store.url, count=1, workers=1) as fleet:
            check(fleet[0])
            self.assertIn('send `wait`', check(fleet[0])['detail'])
            self.assertIn('later than you can wait', check(fleet[0], wait=5)['detail'])
            self.assertEqual(fleet[0].waits('refused'), 1)

    def test_a_drain_tells_those_who_wait(self):
        with Store() as store, Server(self.PACED, hooked=True, args=['--store', store.url],
                                      env={'WEIR_TEST_SECOND_MS': '20'}) as server, server.connect() as connection:
            wait_for(lambda: is_ready(server))
            check(server)
            self.park(server, connection)
            server.process.send_signal(signal.SIGTERM)
            reply = connection.reply()
            self.assertEqual(reply.status, 503)
            self.assertIn('the server ends', reply.json['detail'])

    def test_a_reload_while_it_waits(self):
        """Its turn comes under another contract: with the shared limit, or without it."""
        for last in (self.PACED.replace('1/10m', '100/s'), contract(('name: paced', 'key: [tenant]', 'rate: 100/s', 'burst: 1',
                                                                  'wait: { up-to: 2h, queue: 5 }'))):
            with Store() as store, Fleet(self.PACED, store.url, count=1, workers=2) as fleet, \
                    fleet[0].connect() as connection:
                check(fleet[0])
                self.park(fleet[0], connection)
                with open(fleet[0].contract, 'w') as file:
                    file.write(last)
                self.assertEqual(fleet[0].ask('POST', '/v1/reload', unix='admin.sock').status, 200)
                answer = answer_of(connection.reply())
                self.assertEqual(answer['decision'], 'allow')
                self.assertGreater(answer['waited'], 0)
                names = [limit['limit'] for limit in answer['limits']]
                self.assertEqual(names, ['paced', 'all'] if 'fleet' in last else ['paced'])


class Reloads(unittest.TestCase):
    def reload(self, server, text):
        with open(server.contract, 'w') as file:
            file.write(text)
        return server.ask('POST', '/v1/reload', unix='admin.sock')

    def test_the_first_shared_limit_comes_and_the_last_goes(self):
        here = contract(('name: one', 'key: [tenant]', 'rate: 1/d', 'burst: 5'))
        everywhere = contract(shared('name: one', 'rate: 1/d', 'burst: 5'))
        with Store() as store, Fleet(here, store.url, count=2) as fleet:
            self.assertEqual(decisions([check(server) for server in fleet for _ in range(4)]), {'allow': 8})
            for server in fleet:
                self.assertEqual(self.reload(server, everywhere).status, 200)
            self.assertEqual(decisions([check(server) for server in fleet for _ in range(4)]), {'allow': 5, 'deny': 3})
            for server in fleet:
                self.assertEqual(self.reload(server, here).status, 200)
            self.assertEqual(decisions([check(server) for server in fleet for _ in range(6)])['allow'] >= 2, True)
            store.kill()
            self.assertEqual(check(fleet[0])['policy'], None)

    def test_without_a_store_a_shared_limit_is_refused(self):
        here = contract(('name: one', 'key: [tenant]', 'rate: 1/d', 'burst: 5'))
        everywhere = contract(shared('name: one', 'rate: 1/d', 'burst: 5'))
        with Server(here) as server:
            refused = self.reload(server, everywhere)
            self.assertEqual(refused.status, 422)
            self.assertIn('--store', refused.text)
            self.assertEqual(check(server)['decision'], 'allow')
            # Nor does its own URL help: the store is read at the start only.
            named = everywhere.replace('store: {', 'store: { url: "redis://127.0.0.1:1",')
            self.assertEqual(self.reload(server, named).status, 422)

    def test_another_store_is_a_warning(self):
        text = contract(shared('name: one', 'rate: 1/d', 'burst: 5'))
        with Store() as store, Fleet(text, store.url, count=1) as fleet:
            told = self.reload(fleet[0], text.replace('deadline: 5s', 'deadline: 7s'))
            self.assertEqual(told.status, 200)
            self.assertIn('store', json.dumps(told.json['warnings']))
            self.assertEqual(check(fleet[0])['remaining'], 4)

    def test_while_the_store_is_asked(self):
        """Questions keep the contract they were asked under; what was known to be refused is asked anew under the next."""
        def text(burst, other):
            return contract(('name: here', 'key: [tenant]', 'rate: 1/d', f'burst: {other}'),
                            shared('name: all', 'rate: 1/d', f'burst: {burst}'))
        with Store() as store, FaultProxy(store) as proxy:
            with Fleet(text(10, 100), proxy.url, count=1, workers=2) as fleet:
                proxy.script = slow
                with fleet[0].connect() as connection:
                    before = asked(proxy)
                    connection.send(request('POST', '/v1/check', body()) * 12)
                    wait_for(lambda: asked(proxy) > before)
                    replies = []
                    for other in (101, 102, 103):
                        self.assertEqual(self.reload(fleet[0], text(10, other)).status, 200)
                        replies += [answer_of(connection.reply()) for _ in range(4)]
                self.assertEqual(decisions(replies), {'allow': 10, 'deny': 2})
                self.assertEqual({len(reply['limits']) for reply in replies}, {2})
                proxy.script = lambda command: PASS
                self.assertEqual(check(fleet[0])['decision'], 'deny')
                self.assertEqual(self.reload(fleet[0], text(20, 103)).status, 200)
                self.assertEqual(check(fleet[0])['decision'], 'allow')


class Draining(unittest.TestCase):
    def test_what_is_asked_is_answered_within_the_deadline(self):
        text = contract(ALL, deadline='1s')
        with Store() as store:
            with Fleet(text, store.url, count=1) as fleet, fleet[0].connect() as connection:
                store.freeze()
                try:
                    connection.send(post('fleet'))
                    wait_for(lambda: fleet[0].metric('weir_store_commands_total') > 0)
                    fleet[0].process.send_signal(signal.SIGTERM)
                    answer = answer_of(connection.reply())
                    self.assertEqual((answer['http'], answer['policy'], answer['fields'].get('connection')),
                                     (503, 'closed', 'close'))
                    fleet[0].process.wait(20)
                finally:
                    store.thaw()
                self.assertIn('event=drained', fleet[0].log())

    def test_a_deadline_beyond_the_drains_is_cut_short(self):
        text = contract(ALL, deadline='10s')
        with Store() as store:
            with Server(text, hooked=True, args=['--store', store.url], env={'WEIR_TEST_SECOND_MS': '20'}) as server, \
                    server.connect() as connection:
                wait_for(lambda: is_ready(server))
                store.freeze()
                try:
                    connection.send(post('fleet'))
                    wait_for(lambda: server.metric('weir_store_commands_total') > 0)
                    server.process.send_signal(signal.SIGTERM)
                    answer = answer_of(connection.reply())
                    self.assertEqual((answer['http'], answer['policy']), (503, 'closed'))
                    self.assertEqual(server.process.wait(9), 0)
                finally:
                    store.thaw()

    def test_without_a_store_ever(self):
        with Fleet(contract(ALL), 'redis://127.0.0.1:1', count=1, is_ready=False) as fleet:
            self.assertEqual(check(fleet[0], attributes={'scope': 'fleet'})['policy'], 'closed')


if __name__ == '__main__':
    unittest.main()
