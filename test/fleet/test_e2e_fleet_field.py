# SPDX-License-Identifier: Apache-2.0
"""The field's failures of limits in a shared store, each by its number, told through `weir serve` and a real Redis.

LABELS: e2e
"""
import itertools
import os
import subprocess
import time
import unittest

from fleet import BUILD, Fleet, check, contract, decisions, shared, storm, wait_for
from fault_proxy import CUT_AFTER, CUT_BEFORE, PASS, FaultProxy
from stores import Store

LEAK = "for _, k in ipairs(redis.call('KEYS', 'weir:1:*')) do if redis.call('PTTL', k) < 0 then return k end end"


def once(fault):
    """A script: the first deciding command meets it, all others pass."""
    faults = iter([fault])
    return lambda command: next(faults, PASS) if command.verb in ('EVALSHA', 'EVAL') else PASS


def budgets(store):
    """The keys of limits, without what weir keeps beside them and about the node itself."""
    return [name for name in store.keys() if not name.endswith(b':incarnation') and b':~' not in name and b':r:' not in name]


class B31(unittest.TestCase):
    """A counter without expiry blocks for ever."""

    WINDOW = 2

    def setUp(self):
        self.store = self.enterContext(Store())

    def text(self, deadline='5s'):
        return contract(shared('algorithm: fixed-window', 'rate: 3/%ds' % self.WINDOW, 'align: first-request'),
                        deadline=deadline)

    def test_B31_a_connection_cut_behind_the_first_write_blocks_nobody(self):
        for fault in (CUT_BEFORE, CUT_AFTER):
            with self.subTest(fault=fault.kind), FaultProxy(self.store) as proxy, \
                    Fleet(self.text(), proxy.url, 1, workers=1) as fleet:
                proxy.script = once(fault)
                first = check(fleet[0], fault.kind)
                self.assertEqual((first['decision'], first['policy'], first['reason']), ('refused', 'closed', 'store'))
                wait_for(lambda: check(fleet[0], 'other', mode='peek')['decision'] == 'allow')
                self.assertEqual(self.store.keys_without_expiry(), [], 'not even now')
                # The window may end meanwhile, on a busy machine; then the next one is used up.
                wait_for(lambda: check(fleet[0], fault.kind)['decision'] == 'deny')
                for _ in range(2):
                    time.sleep(self.WINDOW + 0.1)
                    self.assertEqual(check(fleet[0], fault.kind)['decision'], 'allow', 'a window later')

    def test_B31_a_counter_that_somebody_left_without_expiry_heals(self):
        with Fleet(self.text(), self.store.url, 1) as fleet:
            check(fleet[0], 'k')
            name, = budgets(self.store)
            for what, plant in (('our own value, its expiry taken away', lambda: self.store.command('PERSIST', name)),
                                ('99, by another program', lambda: self.store.command('SET', name, 99))):
                with self.subTest(planted=what):
                    plant()
                    check(fleet[0], 'k')
                    time.sleep(self.WINDOW + 0.1)
                    self.assertEqual(check(fleet[0], 'k')['decision'], 'allow')
                    self.assertEqual(self.store.keys_without_expiry(), [])

    def test_B31_in_ten_thousand_requests_no_key_is_ever_without_expiry(self):
        text = contract(('when: { path: [/f, /s, /l] }', *shared('algorithm: fixed-window', 'rate: 1000/1m')),
                        ('when: { path: /b }', *shared('rate: 100/s', 'burst: 100')),
                        ('when: { path: /s }', *shared('algorithm: sliding-window', 'rate: 100/1s')),
                        ('when: { path: /l }', *shared('algorithm: sliding-log', 'rate: 20/1s')))
        leaks, paths = [], itertools.cycle(('/b', '/s', '/l', '/f'))
        admin = self.store.client()

        def watch(command):  # between any two commands: the proxy asks before it passes one on
            found = admin.command('EVAL', LEAK, 0)
            if found:
                leaks.append((found, command.words[:4]))
            return PASS

        with FaultProxy(self.store) as proxy, Fleet(text, proxy.url, 1) as fleet:
            proxy.script = watch
            with fleet[0].connect() as connection:
                batch = ','.join('{"attributes":{"tenant":"t%d","path":"%s"}}' % (i % 7, next(paths)) for i in range(500))
                for _ in range(20):
                    reply = connection.ask('POST', '/v1/check', '{"requests":[%s]}' % batch)
                    self.assertEqual(reply.status, 200, reply.text)
            self.assertGreater(proxy.count('EVALSHA', 'executed'), 2000)
        admin.close()
        self.assertEqual(leaks, [])


