# SPDX-License-Identifier: Apache-2.0
"""Servers with leased limits: the whole burst at one of them, what is held and shown, handed back at the end, spent without the store.

LABELS: e2e
"""
import json
import os
import subprocess
import threading
import unittest

from fleet import Fleet, answer_of, body, check, contract, decisions, is_ready, storm
from door import BUILD, PATIENCE, wait_for
from stores import Store

LEASE = 'lease: { most: 40, chunk: 20, for: 60s }'


def leased(*fields, lease=LEASE, fails='leased', key='[tenant]'):
    return (*fields, 'key: ' + key, 'scope: fleet', lease, 'when-store-fails: ' + fails)


# Nothing refills while a test runs, so that counts are exact; and what is in hand stays there.
HUNDRED = ('rate: 1/d', 'burst: 100')


def shown(server, store, limit='limit-0', tenant='acme'):
    """What the store says of a key's leases."""
    done = subprocess.run([os.path.join(BUILD, 'weir'), 'fleet', 'leases', server.contract, '--limit', limit, 'tenant=' + tenant,
                           '--json'], capture_output=True, text=True, check=True,
                          env={'PATH': os.environ['PATH'], 'WEIR_STORE': store.url})
    return json.loads(done.stdout)


def remaining(server, store, tenant='acme'):
    """What the store says is left, of which nothing is in any hand."""
    done = subprocess.run([os.path.join(BUILD, 'weir'), 'fleet', 'keys', server.contract, '--limit', 'limit-0', 'tenant=' + tenant,
                           '--json'], capture_output=True, text=True, check=True,
                          env={'PATH': os.environ['PATH'], 'WEIR_STORE': store.url})
    return json.loads(done.stdout)['remaining']


def hold(server, tenant='acme'):
    """Ask until something is in hand: a key is leased from its second request on. Gives how often it was."""
    for count in range(1, 50):
        before = server.metric('weir_lease_decisions_total')
        assert check(server, tenant)['decision'] == 'allow'
        if server.metric('weir_lease_decisions_total') > before:
            return count
    raise AssertionError('nothing is leased: ' + server.log())


class Deciding(unittest.TestCase):
    def test_one_server_alone_is_admitted_the_whole_burst(self):
        with Store() as store, Fleet(contract(leased(*HUNDRED)), store.url, count=2) as fleet:
            self.assertEqual(decisions([check(fleet[0]) for _ in range(120)]), {'allow': 100, 'deny': 20})
            self.assertEqual(check(fleet[1])['decision'], 'deny')
            last = check(fleet[0])
            self.assertEqual((last['http'], last['policy'], last['reason'], last['capacity']), (429, None, None, 100))
            self.assertGreater(fleet[0].metric('weir_lease_decisions_total'), 30)

    def test_never_more_than_the_limit_and_nearly_all_of_it(self):
        """The self-check of the fleet, with leases: four replicas, 100 a minute."""
        text = contract(leased('rate: 100/1d', 'algorithm: fixed-window', lease='lease: { most: 8, chunk: 2, for: 2s }'))
        with Store() as store, Fleet(text, store.url, count=4) as fleet:
            allowed = decisions(storm(fleet.servers, 100, clients=2))['allow']
            self.assertLessEqual(allowed, 100)
            self.assertGreaterEqual(allowed, 95 - 5)  # at most `most` are in other hands

    def test_a_cost_above_the_portion_is_met_by_hand_and_store_together(self):
        with Store() as store, Fleet(contract(leased(*HUNDRED)), store.url, count=1) as fleet:
            spent = hold(fleet[0])
            self.assertEqual(check(fleet[0], cost=100 - spent)['decision'], 'allow')
            self.assertEqual(check(fleet[0])['decision'], 'deny')

    def test_looks_see_the_hand_and_reservations_leave_it(self):
        with Store() as store, Fleet(contract(leased(*HUNDRED)), store.url, count=1) as fleet:
            spent = hold(fleet[0])
            self.assertEqual(check(fleet[0], mode='peek')['remaining'], 100 - spent)
            before = fleet[0].metric('weir_lease_decisions_total')
            for _ in range(3):
                self.assertTrue(check(fleet[0], path='/v1/reserve')['reservation'])
            self.assertEqual(fleet[0].metric('weir_lease_decisions_total'), before)


