# SPDX-License-Identifier: Apache-2.0
"""Real stores under test: Redis and Valkey alone, as a Cluster or watched by Sentinels, on loopback.

A test owns every process it starts: each listens on 127.0.0.1 or on a Unix socket in a folder of its own, keeps nothing on
disk, and is stopped by its process id in every way that a test can end (with-blocks, exit, a signal, and where the test itself
is killed by the kernel: PR_SET_PDEATHSIG). That last one watches the thread that started it: start stores on the main thread.

A program that is missing raises MissingProgram, which fails the test: `make deps` installs them.
"""
import atexit
import ctypes
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'doors'))
from door import PATIENCE, free_port, wait_for  # noqa: E402

ADMIN = ('test-admin', 'only-for-tests')  # the user of these helpers where there is an ACL
SLOTS = 16384
HERE = os.path.dirname(os.path.abspath(__file__))

_started = {}  # pid: process; what is still to be stopped
_folders = set()  # what is still to be removed


class MissingProgram(AssertionError):
    pass


class StoreError(Exception):
    """An error reply. str() is its text, code its first word."""

    @property
    def code(self):
        return str(self).split(' ', 1)[0]


# ---- Processes ----------------------------------------------------------------------------------------------------


def _stop_all():
    for process in list(_started.values()):
        if process.poll() is None:
            process.kill()
            process.wait()
    _started.clear()
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def _on_signal(number, _frame):
    signal.signal(number, signal.SIG_IGN)  # a second one, as `timeout` sends, would wait for what this one waits for
    _stop_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


atexit.register(_stop_all)
for _number in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_DFL:
        signal.signal(_number, _on_signal)

_libc = ctypes.CDLL(None)


def die_with_parent():
    """For preexec_fn: who starts it is gone, however that came, and it is killed."""
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)


def find_program(name):
    """The path of redis-server, redis-sentinel, openssl, ... or of valkey-server."""
    if name == 'valkey-server':
        return valkey_server()
    found = shutil.which(name)
    if not found:
        raise MissingProgram(f'{name} is not installed: run `make deps`')
    return found


def valkey_server():
    """Where tools/valkey has put it, or the system's."""
    found = shutil.which('valkey-server')
    if found:
        return found
    tool = os.path.join(HERE, '..', '..', 'tools', 'valkey')
    done = subprocess.run([tool, '--where'], capture_output=True, text=True)
    path = done.stdout.strip()
    if done.returncode != 0 or not os.access(path, os.X_OK):
        raise MissingProgram(f'valkey-server is not installed: run tools/valkey ({done.stderr.strip()})')
    return path


class ShiftedClock:
    """A wall clock for other processes that can be stepped while they run; their monotonic clocks go on as they are.

    Give `environment` to whoever is to read it, also to weir: Server(env=clock.environment)."""

    def __init__(self, folder, offset=0):
        self.path = os.path.join(folder, 'clock')
        shim = self.path + '.so'
        subprocess.run([os.environ.get('CC', 'cc'), '-O2', '-shared', '-fPIC', '-o', shim,
                        os.path.join(HERE, '..', 'fleet', 'shifted_clock.c')], check=True)
        with open(self.path, 'wb') as file:
            file.write(bytes(8))
        self.offset_set(offset)
        self.environment = {'LD_PRELOAD': shim, 'SHIFTED_CLOCK': self.path}

    def offset_set(self, seconds):
        """So far from the true time, from now on."""
        with open(self.path, 'r+b') as file:
            file.write(struct.pack('=q', round(seconds * 1_000_000_000)))


