# SPDX-License-Identifier: Apache-2.0
# LABELS: e2e
"""weir serve --ratelimit-config: what is told at the start, statuses of /json, field cases, and reloads of a folder."""
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import unittest

from door import BUILD, wait_for
from ratelimit import Descriptor, Folder, Ratelimit, call_body

MINUTE = 60 * 10**9


def rule(key, requests, unit='minute', value=None, **more):
    node = {'key': key, 'rate_limit': {'unit': unit, 'requests_per_unit': requests}}
    if value is not None:
        node['value'] = value
    node.update(more)
    return node


def domain(name, *nodes):
    return {'domain': name, 'descriptors': list(nodes)}


def one(key, value, hits=None):
    return Descriptor([(key, value)], hits)


class Case(unittest.TestCase):
    maxDiff = None

    def codes(self, weir, calls, now=MINUTE, name='d'):
        """The first status of each call, as OK or OVER_LIMIT, and what remains."""
        told = []
        for descriptors, hits in calls:
            answer = weir.call(call_body(name, descriptors, hits), now).json
            told.append((answer['statuses'][0]['code'], answer['statuses'][0].get('limitRemaining', 0)))
        return told


class Json(Case):
    BAD = 'Bad Request\n'
    ROWS = [
        # why, method, body, status, text (None: JSON)
        ('a call', 'POST', '{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}', 200, None),
        ('any method', 'PUT', '{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"w"}]}]}', 200, None),
        ('its limit is used', 'POST', '{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}', 429, None),
        ('an unknown domain passes', 'POST', '{"domain":"x","descriptors":[{"entries":[{"key":"k"}]}]}', 200, None),
        ('names as in the proto', 'POST', '{"domain":"d","descriptors":[{"entries":[{"key":"n"}],"hits_addend":"2"}]}',
         200, None),
        ('no JSON', 'POST', 'domain=d', 400, BAD),
        ('no body', 'GET', '', 400, BAD),
        ('an unknown field', 'POST', '{"domain":"d","descriptors":[{"entries":[{"key":"k"}]}],"hits":1}', 400, BAD),
        ('no domain', 'POST', '{"descriptors":[{"entries":[{"key":"k"}]}]}', 400, BAD),
        ('no descriptor', 'POST', '{"domain":"d"}', 400, BAD),
        ('a refund, which a client could refill itself with', 'POST',
         '{"domain":"d","descriptors":[{"entries":[{"key":"k"}],"isNegativeHits":true}]}', 400, BAD),
        ('a limit of its own of no unit', 'POST',
         '{"domain":"d","descriptors":[{"entries":[{"key":"k"}],"limit":{"requestsPerUnit":1}}]}', 400, BAD),
    ]

    def test_statuses_and_bodies(self):
        with Folder({'d.yaml': domain('d', rule('k', 1))}) as folder, Ratelimit(folder.path, virtual=True) as weir:
            for why, method, body, status, text in self.ROWS:
                with self.subTest(why):
                    reply = weir.ask(method, '/json', body, [('Weir-Now', str(MINUTE))])
                    self.assertEqual(reply.status, status)
                    if text is None:
                        self.assertEqual(reply.fields['content-type'], 'application/json')
                        self.assertEqual(reply.json['overallCode'], 'OK' if status == 200 else 'OVER_LIMIT')
                    else:
                        self.assertEqual(reply.text, text)
                        self.assertEqual(reply.fields['content-type'], 'text/plain; charset=utf-8')
            self.assertIn('event=json_refused', weir.log())

    def test_health_and_what_is_not_there(self):
        with Folder({'d.yaml': domain('d', rule('k', 1))}) as folder, Ratelimit(folder.path) as weir:
            reply = weir.ask('GET', '/healthcheck')
            self.assertEqual((reply.status, reply.text), (200, 'OK'))
            self.assertEqual(weir.ask('GET', '/healthz').text, 'ok\n')
            self.assertEqual(weir.ask('GET', '/rlconfig').status, 404)

    def test_with_a_contract_there_is_no_json(self):
        from door import Server
        with Server() as weir:
            self.assertEqual(weir.ask('POST', '/json', '{}').status, 404)
            self.assertEqual(weir.ask('GET', '/healthcheck').status, 404)

    def test_tokens_hold_for_json(self):
        with Folder({'d.yaml': domain('d', rule('k', 1))}) as folder, \
                Ratelimit(folder.path, files={'tokens': ('check 0123456789abcdef\n', 0o600)},
                          args=('--tokens', 'DIR/tokens')) as weir:
            body = json.dumps(call_body('d', [one('k', 'v')]))
            self.assertEqual(weir.ask('POST', '/json', body).status, 401)
            self.assertEqual(weir.ask('POST', '/json', body, [('Authorization', 'Bearer 0123456789abcdef')]).status, 200)
            self.assertEqual(weir.ask('GET', '/healthcheck').status, 200)

    def test_headers_of_the_service(self):
        env = {'LIMIT_RESPONSE_HEADERS_ENABLED': 'true', 'LIMIT_RESET_HEADER': 'X-Reset'}
        files = {'d.yaml': domain('d', rule('k', 3), rule('l', 9))}
        with Folder(files) as folder, \
                Ratelimit(folder.path, virtual=True, env=env, args=('--ratelimit-compatible',)) as weir:
            answer = weir.call(call_body('d', [one('l', 'v'), one('k', 'v')]), MINUTE + 5 * 10**9).json
            self.assertEqual(answer['responseHeadersToAdd'], [{'key': 'RateLimit-Limit', 'value': '3'},
                                                             {'key': 'RateLimit-Remaining', 'value': '2'},
                                                             {'key': 'X-Reset', 'value': '55'}])
        with Folder(files) as folder, Ratelimit(folder.path, virtual=True, args=('--ratelimit-compatible',)) as weir:
            self.assertNotIn('responseHeadersToAdd', weir.call(call_body('d', [one('k', 'v')]), MINUTE).json)

    def test_shadow_mode_of_all_lets_everything_pass(self):
        for args in ((), ('--ratelimit-compatible',)):
            with Folder({'d.yaml': domain('d', rule('k', 1))}) as folder, \
                    Ratelimit(folder.path, virtual=True, env={'SHADOW_MODE': 'true'}, args=args) as weir:
                replies = [weir.call(call_body('d', [one('k', 'v')]), MINUTE) for _ in range(2)]
                self.assertEqual([r.status for r in replies], [200, 200])
                self.assertEqual([r.json['overallCode'] for r in replies], ['OK', 'OK'])
                self.assertEqual(replies[1].json['statuses'][0]['code'], 'OVER_LIMIT')

    def test_quota_mode_refuses_with_all_others_of_it_alone(self):
        files = {'d.yaml': domain('d', rule('a', 1, quota_mode=True), rule('b', 3, quota_mode=True), rule('c', 9))}
        with Folder(files) as folder, Ratelimit(folder.path, virtual=True, args=('--ratelimit-compatible',)) as weir:
            both = [one('a', 'v'), one('b', 'v'), one('c', 'v')]
            answers = [weir.call(call_body('d', both), MINUTE).json for _ in range(4)]
            self.assertEqual([a['overallCode'] for a in answers], ['OK', 'OK', 'OK', 'OVER_LIMIT'])
            self.assertEqual([a['statuses'][0]['code'] for a in answers], ['OK'] + 3 * ['OVER_LIMIT'])

    def test_who_stops_at_an_over_limit_charges_who_refuses_alone(self):
        env = {'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT': 'true'}
        with Folder({'d.yaml': domain('d', rule('a', 100), rule('b', 2))}) as folder, \
                Ratelimit(folder.path, virtual=True, env=env, args=('--ratelimit-compatible',)) as weir:
            for _ in range(4):
                weir.call(call_body('d', [one('a', 'v'), one('b', 'v')]), MINUTE)
            self.assertEqual(self.codes(weir, [([one('a', 'v', 0)], None)]), [('OK', 98)])


