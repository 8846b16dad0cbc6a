# SPDX-License-Identifier: Apache-2.0
"""bench/http_waiting.py [BUILD [FOLDER]] - how late releases are, and what ten thousand parked requests take.

lateness: requests wait for a leaky queue, in a process of their own whose loop sleeps and ticks (bench_waiting lateness),
and at `weir serve`, each on a connection of its own (bench_parked), at a slow rate until all are there. A release is late
by what it is behind the rate's own schedule. In process the schedule begins with the first decision, and two decisions that are
closer together than the interval end the run: that is what must never be. Over HTTP it is laid through the reply that was
earliest in it, as replies reach the client; there the k-th must not come before k intervals have passed since the contract
with the rate was sent. The pace is how many left a second, while the queue was never empty.

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
SLOW = "1000/1h"  # nobody leaves while a crowd comes

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

    def expect_waiting(self, count):
        while self.metric("weir_waiting") < count:
            time.sleep(0.1)

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


def behind(times, begin, rate):
    """How late each is in ns, where one was due at `begin` and another after each interval; and the pace."""
    late = [at - begin - i * 1000000000 // rate for i, at in enumerate(times)]
    return late, 1e9 * (len(times) - 1) / (times[-1] - begin)


def in_process(build, rate, count):
    done = subprocess.run(["taskset", "-c", "0", f"{build}/bench/bench_waiting", "lateness", str(rate), str(count)],
                          stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    decided, ended = zip(*numbers(done.stdout))
    gaps = [after - before for before, after in zip(decided, decided[1:])]
    if min(gaps) < 1000000000 // rate:
        raise SystemExit(f"http_waiting: two releases are {min(gaps)} ns apart at {rate}/s")
    return behind(ended, decided[0], rate)


def over_http(build, rate, count):
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        server = Server(build, folder, SLOW)
        try:
            crowd = Crowd(build, server, count)
            crowd.send()
            server.expect_waiting(count - 1)  # the first one passes at once
            begin = time.monotonic_ns()
            server.reload(f"{rate}/s")
            answers = crowd.answers()
        finally:
            server.stop()
    received = sorted(at for _, at in answers)[1:]
    late, _ = behind(received, begin, rate)
    if min(late) < 0:
        raise SystemExit(f"http_waiting: a reply came {-min(late)} ns too early at {rate}/s")
    return behind(received, begin + min(late), rate)


def measure_lateness(build, rate, count, folder):
    curves = {}
    for name, measure in ("in process", in_process), ("over HTTP", over_http):
        rounds = [measure(build, rate, count) for _ in range(ROUNDS)]
        for word, share in ("median", 0.5), ("99th of 100", 0.99), ("latest", 1):
            row(f"a release at {rate:,}/s {name} is late by: {word}", "us",
                [quantile(sorted(late), share) / 1000 for late, _ in rounds])
        row(f"pace of {rate:,}/s {name}", "/s", [pace for _, pace in rounds])
        # The middle one: what a busy minute did to another would be all that one sees.
        curves[name] = sorted((sorted(late) for late, _ in rounds), key=lambda late: quantile(late, 0.5))[ROUNDS // 2]
    if folder:
        with open(f"{folder}/lateness-{rate}.csv", "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["share of releases, %"] + list(curves))
            for step in range(0, 200):
                out.writerow([step / 2] + [f"{quantile(curve, step / 200) / 1000:.1f}"
                                           for curve in curves.values()])


def measure_parked(build):
    per_request, inversions = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
            server = Server(build, folder, SLOW)
            try:
                server.metric("weir_waiting")
                before = server.resident()
                crowd = Crowd(build, server, PARKED)
                crowd.send()
                server.expect_waiting(PARKED - 1)
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