class Holding(unittest.TestCase):
    def test_what_is_held_is_shown_and_handed_back_at_the_end(self):
        with Store() as store, Fleet(contract(leased(*HUNDRED)), store.url, count=2) as fleet:
            spent = hold(fleet[0])
            wait_for(lambda: fleet[0].metric('weir_lease_held') > 0)
            self.assertEqual(fleet[0].metric('weir_lease_keys'), 1)
            told = shown(fleet[0], store)
            self.assertEqual(told['out'], sum(holder['left'] for holder in told['holders']))
            self.assertGreaterEqual(told['out'], fleet[0].metric('weir_lease_held'))
            self.assertEqual([holder['label'].split(':')[1] for holder in told['holders']], [str(fleet[0].process.pid)])

            fleet[0].process.terminate()
            fleet[0].process.wait(PATIENCE)
            told = shown(fleet[1], store)
            self.assertEqual((told['out'], told['lost']), (0, 0))
            self.assertGreater(told['returned'], 0)
            self.assertEqual(told['granted'], told['spent'] + told['returned'])
            self.assertEqual(remaining(fleet[1], store), 100 - spent)  # exactly what was asked for is gone
            log = fleet[0].log()
            self.assertRegex(log, r' level=info event=leases-returned tokens=%d\n' % told['returned'])
            self.assertLess(log.index('event=leases-returned'), log.index('event=drained'))

    def test_who_holds_nothing_says_nothing_of_it(self):
        with Store() as store, Fleet(contract(leased(*HUNDRED)), store.url, count=1) as fleet:
            check(fleet[0])
            fleet[0].process.terminate()
            fleet[0].process.wait(PATIENCE)
            self.assertNotIn('leases-returned', fleet[0].log())

    def test_a_drain_under_load_loses_nothing(self):
        text = contract(leased('rate: 1/d', 'burst: 100000', lease='lease: { most: 4000, chunk: 2000, for: 60s }'))
        with Store() as store, Fleet(text, store.url, count=2, workers=3) as fleet:
            allowed, ended = [], []

            def client(first):
                try:
                    with fleet[0].connect() as connection:
                        while True:
                            reply = connection.ask('POST', '/v1/check', body('tenant-%d' % (first % 2)))
                            if reply is None:
                                break
                            allowed.append((first % 2, answer_of(reply)['decision']))
                except OSError:
                    pass
                ended.append(first)

            threads = [threading.Thread(target=client, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            wait_for(lambda: len(allowed) > 300)
            fleet[0].process.terminate()
            for thread in threads:
                thread.join(PATIENCE)
            self.assertEqual(len(ended), 6)
            self.assertEqual(fleet[0].process.wait(PATIENCE), 0)
            self.assertEqual({decision for _, decision in allowed}, {'allow'})
            for i in range(2):
                told = shown(fleet[1], store, tenant='tenant-%d' % i)
                self.assertEqual((told['out'], told['lost']), (0, 0), fleet[0].log())
                # A request that was cut off by the end had its charge: at most one for each client.
                spent = 100000 - remaining(fleet[1], store, 'tenant-%d' % i)
                self.assertLessEqual(0, spent - sum(which == i for which, _ in allowed))
                self.assertLessEqual(spent - sum(which == i for which, _ in allowed), 3)

    def test_a_store_that_is_away_does_not_hold_up_the_end(self):
        for how in ('freeze', 'kill'):
            with self.subTest(how), Store() as store, \
                    Fleet(contract(leased(*HUNDRED), deadline='100ms'), store.url, count=1) as fleet:
                hold(fleet[0])
                wait_for(lambda: fleet[0].metric('weir_lease_held') > 0)
                getattr(store, how)()
                try:
                    fleet[0].process.terminate()
                    self.assertEqual(fleet[0].process.wait(PATIENCE), 0)
                    self.assertRegex(fleet[0].log(), r' level=warn event=leases-returned tokens=0 left=\d+\n')
                finally:
                    store.thaw() if how == 'freeze' else None

    def test_commands_for_each_decision_can_be_computed(self):
        text = contract(leased('rate: 1/d', 'burst: 100000', lease='lease: { most: 4000, chunk: 2000, for: 60s }'))
        with Store() as store, Fleet(text, store.url, count=1) as fleet:
            server = fleet[0]
            count = 2000
            self.assertEqual(decisions(storm([server], count, clients=2)), {'allow': count})
            commands, own = server.metric('weir_store_commands_total'), server.metric('weir_lease_commands_total')
            by_hand = server.metric('weir_lease_decisions_total')
            self.assertLess(commands, count / 10)
            self.assertEqual(server.metric('weir_decisions_total{limit="limit-0",decision="allow"}'), count)
            self.assertGreaterEqual(by_hand, count - (commands - own))
            self.assertGreaterEqual(server.metric('weir_lease_messages_total'), own)
            wait_for(lambda: server.metric('weir_lease_granted_total') == server.metric('weir_lease_spent_total')
                     + server.metric('weir_lease_returned_total') + shown(server, store)['out'])
            self.assertEqual(server.metric('weir_lease_lost_total'), 0)


class WithoutTheStore(unittest.TestCase):
    THOUSAND = ('rate: 1/d', 'burst: 1000')
    CONTRACT = contract(leased(*THOUSAND), deadline='100ms')

    def away(self, store, server, says_leased=True):
        """Have some in hand, and kill the store. Gives what is in hand then: what a look sees."""
        hold(server)
        for _ in range(20):  # who asks for much gets more
            check(server, cost=5)
        wait_for(lambda: server.metric('weir_lease_held') > 3)
        store.kill()
        wait_for(lambda: not is_ready(server))
        wait_for(lambda: not says_leased or check(server, mode='peek')['policy'] == 'leased')
        return check(server, mode='peek')['remaining']

    def test_what_is_in_hand_is_spent_and_then_nothing(self):
        with Store() as store, Fleet(self.CONTRACT, store.url, count=1) as fleet:
            server = fleet[0]
            held = self.away(store, server)
            self.assertGreater(held, 3)
            for left in range(held - 1, -1, -1):
                told = check(server)
                self.assertEqual((told['http'], told['decision'], told['policy'], told['reason'], told['remaining']),
                                 (200, 'allow', 'leased', 'store', left))
                self.assertEqual(told['fields']['weir-degraded'], 'leased')
            for path, status in (('/v1/check', 503), ('/v1/reserve', 503)):
                told = check(server, path=path)
                self.assertEqual((told['http'], told['decision'], told['policy'], told['reason'], told['limit']),
                                 (status, 'refused', 'leased', 'store', 'limit-0'))
                self.assertGreaterEqual(int(told['fields']['retry-after']), 1)
                self.assertEqual(told['fields']['cache-control'], 'no-store')
                self.assertIn("limit 'limit-0' could not be had, and this server has nothing left of its lease", told['detail'])
            self.assertEqual(server.metric('weir_undecided_total{limit="limit-0",policy="leased",reason="store"}'), held + 2)
            store.start()
            wait_for(lambda: check(server, 'probe')['policy'] is None)
            self.assertNotIn('weir-degraded', check(server, 'other')['fields'])

    def test_every_door_says_it(self):
        text = self.CONTRACT + 'identity: { proxies: [127.0.0.1], tenant: header:x-tenant }\n'
        with Store() as store, Fleet(text, store.url, count=1) as fleet:
            server = fleet[0]
            self.assertGreater(self.away(store, server), 3)
            batch = json.dumps({'requests': [{'attributes': {'tenant': 'acme'}}, {'attributes': {'tenant': 'other'}}]})
            results = server.ask('POST', '/v1/check', batch).json['results']
            self.assertEqual([(result['status'], result['decision'], result['policy'], result['reason']) for result in results],
                             [(200, 'allow', 'leased', 'store'), (503, 'refused', 'leased', 'store')])
            plain = server.ask('POST', '/v1/check?status=200', body('other'))
            self.assertEqual((plain.status, plain.json['decision'], plain.json['policy']), (200, 'refused', 'leased'))
            look = check(server, mode='peek')
            self.assertEqual((look['http'], look['policy']), (200, 'leased'))
            for path, refusal in (('/v1/auth', 503), ('/v1/auth-nginx', 503), ('/v1/auth-accel', 503)):
                inside = server.ask('GET', path, headers=[('X-Tenant', 'acme')])
                self.assertEqual((inside.status, inside.fields.get('weir-degraded')), (200, 'leased'), path)
                outside = server.ask('GET', path, headers=[('X-Tenant', 'other')])
                self.assertEqual((outside.status, outside.fields.get('retry-after')), (refusal, '1'), path)

    def test_what_is_not_in_hand_goes_by_the_usual_policy(self):
        text = contract(leased(*self.THOUSAND, fails='open'), deadline='100ms')
        with Store() as store, Fleet(text, store.url, count=1) as fleet:
            server = fleet[0]
            held = self.away(store, server, says_leased=False)
            self.assertGreater(held, 3)
            inside = [check(server) for _ in range(held)]
            self.assertEqual(decisions(inside), {'allow': held})
            told = check(server)
            self.assertEqual((told['http'], told['decision'], told['policy'], told['fields']['weir-degraded']),
                             (200, 'unmetered', 'open', 'open'))


class Reloading(unittest.TestCase):
    def reload(self, server, text):
        with open(server.contract, 'w') as file:
            file.write(text)
        self.assertEqual(server.ask('POST', '/v1/reload', unix='admin.sock').status, 200)

    def test_from_strict_to_leased_and_back(self):
        # A portion is given back after a second without a request.
        with_lease = contract(leased(*HUNDRED, lease='lease: { most: 40, chunk: 20, for: 1s }', fails='closed'))
        strict = contract(leased(*HUNDRED, lease='enforce: always', fails='closed'))
        with Store() as store, Fleet(strict, store.url, count=1) as fleet:
            server = fleet[0]
            spent = len([check(server) for _ in range(5)])
            self.assertEqual(server.metric('weir_lease_messages_total'), 0)
            self.reload(server, with_lease)
            spent += hold(server)
            self.reload(server, with_lease.replace('burst: 100', 'burst: 90'))
            spent += hold(server)
            # On a busy machine a portion may end in between: what was lost is gone.
            wait_for(lambda: check(server, mode='peek')['remaining']
                     == 90 - spent - server.metric('weir_lease_lost_total'))
            self.reload(server, strict)
            messages = server.metric('weir_lease_decisions_total')
            spent += len([check(server) for _ in range(5)])
            self.assertEqual(server.metric('weir_lease_decisions_total'), messages)
            wait_for(lambda: shown(server, store)['out'] == 0)
            told = shown(server, store)
            self.assertEqual(told['granted'], told['spent'] + told['returned'] + told['lost'])
            # What is under way when the contract is strict again is all written off as lost, also what of it was spent and not told.
            left = check(server, mode='peek')['remaining']
            self.assertLessEqual(left, 100 - spent)
            self.assertGreaterEqual(left, 100 - spent - told['lost'])


if __name__ == '__main__':
    unittest.main()
