# SPDX-License-Identifier: Apache-2.0
"""No system call while deciding, by strace; no libatomic, by the libraries' symbol tables."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

BUILD = pathlib.Path(os.environ["WEIR_BUILD"])


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


class Deciding(unittest.TestCase):
    def test_makes_no_system_call(self):
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        if run("strace", "-o", "/dev/null", "true").returncode != 0:
            self.skipTest("ptrace is not permitted here")
        quiet = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "report_bugs=0"}
        program = BUILD / "test" / "test_quiet_decisions"
        traced = run("strace", "-f", "-o", "/dev/stdout", str(program), "--decide", env=quiet)
        self.assertEqual(traced.returncode, 0, traced.stderr)
        calls = re.findall(r"^\d+ +(\w+)\(", traced.stdout, re.MULTILINE)
        marks = [i for i, call in enumerate(calls) if call == "getppid"]
        self.assertEqual(len(marks), 2, traced.stdout[-2000:])
        between = calls[marks[0] + 1 : marks[1]]
        self.assertEqual(between, [], "system calls while deciding")


class Libraries(unittest.TestCase):
    # What gcc and clang call when they do not make a 16-byte exchange in line.
    OUT_OF_LINE = re.compile(r"\b(__atomic_\w+|__sync_\w+_16|atomic_\w+_explicit)\b")

    def test_call_no_libatomic(self):
        libraries = sorted(BUILD.glob("libweir*.a")) + sorted(BUILD.glob("libweir*.so"))
        self.assertTrue(libraries, f"no libraries in {BUILD}")
        for library in libraries:
            table = run("nm", "-u", str(library))
            self.assertEqual(table.returncode, 0, table.stderr)
            self.assertEqual(self.OUT_OF_LINE.findall(table.stdout), [], library)

    def test_do_not_load_it(self):
        for library in sorted(BUILD.glob("libweir*.so")):
            dynamic = run("readelf", "-d", str(library)).stdout
            self.assertIn("NEEDED", dynamic)
            self.assertNotIn("libatomic", dynamic, library)

    def test_the_exchange_is_in_line(self):
        if os.uname().machine != "x86_64":
            self.skipTest("another instruction set")
        library = next(iter(sorted(BUILD.glob("libweir.a"))))
        code = run("objdump", "-d", str(library)).stdout
        if "__tsan_" in run("nm", "-u", str(library)).stdout:
            self.skipTest("the thread sanitizer makes the exchange")
        self.assertIn("lock cmpxchg16b", code)


if __name__ == "__main__":
    unittest.main()
