# SPDX-License-Identifier: Apache-2.0
"""Traefik asks weir by ForwardAuth, with the files of examples/traefik. It knows one policy, and waits for whoever accepts its connection.

LABELS: e2e
"""
import unittest

from checks import Checks
from proxies import Stack, program


class Traefik(Checks, unittest.TestCase):
    policies = {'closed': {'down': 500, 'hung': None, 'undecided': 503}}
    tells = False
    waiting = ['closed', ('[ "X-Api-Key" ]', '[ "Prefer" ]'), ('middlewares: [weir]', 'middlewares: [wait, weir]'),
               ('  middlewares:\n', '  middlewares:\n    wait: { headers: { customRequestHeaders: { Prefer: "wait=2" } } }\n')]

    def stack(self, policy, edits=(), **more):
        return Stack('traefik', [program('traefik'), '--configFile=traefik.yaml'], edit=edits, **more)


if __name__ == '__main__':
    unittest.main()
