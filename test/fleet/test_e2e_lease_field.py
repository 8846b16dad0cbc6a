# SPDX-License-Identifier: Apache-2.0
"""The field's failures of limits that are known in part locally, each by its number, told with replicas that hold portions.

LABELS: e2e
"""
import itertools
import os
import time
import unittest

from fleet import Fleet, check, contract, decisions, leased, leases, shared, storm, wait_for
from fault_proxy import CUT_AFTER, PASS, FaultProxy
from stores import Store

# Nothing comes back while a test runs.
TEN = (('algorithm: fixed-window', 'rate: 10/52w'), ('rate: 10/52w', 'burst: 10'))
SIZES = 'cost: { from: size, default: 1, max: 100 }'


def reload(server, text):
    with open(server.contract, 'w') as file:
        file.write(text)
    reply = server.ask('POST', '/v1/reload', unix='admin.sock')
    assert reply.status == 200, reply.text


class B61(unittest.TestCase):
    """The locally cached path decides differently at the limit."""

    LEASES = (1, 2, 3, 10)

    def test_B61_leases_of_1_2_3_10_at_shared_counts_0_to_10_with_costs_1_2_3(self):
        """One node that holds portions, a shared count that another node made: each decision equals the one without leases."""
        limits = [(f'name: {kind}-{chunk}', f'when: {{ path: /{kind}-{chunk} }}',
                   *leased(*fields, SIZES, most=10, chunk=chunk, lasts='60s'))
                  for kind, fields in zip(('window', 'bucket'), TEN) for chunk in self.LEASES]
        with Store() as store, Fleet(contract(*limits), store.url, 2, workers=1) as fleet:
            for kind, chunk, count in itertools.product(('window', 'bucket'), self.LEASES, range(11)):
                path = f'/{kind}-{chunk}'
                for number, costs in enumerate(((1,), (2,), (3,), (1, 2, 3), (3, 1, 1), (2, 3, 1))):
                    tenant = f'{chunk}-{count}-{number}'
                    if count:
                        made = check(fleet[1], tenant, attributes={'path': path, 'size': str(count)})
                        self.assertEqual(made['decision'], 'allow')
                    level, answers = count, []
                    for cost in itertools.islice(itertools.cycle(costs), 12):
                        told = check(fleet[0], tenant, attributes={'path': path, 'size': str(cost)})
                        fits = level + cost <= 10
                        level += cost if fits else 0
                        answers.append((cost, told['decision']))
                        self.assertEqual(told['decision'], 'allow' if fits else 'deny',
                                         f'{path} from {count}: {answers}, at {level}')
                        if told['decision'] == 'allow':
                            self.assertLessEqual(told['remaining'], 10 - level, 'no more is promised than there is')
            by_hand = fleet[0].metric('weir_lease_decisions_total')
            self.assertGreater(by_hand, 300, 'it is the hand that decided')

    def test_B61_the_same_answer_from_the_store_and_from_the_hand_says_the_same(self):
        """r1 by the store, r2 and r3 out of the hand, at a count of 7: two left, one left, none left, refused."""
        text = contract(leased(*TEN[0], SIZES, most=10, chunk=10, lasts='60s'))
        with Store() as store, Fleet(text, store.url, 2, workers=1) as fleet:
            check(fleet[1], 'k', attributes={'size': '6'})
            answers = [check(fleet[0], 'k') for _ in range(5)]
            self.assertEqual([a['decision'] for a in answers], ['allow'] * 4 + ['deny'])
            self.assertEqual([a['capacity'] for a in answers], [10] * 5)
            self.assertEqual(answers[3]['remaining'], 0)
            retry = answers[4]['retry_after']
            again = check(fleet[0], 'k')
            self.assertLessEqual(again['retry_after'], retry, 'it is the end of the window, and comes nearer')
            self.assertEqual(check(fleet[1], 'k')['decision'], 'deny')


