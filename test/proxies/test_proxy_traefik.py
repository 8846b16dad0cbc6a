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

    def stack(self, policy, **more):
        return Stack('traefik', [program('traefik'), '--configFile=traefik.yaml'], **more)


if __name__ == '__main__':
    unittest.main()
