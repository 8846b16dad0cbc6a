# SPDX-License-Identifier: Apache-2.0
"""Envoy asks weir over HTTP (ext_authz), with examples/envoy/ext-authz.yaml.

LABELS: e2e
"""
import unittest

from checks import Checks
from proxies import Stack, program


class ExtAuthz(Checks, unittest.TestCase):
    # Any 5xx is a failure for Envoy: where it fails open, weir's own 503 passes, too.
    policies = {'closed': {'down': 503, 'hung': 503, 'undecided': 503},
                'open': {'down': 200, 'hung': 200, 'undecided': 200}}
    waiting = ['closed', ('cluster: weir, timeout: 0.05s', 'cluster: weir, timeout: 3s'),
               ('                path_prefix: /v1/auth\n', '                path_prefix: /v1/auth\n                authorization_request:\n'
                '                  headers_to_add: [ { key: prefer, value: wait=2 } ]\n')]
    identity = 'header:x-client-address'

    def stack(self, policy, edits=(), **more):
        edit = [] if policy == 'closed' else [('failure_mode_allow: false\n', 'failure_mode_allow: true\n')]
        return Stack('envoy', [program('envoy'), '-c', 'ext-authz.yaml', '--concurrency', '1', '--disable-hot-restart'], edit=[*edit, *edits],
                     **more)


if __name__ == '__main__':
    unittest.main()
