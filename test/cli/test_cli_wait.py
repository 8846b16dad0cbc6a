#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir check --wait`: here, alone and in real time; and at a server, which makes the request wait.

Here the answers are exact, since the next request is asked at the instant at which the one before it was decided. Real time
is only checked from below: nothing passes early.
"""

import json
import time
import unittest

from cli import CONTRACT, NO, YES, CliTest, Server

QUEUE = """\
weir: 1
limits:
  - name: payments
    key: []
    algorithm: leaky-queue
    rate: 5/s
    wait: { up-to: 2s, queue: 100 }
"""

AT_ONCE = "allow payments remaining=0/1 reset=0.2s\n"
WAITED = "allow payments remaining=0/1 reset=0.2s waited=0.2s\n"
DENIED = "deny payments remaining=0/1 retry=0.2s\n"


class Wait(CliTest):
    def setUp(self):
        super().setUp()
        self.write("weir.yaml", QUEUE)

    def test_requests_wait_here_one_after_the_other(self):
        started = time.monotonic()
        self.expect(["check", "path=/", "--times", "4", "--wait", "1s"], YES, AT_ONCE + 3 * WAITED, "")
        self.assertGreaterEqual(time.monotonic() - started, 0.6)

    def test_who_cannot_wait_so_long_is_denied_at_once(self):
        rows = (("without --wait", []), ("none at all", ["--wait", "0s"]), ("too short", ["--wait", "199ms"]),
                ("by a nanosecond", ["--wait", "199ms999us999ns"]))
        for why, arguments in rows:
            with self.subTest(why):
                self.expect(["check", "path=/", "--times", "3", *arguments], NO, AT_ONCE + 2 * DENIED, "")
        self.expect(["check", "path=/", "--times", "2", "--wait", "200ms"], YES, AT_ONCE + WAITED, "")
        self.expect(["check", "path=/", "--times", "2"], YES, AT_ONCE + WAITED, "", env={"WEIR_WAIT": "200ms"})

    def test_the_contract_bounds_it_too(self):
        self.write("weir.yaml", QUEUE.replace("2s", "150ms"))
        self.expect(["check", "path=/", "--times", "2", "--wait", "1h"], NO, AT_ONCE + DENIED, "")

    def test_a_limit_without_wait_lets_nobody_wait(self):
        self.write("weir.yaml", CONTRACT.replace("20", "1"))
        self.expect(["check", "tenant=a", "--times", "2", "--wait", "1s"], NO,
                    "allow tenant-requests remaining=0/1 reset=0.2s\ndeny tenant-requests remaining=0/1 retry=0.2s\n", "")
        self.expect(["check", "tenant=a", "--cost", "2", "--wait", "1s"], NO, "never tenant-requests remaining=1/1\n", "")

    def test_a_bucket_with_wait_fills_for_a_large_request(self):
        self.write("weir.yaml", CONTRACT.replace("20", "4\n    wait: { up-to: 1s, queue: 9 }"))
        self.expect(["check", "tenant=a", "--cost", "3", "--times", "2", "--wait", "1s"], YES,
                    "allow tenant-requests remaining=1/4 reset=0.6s\n"
                    "allow tenant-requests remaining=0/4 reset=0.8s waited=0.4s\n", "")

    def test_json_says_how_long(self):
        _, out, _ = self.expect(["check", "path=/", "--times", "3", "--wait", "1s", "--json"], YES, err="")
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([a["decision"] for a in answers], 3 * ["allow"])
        self.assertEqual([a.get("waited") for a in answers], [None, 0.2, 0.2])
        self.assertEqual([a["reset_after"] for a in answers], 3 * [0.2])

    def test_a_request_without_limits_does_not_wait(self):
        self.write("weir.yaml", QUEUE.replace("key: []", "key: [tenant]"))
        self.expect(["check", "path=/", "--times", "3", "--wait", "1s"], YES, 3 * "allow (no limit)\n", "")

    def test_a_server_makes_it_wait(self):
        contract = self.write("weir.yaml", QUEUE.replace("5/s", "1/s"))
        with Server(contract, self.folder) as server:
            ask = ["check", "--server", server.url, "path=/", "--times", "2"]
            started = time.monotonic()
            _, out, err = self.expect([*ask, "--wait", "10s"], YES, err="")
            self.assertGreaterEqual(time.monotonic() - started, 1)
            first, second = out.splitlines()
            self.assertNotIn("waited", first)
            self.assertRegex(second, r"\Aallow payments remaining=0/1 reset=[0-9.]+s waited=[0-9.]+s\Z")
            self.assertIn("deny payments", self.expect([*ask, "--wait", "1ms"], NO, err="")[1])
            _, out, _ = self.expect([*ask, "--wait", "10s", "--json"], YES, err="")
            self.assertGreater(json.loads(out.splitlines()[1])["waited"], 0)

    def test_waiting_and_retrying_together(self):
        """What may wait at the server is not refused, so there is nothing to retry."""
        contract = self.write("weir.yaml", QUEUE.replace("5/s", "10/s"))
        with Server(contract, self.folder) as server:
            _, out, err = self.expect(["check", "--server", server.url, "path=/", "--times", "5", "--wait", "10s",
                                       "--retry"], YES)
            self.assertEqual([line.split()[0] for line in out.splitlines()], 5 * ["allow"])
            self.assertEqual(err, 5 * "attempt 1: allow payments\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