class Process:
    """One server process in a folder: started, killed, frozen, started again on the same port."""

    def __init__(self, arguments, folder, environment=None):
        self.arguments, self.folder = arguments, folder
        self.environment = dict(os.environ, **(environment or {}))
        self.log_path = os.path.join(folder, 'log')
        self.process = None

    def start(self):
        with open(self.log_path, 'ab') as log:
            self.process = subprocess.Popen(self.arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env=self.environment, cwd=self.folder, preexec_fn=die_with_parent)
        _started[self.process.pid] = self.process

    @property
    def pid(self):
        return self.process.pid

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, number=signal.SIGKILL):
        """At once, as a machine that loses its power; waits until it is gone."""
        if self.is_running():
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE)
            finally:
                if self.process.poll() is None:
                    self.process.kill()
                    self.process.wait()
        if self.process is not None:
            _started.pop(self.process.pid, None)

    def stop(self):
        self.kill(signal.SIGTERM)

    def freeze(self):
        """It answers nothing, and its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def log(self):
        with open(self.log_path, errors='replace') as file:
            return file.read()


# ---- A client -------------------------------------------------------------------------------------------------------


class Client:
    """RESP2 over a blocking socket. command() raises StoreError for error replies, also inside arrays it gives them."""

    def __init__(self, where, user=None, password=None, tls=None, timeout=PATIENCE):
        """where: a port of 127.0.0.1, or the path of a Unix socket. tls: an ssl.SSLContext."""
        if isinstance(where, int):
            self.socket = socket.create_connection(('127.0.0.1', where), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(where)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname='localhost')
        self.file = self.socket.makefile('rb')
        if password is not None:
            self.command(*(['AUTH'] + ([user] if user else []) + [password]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *words):
        self.socket.sendall(encode(*words))

    def command(self, *words):
        self.send(*words)
        reply = self.read()
        if isinstance(reply, StoreError):
            raise reply
        return reply

    def pipeline(self, commands):
        """All in one write; errors stand among the replies."""
        self.socket.sendall(b''.join(encode(*words) for words in commands))
        return [self.read() for _ in commands]

    def read(self):
        """One reply: None, int, bytes, a list, or a StoreError. Simple strings are bytes too."""
        line = self.file.readline()
        if not line.endswith(b'\r\n'):
            raise ConnectionError('the store closed the connection')
        kind, rest = line[:1], line[1:-2]
        if kind == b'+':
            return rest
        if kind == b'-':
            return StoreError(rest.decode(errors='replace'))
        if kind == b':':
            return int(rest)
        if kind == b'$':
            length = int(rest)
            if length < 0:
                return None
            data = self.file.read(length + 2)
            if len(data) != length + 2:
                raise ConnectionError('the store closed the connection')
            return data[:-2]
        if kind == b'*':
            return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
        raise ConnectionError(f'no RESP2: {line!r}')


def encode(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words)


# ---- Certificates -----------------------------------------------------------------------------------------------------


class Authority:
    """A private CA in a folder: certificates for localhost and 127.0.0.1, and for clients."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.ca = os.path.join(folder, 'ca.crt')
        self._run('req', '-x509', *self._new_key('ca'), '-subj', '/CN=weir test authority', '-days', '2', '-out', self.ca,
                  '-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign')
        self.certificate, self.key = self.issue('server', 'subjectAltName=DNS:localhost,IP:127.0.0.1')
        self.client_certificate, self.client_key = self.issue('client', 'subjectAltName=DNS:weir')

    def issue(self, name, extension):
        """Paths of a certificate and its key."""
        paths = [os.path.join(self.folder, name + end) for end in ('.csr', '.crt', '.key', '.ext')]
        with open(paths[3], 'w') as file:
            file.write(extension + '\n')
        self._run('req', *self._new_key(name), '-subj', '/CN=' + name, '-out', paths[0])
        self._run('x509', '-req', '-in', paths[0], '-CA', self.ca, '-CAkey', os.path.join(self.folder, 'ca.key'),
                  '-CAcreateserial', '-days', '2', '-extfile', paths[3], '-out', paths[1])
        return paths[1], paths[2]

    def context(self):
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.client_certificate, self.client_key)
        return context

    def _new_key(self, name):
        return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout',
                os.path.join(self.folder, name + '.key')]

    def _run(self, *words):
        subprocess.run([find_program('openssl'), *words], check=True, capture_output=True)


# ---- One store --------------------------------------------------------------------------------------------------------


