# SPDX-License-Identifier: Apache-2.0
"""Hits that a call of Envoy's rate limit service gives back (is_negative_hits): where the contract allows it, once the rest of the call has
passed, and never above what was used. The clock stands still."""
import unittest

from h2 import OK, OVER_LIMIT, SHOULD_RATE_LIMIT, Grpc, call, descriptor

INVALID_ARGUMENT = 3
CONTRACT = """
weir: 1
server: { rls-refunds: %s }
limits:
  - { name: tenant, when: { domain: test, descriptor: tenant }, key: [tenant], rate: 1/d, burst: 10 }
  - { name: window, when: { domain: test, descriptor: user }, key: [user], algorithm: fixed-window, rate: 10/d }
  - { name: priced, when: { domain: test, descriptor: door }, key: [door], rate: 1/d, burst: 10, cost: 4 }
  - { name: patient, when: { domain: test, descriptor: queue }, key: [queue], rate: 1/s, burst: 1, wait: { up-to: 10s, queue: 5 } }
"""


SHARED = """
weir: 1
server: { rls-refunds: true }
limits:
  - { name: shared, when: { domain: test, descriptor: tenant }, key: [tenant], rate: 1/d, burst: 10, scope: fleet, when-store-fails: closed }
"""


def one(key, hits, refund=False, value='a', **more):
    return descriptor([(key, value)], hits=hits, refund=refund, **more)


class Refund(unittest.TestCase):
    def play(self, steps, allowed='true'):
        with Grpc(CONTRACT % allowed, hooked=True) as server, server.open() as h2:
            for why, descriptors, want in steps:
                with self.subTest(why):
                    reply = h2.should(*descriptors, extra=[('weir-now', '1000000000')])
                    got = ([status[1] for status in reply.statuses], [status.get(3, 0) for status in reply.statuses]) \
                        if reply.code == 0 else (reply.code, reply.words)
                    self.assertEqual(got[0], want[0])
                    if len(want) > 1 and reply.code == 0:
                        self.assertEqual(got[1], want[1])
                    elif len(want) > 1:
                        self.assertIn(want[1], got[1])

    def test_what_is_given_back(self):
        self.play([
            ('some are taken', [one('tenant', 7)], ([OK], [3])),
            ('and some given back', [one('tenant', 4, True)], ([OK],)),
            ('three are used then', [one('tenant', 1)], ([OK], [6])),
            ('never above what was used', [one('tenant', 100, True)], ([OK],)),
            ('so it is whole', [one('tenant', 10)], ([OK], [0])),
            ('another key has its own', [one('tenant', 5, True, value='b')], ([OK],)),
            ('and this one has nothing still', [one('tenant', 1)], ([OVER_LIMIT], [0])),
            ('no hits give nothing back', [one('tenant', 0, True)], ([OK],)),
            ('as is seen', [one('tenant', 0)], ([OK], [0])),
            ('a window too', [one('user', 10)], ([OK], [0])),
            ('gives back', [one('user', 3, True)], ([OK],)),
            ('three', [one('user', 4)], ([OVER_LIMIT], [3])),
            ('a limit with a price of its own', [one('door', 1)], ([OK], [6])),
            ('takes nothing back, as at every door', [one('door', 4, True)], ([OK],)),
            ('as is seen there', [one('door', 1)], ([OK], [2])),
        ])

    def test_with_the_rest_of_the_call(self):
        self.play([
            ('all is taken', [one('tenant', 10), one('user', 5)], ([OK, OK], [0, 5])),
            ('where the others are refused nothing is given back', [one('tenant', 5, True), one('user', 6)], ([OK, OVER_LIMIT], [0, 5])),
            ('as is seen', [one('tenant', 1)], ([OVER_LIMIT], [0])),
            ('where they pass it is', [one('tenant', 5, True), one('user', 5)], ([OK, OK], [0, 0])),
            ('five', [one('tenant', 5)], ([OK], [0])),
            ('what a call gives back it has not yet when it takes', [one('tenant', 1), one('tenant', 10, True)], ([OVER_LIMIT, OK],)),
            ('two refunds of one key', [one('tenant', 2, True), one('tenant', 3, True)], ([OK, OK],)),
            ('are five', [one('tenant', 6)], ([OVER_LIMIT], [5])),
        ])

    def test_what_is_refused(self):
        self.play([
            ('a limit of its own', [one('tenant', 1, True, limit=(10, 1))], (INVALID_ARGUMENT, 'takes nothing back')),
            ('a value that no limit counts, and nothing is charged', [one('tenant', 3), one('user', 1, True, value='x' * 1025)],
             ([OK, OVER_LIMIT],)),
            ('as is seen', [one('tenant', 0)], ([OK], [10])),
        ])

    def test_what_is_shared_is_given_back_elsewhere(self):
        with Grpc(SHARED, args=['--store', 'redis://127.0.0.1:1']) as server, server.open() as h2:
            reply = h2.should(one('tenant', 1, True))
            self.assertEqual(reply.code, INVALID_ARGUMENT)
            self.assertIn('POST /v1/refund', reply.words)

    def test_when_the_rest_had_to_wait(self):
        def at(second, *more):
            return [('weir-now', str(second * 10**9)), *more]
        with Grpc(CONTRACT % 'true', hooked=True) as server, server.open() as h2:
            self.assertEqual(h2.should(one('queue', 1), one('tenant', 10), extra=at(1)).overall, OK)
            waits = h2.begin(SHOULD_RATE_LIMIT, call(one('queue', 1), one('tenant', 5, True)), at(1, ('weir-wait-ms', '5000')))
            self.assertEqual(h2.should(one('tenant', 1), extra=at(1)).overall, OVER_LIMIT)  # it has not passed yet
            self.assertEqual(h2.should(one('user', 1), extra=at(3)).overall, OK)
            self.assertEqual([status[1] for status in h2.wait(waits).statuses], [OK, OK])
            self.assertEqual([status.get(3, 0) for status in h2.should(one('tenant', 1), extra=at(3)).statuses], [4])

    def test_only_where_it_is_allowed(self):
        self.play([
            ('taken', [one('tenant', 10)], ([OK], [0])),
            ('refused, with the cure', [one('tenant', 5, True)], (INVALID_ARGUMENT, 'rls-refunds: true')),
            ('and nothing came of it', [one('tenant', 1)], ([OVER_LIMIT], [0])),
        ], allowed='false')


if __name__ == '__main__':
    unittest.main()
