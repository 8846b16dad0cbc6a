# SPDX-License-Identifier: Apache-2.0
"""Envoy asks weir by its rate limit service, over gRPC, with examples/envoy/rls.yaml: what every proxy has to show.

LABELS: e2e
"""
import unittest

from checks import Checks
from envoy import stack
from proxies import wait_for


class Rls(Checks, unittest.TestCase):
    # What weir could not decide is an error to Envoy: where it fails open, that passes.
    policies = {'closed': {'down': 503, 'hung': 503, 'undecided': 503},
                'open': {'down': 200, 'hung': 200, 'undecided': 200}}

    waiting = ['closed', ('              timeout: 0.05s ', '              timeout: 3s '),
               ('envoy_grpc: { cluster_name: weir }\n', 'envoy_grpc: { cluster_name: weir }\n                  initial_metadata:'
                ' [ { key: weir-wait-ms, value: "2000" } ]\n')]

    def stack(self, policy, **more):
        return stack(policy, **more)

    def settle(self, stack):
        wait_for(lambda: stack.health() == 'healthy')


if __name__ == '__main__':
    unittest.main()
