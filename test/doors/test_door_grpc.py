# SPDX-License-Identifier: Apache-2.0
"""The gRPC door: Envoy's rate limit service and health over HTTP/2 frames made by hand, what is no call, tokens, TLS, waiting."""
import signal
import socket
import ssl
import struct
import time
import unittest

from door import wait_for
from h2 import (CHECK, DATA, END_STREAM, LIST, OK, OVER_LIMIT, PREFACE, SHOULD_RATE_LIMIT, WATCH, Grpc, H2, call, descriptor,
                fields_of, frame, framed, number, piece)
from test_door_tls import Authority

CONTRACT = """
weir: 1
limits:
  - { name: per-address, when: { domain: test, descriptor: remote_address }, key: [remote-address], missing-key: skip, rate: 1/h, burst: 3 }
  - { name: per-tenant, when: { domain: test, descriptor: tenant }, key: [tenant], missing-key: skip, rate: 6/m, burst: 2 }
  - { name: queue, when: { domain: slow }, key: [tenant], missing-key: skip, rate: 1/s, burst: 1, wait: { up-to: 60s, queue: 100 } }
"""
TENANT = [('tenant', 'acme')]
TOKEN = '0123456789abcdef0'
UNAUTHENTICATED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = \
    16, 3, 4, 5, 8, 12, 13, 14
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


def slow(tenant='acme'):
    return call([('tenant', tenant)], domain='slow')


def waits(ms):
    return [('weir-wait-ms', str(ms))]


