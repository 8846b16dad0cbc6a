# SPDX-License-Identifier: Apache-2.0
"""bench/fleet_cost.py - what a budget for the whole fleet costs: the store's CPU and time, and what a caller waits.

The store (redis-server, one thread, nothing kept) and weir have core 0, who asks has core 1. weir's command is the one that
`weir serve` sends, recorded on its way to the store; beside it run, in turn,

    a plain GCRA script     EVALSHA of one key, with the store's clock: the shortest script that is a rate limiter
    INCRBY and EXPIRE       the pair that envoyproxy/ratelimit sends for one descriptor, in one write

CPU is `used_cpu_user` + `used_cpu_sys` of INFO, divided by decisions. Then the same HTTP question is asked of a limit of the
process, of a shared one and of two, and PING of the store, all by one caller at a time and by sixteen. Prints JSON lines as
bench/measure.c does; `bench/fleet_cost.py BUILD [ROUNDS]`.
"""

import hashlib
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "test", "support"), os.path.join(HERE, "..", "test", "doors")]
from door import Server, wait_for  # noqa: E402
from fault_proxy import PASS, FaultProxy  # noqa: E402
from stores import Store, encode  # noqa: E402

ROUNDS = 9
KEYS = 1000
AT_ONCE = 20000   # decisions of one sample at full load
ALONE = 3000      # of one sample by one caller

CONTRACT = """\
weir: 1
store: { deadline: 1s }
limits:
  - name: local
    when: { path: /local }
    key: [tenant]
    rate: 1000000/s
    burst: 1000000
  - name: shared
    when: { path: [/shared, /two] }
    key: [tenant]
    rate: 1000000/s
    burst: 1000000
    scope: fleet
    when-store-fails: closed
  - name: window
    when: { path: [/window, /two] }
    key: [tenant]
    algorithm: fixed-window
    rate: 1000000000/1h
    scope: fleet
    when-store-fails: closed
"""

# Generic cell rate: one number a key, the instant at which it would be empty again.
GCRA = b"""\
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1])) or now
if tat < now then tat = now end
local new = tat + interval * cost
local allow_at = new - burst
if now < allow_at then return {0, 0, allow_at - now, tat - now} end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {1, math.floor((now - allow_at) / interval), 0, new - now}
"""


def write_questions(path, questions):
    with open(path, "wb") as file:
        for question in questions:
            file.write(struct.pack("=I", len(question)) + question)


def http(path):
    for i in range(KEYS):
        body = b'{"attributes": {"tenant": "tenant-%06d", "path": "%s"}}' % (i, path.encode())
        yield (b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
               % (len(body), body))


def record(store, contract_server):
    """The words of the command that decides /shared and /two, as weir serve sends them."""
    recorded = []

    def script(command):
        if command.verb in ("EVALSHA", "EVAL"):
            recorded.append(command.words)
        return PASS

    found = {}
    with FaultProxy(store) as proxy, contract_server(proxy.url) as server:
        proxy.script = script
        wait_for(lambda: server.ask("GET", "/readyz").text.startswith("ready"))
        for path in "/shared", "/window", "/two":
            recorded.clear()
            for _ in range(3):
                reply = server.check('{"tenant":"tenant-000000","path":"%s"}' % path)
                if reply.json["decision"] != "allow":
                    raise SystemExit("fleet_cost: " + reply.text)
            found[path] = [words for words in recorded if words[0].upper() == b"EVALSHA"][-1]
    return found


def with_key(words, i):
    return encode(*[w.replace(b"tenant-000000", b"tenant-%06d" % i) for w in words])


class Bench:
    def __init__(self, build, folder, rounds):
        self.replay_program = os.path.join(build, "bench", "bench_replay")
        self.folder, self.rounds = folder, rounds

    def replay(self, port, protocol, name, replies, connections, depth, count):
        done = subprocess.run(["taskset", "-c", "1", self.replay_program, str(port), protocol,
                               os.path.join(self.folder, name), str(replies), str(connections), str(depth), str(count)],
                              capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            raise SystemExit(f"fleet_cost: {name}: {done.stderr}")
        told = json.loads(done.stdout)
        if told["errors"]:
            raise SystemExit(f"fleet_cost: {name}: {told['errors']} of {told['count']} were not allowed")
        return told


def cpu_us(client):
    text = client.command("INFO", "cpu").decode()
    return sum(float(re.search(rf"^used_cpu_{kind}:(.*)\r$", text, re.M).group(1)) for kind in ("user", "sys")) * 1e6


def row(name, unit, bar, ours, floor, least=False):
    print(json.dumps({"row": name, "unit": unit, "bar": bar, "least": least,
                      "ours": [round(v, 3) for v in ours], "floor": [round(v, 3) for v in floor]}), flush=True)


def script_rows(bench, store):
    """The store alone: CPU and decisions per second at full load (4 connections, 16 at once), time of one at a time."""
    kinds = {"weir": 1, "weir-two": 1, "gcra": 1, "pair": 2, "ping": 1}
    cost, rate = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}
    p50, p99 = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}
    with store.client() as client:
        for i in range(bench.rounds + 1):
            for kind, replies in kinds.items():
                before = cpu_us(client)
                told = bench.replay(store.port, "resp", kind, replies, 4, 16, AT_ONCE)
                spent = cpu_us(client) - before
                alone = bench.replay(store.port, "resp", kind, replies, 1, 1, ALONE)
                if i > 0:  # the first warms up
                    cost[kind].append(spent / told["count"])
                    rate[kind].append(told["count"] / told["ns"] * 1e6)
                    p50[kind].append(alone["p50"] / 1000)
                    p99[kind].append(alone["p99"] / 1000)
    row("fleet strict: Redis CPU of a decision / of a plain GCRA script", "us", 1.3, cost["weir"], cost["gcra"])
    row("fleet strict: Redis CPU of a decision / of INCRBY and EXPIRE", "us", 0, cost["weir"], cost["pair"])
    row("fleet strict: Redis CPU of two limits in one call / of one", "us", 0, cost["weir-two"], cost["weir"])
    row("fleet strict: decisions of one Redis / GCRA scripts", "k/s", 0, rate["weir"], rate["gcra"])
    row("fleet strict: decisions of one Redis / INCRBY and EXPIRE", "k/s", 0, rate["weir"], rate["pair"])
    for name, values in ("p50", p50), ("p99", p99):
        row(f"fleet strict: {name} of the script alone / of a plain GCRA script", "us", 0, values["weir"], values["gcra"])
        row(f"fleet strict: {name} of the script alone / of INCRBY and EXPIRE", "us", 0, values["weir"], values["pair"])
        row(f"fleet strict: {name} of the script alone / of PING", "us", 0, values["weir"], values["ping"])


