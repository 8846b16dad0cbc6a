# SPDX-License-Identifier: Apache-2.0
"""An open-loop load on replicas that come and go, and the two bounds of what it may be admitted.

Requests leave at instants that were drawn beforehand, whether or not those before were answered: a replica that stands still finds
a queue when it goes on. A connection holds at most QUEUE of them; what finds no room, or no connection, or no answer, is counted
nowhere. So what was asked is what was answered, and when, between two readings of this clock.
"""
import asyncio
import itertools
import json
import random
import threading
import time

QUEUE = 40
CONNECTIONS = 2  # to each replica


class Load:
    """rates: a function of (seconds since the beginning, replica) that says how many requests a second it is to be asked.
    port_of: a function of the replica that gives its port, or None while it is gone. In a thread of its own."""

    def __init__(self, replicas, seconds, rates, port_of, seed, body):
        self.replicas, self.seconds, self.rates, self.port_of, self.seed = replicas, seconds, rates, port_of, seed
        text = json.dumps(body).encode()
        self.request = b'POST /v1/check HTTP/1.1\r\nHost: weir.test\r\nContent-Length: %d\r\n\r\n%s' % (len(text), text)
        self.answers = []  # (replica, asked, answered, decision, policy, status)
        self.skipped = 0
        self.failure = None
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.began = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join()
        if self.failure:
            raise self.failure

    def _run(self):
        try:
            asyncio.run(self._all())
        except BaseException as error:
            self.failure = error

    async def _all(self):
        await asyncio.gather(*(self._replica(i) for i in range(self.replicas)))

    async def _replica(self, replica):
        draw = random.Random(self.seed * 100 + replica)
        lines = [_Line(self, replica) for _ in range(CONNECTIONS)]
        turn = itertools.cycle(lines)
        at = 0
        while at < self.seconds:
            rate = self.rates(at, replica)
            at += draw.expovariate(rate) if rate > 0 else 0.1
            if rate <= 0 or at >= self.seconds:
                continue
            wait = self.began + at - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            if not await next(turn).ask():
                self.skipped += 1
        await asyncio.sleep(1)  # for the last answers
        for line in lines:
            line.close()

    def allowed(self):
        return sorted((asked, answered) for _, asked, answered, decision, _, _ in self.answers if decision == 'allow')


class _Line:
    """A connection that is dialled again when it is gone."""

    def __init__(self, load, replica):
        self.load, self.replica = load, replica
        self.writer, self.reading, self.pending, self.port = None, None, [], None

    async def ask(self):
        port = self.load.port_of(self.replica)
        if self.writer is not None and (port != self.port or self.writer.is_closing()):
            self.close()
        if self.writer is None and not await self._dial(port):
            return False
        if len(self.pending) >= QUEUE:
            return False
        self.pending.append(time.monotonic())
        self.writer.write(self.load.request)
        return True

    async def _dial(self, port):
        if port is None:
            return False
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection('127.0.0.1', port), 1)
        except (OSError, asyncio.TimeoutError):
            return False
        self.writer, self.port, self.pending = writer, port, []
        self.reading = asyncio.ensure_future(self._hear(reader, writer, self.pending))
        return True

    async def _hear(self, reader, writer, pending):
        try:
            while True:
                head = await reader.readuntil(b'\r\n\r\n')
                fields = dict(line.split(b': ', 1) for line in head.lower().split(b'\r\n')[1:] if b': ' in line)
                told = json.loads(await reader.readexactly(int(fields[b'content-length'])))
                self.load.answers.append((self.replica, pending.pop(0), time.monotonic(), told['decision'], told['policy'],
                                          int(head.split(b' ', 2)[1])))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.reading.cancel()
        self.writer = None


def most_above(allowed, burst, rate, step=0.05):
    """By how much what was surely admitted within some part of the time exceeds burst + rate x its length; below 0: never.

    allowed: pairs of (asked, answered). A request was decided between the two, so it counts in a part that holds both. Parts begin and
    end at multiples of `step`, which makes them longer than need be, never shorter."""
    if not allowed:
        return -burst
    base = allowed[0][0]
    cells = sorted((int((asked - base) / step), -int(-(answered - base) / step // 1)) for asked, answered in allowed)
    last = max(end for _, end in cells) + 1
    begins = {}
    for begin, end in cells:
        begins.setdefault(begin, []).append(end)
    worst, ends = -burst, [0] * (last + 1)
    # From the last beginning to the first: `ends` counts what begins at or behind it, by where it ends.
    for begin in sorted(begins, reverse=True):
        for end in begins[begin]:
            ends[end] += 1
        counted = 0
        for end in range(begin, last + 1):
            if ends[end]:
                counted += ends[end]
                worst = max(worst, counted - burst - rate * step * (end - begin))
    return worst


def ideal(asked, burst, rate):
    """How many of these instants one bucket admits that everybody asks, and that starts full."""
    level, last, admitted = burst, None, 0
    for at in sorted(asked):
        if last is not None:
            level = min(burst, level + rate * (at - last))
        last = at
        if level >= 1:
            level -= 1
            admitted += 1
    return admitted
