# SPDX-License-Identifier: Apache-2.0
"""HAProxy asks weir by the Lua of examples/haproxy.

LABELS: e2e
"""
import os
import unittest

from checks import Checks
from proxies import Stack, program


class HAProxy(Checks, unittest.TestCase):
    policies = {'open': {'down': 200, 'hung': 200, 'undecided': 503},
                'closed': {'down': 503, 'hung': 503, 'undecided': 503}}
    waiting = ['open', ('/v1/auth 50 ', '/v1/auth 3000 '), ('      -- What else', '      ["prefer"] = { "wait=2" },\n      -- What else')]

    def stack(self, policy, edits=(), **more):
        haproxy = program('haproxy')
        edit = [] if policy == 'open' else [(' 50 open\n', f' 50 {policy}\n')]
        return Stack('haproxy', [haproxy, '-db', '-f', 'haproxy.cfg'], edit=[*edit, *edits],
                     env={'LD_LIBRARY_PATH': haproxy + '.lib'}, **more)


if __name__ == '__main__':
    unittest.main()
