# SPDX-License-Identifier: Apache-2.0
"""The Prometheus text: parsed strictly, summed over workers, with bounded labels, never a client's key."""
import os
import re
import socket
import unittest

from door import BUCKET, SOURCE, Server, request, wait_for

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? '
                    r'([0-9.e+-]+|\+Inf|NaN)$')


def parse(text):
    """{(name, labels): value}, or an assertion that says which rule of the form is broken."""
    assert text.endswith('\n'), 'the last line ends too'
    samples, types, seen, current = {}, {}, [], None
    for line in text[:-1].split('\n'):
        if line.startswith('# TYPE '):
            _, _, current, kind = line.split(' ')
            assert current not in types, f'{current} announced twice'
            types[current] = kind
            continue
        if line.startswith('# HELP '):
            continue
        match = SAMPLE.match(line)
        assert match, f'not a sample: {line!r}'
        name, labels, value = match.groups()
        family = re.sub('_(bucket|sum|count)$', '', name) if types.get(current) == 'histogram' else name
        assert family == current, f'{name} outside of its family'
        assert (name, labels) not in samples, f'{line} twice'
        samples[name, labels or ''] = float(value)
        seen.append(family)
    return samples, types


def parse_open(text):
    """{family: type} of OpenMetrics, or an assertion that says which rule of the form is broken."""
    lines = text.split('\n')
    assert lines[-2:] == ['# EOF', ''], 'the last line says that nothing is missing'
    families, current, seen = {}, None, set()
    for line in lines[:-2]:
        assert line and '\r' not in line and '  ' not in line.split('"')[0], f'{line!r}'
        if line.startswith('# TYPE '):
            _, _, current, kind = line.split(' ')
            assert current not in families, f'{current} announced twice'
            assert kind in ('counter', 'gauge', 'histogram'), kind
            families[current] = kind
            continue
        if line.startswith('# HELP '):
            name, help_text = line[7:].split(' ', 1)
            assert not re.search(r'(?<!\\)"', help_text), f'a quote that is not escaped: {line}'
            assert not name.endswith('_total')
            continue
        match = SAMPLE.match(line)
        assert match, f'not a sample: {line!r}'
        name, labels, value = match.groups()
        suffixes = {'counter': ['_total'], 'gauge': [''], 'histogram': ['_bucket', '_sum', '_count']}[families[current]]
        assert name in [current + suffix for suffix in suffixes], f'{name} in {current}'
        assert (name, labels) not in seen, f'{line} twice'
        seen.add((name, labels))
        for bound in re.findall('le="([^"]*)"', labels or ''):
            assert bound == '+Inf' or bound == repr(float(bound)), f'{bound} is not canonical'
    return families


def resp_connection(server):
    port = int(re.search(r'^listening resp .*:(\d+)$', server.log(), re.M)[1])
    return socket.create_connection(('127.0.0.1', port), 30)


