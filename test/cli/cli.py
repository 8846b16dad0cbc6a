# SPDX-License-Identifier: Apache-2.0
"""Runs the program and compares what it prints: the base of the tests in this folder."""

import os
import subprocess
import tempfile
import unittest

BUILD = os.environ.get("WEIR_BUILD", "build")
SOURCE = os.environ.get("WEIR_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
WEIR = os.path.abspath(os.environ.get("WEIR_PROGRAM", os.path.join(BUILD, "weir")))
HOOKED = os.path.abspath(os.environ.get("WEIR_HOOKED", os.path.join(BUILD, "weir-hooked")))

YES, NO, WRONG, UNDECIDED = 0, 1, 2, 3

CONTRACT = """\
weir: 1
limits:
  - name: tenant-requests
    key: [tenant]
    rate: 5/s
    burst: 20
"""


def clean_environment(more=None):
    """What a test runs in: nobody's settings but its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_") and name != "NO_COLOR"}
    env.update(more or {})
    return env


class CliTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_weir(self, *arguments, program=WEIR, stdin="", env=None, cwd=None):
        """Runs it in a folder of its own; gives status, standard output, standard error."""
        done = subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, timeout=120,
                              env=clean_environment(env), cwd=cwd or self.folder)
        return done.returncode, done.stdout, done.stderr

    def expect(self, arguments, status, out=None, err=None, **how):
        came = self.run_weir(*arguments, **how)
        what = " ".join(arguments)
        self.assertEqual(came[0], status, f"weir {what}: status; standard error: {came[2]}")
        if out is not None:
            self.assertEqual(came[1], out, f"weir {what}: standard output")
        if err is not None:
            self.assertEqual(came[2], err, f"weir {what}: standard error")
        return came


class Server:
    """A server on a free loopback port, stopped by its process id."""

    def __init__(self, contract, folder, *arguments, program=WEIR, env=None):
        self.admin = os.path.join(folder, "admin.sock")
        self.process = subprocess.Popen(
            [program, "serve", contract, "--http", "127.0.0.1:0", "--admin", "unix:" + self.admin, "--workers", "1",
             *arguments], stderr=subprocess.PIPE, text=True, env=clean_environment(env))
        self.said = []
        self.url = None
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("listening http 127.0.0.1:"):
                self.url = "http://" + line.split()[2]
                return
        raise AssertionError("the server did not listen: " + "".join(self.said))

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.process.terminate()
        _, rest = self.process.communicate(timeout=60)
        self.said.append(rest)
        assert self.process.returncode == 0, f"the server ended with {self.process.returncode}: {rest}"