class B59(unittest.TestCase):
    """Each process has its own quota."""

    def test_B59_a_three_nodes_that_hold_portions_share_ten(self):
        for fields in TEN:
            for most, chunk in ((1, 1), (3, 1), (6, 2), (10, 10)):
                with self.subTest(limit=fields, most=most, chunk=chunk), Store() as store, \
                        Fleet(contract(leased(*fields, most=most, chunk=chunk, lasts='1s')), store.url, 3) as fleet:
                    answers = [check(fleet[i % 3], 'k') for i in range(60)]
                    counted = decisions(answers)
                    self.assertLessEqual(counted['allow'], 10)
                    self.assertGreaterEqual(counted['allow'], 10 - most)
                    # What nobody asks for any more goes back, and then it is ten, and never eleven.
                    time.sleep(1.6)
                    passed = counted['allow'] + decisions(check(fleet[i % 3], 'k') for i in range(60)).get('allow', 0)
                    self.assertLessEqual(passed, 10)
                    self.assertGreaterEqual(passed, 10 - leases(fleet[0], store.url).get('k', {'lost': 0})['lost'])

    def test_B59_c_d_cut_and_back_no_fresh_ten(self):
        for fails, admits in (('leased', 0), ('closed', 0), ('{ local: 1/3 }', 9)):
            text = contract(leased(*TEN[0], most=6, chunk=2, lasts='30s', fails=fails))
            with self.subTest(fails=fails), Store() as store, FaultProxy(store) as proxy, Fleet(text, proxy.url, 3) as fleet:
                answers = [check(fleet[i % 3], 'k') for i in range(6)]
                proxy.down()
                during = [check(fleet[i % 3], 'k') for i in range(6, 39)]
                lines = [server.log().count('event=store') for server in fleet.servers]
                proxy.up()
                wait_for(lambda: all(check(s, 'other', mode='peek')['policy'] is None for s in fleet.servers))
                time.sleep(0.3)
                after = [check(fleet[i % 3], 'k') for i in range(39, 69)]
                total = decisions(answers + during + after)['allow']
                local = sum(a['decision'] == 'allow' and a['policy'] == 'local' for a in during)
                self.assertLessEqual(total - local, 10)
                self.assertLessEqual(local, admits)
                self.assertLess(max(lines), 8, 'an outage is told once')
                if fails == 'leased':
                    kinds = {(a['decision'], a['policy']) for a in during}
                    self.assertLessEqual(kinds, {('allow', None), ('allow', 'leased'), ('refused', 'leased')})


class B31(unittest.TestCase):
    LEAK = "for _, k in ipairs(redis.call('KEYS', 'weir:1:*')) do if redis.call('PTTL', k) < 0 then return k end end"

    def test_B31_no_key_of_a_lease_is_ever_without_expiry(self):
        text = contract(('when: { path: /b }', *leased('rate: 100/s', 'burst: 100', most=40, chunk=10, lasts='300ms')),
                        ('when: { path: /f }', *leased('algorithm: fixed-window', 'rate: 100/1s', most=40, chunk=10, lasts='300ms')))
        leaks = []
        with Store() as store, FaultProxy(store) as proxy, Fleet(text, proxy.url, 2) as fleet:
            admin = store.client()

            def watch(command):  # between any two commands
                found = admin.command('EVAL', self.LEAK, 0)
                if found:
                    leaks.append((found, command.words[:4]))
                return PASS

            proxy.script = watch
            for _ in range(5):
                for path in ('/b', '/f'):
                    storm(fleet.servers, 60, 2, tenant=lambda n: f't{n % 3}', attributes={'path': path})
                time.sleep(0.2)
            proxy.script = lambda command: PASS
            admin.close()
            self.assertEqual(leaks, [])
            wait_for(lambda: [k for k in store.keys() if b'tenant' in k] == [])  # all of it is forgotten in time


