#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Help is an answer, a mistake is one exact line with a cure; the manual and -h say the same words."""

import os
import re
import unittest

from cli import SOURCE, WRONG, YES, CliTest

COMMANDS = ("serve", "check", "explain", "test", "lint", "import", "fleet", "version", "help")

# why, arguments, the one line on standard error
MISTAKES = (
    ("no command", [], "weir: no command; see 'weir help'"),
    ("a slip of the pen", ["sevre"], "weir: sevre: there is no such command; did you mean 'serve'?"),
    ("no such command", ["frobnicate"], "weir: frobnicate: there is no such command; see 'weir help'"),
    ("a command of a later version", ["replay", "access.log"],
     "weir: replay: this version does not have it; see 'weir help' for what it has"),
    ("help of no command", ["help", "sevre"], "weir: sevre: there is no such command; did you mean 'serve'?"),
    ("an option that is nearly one", ["check", "--cots", "3", "a=b"],
     "weir check: --cots: there is no such option; did you mean --cost?"),
    ("an option that is none", ["check", "--verbose"],
     "weir check: --verbose: there is no such option; see 'weir check -h'"),
    ("an option of another command", ["explain", "--peek"],
     "weir explain: --peek: there is no such option; see 'weir explain -h'"),
    ("a short option", ["check", "-n", "3"], "weir check: -n: there is no such option; see 'weir check -h'"),
    ("a value that is missing", ["check", "a=b", "--cost"], "weir check: --cost needs a value: --cost N"),
    ("an empty number", ["check", "--cost="],
     "weir check: --cost: '' is not an integer from 0 to 9223372036854775807"),
    ("a negative cost", ["check", "--cost", "-1"],
     "weir check: --cost: '-1' is not an integer from 0 to 9223372036854775807"),
    ("a cost in scientific notation", ["check", "--cost", "1e3"],
     "weir check: --cost: '1e3' is not an integer from 0 to 9223372036854775807"),
    ("a cost of 2^63", ["check", "--cost", "9223372036854775808"],
     "weir check: --cost: '9223372036854775808' is not an integer from 0 to 9223372036854775807"),
    ("no times at all", ["check", "--times", "0"],
     "weir check: --times: '0' is not an integer from 1 to 1000000000"),
    ("a flag with a value", ["check", "--peek=yes"],
     "weir check: --peek takes no value; write it without '=yes'"),
    ("an empty text", ["check", "--server", ""], "weir check: --server: the value is empty; give URL"),
    ("a wait without a unit", ["check", "--wait", "5", "a=b"],
     "weir check: --wait: '5' is not a duration from 0s to 1d, such as 200ms, 5s or 1m30s"),
    ("a wait of more than a day", ["check", "--wait", "1d1ns", "a=b"],
     "weir check: --wait: '1d1ns' is not a duration from 0s to 1d, such as 200ms, 5s or 1m30s"),
    ("a wait as answers print it", ["check", "--wait", "1.5s", "a=b"],
     "weir check: --wait: '1.5s' has a fraction, and durations have none: write 1s500ms"),
    ("less than a second", ["check", "--wait", "0.018s", "a=b"],
     "weir check: --wait: '0.018s' has a fraction, and durations have none: write 18ms"),
    ("of a day", ["check", "--wait", "0.06d", "a=b"],
     "weir check: --wait: '0.06d' has a fraction, and durations have none: write 1h26m24s"),
    ("a fraction beyond the bound", ["check", "--wait", "1.5d", "a=b"],
     "weir check: --wait: '1.5d' is not a duration from 0s to 1d, such as 200ms, 5s or 1m30s"),
    ("less than a nanosecond", ["check", "--wait", "0.5ns", "a=b"],
     "weir check: --wait: '0.5ns' is not a duration from 0s to 1d, such as 200ms, 5s or 1m30s"),
    ("a fraction of nothing", ["check", "--wait", "1.5", "a=b"],
     "weir check: --wait: '1.5' is not a duration from 0s to 1d, such as 200ms, 5s or 1m30s"),
    ("two points", ["check", "--wait", "1.5.5s", "a=b"],
     "weir check: --wait: '1.5.5s' is not a duration from 0s to 1d, such as 200ms, 5s or 1m30s"),
    ("a wait that is missing", ["check", "a=b", "--wait"], "weir check: --wait needs a value: --wait DURATION"),
    ("a look that waits", ["check", "--peek", "--wait", "5s", "a=b"],
     "weir check: --peek and --wait: a look tells how things are now; give one of them"),
    ("a look that is repeated", ["check", "--peek", "--retry", "--server", "http://127.0.0.1:1", "a=b"],
     "weir check: --peek and --retry: a look tells how things are now; give one of them"),
    ("retries without a server", ["check", "--retry", "a=b"],
     "weir check: --retry: a decision made here is not made anew by asking again; give --server, or --wait"),
    ("arguments are seen by everybody", ["serve", "--store", "redis://:hunter2@localhost"],
     "weir serve: --store has a password, which every process of the machine can read: set WEIR_STORE instead, or "
     "store.url of the contract"),
    ("two that say which limits there are", ["serve", "weir.yaml", "--ratelimit-config", "d"],
     "weir serve: 'weir.yaml' stands beside --ratelimit-config, and either says which limits there are: make one "
     "contract of both with `weir import ratelimit`, or leave one out"),
    ("compatible with nothing", ["serve", "--ratelimit-compatible"],
     "weir serve: --ratelimit-compatible is about --ratelimit-config: give that as well"),
    ("no contract", ["check", "a=b"],
     "weir check: there is no ./weir.yaml and no /etc/weir/weir.yaml; name a contract: weir check CONTRACT"),
    ("no contract to serve", ["serve"],
     "weir serve: there is no ./weir.yaml and no /etc/weir/weir.yaml; name a contract: weir serve CONTRACT"),
    ("two contracts", ["check", "a.yaml", "b.yaml"],
     "weir check: 'b.yaml' is a second contract beside 'a.yaml'; attributes are NAME=VALUE"),
    ("two contracts to serve", ["serve", "a.yaml", "b.yaml"],
     "weir serve: 'b.yaml' is a second contract beside 'a.yaml'; give one"),
    ("a contract and a server", ["check", "a.yaml", "--server", "http://127.0.0.1:1"],
     "weir check: 'a.yaml' and --server: the server has its own contract; give one of them"),
    ("an attribute without a name", ["check", "=acme"],
     "weir check: '=acme': an attribute is NAME=VALUE, with a name of 1 to 32 letters"),
    ("33 attributes", ["check"] + [f"a{i}=b" for i in range(33)],
     "weir check: a request has at most 32 attributes"),
    ("a URL without a scheme", ["check", "--server", "127.0.0.1:8080"],
     "weir check: --server 127.0.0.1:8080: write it as http://HOST:PORT or unix:PATH"),
    ("TLS at the client", ["check", "--server", "https://127.0.0.1"],
     "weir check: --server https://127.0.0.1: this version does not speak TLS; use http:// or unix:PATH"),
    ("a URL with a path", ["check", "--server", "http://127.0.0.1:80/v1/check"],
     "weir check: --server http://127.0.0.1:80/v1/check: write it without a path, as http://HOST:PORT"),
    ("a port that is none", ["check", "--server", "http://127.0.0.1:http"],
     "weir check: --server http://127.0.0.1:http: the port is not an integer from 1 to 65535"),
    ("a URL with a line end", ["check", "--server", "http://127.0.0.1:80\r\nX: y"],
     "weir check: --server http://127.0.0.1:80??X: y: blanks and control characters have no place in a URL"),
    ("no replicas", ["explain", "--replicas", "0"],
     "weir explain: --replicas: '0' is not an integer from 1 to 1000000"),
    ("a request that is none", ["explain", "--request", "acme"],
     "weir explain: 'acme': an attribute is NAME=VALUE, with a name of 1 to 32 letters"),
    ("no test file", ["test"], "weir test: no test file; name one: weir test FILE..."),
    ("two contracts to review", ["lint", "a.yaml", "b.yaml"], "weir lint: b.yaml: one contract at a time"),
    ("nothing to import", ["import", "nginx"],
     "weir import: give the kind and the path: weir import ratelimit|nginx PATH"),
    ("no such kind", ["import", "apache", "x"], "weir import: apache: there is ratelimit and nginx"),
    ("the version of what", ["version", "serve"], "weir version: 'serve': it takes no arguments"),
)


