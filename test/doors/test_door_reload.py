# SPDX-License-Identifier: Apache-2.0
"""Another contract while the server serves: by signal, by file in each way a file can change, by call; good and bad.

Where numbers matter time is virtual: the stamp of POST /v1/reload is the instant of the change.
"""
import json
import os
import signal
import threading
import time
import unittest

from door import BUCKET, Connection, Server, request, wait_for

S = 10**9

OTHER = BUCKET.replace('burst: 20', 'burst: 30')
BAD = BUCKET.replace('rate: 5/s', 'rate: 5 per second')


def versions(server):
    return server.ask('GET', '/v1/limits').json['version']


def burst(server):
    limit, = server.ask('GET', '/v1/limits').json['limits']
    return limit['burst']


def rewrite(server, text):
    with open(server.contract, 'w') as file:
        file.write(text)


def replace(server, text):
    with open(server.contract + '.new', 'w') as file:
        file.write(text)
    os.replace(server.contract + '.new', server.contract)


def reload(server, text=None, at=0):
    if text is not None:
        rewrite(server, text)
    return server.ask('POST', '/v1/reload', headers=[('Weir-Now', str(round(at * S)))], unix='admin.sock')


def check(server, at=0, times=1, cost=1, **attributes):
    """How many of so many requests pass at one instant."""
    items = [{'attributes': {'tenant': 'acme', **attributes}, 'cost': cost}] * times
    reply = server.ask('POST', '/v1/check', json.dumps({'requests': items}), [('Weir-Now', str(round(at * S)))])
    return sum(item['decision'] == 'allow' for item in reply.json['results'])


def counts(reply):
    assert reply.status == 200, reply.text
    return {name: reply.json[name] for name in ['kept', 'resized', 'added', 'restarted', 'removed'] if reply.json[name]}