class FieldCases(Case):
    def test_B39_hits_of_the_call_and_of_the_descriptor(self):
        calls = [([one('k', 'v')], None), ([one('k', 'v')], 2), ([one('k', 'v', 0)], None), ([one('k', 'v')], 0)]
        wanted = [('OK', 2), ('OK', 0), ('OK', 0), ('OVER_LIMIT', 0)]
        for args in ((), ('--ratelimit-compatible',)):
            with Folder({'d.yaml': domain('d', rule('k', 3), rule('l', 10))}) as folder, \
                    Ratelimit(folder.path, virtual=True, args=args) as weir:
                self.assertEqual(self.codes(weir, calls), wanted)
                # 5) a look after a refusal: docs/ratelimit.md says that it is none, in both modes
                self.assertEqual(self.codes(weir, [([one('k', 'v', 0)], None)]), [('OK', 0)])
                # 6) the descriptor's own hits win; the second is charged where each is decided by itself
                answer = weir.call(call_body('d', [one('k', 'w'), one('l', 'w', 1)], 4), MINUTE).json
                self.assertEqual(answer['statuses'][0]['code'], 'OVER_LIMIT')
                self.assertEqual(self.codes(weir, [([one('l', 'w', 0)], None)]), [('OK', 9 if args else 10)])

    def test_refused_hits_count_as_there_or_are_free(self):
        calls = [([one('k', 'v')], hits) for hits in (2, 2, 1, 1)]
        for args, wanted in (((), ['OK', 'OVER_LIMIT', 'OK', 'OVER_LIMIT']),
                             (('--ratelimit-compatible',), ['OK', 'OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT'])):
            with Folder({'d.yaml': domain('d', rule('k', 3))}) as folder, \
                    Ratelimit(folder.path, virtual=True, args=args) as weir:
                self.assertEqual([code for code, _ in self.codes(weir, calls)], wanted)

    def test_B45_wildcards(self):
        rules = domain('d', rule('p', 20, value='foo*'), rule('p', 30, value='fo*'), rule('p', 1, value='foobar'),
                       rule('p', 5), rule('m', 20, value='bar*b'), rule('m', 10, value='foo*bar*baz'),
                       rule('m', 7, value='ba*ab'),
                       {'key': 'n', 'value': 'v', 'descriptors': [rule('p', 20, value='goo*')]},
                       rule('s', 2, value='files/*', share_threshold=True))
        rows = [('p', 'foobar', 1), ('p', 'foo', 20), ('p', 'foo1', 20), ('p', 'foo2', 20), ('p', 'fox', 30),
                ('p', 'x', 5), ('m', 'barb', 20), ('m', 'bar9b', 20), ('m', 'bara', 0), ('m', 'xbarb', 0),
                ('m', 'fooXbarYbaz', 10), ('m', 'foobarbaz', 10), ('m', 'foobaz', 0), ('m', 'bab', 0)]
        for args in ((), ('--ratelimit-compatible',)):
            with Folder({'d.yaml': rules}) as folder, Ratelimit(folder.path, virtual=True, args=args) as weir:
                for key, value, most in rows:
                    status = weir.call(call_body('d', [one(key, value)]), MINUTE).json['statuses'][0]
                    limit = status.get('currentLimit', {}).get('requestsPerUnit', 0)
                    self.assertEqual((value, limit, status.get('limitRemaining', 0)), (value, most, max(0, most - 1)))
                nested = weir.call(call_body('d', [Descriptor([('n', 'v'), ('p', 'goo2')])]), MINUTE).json
                self.assertEqual(nested['statuses'][0]['currentLimit']['requestsPerUnit'], 20)
                shared = self.codes(weir, [([one('s', 'files/' + name)], None) for name in 'abc'])
                self.assertEqual(shared, [('OK', 1), ('OK', 0), ('OVER_LIMIT', 0)])

    def test_B56_a_limit_of_its_own_reaches_a_key_that_was_refused(self):
        def body(most):
            own = {'entries': [{'key': 'k', 'value': 'v'}], 'limit': {'requestsPerUnit': most, 'unit': 'MINUTE'}}
            return {'domain': 'd', 'descriptors': [own]}
        for args in ((), ('--ratelimit-compatible',)):
            with Folder({'d.yaml': domain('d', rule('k', 1))}) as folder, \
                    Ratelimit(folder.path, virtual=True, args=args) as weir:
                self.assertEqual([weir.call(body(2), MINUTE).status for _ in range(3)], [200, 200, 429])
                answer = weir.call(body(100), MINUTE).json
                self.assertEqual((answer['overallCode'], answer['statuses'][0]['limitRemaining']), ('OK', 97))

    def test_B57_who_is_refused_takes_nothing_of_the_others(self):
        users = ['u1'] * 20 + [f'u{i}' for i in range(2, 13)]
        for args, passing in (((), ['u1'] + [f'u{i}' for i in range(2, 11)]), (('--ratelimit-compatible',), ['u1'])):
            with Folder({'d.yaml': domain('d', rule('user', 1), rule('all', 10))}) as folder, \
                    Ratelimit(folder.path, virtual=True, args=args) as weir:
                passed = [user for user in users
                          if weir.call(call_body('d', [one('user', user), one('all', 'x')]), MINUTE).status == 200]
                self.assertEqual(passed, passing)  # as the original: u1 uses the budget of all

    def test_F01_a_config_map_is_read_as_what_it_holds(self):
        inner = json.dumps(domain('storefront', rule('PATH', 1, value='/checkout'), rule('PATH', 10)))
        wrapped = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'rl-config'},
                   'data': {'config.yaml': inner}}
        with Folder({'map.yaml': wrapped}) as folder, Ratelimit(folder.path, virtual=True) as weir:
            def ask(key, value):
                return weir.call(call_body('storefront', [one(key, value)]), MINUTE).status
            self.assertEqual([ask('PATH', '/checkout') for _ in range(2)], [200, 429])
            self.assertEqual([ask('PATH', '/a') for _ in range(11)], 10 * [200] + [429])
            self.assertEqual(ask('PATH', '/b'), 200)  # a counter of its own
            self.assertEqual([ask('path', '/checkout') for _ in range(3)], [200] * 3)
        broken = dict(wrapped, data={'config.yaml': 'domain: x\ndescriptrs: []\n'})
        with Folder({'map.yaml': broken}) as folder:
            status, log = Ratelimit(folder.path).expect_exit()
            self.assertEqual(status, 2)
            self.assertIn('map.yaml (data config.yaml):2:', log)  # the inner text, and the key that it is under

    def test_F04_names_replaces_unlimited_shadow_and_shared(self):
        rules = domain('lab', rule('team', 4, value='alpha'), rule('any', 2),
                       {'key': 'free', 'rate_limit': {'unlimited': True}},
                       rule('trial', 1, value='odd', shadow_mode=True),
                       rule('doc', 2, value='files/*', share_threshold=True), {'key': 'note', 'detailed_metric': True})
        rules['descriptors'][0]['rate_limit']['replaces'] = [{'name': 'base'}]
        rules['descriptors'][1]['rate_limit']['name'] = 'base'
        for args in ((), ('--ratelimit-compatible',)):
            with Folder({'lab.yaml': rules}) as folder, Ratelimit(folder.path, virtual=True, args=args) as weir:
                def ask(*descriptors):
                    return weir.call(call_body('lab', list(descriptors)), MINUTE)
                both = [ask(one('team', 'alpha'), one('any', 'x')) for _ in range(5)]
                self.assertEqual([r.status for r in both], 4 * [200] + [429])
                self.assertEqual([r.json['statuses'][1] for r in both], 5 * [{'code': 'OK'}])
                self.assertEqual([ask(one('any', 'x')).status for _ in range(3)], [200, 200, 429])
                self.assertEqual([ask(one('free', 'y')).status for _ in range(9)], 9 * [200])
                self.assertEqual([ask(one('trial', 'odd')).status for _ in range(3)], 3 * [200])
                self.assertEqual(weir.metric('weir_shadow_total{limit="lab.trial_odd",decision="deny"}'), 2)
                self.assertEqual([ask(one('doc', f'files/{n}')).status for n in 'abc'], [200, 200, 429])
        bad = {
            'share_threshold without a wildcard': rule('k', 1, value='v', share_threshold=True),
            'replaces itself': {'key': 'k', 'rate_limit': {'unit': 'minute', 'requests_per_unit': 1, 'name': 'n',
                                                           'replaces': [{'name': 'n'}]}},
            'replaces nothing': {'key': 'k', 'rate_limit': {'unit': 'minute', 'requests_per_unit': 1, 'replaces': [{}]}},
            'unlimited with a unit': {'key': 'k', 'rate_limit': {'unit': 'minute', 'unlimited': True}},
        }
        for why, node in bad.items():
            with self.subTest(why), Folder({'lab.yaml': domain('lab', node)}) as folder:
                status, log = Ratelimit(folder.path).expect_exit()
                self.assertEqual(status, 2)
                self.assertIn('/lab.yaml:', log)


