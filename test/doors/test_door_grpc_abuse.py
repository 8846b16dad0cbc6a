# SPDX-License-Identifier: Apache-2.0
"""What a peer of the gRPC door may do, and what ends its connection: streams taken back, frames for nothing, heads without an end,
windows that stay shut, bytes that do not come. Times are those of a server whose seconds are short."""
import struct
import unittest

from door import wait_for
from h2 import (CHECK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, LIST, PING, PREFACE, PRIORITY, RST_STREAM,
                SHOULD_RATE_LIMIT, WATCH, WINDOW_UPDATE, Grpc, call, frame, framed, head, request_fields, settings)

CONTRACT = """
weir: 1
limits:
  - { name: per-tenant, key: [tenant], missing-key: skip, rate: 1000000/s, burst: 1000000 }
"""
HURRIED = {'WEIR_TEST_SECOND_MS': '20'}
ASK = framed(call([('tenant', 'acme')]))


def many(h2, count, message=ASK, reset=False):
    """`count` calls in one piece, each taken back at once where it is to be."""
    block = head(request_fields(SHOULD_RATE_LIMIT))
    out = b''
    for _ in range(count):
        out += frame(HEADERS, END_HEADERS, h2.stream, block) + frame(DATA, END_STREAM, h2.stream, message)
        if reset:
            out += frame(RST_STREAM, stream=h2.stream, payload=struct.pack('>I', 8))
        h2.stream += 2
    return out


def send_all(h2, data):
    """As much as the server takes before it ends the connection."""
    try:
        h2.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