class Causes(unittest.TestCase):
    """Each way to ask is seen, and each once. Nothing here waits for a time; what never comes fails."""

    def test_signal(self):
        with Server(files={'elsewhere': (OTHER, 0o644)}) as server:
            replace(server, OTHER)
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: burst(server) == 30)
            before = server.metric('weir_reload_total{result="ok"}')
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.metric('weir_reload_total{result="ok"}') > before)
            wait_for(lambda: ' event=reloaded by=signal ' in server.log())

    def test_file_changes_in_each_way(self):
        with Server() as server:
            for i, change in enumerate([rewrite, replace, rewrite, replace, replace]):
                change(server, BUCKET.replace('burst: 20', f'burst: {30 + i}'))
                wait_for(lambda: burst(server) == 30 + i)
            os.remove(server.contract)
            wait_for(lambda: 'No such file' in server.ask('GET', '/healthz').text)
            self.assertEqual(burst(server), 34)
            rewrite(server, BUCKET)
            wait_for(lambda: burst(server) == 20)
            self.assertEqual(server.ask('GET', '/healthz').text, 'ok\n')
            self.assertNotIn('by=signal', server.log())
            self.assertNotIn('by=admin', server.log())

    def test_a_file_that_comes_back_as_it_was_is_told(self):
        """Else health would show for ever that the file is not there."""
        with Server() as server:
            os.rename(server.contract, server.contract + '.away')
            wait_for(lambda: 'No such file' in server.ask('GET', '/healthz').text)
            os.rename(server.contract + '.away', server.contract)
            wait_for(lambda: server.ask('GET', '/healthz').text == 'ok\n')
            self.assertEqual(burst(server), 20)

    def test_a_change_that_is_none_is_no_reload(self):
        with Server() as server:
            replace(server, BUCKET)
            os.chmod(server.contract, 0o600)
            replace(server, OTHER)
            wait_for(lambda: burst(server) == 30)
            self.assertEqual(server.metric('weir_reload_total{result="ok"}'), 1)

    def test_B43_symbolic_links_as_kubernetes_swaps_them(self):
        """weir.yaml -> ..data/weir.yaml, ..data -> ..first; a new folder, then one rename of the link."""
        with Server() as holder:
            folder = os.path.join(holder.dir, 'volume')

            def publish(name, text):
                os.makedirs(os.path.join(folder, name))
                with open(os.path.join(folder, name, 'weir.yaml'), 'w') as file:
                    file.write(text)
                os.symlink(name, os.path.join(folder, '..data_tmp'))
                os.rename(os.path.join(folder, '..data_tmp'), os.path.join(folder, '..data'))
            publish('..first', BUCKET)
            os.symlink('..data/weir.yaml', os.path.join(folder, 'weir.yaml'))
            with Linked(os.path.join(folder, 'weir.yaml')) as server:
                publish('..second', OTHER)
                wait_for(lambda: burst(server) == 30)
                publish('..third', BAD)
                wait_for(lambda: 'weir.yaml:6:11: ' in server.ask('GET', '/healthz').text)
                publish('..fourth', BUCKET)
                wait_for(lambda: burst(server) == 20)

    def test_a_link_out_of_the_folder(self):
        """Nothing happens in the folder that is listened to: the look once a second sees it."""
        with Server() as holder:
            os.mkdir(os.path.join(holder.dir, 'links'))
            link = os.path.join(holder.dir, 'links', 'weir.yaml')
            os.symlink(holder.contract, link)
            with Linked(link) as server:
                replace(holder, OTHER)
                wait_for(lambda: burst(server) == 30)

    def test_asked_while_another_is_under_way(self):
        """Requests wait in line, and each is answered by a reload that read the file after it was asked."""
        with Server() as server:
            connections = [Connection(server.admin) for _ in range(20)]
            for i in range(10):
                text = BUCKET.replace('burst: 20', f'burst: {100 + i}')
                rewrite(server, text)
                for connection in connections:
                    connection.send(request('POST', '/v1/reload') * 3)
                version = {reply.json['version'] for connection in connections
                           for reply in [connection.reply() for _ in range(3)]}
                self.assertEqual(version, {versions(server)})
                self.assertEqual(burst(server), 100 + i)
            for connection in connections:
                connection.socket.close()

    def test_who_hangs_up_breaks_nothing(self):
        with Server() as server:
            for i in range(30):
                with Connection(server.admin) as connection:
                    connection.send(request('POST', '/v1/reload') * (i % 3 + 1))
            wait_for(lambda: server.metric('weir_reload_total{result="ok"}') > 0)
            self.assertEqual(reload(server).status, 200)

    def test_standard_input_cannot_be_read_again(self):
        with Server(args=['--http', '127.0.0.1:0'], env={}) as server:
            self.assertEqual(reload(server).status, 200)
        with Piped(BUCKET) as server:
            reply = reload(server)
            self.assertEqual(reply.status, 422)
            self.assertIn('standard input', reply.json['detail'])
            self.assertEqual(server.check().status, 200)

    def test_a_drain_answers_who_waits(self):
        for _ in range(5):
            with Server() as server:
                connections = [Connection(server.admin) for _ in range(10)]
                for connection in connections:
                    connection.send(request('POST', '/v1/reload') * 5)
                server.process.terminate()
                for connection in connections:
                    reply = connection.reply()
                    self.assertTrue(reply is None or reply.status in (200, 503))
                    connection.socket.close()


class Linked(Server):
    """A server whose contract is found at another path."""

    def __init__(self, path):
        self.linked = path
        super().__init__()

    def popen_path(self):
        return self.linked


class Piped(Server):
    def popen_path(self):
        return '-'