class Calls(unittest.TestCase):
    def setUp(self):
        server = Grpc(CONTRACT)
        self.server = server.__enter__()
        self.addCleanup(server.__exit__)

    def test_a_whole_call_in_bytes(self):
        """The client's part as the reference for gRPC over HTTP/2 has it, byte for byte."""
        path = SHOULD_RATE_LIMIT.encode()
        block = (bytes.fromhex('8386043c') + path + bytes.fromhex('0102726c0f10106170706c69636174696f6e2f67727063'
                 '000274650874 7261696c657273000c677270632d74696d656f757404 3235306d'.replace(' ', '')))
        self.assertEqual(len(block), 0x77)
        message = bytes.fromhex('0a0474657374121d0a1b0a0e72656d6f74655f616464726573731209 3139322e302e322e37 1801'.replace(' ', ''))
        self.assertEqual(len(message), 39)
        with self.server.open(start=False) as h2:
            h2.send(PREFACE + bytes.fromhex('000000040000000000 00007701040000 0001'.replace(' ', '')) + block
                    + bytes.fromhex('00002c000100000001') + framed(message))
            reply = h2.wait(1)
            self.assertEqual(reply.fields, {':status': '200', 'content-type': 'application/grpc', 'grpc-status': '0'})
            self.assertEqual((reply.overall, len(reply.statuses)), (OK, 1))
            self.assertEqual(h2.settings, {3: 1024, 6: 8192})

    def test_decisions_and_their_numbers(self):
        with self.server.open() as h2:
            first = h2.should(TENANT)
            self.assertEqual((first.overall, first.statuses[0][1], first.statuses[0][3]), (OK, OK, 1))
            h2.should(TENANT)
            denied = h2.should(TENANT)
            self.assertEqual((denied.overall, denied.statuses[0][1]), (OVER_LIMIT, OVER_LIMIT))
            self.assertNotIn(3, denied.statuses[0])
            reset = dict(fields_of(denied.statuses[0][4]))
            self.assertTrue(9 <= reset[1] <= 10, reset)
            self.assertNotIn(2, reset)
            self.assertEqual(int(denied.headers['retry-after']), reset[1])
            nobody = h2.should([('nobody', 'asks')])
            self.assertEqual((nobody.overall, nobody.statuses), (OK, [{1: OK}]))
        self.assertEqual((self.server.count('grpc-ratelimit', 200), self.server.count('grpc-ratelimit', 429)), (3, 1))

    def test_all_descriptors_pass_or_none_is_charged(self):
        address = [('remote_address', '192.0.2.1')]
        with self.server.open() as h2:
            h2.should(TENANT)
            h2.should(TENANT)
            both = h2.should(address, TENANT)
            self.assertEqual(both.overall, OVER_LIMIT)
            self.assertEqual([status[1] for status in both.statuses], [OK, OVER_LIMIT])
            alone = h2.should(address)
            self.assertEqual((alone.overall, alone.statuses[0][3]), (OK, 2))  # of 3: the call before took none

    def test_hits(self):
        with self.server.open() as h2:
            self.assertEqual(h2.should(descriptor([('remote_address', '192.0.2.1')], hits=0)).statuses[0][3], 3)
            self.assertEqual(h2.should([('remote_address', '192.0.2.1')], hits=2).statuses[0][3], 1)
            self.assertEqual(h2.should(descriptor([('remote_address', '192.0.2.1')], hits=1), hits=3).overall, OK)
            refund = h2.should(descriptor([('remote_address', '192.0.2.1')], hits=3, refund=True))
            self.assertEqual(refund.code, INVALID_ARGUMENT)

    def test_what_is_no_call(self):
        large = b'\0' + struct.pack('>I', (64 << 10) + 1)
        rows = [
            # why, path, what follows the head, head, status, code
            ('no such method', '/weir.v1/No', framed(b''), {}, 200, UNIMPLEMENTED),
            ('another method of HTTP', SHOULD_RATE_LIMIT, b'', {'method': 'GET'}, 405, None),
            ('another type', SHOULD_RATE_LIMIT, framed(b''), {'content_type': 'application/json'}, 415, None),
            ('no type', SHOULD_RATE_LIMIT, framed(b''), {'content_type': None}, 415, None),
            ('grpc-web is not gRPC', SHOULD_RATE_LIMIT, framed(b''), {'content_type': 'application/grpc-web'}, 415, None),
            ('a subtype is', SHOULD_RATE_LIMIT, framed(call(TENANT)), {'content_type': 'application/grpc+proto'}, 200, 0),
            ('a bad deadline', SHOULD_RATE_LIMIT, framed(b''), {'extra': [('grpc-timeout', '12')]}, 200, INVALID_ARGUMENT),
            ('a bad wait', SHOULD_RATE_LIMIT, framed(b''), {'extra': [('weir-wait-ms', '1.5')]}, 200, INVALID_ARGUMENT),
            ('a head that is too large', SHOULD_RATE_LIMIT, framed(b''), {'extra': [('x', 'y' * 8000)]}, 431, None),
            ('no message', SHOULD_RATE_LIMIT, b'', {}, 200, INTERNAL),
            ('half a message', SHOULD_RATE_LIMIT, framed(call(TENANT))[:-1], {}, 200, INTERNAL),
            ('two messages', SHOULD_RATE_LIMIT, 2 * framed(call(TENANT)), {}, 200, INTERNAL),
            ('compressed, and no word how', SHOULD_RATE_LIMIT, b'\1\0\0\0\1x', {}, 200, INTERNAL),
            ('compressed', SHOULD_RATE_LIMIT, b'\1\0\0\0\1x', {'extra': [('grpc-encoding', 'gzip')]}, 200, UNIMPLEMENTED),
            ('longer than a call may be', SHOULD_RATE_LIMIT, large, {}, 200, RESOURCE_EXHAUSTED),
            ('no protobuf', SHOULD_RATE_LIMIT, framed(b'\xff\xff'), {}, 200, INVALID_ARGUMENT),
            ('no domain', SHOULD_RATE_LIMIT, framed(call(TENANT, domain='')), {}, 200, INVALID_ARGUMENT),
            ('no descriptor', SHOULD_RATE_LIMIT, framed(call()), {}, 200, INVALID_ARGUMENT),
            ('too many', SHOULD_RATE_LIMIT, framed(call(*[TENANT] * 65)), {}, 200, RESOURCE_EXHAUSTED),
        ]
        with self.server.open() as h2:
            for why, path, data, fields, status, code in rows:
                with self.subTest(why):
                    stream = h2.begin(path, None, **fields)
                    h2.send(frame(DATA, END_STREAM, stream, data))
                    reply = h2.wait(stream)
                    self.assertEqual((reply.status, reply.code), (status, code))
            self.assertEqual(h2.should(TENANT).overall, OK)
        self.assertEqual((self.server.count('grpc', 501), self.server.count('grpc-ratelimit', 413)), (1, 2))

    def test_a_message_that_is_too_long_is_refused_at_its_prefix(self):
        with self.server.open() as h2:
            stream = h2.begin(SHOULD_RATE_LIMIT, None)
            h2.send(frame(DATA, 0, stream, b'\0\x7f\xff\xff\xff'))
            reply = h2.wait(stream)
            self.assertEqual(reply.code, RESOURCE_EXHAUSTED)
            while reply.reset is None:
                self.assertTrue(h2.step())
            self.assertEqual(reply.reset, 0)  # NO_ERROR: the rest is not wanted
            h2.send(frame(DATA, END_STREAM, stream, b'x' * 1000))
            self.assertEqual(h2.should(TENANT).overall, OK)

    def test_a_message_in_pieces(self):
        with self.server.open() as h2:
            stream = h2.begin(SHOULD_RATE_LIMIT, None)
            data = framed(call(TENANT))
            for byte in data:
                h2.send(frame(DATA, 0, stream, bytes([byte])))
            h2.send(frame(DATA, END_STREAM, stream))
            self.assertEqual(h2.wait(stream).overall, OK)
            long = call([('tenant', 'x' * 20000)])
            stream = h2.begin(SHOULD_RATE_LIMIT, None)
            h2.send(frame(DATA, 0, stream, framed(long)[:16000]) + frame(DATA, END_STREAM, stream, framed(long)[16000:]))
            self.assertEqual(h2.wait(stream).code, 0)

    def test_health(self):
        with self.server.open() as h2:
            for name in ('', 'envoy.service.ratelimit.v3.RateLimitService', 'ratelimit'):
                self.assertEqual(h2.ask(CHECK, piece(1, name) if name else b'').messages, [number(1, SERVING)])
            self.assertEqual(h2.ask(CHECK, piece(1, 'other')).code, NOT_FOUND)
            listed = [dict(fields_of(value)) for _, value in fields_of(h2.ask(LIST).messages[0])]
            self.assertEqual({entry.get(1, b'').decode(): dict(fields_of(entry[2]))[1] for entry in listed},
                             {'': SERVING, 'envoy.service.ratelimit.v3.RateLimitService': SERVING, 'ratelimit': SERVING})
            watched, unknown = h2.begin(WATCH), h2.begin(WATCH, piece(1, 'other'))
            h2.ping()
            h2.ping(b'as often')
            self.assertEqual([h2.replies[s].messages for s in (watched, unknown)],
                             [[number(1, SERVING)], [number(1, SERVICE_UNKNOWN)]])
            self.assertFalse(h2.replies[watched].is_over or h2.replies[unknown].is_over)
            h2.cancel(watched)
            self.assertEqual(h2.ask(CHECK).code, 0)

    def test_no_http2_is_no_conversation(self):
        for first in (b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'\x16\x03\x01' + b'\0' * 40):
            with self.server.open(start=False) as h2:
                h2.send(first)
                h2.wait_end()
                self.assertEqual(h2.replies, {})

    def test_a_peer_that_has_hung_up_is_answered_what_was_decided(self):
        with self.server.open() as h2:
            stream = h2.begin(SHOULD_RATE_LIMIT, call(TENANT))
            h2.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(h2.wait(stream).overall, OK)
            h2.wait_end()