class Store:
    """redis-server, or `program='valkey-server'`.

        with Store() as store:
            store.url                    # redis://127.0.0.1:PORT, as --store takes it
            store.command('GET', 'a')    # over a connection of its own
            store.kill(), store.start()  # kill -9, and again on the same port, empty
            store.freeze(), store.thaw() # SIGSTOP, SIGCONT

    unix: a Unix socket instead of a port. password: of the default user. acl: lines of an ACL file ("user weir on >pw ~weir:*
    +evalsha ..."). tls: True or 'mutual'; store.authority has the CA. clock: its wall clock in seconds from the true one;
    clock_set() steps it. args: more of redis-server's arguments. keep: its data survives kill() and start() (appendfsync always).
    """

    def __init__(self, program='redis-server', port=None, unix=False, password=None, acl=None, tls=False, maxmemory=None,
                 policy='noeviction', replica_of=None, clock=None, keep=False, args=(), bus=False):
        self.program, self.password, self.args = program, password, args
        self.fixed_port, self.bus = port, bus
        self.folder = tempfile.mkdtemp(prefix='weir-store-')
        _folders.add(self.folder)
        self.socket_path = os.path.join(self.folder, 'socket') if unix else None
        self.authority = Authority(os.path.join(self.folder, 'tls')) if tls else None
        self.is_mutual = tls == 'mutual'
        self.clock = ShiftedClock(self.folder, clock) if clock is not None else None
        self.port = None
        self.process = None
        self.options = ['--bind', '127.0.0.1', '--dir', self.folder, '--save', '', '--daemonize', 'no']
        self.options += ['--appendonly', 'yes', '--appendfsync', 'always'] if keep else ['--appendonly', 'no']
        if unix:
            self.options += ['--unixsocket', self.socket_path]
        if acl:
            path = os.path.join(self.folder, 'users.acl')
            with open(path, 'w') as file:
                file.write(acl.strip() + f'\nuser {ADMIN[0]} on >{ADMIN[1]} ~* &* +@all\n')
            self.options += ['--aclfile', path]
            self.admin = ADMIN
        else:
            self.admin = (None, password)
            if password is not None:
                self.options += ['--requirepass', password, '--masterauth', password]
        if maxmemory:
            self.options += ['--maxmemory', str(maxmemory), '--maxmemory-policy', policy]
        if replica_of is not None:
            self.options += ['--replicaof', '127.0.0.1', str(getattr(replica_of, 'port', replica_of))]

    def __enter__(self):
        if self.process is None:
            self.start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process is not None:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        _folders.discard(self.folder)

    def start(self):
        """Also again, after kill() or stop(): on the same port."""
        for _ in range(5):
            self._launch()
            wait_for(lambda: not self.process.is_running() or self._answers())
            if self.process.is_running():
                return self
            if self.fixed_port or 'ddress already in use' not in self.process.log():
                break
        raise AssertionError(f'{self.program} did not start:\n{self.process.log()}')

    def _launch(self):
        if self.socket_path:
            places = ['--port', '0']
        else:
            self.port = self.fixed_port or free_pair(self.bus)
            places = ['--port', str(self.port)]
        if self.authority:
            places = ['--port', '0', '--tls-port', str(self.port), '--tls-cert-file', self.authority.certificate,
                      '--tls-key-file', self.authority.key, '--tls-ca-cert-file', self.authority.ca,
                      '--tls-auth-clients', 'yes' if self.is_mutual else 'no']
        self.process = Process([find_program(self.program), *places, *self.options, *self.args], self.folder,
                               self.clock.environment if self.clock else None)
        self.process.start()
        if self._answers_within(0.5):
            self.fixed_port = self.port

    def _answers_within(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.is_running():
            if self._answers():
                return True
            time.sleep(0.005)
        return False

    def _answers(self):
        try:
            self.command('PING')
        except StoreError as error:
            return error.code in ('MASTERDOWN', 'NOPERM')
        except OSError:
            return False
        return True

    # What it is doing.

    @property
    def where(self):
        return self.socket_path or self.port

    @property
    def url(self):
        return self.url_as(None, self.password)

    def url_as(self, user, password):
        who = f"{urllib.parse.quote(user or '', safe='')}:{urllib.parse.quote(password, safe='')}@" if password else ''
        if self.socket_path:
            return f'redis+unix://{who}{self.socket_path}'
        if not self.authority:
            return f'redis://{who}127.0.0.1:{self.port}'
        client = f'&cert={self.authority.client_certificate}&key={self.authority.client_key}' if self.is_mutual else ''
        return f'rediss://{who}127.0.0.1:{self.port}?ca={self.authority.ca}{client}'

    def client(self, user=None, password=None, timeout=PATIENCE):
        """A connection, as the administrator unless a user is named."""
        if user is None and password is None:
            user, password = self.admin
        return Client(self.where, user, password, self.authority.context() if self.authority else None, timeout)

    def command(self, *words):
        with self.client() as client:
            return client.command(*words)

    def keys(self, pattern='weir:1:*'):
        """All keys that match, by SCAN."""
        found, cursor = set(), b'0'
        with self.client() as client:
            while True:
                cursor, names = client.command('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000)
                found.update(names)
                if cursor == b'0':
                    return sorted(found)

    def keys_without_expiry(self, pattern='weir:1:*'):
        with self.client() as client:
            names = self.keys(pattern)
            return [n for n, left in zip(names, client.pipeline([('PTTL', n) for n in names])) if left == -1]

    def info(self, section='all'):
        lines = self.command('INFO', section).decode().splitlines()
        return dict(line.split(':', 1) for line in lines if ':' in line)

    # What is done to it.

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.process.log()

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.stop()

    def freeze(self):
        self.process.freeze()

    def thaw(self):
        self.process.thaw()

    def clock_set(self, seconds):
        """Step its wall clock to so far from the true time (Store(clock=0) at least)."""
        self.clock.offset_set(seconds)


def free_pair(bus=False):
    """A free port; for a Cluster's node also the one 10000 above it."""
    while True:
        port = free_port()
        if not bus:
            return port
        with socket.socket() as probe:
            try:
                probe.bind(('127.0.0.1', port + 10000))
                return port
            except OSError:
                pass


# ---- A Cluster --------------------------------------------------------------------------------------------------------


def slot_of(name):
    """Of a key: CRC16/XMODEM of what stands in its first {}, or of all of it."""
    name = name if isinstance(name, bytes) else name.encode()
    start = name.find(b'{')
    if start >= 0:
        end = name.find(b'}', start + 1)
        if end > start + 1:
            name = name[start + 1:end]
    crc = 0
    for byte in name:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc % SLOTS


class Cluster:
    """Masters without replicas. cluster.nodes are Stores; slots are divided evenly.

        with Cluster() as cluster:
            cluster.url
            cluster.migrate(slot, to=2)                            # at once
            move = cluster.migration(slot, to=2); move.begin(); move.keys(10); move.end()    # step by step
    """

    def __init__(self, masters=3, program='redis-server', password=None, tls=False, node_timeout=2000, args=()):
        self.nodes = [Store(program, password=password, tls=tls, bus=True, args=[
            '--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--cluster-node-timeout', str(node_timeout),
            *args]) for _ in range(masters)]
        self.ids = []

    def __enter__(self):
        try:
            for node in self.nodes:
                node.start()
            self._join()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for node in self.nodes:
            node.close()

    def _join(self):
        count = len(self.nodes)
        for i, node in enumerate(self.nodes):
            self.ids.append(node.command('CLUSTER', 'MYID'))
            node.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
            node.command('CLUSTER', 'ADDSLOTSRANGE', i * SLOTS // count, (i + 1) * SLOTS // count - 1)
        for node in self.nodes[1:]:
            self.nodes[0].command('CLUSTER', 'MEET', '127.0.0.1', node.port)
        wait_for(lambda: all(self._knows_all(node) for node in self.nodes))

    def _knows_all(self, node):
        lines = node.command('CLUSTER', 'INFO').decode().split('\r\n')
        return 'cluster_state:ok' in lines and f'cluster_known_nodes:{len(self.nodes)}' in lines \
            and f'cluster_size:{len(self.nodes)}' in lines

    @property
    def url(self):
        first = self.nodes[0]
        who = f':{first.password}@' if first.password else ''
        hosts = ','.join(f'127.0.0.1:{node.port}' for node in self.nodes)
        return f"redis{'s' if first.authority else ''}+cluster://{who}{hosts}"

    def owner(self, slot):
        """Index of the node that has the slot, as node 0 (or the first that runs) sees it."""
        asked = next(node for node in self.nodes if node.process.is_running())
        for first, last, node, *_ in asked.command('CLUSTER', 'SLOTS'):
            if first <= slot <= last:
                return [n.port for n in self.nodes].index(node[1])
        return None

    def migration(self, slot, to):
        return Migration(self, slot, to)

    def migrate(self, slot, to, at_once=10, pause=0):
        """Move a slot with its keys while clients go on."""
        move = self.migration(slot, to)
        move.begin()
        while move.keys(at_once):
            time.sleep(pause)
        move.end()

    def keys(self, pattern='weir:1:*'):
        return sorted(name for node in self.nodes if node.process.is_running() for name in node.keys(pattern))


class Migration:
    def __init__(self, cluster, slot, to):
        self.cluster, self.slot, self.to, self.source = cluster, slot, to, cluster.owner(slot)
        assert self.source != to, f'slot {slot} is already at node {to}'

    def begin(self):
        """From now on the source answers ASK for keys that it does not have (any more)."""
        nodes, ids = self.cluster.nodes, self.cluster.ids
        nodes[self.to].command('CLUSTER', 'SETSLOT', self.slot, 'IMPORTING', ids[self.source])
        nodes[self.source].command('CLUSTER', 'SETSLOT', self.slot, 'MIGRATING', ids[self.to])

    def keys(self, count=1):
        """Move up to so many keys; gives how many."""
        source, target = self.cluster.nodes[self.source], self.cluster.nodes[self.to]
        names = source.command('CLUSTER', 'GETKEYSINSLOT', self.slot, count)
        if names:
            auth = ['AUTH', source.password] if source.password else []
            source.command('MIGRATE', '127.0.0.1', target.port, '', 0, 5000, *auth, 'KEYS', *names)
        return len(names)

    def end(self):
        """The target first, so that at every moment a node says that it is its own."""
        nodes, ids = self.cluster.nodes, self.cluster.ids
        for i in [self.to, self.source] + [i for i in range(len(nodes)) if i not in (self.to, self.source)]:
            nodes[i].command('CLUSTER', 'SETSLOT', self.slot, 'NODE', ids[self.to])


# ---- Sentinels --------------------------------------------------------------------------------------------------------


class Sentinels:
    """A master, a replica and three Sentinels that watch them under a name.

        with Sentinels() as group:
            group.url
            group.master.kill()
            group.wait_for_master(group.replica)
    """

    def __init__(self, name='weir', program='redis-server', down_after_ms=1000, password=None, args=()):
        self.name, self.program, self.down_after_ms, self.password = name, program, down_after_ms, password
        self.master = Store(program, password=password, args=args)
        self.replica = None
        self.args = args
        self.sentinels = []

    def __enter__(self):
        try:
            self.master.start()
            self.replica = Store(self.program, password=self.password, replica_of=self.master, args=self.args)
            self.replica.start()
            wait_for(lambda: self.replica.info('replication').get('master_link_status') == 'up')
            for _ in range(3):
                self.sentinels.append(Sentinel(self))
            for sentinel in self.sentinels:
                sentinel.start()
            wait_for(lambda: all(s.sees_all() for s in self.sentinels))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for store in [self.master, self.replica, *self.sentinels]:
            if store is not None:
                store.close()

    @property
    def url(self):
        who = f':{self.password}@' if self.password else ''
        hosts = ','.join(f'127.0.0.1:{s.port}' for s in self.sentinels)
        return f'redis+sentinel://{who}{hosts}/{self.name}'

    def master_port(self):
        """What the Sentinels that run say, or None where they do not agree."""
        said = {s.master_port() for s in self.sentinels if s.process.is_running()}
        return said.pop() if len(said) == 1 else None

    def wait_for_master(self, store):
        wait_for(lambda: self.master_port() == store.port and store.info('replication')['role'] == 'master')


class Sentinel(Store):
    def __init__(self, group):
        super().__init__(group.program)
        self.group = group

    def _launch(self):
        self.port = self.fixed_port or free_pair()
        path = os.path.join(self.folder, 'sentinel.conf')
        name = self.group.name
        with open(path, 'w') as file:
            file.write(f'port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n'
                       f'sentinel monitor {name} 127.0.0.1 {self.group.master.port} 2\n'
                       f'sentinel down-after-milliseconds {name} {self.group.down_after_ms}\n'
                       f'sentinel failover-timeout {name} 5000\n')
            if self.group.password:
                file.write(f'sentinel auth-pass {name} {self.group.password}\n')
        self.process = Process([find_program(self.program), path, '--sentinel'], self.folder)
        self.process.start()
        if self._answers_within(0.5):
            self.fixed_port = self.port

    def sees_all(self):
        words = self.command('SENTINEL', 'MASTER', self.group.name)
        told = dict(zip(words[::2], words[1::2]))
        return told[b'num-slaves'] == b'1' and told[b'num-other-sentinels'] == b'2' and told[b'flags'] == b'master'

    def master_port(self):
        return int(self.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', self.group.name)[1])
