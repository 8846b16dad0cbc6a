# SPDX-License-Identifier: Apache-2.0
"""Who a request is counted as, at the auth doors: what peers may say and what they may not. Loopback addresses stand
in for the world: 127.0.1.0/24 are proxies, everything else is strangers."""
import socket
import unittest

from door import Connection, Server

CONTRACT = """
weir: 1
identity:
  proxies: [127.0.1.0/24, "2001:db8:aaaa::/48"]
  ip: { from: x-forwarded-for }
  tenant: { from: "header:x-tenant", only: authenticated }
  api-key: { from: "header:x-api-key" }
limits:
  - name: by-address
    when: { path: "/address" }
    key: [ip]
    rate: 2/1m
    burst: 2
  - name: by-tenant
    when: { path: "/tenant", tenant: present }
    key: [tenant]
    rate: 2/1m
    burst: 2
  - name: anonymous
    when: { path: "/tenant", tenant: absent }
    key: []
    rate: 5/1m
    burst: 5
  - name: by-key-skip
    when: { path: "/skip" }
    key: [api-key]
    missing-key: skip
    rate: 2/1m
    burst: 2
  - name: by-key-refuse
    when: { path: "/refuse" }
    key: [api-key]
    missing-key: refuse
    rate: 2/1m
    burst: 2
  - name: by-key-share
    when: { path: "/share" }
    key: [api-key]
    missing-key: share
    rate: 2/1m
    burst: 2
"""

PROXY = '127.0.1.1'
STRANGER = '127.0.0.7'


class Identity(unittest.TestCase):
    def setUp(self):
        self.server = Server(CONTRACT, virtual=True)
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)

    def ask(self, peer, path, headers=()):
        connection = Connection.__new__(Connection)
        connection.socket = socket.create_connection(('127.0.0.1', self.server.port), 30, (peer, 0))
        connection.buffer = b''
        with connection:
            return connection.ask('GET', '/v1/auth' + path, headers=[('Weir-Now', 0), *headers])

    def statuses(self, rows, path):
        return [self.ask(peer, path, headers).status for peer, headers in rows]

    def test_B49_client_address_from_the_right_end(self):
        """1-5 are one client: two pass, three do not. 6 and 7 are the peer, 8 its leftmost trusted hop."""
        xff = 'X-Forwarded-For'
        rows = [
            (PROXY, [(xff, f'198.51.100.1, {STRANGER}')]),
            (PROXY, [(xff, '198.51.100.2'), ('x-forwarded-for', STRANGER)]),
            (PROXY, [(xff, f'198.51.100.3, {STRANGER}, 127.0.1.9')]),
            (PROXY, [(xff, f'198.51.100.4, {STRANGER}:4711, [2001:db8:aaaa::9]:80')]),
            (STRANGER, [(xff, '198.51.100.5')]),
        ]
        self.assertEqual(self.statuses(rows, '/address'), [200, 200, 429, 429, 429])
        rows = [(PROXY, [(xff, '198.51.100.6, not-an-address')]), (PROXY, []), (PROXY, [])]
        self.assertEqual(self.statuses(rows, '/address'), [200, 200, 429], 'all three are the peer')
        rows = [(PROXY, [(xff, '127.0.1.2, 127.0.1.3')])] * 3
        self.assertEqual(self.statuses(rows, '/address'), [200, 200, 429])
        self.assertEqual(self.ask('127.0.1.2', '/address').status, 429, 'the leftmost trusted hop')
        self.assertEqual(self.ask('127.0.1.3', '/address').status, 200)

    def test_25_invented_tenants_share_one_anonymous_budget(self):
        rows = [(STRANGER, [('X-Tenant', f'tenant-{i}')]) for i in range(25)]
        self.assertEqual(self.statuses(rows, '/tenant'), [200] * 5 + [429] * 20)
        rows = [(PROXY, [('X-Tenant', f'tenant-{i}')]) for i in range(25)]
        self.assertEqual(self.statuses(rows, '/tenant'), [200] * 25, 'a proxy that says who they are is believed')

    def test_B51_missing_identity(self):
        def key(value):
            return (STRANGER, [('X-Api-Key', value)])
        for path, missing in [('/skip', [200] * 3), ('/refuse', [429] * 3), ('/share', [200, 200, 429])]:
            self.assertEqual(self.statuses([key('k1'), key('k1'), key('k2')], path), [200] * 3)
            nobody = [('127.0.0.2', []), ('127.0.0.3', []), ('127.0.0.4', [('X-Api-Key', '')])]
            self.assertEqual(self.statuses(nobody, path), missing, path)
        refused = self.ask(STRANGER, '/refuse')
        self.assertNotIn('retry-after', refused.fields)
        self.assertEqual((refused.json['decision'], refused.json['reason']), ('never', 'missing-key'))

    def test_B51_two_lines_are_no_fresh_identity(self):
        for path in ['/skip', '/refuse', '/share']:
            reply = self.ask(STRANGER, path, [('X-Api-Key', 'k1'), ('X-Api-Key', 'k3')])
            self.assertEqual((reply.status, reply.json['reason']), (429, 'attribute'))
            self.assertNotIn('retry-after', reply.fields)

    def test_values_that_no_limit_accepts(self):
        """Refused, since "absent" would be a way out."""
        for value in ['x' * 1025, 'a\tb']:
            reply = self.ask(STRANGER, '/skip', [('X-Api-Key', value)])
            self.assertEqual((reply.status, reply.json['reason']), (429, 'attribute'), repr(value))
        for path in ['/%zz', '/%', '/a%2']:
            self.assertEqual(self.ask(STRANGER, path).status, 429, path)

    def test_strangers_choose_neither_path_nor_method_nor_host(self):
        headers = [('X-Forwarded-Uri', '/free'), ('X-Forwarded-Method', 'PUT'), ('X-Forwarded-Host', 'free.test')]
        rows = [(STRANGER, headers)] * 3
        self.assertEqual(self.statuses(rows, '/address'), [200, 200, 429])
        self.assertEqual(self.ask(PROXY, '/free', [('X-Forwarded-Uri', '/address')]).fields['ratelimit-limit'], '2')


if __name__ == '__main__':
    unittest.main()