class B35(unittest.TestCase):
    """A foreign or damaged value under a limiter's key: of who holds what, too."""

    DAMAGE = [
        ('text', lambda s, k: (s.command('DEL', k), s.command('SET', k, 'hello'))),
        ('a list', lambda s, k: (s.command('DEL', k), s.command('RPUSH', k, 'a', 'b'))),
        ('a hash of nonsense', lambda s, k: (s.command('DEL', k), s.command('HSET', k, 't', 'x', '0' * 16, '1e999', '', 'nan'))),
        ('records cut off', lambda s, k: [s.command('HSET', k, f, s.command('HGET', k, f)[:7]) for f in s.command('HKEYS', k)]),
        ('random bytes', lambda s, k: [s.command('HSET', k, f, os.urandom(60)) for f in s.command('HKEYS', k)]),
        ('no totals', lambda s, k: s.command('HDEL', k, 't')),
        ('totals alone', lambda s, k: [s.command('HDEL', k, f) for f in s.command('HKEYS', k) if f != b't']),
        ('gone', lambda s, k: s.command('DEL', k)),
    ]

    def test_B35_damage_to_what_is_held_stops_nobody_for_long(self):
        rate = 40
        text = contract(leased(f'rate: {rate}/s', 'burst: 40', most=20, chunk=8, lasts='300ms'))
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            for of, suffix in (('the budget', ''), ('its holders', ':l:holders')):
                for what, damage in self.DAMAGE:
                    if of == 'the budget' and what in ('records cut off', 'random bytes', 'no totals', 'totals alone'):
                        continue  # it is no hash
                    with self.subTest(of=of, damage=what):
                        tenant = f'{suffix[-1:]}{what.replace(" ", "-")}'
                        began = time.monotonic()
                        passed = decisions(storm([fleet[0]], 20, 2, tenant=tenant))['allow']
                        self.assertEqual(passed, 20)
                        names = [k for k in store.keys() if tenant.encode() in k]
                        name, = [k for k in names if k.endswith(b':l:holders') == bool(suffix)]
                        damage(store, name)
                        told = storm([fleet[0]], 60, 2, tenant=tenant)
                        self.assertLessEqual(set(decisions(told)), {'allow', 'deny', 'refused'})
                        self.assertEqual(check(fleet[0], 'other')['decision'], 'allow')
                        # One key's loss: at most another burst of it.
                        passed += decisions(told)['allow']
                        self.assertLessEqual(passed, 2 * 40 + rate * (time.monotonic() - began))
                        wait_for(lambda: check(fleet[0], tenant)['decision'] == 'allow')
                        wait_for(lambda: store.keys_without_expiry() == [])
                        wait_for(lambda: check(fleet[0], tenant, mode='peek')['remaining'] == 40)


class B37(unittest.TestCase):
    def test_B37_a_lost_script_cache_and_a_lost_reply_count_nothing_twice(self):
        text = contract(leased(*TEN[0], most=4, chunk=2, lasts='60s'), deadline='2s')
        with Store() as store, FaultProxy(store) as proxy, Fleet(text, proxy.url, 1, workers=1) as fleet:
            answers = []
            faults = iter([CUT_AFTER])

            def script(command):
                if any(word.endswith(b':l:holders') for word in command.words):
                    return next(faults, PASS)
                return PASS

            for number in range(14):
                if number == 2:
                    store.command('SCRIPT', 'FLUSH')
                if number == 3:
                    proxy.script = script
                if number == 5:
                    store.command('SCRIPT', 'FLUSH')
                answers.append(check(fleet[0], 'k')['decision'])
                time.sleep(0.15)
            wait_for(lambda: check(fleet[0], 'other', mode='peek')['policy'] is None)
            time.sleep(0.5)
            answers += [check(fleet[0], 'k')['decision'] for _ in range(10)]
            counted = decisions({'decision': a} for a in answers)
            self.assertLessEqual(counted['allow'], 10, answers)
            self.assertGreaterEqual(counted['allow'] + counted.get('refused', 0), 10, answers)
            self.assertEqual(leases(fleet[0], store.url)['k']['lost'], 0)


class B54(unittest.TestCase):
    """Every reload hands out a full burst."""

    def test_B54_reloads_with_portions_out_hand_out_nothing(self):
        def text(limit, lease='lease: { most: 40, chunk: 10, for: 5s }'):
            return contract((*limit, 'key: [tenant]', 'scope: fleet', 'when-store-fails: closed', lease))
        for limit in (('rate: 100/52w', 'burst: 100'), ('algorithm: fixed-window', 'rate: 100/52w')):
            same, other = text(limit), text(limit, 'lease: { most: 8, chunk: 2, for: 1s }')
            strict = text(limit, 'enforce: always')
            for i, contracts in enumerate(((same,), (same, other), (same, strict), (strict, other, same))):
                with self.subTest(limit=limit, contracts=i), Store() as store, Fleet(same, store.url, 3) as fleet:
                    passed, turns = 0, itertools.cycle(contracts)
                    for _ in range(6):
                        passed += decisions(storm(fleet.servers, 8, 2)).get('allow', 0)
                        now = next(turns)
                        for server in fleet.servers:
                            reload(server, now)
                    for server in fleet.servers:
                        reload(server, strict)
                    passed += decisions(storm(fleet.servers, 60, 2)).get('allow', 0)
                    self.assertLessEqual(passed, 100)
                    self.assertGreaterEqual(passed, 100 - 40, 'at most what is out is missing')


