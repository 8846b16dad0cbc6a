# SPDX-License-Identifier: Apache-2.0
"""bench/resp_cost.py - server CPU of one command of the Redis door, beside the same server's PING, Redis and redis-cell.

    weir                    PING; WEIR.CHECK of one limit of the contract; CL.THROTTLE
    redis-server            PING; INCR; EVALSHA of a plain GCRA script (fleet_cost.py has it)
    redis-cell              CL.THROTTLE, where tools/redis-cell has built it

redis-benchmark asks, 50 connections and 10,000 keys, 16 deep and one by one; each server has core 0 to itself while the others
idle, redis-benchmark core 1. CPU is the run time of the server's threads (/proc/PID/task/*/schedstat), divided by commands.
Instructions of a command that is not pipelined are counted by callgrind, what 6,000 take beyond 2,000: they know no load, and
nothing of the kernel's share, which is most of such a request and the same for all.

Prints JSON lines as bench/measure.c does; `bench/resp_cost.py BUILD [ROUNDS]`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from fleet_cost import GCRA
from http_cost import await_port, cpu_seconds, free_port

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONNECTIONS = 50
REQUESTS = {16: 320000, 1: 80000}
CONTRACT = """\
weir: 1
limits:
  - { name: tenant-requests, key: [tenant], missing-key: refuse, rate: 1000000/s, burst: 1000000 }
memory: { keys: 100000 }
"""
KEY = "key:__rand_int__"
PING = ["PING"]
CHECK = ["WEIR.CHECK", "ATTR", "tenant", KEY]
THROTTLE = ["CL.THROTTLE", KEY, "1000000", "1", "1"]


def ask(port, command, requests, depth, connections=CONNECTIONS):
    done = subprocess.run(["taskset", "-c", "1", "redis-benchmark", "-p", str(port), "-c", str(connections), "-n", str(requests),
                           "-P", str(depth), "-r", "10000", "--csv", *command], capture_output=True, text=True, timeout=300, check=True)
    if "ERR" in done.stdout + done.stderr:
        raise SystemExit("resp_cost: not all replies are good:\n" + done.stdout + done.stderr)
    # "test","rps",...: the command stands in it with its blanks
    return float(re.findall(r'"([0-9.]+)"', done.stdout.splitlines()[-1])[0])


class Servers:
    def __init__(self, build):
        self.build, self.folder, self.running = build, tempfile.mkdtemp(prefix="weir-bench-"), []
        with open(self.folder + "/weir.yaml", "w", encoding="utf-8") as file:
            file.write(CONTRACT)

    def start(self, command, port):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running.append(process)
        await_port(port, process)
        return process.pid, port

    def weir_command(self, port, admin):
        return [f"{self.build}/weir", "serve", self.folder + "/weir.yaml", "--http", "127.0.0.1:0", "--resp",
                f"127.0.0.1:{port}", "--admin", f"unix:{self.folder}/{admin}", "--workers", "1"]

    def weir(self):
        port = free_port()
        return self.start(["taskset", "-c", "0", *self.weir_command(port, "admin.sock")], port)

    def redis(self, *more):
        port = free_port()
        return self.start(["taskset", "-c", "0", "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                           "--appendonly", "no", "--dir", self.folder, *more], port)

    def instructions(self, command):
        """Of one command that is not pipelined, in user space."""
        totals = []
        for requests in 2000, 6000:
            port, out = free_port(), f"{self.folder}/callgrind.out"
            process = subprocess.Popen(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                                        *self.weir_command(port, f"admin{requests}.sock")],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.running.append(process)
            await_port(port, process)
            ask(port, command, requests, 1, connections=1)
            self.running.remove(process)
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
            with open(out, encoding="ascii", errors="replace") as file:
                totals.append(int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M).group(1)))
        return (totals[1] - totals[0]) / 4000

    def stop(self):
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(timeout=60)
        shutil.rmtree(self.folder)


def sample(where, command, depth):
    """(us of server CPU of a command, commands per second)."""
    pid, port = where
    before = cpu_seconds(pid)
    rate = ask(port, command, REQUESTS[depth], depth)
    return (cpu_seconds(pid) - before) / REQUESTS[depth] * 1e6, rate


def row(name, unit, bar, ours, floor):
    print(json.dumps({"row": name, "unit": unit, "bar": bar, "least": False, "ours": ours, "floor": floor}), flush=True)


def measure(sides, depth, rounds):
    """Of each side its costs, one a round."""
    costs, rates = {name: [] for name in sides}, {name: [] for name in sides}
    for i in range(rounds + 1):
        for name, (where, command) in sides.items():
            cost, rate = sample(where, command, depth)
            if i > 0:  # the first makes keys
                costs[name].append(round(cost, 4))
                rates[name].append(rate)
    for name in sides:
        print(f"resp: {name}, {depth} deep: {sorted(rates[name])[rounds // 2]:.0f} a second", file=sys.stderr)
    return costs


def compare(costs, depth, bars):
    how = f"RESP {depth} deep" if depth > 1 else "RESP one by one"
    for ours in "CL.THROTTLE", "WEIR.CHECK":
        for floor, bar in (("PING", bars[0]), ("Redis, EVALSHA of GCRA", bars[1]), ("redis-cell", bars[2]), ("Redis, INCR", 0),
                           ("Redis, PING", 0)):
            if floor in costs:
                row(f"{how}: server CPU of {ours} / {floor}", "us", bar, costs[ours], costs[floor])


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    for program in "redis-server", "redis-benchmark", "redis-cli", "taskset", "valgrind":
        if shutil.which(program) is None:
            raise SystemExit(f"resp_cost: {program} is missing: tools/deps bench")
    servers = Servers(build)
    try:
        weir, redis = servers.weir(), servers.redis()
        script = subprocess.run(["redis-cli", "-p", str(redis[1]), "-x", "SCRIPT", "LOAD"], input=GCRA, capture_output=True,
                                timeout=30, check=True).stdout.decode().strip()
        sides = {
            "PING": (weir, PING), "CL.THROTTLE": (weir, THROTTLE), "WEIR.CHECK": (weir, CHECK),
            "Redis, PING": (redis, PING), "Redis, INCR": (redis, ["INCR", KEY]),
            "Redis, EVALSHA of GCRA": (redis, ["EVALSHA", script, "1", "g:" + KEY, "1", "1000000000", "1"]),
        }
        module = subprocess.run([os.path.join(ROOT, "tools", "redis-cell"), "--where"], capture_output=True, text=True,
                                check=True).stdout.strip()
        if os.path.exists(module):
            sides["redis-cell"] = (servers.redis("--loadmodule", module), THROTTLE)
        else:
            print("resp: redis-cell is left out: tools/redis-cell builds it", file=sys.stderr)
        compare(measure(sides, 16, rounds), 16, (2, 0.15, 0.45))
        compare(measure(sides, 1, rounds), 1, (0, 0, 0))
        least = servers.instructions(PING)
        for name, words in ("CL.THROTTLE", THROTTLE), ("WEIR.CHECK", CHECK):
            command = ["key:7" if word == KEY else word for word in words]  # a new key costs more, once
            row(f"RESP one by one: instructions in user space of {name} / PING", "", 1.15, [servers.instructions(command)], [least])
    finally:
        servers.stop()


if __name__ == "__main__":
    main()