class Waits(unittest.TestCase):
    def setUp(self):
        server = Grpc(CONTRACT)
        self.server = server.__enter__()
        self.addCleanup(server.__exit__)

    def waiting(self):
        return self.server.metric('weir_waiting_requests')

    def test_only_who_says_so_waits(self):
        with self.server.open() as h2:
            h2.ask(SHOULD_RATE_LIMIT, slow())
            began = time.monotonic()
            self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow(), [('grpc-timeout', '20S')]).overall, OVER_LIMIT)
            self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow(), waits(20000)).overall, OK)
            self.assertTrue(time.monotonic() - began >= 0.5)

    def test_a_wait_holds_nobody_up(self):
        with self.server.open() as h2:
            h2.ask(SHOULD_RATE_LIMIT, slow())
            waiting = [h2.begin(SHOULD_RATE_LIMIT, slow(), waits(20000)) for _ in range(2)]
            other = h2.ask(SHOULD_RATE_LIMIT, slow('other'))
            self.assertEqual((other.overall, [h2.replies[s].is_over for s in waiting]), (OK, [False, False]))
            self.assertEqual([h2.wait(s).overall for s in waiting], [OK, OK])

    def test_a_deadline_bounds_the_wait(self):
        with self.server.open() as h2:
            h2.ask(SHOULD_RATE_LIMIT, slow())
            late = h2.ask(SHOULD_RATE_LIMIT, slow(), [*waits(20000), ('grpc-timeout', '100m')])
            self.assertIn(late.code, (0, DEADLINE_EXCEEDED))
            if late.code == 0:  # known at once: its turn would come too late
                self.assertEqual(late.overall, OVER_LIMIT)

    def test_a_call_that_is_taken_back_leaves_its_place(self):
        for code in (8, 2):  # CANCEL; Envoy says INTERNAL_ERROR
            with self.server.open() as h2:
                tenant = f'cancel-{code}'
                h2.ask(SHOULD_RATE_LIMIT, slow(tenant))
                streams = [h2.begin(SHOULD_RATE_LIMIT, slow(tenant), waits(50000)) for _ in range(30)]
                wait_for(lambda: self.server.metric('weir_waiting') >= 28)
                for stream in streams:
                    h2.cancel(stream, code)
                h2.ping()
                self.assertEqual(h2.ask(CHECK).code, 0)
                began = time.monotonic()
                self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow(tenant), waits(50000)).overall, OK)
                self.assertTrue(time.monotonic() - began < 10)  # not behind thirty others
        self.assertEqual(self.server.log().count('level=error'), 0)

    def test_who_hangs_up_leaves_his_place(self):
        with self.server.open() as h2:
            h2.ask(SHOULD_RATE_LIMIT, slow())
            for _ in range(30):
                h2.begin(SHOULD_RATE_LIMIT, slow(), waits(50000))
            h2.ping()
        with self.server.open() as h2:
            began = time.monotonic()
            self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow(), waits(50000)).overall, OK)
            self.assertTrue(time.monotonic() - began < 10)


