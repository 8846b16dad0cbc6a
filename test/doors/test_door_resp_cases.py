# SPDX-License-Identifier: Apache-2.0
"""Field cases at the doors, by their number: B05, B07, B09, B41 and F07. Expected values are the cases'.

Time is virtual where a case says an instant: WEIR.NOW at the Redis door, Weir-Now at HTTP.
"""
import threading
import unittest

from door import Server
from test_door_resp import Client, Resp, flat

ERROR = Client.Error
NOW = ('Weir-Now', '1000000000000')
LIMITS = {
    'token-bucket': 'rate: 5/1m\n    burst: 5',
    'fixed-window': 'algorithm: fixed-window\n    rate: 5/1m',
    'sliding-window': 'algorithm: sliding-window\n    rate: 5/1m',
    'sliding-log': 'algorithm: sliding-log\n    rate: 5/1m',
}


def contract_of(limit, name='x'):
    return f'weir: 1\nlimits:\n  - name: {name}\n    key: []\n    {limit}\n'


def at(client, seconds):
    """Commands behind it are at that many seconds of virtual time."""
    assert client.ask('WEIR.NOW', int((1000 + seconds) * 1000000000)) == 'OK'


class B05(unittest.TestCase):
    """Zero count or period kills no server."""

    BAD = ['z 0 0 60 1', 'z 0 5 0 1', 'z 0 -5 60 1', 'z -1 5 60 1', 'z 1 5 60 x', 'z 1 5', 'z 1 99999999999999999999 60']

    def test_B05_each_gets_one_error_and_the_connection_stays(self):
        with Resp() as server, server.client() as client:
            client.send(b''.join(Client.command('CL.THROTTLE', *words.split()) for words in self.BAD) + Client.command('PING'))
            replies = [client.reply() for _ in self.BAD]
            self.assertEqual([type(reply) for reply in replies], [ERROR] * len(self.BAD))
            self.assertEqual(client.reply(), 'PONG')
            self.assertEqual(client.ask('CL.THROTTLE', 'ok', '0', '1', '60'), [0, 1, 0, -1, 60])
            # No bad command has touched z: a burst of 1 is whole.
            self.assertEqual(client.ask('CL.THROTTLE', 'z', '1', '5', '60'), [0, 2, 1, -1, 12])

    def test_B05_a_thousand_times_from_fifty_connections(self):
        wrong = []

        def storm(server):
            with server.client() as client:
                client.send(Client.command('CL.THROTTLE', 'z', '0', '0', '60', '1') * 1000 + Client.command('PING'))
                replies = [client.reply() for _ in range(1001)]
                if replies != ['Cell error: Zero rates are not supported'] * 1000 + ['PONG']:
                    wrong.append(replies[:3])
        with Resp() as server:
            threads = [threading.Thread(target=storm, args=(server,)) for _ in range(50)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])
            with server.client() as client:
                self.assertEqual(client.ask('CL.THROTTLE', 'ok', '0', '1', '60'), [0, 1, 0, -1, 60])

    def test_B05_by_http_the_rate_is_the_contract_s(self):
        """A period of zero is refused at load. A count of zero is a bucket that is never refilled: one passes, then no wait helps."""
        server = Server(contract_of('rate: 5/0s\n    burst: 1'))
        with self.assertRaises(AssertionError) as caught, server:
            pass
        self.assertIn('5/0s', str(caught.exception) + server.log())
        with Server(contract_of('rate: 0/60s\n    burst: 1')) as server, server.connect() as http:
            replies = [http.ask('POST', '/v1/check', '{"attributes":{}}') for _ in range(3)]
            self.assertEqual([reply.status for reply in replies], [200, 429, 429])
            self.assertIsNone(replies[1].json['retry_after'])

    def test_B05_by_http_bad_costs_are_answered_and_the_connection_stays(self):
        with Server(contract_of('rate: 5/1m\n    burst: 5')) as server, server.connect() as http:
            for cost in ('"x"', '-5', '99999999999999999999', '0.5', 'null'):
                self.assertEqual(http.ask('POST', '/v1/check', '{"attributes":{},"cost":%s}' % cost).status, 400, cost)
            self.assertEqual(http.ask('POST', '/v1/check', '{"attributes":{}}').json['remaining'], 4)


