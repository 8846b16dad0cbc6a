# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to messages about leases, to who holds portions and to the store: nothing is admitted on top, and what is wasted is
what `weir explain` says.

LABELS: e2e slow
"""
import math
import threading
import time
import unittest

from fleet import Fleet, answer_of, body, check, contract, decisions, explained, leased, leases, storm, wait_for
from fault_proxy import (CUT_AFTER, CUT_BEFORE, CUT_INSIDE, PASS, STALL_AFTER, STALL_BEFORE, TWICE, FaultProxy, answer, astray,
                         echo, late, random_faults, slow)
from lease_load import Load, most_above
from stores import Store

CAPACITY, MOST, CHUNK = 100, 40, 20
# Nothing comes back while a test runs, so counts are exact.
BUCKET = (f'rate: {CAPACITY}/52w', f'burst: {CAPACITY}')
WINDOW = ('algorithm: fixed-window', f'rate: {CAPACITY}/52w')


def is_about_leases(command):
    return command.verb in ('EVALSHA', 'EVAL') and any(word.endswith(b':l:holders') for word in command.words)


def hold(server, tenant='acme', least=5):
    """Ask until so much is in hand, as far as what a request out of the hand says. Gives how many passed."""
    for passed in range(1, CAPACITY + 1):
        told = check(server, tenant)
        assert told['decision'] == 'allow', told
        if passed > 2 and least <= told['remaining'] < CHUNK:
            return passed
    raise AssertionError(f'it never holds {least} of {tenant}')


def take_all(servers, tenant='acme'):
    """Ask each until it has nothing, again until none has; gives how many passed. A portion that is on its way is in nobody's hand
    for a moment, so a pass without any is repeated."""
    passed, dry = 0, 0
    while dry < 3:
        before = passed
        for server in servers:
            while check(server, tenant)['decision'] == 'allow':
                passed += 1
        dry = dry + 1 if passed == before else 0
        if dry > 0:
            time.sleep(0.1)
    return passed


def books(server, store, tenant='acme'):
    """The store's, which always add up."""
    told = leases(server, store.url)[tenant]
    assert told['granted'] == told['out'] + told['spent'] + told['returned'] + told['lost'], told
    assert told['out'] == sum(holder['left'] for holder in told['holders']) <= MOST, told
    return told


