# SPDX-License-Identifier: Apache-2.0
"""The Prometheus text: parsed strictly, summed over workers, with bounded labels, never a client's key."""
import re
import unittest

from door import BUCKET, Server, wait_for

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
            # A worker counts the time after its reply has left.
            wait_for(lambda: server.metric('weir_decision_seconds_count') == 10)
            samples, types = parse(server.ask('GET', '/metrics').text)
            self.assertEqual(types['weir_decision_seconds'], 'histogram')
            buckets = [(labels, value) for (name, labels), value in samples.items()
                       if name == 'weir_decision_seconds_bucket']
            values = [value for _, value in buckets]
            self.assertEqual(values, sorted(values), 'cumulative')
            self.assertEqual(buckets[-1], ('le="+Inf"', 10))
            self.assertEqual(samples['weir_decision_seconds_count', ''], 10)
            self.assertGreater(samples['weir_decision_seconds_sum', ''], 0)

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
