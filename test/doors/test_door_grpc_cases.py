# SPDX-License-Identifier: Apache-2.0
"""Field cases by their number at the gRPC door: B07 and B09. The other doors' are in test_door_resp_cases.py."""
import unittest

from h2 import Grpc, OK, OVER_LIMIT, descriptor

INVALID_ARGUMENT = 3
TENANT = [('tenant', 'acme')]
DAY = 'algorithm: fixed-window, align: first-request, rate: %d/d'


def contract_of(limit):
    return ('weir: 1\nlimits:\n  - { name: x, when: { domain: test, descriptor: tenant }, key: [tenant], missing-key: skip, '
            + limit + ' }\n')


def outcomes(limit, *hits):
    """Of each number of hits, in order: its overall code, or the status of gRPC where it is none."""
    with Grpc(contract_of(limit)) as server, server.open() as h2:
        replies = [h2.should(descriptor(TENANT, hits=abs(count), refund=count < 0)) for count in hits]
        return [reply.overall if reply.code == 0 else ('status', reply.code) for reply in replies]


class Cases(unittest.TestCase):
    def test_B07_negative_hits_mint_nothing(self):
        """Also 2^64 - 3, which is -3 to whoever reads it with a sign. 0 looks."""
        refused = ('status', INVALID_ARGUMENT)
        for limit in ('rate: 5/1h, burst: 5', 'algorithm: fixed-window, align: first-request, rate: 5/1h',
                      'algorithm: sliding-window, rate: 5/1h', 'algorithm: sliding-log, rate: 5/1h'):
            with self.subTest(limit):
                got = outcomes(limit, 5, -3, 1, 0, 1, 2**64 - 3, 1)
                self.assertIn(got[5], (OVER_LIMIT, refused))
                self.assertEqual(got[:5] + got[6:], [OK, refused, OVER_LIMIT, OK, OVER_LIMIT, OVER_LIMIT])

    def test_B09_d_hits_beyond_32_bits(self):
        self.assertEqual(outcomes(DAY % 34359738368, 34359738368, 1), [OK, OVER_LIMIT])

    def test_B09_e_a_limit_beyond_32_bits(self):
        self.assertEqual(outcomes(DAY % 4294967296, 4294967295, 1, 1), [OK, OK, OVER_LIMIT])


if __name__ == '__main__':
    unittest.main()