class B33(unittest.TestCase):
    def test_B33_limits_faster_than_a_second_hold_and_leave_nothing(self):
        limits = [('fast', ('rate: 3/s', 'burst: 1'), 1, 100),
                  ('thousand', ('algorithm: fixed-window', 'rate: 1000/1s'), 1000, 1300),
                  ('quarter', ('algorithm: sliding-log', 'rate: 5/250ms'), 5, 60),
                  ('milli', ('algorithm: sliding-window', 'rate: 1/1ms'), None, 20)]
        text = contract(*[('name: ' + name, 'when: { path: /%s }' % name, *shared(*fields))
                          for name, fields, _, _ in limits])
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            for name, _, admitted, asked in limits:
                for when in ('at first', 'after idling'):
                    with self.subTest(limit=name, when=when):
                        item = '{"attributes":{"tenant":"k","path":"/%s"}}' % name
                        began = time.monotonic()
                        reply = fleet[0].ask('POST', '/v1/check', '{"requests":[%s]}' % ','.join([item] * min(asked, 1000)))
                        results = reply.json['results']
                        took = time.monotonic() - began
                        counted = decisions(results)
                        self.assertEqual(set(counted) - {'allow', 'deny'}, set())
                        if admitted is not None:
                            more = {'fast': 3 * took, 'thousand': 1000 * (took > 0), 'quarter': 5 * (took / 0.25 + 1)}[name]
                            self.assertGreaterEqual(counted['allow'], min(admitted, len(results)))
                            self.assertLessEqual(counted['allow'], admitted + more)
                    self.assertEqual(store.keys_without_expiry(), [])
                    time.sleep(1.1)
            wait_for(lambda: budgets(store) == [])


class B35(unittest.TestCase):
    DAMAGE = [
        ('text', lambda s, k: s.command('SET', k, 'hello')),
        ('nothing', lambda s, k: s.command('SET', k, '')),
        ('a list', lambda s, k: (s.command('DEL', k), s.command('RPUSH', k, 'a', 'b'))),
        ('a set', lambda s, k: (s.command('DEL', k), s.command('SADD', k, 'a'))),
        ('random bytes', lambda s, k: s.command('SET', k, os.urandom(32))),
        ('a number of forty digits', lambda s, k: s.command('SET', k, '9' * 40)),
        ('a hash of nonsense', lambda s, k: (s.command('DEL', k), s.command('HSET', k, 'u', 'x', 'l', '1e999', '', 'nan'))),
        ('a sorted set', lambda s, k: (s.command('DEL', k), s.command('ZADD', k, '1e308', 'x'))),
    ]
    SHAPES = [
        ('bucket', ('rate: 2/1s', 'burst: 2')),
        ('fixed', ('algorithm: fixed-window', 'rate: 2/1s')),
        ('sliding', ('algorithm: sliding-window', 'rate: 2/1s')),
        ('log', ('algorithm: sliding-log', 'rate: 2/1s')),
    ]

    def test_B35_a_foreign_or_damaged_value_stops_nobody_for_long(self):
        text = contract(*[('name: ' + name, 'when: { path: /%s }' % name, *shared(*fields)) for name, fields in self.SHAPES])
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            for shape, _ in self.SHAPES:
                path = {'path': '/' + shape}
                for what, damage in self.DAMAGE:
                    with self.subTest(shape=shape, damage=what):
                        store.command('FLUSHDB')
                        check(fleet[0], 'k', attributes=path)
                        name, = budgets(store)
                        damage(store, name)
                        before = fleet[0].metric('weir_store_damaged_keys_total')
                        first = check(fleet[0], 'k', attributes=path)
                        self.assertIn(first['decision'], ('allow', 'deny', 'refused'))
                        self.assertEqual(check(fleet[0], 'other', attributes=path)['decision'], 'allow')
                        self.assertEqual(fleet[0].metric('weir_store_damaged_keys_total'), before + 1)
                        wait_for(lambda: check(fleet[0], 'k', attributes=path)['decision'] == 'allow')
                        self.assertEqual(fleet[0].metric('weir_store_damaged_keys_total'), before + 1, 'it was repaired')
                        self.assertEqual(store.keys_without_expiry(), [])

    def test_B35_permits(self):
        text = contract(shared('algorithm: concurrency', 'at-most: 2', 'hold: 1s'))
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            for what, damage in self.DAMAGE:
                with self.subTest(damage=what):
                    store.command('FLUSHDB')
                    check(fleet[0], 'k', path='/v1/acquire')
                    for name in budgets(store):
                        damage(store, name)
                    self.assertIn(check(fleet[0], 'k', path='/v1/acquire')['decision'], ('allow', 'deny', 'refused'))
                    self.assertEqual(check(fleet[0], 'other', path='/v1/acquire')['decision'], 'allow')
                    wait_for(lambda: check(fleet[0], 'k', path='/v1/acquire')['decision'] == 'allow')