class B07(unittest.TestCase):
    """A negative cost mints no quota."""

    def test_B07_negative_costs_by_resp(self):
        for name, limit in LIMITS.items():
            with self.subTest(name), Resp(contract_of(limit), virtual=True) as server, server.client() as client:
                at(client, 0)

                def take(cost, call='WEIR.CHECK'):
                    answer = client.ask(call, 'COST', cost, 'ATTR', 'a', 'b')
                    return answer if isinstance(answer, ERROR) else flat(answer)['decision']
                self.assertEqual(take('5'), 'allow')
                for cost in ('-3', '-9223372036854775808', '1e3', '0.5', ''):
                    self.assertTrue(take(cost).startswith(f"ERR weir: COST '{cost}': write a whole number"), cost)
                self.assertEqual([take('1'), take('0'), take('1')], ['deny', 'allow', 'deny'])
                self.assertIsInstance(take('-3', 'WEIR.REFUND'), ERROR)
                self.assertEqual(take('1'), 'deny')

    def test_B07_by_http(self):
        for name, limit in LIMITS.items():
            with self.subTest(name), Server(contract_of(limit), virtual=True) as server, server.connect() as http:
                def take(cost):
                    return http.ask('POST', '/v1/check', '{"attributes":{},"cost":%s}' % cost,
                                    [NOW]).status
                self.assertEqual(take('5'), 200)
                self.assertEqual([take(cost) for cost in ('-3', '-9223372036854775808', '1e3', '0.5', '', '"-3"')], [400] * 6)
                self.assertEqual([take('1'), take('0'), take('1')], [429, 200, 429])

    def test_B07_quantity_of_CL_THROTTLE(self):
        with Resp(virtual=True) as server, server.client() as client:
            at(client, 0)
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '5', '60', '5')[:3], [0, 5, 0])
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '5', '60', '-3'), 'Cell error: Must not be negative: -3')
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '5', '60', '1')[:3], [1, 5, 0])
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '5', '60', '0')[:3], [0, 5, 0])
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '5', '60', '1')[:3], [1, 5, 0])

    def test_B07_a_refund_lifts_from_0_and_not_above_the_capacity(self):
        with Resp(contract_of(LIMITS['token-bucket']), virtual=True) as server, server.client() as client:
            at(client, 0)
            self.assertEqual(flat(client.ask('WEIR.CHECK', 'COST', '5', 'ATTR', 'a', 'b'))['remaining'], 0)
            self.assertEqual(flat(client.ask('WEIR.REFUND', 'COST', '3', 'ATTR', 'a', 'b'))['remaining'], 3)
            self.assertEqual(flat(client.ask('WEIR.REFUND', 'COST', '100', 'ATTR', 'a', 'b'))['remaining'], 5)
            self.assertEqual(flat(client.ask('WEIR.PEEK', 'COST', '6', 'ATTR', 'a', 'b'))['decision'], 'never')