class Reload(Case):
    """B43."""

    ONE = domain('one', rule('k', 2, 'day'))
    TWO = domain('two', rule('k', 3, 'day', value='v'))

    def refused(self, weir, folder, failures, *words):
        wait_for(lambda: weir.metric('weir_reload_total{result="failed"}') > failures)
        health = weir.ask('GET', '/healthz').text
        for word in words:
            self.assertIn(word, health)
        self.assertIn('event=reload_failed', weir.log())
        return weir.metric('weir_reload_total{result="failed"}')

    def left(self, weir, name, value='v'):
        answer = weir.call(call_body(name, [one('k', value, 0)])).json
        return answer['statuses'][0].get('limitRemaining')

    def test_B43_bad_files_leave_both_domains_as_they_were(self):
        double = 'domain: two\ndescriptors:\n' + 2 * ('- key: k\n  value: v\n  rate_limit: {unit: day, '
                                                     'requests_per_unit: 3}\n')
        with Folder({'good.yaml': self.ONE, 'two.yaml': self.TWO}) as folder, Ratelimit(folder.path) as weir:
            for name in ('one', 'two'):
                weir.call(call_body(name, [one('k', 'v')]))
            rows = [
                ('(a) twice the same', 'two.yaml', double, ['two.yaml:6:', 'two.k_v']),
                ('(d) no YAML', 'two.yaml', 'domain: [\n', ['two.yaml:']),
                ('(f) empty', 'two.yaml', '', ['two.yaml', 'empty']),
                ('a key that is unknown', 'two.yaml', 'domain: two\ndescriptrs: []\n', ['two.yaml:2:1', 'descriptrs']),
            ]
            failures = 0
            for why, name, text, words in rows:
                with self.subTest(why):
                    folder.write(name, text)
                    failures = self.refused(weir, folder, failures, *words)
                    self.assertEqual((self.left(weir, 'one'), self.left(weir, 'two')), (1, 2))
            folder.write('two.yaml', domain('two', rule('k', 3, 'day', value='v'), rule('k', 4, 'day', value='w'),
                                            rule('k', 5, 'day')))  # (b)
            wait_for(lambda: self.left(weir, 'two', 'w') == 4)
            self.assertEqual((self.left(weir, 'two', 'x'), self.left(weir, 'two')), (5, 2))
            self.assertEqual(weir.ask('GET', '/healthz').text, 'ok\n')
            folder.write('third.yaml', self.ONE)  # (c)
            self.refused(weir, folder, failures, 'third.yaml', "domain 'one'", 'good.yaml')
            self.assertEqual(self.left(weir, 'one'), 1)

    def test_B43_a_link_that_is_swapped_and_counters_stay(self):
        for is_compatible in (False, True):
            with tempfile.TemporaryDirectory(prefix='weir-swap-') as root:
                def version(number, most):
                    folder = os.path.join(root, f'..{number}')
                    os.mkdir(folder)
                    for name in ('one', 'two'):
                        with open(os.path.join(folder, name + '.yaml'), 'w') as file:
                            json.dump(domain(name, rule('k', most, 'day')), file)
                    os.symlink(f'..{number}', os.path.join(root, 'next'))
                    os.rename(os.path.join(root, 'next'), os.path.join(root, '..data'))
                version(1, 10)
                for name in ('one', 'two'):  # as Kubernetes mounts a ConfigMap
                    os.symlink(f'..data/{name}.yaml', os.path.join(root, name + '.yaml'))
                args = ('--ratelimit-compatible',) if is_compatible else ()
                with Ratelimit(root, args=args) as weir:
                    weir.call(call_body('one', [one('k', 'v', 3)]))
                    version(2, 50)
                    wait_for(lambda: self.left(weir, 'two') == 50)
                    self.assertEqual(self.left(weir, 'one'), 47)

    def test_B43_the_root_may_be_the_link(self):
        with tempfile.TemporaryDirectory(prefix='weir-root-') as root:
            for number, most in ((1, 10), (2, 20)):
                os.makedirs(os.path.join(root, str(number), 'sub', 'config'))
                with open(os.path.join(root, str(number), 'sub', 'config', 'a.yaml'), 'w') as file:
                    json.dump(domain('one', rule('k', most, 'day')), file)
            os.symlink('1', os.path.join(root, 'current'))
            env = {'RUNTIME_ROOT': os.path.join(root, 'current'), 'RUNTIME_SUBDIRECTORY': 'sub'}
            with Ratelimit('', env=env) as weir:
                self.assertEqual(self.left(weir, 'one'), 10)
                os.symlink('2', os.path.join(root, 'next'))
                os.rename(os.path.join(root, 'next'), os.path.join(root, 'current'))
                wait_for(lambda: self.left(weir, 'one') == 20)

    def test_B43_each_decision_uses_one_whole_configuration(self):
        """(g): two files change together all the time; a call never sees the limits of both states."""
        with tempfile.TemporaryDirectory(prefix='weir-storm-') as root:
            def version(number):
                folder = os.path.join(root, f'v{number % 7}')
                os.makedirs(folder, exist_ok=True)
                for name in 'ab':
                    with open(os.path.join(folder, name + '.yaml'), 'w') as file:
                        json.dump(domain(name, rule('k', 1000 + number % 2, 'day')), file)
                os.symlink(folder, os.path.join(root, 'next'))
                os.rename(os.path.join(root, 'next'), os.path.join(root, 'config'))
            version(0)
            with Ratelimit(os.path.join(root, 'config')) as weir:
                is_over = threading.Event()

                def storm():
                    number = 1
                    while not is_over.wait(0.01):
                        version(number)
                        number += 1
                thread = threading.Thread(target=storm)
                thread.start()
                try:
                    end = time.monotonic() + 5
                    while time.monotonic() < end:
                        weir.ask('POST', '/v1/reload', unix='admin.sock')
                        limits = weir.ask('GET', '/v1/limits').json['limits']
                        rates = {each['rate'] for each in limits}
                        self.assertEqual(len(rates), 1, rates)
                    self.assertGreater(weir.metric('weir_reload_total{result="ok"}'), 1)
                finally:
                    is_over.set()
                    thread.join()


