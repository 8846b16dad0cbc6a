# SPDX-License-Identifier: Apache-2.0
"""Caddy asks weir, with both files of examples/caddy.

LABELS: e2e
"""
import unittest

from checks import Checks
from proxies import Stack, program


class Caddy(Checks, unittest.TestCase):
    policies = {'open': {'down': 200, 'hung': 200, 'undecided': 503},
                'closed': {'down': 503, 'hung': 503, 'undecided': 503}}
    waiting = ['open', ('header_up X-Forwarded-Method', 'header_up Prefer "wait=2"\n\t\t\theader_up X-Forwarded-Method'),
               ('response_header_timeout 50ms', 'response_header_timeout 3s')]
    respelt = {'/login#/free': '/login%23/free'}

    def stack(self, policy, edits=(), **more):
        return Stack('caddy', [program('caddy'), 'run', '--adapter', 'caddyfile', '--config', f'Caddyfile-fail-{policy}'], edit=edits, **more)


if __name__ == '__main__':
    unittest.main()