class Metrics(unittest.TestCase):
    def test_counts(self):
        with Server(args=['--workers', '3']) as server:
            for cost in [20] + [20] * 4 + [21]:
                server.check(cost=cost)
            server.check('{"path":"/x"}')
            server.check(mode='"peek"')
            for _ in range(3):
                server.ask('GET', '/v1/auth/a')
            server.ask('GET', '/nowhere')
            reply = server.ask('GET', '/metrics')
            self.assertEqual(reply.fields['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
            samples, types = parse(reply.text)
            for (name, labels), value in {
                    ('weir_decisions_total', 'limit="tenant-requests",decision="allow"'): 1,
                    ('weir_decisions_total', 'limit="tenant-requests",decision="deny"'): 4,
                    ('weir_decisions_total', 'limit="tenant-requests",decision="never"'): 1,
                    ('weir_decisions_total', 'limit="",decision="allow"'): 4,
                    ('weir_requests_total', 'door="check",code="200"'): 2,
                    ('weir_requests_total', 'door="check",code="429"'): 6,
                    ('weir_requests_total', 'door="auth",code="200"'): 3,
                    ('weir_requests_total', 'door="none",code="404"'): 1,
                    ('weir_cells', 'state="live"'): 1,
                    ('weir_overflow_total', 'limit="tenant-requests"'): 0,
                    ('weir_reclaims_total', ''): 0}.items():
                self.assertEqual(samples.get((name, labels)), value, f'{name}{{{labels}}}')
            self.assertEqual(types['weir_decisions_total'], 'counter')
            self.assertEqual(types['weir_cells'], 'gauge')
            self.assertIn('weir_undecided_total', types)
            self.assertTrue(any(re.match('version="[0-9a-f]{16}"', labels)
                                for name, labels in samples if name == 'weir_contract_info'))

    def test_histogram(self):
        with Server() as server:
            for _ in range(10):
                server.check()
            for _ in range(3):
                server.ask('GET', '/v1/auth/a')
            # A worker counts the time after its reply has left.
            wait_for(lambda: server.metric('weir_decision_seconds_count{door="check"}') == 10)
            wait_for(lambda: server.metric('weir_decision_seconds_count{door="auth"}') == 3)
            samples, types = parse(server.ask('GET', '/metrics').text)
            self.assertEqual(types['weir_decision_seconds'], 'histogram')
            buckets = [(labels, value) for (name, labels), value in samples.items()
                       if name == 'weir_decision_seconds_bucket' and 'door="check"' in labels]
            values = [value for _, value in buckets]
            self.assertEqual(values, sorted(values), 'cumulative')
            self.assertEqual(buckets[-1], ('door="check",le="+Inf"', 10))
            self.assertEqual(samples['weir_decision_seconds_count', 'door="check"'], 10)
            self.assertGreater(samples['weir_decision_seconds_sum', 'door="check"'], 0)
            bounds = [re.search('le="(.*)"', labels)[1] for labels, _ in buckets]
            self.assertEqual(bounds[:3] + bounds[-2:], ['1e-06', '2e-06', '5e-06', '1.0', '+Inf'])
            self.assertEqual(bounds, [repr(float(bound)) for bound in bounds[:-1]] + ['+Inf'], 'canonical')

    def test_times_of_a_batch_and_a_pipeline(self):
        """What is read together shares its time, by how many each door decided."""
        with Server(args=['--workers', '1', '--resp', '127.0.0.1:0']) as server:
            item = '{"attributes":{"tenant":"acme"}}'
            batch = '{"requests":[%s]}' % ','.join([item] * 100)
            with server.connect() as connection:
                connection.send(request('POST', '/v1/check', batch) + request('GET', '/v1/auth/a') * 2)
                self.assertEqual([connection.reply().status for _ in range(3)], [200] * 3)
            wait_for(lambda: server.metric('weir_decision_seconds_count{door="auth"}') == 2)
            self.assertEqual(server.metric('weir_decision_seconds_count{door="check"}'), 100)
            sums = [server.metric('weir_decision_seconds_sum{door="%s"}' % door) for door in ('check', 'auth')]
            self.assertGreater(sums[0], 0)
            with resp_connection(server) as connection:
                connection.sendall(b'WEIR.CHECK ATTR tenant acme\r\nCL.THROTTLE k 1 1 60\r\n')
                connection.recv(4096)
            wait_for(lambda: server.metric('weir_decision_seconds_count{door="resp-check"}') == 1)
            wait_for(lambda: server.metric('weir_decision_seconds_count{door="resp-throttle"}') == 1)

    def test_connections(self):
        with Server(args=['--resp', '127.0.0.1:0']) as server:
            with server.connect() as first, server.connect() as second, resp_connection(server) as third:
                first.ask('GET', '/healthz'), second.ask('GET', '/healthz')
                third.sendall(b'PING\r\n')
                third.recv(100)
                samples, _ = parse(server.ask('GET', '/metrics', unix='admin.sock').text)
                self.assertEqual(samples['weir_connections', 'door="http"'], 2)
                self.assertEqual(samples['weir_connections', 'door="resp"'], 1)
                self.assertEqual(samples['weir_connections', 'door="admin"'], 1)
                self.assertGreater(samples['weir_connections_max', ''], 100)

            def gone():
                samples, _ = parse(server.ask('GET', '/metrics', unix='admin.sock').text)
                return samples['weir_connections', 'door="http"'] == 0 and samples['weir_connections', 'door="resp"'] == 0
            wait_for(gone)
            samples, _ = parse(server.ask('GET', '/metrics', unix='admin.sock').text)
            self.assertEqual(samples['weir_connections_accepted_total', 'door="http"'], 2)
            self.assertEqual(samples['weir_connections_accepted_total', 'door="resp"'], 1)

    def test_openmetrics(self):
        with Server() as server:
            server.check()
            accept = ('Accept', 'application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1')
            reply = server.ask('GET', '/metrics', headers=[accept])
            self.assertEqual(reply.fields['content-type'], 'application/openmetrics-text; version=1.0.0; charset=utf-8')
            families = parse_open(reply.text)
            classic = server.ask('GET', '/metrics').text
            _, types = parse(classic)
            self.assertEqual({(name + '_total' if kind == 'counter' else name): kind for name, kind in families.items()}, types)
            for name, kind in types.items():
                self.assertEqual(name.endswith('_total'), kind == 'counter', name)

    def test_every_family_is_documented(self):
        """docs/metrics.md names each that a server shows, also those of TLS and of a store, and none that there is not."""
        with open(os.path.join(SOURCE, 'docs', 'metrics.md')) as file:
            named = set(re.findall(r'^\| `(weir_[a-z_]+)', file.read(), re.M))
        sources = ''
        for folder in ('src/net',):
            for name in os.listdir(os.path.join(SOURCE, folder)):
                if name.endswith('.c'):
                    with open(os.path.join(SOURCE, folder, name)) as file:
                        sources += file.read()
        made = set(re.findall(r'"(weir_[a-z_]+)"', sources))
        self.assertEqual(named - made, set(), 'documented, and nobody writes it')
        self.assertEqual(made - named, set(), 'written, and not documented')

    def test_undecided(self):
        """A table of one group whose keys are all live, with `when-full: closed`: refused, counted apart."""
        contract = BUCKET + '    when-full: closed\nmemory: { keys: 1 }\n'
        with Server(contract) as server:
            statuses = [server.check('{"tenant":"t%d"}' % i, cost=20).status for i in range(2000)]
            refused = statuses.count(503)
            self.assertGreater(refused, 0)
            line = 'weir_undecided_total{limit="tenant-requests",policy="closed",reason="full"}'
            self.assertEqual(server.metric(line), refused)
            self.assertEqual(server.metric('weir_requests_total{door="check",code="503"}'), refused)

    def test_no_key_of_a_client_is_shown(self):
        with Server() as server:
            for i in range(50):
                server.check('{"tenant":"secret-key-%d"}' % i)
                server.ask('GET', f'/secret-path-{i}', headers=[('Secret-Name', 'secret-value')])
            text = server.ask('GET', '/metrics').text
            self.assertNotIn('secret', text)
            self.assertNotIn('secret', server.log())


if __name__ == '__main__':
    unittest.main()