class B56(unittest.TestCase):
    """New limits do not reach keys that exist already."""

    def test_B56_a_smaller_burst_reaches_a_key_that_is_held(self):
        def text(burst):
            return contract(leased('rate: 100/52w', f'burst: {burst}', most=20, chunk=10, lasts='2s'))
        with Store() as store, Fleet(text(100), store.url, 2) as fleet:
            passed = decisions(storm(fleet.servers, 10, 2))['allow']
            self.assertEqual(passed, 20)
            for server in fleet.servers:
                reload(server, text(40))
            # What is out ends under the old terms: `most` of before.
            passed += decisions(storm(fleet.servers, 60, 2)).get('allow', 0)
            self.assertLessEqual(passed, 40 + 20)
            self.assertGreaterEqual(passed, 40 - 20)
            for server in fleet.servers:
                reload(server, text(100))
            time.sleep(2.2)
            passed += decisions(storm(fleet.servers, 100, 2)).get('allow', 0)
            self.assertLessEqual(passed, 100)
            self.assertGreaterEqual(passed, 80)


class B57(unittest.TestCase):
    """One limit refuses, the others have been debited already."""

    def test_B57_what_a_strict_limit_refuses_takes_nothing_out_of_the_hand(self):
        text = contract(('name: each', *shared('rate: 1/52w', 'burst: 1', key='[user]')),
                        ('name: all', *leased('rate: 10/52w', 'burst: 10', most=4, chunk=2, lasts='60s')))
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            def ask(user):
                return check(fleet[0], 'k', attributes={'user': user})

            self.assertEqual([ask('u1')['decision'] for _ in range(20)], ['allow'] + ['deny'] * 19)
            rest = [ask(f'u{i}')['decision'] for i in range(2, 14)]
            self.assertEqual(rest, ['allow'] * 9 + ['deny'] * 3)
            # And who was refused for want of all has not lost its own.
            look = check(fleet[0], 'k', mode='peek', attributes={'user': 'u12'})
            self.assertEqual({e['limit']: e['remaining'] for e in look['limits']}, {'each': 1, 'all': 0})

    def test_B57_what_a_limit_of_this_process_refuses_takes_nothing_either(self):
        text = contract(('name: own', 'rate: 1/52w', 'burst: 3', 'key: [tenant]'),
                        ('name: all', *leased('rate: 10/52w', 'burst: 10', most=4, chunk=4, lasts='60s')))
        with Store() as store, Fleet(text, store.url, 3) as fleet:
            passed = decisions(check(fleet[i % 3], 'k') for i in range(60))['allow']
            self.assertLessEqual(passed, 9, 'three at each')
            self.assertGreaterEqual(passed, 10 - 4, 'at most what may be stranded is missing')
            for server in fleet.servers:  # who ends gives back
                server.process.terminate()
            for server in fleet.servers:
                server.process.wait()
            told = leases(fleet[0], store.url, 'all').get('k')
            if told:
                self.assertEqual(told['out'], 0)
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            answers = [check(fleet[0], 'k') for _ in range(30)]
            self.assertEqual(decisions(answers), {'allow': 3, 'deny': 27})
            look = check(fleet[0], 'k', mode='peek')
            self.assertEqual({e['limit']: e['remaining'] for e in look['limits']}.get('all', 7), 7, 'three were charged')


class B23(unittest.TestCase):
    """Refused attempts extend the block."""

    def test_B23_hammering_an_empty_budget_that_is_leased_takes_nothing(self):
        text = contract(leased('rate: 10/s', 'burst: 10', most=5, chunk=3, lasts='400ms'))
        with Store() as store, Fleet(text, store.url, 2) as fleet:
            began = time.monotonic()
            passed = refused = 0
            while time.monotonic() < began + 3:
                counted = decisions(storm(fleet.servers, 20, 2))
                passed, refused = passed + counted.get('allow', 0), refused + counted.get('deny', 0)
            took = time.monotonic() - began
            self.assertGreater(refused, 200)
            self.assertLessEqual(passed, 10 + 10 * took)
            self.assertGreaterEqual(passed, 10 + 10 * (took - 0.5) - 5, 'the rate is there for those who hammer')


if __name__ == '__main__':
    unittest.main()