class Deadline(unittest.TestCase):
    def test_it_passes_in_the_queue(self):
        """A turn that was to come in time is put off by a reload: the call ends at its deadline, undecided by its own words."""
        def at(second, *more):
            return [('weir-now', str(round(second * 10**9))), *more]
        with Grpc(CONTRACT, hooked=True) as server, server.open() as h2:
            self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow(), at(1)).overall, OK)
            stream = h2.begin(SHOULD_RATE_LIMIT, slow(), at(1, *waits(20000), ('grpc-timeout', '5S')))
            self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow('other'), at(1.5)).overall, OK)
            self.assertFalse(h2.replies[stream].is_over)
            with open(server.contract, 'w') as file:
                file.write(CONTRACT.replace('rate: 1/s, burst: 1, wait', 'rate: 1/h, burst: 1, wait'))
            reply = server.ask('POST', '/v1/reload', headers=[('Weir-Now', str(1_600_000_000))], unix='admin.sock')
            self.assertEqual(reply.status, 200)
            self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow('third'), at(5.9)).overall, OK)
            self.assertFalse(h2.replies[stream].is_over)
            self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, slow('fourth'), at(6)).overall, OK)
            late = h2.wait(stream)
            self.assertEqual(late.code, DEADLINE_EXCEEDED)
            self.assertIn('deadline', late.words)


