# SPDX-License-Identifier: Apache-2.0
"""A proxy between weir and a store that fails at the boundaries of whole commands and replies, as a test tells it to.

    with Store() as store, FaultProxy(store) as proxy:
        proxy.url                                      # what weir is given instead of store.url
        proxy.script = lambda command: CUT_AFTER if command.verb == 'EVALSHA' else PASS
        proxy.script = random_faults(seed, {CUT_BEFORE: 2, late(0.2): 5, PASS: 93})
        proxy.freeze(), proxy.thaw()                   # nothing is passed on in either direction
        proxy.down(), proxy.up()                       # nobody listens
        proxy.count('EVALSHA', 'executed')             # what the store was sent, and what came back

Replies stay in the order of their commands within a connection, as TCP keeps them, and no reply is invented that the store
could not have given: so whatever happens here, weir's books must be right. Between connections anything overtakes anything.
Speaks RESP2 and RESP3. One thread of its own; the script is called there.
"""
import asyncio
import collections
import random
import threading

Fault = collections.namedtuple('Fault', 'kind seconds reply', defaults=(0, b''))

PASS = Fault('pass')
CUT_BEFORE = Fault('cut-before')      # the connection ends, and the store never saw the command
CUT_AFTER = Fault('cut-after')        # the store did it, and the connection ends instead of the reply
CUT_INSIDE = Fault('cut-inside')      # ... in the middle of the reply
STALL_BEFORE = Fault('stall-before')  # nothing goes on on this connection any more; the store never saw it
STALL_AFTER = Fault('stall-after')    # ... the store did it
TWICE = Fault('twice')                # the store does it once more, over another connection: as a network's own retry


def slow(seconds):
    """The command reaches the store late, and those behind it on the connection."""
    return Fault('slow', seconds)


def late(seconds):
    """The store does it at once; the reply comes late."""
    return Fault('late', seconds)


def echo(seconds):
    """The store does it, answers, and does it once more so much later, behind whatever came meanwhile."""
    return Fault('echo', seconds)


def astray(seconds):
    """The connection ends, and the store sees the command so much later, behind whatever came meanwhile."""
    return Fault('astray', seconds)


def answer(text):
    """Not the store's reply but this error: "LOADING ...", "READONLY ...". The store never sees the command."""
    return Fault('answer', 0, b'-' + text.encode() + b'\r\n')


DECIDING = ('EVALSHA', 'EVAL', 'FCALL')


def random_faults(seed, weights, verbs=DECIDING):
    """A script that draws faults by weight, the same for the same seed and order of commands; other verbs pass."""
    draw = random.Random(seed)
    faults, shares = list(weights), list(weights.values())
    return lambda command: draw.choices(faults, shares)[0] if command.verb in verbs else PASS


def one_in(n, other, verbs=DECIDING):
    """The first of each n passes, the rest meet `other`."""
    counter = iter(range(1 << 62))
    return lambda command: other if command.verb in verbs and next(counter) % n != 0 else PASS


class Command:
    """What the script is asked about. connection: rises from 1. number: of the command within the proxy, from 0."""

    def __init__(self, words, connection, number):
        self.words, self.connection, self.number = words, connection, number

    @property
    def verb(self):
        return self.words[0].decode('latin-1').upper()


class _Cut(Exception):
    pass


class FaultProxy:
    def __init__(self, store, port=0):
        """store: a Store of stores.py (plain TCP or a Unix socket), or a port."""
        self.target = getattr(store, 'where', store)
        self.password = getattr(store, 'password', None)
        self.port = port
        self.script = lambda command: PASS
        self.counts = collections.Counter()
        self.commands = 0
        self.connections = 0
        self.errors = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda *_: None)  # down() while somebody dials: asyncio reports it as an error
        self._server = None
        self._running = None
        self._tasks = set()
        self._delayed = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_):
        self._call(self._end())
        self._call(self._forget_delayed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert not self.errors, self.errors

    @property
    def url(self):
        who = f':{self.password}@' if self.password else ''
        return f'redis://{who}127.0.0.1:{self.port}'

    def count(self, verb, what):
        """How many commands of a verb were 'seen', 'executed' (sent to the store) and 'answered'."""
        return self.counts[verb, what]

    def faults(self):
        """How many commands met each kind."""
        return {kind: n for (verb, kind), n in self.counts.items() if verb == 'fault'}

    def freeze(self):
        self._loop.call_soon_threadsafe(self._running.clear)

    def thaw(self):
        self._loop.call_soon_threadsafe(self._running.set)

    def down(self):
        """Connections end, and new ones are refused."""
        self._call(self._end())

    def up(self):
        self._call(self._listen())

    def cut(self):
        """All connections end; new ones are welcome."""
        self._call(self._cut_all())

    # ---- In the thread ----------------------------------------------------------------------------------------------

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self):
        self._running = self._running or asyncio.Event()
        self._running.set()
        self._server = await asyncio.start_server(self._accepted, '127.0.0.1', self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self):
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut_all()

    async def _cut_all(self):
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forget_delayed(self):
        for task in list(self._delayed):
            task.cancel()
        await asyncio.gather(*self._delayed, return_exceptions=True)

    async def _dial(self):
        if isinstance(self.target, int):
            return await asyncio.open_connection('127.0.0.1', self.target)
        return await asyncio.open_unix_connection(self.target)

    async def _accepted(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        try:
            await _Pair(self, self.connections).serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, _Cut):
            pass
        except Exception as error:  # of the script: told at the end of the test
            self.errors.append(error)
        finally:
            self._tasks.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _later(self, data, greeting, seconds):
        """Whatever becomes of the connection that it came by."""
        async def wait():
            await asyncio.sleep(seconds)
            try:
                await self._once_more(data, list(greeting))
            except (OSError, asyncio.IncompleteReadError, _Cut):
                pass  # the store is away: it is lost
        task = self._loop.create_task(wait())
        self._delayed.add(task)
        task.add_done_callback(self._delayed.discard)

    async def _once_more(self, data, greeting):
        """Do a command over a connection of its own, greeted as the one that it came by; nobody hears the reply."""
        reader, writer = await self._dial()
        try:
            writer.write(b''.join(greeting) + data)
            for _ in range(len(greeting) + 1):
                await _frame(reader)
        finally:
            writer.close()


