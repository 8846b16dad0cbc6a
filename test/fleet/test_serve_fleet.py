# SPDX-License-Identifier: Apache-2.0
"""The server with a store: one budget for two processes, what each policy answers, start-up, readiness, metrics, the log.

LABELS: e2e
"""
import os
import subprocess
import tempfile
import unittest

from fleet import Fleet, check, contract, decisions, is_ready, shared
from door import BUILD, Server, free_port, wait_for
from stores import Store

# No tokens come back while a test runs, so that counts are exact.
TWENTY = ('rate: 1/d', 'burst: 20')
LOCAL = ('name: here', 'key: [tenant]', 'rate: 1/d', 'burst: 5')


def fields_of(answer):
    return {limit['limit']: limit['decision'] for limit in answer['limits']}


class Deciding(unittest.TestCase):
    def test_two_processes_have_one_budget(self):
        with Store() as store, Fleet(contract(shared(*TWENTY)), store.url, count=2) as fleet:
            answers = [check(fleet[i % 2]) for i in range(30)]
            self.assertEqual(decisions(answers), {'allow': 20, 'deny': 10})
            self.assertEqual([answer['remaining'] for answer in answers[:20]], list(range(19, -1, -1)))
            last = answers[-1]
            self.assertEqual((last['http'], last['limit'], last['capacity'], last['policy'], last['reason']),
                             (429, 'limit-0', 20, None, None))
            self.assertEqual(last['fields']['ratelimit-limit'], '20')
            self.assertGreater(int(last['fields']['retry-after']), 86400 // 2)
            self.assertNotIn('weir-degraded', last['fields'])
            self.assertEqual(decisions([check(fleet[0], 'other')]), {'allow': 1})

    def test_limits_of_the_process_and_of_the_fleet_take_all_or_nothing(self):
        with Store() as store, Fleet(contract(LOCAL, shared('name: all', *TWENTY)), store.url, count=2) as fleet:
            first = [check(fleet[0]) for _ in range(8)]
            self.assertEqual(decisions(first), {'allow': 5, 'deny': 3})
            self.assertEqual(fields_of(first[0]), {'here': 'allow', 'all': 'allow'})
            self.assertEqual(first[-1]['limit'], 'here')
            # What the first process refused was not charged in the fleet: 20 - 5 are left.
            second = check(fleet[1])
            self.assertEqual([limit['remaining'] for limit in second['limits']], [4, 14])

            # And what the fleet refuses is not charged in the process.
            self.assertEqual(check(fleet[1], cost=5, mode='peek')['decision'], 'deny')
            other = contract(LOCAL, shared('name: all', 'rate: 1/d', 'burst: 2'))
        with Store() as store, Fleet(other, store.url, count=1) as fleet:
            self.assertEqual(decisions([check(fleet[0]) for _ in range(6)]), {'allow': 2, 'deny': 4})
            last = check(fleet[0])
            self.assertEqual(last['limit'], 'all')
            self.assertEqual({limit['limit']: limit['remaining'] for limit in last['limits']}['here'], 3)

    def test_a_look_takes_nothing(self):
        with Store() as store, Fleet(contract(LOCAL, shared('name: all', *TWENTY)), store.url, count=1) as fleet:
            for _ in range(3):
                self.assertEqual([limit['remaining'] for limit in check(fleet[0], mode='peek')['limits']], [5, 20])
            self.assertEqual([limit['remaining'] for limit in check(fleet[0])['limits']], [4, 19])

    def test_who_waits_here_asks_the_store_afterwards(self):
        paced = ('name: paced', 'key: [tenant]', 'rate: 5/s', 'burst: 1', 'wait: { up-to: 5s, queue: 10 }')
        with Store() as store, Fleet(contract(paced, shared('name: all', 'rate: 1/d', 'burst: 2')), store.url,
                                     count=1) as fleet:
            answers = [check(fleet[0], wait=4) for _ in range(3)]
            self.assertEqual([answer['decision'] for answer in answers], ['allow', 'allow', 'deny'])
            self.assertNotIn('waited', answers[0])
            self.assertGreater(answers[1]['waited'], 0)
            self.assertEqual(answers[2]['limit'], 'all')
            # What the fleet refused was given back here: it is there at once, without waiting.
            again = check(fleet[0], mode='peek')
            self.assertEqual({limit['limit']: limit['decision'] for limit in again['limits']}.get('paced'), 'allow')


class Policies(unittest.TestCase):
    """Three limits, of which a request meets one: by its tier."""

    CONTRACT = contract(*[('name: ' + name, *TWENTY, 'key: [tenant]', 'when: { tier: %s }' % name, 'scope: fleet',
                           'when-store-fails: ' + fails)
                          for name, fails in (('shut', 'closed'), ('free', 'open'), ('part', '{ local: 1/4 }'))],
                        deadline='200ms')

    def ask(self, server, tier, tenant='acme'):
        return check(server, tenant, attributes={'tier': tier})

    def expect_degraded(self, server):
        shut, free = self.ask(server, 'shut'), self.ask(server, 'free')
        self.assertEqual((shut['http'], shut['decision'], shut['policy'], shut['reason'], shut['limit']),
                         (503, 'refused', 'closed', 'store', 'shut'))
        self.assertEqual(shut['type'], 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity')
        self.assertIn("shared store of limit 'shut' could not be had", shut['detail'])
        self.assertGreaterEqual(int(shut['fields']['retry-after']), 1)
        self.assertEqual(shut['fields']['cache-control'], 'no-store')
        self.assertNotIn('weir-degraded', shut['fields'])
        self.assertEqual((free['http'], free['decision'], free['policy'], free['reason'], free['remaining']),
                         (200, 'unmetered', 'open', 'store', None))
        self.assertEqual(free['fields']['weir-degraded'], 'open')
        part = self.ask(server, 'part', 'share')
        self.assertIn(part['decision'], ('allow', 'deny'))
        self.assertEqual((part['policy'], part['fields']['weir-degraded'], part['capacity']), ('local', 'local', 5))

    def expect_well(self, server):
        wait_for(lambda: self.ask(server, 'shut', 'probe')['decision'] in ('allow', 'deny'))
        wait_for(lambda: is_ready(server))
        for tier in ('shut', 'free', 'part'):
            told = self.ask(server, tier, 'fresh-' + tier)
            self.assertEqual((told['decision'], told['policy']), ('allow', None))
            self.assertNotIn('weir-degraded', told['fields'])

    def test_killed_and_back(self):
        with Store() as store, Fleet(self.CONTRACT, store.url, count=1) as fleet:
            server = fleet[0]
            self.assertEqual(self.ask(server, 'shut')['decision'], 'allow')
            store.kill()
            wait_for(lambda: not is_ready(server))
            self.expect_degraded(server)
            ready = server.ask('GET', '/readyz')
            self.assertEqual((ready.status, ready.json['ready']), (200, True))
            self.assertEqual([node['node'] for node in ready.json['degraded']], [f'127.0.0.1:{store.port}'])
            self.assertTrue(ready.json['degraded'][0]['why'])
            self.assertEqual(server.ask('GET', '/healthz').status, 200)
            store.start()
            self.expect_well(server)

    def test_frozen_and_back(self):
        with Store() as store, Fleet(self.CONTRACT, store.url, count=1) as fleet:
            server = fleet[0]
            self.assertEqual(self.ask(server, 'shut')['decision'], 'allow')
            store.freeze()
            try:
                for _ in range(8):
                    self.expect_degraded(server)
                self.assertIn('degraded', server.ask('GET', '/readyz').json)
                self.assertGreater(server.metric('weir_store_failures_total{kind="late"}'), 0)
            finally:
                store.thaw()
            self.expect_well(server)

    def test_a_store_that_cannot_serve_is_told_in_its_own_words(self):
        with Store() as store, Fleet(self.CONTRACT, store.url, count=1) as fleet:
            server = fleet[0]
            self.assertEqual(self.ask(server, 'shut')['decision'], 'allow')
            store.command('CONFIG', 'SET', 'maxmemory', '1')
            self.assertEqual(self.ask(server, 'shut')['policy'], 'closed')
            ready = server.ask('GET', '/readyz').json
            self.assertEqual([node['node'] for node in ready['degraded']], [f'127.0.0.1:{store.port}'])
            self.assertRegex(ready['degraded'][0]['why'], r'\AOOM command not allowed')
            self.assertRegex(server.log(), r'event=store-away node=\S+ why=refused said="OOM command not allowed')
            store.command('CONFIG', 'SET', 'maxmemory', '0')
            self.expect_well(server)

    def test_started_before_its_store(self):
        port = free_port()
        with Fleet(self.CONTRACT, f'redis://127.0.0.1:{port}', count=1, is_ready=False) as fleet:
            self.expect_degraded(fleet[0])
            self.assertIn('degraded', fleet[0].ask('GET', '/readyz').json)
            with Store(port=port):
                self.expect_well(fleet[0])

    def test_of_several_the_closed_one_refuses_and_an_open_one_is_said(self):
        text = contract(shared('name: shut', *TWENTY, 'when: { tier: both }'), ('name: here', 'key: [tenant]', *TWENTY),
                        shared('name: free', *TWENTY, fails='open'), deadline='200ms')
        with Store() as store, Fleet(text, store.url, count=1) as fleet:
            store.kill()
            wait_for(lambda: not is_ready(fleet[0]))
            both = self.ask(fleet[0], 'both')
            self.assertEqual((both['http'], both['decision'], both['limit']), (503, 'refused', 'shut'))
            free = self.ask(fleet[0], 'one')
            self.assertEqual((free['http'], free['fields'].get('weir-degraded')), (200, 'open'))
            # What could not be decided has taken nothing here: only the second one.
            look = self.ask(fleet[0], 'one')
            self.assertEqual({limit['limit']: limit['remaining'] for limit in look['limits']}['here'], 18)

    def test_metrics_and_log(self):
        with Store() as store, Fleet(self.CONTRACT, store.url, count=1, workers=3) as fleet:
            server, node = fleet[0], f'127.0.0.1:{store.port}'
            for _ in range(9):
                self.ask(server, 'shut')
            self.assertEqual(server.metric('weir_store_commands_total') >= 9, True)
            # Each command has one reply, which counts once, but where it was that the script is not known.
            replies = server.metric('weir_store_commands_total') - server.metric('weir_store_scripts_total')
            self.assertEqual(server.metric('weir_store_seconds_count'), replies)
            buckets = [float(line.split()[1]) for line in server.ask('GET', '/metrics').text.splitlines()
                       if line.startswith('weir_store_seconds_bucket')]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual(buckets[-1], replies)
            self.assertEqual(server.metric(f'weir_store_up{{node="{node}"}}'), 1)
            self.assertEqual(server.metric(f'weir_store_breaker{{node="{node}",state="closed"}}'), 1)
            store.kill()
            wait_for(lambda: not is_ready(server))
            wait_for(lambda: server.metric(f'weir_store_up{{node="{node}"}}') == 0)
            for _ in range(30):
                self.ask(server, 'shut', 'other')
            self.assertEqual(server.metric('weir_undecided_total{limit="shut",policy="closed",reason="store"}'), 30)
            for _ in range(7):  # a share of 5 that begins empty: all denied, or some allowed
                self.ask(server, 'part', 'other')
            self.assertEqual(server.metric('weir_undecided_total{limit="part",policy="local",reason="store"}'), 7)
            self.assertEqual(sum(server.metric(f'weir_decisions_total{{limit="part",decision="{word}"}}')
                                 for word in ('allow', 'deny')), 7)
            store.start()
            self.expect_well(server)
            # However many workers met it.
            self.assertEqual(server.log().count('event=store-down '), 1, server.log())
            self.assertLessEqual(server.log().count('event=store-away '), 1, server.log())

    def test_a_server_without_a_store_has_none_of_its_families(self):
        with Server() as server:
            self.assertNotIn('weir_store', server.ask('GET', '/metrics').text)
            self.assertEqual(server.ask('GET', '/readyz').text, 'ready\n')


class Clusters(unittest.TestCase):
    def test_one_that_serves_nothing_is_no_store(self):
        """Connected to all of its nodes, and none has a slot."""
        with Store(args=['--cluster-enabled', 'yes'], bus=True) as store:
            url = f'redis+cluster://127.0.0.1:{store.port}'
            with Fleet(contract(shared(*TWENTY), deadline='200ms'), url, count=1, is_ready=False) as fleet:
                self.assertEqual(check(fleet[0])['policy'], 'closed')
                wait_for(lambda: 'degraded' in fleet[0].ask('GET', '/readyz').text)
                self.assertEqual(fleet[0].ask('GET', '/readyz').status, 200)


class Starting(unittest.TestCase):
    def refused(self, text, args=(), env=None):
        status, log = Server(text, args=args, env=env).expect_exit()
        self.assertEqual(status, 2, log)
        return log

    def test_shared_limits_without_a_store_are_refused(self):
        log = self.refused(contract(shared(*TWENTY)))
        self.assertIn("limit-0", log)
        self.assertIn('--store', log)

    def test_what_is_no_url_is_refused(self):
        for url in ('localhost', 'http://localhost', 'redis://', 'redis://host:port'):
            for said in (self.refused(contract(shared(*TWENTY)), env={'WEIR_STORE': url}),
                         self.refused(contract(shared(*TWENTY)), args=['--store', url]).replace('--store', 'WEIR_STORE')):
                self.assertIn('weir serve: WEIR_STORE: ', said, url)  # who is to blame

    def test_secrets_stand_in_no_argument_and_no_log(self):
        text = contract(shared(*TWENTY))
        self.assertIn('WEIR_STORE', self.refused(text, args=['--store', 'redis://:hunter2@127.0.0.1:1']))
        with Store(password='hunter2') as store:
            with Fleet(text, store.url, count=1) as fleet:
                self.assertEqual(check(fleet[0])['decision'], 'allow')
            with Fleet(text, store.url_as(None, 'letmein2'), count=1, is_ready=False) as fleet:
                wait_for(lambda: 'event=store-down' in fleet[0].log())
                self.assertEqual(check(fleet[0])['decision'], 'refused')
                for text_of in (fleet[0].log(), fleet[0].ask('GET', '/readyz').text, fleet[0].ask('GET', '/v1/limits').text,
                                fleet[0].ask('GET', '/metrics').text):
                    self.assertNotIn('letmein2', text_of)

    def test_the_contract_may_name_the_store(self):
        with Store() as store, Store() as other:
            text = contract(shared(*TWENTY)).replace('store: {', 'store: { url: "%s",' % store.url)
            with Server(text) as one, Server(text, env={'WEIR_STORE': other.url}) as two:
                for server in (one, two):
                    wait_for(lambda: is_ready(server))
                    self.assertEqual(check(server)['remaining'], 19)

    def test_the_option_wins_over_the_variable(self):
        with Store() as store:
            with Server(contract(shared(*TWENTY)), args=['--store', store.url],
                        env={'WEIR_STORE': f'redis://127.0.0.1:{free_port()}'}) as server:
                wait_for(lambda: is_ready(server))
                self.assertEqual(check(server)['decision'], 'allow')

    def test_check_decides_alone_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'weir.yaml')
            with open(path, 'w') as file:
                file.write(contract(shared(*TWENTY)))
            done = subprocess.run([os.path.join(BUILD, 'weir'), 'check', path, 'tenant=acme', '--times', '21'],
                                  capture_output=True, text=True, env={'PATH': os.environ['PATH']})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ['allow'] * 20 + ['deny'])
            self.assertIn('scope: fleet are counted in this process alone', done.stderr)
            self.assertEqual(done.stderr.count('\n'), 1)

    def test_a_store_that_no_limit_needs_is_told(self):
        with Store() as store, Server(args=['--store', store.url]) as server:
            self.assertIn('event=store-unused', server.log())
            self.assertEqual(server.check().status, 200)

    def test_a_unix_socket_and_tls(self):
        for options in ({'unix': True}, {'tls': True}, {'tls': 'mutual'}):
            with Store(**options) as store, Fleet(contract(shared(*TWENTY)), store.url, count=1) as fleet:
                self.assertEqual(check(fleet[0])['remaining'], 19, options)

    def test_an_authority_that_cannot_be_read_is_told_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            log = self.refused(contract(shared(*TWENTY)),
                               env={'WEIR_STORE': 'rediss://127.0.0.1:1?ca=' + os.path.join(folder, 'none.pem')})
            self.assertIn('none.pem', log)


if __name__ == '__main__':
    unittest.main()