class Late(unittest.TestCase):
    """With a decider that answers later and in any order."""

    def test_every_call_gets_its_own_answer(self):
        with Grpc(CONTRACT, hooked=True, env={'WEIR_TEST_LATE': '7:20'}) as server, server.open() as h2:
            streams = {}
            for i in range(400):
                streams[h2.begin(SHOULD_RATE_LIMIT, call([('tenant', f't{i // 4}')]))] = i
            order, overalls = [], {}
            while len(overalls) < 400:
                self.assertTrue(h2.step())
                for stream in [s for s in streams if s not in overalls and h2.replies[s].is_over]:
                    overalls[stream] = h2.replies[stream].overall
                    order.append(stream)
            self.assertNotEqual(order, sorted(order))
            for tenant in range(100):
                mine = [overalls[s] for s, i in streams.items() if i // 4 == tenant]
                self.assertEqual(sorted(mine), [OK, OK, OVER_LIMIT, OVER_LIMIT])

    def test_calls_taken_back_while_they_are_decided(self):
        with Grpc(CONTRACT, hooked=True, env={'WEIR_TEST_LATE': '3:30'}) as server, server.open() as h2:
            for _ in range(20):
                streams = [h2.begin(SHOULD_RATE_LIMIT, call(TENANT)) for _ in range(50)]
                for stream in streams[::2]:
                    h2.cancel(stream)
                for stream in streams[1::2]:
                    self.assertEqual(h2.wait(stream).code, 0)
            self.assertEqual(h2.ask(CHECK).code, 0)
            self.assertNotIn('level=error', server.log())


class Access(unittest.TestCase):
    def test_tokens(self):
        files = {'tokens': (f'check {TOKEN} envoy\n', 0o600)}
        with Grpc(CONTRACT, args=['--tokens', 'DIR/tokens'], files=files) as server, server.open() as h2:
            rows = [
                ('none', [], UNAUTHENTICATED),
                ('another', [('authorization', 'Bearer ' + TOKEN[::-1])], UNAUTHENTICATED),
                ('as HTTP has it', [('authorization', 'Bearer ' + TOKEN)], 0),
                ('as proxies set it', [('weir-token', TOKEN)], 0),
                ('for one call alone', [], UNAUTHENTICATED),
            ]
            for why, extra, code in rows:
                with self.subTest(why):
                    self.assertEqual(h2.ask(SHOULD_RATE_LIMIT, call(TENANT), extra).code, code)
            self.assertEqual(h2.ask(CHECK).code, 0)  # probes have none

    def test_beyond_loopback_only_with_a_guard(self):
        server = Grpc(CONTRACT, grpc='0.0.0.0:0')
        status, log = server.expect_exit()
        self.assertEqual(status, 2)
        self.assertIn('can be reached from other machines', log)

    def test_a_unix_socket(self):
        with Grpc(CONTRACT, grpc='unix:DIR/grpc.sock') as server, H2(server.dir + '/grpc.sock') as h2:
            self.assertEqual(h2.should(TENANT).overall, OK)

    def test_the_contract_may_name_the_address(self):
        contract = CONTRACT.replace('limits:', 'server: { grpc: "127.0.0.1:0" }\nlimits:')
        with Grpc(contract, grpc='127.0.0.1:0') as server:
            self.assertEqual(len(server.grpc), 1)  # options win

    def test_tls_speaks_h2_alone(self):
        authority = Authority()
        authority.sign('server')
        authority.sign('client', 'envoy')
        tls = ['--tls-cert', authority.path('server.pem'), '--tls-key', authority.path('server.key')]
        with Grpc(CONTRACT, args=tls) as server:
            for names, chosen in ((['h2'], 'h2'), (['http/1.1', 'h2'], 'h2'), (None, None)):
                with H2(None, wrapped=self.secured(authority, server, names)) as h2:
                    self.assertEqual(h2.socket.selected_alpn_protocol(), chosen)
                    self.assertEqual(h2.should(TENANT).code, 0)
            with self.assertRaises(ssl.SSLError):
                self.secured(authority, server, ['http/1.1'])
        with Grpc(CONTRACT, args=[*tls, '--tls-client-ca', authority.path('ca.pem')]) as server:
            with H2(None, wrapped=self.secured(authority, server, ['h2'], 'client')) as h2:
                self.assertEqual(h2.should(TENANT).overall, OK)
            with self.assertRaises((ssl.SSLError, ConnectionResetError, AssertionError)):
                with H2(None, wrapped=self.secured(authority, server, ['h2'])) as h2:
                    h2.should(TENANT)

    @staticmethod
    def secured(authority, server, names, client=None):
        context = authority.context(client)
        if names:
            context.set_alpn_protocols(names)
        return context.wrap_socket(socket.create_connection(('127.0.0.1', server.grpc[0]), 30), server_hostname='localhost')


class Drain(unittest.TestCase):
    """SIGTERM: nothing new, what is under way is finished, and who waits is told."""

    def test_calls_on_their_way_are_served(self):
        with Grpc(CONTRACT) as server, server.open() as h2:
            watched = h2.begin(WATCH)
            h2.ping()
            h2.answers_pings = False
            server.process.send_signal(signal.SIGTERM)
            while not h2.goaways:
                self.assertTrue(h2.step())
            self.assertEqual(h2.goaways[0][:2], (0x7fffffff, 0))
            late = h2.begin(SHOULD_RATE_LIMIT, call(TENANT))  # before the PING was answered
            self.assertEqual(h2.wait(late).overall, OK)
            self.assertEqual(h2.wait_end()[-1][:2], (late, 0))
            self.assertEqual(h2.replies[watched].messages, [number(1, SERVING), number(1, NOT_SERVING)])
            self.assertEqual(h2.replies[watched].code, UNAVAILABLE)
            self.assertEqual(server.process.wait(30), 0)

    def test_who_does_not_answer_a_ping_is_not_waited_for(self):
        with Grpc(CONTRACT, hooked=True, env={'WEIR_TEST_SECOND_MS': '50'}) as server:
            with server.open() as h2:
                h2.ask(CHECK)
                server.process.send_signal(signal.SIGTERM)
                wait_for(lambda: server.process.poll() is not None)  # nothing is read, so no PING is answered
                self.assertEqual([away[1] for away in h2.wait_end()], [0, 0])

    def test_a_wait_that_fits_is_finished_and_another_told(self):
        with Grpc(CONTRACT, hooked=True, env={'WEIR_TEST_SECOND_MS': '200'}) as server, server.open() as h2:
            h2.ask(SHOULD_RATE_LIMIT, slow())
            first, last = [h2.begin(SHOULD_RATE_LIMIT, slow(), waits(60000)) for _ in range(8)][::7]
            h2.ping()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(h2.wait(first).overall, OK)
            told = h2.wait(last)
            self.assertEqual((told.code, 'server ends' in told.words), (UNAVAILABLE, True))
            h2.wait_end()
            self.assertEqual(server.process.wait(30), 0)


if __name__ == '__main__':
    unittest.main()
