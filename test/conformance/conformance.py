# SPDX-License-Identifier: Apache-2.0
"""Plays every conformance file and every example's test file with the runner of `weir test`.

The same files go through each door: a door that comes later is one more script of three lines.
"""

import glob
import os
import re
import subprocess
import sys

BUILD = os.environ.get("WEIR_BUILD", "build")
SOURCE = os.environ.get("WEIR_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# What the suite must at least hold, so that losing files is noticed.
LEAST_STEPS = {True: 9700, False: 7000}


def is_of_fleet(path):
    """Whether it needs a store, or what stands in for one: a contract with shared limits, or several replicas."""
    with open(path, encoding="utf-8") as file:
        return re.search(r"scope: fleet|replica: |store: ", file.read()) is not None


def play(program, *options, has_store):
    """Exits unless everything came as expected. Gives what the player says of itself behind that."""
    files = sorted(glob.glob(os.path.join(SOURCE, "test", "conformance", "*.test.yaml"))
                   + glob.glob(os.path.join(SOURCE, "examples", "**", "*.test.yaml"), recursive=True))
    files = [file for file in files if has_store or not is_of_fleet(file)]
    path = os.environ.get("WEIR_PROGRAM" if program == "weir" else "WEIR_HOOKED", os.path.join(BUILD, program))
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    done = subprocess.run([path, "test", *options, *files], capture_output=True, text=True, env=env)
    lines = done.stdout.splitlines()
    print("\n".join(line for line in lines if not line.startswith("ok ")))
    print(done.stderr, end="")
    ends = [i for i, line in enumerate(lines) if re.match(r"\d+ files, ", line)]
    last = lines[ends[-1]] if ends else ""
    summary = re.fullmatch(r"(\d+) files, (\d+) steps, \d+ decisions: all as expected", last)
    if done.returncode != 0 or summary is None:
        sys.exit(f"status {done.returncode}")
    if int(summary.group(1)) != len(files) or int(summary.group(2)) < LEAST_STEPS[has_store]:
        sys.exit(f"too little was played: {last}")
    return lines[ends[-1] + 1:]