class Abuse(unittest.TestCase):
    def calm(self, h2, reason):
        """The connection ends with a GOAWAY that says why, unless the reset overtook it."""
        aways = h2.wait_end()
        if aways:
            self.assertEqual(aways[-1][1:], (ENHANCE_YOUR_CALM, reason))

    def test_a_client_whose_deadlines_pass_goes_on(self):
        """The library alone would end the connection after some 1,000."""
        with Grpc(CONTRACT) as server, server.open() as h2:
            for _ in range(10):
                h2.send(many(h2, 500, reset=True))
                h2.ping()
            self.assertEqual((h2.ask(CHECK).code, h2.goaways), (0, []))

    def test_beyond_the_budget_it_does_not(self):
        with Grpc(CONTRACT) as server:
            with server.open() as h2:
                for _ in range(60):
                    send_all(h2, many(h2, 500, reset=True))
                self.calm(h2, 'too_many_resets')
            wait_for(lambda: 'reason="too_many_resets"' in server.log() or 'reason=too_many_resets' in server.log())
            with server.open() as h2:
                self.assertEqual(h2.ask(CHECK).code, 0)

    def test_frames_for_nothing(self):
        rows = [
            ('PING', frame(PING, payload=b'12345678'), 'too_many_pings'),
            ('SETTINGS', settings(), 'too_many_frames'),
            ('PRIORITY', frame(PRIORITY, stream=1, payload=b'\0\0\0\3\x10'), 'too_many_frames'),
            ('WINDOW_UPDATE', frame(WINDOW_UPDATE, payload=b'\0\0\0\1'), 'too_many_frames'),
            ('of no known kind', frame(0xbe), 'too_many_frames'),
        ]
        with Grpc(CONTRACT) as server:
            for why, data, reason in rows:
                with self.subTest(why), server.open() as h2:
                    h2.send(data)
                    h2.ping()
                    send_all(h2, data * 6000)
                    self.calm(h2, reason)
            with server.open() as h2:
                stream = h2.begin(SHOULD_RATE_LIMIT, None)
                send_all(h2, frame(DATA, 0, stream) * 6000)
                self.calm(h2, 'too_many_frames')

    def test_keepalive_of_any_client_is_fine(self):
        with Grpc(CONTRACT) as server, server.open() as h2:
            for i in range(300):
                h2.ping(struct.pack('>Q', i))
            self.assertEqual((h2.ask(CHECK).code, h2.goaways), (0, []))

    def test_a_head_without_an_end(self):
        with Grpc(CONTRACT) as server, server.open() as h2:
            send_all(h2, frame(HEADERS, 0, 1, head(request_fields(CHECK))) + frame(CONTINUATION, 0, 1, head([('a', 'b')])) * 2000)
            self.calm(h2, 'too_many_continuations')

    def test_a_head_in_pieces_is_fine(self):
        with Grpc(CONTRACT) as server, server.open() as h2:
            block = head(request_fields(CHECK))
            stream, h2.stream = h2.stream, h2.stream + 2
            h2.send(frame(HEADERS, 0, stream, block[:20]) + frame(CONTINUATION, 0, stream, block[20:50])
                    + frame(CONTINUATION, END_HEADERS, stream, block[50:]) + frame(DATA, END_STREAM, stream, framed(b'')))
            h2.ping()
            self.assertEqual(h2.wait(stream).code, 0)

    def test_streams_beyond_the_announced(self):
        with Grpc(CONTRACT) as server, server.open() as h2:
            streams = [h2.begin(WATCH) for _ in range(1030)]
            h2.ping()
            h2.ping(b'as often')
            refused = [s for s in streams if h2.replies[s].reset == 7]
            self.assertEqual(refused, streams[1024:])
            for stream in streams[:1024]:
                h2.cancel(stream)
            self.assertEqual(h2.ask(CHECK).code, 0)

    def test_windows_that_stay_shut(self):
        """Answers wait for their reader, who has a minute for each; the connection goes on."""
        with Grpc(CONTRACT, hooked=True, env=HURRIED) as server, server.open(pairs=[(4, 0)]) as h2:
            streams = [h2.begin(LIST) for _ in range(100)]
            h2.ping()
            while not all(h2.replies[s].reset is not None for s in streams):
                self.assertTrue(h2.step())
            self.assertEqual({(h2.replies[s].data, h2.replies[s].reset) for s in streams}, {(b'', 8)})
            h2.ping(b'go on...')

    def test_replies_that_nobody_reads_stop_the_reading(self):
        """The peer reads nothing at all: its calls are not read either, and what waits for it is bounded."""
        with Grpc(CONTRACT, hooked=True, env=HURRIED) as server, server.open(pairs=[(4, 1 << 20)]) as h2:
            h2.send(frame(WINDOW_UPDATE, payload=struct.pack('>I', 1 << 30)))
            h2.socket.settimeout(3)
            sent = 0
            try:
                while sent < 3000:
                    h2.send(many(h2, 100))
                    sent += 1
                self.fail('300,000 calls were read and not one answer')
            except OSError:
                pass  # it does not read us; or it has ended the connection, as nobody read for a minute

    def test_bytes_that_do_not_come(self):
        """Each ends in the time that a head may take."""
        whole = head(request_fields(CHECK))
        rows = [
            ('silence', b''),
            ('half a preface', PREFACE[:12]),
            ('a preface and no SETTINGS whole', PREFACE + settings((3, 1))[:10]),
            ('half a head', PREFACE + settings() + frame(HEADERS, 0, 1, whole[:10])),
            ('half a frame', PREFACE + settings() + frame(HEADERS, END_HEADERS, 1, whole)[:30]),
        ]
        with Grpc(CONTRACT, hooked=True, env=HURRIED) as server:
            for why, data in rows:
                with self.subTest(why), server.open(start=False) as h2:
                    h2.send(data)
                    h2.wait_end()

    def test_bytes_that_come_one_by_one(self):
        """What keeps coming, and never gets whole, has no more time than what stays away."""
        with Grpc(CONTRACT, hooked=True, env=HURRIED) as server, server.open(start=False) as h2:
            h2.send(PREFACE + settings() + frame(HEADERS, 0, 1, head(request_fields(CHECK))))
            more = frame(CONTINUATION, 0, 1, head([('a', 'b' * 4000)]))
            h2.socket.settimeout(0.02)
            ended = False
            for i in range(len(more)):
                try:
                    h2.send(more[i:i + 1])
                    ended = not h2.step()
                except TimeoutError:
                    continue
                except OSError:
                    ended = True
                if ended:
                    break
            self.assertTrue(ended)

    def test_a_message_that_does_not_come(self):
        with Grpc(CONTRACT, hooked=True, env=HURRIED) as server, server.open() as h2:
            stream = h2.begin(SHOULD_RATE_LIMIT, None)
            h2.send(frame(DATA, 0, stream, ASK[:10]))
            self.assertEqual(h2.wait(stream).reset, 8)
            self.assertEqual(h2.ask(CHECK).code, 0)

    def test_who_is_silent_is_asked_whether_he_is_there(self):
        with Grpc(CONTRACT, hooked=True, env=HURRIED) as server:
            with server.open() as h2:
                watched = h2.begin(WATCH)
                while h2.asked < 3:
                    self.assertTrue(h2.step())
                h2.ping()
                self.assertFalse(h2.replies[watched].is_over)
            with server.open() as h2:
                h2.ask(CHECK)
                h2.answers_pings = False
                h2.wait_end()
                self.assertEqual((h2.asked, h2.goaways), (1, []))  # it is cut


if __name__ == '__main__':
    unittest.main()
