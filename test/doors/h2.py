# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand: frames as bytes, so that tests can send what no library would, and calls of gRPC on top.

Heads that we send are written without compression; those that come are read by the library that every server has anyway (libnghttp2,
by ctypes): Huffman codes are not what these tests are about.
"""
import ctypes
import re
import socket
import struct
import time

from door import PATIENCE, Server

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 2, 7, 8, 11

SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
CHECK, WATCH, LIST = (f'/grpc.health.v1.Health/{name}' for name in ('Check', 'Watch', 'List'))
OK, OVER_LIMIT = 1, 2


# ---- Messages -----------------------------------------------------------------------------------------------------------------

def varint(value):
    out = b''
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def piece(field, value):
    value = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def fields_of(message):
    """A message as [(field, value)]: numbers, or bytes."""
    def read():
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 128:
                return value
    at, found = 0, []
    while at < len(message):
        tag = read()
        value = read()
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        found.append((tag >> 3, value))
    return found


def descriptor(entries, hits=None, limit=None, refund=False):
    """`limit`: (requests per unit, unit)."""
    out = b''.join(piece(1, piece(1, key) + piece(2, value)) for key, value in entries)
    if limit:
        out += piece(2, number(1, limit[0]) + number(2, limit[1]))
    if hits is not None:
        out += piece(3, number(1, hits) if hits else b'')
    return out + (number(4, 1) if refund else b'')


def call(*descriptors, domain='test', hits=None):
    out = piece(1, domain) if domain else b''
    out += b''.join(piece(2, one if isinstance(one, bytes) else descriptor(one)) for one in descriptors)
    return out + (number(3, hits) if hits is not None else b'')


def framed(message):
    return struct.pack('>BI', 0, len(message)) + message


# ---- Frames -------------------------------------------------------------------------------------------------------------------

def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>I', len(payload))[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def settings(*pairs):
    return frame(SETTINGS, payload=b''.join(struct.pack('>HI', *pair) for pair in pairs))


def text_of(length):
    return bytes([length]) if length < 127 else b'\x7f' + varint(length - 127)


def head(fields):
    """A head without compression: literals that nobody remembers."""
    return b''.join(b'\0' + text_of(len(name)) + name.encode() + text_of(len(value)) + value.encode() for name, value in fields)


def request_fields(path, extra=(), method='POST', content_type='application/grpc'):
    fields = [(':method', method), (':scheme', 'http'), (':path', path), (':authority', 'rl'), ('te', 'trailers')]
    return fields + ([('content-type', content_type)] if content_type else []) + list(extra)


class Heads:
    """The other side's heads, as libnghttp2 reads them."""

    class Field(ctypes.Structure):
        _fields_ = [('name', ctypes.POINTER(ctypes.c_char)), ('value', ctypes.POINTER(ctypes.c_char)), ('name_len', ctypes.c_size_t),
                    ('value_len', ctypes.c_size_t), ('flags', ctypes.c_uint8)]

    def __init__(self):
        self.library = ctypes.CDLL('libnghttp2.so.14')
        self.library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.inflater = ctypes.c_void_p()
        assert self.library.nghttp2_hd_inflate_new(ctypes.byref(self.inflater)) == 0

    def __del__(self):
        self.library.nghttp2_hd_inflate_del(self.inflater)

    def read(self, block):
        found, field, flags = [], self.Field(), ctypes.c_int()
        while True:
            used = self.library.nghttp2_hd_inflate_hd2(self.inflater, ctypes.byref(field), ctypes.byref(flags),
                                                       ctypes.c_char_p(block), ctypes.c_size_t(len(block)), 1)
            assert used >= 0, f'a head that cannot be read: {used}'
            block = block[used:]
            if flags.value & 2:  # NGHTTP2_HD_INFLATE_EMIT
                found.append((field.name[:field.name_len].decode(), field.value[:field.value_len].decode()))
            if flags.value & 1:  # NGHTTP2_HD_INFLATE_FINAL
                self.library.nghttp2_hd_inflate_end_headers(self.inflater)
                return found


class Reply:
    """What one stream was told."""

    def __init__(self):
        self.fields, self.data, self.is_over, self.reset = {}, b'', False, None

    @property
    def status(self):
        return int(self.fields[':status'])

    @property
    def code(self):
        """grpc-status, or None."""
        return int(self.fields['grpc-status']) if 'grpc-status' in self.fields else None

    @property
    def words(self):
        return self.fields.get('grpc-message', '')

    @property
    def messages(self):
        out, rest = [], self.data
        while rest:
            flag, length = struct.unpack('>BI', rest[:5])
            assert flag == 0
            out.append(rest[5:5 + length])
            rest = rest[5 + length:]
        return out

    @property
    def overall(self):
        """Of a RateLimitResponse."""
        assert self.code == 0, self.fields
        return dict(fields_of(self.messages[0]))[1]

    @property
    def statuses(self):
        return [dict(fields_of(value)) for field, value in fields_of(self.messages[0]) if field == 2]

    @property
    def headers(self):
        pairs = [dict(fields_of(value)) for field, value in fields_of(self.messages[0]) if field == 3]
        return {pair[1].decode(): pair[2].decode() for pair in pairs}


