# SPDX-License-Identifier: Apache-2.0
"""bench/http_waiting.py [BUILD [FOLDER]] - how late releases are, and what ten thousand parked requests take.

lateness: requests wait for a leaky queue, in a process of their own whose loop sleeps and ticks (bench_waiting lateness),
and at `weir serve`, each on a connection of its own (bench_parked). A release is late by what the gap to the one before
exceeds the interval. In process gaps are those of the decisions, and one below the interval ends the run: that is what
must never be. Over HTTP they are those of the replies as they reach the client, which may come closer together than
they were decided; there the k-th reply must not come before k intervals have passed since the first request was sent.
The pace is how many left a second, while the queue was never empty.

parked: ten thousand requests wait for a slow queue, and the server's resident memory is looked at; then the contract is
reloaded with a fast one and they drain, in the order in which they came.

Prints JSON lines as bench/measure.c does, and with FOLDER the quantiles of lateness as CSV for bench/plot.
"""

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
PARKED = 10000

CONTRACT = """\
weir: 1
limits:
  - name: steady
    key: [tenant]
    missing-key: refuse
    algorithm: leaky-queue
    rate: %s
    wait: { up-to: 1d, queue: 100000 }
"""


class Server:
    """`weir serve` with one worker on core 0."""

    def __init__(self, build, folder, rate):
        self.folder = folder
        self.write(rate)
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", f"{build}/weir", "serve", folder + "/weir.yaml", "--http", "127.0.0.1:0", "--admin",
             f"unix:{folder}/admin.sock", "--workers", "1"], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"event=listening door=http addr=127.0.0.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
            if "event=serving" in line:
                return
        raise SystemExit("http_waiting: the server did not start")

    def write(self, rate):
        with open(self.folder + "/weir.yaml", "w", encoding="utf-8") as file:
            file.write(CONTRACT % rate)

    def reload(self, rate):
        self.write(rate)
        self.process.send_signal(signal.SIGHUP)

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metric(self, name):
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(self.folder + "/admin.sock")
            admin.sendall(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
            text = b"".join(iter(lambda: admin.recv(65536), b"")).decode()
        return float(re.search(rf"^{name} (\S+)$", text, re.M).group(1))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


class Crowd:
    """bench_parked on core 1."""

    def __init__(self, build, server, count):
        self.process = subprocess.Popen(["taskset", "-c", "1", f"{build}/bench/bench_parked", str(server.port), str(count)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.expect("connected")
        while server.files() < count:
            time.sleep(0.1)
        time.sleep(0.2)  # until its worker listens to the last of them: who comes first shall be who sends first

    def expect(self, word):
        line = self.process.stderr.readline().strip()
        if line != word:
            raise SystemExit(f"http_waiting: bench_parked says: {line}\n{self.process.stderr.read()}")

    def send(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.expect("parked")

    def answers(self):
        out, err = self.process.communicate(timeout=120)
        if self.process.returncode != 0:
            raise SystemExit("http_waiting: bench_parked: " + err)
        return numbers(out)


def numbers(text):
    return [tuple(int(field) for field in line.split(",")) for line in text.splitlines()[1:]]


def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def row(name, unit, values):
    print(json.dumps({"row": name, "unit": unit, "bar": 0, "least": False, "ours": [round(value, 2) for value in values],
                      "floor": [1] * len(values)}), flush=True)


def in_process(build, rate, count):
    """Gaps between releases in ns."""
    done = subprocess.run(["taskset", "-c", "0", f"{build}/bench/bench_waiting", "lateness", str(rate), str(count)],
                          stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    decided = [at for at, _ in numbers(done.stdout)]
    gaps = [after - before for before, after in zip(decided, decided[1:])]
    if min(gaps) < 1000000000 // rate:
        raise SystemExit(f"http_waiting: two releases are {min(gaps)} ns apart at {rate}/s")
    return gaps


def over_http(build, rate, count):
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        server = Server(build, folder, f"{rate}/s")
        try:
            crowd = Crowd(build, server, count)
            crowd.send()
            answers = crowd.answers()
        finally:
            server.stop()
    first = min(sent for sent, _ in answers)
    received = sorted(at for _, at in answers)
    for i, at in enumerate(received):
        if at - first < i * 1000000000 // rate:
            raise SystemExit(f"http_waiting: reply {i} came {(at - first) / 1e9} s after the first request at {rate}/s")
    return [after - before for before, after in zip(received, received[1:])]


def measure_lateness(build, rate, count, folder):
    interval = 1000000000 / rate
    curves = {}
    for name, measure in ("in process", in_process), ("over HTTP", over_http):
        every = []
        rounds = [measure(build, rate, count) for _ in range(ROUNDS)]
        for word, share in ("median", 0.5), ("99th of 100", 0.99), ("latest", 1):
            row(f"a release at {rate:,}/s {name} is late by: {word}", "us",
                [(quantile(sorted(gaps), share) - interval) / 1000 for gaps in rounds])
        row(f"pace of {rate:,}/s {name}", "/s", [1e9 * len(gaps) / sum(gaps) for gaps in rounds])
        for gaps in rounds:
            every += gaps
        curves[name] = sorted(every)
    if folder:
        with open(f"{folder}/lateness-{rate}.csv", "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["share of releases, %"] + list(curves))
            for step in range(0, 200):
                out.writerow([step / 2] + [f"{(quantile(curve, step / 200) - interval) / 1000:.1f}"
                                           for curve in curves.values()])


def measure_parked(build):
    per_request, inversions = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
            server = Server(build, folder, "1000/1h")
            try:
                server.metric("weir_waiting")
                before = server.resident()
                crowd = Crowd(build, server, PARKED)
                crowd.send()
                while server.metric("weir_waiting") < PARKED - 1:  # the first one passes at once
                    time.sleep(0.1)
                per_request.append((server.resident() - before) / PARKED)
                server.reload("5000/s")
                answers = crowd.answers()
            finally:
                server.stop()
        inversions.append(sum(after[1] < before[1] for before, after in zip(answers, answers[1:])))
    row("waiting: memory of one of 10,000 parked requests, its connection included", "bytes", per_request)
    row("waiting: of 10,000 parked requests, answered before the one in front", "", inversions)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    folder = sys.argv[2] if len(sys.argv) > 2 else None
    measure_lateness(build, 50, 250, folder)
    measure_lateness(build, 5000, PARKED, folder)
    measure_parked(build)


if __name__ == "__main__":
    main()