class Messages(unittest.TestCase):
    """P35: lost, doubled, late and reordered."""

    def setUp(self):
        self.store = self.enterContext(Store())

    def test_P35_one_message_meets_each_fault(self):
        rows = [  # fault, why
            (CUT_BEFORE, 'it is sent again, and is the first that comes'),
            (CUT_AFTER, 'the portion was granted; sent again, the same is granted'),
            (CUT_INSIDE, 'half an answer is none'),
            (TWICE, 'the second is answered as the first, and changes nothing'),
            (echo(0.05), 'it comes once more, between others'),
            (echo(0.7), 'it comes once more, long after others'),
            (astray(0.05), 'it comes when it was sent again, or just before'),
            (astray(0.7), 'it comes when it was long answered'),
            (late(0.4), 'answered when it was given up'),
            (slow(0.4), 'and done when it was given up'),
            (STALL_BEFORE, 'the connection is of no use any more'),
            (STALL_AFTER, 'and it was done'),
            (answer('BUSY running a script'), 'a store that cannot serve'),
            (answer('NOSCRIPT No matching script.'), 'sent whole'),
            (answer('ERR whatever'), 'a reply that says nothing'),
        ]
        for fields, nth in ((BUCKET, 0), (WINDOW, 2)):
            text = contract(leased(*fields, most=MOST, chunk=CHUNK, lasts='20s'), deadline='600ms')
            for number, (fault, why) in enumerate(rows):
                with self.subTest(limit=fields, fault=fault.kind, seconds=fault.seconds, message=nth, why=why), \
                        FaultProxy(self.store) as proxy, Fleet(text, proxy.url, 1, workers=1) as fleet:
                    seen = iter(range(1000))
                    proxy.script = lambda command: fault if is_about_leases(command) and next(seen) == nth else PASS
                    tenant = f'f{len(fields[0])}-{number}-{nth}'
                    passed, unknown = 0, 0
                    for _ in range(CAPACITY + 30):
                        decision = check(fleet[0], tenant)['decision']
                        passed += decision == 'allow'
                        unknown += decision == 'refused'
                        time.sleep(0.002)
                    if unknown or passed < CAPACITY:  # the connection was lost with a decision, or a portion was under way
                        proxy.script = lambda command: PASS
                        wait_for(lambda: check(fleet[0], 'other', mode='peek')['policy'] is None)
                        time.sleep(0.6)
                        passed += take_all(fleet.servers, tenant)
                    self.assertLessEqual(passed, CAPACITY)
                    self.assertGreaterEqual(passed, CAPACITY - unknown, 'nothing is wasted: all of it was sent again')
                    self.assertEqual(proxy.faults().get(fault.kind), 1)
                    time.sleep(max(0, fault.seconds - 0.4))
                    told = books(fleet[0], self.store, tenant)
                    self.assertEqual(told['lost'], 0)
        self.assertEqual(self.store.keys_without_expiry(), [])

    WEIGHTS = {PASS: 300, late(0.02): 10, late(0.4): 4, slow(0.02): 10, slow(0.3): 3, TWICE: 15, echo(0.03): 10, echo(0.5): 10,
               astray(0.05): 4, astray(0.6): 4, CUT_BEFORE: 4, CUT_AFTER: 6, CUT_INSIDE: 3, STALL_BEFORE: 1, STALL_AFTER: 1,
               answer('LOADING Redis is loading'): 3, answer('NOSCRIPT No matching script.'): 3, answer('ERR something'): 2}

    def test_P34_P35_faults_by_chance_never_add(self):
        rate, burst = 60, 50
        for seed in (11, 12):
            text = contract(leased(f'rate: {rate}/s', f'burst: {burst}', most=30, chunk=10, lasts='500ms'), deadline='100ms')
            with self.subTest(seed=seed), FaultProxy(self.store) as proxy, Fleet(text, proxy.url, 3) as fleet:
                proxy.script = random_faults(seed, self.WEIGHTS)
                with Load(3, 6, lambda at, i: (120, 30, 10)[(i + int(at / 2)) % 3], lambda i: fleet[i].port, seed,
                          {'attributes': {'tenant': f's{seed}'}}) as load:
                    pass
                proxy.script = lambda command: PASS
                met = proxy.faults()
                allowed = load.allowed()
                self.assertGreater(sum(n for kind, n in met.items() if kind != 'pass'), 30, met)
                self.assertGreater(len(allowed), 100)
                self.assertLessEqual(most_above(allowed, burst, rate), 0)
                books(fleet[0], self.store, f's{seed}')
                self.assertEqual(self.store.keys_without_expiry(), [])
        # And what is in nobody's hand comes back: the key is whole again.
        wait_for(lambda: self.store.keys('weir:1:{tenant=s*:b:') == [])

    def test_P32_faults_by_chance_lose_no_more_than_is_told(self):
        """A budget that does not refill: what did not pass was lost, as the books say, or counted by a request without an answer."""
        text = contract(*[('name: ' + name, 'when: { path: /%s }' % name, *leased(*fields, most=MOST, chunk=10, lasts='400ms'))
                          for name, fields in (('bucket', BUCKET), ('window', WINDOW))], deadline='100ms')
        tenants = [f'c{i}' for i in range(3)]
        with FaultProxy(self.store) as proxy, Fleet(text, proxy.url, 2) as fleet:
            proxy.script = random_faults(21, self.WEIGHTS)
            answers = []
            for name in ('bucket', 'window'):
                for _ in range(3):
                    for answered in storm(fleet.servers, 60, 3, tenant=lambda n: tenants[n % 3], attributes={'path': '/' + name}):
                        answers.append(dict(answered, name=name))
                    time.sleep(0.2)
            proxy.script = lambda command: PASS
            time.sleep(1)
            for name in ('bucket', 'window'):
                for tenant in tenants:
                    mine = [a for a in answers if (a['name'], a['tenant']) == (name, tenant)]
                    passed = decisions(mine)['allow']
                    for server in fleet.servers * 2:
                        while True:
                            told = check(server, tenant, attributes={'path': '/' + name})
                            if told['decision'] == 'allow':
                                passed += 1
                            elif told['decision'] == 'deny':
                                break
                    kept = leases(fleet[0], self.store.url, name).get(tenant)
                    with self.subTest(limit=name, tenant=tenant, books=kept):
                        self.assertLessEqual(passed, CAPACITY)
                        # A decision without an answer may have been done twice by the network's own retry.
                        unknown = sum(a['decision'] == 'refused' for a in mine) + proxy.faults().get('twice', 0) \
                            + proxy.faults().get('echo', 0) + proxy.faults().get('astray', 0)
                        self.assertGreaterEqual(passed + (kept['lost'] + kept['out'] if kept else 0) + unknown, CAPACITY)
                        if kept:
                            self.assertEqual(kept['granted'], kept['out'] + kept['spent'] + kept['returned'] + kept['lost'])

    def test_a_store_that_forgets_its_scripts_again_and_again(self):
        text = contract(leased(*BUCKET, most=MOST, chunk=CHUNK))
        end = threading.Event()

        def flush():
            with self.store.client() as client:
                while not end.wait(0.02):
                    client.command('SCRIPT', 'FLUSH')

        flusher = threading.Thread(target=flush)
        with Fleet(text, self.store.url, 4) as fleet:
            flusher.start()
            try:
                counted = decisions(storm(fleet.servers, 100))
            finally:
                end.set()
                flusher.join()
            self.assertEqual(set(counted), {'allow', 'deny'})
            self.assertLessEqual(counted['allow'], CAPACITY)
            self.assertGreaterEqual(counted['allow'], 95)
            self.assertEqual(books(fleet[0], self.store)['lost'], 0)