class Bad(unittest.TestCase):
    def test_B43_the_old_contract_stays_in_force_and_everybody_is_told(self):
        good = BUCKET
        for why, text, words in [
                ('a wrong rate', BAD, 'weir.yaml:6:11: '),
                ('no YAML', good + '\n  - [', 'weir.yaml:'),
                ('an empty file', '', 'weir.yaml'),
                ('blanks', '\n\n', 'weir.yaml'),
                ('a limit twice', good + good.split('limits:\n')[1], "'tenant-requests'"),
                ('no limits at all', 'weir: 1\n', 'limits'),
                ('another version', good.replace('weir: 1', 'weir: 2'), 'weir.yaml:2:7: ')]:
            with self.subTest(why), Server(good, virtual=True) as server:
                version = versions(server)
                self.assertEqual(check(server, times=21), 20)
                reply = reload(server, text)
                self.assertEqual((reply.status, reply.fields['content-type']), (422, 'application/problem+json'))
                self.assertIn(words, reply.json['detail'])
                first = reply.json['diagnostics'][0]
                self.assertEqual(first['severity'], 'error')
                self.assertIn(first['message'], reply.json['detail'])
                self.assertTrue(first['cure'])
                health = server.ask('GET', '/healthz')
                self.assertEqual(health.status, 200)
                self.assertRegex(health.text, r'^ok; contract: last reload failed at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: ')
                self.assertIn(words, health.text)
                self.assertEqual(server.metric('weir_reload_total{result="failed"}'), 1)
                self.assertIn(' level=error event=reload_failed ', server.log())
                self.assertEqual(versions(server), version)
                self.assertEqual(server.metric(f'weir_contract_info{{version="{version}"}}'), 1)
                self.assertEqual(check(server), 0, 'counters are untouched')
                self.assertEqual(server.metric('weir_decisions_total{limit="tenant-requests",decision="allow"}'), 20)
                self.assertEqual(counts(reload(server, good)), {'kept': 1})
                self.assertEqual(server.ask('GET', '/healthz').text, 'ok\n')

    def test_what_a_reload_does_not_read_again(self):
        with Server(virtual=True) as server:
            reply = reload(server, BUCKET + 'memory: { keys: 1000 }\nserver: { uids: [7] }\n')
            self.assertEqual(counts(reply), {'kept': 1})
            said = ' '.join(warning['message'] for warning in reply.json['warnings'])
            self.assertIn('memory', said)
            self.assertIn('server', said)
            wait_for(lambda: ' event=contract_warning ' in server.log())