class B37(unittest.TestCase):
    def test_B37_a_lost_script_cache_and_a_lost_reply_count_nothing_twice(self):
        text = contract(shared('algorithm: fixed-window', 'rate: 10/1h', 'align: first-request'), deadline='400ms')
        with Store() as store, Store(replica_of=store) as replica, FaultProxy(store) as proxy, \
                Fleet(text, proxy.url, 1, workers=1) as fleet:
            def step(number, left):
                answer = check(fleet[0], 'k')
                self.assertEqual((answer['decision'], answer.get('remaining')), ('allow', left), f'check {number}: {answer}')

            wait_for(lambda: replica.info('replication').get('master_link_status') == 'up')
            for number in range(1, 5):
                step(number, 10 - number)
            store.command('SCRIPT', 'FLUSH')
            step(5, 5)

            # The replica is asked while it still is one, and then promoted. Its script cache is empty.
            wait_for(lambda: replica.info('replication')['slave_repl_offset'] == store.info('replication')['master_repl_offset'])
            proxy.target = replica.port
            proxy.cut()
            answer = check(fleet[0], 'k')
            self.assertEqual((answer['decision'], answer['policy'], answer['http']), ('refused', 'closed', 503))
            replica.command('REPLICAOF', 'NO', 'ONE')
            self.assertEqual(replica.command('SCRIPT', 'EXISTS', '0' * 40), [0])
            wait_for(lambda: check(fleet[0], 'k', mode='peek')['decision'] == 'allow')
            step(6, 4)

            # The store does check 7 and the reply is lost: it is not asked again.
            before = proxy.count('EVALSHA', 'executed') + proxy.count('EVAL', 'executed')
            proxy.script = once(CUT_AFTER)
            self.assertEqual(check(fleet[0], 'k')['decision'], 'refused')
            self.assertEqual(proxy.count('EVALSHA', 'executed') + proxy.count('EVAL', 'executed'), before + 1)
            wait_for(lambda: check(fleet[0], 'k', mode='peek')['decision'] == 'allow')
            step(8, 2)

            # Loading scripts is forbidden.
            replica.command('ACL', 'SETUSER', 'default', '-script')
            proxy.cut()
            wait_for(lambda: check(fleet[0], 'k', mode='peek')['decision'] == 'allow')
            step(9, 1)


class B59(unittest.TestCase):
    """Each process has its own quota."""

    LIMIT = ('algorithm: fixed-window', 'rate: 10/1h', 'align: first-request')

    def setUp(self):
        self.store = self.enterContext(Store())

    def test_B59_a_three_nodes_share_ten(self):
        with Fleet(contract(shared(*self.LIMIT)), self.store.url, 3) as fleet:
            answers = [check(fleet[i % 3], 'k') for i in range(60)]
            self.assertEqual(decisions(answers), {'allow': 10, 'deny': 50})
            left = [a['remaining'] for a in answers]
            self.assertEqual(left, sorted(left, reverse=True), '`remaining` never rises')

    def test_B59_b_without_a_shared_limit_each_has_ten_and_the_contract_says_so(self):
        with Fleet(contract((*self.LIMIT, 'key: [tenant]')), None, 3, is_ready=False) as fleet:
            self.assertEqual(decisions(check(fleet[i % 3], 'k') for i in range(60)), {'allow': 30, 'deny': 30})
            told = subprocess.run([os.path.join(BUILD, 'weir'), 'explain', fleet[0].contract, '--replicas', '3'],
                                  capture_output=True, text=True, check=True).stdout
            self.assertRegex(told, r'shared +each process counts by itself')
            self.assertRegex(told, r'3 replicas +admit 60 at once \(around an edge\)')

    def outage(self, fails):
        """Six requests, then the store goes, then requests up to the 40th, then it is back; gives the three parts.

        The case cuts at request 13, when the ten are known to be used up; cut there, no policy is asked (below)."""
        with FaultProxy(self.store) as proxy, Fleet(contract(shared(*self.LIMIT, fails=fails)), proxy.url, 3) as fleet:
            parts = [[check(fleet[i % 3], 'k') for i in range(6)]]
            proxy.down()
            parts.append([check(fleet[i % 3], 'k') for i in range(6, 39)])
            lines = [server.log().count('event=store') for server in fleet.servers]
            proxy.up()
            wait_for(lambda: all(check(s, 'other', mode='peek')['policy'] is None for s in fleet.servers))
            parts.append([check(fleet[i % 3], 'k') for i in range(39, 60)])
            self.assertLess(max(lines), 8, 'an outage is told once, not for each request')
            return parts

    def test_B59_c_d_closed(self):
        before, during, after = self.outage('closed')
        self.assertEqual(decisions(before), {'allow': 6})
        self.assertEqual(decisions(during), {'refused': 33})
        self.assertEqual({(a['http'], a['policy'], a['reason']) for a in during}, {(503, 'closed', 'store')})
        self.assertEqual(decisions(after), {'allow': 4, 'deny': 17}, 'ten in all')

    def test_B59_c_d_open(self):
        before, during, after = self.outage('open')
        self.assertEqual(decisions(during), {'unmetered': 33})
        self.assertEqual({(a['http'], a['policy'], a['reason']) for a in during}, {(200, 'open', 'store')})
        self.assertTrue(all('weir-degraded' in a['fields'] for a in during), 'each is marked')
        self.assertEqual(decisions(before + after)['allow'], 10, 'no fresh ten')

    def test_B59_c_d_a_local_share(self):
        before, during, after = self.outage('{ local: 1/3 }')
        by_node = [decisions(during[i::3]) for i in range(3)]
        self.assertEqual([counted['allow'] for counted in by_node], [3, 3, 3], 'each its share, rounded down')
        self.assertEqual({a['policy'] for a in during if a['decision'] == 'allow'}, {'local'})
        # Nine were spent locally, and are charged: the four that were left in the store are gone.
        self.assertEqual(decisions(after)['allow'], 0, decisions(after))
        total = decisions(before + during + after)['allow']
        self.assertLessEqual(total, 10 + 9)

    def test_B59_what_is_known_to_be_used_up_needs_no_store(self):
        for fails in ('closed', 'open', '{ local: 1/3 }'):
            with self.subTest(fails=fails), FaultProxy(self.store) as proxy, \
                    Fleet(contract(shared(*self.LIMIT, fails=fails)), proxy.url, 3) as fleet:
                self.store.command('FLUSHALL')
                for i in range(13):
                    last = check(fleet[i % 3], 'k')
                self.assertEqual(last['decision'], 'deny')
                for i in range(13, 16):
                    check(fleet[i % 3], 'k')
                proxy.down()
                self.assertEqual(decisions(check(fleet[i % 3], 'k') for i in range(30)), {'deny': 30})


