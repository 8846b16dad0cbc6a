# SPDX-License-Identifier: Apache-2.0
"""B51: a request without identity, at every door, under each of the words of `missing-key`, and by address beside them.

The words of docs/who-is-the-client.md, "Nobody". The steps are those of the case: two of k1, one of k2, three without a name, one whose
name is empty, one with two names."""
import json
import re
import unittest

from door import Connection, Server

CONTRACT = """
weir: 1
identity:
  api-key: { from: "header:x-api-key" }
limits:
  - { name: by-key, when: { path: "/WORD" }, key: [api-key], missing-key: WORD, rate: 2/1h, burst: 2 }
"""
BY_ADDRESS = """
weir: 1
identity:
  api-key: { from: "header:x-api-key" }
limits:
  - { name: by-key, key: [api-key], rate: 2/1h, burst: 2 }
  - { name: by-address, when: { api-key: absent }, key: [ip], rate: 2/1h, burst: 2 }
"""

NAMES = ['k1', 'k1', 'k2', None, None, None, '', 'k1', 'k2', 'k2']
ALLOW, DENY, NEVER = 'allow', 'deny', 'never'
# k1 twice and k2 once pass; then nobody, nobody, nobody, an empty one; then k1 is used up, and k2 has one left.
KNOWN = ([ALLOW] * 3, [DENY, ALLOW, DENY])
WORDS = {'skip': [ALLOW] * 4, 'share': [ALLOW, ALLOW, DENY, DENY], 'refuse': [NEVER] * 4}


class Door:
    """One way to ask; gives the answer as a map."""

    def __init__(self, server):
        self.server = server

    def attributes(self, name, word):
        found = {'path': '/' + word, 'ip': '192.0.2.1'}
        if name is not None:
            found['api-key'] = name
        return found


class Check(Door):
    def ask(self, name, word):
        reply = self.server.ask('POST', '/v1/check', json.dumps({'attributes': self.attributes(name, word)}))
        assert reply.status == (200 if reply.json['decision'] == ALLOW else 429), reply.status
        assert ('retry-after' in reply.fields) == (reply.json['decision'] == DENY)
        return reply.json


class Auth(Door):
    path = '/v1/auth'
    refusal = 429

    def ask(self, name, word):
        headers = [] if name is None else [('X-Api-Key', name)]
        reply = self.server.ask('GET', f'{self.path}/{word}', headers=headers)
        if reply.status in (200, 204):
            return {'decision': ALLOW}
        assert reply.status == self.refusal, reply.status
        if reply.body:
            assert ('retry-after' in reply.fields) == (reply.json['decision'] == DENY)
            return reply.json
        return {'decision': DENY if 'retry-after' in reply.fields else NEVER, 'reason': 'missing-key'}


class AuthNginx(Auth):
    path = '/v1/auth-nginx'
    refusal = 403


class Resp(Door):
    def ask(self, name, word):
        words = ['WEIR.CHECK', 'ATTR']
        for attribute, value in self.attributes(name, word).items():
            words += [attribute, value]
        command = f'*{len(words)}\r\n' + ''.join(f'${len(w)}\r\n{w}\r\n' for w in words)
        with Connection(int(re.search(r'^listening resp .*:(\d+)$', self.server.log(), re.M)[1])) as connection:
            connection.send(command)
            data = b''
            while b'waited' not in data and b'reason' not in data:
                data += connection.socket.recv(1 << 16)
        flat = re.sub(rb'\$-?\d+\r\n', b'', data).split(b'\r\n')
        fields = dict(zip(flat, flat[1:]))
        return {'decision': fields[b'decision'].decode(), 'reason': fields.get(b'reason', b'').decode()}


class B51(unittest.TestCase):
    def start(self, contract):
        server = Server(contract, args=['--resp', '127.0.0.1:0'])
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def test_B51_every_door_says_what_the_contract_says(self):
        for door in (Check, Auth, AuthNginx, Resp):
            for word, nobody in WORDS.items():
                with self.subTest(door=door.__name__, word=word):
                    asks = door(self.start(CONTRACT.replace('WORD', word)))
                    came = [asks.ask(name, word) for name in NAMES]
                    self.assertEqual([a['decision'] for a in came], KNOWN[0] + nobody + KNOWN[1])
                    if word == 'refuse':
                        self.assertEqual({a['reason'] for a in came[3:7]}, {'missing-key'})

    def test_B51_two_names_are_no_name_of_their_own(self):
        for word in WORDS:
            for path in ('/v1/auth', '/v1/auth-nginx'):
                reply = self.start(CONTRACT.replace('WORD', word)).ask('GET', f'{path}/{word}', headers=[('X-Api-Key', 'k1'), ('X-Api-Key', 'k3')])
                self.assertIn(reply.status, (403, 429))
                self.assertNotIn('retry-after', reply.fields)

    def test_B51_by_address(self):
        """One count for each address, at the doors that know one and at those that are told."""
        server = self.start(BY_ADDRESS)
        def ask(ip):
            return server.check(json.dumps({'ip': ip})).json['decision']
        self.assertEqual([ask(ip) for ip in ['192.0.2.1', '192.0.2.1', '192.0.2.1', '192.0.2.2', '192.0.2.3']],
                         [ALLOW, ALLOW, DENY, ALLOW, ALLOW])
        asks = Auth(server)
        self.assertEqual([asks.ask(name, 'x')['decision'] for name in (None, '', None, 'k1')], [ALLOW, ALLOW, DENY, ALLOW])

    def test_B51_a_contract_that_lets_nobody_pass_unlimited_is_warned_of(self):
        self.assertIn("a request without 'api-key' meets no limit at all", self.start(CONTRACT.replace('WORD', 'skip')).log())
        self.assertNotIn('meets no limit at all', self.start(BY_ADDRESS).log())


if __name__ == '__main__':
    unittest.main()
