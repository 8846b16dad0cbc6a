# SPDX-License-Identifier: Apache-2.0
"""bench/overload.py [BUILD [FOLDER]] - what callers of an overloaded backend see, behind weir's queue and behind none.

The backend does one piece of work after the other, 50 a second, first come first served: its queue has no bound. For 30
seconds 100 requests a second arrive at instants of their own, whether or not earlier ones were answered (an open loop).
Once they go to the backend as they come; once each asks weir before, which lets 50 a second pass, one by one, and lets
callers wait for at most one second (leaky-queue, wait: { up-to: 1s, queue: 50 }); who is refused goes away.

The latency of a request that is served is from its arrival to the end of its work. Prints JSON lines as bench/measure.c
does, and with FOLDER a point for every fifth served request as CSV for bench/plot.
"""

import asyncio
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

RATE, SECONDS = 100, 30
WORK = 1 / 50
BODY = b'{"attributes": {}, "wait": 1}'
QUESTION = b"POST /v1/check HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY), BODY)

CONTRACT = """\
weir: 1
limits:
  - { name: backend, key: [], algorithm: leaky-queue, rate: 50/s, wait: { up-to: 1s, queue: 50 } }
"""


class Backend:
    def __init__(self):
        self.is_free_at = 0.0

    async def work(self):
        """Ends when this piece of work does, behind all that came before."""
        self.is_free_at = max(self.is_free_at, time.monotonic()) + WORK
        await asyncio.sleep(self.is_free_at - time.monotonic())


async def passes(port):
    """Whether weir lets it pass, perhaps after a wait. On a connection of its own, as callers have."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(QUESTION)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head).group(1)))
    writer.close()
    return head.startswith(b"HTTP/1.1 200")


async def load(port):
    """[(arrival, latency)] of those who were served, and after how long the others were refused. No port: nobody is asked."""
    served, refused = [], []
    backend = Backend()
    begin = time.monotonic() + 0.1

    async def caller(arrives_at):
        await asyncio.sleep(begin + arrives_at - time.monotonic())
        if port is None or await passes(port):
            await backend.work()
            served.append((arrives_at, time.monotonic() - begin - arrives_at))
        else:
            refused.append(time.monotonic() - begin - arrives_at)

    await asyncio.gather(*(caller(i / RATE) for i in range(RATE * SECONDS)))
    return sorted(served), sorted(refused)


def behind_weir(build):
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        with open(folder + "/weir.yaml", "w", encoding="utf-8") as file:
            file.write(CONTRACT)
        server = subprocess.Popen([f"{build}/weir", "serve", folder + "/weir.yaml", "--http", "127.0.0.1:0", "--admin",
                                   f"unix:{folder}/admin.sock"], stderr=subprocess.PIPE, text=True)
        port = None
        for line in server.stderr:
            found = re.search(r"event=listening door=http addr=127.0.0.1:(\d+)", line)
            port = int(found.group(1)) if found else port
            if "event=serving" in line:
                break
        try:
            return asyncio.run(load(port))
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)


def row(name, unit, value):
    print(json.dumps({"row": name, "unit": unit, "bar": 0, "least": False, "ours": [round(value, 3)], "floor": [1]}), flush=True)


def tell(name, file_name, served, refused, folder):
    late = sorted(latency for _, latency in served)
    for word, share in ("median", 0.5), ("99th of 100", 0.99), ("latest", 1):
        row(f"overload, {name}: latency of served requests: {word}", "s", late[min(len(late) - 1, int(share * len(late)))])
    row(f"overload, {name}: served", "", len(served))
    row(f"overload, {name}: refused", "", len(refused))
    if refused:
        row(f"overload, {name}: refused only after a wait", "", sum(after > 0.5 for after in refused))
    if folder:
        with open(f"{folder}/{file_name}.csv", "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["arrival, s", "latency, s"])
            out.writerows((f"{arrival:.2f}", f"{latency:.3f}") for arrival, latency in served[::5])


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    folder = sys.argv[2] if len(sys.argv) > 2 else None
    tell("weir's queue", "overload-weir", *behind_weir(build), folder)
    tell("no bound", "overload-none", *asyncio.run(load(None)), folder)


if __name__ == "__main__":
    main()