class B61(unittest.TestCase):
    """What is known locally decides as the store would."""

    CAPACITY = 10

    def test_B61_every_count_and_cost_decides_as_without_a_cache(self):
        text = contract(shared('algorithm: fixed-window', 'rate: 10/1h', 'align: first-request',
                               'cost: { from: size, default: 1, max: 20 }'))
        with Store() as store, Fleet(text, store.url, 2, workers=1) as fleet:
            for used, costs in itertools.product(range(self.CAPACITY + 1), itertools.product((1, 2, 3, 11), repeat=4)):
                if sum(costs) % 3 != used % 3:  # a third of them: each pair of cost and count is still there
                    continue
                tenant = f"u{used}-{'-'.join(map(str, costs))}"
                if used:
                    self.assertEqual(check(fleet[1], tenant, attributes={'size': str(used)})['decision'], 'allow')
                level = used
                for cost in costs:
                    answer = check(fleet[0], tenant, attributes={'size': str(cost)})
                    fits = level + cost <= self.CAPACITY
                    expected = 'allow' if fits else 'never' if cost > self.CAPACITY else 'deny'
                    level += cost if fits else 0
                    self.assertEqual(answer['decision'], expected, f'{tenant}: cost {cost} at {level}')
            self.assertGreater(fleet.metric('weir_store_known_refusals_total'), 0, 'something was decided by what was known')

    def test_B61_it_ends_with_the_window_and_at_another_contract(self):
        text = contract(shared('algorithm: fixed-window', 'rate: 3/2s', 'align: first-request'))
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            with self.subTest('the window ends'):
                began = time.monotonic()
                answers = [check(fleet[0], 'k') for _ in range(10)]
                self.assertEqual(decisions(answers), {'allow': 3, 'deny': 7})
                time.sleep(max(0, began + 2.1 - time.monotonic()))
                self.assertEqual(check(fleet[0], 'k')['decision'], 'allow')
            with self.subTest('a larger limit'):
                for _ in range(4):
                    last = check(fleet[0], 'j')
                self.assertEqual(last['decision'], 'deny')
                with open(fleet[0].contract, 'w') as file:
                    file.write(text.replace('3/2s', '4/2s'))
                reply = fleet[0].ask('POST', '/v1/reload', unix='admin.sock')
                self.assertEqual(reply.status, 200, reply.text)
                self.assertIn('allow', [check(fleet[0], 'j')['decision'] for _ in range(2)])


if __name__ == '__main__':
    unittest.main()
