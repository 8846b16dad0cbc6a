# SPDX-License-Identifier: Apache-2.0
"""nginx asks weir by auth_request, with both files of examples/nginx; test/doors/test_nginx.py has what is nginx's alone.

LABELS: e2e
"""
import os
import shutil
import signal
import unittest

from checks import Checks
from proxies import Stack


def nginx():
    path = shutil.which('nginx') or '/usr/sbin/nginx'
    if not os.access(path, os.X_OK):
        raise AssertionError('nginx is not installed: make deps')
    return path


class Nginx(Checks, unittest.TestCase):
    policies = {'open': {'down': 200, 'hung': 200, 'undecided': 503},
                'closed': {'down': 503, 'hung': 503, 'undecided': 503}}
    body = False
    waiting = ['open', ('proxy_set_header Prefer            "";', 'proxy_set_header Prefer wait=2;'),
               ('proxy_read_timeout    50ms;', 'proxy_read_timeout 3s;')]

    def stack(self, policy, edits=(), **more):
        return Stack('nginx', [nginx(), '-p', '.', '-c', f'nginx-fail-{policy}.conf'], edit=edits, end=signal.SIGTERM, **more)


class Accel(Checks, unittest.TestCase):
    """The other way round: weir in front, which hands the request back."""

    policies = {'closed': {'down': 502, 'hung': 504, 'undecided': 503}}
    tells = False
    waiting = ['closed', *Nginx.waiting[1:]]

    def stack(self, policy, edits=(), **more):
        return Stack('nginx', [nginx(), '-p', '.', '-c', 'nginx-accel.conf'], edit=edits, end=signal.SIGTERM, **more)


if __name__ == '__main__':
    unittest.main()
