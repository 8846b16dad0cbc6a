#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suite on real stores: every file whose limits can be shared, with limits of `scope: fleet`, through the HTTP
doors of servers of the test build, one for each replica of the file, counted by Redis and by Valkey. Time is injected into the
store's script as well.

LABELS: slow e2e

What a store counts in is its tick, so the files are written anew on it (test/oracle/store_grid.py says how, and what is left
out). What stands here is what must not become more.
"""

import contextlib
import datetime
import os
import re
import subprocess
import sys
import tempfile
import threading

SOURCE = os.environ.get("WEIR_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("WEIR_BUILD", os.path.join(SOURCE, "build"))
sys.path.insert(0, os.path.join(SOURCE, "test", "support"))

from stores import Store  # noqa: E402

HOOKED = os.environ.get("WEIR_HOOKED", os.path.join(BUILD, "weir-hooked"))
INCARNATION = "weir:1:{0}:incarnation"
LEAST_FILES, LEAST_STEPS = 170, 6200
USUAL = ("a store has no queue", "what a replica has in hand it decides by itself")
NO_SCRIPT = ["08-extremes"]  # numbers for which a double is not exact


def start_of(path):
    """Unix time in us at which a file begins."""
    with open(path, encoding="utf-8") as file:
        found = re.search(r"^start: (\S+)$", file.read(), re.M)
    begins = datetime.datetime.fromisoformat(found.group(1).replace("Z", "+00:00")) if found else None
    return int(begins.timestamp()) * 10**6 if begins else 0


class Suite(threading.Thread):
    """All files on one store."""

    def __init__(self, name, store, files):
        super().__init__()
        self.name, self.store, self.files, self.steps, self.failures = name, store, files, 0, []

    def run(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
        env["WEIR_STORE"] = self.store.url
        for path in self.files:
            # Empty, and so since the file's beginning, as a limiter in memory is (when-state-lost).
            self.store.command("FLUSHALL")
            self.store.command("SET", INCARNATION, f"{1:016x} {start_of(path)}")
            done = subprocess.run([HOOKED, "test", "--door", "http", path], capture_output=True, text=True, env=env)
            found = re.search(r"^1 file, (\d+) steps, \d+ decisions: all as expected$", done.stdout, re.M)
            if done.returncode != 0 or found is None:
                self.failures.append(f"{self.name}: status {done.returncode}\n{done.stdout}{done.stderr}")
            else:
                self.steps += int(found.group(1))
            left = [name for name in self.store.keys_without_expiry() if name != INCARNATION.encode()]
            if left:
                self.failures.append(f"{self.name}: {path}: keys without expiry: {left}")


def main():
    programs = sys.argv[1:] or ["redis-server", "valkey-server"]
    with tempfile.TemporaryDirectory() as folder:
        written = subprocess.run([sys.executable, os.path.join(SOURCE, "test", "oracle", "store_grid.py"), folder], check=True,
                                 capture_output=True, text=True).stdout
        print(written.splitlines()[-1])
        odd = [line for line in written.splitlines() if line.startswith("left out") and not line.endswith(USUAL)]
        if [line.split(": ")[1] for line in odd] != NO_SCRIPT:
            sys.exit("\n".join(["other files than expected were left out:", *odd]))
        files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        with contextlib.ExitStack() as stores:
            suites = [Suite(program, stores.enter_context(Store(program)), files) for program in programs]
            for suite in suites:
                suite.start()
            for suite in suites:
                suite.join()
    for suite in suites:
        print("\n".join(suite.failures), end="\n" if suite.failures else "")
        print(f"{suite.name}: {len(suite.files)} files, {suite.steps} steps, {len(suite.failures)} failures")
    if any(suite.failures or suite.steps < LEAST_STEPS or len(suite.files) < LEAST_FILES for suite in suites):
        sys.exit(1)


if __name__ == "__main__":
    main()
