#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir fleet leases`, and what `weir fleet keys` says of leased keys: with real servers, and with stores that hold anything.

LABELS: slow
"""

import contextlib
import json
import os
import re
import signal
import sys
import unittest

from cli import UNDECIDED, WRONG, YES, CliTest

for folder in ("support", "fleet"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
from stores import Cluster, Store  # noqa: E402
from fleet import Fleet, check  # noqa: E402
from door import free_port, wait_for  # noqa: E402

# Nothing refills and nothing runs out while a test runs, so that counts are exact.
LEASED = """\
weir: 1
store: { deadline: 5s }
limits:
  - name: tenant-requests
    key: [tenant]
    rate: 1/d
    burst: 100
    scope: fleet
    lease: { most: 60, chunk: 20, for: 60s }
    when-store-fails: leased
  - name: everything
    key: []
    rate: 1/d
    burst: 1000
    scope: fleet
    lease: { most: 60, chunk: 20, for: 60s }
    when-store-fails: closed
    when: { kind: all }
  - name: strict
    key: [tenant]
    rate: 1/d
    burst: 1000
    scope: fleet
    when-store-fails: closed
    when: { kind: all }
  - name: here
    key: [tenant]
    rate: 1/d
    burst: 1000
"""
HOLDERS = ":l:holders"
LINE = re.compile(r"(\S+) limit=(\S+) out=(\d+) holders=(\d+) granted=(\d+) spent=(\d+) returned=(\d+) lost=(\d+)")
HOLDER = re.compile(r"  (\S+) run=([0-9a-f]{16}) left=(\d+) wanted=(\d+) expires=\d+(\.\d+)?s")


class Leases(CliTest):
    def setUp(self):
        super().setUp()
        self.path = self.write("weir.yaml", LEASED)

    def leases(self, store, *more, status=YES):
        return self.expect(["fleet", "leases", self.path, *more], status, env={"WEIR_STORE": store.url})

    def objects(self, store, *more):
        return [json.loads(line) for line in self.leases(store, "--json", *more)[1].splitlines()]

    def hold(self, server, tenant="acme", **attributes):
        """Ask until a portion is granted: from the second request on one is wanted. Gives how often it was."""
        count = 0
        before = server.metric("weir_lease_granted_total")
        while count < 50 and server.metric("weir_lease_granted_total") == before:
            self.assertEqual(check(server, tenant, attributes=attributes)["decision"], "allow")
            count += 1
        self.assertLess(count, 50)
        return count

    def test_who_holds_what(self):
        with Store() as store, Fleet(LEASED, store.url, count=3) as fleet:
            self.assertEqual(self.leases(store), (YES, "", ""))  # nobody asked for anything
            spent = sum(self.hold(server) for server in fleet.servers)
            out = self.leases(store)[1]
            lines = out.splitlines()
            key = LINE.fullmatch(lines[0])
            self.assertTrue(key, out)
            holders = [HOLDER.fullmatch(line) for line in lines[1:]]
            self.assertEqual(key.groups()[:2], ("tenant=acme", "tenant-requests"))
            numbers = [int(number) for number in key.groups()[2:]]
            self.assertEqual(numbers[1], 3)
            self.assertEqual(numbers[0], sum(int(holder[3]) for holder in holders))
            self.assertEqual(numbers[2], numbers[0] + sum(numbers[3:]))  # granted: out, spent, returned, lost
            self.assertEqual({holder[1].rsplit(":", 1)[1] for holder in holders},
                             {str(server.process.pid) for server in fleet.servers})
            self.assertEqual(len({holder[2] for holder in holders}), 3)
            lefts = [int(holder[3]) for holder in holders]
            self.assertEqual(lefts, sorted(lefts, reverse=True))

            shown = self.objects(store, "--limit", "tenant-requests", "tenant=acme")[0]
            self.assertEqual((shown["limit"], shown["key"], shown["holder_count"]),
                             ("tenant-requests", {"tenant": "acme"}, 3))
            self.assertEqual(shown["out"], sum(holder["left"] for holder in shown["holders"]))
            for holder in shown["holders"]:
                self.assertGreater(holder["expires_after"], 0)
                self.assertLessEqual(holder["expires_after"], 62)

            # What is out is not there for others: all that was not asked for, less that.
            def agrees():
                shown = self.objects(store)[0]
                keys = json.loads(self.expect(["fleet", "keys", self.path, "--limit", "tenant-requests", "--json"], YES,
                                              env={"WEIR_STORE": store.url})[1])
                in_hand = sum(server.metric("weir_lease_held") for server in fleet.servers)
                return keys["out"] == shown["out"] and keys["remaining"] == 100 - spent - in_hand
            wait_for(agrees)  # /metrics counts what is held once a second

    def test_keys_show_what_is_out_and_forget_it(self):
        with Store() as store, Fleet(LEASED, store.url, count=1) as fleet:
            self.hold(fleet[0], "acme", kind="all")
            for limit, has_lease in (("tenant-requests", True), ("strict", False), ("everything", True)):
                out = self.expect(["fleet", "keys", self.path, "--limit", limit], YES, err="",
                                  env={"WEIR_STORE": store.url})[1]
                self.assertEqual(len(out.splitlines()), 1, out)  # the holders' own key is none of the limit's
                self.assertEqual(" out=" in out, has_lease, out)
            self.assertEqual(len(self.objects(store)), 2)
            self.assertEqual(self.objects(store, "--limit", "everything")[0]["key"], {})
            with self.still(fleet[0], store):
                self.expect(["fleet", "keys", self.path, "--limit", "tenant-requests", "tenant=acme", "--reset"], YES,
                            env={"WEIR_STORE": store.url})
                shown = self.objects(store, "--limit", "tenant-requests", "tenant=acme")[0]
                self.assertEqual((shown["out"], shown["granted"], shown["holders"]), (0, 0, []))
                self.assertEqual(self.leases(store, "--limit", "tenant-requests")[1], "")

    def test_many_keys_of_a_cluster(self):
        with Cluster() as cluster, Fleet(LEASED, cluster.url, count=1) as fleet:
            names = [f"tenant {i}" for i in range(80)]  # more than one chunk

            def are_all_leased():
                for name in names:
                    check(fleet[0], name)
                    check(fleet[0], name)
                return len(self.objects(cluster)) == len(names)
            wait_for(are_all_leased)
            self.assertEqual(sorted(shown["key"]["tenant"] for shown in self.objects(cluster)), sorted(names))
            self.assertRegex(self.leases(cluster, "--limit", "tenant-requests", "tenant=tenant 7")[1],
                             r"\Atenant=tenant%207 limit=tenant-requests out=\d+ holders=1 .*\n  \S+ run=")

    @contextlib.contextmanager
    def still(self, server, store):
        """The server says no more: each message of it changes the counts, and writes its label again."""
        server.process.send_signal(signal.SIGSTOP)
        try:
            for _ in range(3):
                store.command("PING")  # what it had said before is done by then
            yield
        finally:
            server.process.send_signal(signal.SIGCONT)

    def test_what_stands_there_may_be_anything(self):
        name = "weir:1:{tenant=%s}:tenant-requests:b:" + HOLDERS
        with Store() as store, Fleet(LEASED, store.url, count=1) as fleet:
            self.hold(fleet[0])
            with self.still(fleet[0], store):
                good = self.leases(store)[1]
                store.command("SET", name % "text", "x")
                store.command("HSET", name % "odd", "t", "x", "run", "y")
                store.command("HSET", name % "a%ZZ", "t", "x")  # no name of ours
                store.command("SET", "weir:1:{x}:tenant-requests:c" + HOLDERS, "x")
                status, out, err = self.leases(store)
                self.assertEqual(out.splitlines()[0], good.splitlines()[0])
                self.assertEqual(len(out.splitlines()), 2)
                for tenant in ("text", "odd"):
                    self.assertRegex(err, r"(?m)^weir fleet leases: weir:1:\{tenant=%s\}:tenant-requests:b:: " % tenant)

                # A label is what a client of the store wrote: it cannot disturb a terminal or a line.
                run, record = next((field, value) for field, value in zip(*[iter(store.command("HGETALL", name % "acme"))] * 2)
                                   if field != b"t")
                label = len(record) - 57
                store.command("HSET", name % "acme", run, record[:-label] + b"a b\x1b[2J\n" + b"c" * 40)
                self.assertRegex(self.leases(store)[1], r"(?m)^  a\?b\?\[2J\?c{40} run=%s left=" % run.decode())

    def test_a_store_that_is_away(self):
        port = free_port()
        status, out, err = self.run_weir("fleet", "leases", self.path, env={"WEIR_STORE": f"redis://127.0.0.1:{port}"})
        self.assertEqual((status, out), (UNDECIDED, ""))
        self.assertRegex(err, r"\Aweir fleet leases: redis://127\.0\.0\.1:%d: .*refused.*\n\Z" % port)

    def test_without_the_right_to_look(self):
        acl = "user small on >only-small ~weir:1:* +scan +ping +hello +info +client +get +set +ttl +script +select"
        with Store(acl=acl) as store:
            status, out, err = self.run_weir("fleet", "leases", self.path, "--limit", "tenant-requests", "tenant=acme",
                                             env={"WEIR_STORE": store.url_as("small", "only-small")})
            self.assertEqual((status, out), (UNDECIDED, ""))
            self.assertIn("NOPERM", err)

    def test_mistakes(self):
        strict = self.write("strict.yaml", LEASED.replace("    lease: { most: 60, chunk: 20, for: 60s }\n", "").replace(
            "when-store-fails: leased", "when-store-fails: closed"))
        rows = (
            ("whose keys are chosen", [self.path, "tenant=acme"],
             "NAME=VALUE choose among the keys of one limit: add --limit NAME"),
            ("no such limit", [self.path, "--limit", "nope"], "the contract has no limit 'nope'"),
            ("a limit of each server", [self.path, "--limit", "here"],
             "limit 'here' is not of scope: fleet: each server keeps its keys; POST /v1/reset there"),
            ("an attribute that chooses nothing", [self.path, "--limit", "tenant-requests", "path=/x"],
             "'path' is no part of the key of 'tenant-requests', which is [tenant]"),
            ("nothing is leased", [strict],
             "no limit of the contract has a lease; of one that had, --limit NAME shows what is still out"),
        )
        for why, arguments, line in rows:
            with self.subTest(why):
                self.expect(["fleet", "leases", *arguments, "--store", "redis://127.0.0.1:1"], WRONG, "",
                            f"weir fleet leases: {line}\n")


if __name__ == "__main__":
    unittest.main()