class Counters(unittest.TestCase):
    CONTRACT = """
weir: 1
limits:
  - { name: bucket, key: [tenant], rate: 1/s, burst: 100, when: { path: "/bucket" } }
  - { name: window, key: [tenant], rate: 50/60s, algorithm: fixed-window, when: { path: "/window" } }
  - { name: other, key: [], rate: 7/s, burst: 7, when: { path: "/other" } }
"""

    def test_B54_no_reload_hands_out_a_burst(self):
        with Server(self.CONTRACT, virtual=True) as server:
            self.assertEqual(check(server, 0, 120, path='/bucket'), 100)
            self.assertEqual(check(server, 0, 60, path='/window'), 50)
            for second in range(1, 31):
                self.assertEqual(counts(reload(server, at=second)), {'kept': 3})
                self.assertEqual(check(server, second, 2, path='/bucket'), 1)
                self.assertEqual(check(server, second, 2, path='/window'), 0)
            unrelated = self.CONTRACT.replace('7/s', '8/s')
            self.assertEqual(counts(reload(server, unrelated, 31)), {'kept': 2, 'resized': 1})
            self.assertEqual(check(server, 31, 2, path='/bucket'), 1)
            self.assertEqual(check(server, 31, 2, path='/window'), 0)
            self.assertEqual(server.metric('weir_decisions_total{limit="bucket",decision="allow"}'), 131)

            # A rename starts afresh, and says so.
            renamed = unrelated.replace('name: bucket', 'name: tenants')
            reply = reload(server, renamed, 32)
            self.assertEqual(counts(reply), {'kept': 2, 'added': 1, 'removed': 1})
            said = [warning['message'] for warning in reply.json['warnings'] if "'tenants'" in warning['message']]
            self.assertTrue(any('fresh' in message and "'bucket'" in message for message in said), said)
            wait_for(lambda: 'event=contract_warning' in server.log() and 'tenants' in server.log())
            self.assertEqual(check(server, 32, 120, path='/bucket'), 100)
            self.assertEqual(check(server, 59, 2, path='/window'), 0)
            self.assertEqual(check(server, 60, 60, path='/window'), 50)

    def test_counters_follow_names(self):
        """150 limits in another order, some gone, some new: each goes on from its own number, new ones from 0."""
        def contract(names):
            return 'weir: 1\nlimits:\n' + ''.join(
                f'  - {{ name: l{i}, key: [], rate: 1/1h, burst: 1000, when: {{ path: "/{i}" }} }}\n' for i in names)
        with Server(contract(range(150)), virtual=True) as server:
            def ask(numbers):
                items = [{'attributes': {'path': f'/{i}'}} for i in numbers for _ in range(i % 5 + 1)]
                server.ask('POST', '/v1/check', json.dumps({'requests': items}))

            def shown():
                limits = server.ask('GET', '/v1/limits').json['limits']
                return {int(limit['name'][1:]): limit['counters']['allow'] for limit in limits}
            ask(range(150))
            self.assertEqual(shown(), {i: i % 5 + 1 for i in range(150)})
            self.assertEqual(counts(reload(server, contract(reversed(range(30, 150))))), {'kept': 120, 'removed': 30})
            self.assertEqual(shown(), {i: i % 5 + 1 for i in range(30, 150)})
            again = [*range(100, 200), *range(20, 40)]
            self.assertEqual(counts(reload(server, contract(again))), {'kept': 60, 'added': 60, 'removed': 60})
            ask(again)
            stayed = set(range(100, 150)) | set(range(30, 40))
            self.assertEqual(shown(), {i: (i % 5 + 1) * (2 if i in stayed else 1) for i in again})
            for i in [20, 35, 120, 199]:
                name = f'weir_decisions_total{{limit="l{i}",decision="allow"}}'
                self.assertEqual(server.metric(name), (i % 5 + 1) * (2 if i in stayed else 1))

    def test_B56_new_limits_reach_keys_that_exist(self):
        def contract(rate, burst):
            return BUCKET.replace('5/s', rate).replace('20', str(burst))
        with Server(contract('30/s', 30), virtual=True) as server:
            self.assertEqual(check(server, 0, 10), 10)
            # (a) 10 used: with 5 at most, 5 too many. One second pays them back: then none is there, and none more.
            self.assertEqual(counts(reload(server, contract('5/s', 5), 0)), {'resized': 1})
            self.assertEqual(check(server, 0, 10), 0)
            self.assertEqual(check(server, 1.2, 10), 1)
            # (b) 5 used at 1.2 s, and 30 at most: 25.
            self.assertEqual(counts(reload(server, contract('30/s', 30), 1.2)), {'resized': 1})
            self.assertEqual(check(server, 1.2, 40), 25)
            # (c) blocked at once; then 100/s with what is used still used: 30 of 100, of which a second pays 100.
            reload(server, contract('30/s', 0), 1.2)
            self.assertEqual(check(server, 9, 3), 0)
            self.assertEqual(server.check(headers=[('Weir-Now', str(9 * S))]).json['decision'], 'never')
            reload(server, contract('100/s', 100), 9)
            self.assertEqual(check(server, 9, 200), 100)
            self.assertEqual(check(server, 9.5, 200), 50)

    def test_reservations_keep_their_place(self):
        with Server(BUCKET, virtual=True) as server:
            def post(path, body, at=0):
                return server.ask('POST', path, json.dumps(body), [('Weir-Now', str(round(at * S)))]).json
            held = post('/v1/reserve', {'attributes': {'tenant': 'acme'}, 'cost': 15})['reservation']
            gone = post('/v1/reserve', {'attributes': {'tenant': 'b'}, 'cost': 15})['reservation']
            reload(server, OTHER)
            done = post('/v1/settle', {'reservation': held, 'cost': 5})
            self.assertEqual((done['returned'], done['remaining'], done['limit']), (10, 25, 'tenant-requests'))
            reload(server, OTHER.replace('tenant-requests', 'renamed'))
            done = post('/v1/cancel', {'reservation': gone})
            self.assertEqual((done['returned'], done['limit']), (0, None), 'what is counted nowhere comes back nowhere')

    def test_late_answers_name_the_limits_they_were_decided_under(self):
        """Decided before a reload and answered after it: the old name, its status and its counter."""
        with Server(BUCKET + '    reply: { status: 402 }\n', virtual=True, env={'WEIR_TEST_LATE': '3:400'}) as server:
            connections = [server.connect() for _ in range(8)]
            for connection in connections:
                connection.send(request('POST', '/v1/check', '{"attributes":{"tenant":"acme"}}') * 5)
            wait_for(lambda: server.metric('weir_requests_total{door="check",code="402"}') > 0
                     or server.metric('weir_requests_total{door="check",code="200"}') > 0)
            names = set()
            for i in range(6):
                reload(server, OTHER.replace('tenant-requests', f'name-{i}').replace('30', '7'))
                names.add(f'name-{i}')
            replies = [connection.reply() for connection in connections for _ in range(5)]
            for connection in connections:
                connection.socket.close()
            for reply in replies:
                name, = [limit['limit'] for limit in reply.json['limits']]
                self.assertEqual(reply.status == 402, name == 'tenant-requests' and reply.json['decision'] == 'deny')
                self.assertIn(name, {'tenant-requests'} | names)
            self.assertEqual(sum(r.json['decision'] == 'allow' and r.json['limit'] == 'tenant-requests'
                                 for r in replies), 20)
            wait_for(lambda: counts(reload(server)) == {'kept': 1})


