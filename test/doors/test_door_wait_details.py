# SPDX-License-Identifier: Apache-2.0
"""Why a request that could have waited did not, or waited in vain: the `detail` of its refusal, in virtual time.

Expected instants are computed by hand: at 5/s one leaves every 0.2 s.
"""
import unittest

from waits import Waiting, body, stamp

PACE = """
weir: 1
limits:
  - name: pace
    key: [tenant]
    when: { path: /q }
    algorithm: leaky-queue
    rate: 5/s
    wait: { up-to: 2s, queue: 3 }
"""

# Two that let wait, one that does not.
SEVERAL = """
weir: 1
limits:
  - name: per-user
    key: [user]
    rate: 10/s
    burst: 1
    wait: { up-to: 10s, queue: 100 }
  - name: per-tenant
    key: [tenant]
    rate: 5/s
    burst: 1
    wait: { up-to: 5s, queue: 3 }
  - name: a-day
    key: [tenant]
    algorithm: fixed-window
    rate: 4/1d
"""

AUTH = PACE + 'identity: { proxies: [127.0.0.0/8], tenant: { from: "header:X-Tenant" } }\n'


class Details(unittest.TestCase):
    """Why a request did not wait, or waited in vain, and the cure."""

    def expect(self, reply, detail, why):
        self.assertEqual(reply.json.get('detail'), detail, why)

    def test_on_arrival(self):
        unasked = 'it did not say how long it can wait: send `wait`, in seconds, to get a turn'
        full = '3 wait already: the queue is full, ask again later'
        with Waiting(PACE) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            # Nobody waits: a turn would come in 0.2 s.
            rows = [
                ('it did not ask', '/v1/check', body(), unasked),
                ('nor here', '/v1/reserve', body(), unasked),
                ('nor here', '/v1/acquire', body(), unasked),
                ('too late for it', '/v1/check', body(wait=0.1), 'its turn would come in 0.2 s, later than you can wait'),
                ('a look does not wait', '/v1/check', body(mode='peek'), None),
            ]
            for why, path, what, detail in rows:
                self.expect(door.post(path, what), detail, why)
            for _ in range(3):
                door.park(body(wait=2))
            rows = [
                ('the queue is full', body(wait=2), full),
                ('full, though its turn would come at 0.8', body(wait=0.8), full),
                ('full and too late', body(wait=0.79), 'its turn would come in 0.8 s, later than you can wait'),
                ('it did not ask', body(), unasked),
            ]
            for why, what, detail in rows:
                self.expect(door.post('/v1/check', what), detail, why)

    def test_later_than_the_limit_lets_wait(self):
        with Waiting(PACE.replace('2s', '100ms')) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            self.expect(door.post('/v1/check', body(wait=5)),
                        'its turn would come in 0.2 s, later than the limit lets callers wait', 'whatever it can wait')

    def test_in_vain(self):
        # At 1/s it would be due at 1, but the rate falls.
        contract = PACE.replace('5/s', '1/s')
        with Waiting(contract) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            parked = door.park(body(wait=2))
            with open(door.server.contract, 'w') as file:
                file.write(contract.replace('1/s\n    wait', '1/1h\n    wait'))
            self.assertEqual(door.server.ask('POST', '/v1/reload', headers=[stamp(0)], unix='admin.sock').status, 200)
            door.go(2)
            reply = parked.reply()
            self.assertEqual((reply.status, reply.json['waited']), (429, 2))
            self.expect(reply, 'its turn did not come while it could wait: ask again, or wait longer', 'the rate fell')

    def test_several_queues(self):
        def ask(wait, user):
            return {'attributes': {'tenant': 'acme', 'user': user}, 'wait': wait}
        with Waiting(SEVERAL) as door:
            self.assertEqual(door.post('/v1/check', ask(0, 'u')).status, 200)
            for i in range(3):
                door.park(ask(5, f'w{i}'))
            self.expect(door.post('/v1/check', ask(5, 'x')), 'the queue of a limit is full: ask again later', 'which one')
            self.expect(door.post('/v1/check', ask(5, 'y'), at=2), None, 'a limit that lets nobody wait refuses')

    def test_the_contract_has_the_last_word(self):
        contract = PACE.replace('queue: 3 }', "queue: 3 }\n    reply: { detail: 'See https://example.test' }")
        with Waiting(contract) as door:
            self.assertEqual(door.post('/v1/check', body()).status, 200)
            self.expect(door.post('/v1/check', body()), 'See https://example.test', 'its own words')

    def test_auth_doors(self):
        headers = [('X-Tenant', 'acme'), ('X-Forwarded-Uri', '/q')]
        rows = [
            (AUTH, None),
            (AUTH + 'server: { auth-wait: true }\n', 'it did not say how long it can wait: send `Prefer: wait=SECONDS` to get a turn'),
        ]
        for contract, detail in rows:
            with Waiting(contract) as door:
                ask = lambda: door.server.ask('GET', '/v1/auth', headers=[stamp(0), *headers])
                self.assertEqual(ask().status, 200)
                self.expect(ask(), detail, contract)


if __name__ == '__main__':
    unittest.main()
