# SPDX-License-Identifier: Apache-2.0
"""bench/http_cost.py - server CPU of one HTTP request: weir's doors beside nginx `return 200`, under the same wrk.

Each server has core 0 to itself while the other idles, wrk core 1. CPU is utime + stime of /proc/PID/stat, divided by
the completed requests that wrk counts; every request of a pair is the same bytes but for the path. Keys are 10,000
tenants. Prints JSON lines as bench/measure.c does.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
SECONDS = 2
CONNECTIONS = 50
TICK = os.sysconf("SC_CLK_TCK")

CONTRACT = """\
weir: 1
identity:
  proxies: [127.0.0.0/8]
  tenant: { from: "header:x-tenant", only: authenticated }
limits:
  - name: tenant-requests
    when: { path: "/v1/**" }
    key: [tenant]
    rate: 1000000/s
    burst: 1000000
memory: { keys: 100000 }
"""

NGINX = """\
daemon off;
master_process off;
worker_processes 1;
pid %(folder)s/nginx.pid;
error_log %(folder)s/error.log crit;
events { worker_connections 1024; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    server {
        listen 127.0.0.1:%(port)d;
        location / { return 200 "ok"; }
    }
}
"""

# What a proxy asks about its client's request.
AUTH = """\
local path = "/v1/auth"
request = function()
  return wrk.format("GET", path, { ["X-Tenant"] = "tenant-" .. math.random(10000),
    ["X-Forwarded-Method"] = "GET", ["X-Forwarded-Host"] = "app.example", ["X-Forwarded-Uri"] = "/v1/items?page=2",
    ["X-Forwarded-For"] = "192.0.2.7" })
end
"""

CHECK = """\
local path = "/v1/check"
request = function()
  return wrk.format("POST", path, { ["Content-Type"] = "application/json" },
    '{"attributes": {"path": "/v1/items", "tenant": "tenant-' .. math.random(10000) .. '"}, "cost": 1}')
end
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def await_port(port, process):
    for _ in range(200):
        if process.poll() is not None:
            raise SystemExit(f"http_cost: {process.args} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"http_cost: nothing listens on {port}")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def one_sample(pid, port, script):
    """(us of server CPU per request, requests per second) under wrk for SECONDS."""
    before = cpu_seconds(pid)
    done = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", script,
                           f"http://127.0.0.1:{port}/"], capture_output=True, text=True, timeout=60, check=True)
    used = cpu_seconds(pid) - before
    requests = int(re.search(r"(\d+) requests in", done.stdout).group(1))
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise SystemExit("http_cost: not all answers were 200:\n" + done.stdout)
    return used / requests * 1e6, requests / SECONDS


def measure(name, bar, script, weir, nginx):
    ours, floor, rates = [], [], []
    one_sample(weir[0].pid, weir[1], script)
    one_sample(nginx[0].pid, nginx[1], script)
    for _ in range(ROUNDS):
        cost, rate = one_sample(weir[0].pid, weir[1], script)
        ours.append(round(cost, 3))
        rates.append(rate)
        floor.append(round(one_sample(nginx[0].pid, nginx[1], script)[0], 3))
    print(json.dumps({"row": name, "unit": "us", "bar": bar, "least": False, "ours": ours, "floor": floor}), flush=True)
    print(f"http: {name}: {sorted(rates)[len(rates) // 2]:.0f} requests per second from weir", file=sys.stderr)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    for program in "wrk", "nginx", "taskset":
        if shutil.which(program) is None:
            raise SystemExit(f"http_cost: {program} is missing: tools/deps bench")
    folder = tempfile.mkdtemp(prefix="weir-bench-")
    servers = []
    try:
        for name, text in ("weir.yaml", CONTRACT), ("auth.lua", AUTH), ("check.lua", CHECK):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        port = free_port()
        with open(os.path.join(folder, "nginx.conf"), "w", encoding="utf-8") as file:
            file.write(NGINX % {"folder": folder, "port": port})
        nginx = subprocess.Popen(["taskset", "-c", "0", "nginx", "-p", folder, "-c", folder + "/nginx.conf"])
        servers.append(nginx)
        await_port(port, nginx)

        own = free_port()
        weir = subprocess.Popen(["taskset", "-c", "0", f"{build}/weir", "serve", folder + "/weir.yaml", "--http",
                                 f"127.0.0.1:{own}", "--admin", f"unix:{folder}/admin.sock", "--workers", "1"],
                                stderr=subprocess.DEVNULL)
        servers.append(weir)
        await_port(own, weir)

        measure("HTTP: server CPU of /v1/auth / nginx `return 200`", 1.0, folder + "/auth.lua", (weir, own),
                (nginx, port))
        measure("HTTP: server CPU of POST /v1/check / nginx `return 200`", 1.15, folder + "/check.lua", (weir, own),
                (nginx, port))
    finally:
        for server in servers:
            server.send_signal(signal.SIGTERM)
        for server in servers:
            server.wait(timeout=30)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
