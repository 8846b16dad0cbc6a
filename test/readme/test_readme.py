# SPDX-License-Identifier: Apache-2.0
"""What README.md says is so: its commands are run and their answers compared, its C lines are lines of examples.

A ```console block has commands after "$ " and what they print; "..." stands for any text, alone on a line for any
lines. The server of the examples is started by tools/run, as `make run` does, on a free port, and 127.0.0.1:8080 in
commands becomes its address. What `make run` itself tells to paste is run too.

LABELS: e2e
"""

import glob
import os
import re
import shlex
import signal
import subprocess
import threading
import unittest

BUILD = os.environ["WEIR_BUILD"]
SOURCE = os.environ["WEIR_SOURCE"]
DOCUMENTED = "127.0.0.1:8080"


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
        return file.read()


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)


def commands(block):
    """(command, expected text) of a console block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in found]


def pattern(expected):
    """A regular expression for expected text in which ... is anything."""
    parts = []
    for line in expected.split("\n"):
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(part) for part in line.split("...")) + r"\n")
    return "".join(parts)


class Server:
    """tools/run in a process group of its own; reads what it prints until it has told what to type."""

    def __init__(self):
        self.process = subprocess.Popen(["tools/run"], cwd=SOURCE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "BUILD": BUILD, "PORT": "0"})
        self.log = []
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "/v1/auth" in line:
                break
        match = re.search(r"on http://(\S+)", self.said)
        if match is None:
            self.stop()
            raise AssertionError("tools/run served nothing:\n" + self.said + "".join(self.log))
        self.address = match.group(1)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return status


def run(command, address=DOCUMENTED):
    done = subprocess.run(["bash", "-c", command.replace(DOCUMENTED, address).replace("build/", BUILD + "/")],
                          cwd=SOURCE, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout.replace("\r", "") + done.stderr


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = read("README.md")

    def test_first_screen_has_the_two_commands(self):
        screen = "\n".join(self.text.splitlines()[:25])
        self.assertRegex(screen, r"(?m)^    make run ")
        self.assertRegex(screen, r"(?m)^    make test ")
        for word in "run", "test":
            self.assertRegex(read("Makefile"), rf"(?m)^{word}:")

    def patiently(self, checks):
        """Run checks(server) with a new server; again when this machine stood still long enough for a token to come."""
        for last in False, False, True:
            server = Server()
            try:
                faults = [(what, answer, expected) for what, answer, expected in checks(server)
                          if not re.search(expected, answer)]
            finally:
                self.assertEqual(server.stop(), 0, "".join(server.log))
            if not faults:
                return
            if last:
                self.fail("\n".join(f"{what}\nanswered\n{answer}\nexpected\n{expected}" for what, answer, expected
                                    in faults))

    def test_commands_answer_what_is_shown(self):
        shown = [pair for block in blocks(self.text, "console") for pair in commands(block)]
        self.assertGreaterEqual(len(shown), 5)
        self.patiently(lambda server: [(command, run(command, server.address), r"\A" + pattern(expected) + r"\Z")
                                       for command, expected in shown])

    def test_make_run_tells_lines_that_answer_as_it_says(self):
        def checks(server):
            self.assertIn("examples/weir.yaml", server.said)
            told = re.findall(r"^# \d\. (.*)\n(curl .*)$", server.said, re.M)
            self.assertEqual(len(told), 3, server.said)
            for says, command in told:
                answer = run(command)
                status = re.search(r"status (\d{3})", says).group(1)
                field = re.search(r', (".*")?(".*":\d+)?$', says).group().lstrip(", ")
                field = field.strip('"') if ": " in field else field
                yield command, answer, rf"(?m)^({status}|HTTP/1.1 {status} .*)$"
                yield command, answer, re.escape(field)

        self.patiently(checks)

    def test_make_run_and_readme_tell_the_same_lines(self):
        told = re.findall(r"^curl .*$", read("tools/run"), re.M)
        shown = [command for block in blocks(self.text, "console") for command, _ in commands(block)
                 if command.startswith("curl")]
        self.assertEqual([line.replace("$url", "http://" + DOCUMENTED) for line in told], shown)

    def test_c_lines_are_lines_of_the_examples(self):
        examples = {name: [line.strip() for line in read(name).splitlines()]
                    for name in glob.glob("examples/*.c", root_dir=SOURCE)}
        found = blocks(self.text, "c")
        self.assertGreaterEqual(len(found), 4)
        for block in found:
            wanted = [line.strip() for line in block.splitlines() if line.strip() not in ("", "...")]

            def is_excerpt(lines):
                rest = iter(lines)
                return all(line in rest for line in wanted)

            self.assertTrue(any(is_excerpt(lines) for lines in examples.values()),
                            "not in order in any example:\n" + "\n".join(wanted))

    def test_contract_shown_loads(self):
        for block in blocks(self.text, "yaml"):
            done = subprocess.run([os.path.join(BUILD, "weir"), "explain", "-"], input=block, capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_commands_are_plain_shell(self):
        for block in blocks(self.text, "console"):
            for command, _ in commands(block):
                self.assertTrue(shlex.split(command))


if __name__ == "__main__":
    unittest.main()