class Holders(unittest.TestCase):
    """P36: who dies, stands still or ends while it holds something."""

    def setUp(self):
        self.store = self.enterContext(Store())

    def fleet(self, *fields, lasts='20s', **more):
        return self.enterContext(Fleet(contract(leased(*fields, most=MOST, chunk=CHUNK, lasts=lasts, **more)), self.store.url, 2))

    def test_P36_a_crash_wastes_what_was_held_and_no_more(self):
        for fields in (BUCKET, WINDOW):
            with self.subTest(limit=fields):
                self.store.command('FLUSHALL')
                fleet = self.fleet(*fields, lasts='1s')
                passed = hold(fleet[0])
                fleet.kill(0)
                told = books(fleet[1], self.store)
                wasted = explained(fleet[1], 2)['limit-0']['leased']['crash_wastes']
                self.assertEqual(wasted, CHUNK)
                passed += take_all([fleet[1]])
                self.assertLessEqual(passed, CAPACITY)
                self.assertGreaterEqual(passed, CAPACITY - wasted)
                # Nothing of it comes back to be spent again.
                time.sleep(1.5)
                passed += take_all([fleet[1]])
                self.assertLessEqual(passed, CAPACITY)
                self.assertGreater(told['out'], 0)

    def test_P36_of_a_bucket_what_was_wasted_comes_back_by_the_rate(self):
        fleet = self.fleet('rate: 40/s', 'burst: 100', lasts='500ms')
        hold(fleet[0])
        fleet.kill(0)
        wait_for(lambda: check(fleet[1], mode='peek')['remaining'] == 100)

    def test_another_start_of_it_is_another_holder(self):
        fleet = self.fleet(*BUCKET)
        passed = hold(fleet[0])
        left = books(fleet[1], self.store)['out']
        fleet.kill(0)
        fleet.start_again(0)
        wait_for(lambda: check(fleet[0], 'other', mode='peek')['policy'] is None)
        self.assertEqual(check(fleet[0], mode='peek')['remaining'], check(fleet[1], mode='peek')['remaining'],
                         'what the dead one held is not its own')
        passed += take_all(fleet.servers)
        self.assertLessEqual(passed, CAPACITY)
        self.assertGreaterEqual(passed, CAPACITY - left)
        self.assertEqual(len({holder['run'] for holder in books(fleet[1], self.store)['holders']}), 3)

    def test_who_ends_gives_back_what_it_held_and_the_others_have_it_at_once(self):
        for fields in (BUCKET, WINDOW):
            with self.subTest(limit=fields):
                self.store.command('FLUSHALL')
                fleet = self.fleet(*fields)
                passed = hold(fleet[0])
                log = fleet.drain(0)
                self.assertIn('event=leases-returned', log)
                told = books(fleet[1], self.store)
                self.assertEqual((told['out'], told['lost']), (0, 0))
                passed += take_all([fleet[1]])
                self.assertEqual(passed, CAPACITY)

    def test_who_is_not_asked_gives_back_and_does_not_spend_it_as_well(self):
        for fields in (BUCKET, WINDOW):
            with self.subTest(limit=fields):
                self.store.command('FLUSHALL')
                fleet = self.fleet(*fields, lasts='1s')
                passed = hold(fleet[0])
                wait_for(lambda: books(fleet[1], self.store)['out'] == 0)
                self.assertEqual(books(fleet[1], self.store)['lost'], 0)

                # On a busy machine a portion of the second may end before it is spent: it is lost once nobody can have it, and
                # what was not granted meanwhile is there still.
                def others_have_all_of_it():
                    nonlocal passed
                    passed += take_all([fleet[1]])
                    told = books(fleet[1], self.store)
                    self.assertLessEqual(passed + told['lost'], CAPACITY)
                    return told['out'] == 0 and passed + told['lost'] == CAPACITY
                wait_for(others_have_all_of_it)
                self.assertEqual(set(decisions([check(fleet[0]) for _ in range(CHUNK)])), {'deny'})

    def test_who_stands_still_for_longer_than_it_may_hold_has_nothing_then(self):
        for fields in (BUCKET, WINDOW):
            with self.subTest(limit=fields):
                self.store.command('FLUSHALL')
                fleet = self.fleet(*fields, lasts='600ms')
                passed = hold(fleet[0])
                fleet.freeze(0)
                time.sleep(1)
                passed += take_all([fleet[1]])
                fleet.thaw(0)
                asked = decisions(storm([fleet[0]], 60, 4))
                self.assertLessEqual(passed + asked.get('allow', 0), CAPACITY, 'not even what may be added is')
                time.sleep(1)
                self.assertLessEqual(passed + asked.get('allow', 0) + take_all(fleet.servers), CAPACITY)
                self.assertGreater(books(fleet[1], self.store)['lost'], 0)

    def test_who_stands_still_for_a_moment_goes_on(self):
        fleet = self.fleet(*BUCKET)
        passed = hold(fleet[0])
        fleet.freeze(0)
        time.sleep(0.3)
        fleet.thaw(0)
        before = fleet[0].metric('weir_lease_decisions_total')
        self.assertEqual(check(fleet[0])['decision'], 'allow')
        self.assertEqual(fleet[0].metric('weir_lease_decisions_total'), before + 1, 'out of the hand')
        self.assertEqual(passed + 1 + take_all(fleet.servers), CAPACITY)

    def test_who_is_cut_off_spends_what_it_holds_till_its_time_is_over(self):
        """A partition: one replica does not reach the store, the others do."""
        text = contract(leased(*BUCKET, most=MOST, chunk=CHUNK, lasts='2s', fails='leased'), deadline='100ms')
        with FaultProxy(self.store) as proxy, Fleet(text, proxy.url, 1) as cut_off, Fleet(text, self.store.url, 1) as others:
            passed = hold(cut_off[0])
            proxy.down()
            passed += take_all([others[0]])
            held = decisions([check(cut_off[0]) for _ in range(CHUNK + 5)])
            self.assertGreater(held['allow'], 0)
            self.assertLessEqual(passed + held['allow'], CAPACITY)
            self.assertGreater(held['refused'], 0)
            time.sleep(2.5)
            passed += held['allow'] + take_all([others[0]])
            proxy.up()
            wait_for(lambda: check(cut_off[0], 'other', mode='peek')['policy'] is None)
            passed += take_all([cut_off[0], others[0]])
            self.assertLessEqual(passed, CAPACITY)
            self.assertGreaterEqual(passed, CAPACITY - CHUNK)


