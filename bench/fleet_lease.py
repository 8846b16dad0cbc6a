# SPDX-License-Identifier: Apache-2.0
"""bench/fleet_lease.py - what leases cost the store and bring the callers.

    a rate       eight replicas over a thousand keys at 100,000/s, each key as often at each (bench_lease.c): commands and the store's
                 CPU for a decision, beside strict decisions of the same replicas as fast as they go. Where this machine does not
                 carry that (fewer than 99 of 100 pass), a half, a fourth ... of keys and rate: each key's demand stays what it is
    one server   `weir serve` with one worker: CPU of a request and requests a second under a leased limit beside a limit of the
                 process, in turn; a thousand keys, sixteen callers
    one key      how much of one budget 2 to 16 replicas admit when nine of ten requests come to one of them, and what 5/s on one key
                 costs, in virtual time (bench_share.c)

The store (redis-server, one thread, nothing kept) has core 0 and the replicas core 1; before a server, which has core 0 to itself as
it has under the limit of the process, the store is on core 1 with who asks. Prints JSON lines as bench/measure.c
does; `bench/fleet_lease.py BUILD [FOLDER] [ROUNDS]` leaves share.csv in FOLDER, for bench/plot.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "test", "support"), os.path.join(HERE, "..", "test", "doors")]
from door import Server, wait_for  # noqa: E402
from fleet_cost import KEYS, Bench, cpu_us, http, row, write_questions  # noqa: E402
from stores import Store  # noqa: E402

ROUNDS = 7
SCALES = 1, 2, 4, 8, 16
RATE = 100000
ASKED = 30000   # requests of one sample at the door
WARM_UP = 12000  # before it, of the same limit: hands are given back when they are idle

CONTRACT = """\
weir: 1
store: { deadline: 1s }
limits:
  - name: local
    when: { path: /local }
    key: [tenant]
    rate: 1000/s
    burst: 2000
  - name: leased
    when: { path: /leased }
    key: [tenant]
    rate: 1000/s
    burst: 2000
    scope: fleet
    lease: { most: 1000, chunk: 100, for: 2s }
    when-store-fails: closed
"""


def intervals(build, store, kind, rate, keys, rounds, milliseconds):
    """Sums of each interval, with the store's CPU beside."""
    command = ["taskset", "-c", "1", os.path.join(build, "bench", "bench_lease"), str(store.port), kind, str(rate), str(keys),
               str(rounds), str(milliseconds)]
    before, found = None, []
    with store.client() as client, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as load:
        for line in load.stdout:
            told = json.loads(line)
            told["store_us"] = cpu_us(client)
            if before is not None:
                found.append({name: told[name] - before[name] for name in told})
            before = told
        said = load.stderr.read()
    if load.returncode != 0 or len(found) != rounds:
        raise SystemExit(f"fleet_lease: {' '.join(command)} ended with {load.returncode}: {said}")
    return found


def rate_rows(build, store, rounds):
    for scale in SCALES:
        store.command("FLUSHALL")
        leased = intervals(build, store, "leased", RATE // scale, KEYS // scale, rounds, 1500)
        passed, asked = (sum(told[name] for told in leased) for name in ("passed", "asked"))
        if passed >= 0.99 * asked:
            break
        print(f"fleet_lease: {RATE // scale}/s over {KEYS // scale} keys is too much here: {passed} of {asked} pass",
              file=sys.stderr)
    else:
        print("fleet_lease: this machine carries none of the rates now: to be repeated", file=sys.stderr)
        return
    store.command("FLUSHALL")
    strict = intervals(build, store, "strict", 0, KEYS // scale, rounds, 1000)
    what = f"{KEYS // scale:,} keys, 8 replicas"
    ones = [1] * rounds
    row(f"fleet leased: decisions a second, {what}", "k/s", 0, [told["passed"] / told["ns"] * 1e6 for told in leased], ones)
    row(f"fleet leased: store commands a decision, {what}", "", 0.02, [told["commands"] / told["asked"] for told in leased], ones)
    row(f"fleet leased: messages a decision, {what}", "", 0, [told["messages"] / told["asked"] for told in leased], ones)
    row("fleet leased: Redis CPU of a decision / of a strict one", "us", 0,
        [told["store_us"] / told["passed"] for told in leased], [told["store_us"] / told["passed"] for told in strict])


def server_cpu_us(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def serve_rows(bench, server):
    kinds = "leased", "local"
    cost, rate = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}
    for i in range(bench.rounds):
        for kind in kinds if i % 2 == 0 else kinds[::-1]:
            bench.replay(server.port, "http", kind, 1, 16, 1, WARM_UP)
            before = server_cpu_us(server.process.pid)
            told = bench.replay(server.port, "http", kind, 1, 16, 1, ASKED)
            cost[kind].append((server_cpu_us(server.process.pid) - before) / told["count"])
            rate[kind].append(told["count"] / told["ns"] * 1e6)
    row("fleet leased: server CPU of a request under a leased limit / under one of the process", "us", 1.1, cost["leased"],
        cost["local"])
    row("fleet leased: requests a second under a leased limit / under one of the process", "k/s", 0.9, rate["leased"],
        rate["local"], least=True)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    kept = sys.argv[2] if len(sys.argv) > 2 else None
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else ROUNDS
    for program in "redis-server", "taskset":
        if shutil.which(program) is None:
            raise SystemExit(f"fleet_lease: {program} is missing: tools/deps bench")
    import door
    door.BUILD = build
    folder = tempfile.mkdtemp(prefix="weir-bench-")
    try:
        with Store() as store:
            subprocess.run(["taskset", "-acp", "0", str(store.pid)], check=True, capture_output=True)
            rate_rows(build, store, rounds)
            for path in "local", "leased":
                write_questions(f"{folder}/{path}", http("/" + path))
            with Server(CONTRACT, env={"WEIR_STORE": store.url}, args=["--workers", "1"]) as server:
                subprocess.run(["taskset", "-acp", "1", str(store.pid)], check=True, capture_output=True)
                wait_for(lambda: server.ask("GET", "/readyz").text.startswith("ready"))
                subprocess.run(["taskset", "-acp", "0", str(server.process.pid)], check=True, capture_output=True)
                serve_rows(Bench(build, folder, rounds), server)
            subprocess.run([os.path.join(build, "bench", "bench_share"), str(store.port)] + ([kept] if kept else []),
                           check=True, timeout=900)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
