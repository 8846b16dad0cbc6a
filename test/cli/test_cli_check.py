#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir check` with a contract of its own: lines, statuses, where the contract comes from, what is wrong with it."""

import json
import os
import pty
import unittest

from cli import CONTRACT, NO, WEIR, WRONG, YES, CliTest, clean_environment

WIDE = """\
weir: 1
limits:
  - { name: slow, key: [tenant], rate: 1/1m, burst: 2, when: { path: "/slow/**" } }
  - { name: blocked, key: [], rate: 1/s, burst: 0, when: { path: "/blocked" } }
  - { name: needs-user, key: [user], rate: 1/s, burst: 1, missing-key: refuse, when: { path: "/mine" } }
  - { name: hourly, key: [tenant], algorithm: fixed-window, rate: 0/1h, when: { path: "/closed" } }
"""


class Check(CliTest):
    def setUp(self):
        super().setUp()
        self.write("weir.yaml", CONTRACT)

    def test_founding_example_shows_its_boundary(self):
        """Capacity 20, refill 5/s: at one instant twenty pass, and the next is due in 0.2 s."""
        lines = [f"allow tenant-requests remaining={19 - i}/20 reset={(i + 1) * 200 // 1000}"
                 f"{'.' + str((i + 1) * 2 % 10) if (i + 1) * 2 % 10 else ''}s" for i in range(20)]
        lines.append("deny tenant-requests remaining=0/20 retry=0.2s")
        self.expect(["check", "tenant=acme", "path=/v1/items", "--times", "21"], NO, "\n".join(lines) + "\n", "")

    def test_one_line_by_default_and_status_0(self):
        self.expect(["check", "tenant=acme"], YES, "allow tenant-requests remaining=19/20 reset=0.2s\n", "")

    def test_costs(self):
        rows = (("4", YES, "allow tenant-requests remaining=16/20 reset=0.8s\n"),
                ("0", YES, "allow tenant-requests remaining=20/20 reset=0s\n"),
                ("20", YES, "allow tenant-requests remaining=0/20 reset=4s\n"),
                ("21", NO, "never tenant-requests remaining=20/20\n"),
                ("9223372036854775807", NO, "never tenant-requests remaining=20/20\n"))
        for cost, status, out in rows:
            with self.subTest(cost):
                self.expect(["check", "tenant=acme", "--cost", cost], status, out, "")
                self.expect(["check", "tenant=acme", f"--cost={cost}"], status, out, "")
                self.expect(["check", "tenant=acme"], status, out, "", env={"WEIR_COST": cost})

    def test_an_option_wins_over_its_variable(self):
        self.expect(["check", "tenant=acme", "--cost", "2"], YES,
                    "allow tenant-requests remaining=18/20 reset=0.4s\n", "", env={"WEIR_COST": "7"})

    def test_variables_are_read_as_options_are(self):
        self.expect(["check", "tenant=acme"], WRONG, "",
                    "weir check: WEIR_COST: 'x' is not an integer from 0 to 9223372036854775807\n",
                    env={"WEIR_COST": "x"})
        self.expect(["check", "tenant=acme"], WRONG, "",
                    "weir check: WEIR_PEEK: 'yes' is not 1, true, 0 or false\n", env={"WEIR_PEEK": "yes"})
        self.expect(["check", "tenant=acme"], WRONG, "", env={"WEIR_WAIT": "5"},
                    err="weir check: WEIR_WAIT: '5' is not a duration from 0s to 1d, such as 200ms, 5s or 1m30s\n")
        self.expect(["check", "tenant=acme"], YES, env={"WEIR_COST": "", "WEIR_PEEK": "0"})

    def test_peek_charges_nothing(self):
        line = "allow tenant-requests remaining=20/20 reset=0s\n"
        self.expect(["check", "tenant=acme", "--peek", "--times", "3"], YES, 3 * line, "")
        self.expect(["check", "tenant=acme", "--times", "3"], YES, 3 * line, "", env={"WEIR_PEEK": "1"})

    def test_no_limit(self):
        self.expect(["check", "path=/"], YES, "allow (no limit)\n")

    def test_other_refusals(self):
        self.write("weir.yaml", WIDE)
        rows = (("slow", ["tenant=a", "path=/slow/x", "--times", "3"], NO,
                 "allow slow remaining=1/2 reset=60s\nallow slow remaining=0/2 reset=120s\n"
                 "deny slow remaining=0/2 retry=60s\n"),
                ("a burst of zero blocks", ["path=/blocked"], NO, "never blocked remaining=0/0\n"),
                ("no user", ["path=/mine"], NO, "never needs-user reason=missing-key\n"),
                ("another path", ["tenant=a", "path=/slower"], YES, "allow (no limit)\n"))
        for why, arguments, status, out in rows:
            with self.subTest(why):
                self.expect(["check", *arguments], status, out)

    def test_a_duplicate_passes(self):
        """It has the status of the first answer, and only the first was charged."""
        self.write("weir.yaml", CONTRACT.replace("20", "1\n    retries: { free-within: 60s, by: request-id }"))
        self.expect(["check", "tenant=acme", "request-id=7", "--times", "2"], YES,
                    "allow tenant-requests remaining=0/1 reset=0.2s\nduplicate tenant-requests remaining=0/1\n", "")

    def test_json_is_one_object_a_line(self):
        _, out, err = self.expect(["check", "tenant=acme", "--times", "21", "--json"], NO)
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(err, "")
        self.assertEqual(len(answers), 21)
        limit = {"limit": "tenant-requests", "decision": "allow", "capacity": 20, "remaining": 19, "retry_after": 0,
                 "reset_after": 0.2}
        self.assertEqual(answers[0] | {"limits": None},
                         limit | {"policy": None, "reason": None, "limits": None})
        self.assertEqual({k: answers[0]["limits"][0][k] for k in limit}, limit)
        self.assertEqual(answers[20]["decision"], "deny")
        self.assertEqual(answers[20]["retry_after"], 0.2)
        self.assertEqual(answers[20]["reset_after"], 4)
        self.assertIn('"retry_after":0.2,', out.replace(": ", ":").replace(", ", ","))

    def test_where_the_contract_comes_from(self):
        other = self.write("other.yaml", CONTRACT.replace("20", "3"))
        line = "allow tenant-requests remaining=2/3 reset=0.2s\n"
        self.expect(["check", other, "tenant=acme"], YES, line, "")
        self.expect(["check", "tenant=acme", other], YES, line, "")
        with open(other, encoding="utf-8") as file:
            self.expect(["check", "-", "tenant=acme"], YES, line, "", stdin=file.read())
        # A contract that was named wins over a server in the environment.
        self.expect(["check", other, "tenant=acme"], YES, line, "", env={"WEIR_SERVER": "http://127.0.0.1:1"})

    def test_values_may_hold_anything_that_arguments_may(self):
        self.expect(["check", "tenant=a=b c", "--", "path=/x"], YES)
        self.expect(["check", "tenant="], YES, "allow (no limit)\n")

    def test_faulty_requests(self):
        self.write("weir.yaml", WIDE)
        rows = (("a name in capitals", ["Tenant=acme"]), ("a name twice", ["tenant=a", "tenant=b"]),
                ("a control character", ["tenant=a\nb"]), ("too long", ["tenant=" + "a" * 1025]),
                ("a bad escape", ["path=/%zz"]))
        for why, arguments in rows:
            with self.subTest(why):
                _, out, err = self.expect(["check", *arguments], WRONG, "")
                self.assertRegex(err, r"\Aweir check: [^\n]+\n\Z")

    def test_a_missing_contract(self):
        _, out, err = self.expect(["check", "nowhere.yaml", "tenant=acme"], WRONG, "")
        self.assertIn("nowhere.yaml", err)
        self.assertIn("No such file or directory", err)

    def test_a_broken_contract_is_told_with_its_places(self):
        self.write("weir.yaml", CONTRACT.replace("burst: 20", "brust: 20").replace("5/s", "5"))
        _, out, err = self.expect(["check", "tenant=acme"], WRONG, "")
        self.assertRegex(err, r"(?m)^(\./)?weir\.yaml:5:11: error: ")
        self.assertRegex(err, r"(?m)^(\./)?weir\.yaml:6:5: error: .*brust")
        self.assertIn("    brust: 20\n", err)
        self.assertIn("^", err)
        for command in ("explain", "serve"):
            self.assertEqual(self.expect([command], WRONG)[2], err, command)
        self.expect(["check", "-", "tenant=acme"], WRONG, "", stdin="weir: 2\n")

    def run_on_terminal(self, env):
        """What it writes to a terminal, and its status."""
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(WEIR, [WEIR, "check", "tenant=acme"], clean_environment(env))
        written = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            written += piece
        os.close(master)
        return written.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_colour_only_on_a_terminal_and_never_with_no_color(self):
        self.write("weir.yaml", CONTRACT.replace("burst: 20", "brust: 20"))
        self.assertNotIn("\033", self.expect(["check", "tenant=acme"], WRONG)[2])
        rows = (("a terminal", {"TERM": "xterm"}, True), ("NO_COLOR", {"TERM": "xterm", "NO_COLOR": "1"}, False),
                ("an empty NO_COLOR says nothing", {"TERM": "xterm", "NO_COLOR": ""}, True),
                ("a dumb terminal", {"TERM": "dumb"}, False))
        for why, env, is_coloured in rows:
            with self.subTest(why):
                text, status = self.run_on_terminal(env)
                self.assertEqual(status, WRONG)
                self.assertEqual("\033[" in text, is_coloured, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