class B09(unittest.TestCase):
    """Periods and values beyond 32 bits."""

    def test_B09_a_five_per_ten_years(self):
        with Resp(virtual=True) as server, server.client() as client:
            at(client, 0)
            for reset in (63072000, 126144000, 189216000, 252288000, 315360000):
                answer = client.ask('CL.THROTTLE', 'k', '4', '5', '315360000', '1')
                self.assertEqual((answer[0], answer[4]), (0, reset))
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '4', '5', '315360000', '1'), [1, 5, 0, 63072000, 315360000])

    def test_B09_b_three_per_3650_days(self):
        """Here in the process; the shared store's is a case of the fleet's tests."""
        contract = contract_of('rate: 3/3650d\n    burst: 3')
        with Resp(contract, virtual=True) as server, server.client() as client:
            at(client, 0)
            self.assertEqual([flat(client.ask('WEIR.CHECK', 'ATTR', 'a', 'b'))['decision'] for _ in range(4)],
                             ['allow'] * 3 + ['deny'])
            at(client, 40 * 86400)
            denied = flat(client.ask('WEIR.CHECK', 'ATTR', 'a', 'b'))
            self.assertEqual((denied['decision'], denied['retry_after']), ('deny', str(315360000 // 3 - 40 * 86400)))

    def test_B09_c_a_block_of_a_thousand_million_seconds(self):
        """Such a block as a limit of its own: one in that time, and it is taken. A contract refuses it in words; and a server's time ends
        after ten years, so its last instant stands for 999,999,999 s."""
        server = Server(contract_of('rate: 1/1000000000s\n    burst: 1'))
        with self.assertRaises(AssertionError), server:
            pass
        self.assertIn('1000000000s', server.log())
        with Resp(virtual=True) as server, server.client() as client:
            at(client, 0)
            self.assertEqual(client.ask('CL.THROTTLE', 'k', '0', '1', '1000000000'), [0, 1, 0, -1, 1000000000])
            for seconds, left in ((0.002, 1000000000), (3600, 1000000000 - 3600), (315000000, 1000000000 - 315000000)):
                at(client, seconds)
                self.assertEqual(client.ask('CL.THROTTLE', 'k', '0', '1', '1000000000'), [1, 1, 0, left, left])

    BYTES = 'rate: 2147483648/s\n    burst: 34359738368'
    DAILY = 'algorithm: fixed-window\n    rate: 4294967296/d'

    def test_B09_d_e_by_resp(self):
        with Resp(contract_of(self.BYTES), virtual=True) as server, server.client() as client:
            at(client, 0)
            whole = flat(client.ask('WEIR.CHECK', 'COST', '34359738368', 'ATTR', 'a', 'b'))
            self.assertEqual((whole['decision'], whole['capacity'], whole['remaining']), ('allow', 34359738368, 0))
            self.assertEqual(flat(client.ask('WEIR.CHECK', 'COST', '1', 'ATTR', 'a', 'b'))['decision'], 'deny')
        with Resp(contract_of(self.DAILY), virtual=True) as server, server.client() as client:
            at(client, 0)
            taken = flat(client.ask('WEIR.CHECK', 'COST', '4294967295', 'ATTR', 'a', 'b'))
            self.assertEqual((taken['decision'], taken['capacity'], taken['remaining']), ('allow', 4294967296, 1))
            self.assertEqual([flat(client.ask('WEIR.CHECK', 'ATTR', 'a', 'b'))['decision'] for _ in range(2)], ['allow', 'deny'])

    def test_B09_d_e_by_http(self):
        def costs(limit, *costs):
            with Server(contract_of(limit), virtual=True) as server, server.connect() as http:
                return [http.ask('POST', '/v1/check', '{"attributes":{},"cost":%d}' % cost,
                                 [NOW]).status for cost in costs]
        self.assertEqual(costs(self.BYTES, 34359738368, 1), [200, 429])
        self.assertEqual(costs(self.DAILY, 4294967295, 1, 1), [200, 200, 429])


class B41(unittest.TestCase):
    """The five integers of CL.THROTTLE."""

    def test_B41_in_time(self):
        rows = [(0, [0, 3, 2, -1, 1]), (0, [0, 3, 1, -1, 1]), (0, [0, 3, 0, -1, 2]), (0, [1, 3, 0, 1, 2]),
                (0.25, [1, 3, 0, 1, 2]), (0.5, [0, 3, 0, -1, 2]), (0.75, [1, 3, 0, 1, 2]), (3, [0, 3, 2, -1, 1])]
        for version in ('2', '3'):
            with Resp(virtual=True) as server, server.client() as client:
                client.ask('HELLO', version)
                for seconds, want in rows:
                    at(client, seconds)
                    self.assertEqual(client.ask('CL.THROTTLE', 'k', '2', '2', '1'), want, seconds)

    def test_B41_fresh_keys(self):
        with Resp(virtual=True) as server, server.client() as client:
            at(client, 0)
            self.assertEqual([client.ask('CL.THROTTLE', 'k2', '15', '30', '60') for _ in range(3)],
                             [[0, 16, 15, -1, 2], [0, 16, 14, -1, 4], [0, 16, 13, -1, 6]])
            self.assertEqual([client.ask('CL.THROTTLE', 'k3', '2', '2', '1', quantity) for quantity in '010'],
                             [[0, 3, 3, -1, 0], [0, 3, 2, -1, 1], [0, 3, 2, -1, 1]])

    def test_B41_forms(self):
        fresh = [0, 16, 15, -1, 2]
        with Resp(virtual=True) as server, server.client() as client:
            at(client, 0)
            self.assertEqual(client.ask('cl.throttle', 'a', '15', '30', '60', '1'), fresh, 'a name in lower case')
            self.assertEqual(client.ask('CL.THROTTLE', 'b', '15', '30', '60'), fresh, 'without a quantity, as bulk strings')
            client.send(b'CL.THROTTLE c 15 30 60\r\n')
            self.assertEqual(client.reply(), fresh, 'inline')
            self.assertEqual(client.ask('CL.THROTTLE', 'a key of \u00fcser \U0001f600', '15', '30', '60'), fresh, 'blanks, UTF-8')
            client.ask('HELLO', '3')
            self.assertEqual(client.ask('CL.THROTTLE', 'd', '15', '30', '60'), fresh, 'RESP3')
            client.send(Client.command('CL.THROTTLE', 'e', '999', '1', '60') * 1000)
            self.assertEqual([client.reply()[:3] for _ in range(1000)], [[0, 1000, 999 - i] for i in range(1000)])

    def test_B41_integers_are_read_the_same_in_every_field(self):
        with Resp(virtual=True) as server, server.client() as client:
            at(client, 0)
            for field in range(4):
                for word in (' 5', '5.0', '0x5', '5 ', '', '+', '\u0665'):
                    words = ['15', '30', '60', '1']
                    words[field] = word
                    self.assertEqual(client.ask('CL.THROTTLE', 'k', *words), f"Cell error: Couldn't parse as integer: {word}")
                words = ['5', '5', '5', '5']
                plain = client.ask('CL.THROTTLE', f'plain{field}', *words)
                words[field] = '+5'
                self.assertEqual(client.ask('CL.THROTTLE', f'sign{field}', *words), plain)


class F07(unittest.TestCase):
    """Calls found in applications."""

    def test_F07_calls(self):
        with Resp(virtual=True) as server, server.client() as client:
            for words in (('HELLO', '3'), ('CLIENT', 'SETINFO', 'LIB-NAME', 'x'), ('PING',), ('SELECT', '0'), ('COMMAND',)):
                self.assertNotIsInstance(client.ask(*words), ERROR, words)
            self.assertIsInstance(client.ask('AUTH', 'secret'), ERROR)  # as of a Redis without a password
            at(client, 0)
            self.assertEqual(client.ask('cl.throttle', 'u:42:reply', '60', '30', '60', '1'), [0, 61, 60, -1, 2])
            self.assertEqual(client.ask('CL.THROTTLE', 'ratelimit:u42:list', '9', '10', '60'), [0, 10, 9, -1, 6])
            script = "return redis.call('cl.throttle', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])"
            answer = client.ask('EVAL', script, '1', 't:1', '15', '30', '60', '1')
            self.assertIsInstance(answer, ERROR)
            self.assertTrue(answer.startswith(f"ERR unknown command 'EVAL', with args beginning with: '{script[:100]}"), answer)
            self.assertEqual(client.ask('PING'), 'PONG', 'and the connection stays')


if __name__ == '__main__':
    unittest.main()
