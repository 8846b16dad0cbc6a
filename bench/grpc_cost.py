# SPDX-License-Identifier: Apache-2.0
"""bench/grpc_cost.py - server CPU of one gRPC call: ShouldRateLimit beside a constant reply of the same server (health's Check), under the
same h2load: 8 connections with 32 streams each, as two proxies with four workers have.

The server has core 0 to itself, h2load core 1. CPU is the run time of its threads, divided by the calls. The call is that of a
proxy that sends an address and a tenant, in one descriptor and in two. Prints JSON lines as bench/measure.c does.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from http_cost import await_port, cpu_seconds, free_port

ROUNDS = 7
CALLS = 50_000

CONTRACT = """\
weir: 1
limits:
  - name: per-tenant
    when: { domain: bench, descriptor: tenant }
    key: [tenant]
    rate: 1000000000/s
    burst: 1000000000
  - name: per-address
    when: { domain: bench, descriptor: remote_address }
    key: [remote-address]
    rate: 1000000000/s
    burst: 1000000000
"""

SERVICE = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def piece(field, value):
    value = value if isinstance(value, bytes) else value.encode()
    assert len(value) < 128
    return bytes([field << 3 | 2, len(value)]) + value


def framed(message):
    return b"\0" + len(message).to_bytes(4, "big") + message


def descriptor(key, value):
    return piece(2, piece(1, piece(1, key) + piece(2, value)))


BODIES = {
    "check": framed(b""),
    "one": framed(piece(1, "bench") + descriptor("tenant", "tenant-1234")),
    "two": framed(piece(1, "bench") + descriptor("tenant", "tenant-1234") + descriptor("remote_address", "192.0.2.7")),
}


def one_sample(weir, path, body):
    """(us of server CPU per call, calls per second) under h2load."""
    process, port = weir
    before = cpu_seconds(process.pid)
    done = subprocess.run(["taskset", "-c", "1", "h2load", f"-n{CALLS}", "-c8", "-m32", "-t1", "-d", body,
                           "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://127.0.0.1:{port}/{path}"],
                          capture_output=True, text=True, timeout=120, check=True)
    used = cpu_seconds(process.pid) - before
    if f"{CALLS} succeeded, 0 failed" not in done.stdout:
        raise SystemExit("grpc_cost: not all calls were answered:\n" + done.stdout)
    return used / CALLS * 1e6, float(re.search(r"([\d.]+) req/s", done.stdout).group(1))


def measure(name, body, bar, weir, folder):
    ours, floor, rates = [], [], []
    calls = ((SERVICE, folder + "/" + body), ("grpc.health.v1.Health/Check", folder + "/check"))
    for path, file in calls:
        one_sample(weir, path, file)
    for _ in range(ROUNDS):
        (cost, rate), (constant, _) = (one_sample(weir, path, file) for path, file in calls)
        ours.append(round(cost, 3))
        floor.append(round(constant, 3))
        rates.append(rate)
    print(json.dumps({"row": f"gRPC: server CPU of ShouldRateLimit, {name} / a constant reply (health Check)", "unit": "us", "bar": bar,
                      "least": False, "ours": ours, "floor": floor}), flush=True)
    print(f"grpc: {name}: {sorted(rates)[len(rates) // 2]:.0f} calls per second from weir", file=sys.stderr)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    for program in "h2load", "taskset":
        if shutil.which(program) is None:
            raise SystemExit(f"grpc_cost: {program} is missing: tools/deps bench")
    folder = tempfile.mkdtemp(prefix="weir-bench-")
    server = None
    try:
        with open(folder + "/weir.yaml", "w", encoding="utf-8") as file:
            file.write(CONTRACT)
        for name, body in BODIES.items():
            with open(folder + "/" + name, "wb") as file:
                file.write(body)
        port = free_port()
        server = subprocess.Popen(["taskset", "-c", "0", f"{build}/weir", "serve", folder + "/weir.yaml", "--grpc", f"127.0.0.1:{port}",
                                   "--admin", f"unix:{folder}/admin.sock", "--workers", "1"], stderr=subprocess.DEVNULL)
        await_port(port, server)
        measure("one descriptor", "one", 1.25, (server, port), folder)
        measure("two descriptors", "two", 0, (server, port), folder)
    finally:
        if server is not None:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