class _Pair:
    """A connection of weir's and the one to the store behind it."""

    def __init__(self, proxy, number):
        self.proxy, self.number = proxy, number
        self.due = asyncio.Queue()      # what was asked and is still to be answered, in order
        self.replies = asyncio.Queue()  # of the store
        self.greeting = []

    async def serve(self, reader, writer):
        store_reader, store_writer = await self.proxy._dial()
        tasks = [asyncio.ensure_future(part) for part in (
            self._commands(reader, store_writer), self._hear(store_reader, writer), self._deliver(writer))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            store_writer.close()

    async def _commands(self, reader, store):
        proxy = self.proxy
        while True:
            data = await _frame(reader)
            await proxy._running.wait()
            command = Command(_words(data), self.number, proxy.commands)
            proxy.commands += 1
            fault = proxy.script(command)
            proxy.counts['fault', fault.kind] += 1
            proxy.counts[command.verb, 'seen'] += 1
            if command.verb in ('AUTH', 'HELLO', 'SELECT'):
                self.greeting.append(data)
            if fault.kind == 'astray':
                proxy._later(data, self.greeting, fault.seconds)
            if fault.kind in ('cut-before', 'astray'):
                raise _Cut
            if fault.kind == 'stall-before':
                await asyncio.Event().wait()
            if fault.kind == 'slow':
                await asyncio.sleep(fault.seconds)
            if fault.kind != 'answer':
                store.write(data)
                await store.drain()
                proxy.counts[command.verb, 'executed'] += 1
            if fault.kind == 'twice':
                await proxy._once_more(data, self.greeting)
            if fault.kind == 'echo':
                proxy._later(data, self.greeting, fault.seconds)
            self.due.put_nowait((command, fault, proxy._loop.time() + fault.seconds))

    async def _hear(self, store_reader, writer):
        while True:
            data = await _frame(store_reader)
            if data[:1] == b'>':
                await self.proxy._running.wait()
                writer.write(data)
            else:
                self.replies.put_nowait(data)

    async def _deliver(self, writer):
        while True:
            command, fault, at = await self.due.get()
            data = fault.reply if fault.kind == 'answer' else await self.replies.get()
            await self.proxy._running.wait()
            if fault.kind == 'late':
                await asyncio.sleep(at - self.proxy._loop.time())
            if fault.kind == 'cut-after':
                raise _Cut
            if fault.kind == 'cut-inside':
                writer.write(data[:max(len(data) // 2, 1)])
                await writer.drain()
                raise _Cut
            if fault.kind == 'stall-after':
                await asyncio.Event().wait()
            writer.write(data)
            self.proxy.counts[command.verb, 'answered'] += 1


async def _frame(reader):
    """One whole command or reply, as its bytes."""
    line = await reader.readline()
    if not line.endswith(b'\r\n'):
        raise _Cut  # the end of the connection
    kind = line[:1]
    if kind in b'$=!':
        length = int(line[1:])
        return line if length < 0 else line + await reader.readexactly(length + 2)
    if kind in b'*~>%|':
        count = max(int(line[1:]), 0) * (2 if kind in b'%|' else 1) + (1 if kind == b'|' else 0)
        return line + b''.join([await _frame(reader) for _ in range(count)])
    return line


def _words(data):
    """Of a command: an array of bulk strings."""
    parts, words = data.split(b'\r\n', 1)[1], []
    while parts:
        head, rest = parts.split(b'\r\n', 1)
        length = int(head[1:])
        words.append(rest[:length])
        parts = rest[length + 2:]
    return words