class H2:
    """A client's side of one connection. Frames are read when somebody waits for them."""

    def __init__(self, where, start=True, pairs=(), wrapped=None):
        if wrapped:
            self.socket = wrapped
        elif isinstance(where, int):
            self.socket = socket.create_connection(('127.0.0.1', where), PATIENCE)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE)
            self.socket.connect(where)
        self.heads, self.buffer, self.stream = Heads(), b'', 1
        self.replies, self.pongs, self.goaways, self.settings, self.is_closed = {}, [], [], None, False
        self.answers_pings, self.asked, self.eaten = True, 0, 0
        if start:
            self.send(PREFACE + settings(*pairs))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def begin(self, path, message=b'', extra=(), end=True, **how):
        """Send a call; its stream. `end`: and that this is all of it."""
        stream, self.stream = self.stream, self.stream + 2
        self.replies[stream] = Reply()
        out = frame(HEADERS, END_HEADERS, stream, head(request_fields(path, extra, **how)))
        if message is not None:
            out += frame(DATA, END_STREAM if end else 0, stream, framed(message))
        self.send(out)
        return stream

    def ask(self, path, message=b'', extra=(), **how):
        return self.wait(self.begin(path, message, extra, **how))

    def should(self, *descriptors, extra=(), **how):
        return self.ask(SHOULD_RATE_LIMIT, call(*descriptors, **how), extra)

    def cancel(self, stream, code=CANCEL):
        self.send(frame(RST_STREAM, stream=stream, payload=struct.pack('>I', code)))

    def wait(self, stream):
        reply = self.replies.setdefault(stream, Reply())
        while not reply.is_over:
            assert self.step(), f'the connection ended before the reply did: {self.goaways}'
        return reply

    def wait_end(self):
        """Until the server ends the connection; the GOAWAYs: (last stream, code, words)."""
        while self.step():
            pass
        return self.goaways

    def ping(self, payload=b'12345678'):
        self.send(frame(PING, payload=payload))
        while payload not in self.pongs:
            assert self.step(), f'no answer to a PING: {self.goaways}'

    def step(self):
        """One frame. False: the connection ended."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], 'big'):
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionResetError:
                more = b''
            if not more:
                self.is_closed = True
                return False
            self.buffer += more
        length = int.from_bytes(self.buffer[:3], 'big')
        kind, flags, stream = struct.unpack('>BBI', self.buffer[3:9])
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        self.take(kind, flags, stream, payload)
        return True

    def take(self, kind, flags, stream, payload):
        reply = self.replies.setdefault(stream, Reply()) if stream else None
        if kind == HEADERS:
            assert flags & END_HEADERS
            reply.fields.update(self.heads.read(payload))
        elif kind == DATA:
            reply.data += payload
            self.eaten += len(payload)
            if self.eaten >= 1 << 14:
                self.send(frame(WINDOW_UPDATE, payload=struct.pack('>I', self.eaten)))
                self.eaten = 0
        elif kind == RST_STREAM:
            reply.reset = struct.unpack('>I', payload)[0]
            reply.is_over = True
        elif kind == SETTINGS and not flags & ACK:
            self.settings = {key: value for key, value in struct.iter_unpack('>HI', payload)}
            try:
                self.send(frame(SETTINGS, ACK))
            except OSError:
                pass  # it has ended, as the next read shows
        elif kind == PING and flags & ACK:
            self.pongs.append(payload)
        elif kind == PING:
            self.asked += 1
            if self.answers_pings:
                self.send(frame(PING, ACK, payload=payload))
        elif kind == GOAWAY:
            last, code = struct.unpack('>II', payload[:8])
            self.goaways.append((last, code, payload[8:].decode()))
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            reply.is_over = True


class Grpc(Server):
    """`weir serve` with a gRPC door, and an HTTP one for its metrics."""

    def __init__(self, contract, args=(), grpc='127.0.0.1:0', **rest):
        super().__init__(contract, args=[*args, '--grpc', grpc], **rest)

    def __enter__(self):
        super().__enter__()
        self.grpc = [int(port) for port in re.findall(r'^listening grpc .*:(\d+)$', self.log(), re.M)]
        return self

    def open(self, **how):
        return H2(self.grpc[0], **how)

    def count(self, door, status):
        return self.metric(f'weir_requests_total{{door="{door}",code="{status}"}}')


def until(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'it did not happen in time'
        time.sleep(0.01)
