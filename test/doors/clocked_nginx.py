# SPDX-License-Identifier: Apache-2.0
"""A real nginx whose clock a test sets, and the library with the contract that `weir import nginx` makes of its file.

nginx gets its time from given_clock.c, in whole milliseconds, as it counts: so no request is near a boundary by
accident of the machine, gaps may be hours, and what nginx did at an instant can be asked of the library at that
instant. A clock that jumps does not wake nginx: whoever wants to know which delayed requests have gone on calls settle() first.
"""
import ctypes
import mmap
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile

from door import BUILD, SOURCE, free_port, wait_for

NGINX = shutil.which('nginx') or '/usr/sbin/nginx'
MS = 1000000
ALLOW, WAIT = 0, 1


class Nginx:
    """`http` and `server` are lines of these blocks. Nothing limits /settle/."""

    def __init__(self, http, server, begin=1000000):
        self.folder = tempfile.mkdtemp(prefix='nginx-')
        self.port = free_port()
        self.config = os.path.join(self.folder, 'nginx.conf')
        with open(self.config, 'w') as file:
            file.write(self.configuration(http, server))
        clock = os.path.join(self.folder, 'clock')
        with open(clock, 'wb') as file:
            file.write(bytes(mmap.PAGESIZE))
        with open(clock, 'r+b') as file:
            self.clock = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        shim = os.path.join(self.folder, 'given_clock.so')
        subprocess.run([os.environ.get('CC', 'cc'), '-shared', '-fPIC', '-O1', '-D_GNU_SOURCE', '-o', shim,
                        os.path.join(SOURCE, 'test', 'doors', 'given_clock.c')], check=True)
        self.set(begin)
        self.process = subprocess.Popen([NGINX, '-p', self.folder, '-c', self.config],
                                        env={'LD_PRELOAD': shim, 'GIVEN_CLOCK': clock, 'PATH': os.environ['PATH']})
        wait_for(self.answers)
        self.shared = self.connect('127.0.0.1')

    def configuration(self, http, server):
        lines = [f'daemon off; master_process off; pid {self.folder}/pid; error_log {self.folder}/error.log crit;',
                 'events { worker_connections 4096; }', 'http {', 'access_log off;',
                 'keepalive_timeout 3650d; keepalive_time 3650d; keepalive_requests 100000000;']
        for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'):
            lines.append(f'{kind}_temp_path {self.folder}/{kind};')
        lines += [*http, 'server {', f'listen 127.0.0.1:{self.port};', 'location /settle/ { empty_gif; }', *server]
        return '\n'.join([*lines, '}', '}', ''])

    def answers(self):
        assert self.process.poll() is None, 'nginx ended'
        try:
            self.connect('127.0.0.1').close()
            return True
        except OSError:
            return False

    def set(self, ms):
        self.clock[0:8] = struct.pack('=Q', ms * MS)

    def connect(self, source='127.0.0.1'):
        connection = socket.create_connection(('127.0.0.1', self.port), 30, (source, 0))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    @staticmethod
    def send(connection, path, key):
        connection.sendall(f'GET {path} HTTP/1.1\r\nHost: x\r\nX-Key: {key}\r\n\r\n'.encode())

    @staticmethod
    def receive(connection):
        """The status of the reply that comes."""
        reply = b''
        while b'\r\n\r\n' not in reply:
            more = connection.recv(65536)
            assert more, 'nginx closed the connection'
            reply += more
        head, body = reply.split(b'\r\n\r\n', 1)
        length = int(re.search(rb'Content-Length: (\d+)', head).group(1))
        while len(body) < length:
            body += connection.recv(65536)
        return int(head[9:12])

    def passes(self, connection, path, key):
        """Whether it does, of a request that nginx answers at once."""
        self.send(connection, path, key)
        status = self.receive(connection)
        assert status in (200, 429), status
        return status == 200

    def settle(self):
        """Until nginx has seen the time that was set and done all that was due. Its timers come behind the requests of
        a turn, so the answer to the second one says that those of the first one's turn have run."""
        for _ in range(2):
            assert self.passes(self.shared, '/settle/', 'none')

    def stop(self):
        self.shared.close()
        self.process.terminate()
        self.process.wait(30)
        self.clock.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def imported(config):
    done = subprocess.run([os.path.join(BUILD, 'weir'), 'import', 'nginx', config], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- The library: weir.h and weir_contract.h in the words of ctypes ------------------------------------------------

class Attribute(ctypes.Structure):
    _fields_ = [('name', ctypes.c_char_p), ('value', ctypes.c_char_p), ('len', ctypes.c_size_t)]


class Request(ctypes.Structure):
    _fields_ = [('attributes', ctypes.POINTER(Attribute)), ('count', ctypes.c_size_t), ('cost', ctypes.c_uint64),
                ('is_peek', ctypes.c_bool), ('wait', ctypes.c_uint64), ('also', ctypes.c_void_p), ('own', ctypes.c_void_p)]


class Decision(ctypes.Structure):
    _fields_ = [('outcome', ctypes.c_int), ('policy', ctypes.c_int), ('reason', ctypes.c_int),
                ('limit', ctypes.c_int32), ('capacity', ctypes.c_uint64), ('remaining', ctypes.c_uint64),
                ('decided_at', ctypes.c_uint64), ('retry_at', ctypes.c_uint64), ('reset_at', ctypes.c_uint64)]


class Answer(ctypes.Structure):
    _fields_ = [('decision', Decision), ('limits', ctypes.c_void_p), ('count', ctypes.c_size_t),
                ('watched', ctypes.c_uint64), ('each', Decision * 64), ('asked_by', ctypes.c_uint8 * 64)]


class Part(ctypes.Structure):
    _fields_ = [('decision', Decision), ('opaque', ctypes.c_uint64 * 20)]


class Waiter(ctypes.Structure):
    _fields_ = [('parts', ctypes.POINTER(Part)), ('part_room', ctypes.c_size_t), ('acquires', ctypes.c_bool),
                ('done', ctypes.c_void_p), ('owner', ctypes.c_void_p), ('decision', Decision),
                ('waited', ctypes.c_uint64), ('count', ctypes.c_size_t), ('opaque', ctypes.c_uint64 * 24)]


class Permit(ctypes.Structure):
    _fields_ = [('fence', ctypes.c_uint64), ('expires_at', ctypes.c_uint64), ('len', ctypes.c_size_t),
                ('bytes', ctypes.c_uint8 * 1600)]


class Weir:
    """A contract in this process. `decided` has what a request that waited came to: (passes, nanoseconds)."""

    def __init__(self, contract):
        folder = os.path.abspath(BUILD)
        self.limiter_library = ctypes.CDLL(os.path.join(folder, 'libweir.so'), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(os.path.join(folder, 'libweir-contract.so'))
        self.contract = ctypes.c_void_p()
        text = contract.encode()
        error = self.library.weir_contract_parse(ctypes.byref(self.contract), text, ctypes.c_size_t(len(text)),
                                                 b'imported', None, None)
        assert error == 0, error
        self.library.weir_contract_limiter.restype = ctypes.c_void_p
        self.limiter = ctypes.c_void_p(self.library.weir_contract_limiter(self.contract))
        self.decided = {}
        self.waiting = {}
        self.on_done = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.done)

    @staticmethod
    def request(attributes, wait=0):
        array = (Attribute * len(attributes))(*[Attribute(n.encode(), v.encode(), 0) for n, v in attributes])
        return Request(array, len(attributes), 1, False, wait), array

    def passes(self, attributes, now):
        """Whether it does, of a caller that does not wait."""
        request, _kept = self.request(attributes)
        answer = Answer()
        error = self.library.weir_contract_decide(self.contract, ctypes.byref(request), ctypes.c_uint64(now),
                                                  ctypes.byref(answer))
        assert error == 0, error
        return answer.decision.outcome == ALLOW

    def ask(self, name, attributes, patience, now):
        """Ask for a caller with this patience: `decided[name]` has the answer, now or after tick()."""
        request, _kept = self.request(attributes, patience)
        parts, answer = (Part * 8)(), Answer()
        waiter = Waiter(parts, len(parts), False, ctypes.cast(self.on_done, ctypes.c_void_p))
        error = self.library.weir_contract_wait(self.contract, ctypes.byref(request), ctypes.c_uint64(now),
                                                ctypes.byref(waiter), ctypes.byref(answer))
        assert error == 0, error
        if answer.decision.outcome == WAIT:
            self.waiting[ctypes.addressof(waiter)] = (name, waiter, parts)
        else:
            self.decided[name] = (answer.decision.outcome == ALLOW, 0)

    def done(self, address):
        name, waiter, _parts = self.waiting.pop(address)
        self.decided[name] = (waiter.decision.outcome == ALLOW, waiter.waited)

    def tick(self, now):
        """All turns until now, each at its own instant."""
        following = self.limiter_library.weir_wait_next
        following.restype = ctypes.c_uint64
        while (at := following(self.limiter)) <= now:
            self.limiter_library.weir_wait_tick(self.limiter, ctypes.c_uint64(at), ctypes.c_size_t(1))

    def acquire(self, attributes, now):
        """The permit, or None."""
        request, _kept = self.request(attributes)
        answer, permit = Answer(), Permit()
        error = self.library.weir_contract_acquire(self.contract, ctypes.byref(request), ctypes.c_uint64(now),
                                                   ctypes.byref(answer), ctypes.byref(permit))
        assert error == 0, error
        return permit if answer.decision.outcome == ALLOW else None

    def release(self, permit, now):
        was_held = ctypes.c_bool()
        error = self.limiter_library.weir_release(self.limiter, permit.bytes, ctypes.c_size_t(permit.len),
                                                  ctypes.c_uint64(now), ctypes.byref(was_held))
        assert (error, was_held.value) == (0, True)

    def stop(self):
        self.library.weir_contract_free(self.contract)