class Outage(unittest.TestCase):
    """Without the store what is in hand is spent first, then each policy says what it says."""

    ROWS = [  # the policy, decision and policy of what is in hand, of what is not, why
        ('leased', 'leased', {('refused', 'leased')}, 'spend what is held, then nothing'),
        ('closed', None, {('refused', 'closed')}, 'it is within the budget, whoever asks'),
        ('open', None, {('unmetered', 'open')}, 'then everything passes, and is marked'),
        ('{ open: 300ms }', None, {('unmetered', 'open'), ('refused', 'open'), ('refused', 'closed')}, 'for a while'),
        ('{ local: 1/4 }', None, {('allow', 'local'), ('deny', 'local')}, 'then this replica has its share'),
    ]

    def test_P39_what_is_held_is_spent_then_the_policy_answers(self):
        for fails, by_hand, after, why in self.ROWS:
            for how in ('gone', 'frozen'):
                text = contract(leased(*BUCKET, most=MOST, chunk=CHUNK, lasts='30s', fails=fails), deadline='100ms')
                with self.subTest(fails=fails, how=how, why=why), Store() as store, Fleet(text, store.url, 1) as fleet:
                    passed = {tenant: hold(fleet[0], tenant) for tenant in ('a', 'b')}
                    time.sleep(0.2)
                    held = {tenant: leases(fleet[0], store.url)[tenant]['out'] for tenant in ('a', 'b')}
                    store.kill() if how == 'gone' else store.freeze()
                    # Others notice that it is away: so what `b` is told is told in an outage.
                    wait_for(lambda: check(fleet[0], 'c')['policy'] is not None)
                    told = {tenant: [check(fleet[0], tenant) for _ in range(MOST + 10)] for tenant in ('a', 'b')}
                    for tenant, answers in told.items():
                        inside = [a for a in answers if (a['decision'], a['policy']) == ('allow', by_hand)]
                        self.assertGreater(len(inside), 0)
                        self.assertLessEqual(len(inside), held[tenant], 'no more than the store says it holds')
                        self.assertEqual(answers[:len(inside)], inside, 'first')
                        self.assertLessEqual({(a['decision'], a['policy']) for a in answers[len(inside):]}, after)
                        if by_hand:
                            self.assertEqual({(a['reason'], a['fields']['weir-degraded']) for a in inside}, {('store', 'leased')})
                            self.assertTrue(all(a['http'] == 503 and int(a['fields']['retry-after']) >= 1
                                                for a in answers[len(inside):]))
                        passed[tenant] += len(inside)
                    if how == 'gone':
                        continue
                    store.thaw()
                    wait_for(lambda: check(fleet[0], 'c', mode='peek')['policy'] is None)
                    time.sleep(0.5)  # what was spent locally is charged
                    local = sum(a['decision'] == 'allow' and a['policy'] == 'local' for a in told['a'])
                    total = passed['a'] + take_all(fleet.servers, 'a')
                    self.assertLessEqual(total + local, CAPACITY, 'and nothing of it is spent twice')
                    # What it was asked before the breaker opened, and by its probes, it did when it went on: nobody heard of it.
                    self.assertGreaterEqual(total, CAPACITY - local - 8)

    def test_a_lease_that_is_over_is_not_spent(self):
        text = contract(leased(*BUCKET, most=MOST, chunk=CHUNK, lasts='1s', fails='leased'), deadline='100ms')
        with Store() as store, Fleet(text, store.url, 1) as fleet:
            hold(fleet[0])
            store.freeze()
            time.sleep(1.3)
            self.assertEqual({(a['decision'], a['policy']) for a in (check(fleet[0]) for _ in range(5))}, {('refused', 'leased')})


