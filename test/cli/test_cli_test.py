#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir test` and `weir explain`: statuses, summaries, and what a failure tells."""

import json
import unittest

from cli import CONTRACT, HOOKED, NO, WRONG, YES, CliTest

TIMELINE = """\
contract: weir.yaml
timeline:
  - at: 0s
    request: { tenant: acme, path: /v1/items }
    times: 21
    expect: { allow: 20, deny: 1 }   # counts over the step, then facts about its last decision
  - at: 1s
    request: { tenant: acme, path: /v1/items }
    cost: 9
    expect: { deny: 1, limit: tenant-requests, remaining: 5, retry_after: 800ms }
"""

STORY = """\
t.test.yaml:7:5: step 2 at 1s failed
    request   tenant=acme path=/v1/items (cost 9)
    expected  deny=1; limit=tenant-requests remaining=6 retry_after=0.8s
    came      deny=1; limit=tenant-requests remaining=5 retry_after=0.8s
    differs   remaining: 6 expected, 5 came
    before    allow tenant-requests remaining=5/20 reset=3s
    after     deny tenant-requests remaining=5/20 retry=0.8s
FAIL t.test.yaml: 2 steps, 22 decisions, 1 failed
1 file, 2 steps, 22 decisions: 1 file failed
"""


class Test(CliTest):
    def setUp(self):
        super().setUp()
        self.write("weir.yaml", CONTRACT)
        self.write("t.test.yaml", TIMELINE)

    def test_the_example_of_the_manual_passes(self):
        out = ("ok t.test.yaml: 2 steps, 22 decisions\n"
               "1 file, 2 steps, 22 decisions: all as expected\n")
        self.expect(["test", "t.test.yaml"], YES, out, "")
        self.expect(["test", "-"], YES, out.replace("t.test.yaml", "-"), "", stdin=TIMELINE)
        self.expect(["test", "--door", "http", "t.test.yaml"], YES, out, "", program=HOOKED)

    def test_a_failure_is_told_with_its_state(self):
        self.write("t.test.yaml", TIMELINE.replace("remaining: 5", "remaining: 6"))
        self.expect(["test", "t.test.yaml"], NO, STORY, "")
        self.expect(["test", "--door", "http", "t.test.yaml"], NO, STORY, "", program=HOOKED)

    def test_several_files(self):
        self.write("bad.test.yaml", TIMELINE.replace("deny: 1 }", "deny: 2 }"))
        self.write("u.test.yaml", TIMELINE.replace("remaining: 5", "remaining: 6"))
        self.expect(["test", "t.test.yaml", "t.test.yaml"], YES, 2 * "ok t.test.yaml: 2 steps, 22 decisions\n"
                    + "2 files, 4 steps, 44 decisions: all as expected\n")
        status, out, err = self.run_weir("test", "t.test.yaml", "u.test.yaml", "bad.test.yaml", "t.test.yaml")
        self.assertEqual(status, WRONG)
        self.assertTrue(out.endswith("4 files, 6 steps, 66 decisions: 2 files failed\n"), out)
        self.assertTrue(err.startswith("bad.test.yaml:3:5: error: the step expects 22 decisions and makes 21\n"), err)

    def test_files_that_cannot_be_played(self):
        self.write("broken.yaml", CONTRACT.replace("burst", "brust"))
        rows = (("missing", "none.yaml", None, "none.yaml: error: cannot be read: No such file or directory\n"),
                ("a slip", "a.yaml", TIMELINE.replace("times", "tims"),
                 "a.yaml:5:5: error: the step has no field 'tims'\n"),
                ("no contract", "b.yaml", TIMELINE.replace("weir.yaml", "none.yaml"), "none.yaml: error: "),
                ("a broken contract", "c.yaml", TIMELINE.replace("weir.yaml", "broken.yaml"), "broken.yaml:"),
                ("a broken inline contract", "d.yaml",
                 TIMELINE.replace("contract: weir.yaml", "contract: { weir: 1, limits: [{ nam: x }] }"),
                 "d.yaml:1:31: error: "),
                ("a faulty request", "e.yaml", TIMELINE.replace("tenant: acme", "Tenant: acme"),
                 "e.yaml:3:5: error: "),
                ("a store that nothing is shared in", "f.yaml", TIMELINE + "  - { store: away }\n",
                 "f.yaml: error: a step is about the store, and no limit has `scope: fleet`\n"))
        for why, name, text, start in rows:
            with self.subTest(why):
                if text is not None:
                    self.write(name, text)
                _, out, err = self.expect(["test", name], WRONG)
                self.assertTrue(err.startswith(start), err)
                self.assertTrue(out.endswith(": 1 file failed\n"), out)

    def test_doors_are_for_the_test_build(self):
        self.expect(["test", "--door", "http", "t.test.yaml"], WRONG, "",
                    "weir test: --door: there is no such option; see 'weir test -h'\n")
        self.expect(["test", "--door", "tcp", "t.test.yaml"], WRONG, "",
                    "weir test: --door tcp: there are http, resp and grpc\n", program=HOOKED)


class Explain(CliTest):
    def setUp(self):
        super().setUp()
        self.write("weir.yaml", CONTRACT)

    def test_it_names_limits_and_numbers(self):
        _, out, _ = self.expect(["explain"], YES)
        self.assertIn("tenant-requests", out)
        self.assertIn("20", out)
        self.assertNotEqual(self.expect(["explain", "--replicas", "3"], YES)[1], out)
        self.assertEqual(self.expect(["explain", "-"], YES, stdin=CONTRACT)[1].count("tenant-requests"),
                         out.count("tenant-requests"))

    def test_json_is_one_object(self):
        json.loads(self.expect(["explain", "--json"], YES)[1])

    def test_a_request(self):
        plain = self.expect(["explain"], YES)[1]
        for arguments in (["--request", "tenant=acme", "path=/x"], ["--request=tenant=acme", "--request", "path=/x"]):
            self.assertNotEqual(self.expect(["explain", *arguments], YES)[1], plain)
        _, out, err = self.expect(["explain", "--request", "Tenant=acme"], WRONG, "")
        self.assertRegex(err, r"(?m)^weir explain: [^\n]+$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