def serve_rows(bench, store, server):
    """What a caller of `weir serve` waits: with a limit of the process, a shared one, and PING, one and sixteen at a time."""
    paths = ("local", "shared", "two")
    table = {}
    for connections, what in (1, "one caller"), (16, "sixteen callers"):
        p50, p99, rate = ({kind: [] for kind in paths + ("ping",)} for _ in range(3))
        for i in range(bench.rounds + 1):
            for kind in p50:
                port, protocol = (store.port, "resp") if kind == "ping" else (server.port, "http")
                told = bench.replay(port, protocol, kind if kind == "ping" else "http-" + kind, 1, connections, 1,
                                    ALONE * (1 if connections == 1 else 4))
                if i > 0:
                    p50[kind].append(told["p50"] / 1000)
                    p99[kind].append(told["p99"] / 1000)
                    rate[kind].append(told["count"] / told["ns"] * 1e6)
        added50 = [a - b for a, b in zip(p50["shared"], p50["local"])]
        added99 = [a - b for a, b in zip(p99["shared"], p99["local"])]
        row(f"fleet strict: p50 that a shared limit adds, {what} / PING", "us", 0, added50, p50["ping"])
        row(f"fleet strict: p99 that a shared limit adds, {what} / PING", "us", 2, added99, p99["ping"])
        table[what] = {kind: [spread(v[kind]) for v in (p50, p99, rate)] for kind in p50}
    print("fleet: | | p50 | p99 | answers per second |", file=sys.stderr)
    print("fleet: | --- | --- | --- | --- |", file=sys.stderr)
    words = {"local": "local", "shared": "strict", "two": "strict, two limits in one call", "ping": "the store's PING alone"}
    for what, kinds in table.items():
        for kind, (p50, p99, rate) in kinds.items():
            print(f"fleet: | {words[kind]}, {what} | {p50} us | {p99} us | {rate} k |", file=sys.stderr)


def spread(values):
    return f"{statistics.median(values):.1f} [{min(values):.1f}..{max(values):.1f}]"


def round_trips(store, server):
    """Commands that the store did for a thousand decisions, by its own count."""
    def calls():
        stats = store.info("commandstats")
        return sum(int(re.search(r"calls=(\d+)", v).group(1)) for k, v in stats.items()
                   if k in ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_evalsha_ro"))
    for path in "/shared", "/two":
        before = calls()
        with server.connect() as connection:
            for i in range(1000):
                body = '{"attributes":{"tenant":"tenant-%06d","path":"%s"}}' % (i % KEYS, path)
                connection.ask("POST", "/v1/check", body)
        limits = "a shared limit" if path == "/shared" else "two shared limits"
        row(f"fleet strict: commands for a decision under {limits}", "commands", 1, [(calls() - before) / 1000], [1])


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    for program in "redis-server", "taskset":
        if shutil.which(program) is None:
            raise SystemExit(f"fleet_cost: {program} is missing: tools/deps bench")
    import door
    door.BUILD = build
    folder = tempfile.mkdtemp(prefix="weir-bench-")
    bench = Bench(build, folder, rounds)

    def serve(url):
        return Server(CONTRACT, env={"WEIR_STORE": url}, args=["--workers", "1"])

    try:
        with Store() as store:
            found = record(store, serve)
            with store.client() as client:
                gcra = client.command("SCRIPT", "LOAD", GCRA)
            assert gcra.decode() == hashlib.sha1(GCRA).hexdigest()
            write_questions(f"{folder}/weir", (with_key(found["/shared"], i) for i in range(KEYS)))
            write_questions(f"{folder}/weir-two", (with_key(found["/two"], i) for i in range(KEYS)))
            write_questions(f"{folder}/gcra", (encode("EVALSHA", gcra, 1, f"gcra:tenant-{i:06}", 1, 1000000, 1)
                                               for i in range(KEYS)))
            write_questions(f"{folder}/pair", (encode("INCRBY", f"domain_tenant_tenant-{i:06}_1796000000", 1) +
                                               encode("EXPIRE", f"domain_tenant_tenant-{i:06}_1796000000", 1)
                                               for i in range(KEYS)))
            write_questions(f"{folder}/ping", [encode("PING")])
            for path in "local", "shared", "two":
                write_questions(f"{folder}/http-{path}", http("/" + path))
            subprocess.run(["taskset", "-acp", "0", str(store.pid)], check=True, capture_output=True)
            script_rows(bench, store)
            with serve(store.url) as server:
                wait_for(lambda: server.ask("GET", "/readyz").text.startswith("ready"))
                subprocess.run(["taskset", "-acp", "0", str(server.process.pid)], check=True, capture_output=True)
                round_trips(store, server)
                serve_rows(bench, store, server)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