class Loss(unittest.TestCase):
    """P37, P44: a store that comes back without what it knew."""

    def restart(self, lost, fields):
        text = contract(leased(*fields, f'when-state-lost: {lost}', most=MOST, chunk=CHUNK, lasts='1s', fails='leased'),
                        deadline='200ms')
        with Store() as store, Fleet(text, store.url, 2) as fleet:
            printed = explained(fleet[0], 2)['limit-0']
            if lost == 'empty':  # as a store that has just begun
                wait_for(lambda: check(fleet[0], mode='peek')['remaining'] == CAPACITY)
            began = time.monotonic()
            passed = hold(fleet[0]) + hold(fleet[1])
            store.kill()
            store.start()
            # Those who hold something spend it, and whoever reaches the store asks there.
            while time.monotonic() < began + 4:
                passed += decisions(storm(fleet.servers, 8, 2)).get('allow', 0)
                time.sleep(0.1)
            return passed, time.monotonic() - began, printed

    def test_P37_empty_adds_nothing(self):
        passed, took, printed = self.restart('empty', ('rate: 100/1s', f'burst: {CAPACITY}'))
        self.assertEqual(printed['state_lost_adds'], 0)
        self.assertLessEqual(passed, CAPACITY + math.floor(100 * took))
        self.assertGreater(passed, 2 * CAPACITY, 'it goes on')

    def test_P37_full_adds_a_burst(self):
        passed, _, printed = self.restart('full', BUCKET)
        self.assertEqual(printed['state_lost_adds'], CAPACITY)
        self.assertLessEqual(passed, 2 * CAPACITY)
        self.assertGreater(passed, CAPACITY)

    def test_a_flush_under_running_connections(self):
        """Nobody is told: a portion that the store does not know ends with its next message."""
        text = contract(leased(*BUCKET, most=MOST, chunk=CHUNK, lasts='1s'))
        with Store() as store, Fleet(text, store.url, 2) as fleet:
            passed = hold(fleet[0]) + hold(fleet[1])
            store.command('FLUSHALL')
            passed += take_all(fleet.servers)
            time.sleep(1.5)
            passed += take_all(fleet.servers)
            self.assertLessEqual(passed, 2 * CAPACITY)

    def test_a_clock_that_steps_adds_what_is_printed(self):
        rate = 20
        for step, why in ((3600, 'portions are forgotten, and an hour is credited'), (-3600, 'nothing is credited or frozen')):
            with self.subTest(step=step, why=why), Store(clock=0) as store, \
                    Fleet(contract(leased(f'rate: {rate}/s', f'burst: {CAPACITY}', most=MOST, chunk=CHUNK)), store.url, 2) as fleet:
                adds = explained(fleet[0], 2)['limit-0']['leased']['step_of_hour_adds'] if step > 0 else 0
                began = time.monotonic()
                passed = hold(fleet[0]) + hold(fleet[1]) + decisions(storm(fleet.servers, 40, 2)).get('allow', 0)
                store.clock_set(step)
                after = 0
                for _ in range(15):
                    after += decisions(storm(fleet.servers, 20, 2)).get('allow', 0)
                    time.sleep(0.1)
                took = time.monotonic() - began
                self.assertLessEqual(passed + after, CAPACITY + rate * took + adds)
                self.assertGreater(after, rate, 'it goes on')


if __name__ == '__main__':
    unittest.main()