class Usage(CliTest):
    def test_mistakes_are_one_line_with_status_2(self):
        for why, arguments, line in MISTAKES:
            with self.subTest(why):
                self.expect(arguments, WRONG, "", line + "\n")

    def test_help_is_an_answer(self):
        for arguments in (["-h"], ["--help"], ["help"], *([c, "-h"] for c in COMMANDS),
                          *([c, "--help"] for c in COMMANDS), ["help", "check"], ["check", "--cost", "3", "-h"]):
            with self.subTest(" ".join(arguments)):
                _, out, err = self.expect(arguments, YES)
                self.assertTrue(out.startswith("usage: weir "), out)
                self.assertEqual(err, "")
                self.assertLessEqual(max(len(line) for line in out.splitlines()), 80, out)

    def test_help_lists_every_command(self):
        out = self.expect(["help"], YES)[1]
        self.assertEqual(tuple(re.findall(r"^  (\w+) ", out, re.M)), COMMANDS)

    def test_help_of_a_command_is_its_h(self):
        for command in COMMANDS:
            self.assertEqual(self.expect(["help", command], YES)[1], self.expect([command, "-h"], YES)[1])

    def test_h_equals_the_manuals_synopsis(self):
        for command in ("serve", "check", "explain", "test", "lint", "import"):
            with self.subTest(command):
                out = self.expect([command, "-h"], YES)[1]
                shown = " ".join(re.match(r"usage: (.*?)\n\n", out, re.S).group(1).split())
                with open(os.path.join(SOURCE, "docs", "man", f"weir-{command}.1.scd"), encoding="utf-8") as file:
                    page = file.read()
                synopsis = re.search(r"# SYNOPSIS\n\n(.*?)\n\n", page, re.S).group(1)
                self.assertEqual(shown, " ".join(re.sub(r"[*\\]", "", synopsis).split()))
                options = set(re.findall(r"^  (--[a-z-]+)", out, re.M))
                self.assertEqual(options - {"--help"}, set(re.findall(r"^\*(--[a-z-]+)\*", page, re.M)))

    def test_version(self):
        with open(os.path.join(SOURCE, "include", "weir.h"), encoding="utf-8") as file:
            version = re.search(r'#define WEIR_VERSION "(.*)"', file.read()).group(1)
        for arguments in (["version"], ["--version"]):
            self.expect(arguments, YES, f"weir {version}\n", "")

    def test_an_answer_that_cannot_be_written_is_no_answer(self):
        import subprocess
        from cli import WEIR
        many = self.write("many.yaml", "weir: 1\nlimits:\n" + "".join(
            f"  - {{ name: l{i}, key: [], rate: 5/s, burst: 1 }}\n" for i in range(20)))
        for arguments in (["version"], ["check", many, "path=/"], ["explain", many], ["explain", many, "--json"]):
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = subprocess.run([WEIR, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stderr), (3, "weir: standard output: No space left on device\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