class Load(unittest.TestCase):
    """B43 (g), B54: a hundred reloads a second under load, time standing still. Every token is given once."""

    KEPT, SMALL, LARGE, RELOADS = 3000, 5000, 6000, 1000
    SECONDS_MAX = 60  # on a machine that is busy with other things

    def contract(self, i):
        sized = self.LARGE if i % 2 else self.SMALL
        extra = f'  - {{ name: extra-{i % 7}, key: [], rate: 1/1d, burst: 10, when: {{ path: "/extra" }} }}\n'
        return f"""
weir: 1
limits:
  - {{ name: kept, key: [tenant], rate: 1/1d, burst: {self.KEPT}, when: {{ path: "/kept" }} }}
{extra if i % 3 else ''}
  - {{ name: sized, key: [tenant], rate: 1/1d, burst: {sized}, when: {{ path: ["/sized", "/both"] }} }}
  - {{ name: both, key: [tenant], algorithm: fixed-window, rate: 2000/1d, when: {{ path: "/both" }} }}
"""

    def ask(self, server, stop, totals, errors):
        paths = ['/kept', '/sized', '/both', '/extra']
        body = json.dumps({'requests': [{'attributes': {'tenant': 'acme', 'path': paths[i % 4]}} for i in range(40)]})
        try:
            with server.connect() as connection:
                while not stop.is_set():
                    results = connection.ask('POST', '/v1/check', body).json['results']
                    for i, result in enumerate(results):
                        # One whole configuration: each path's limits, all of them, and no others.
                        met = [limit['limit'] for limit in result['limits']]
                        path = paths[i % 4]
                        assert (met == [path[1:]] if path in ('/kept', '/sized') else
                                met == ['sized', 'both'] if path == '/both' else
                                met == [] or (len(met) == 1 and met[0].startswith('extra-'))), (path, met)
                        assert result['decision'] in ('allow', 'deny'), result
                        if result['decision'] == 'allow':
                            totals[path] = totals.get(path, 0) + 1
        except Exception as error:  # whatever it is, the test tells it
            errors.append(repr(error))

    def test_B43_a_hundred_reloads_a_second_lose_and_double_nothing(self):
        with Server(self.contract(1), virtual=True) as server:
            stop, errors, totals = threading.Event(), [], [{} for _ in range(3)]
            threads = [threading.Thread(target=self.ask, args=(server, stop, total, errors)) for total in totals]
            for thread in threads:
                thread.start()
            with Connection(server.admin) as admin:
                end, reloads = time.monotonic() + self.SECONDS_MAX, 0
                while reloads < self.RELOADS and time.monotonic() < end:
                    began = time.monotonic()
                    i, reloads = reloads, reloads + 1
                    replace(server, self.contract(i))
                    reply = admin.ask('POST', '/v1/reload')
                    self.assertEqual(reply.status, 200, reply.text)
                    time.sleep(max(0, 0.01 - (time.monotonic() - began)))
            replace(server, self.contract(1))
            self.assertEqual(reload(server).status, 200)
            # What the reloads left over is asked for now.
            for path in ['/kept', '/sized', '/both']:
                while (more := check(server, times=1000, path=path)) > 0:
                    totals[0][path] = totals[0].get(path, 0) + more
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual(errors, [])
            given = {path: sum(total.get(path, 0) for total in totals) for path in ['/kept', '/sized', '/both']}
            self.assertEqual(given['/kept'], self.KEPT)
            self.assertEqual(given['/sized'] + given['/both'], self.LARGE)
            self.assertLessEqual(given['/both'], 2000)
            # And the counters of limits that stayed saw each of them once, whatever number they had.
            for limit, expected in [('kept', self.KEPT), ('sized', self.LARGE), ('both', given['/both'])]:
                name = f'weir_decisions_total{{limit="{limit}",decision="allow"}}'
                self.assertEqual(server.metric(name), expected, limit)
            self.assertEqual(server.metric('weir_reload_total{result="ok"}'), reloads + 1)
            # Nothing is left of limits that are gone: the table holds the three keys that are counted.
            wait_for(lambda: server.metric('weir_cells{state="live"}') <= 4)


if __name__ == '__main__':
    unittest.main()
