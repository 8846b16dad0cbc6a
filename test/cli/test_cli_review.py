#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lint` and `weir import`: statuses, streams, and a contract that the other commands take."""

import json
import os
import unittest

from cli import CONTRACT, NO, WRONG, YES, CliTest

DOUBTFUL = """\
weir: 1
limits:
  - name: sign-in
    when: { path: /login }
    key: []
    algorithm: fixed-window
    rate: 5/1m
"""

FINDING = """\
doubtful.yaml:6:16: warning: limit 'sign-in' guards /login with a fixed window: whoever knows its edge gets 10 through \
at once, twice its count
        algorithm: fixed-window
                   ^~~~~~~~~~~~
  help: write `algorithm: sliding-window`, or a token-bucket, or add a small one beside it
"""

STOREFRONT = """\
domain: storefront
descriptors:
  - key: PATH
    value: "/checkout"
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: PATH
    rate_limit: {unit: minute, requests_per_unit: 10}
"""


class Lint(CliTest):
    def test_findings_are_the_answer(self):
        self.write("doubtful.yaml", DOUBTFUL)
        self.expect(["lint", "doubtful.yaml"], NO, FINDING, "")

    def test_json(self):
        self.write("doubtful.yaml", DOUBTFUL)
        out = self.expect(["lint", "--json", "doubtful.yaml"], NO, err="")[1]
        self.assertEqual(out.count("\n"), 1)
        found = json.loads(out)["findings"]
        self.assertEqual([(f["file"], f["line"], f["column"], f["severity"]) for f in found],
                         [("doubtful.yaml", 6, 16, "warning")])
        self.assertTrue(found[0]["message"].startswith("limit 'sign-in' guards /login"))
        self.assertTrue(found[0]["cure"].startswith("write `algorithm: sliding-window`"))

    def test_nothing_found(self):
        quiet = CONTRACT + "  - name: all\n    key: []\n    rate: 1000/s\n    burst: 1000\n"
        self.write("weir.yaml", quiet)
        self.expect(["lint"], YES, "", "")
        self.expect(["lint", "-", "--json"], YES, '{"findings": []}\n', "", stdin=quiet)

    def test_replicas(self):
        self.write("weir.yaml", "weir: 1\nlimits:\n  - { name: a, key: [], rate: 100/1m, burst: 10 }\n")
        self.expect(["lint", "--replicas", "1"], YES, "", "")
        out = self.expect(["lint", "--replicas", "4"], NO, err="")[1]
        self.assertIn("4 replicas of 100/m admit 400/m", out)

    def test_a_bad_contract_is_not_reviewed(self):
        self.write("weir.yaml", "weir: 2\n")
        status, out, err = self.run_weir("lint")
        self.assertEqual((status, out), (WRONG, ""))
        self.assertIn("weir.yaml:1:7: error: weir 2", err)
        status, out, err = self.run_weir("lint", "missing.yaml")
        self.assertEqual((status, out), (WRONG, ""))
        self.assertIn("cannot be read", err)


class Import(CliTest):
    def test_F01_what_is_imported_can_be_checked_explained_and_reviewed(self):
        self.write("storefront.yaml", STOREFRONT)
        contract = self.expect(["import", "ratelimit", "storefront.yaml"], YES, err="")[1]
        self.write("weir.yaml", contract)
        request = ["domain=storefront", "descriptor=PATH", "entry-path=/checkout"]
        out = self.expect(["check", *request, "--times", "2"], NO, err="")[1]
        self.assertEqual([line.split()[:2] for line in out.splitlines()],
                         [["allow", "storefront.path_-checkout"], ["deny", "storefront.path_-checkout"]])
        out = self.expect(["check", *request[:2], "entry-path=/other", "--times", "11"], NO, err="")[1]
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["allow"] * 10 + ["deny"])
        self.expect(["explain"], YES)
        self.assertNotEqual(self.run_weir("lint")[0], WRONG)

    def test_a_folder_and_standard_input(self):
        os.mkdir(os.path.join(self.folder, "config"))
        self.write("config/one.yaml", STOREFRONT)
        self.write("config/two.yaml", STOREFRONT.replace("storefront", "other"))
        out = self.expect(["import", "ratelimit", "config"], YES, err="")[1]
        self.assertEqual(out.count("  - name: "), 4)
        out = self.expect(["import", "ratelimit", "-"], YES, err="", stdin=STOREFRONT)[1]
        self.assertEqual(out.count("  - name: "), 2)

    def test_F06_nginx(self):
        text = ("limit_req_zone $binary_remote_addr zone=perip:10m rate=2r/m;\n"
                "server { location /c { limit_req zone=perip burst=3 nodelay; } }\n")
        self.write("nginx.conf", text)
        self.write("weir.yaml", self.expect(["import", "nginx", "nginx.conf"], YES, err="")[1])
        out = self.expect(["check", "ip=192.0.2.1", "path=/c", "--times", "5"], NO, err="")[1]
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["allow"] * 4 + ["deny"])
        self.assertIn("retry=30s", out.splitlines()[-1])

    def test_nothing_is_written_where_something_cannot_be_said(self):
        self.write("nginx.conf", "limit_req_zone $host zone=z:1m rate=1r/s;\nserver { limit_conn z 3; }\n")
        status, out, err = self.run_weir("import", "nginx", "nginx.conf")
        self.assertEqual((status, out), (WRONG, ""))
        self.assertTrue(err.startswith("nginx.conf:2:10: error: there is no zone z"), err)
        status, out, err = self.run_weir("import", "ratelimit", "missing")
        self.assertEqual((status, out), (WRONG, ""))
        self.assertIn("missing cannot be read: No such file or directory", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
