# SPDX-License-Identifier: Apache-2.0
"""bench/http_cost.py - server CPU of one HTTP request: weir's doors beside nginx `return 200`, under the same wrk; and, for comparison,
beside what nginx's limit_req and haproxy's stick table cost in the same run, which know one key and nothing of the rest.

Each server has core 0 to itself while the other idles, wrk core 1. CPU is the run time of the server's threads, divided by the
completed requests that wrk counts; every request of a pair is the same bytes but for the path. Keys are 10,000 tenants. Prints JSON lines as bench/measure.c does.
"""

import glob
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
    limit_req_zone $http_x_tenant zone=tenants:10m rate=1000000r/s;
    server {
        listen 127.0.0.1:%(limited)d;
        location / {
            limit_req zone=tenants burst=1000000 nodelay;
            try_files /nothing @ok; # `return` alone answers before the limit is asked
        }
        location @ok { return 200 "ok"; }
    }
}
"""

HAPROXY = """\
global
    nbthread 1
    maxconn 4096
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 5s
    option http-keep-alive
frontend limited
    bind 127.0.0.1:%(stick)d
    stick-table type string len 64 size 100k expire 60s store http_req_rate(10s)
    http-request track-sc0 req.hdr(x-tenant)
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 10000000 }
    http-request return status 200 content-type text/plain string ok
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
    """Seconds that the threads of a process ran, in ns where /proc/PID/stat has ticks."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


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


def measure(name, script, weir, others):
    """`others`: of each a name, its bar (0: none) and the server."""
    ours, rates, floors = [], [], [[] for _ in others]
    for server in [weir] + [other[2] for other in others]:
        one_sample(server[0].pid, server[1], script)
    for _ in range(ROUNDS):
        cost, rate = one_sample(weir[0].pid, weir[1], script)
        ours.append(round(cost, 3))
        rates.append(rate)
        for floor, (_, _, server) in zip(floors, others):
            floor.append(round(one_sample(server[0].pid, server[1], script)[0], 3))
    for floor, (other, bar, _) in zip(floors, others):
        print(json.dumps({"row": f"HTTP: server CPU of {name} / {other}", "unit": "us", "bar": bar, "least": False, "ours": ours,
                          "floor": floor}), flush=True)
    print(f"http: {name}: {sorted(rates)[len(rates) // 2]:.0f} requests per second from weir", file=sys.stderr)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    for program in "wrk", "nginx", "haproxy", "taskset":
        if shutil.which(program) is None:
            raise SystemExit(f"http_cost: {program} is missing: tools/deps bench")
    folder = tempfile.mkdtemp(prefix="weir-bench-")
    servers = []
    try:
        for name, text in ("weir.yaml", CONTRACT), ("auth.lua", AUTH), ("check.lua", CHECK):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        port, limited, stick = free_port(), free_port(), free_port()
        for name, text in ("nginx.conf", NGINX), ("haproxy.cfg", HAPROXY):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text % {"folder": folder, "port": port, "limited": limited, "stick": stick})
        nginx = subprocess.Popen(["taskset", "-c", "0", "nginx", "-p", folder, "-c", folder + "/nginx.conf"])
        servers.append(nginx)
        await_port(port, nginx)

        haproxy = subprocess.Popen(["taskset", "-c", "0", "haproxy", "-q", "-f", folder + "/haproxy.cfg"])
        servers.append(haproxy)
        await_port(stick, haproxy)

        own = free_port()
        weir = subprocess.Popen(["taskset", "-c", "0", f"{build}/weir", "serve", folder + "/weir.yaml", "--http",
                                 f"127.0.0.1:{own}", "--admin", f"unix:{folder}/admin.sock", "--workers", "1"],
                                stderr=subprocess.DEVNULL)
        servers.append(weir)
        await_port(own, weir)

        measure("/v1/auth", folder + "/auth.lua", (weir, own),
                [("nginx `return 200`", 1.0, (nginx, port)), ("nginx limit_req", 0, (nginx, limited)),
                 ("haproxy stick table", 0, (haproxy, stick))])
        measure("POST /v1/check", folder + "/check.lua", (weir, own), [("nginx `return 200`", 1.15, (nginx, port))])
    finally:
        for server in servers:
            server.send_signal(signal.SIGTERM)
        for server in servers:
            server.wait(timeout=30)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