class Start(Case):
    def refuse(self, folder, env=None, args=(), arguments=None):
        program = os.path.join(BUILD, 'weir')
        environment = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        environment.update(env or {})
        done = subprocess.run([program, 'serve', *(arguments or ['--ratelimit-config', folder, '--http', '127.0.0.1:0',
                                                                  '--admin', 'unix:/dev/null/no']), *args],
                              env=environment, capture_output=True, text=True, timeout=30)
        return done.returncode, done.stderr

    def test_what_is_refused_at_the_start(self):
        rows = [
            ('a contract beside it', {}, ['weir.yaml'], 'weir import ratelimit'),
            ('neither true nor false', {'SHADOW_MODE': 'perhaps'}, [], 'SHADOW_MODE'),
            ('no type of Redis', {'REDIS_URL': 'h:1', 'REDIS_TYPE': 'RING'}, [], 'SINGLE, SENTINEL and CLUSTER'),
            ('no name of a master', {'REDIS_URL': 'h:1', 'REDIS_TYPE': 'SENTINEL'}, [], 'MASTER,HOST:PORT'),
            ('no duration', {'REDIS_URL': 'h:1', 'REDIS_TIMEOUT': 'soon'}, [], 'REDIS_TIMEOUT'),
            ('TLS without files', {'GRPC_SERVER_USE_TLS': 'true'}, [], 'GRPC_SERVER_TLS_CERT'),
            ('names of clients that nobody looks at',
             {'GRPC_SERVER_USE_TLS': 'true', 'GRPC_CLIENT_TLS_SAN': 'envoy'}, [], 'GRPC_CLIENT_TLS_SAN'),
            ('rules from elsewhere', {'CONFIG_TYPE': 'GRPC_XDS_SOTW'}, [], 'CONFIG_TYPE'),
        ]
        with Folder({'d.yaml': domain('d', rule('k', 1))}) as folder:
            for why, env, args, words in rows:
                with self.subTest(why):
                    status, log = self.refuse(folder.path, env, args)
                    self.assertEqual(status, 2, log)
                    self.assertIn(words, log)
            status, log = self.refuse(folder.path, arguments=['--ratelimit-config', folder.path], env={'HOST': '0.0.0.0'})
            self.assertEqual(status, 2)
            self.assertIn('--insecure', log)
        status, log = self.refuse('', arguments=['--ratelimit-compatible'])
        self.assertEqual((status, '--ratelimit-config' in log), (2, True))

    def test_a_folder_without_rules_does_not_start(self):
        rows = [
            ('empty', {}, 'no .yaml or .yml file'),
            ('one of another name', {'rules.txt': 'domain: d\n'}, 'rules.txt is not read'),
            ('an unknown key', {'d.yaml': 'domain: d\ndescriptors:\n- key: k\n  rate_limt: {}\n'}, 'd.yaml:4:3'),
        ]
        for why, files, words in rows:
            with self.subTest(why), Folder(files) as folder:
                status, log = self.refuse(folder.path)
                self.assertEqual(status, 2, log)
                self.assertIn(words, log)

    def test_variables_and_their_reasons_are_told_once(self):
        env = {'NEAR_LIMIT_RATIO': '0.7', 'REDIS_PERSECOND': 'true', 'REDIS_PERSECOND_URL': 'h:1', 'LOG_LEVEL': 'debug',
               'PORT': '1', 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT': 'true', 'BACKEND_TYPE': 'memcache'}
        with Folder({'d.yaml': domain('d', rule('k', 1)), 'notes.md': 'x'}) as folder, \
                Ratelimit(folder.path, env=env) as weir:
            log = weir.log()
            for name in env:
                self.assertEqual(len(re.findall(f'event=ratelimit_ignored variable={name} reason=', log)), 1, name)
            self.assertEqual(log.count('event=ratelimit_store variable=REDIS_URL'), 1)
            self.assertIn('notes.md is not read', log)

    def test_doors_of_the_service(self):
        from door import free_port
        http, grpc = free_port(), free_port()
        env = {'PORT': str(http), 'GRPC_PORT': str(grpc), 'GRPC_HOST': '127.0.0.1'}
        with Folder({'d.yaml': domain('d', rule('k', 1))}) as folder, Ratelimit(folder.path, env=env, http=[]) as weir:
            self.assertEqual(weir.ports, [http])
            self.assertIn(f'listening grpc 127.0.0.1:{grpc}\n', weir.log())
            self.assertIn('variable=HOST', weir.log())


if __name__ == '__main__':
    unittest.main()
