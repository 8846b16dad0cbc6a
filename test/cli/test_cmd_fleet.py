#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir fleet status` and `weir fleet keys` against real stores: alone, with a password, as a Cluster, behind Sentinels, gone.

LABELS: slow
"""

import json
import os
import re
import sys
import unittest
import urllib.request

from cli import NO, SOURCE, UNDECIDED, WRONG, YES, CliTest, Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from stores import Cluster, Sentinels, Store, slot_of  # noqa: E402
from door import free_port, wait_for  # noqa: E402

LIMITS = """\
weir: 1
store: { deadline: 1s }
limits:
  - name: tenant-requests
    key: [tenant, path]
    rate: 5/1m
    burst: 20
    scope: fleet
    when-store-fails: closed
    overrides:
      - { key: { tenant: big, path: /a }, burst: 40 }
      - { key: { tenant: free, path: /a }, unlimited: true }
  - name: jobs
    algorithm: concurrency
    key: [tenant]
    at-most: 3
    hold: 10m
    scope: fleet
    when-store-fails: closed
    when: { path: /jobs }
  - name: everything
    algorithm: fixed-window
    key: []
    rate: 100/1d
    scope: fleet
    when-store-fails: open
  - name: here
    key: [tenant]
    rate: 500/s
    burst: 2000
"""

ONE_LINE = re.compile(r"^(\S+) (master|replica|sentinel)( slots=\d+)? ping=\d+\.\d{3}ms min=\d+\.\d{3}ms server=redis/[\d.]+"
                      r"( script=(loaded|not-loaded))?( state-since=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?"
                      r"(?: refuses=\"CLUSTERDOWN [^\"]+\")?$", re.M)


def await_store(server):
    """Until every node of the store is connected: before, decisions follow the policy."""
    def is_ready():
        with urllib.request.urlopen(server.url + "/readyz") as reply:
            return reply.read().strip() == b"ready"
    wait_for(is_ready)


class Mistakes(CliTest):
    def test_each_is_one_line_with_a_cure(self):
        contract = self.write("weir.yaml", LIMITS)
        rows = (
            ("no command", ["fleet"], "weir fleet: no command; give status, keys or leases"),
            ("no such command", ["fleet", "stat"],
             "weir fleet: stat: there is no such command; give status, keys or leases"),
            ("nowhere to look", ["fleet", "status", contract],
             "weir fleet status: no store is named: give --store URL, or set WEIR_STORE, or write store: { url: ... } into the "
             "contract"),
            ("a secret for everybody to read", ["fleet", "status", "--store", "redis://:geheim@127.0.0.1:1"],
             "weir fleet status: --store has a password, which every process of the machine can read: set WEIR_STORE instead, or "
             "store.url of the contract"),
            ("two contracts", ["fleet", "status", "a.yaml", "b.yaml"],
             "weir fleet status: b.yaml: one contract at a time"),
            ("whose keys", ["fleet", "keys", contract], "weir fleet keys: --limit NAME is needed: whose keys"),
            ("no such limit", ["fleet", "keys", contract, "--store", "redis://127.0.0.1:1", "--limit", "nope"],
             "weir fleet keys: the contract has no limit 'nope'"),
            ("a limit that is not in the store", ["fleet", "keys", contract, "--store", "redis://127.0.0.1:1", "--limit", "here"],
             "weir fleet keys: limit 'here' is not of scope: fleet: each server keeps its keys; POST /v1/reset there"),
            ("an attribute that chooses nothing",
             ["fleet", "keys", contract, "--store", "redis://127.0.0.1:1", "--limit", "jobs", "path=/x"],
             "weir fleet keys: 'path' is no part of the key of 'jobs', which is [tenant]"),
            ("half a key to forget",
             ["fleet", "keys", contract, "--store", "redis://127.0.0.1:1", "--limit", "tenant-requests", "tenant=a", "--reset"],
             "weir fleet keys: --reset: give every attribute of the key [tenant,path], or --all"),
            ("many keys, and nobody to ask",
             ["fleet", "keys", contract, "--store", "redis://127.0.0.1:1", "--limit", "jobs", "--reset", "--all"],
             "weir fleet keys: --reset --all forgets many keys, and there is no terminal to ask at: add --yes"),
            ("all of what", ["fleet", "keys", contract, "--limit", "jobs", "--all"],
             "weir fleet keys: --all goes with --reset; without, every key is shown anyway"),
        )
        for why, arguments, line in rows:
            with self.subTest(why):
                self.expect(arguments, WRONG, "", line + "\n")
        status, out, err = self.run_weir("fleet", "status", "--store", "http://127.0.0.1:1")
        self.assertEqual((status, out), (WRONG, ""))
        self.assertRegex(err, r"\Aweir fleet status: --store: .*redis://.*\n\Z")

    def test_help_names_the_store_and_the_exit_status(self):
        for arguments in (["fleet", "-h"], ["fleet", "status", "-h"], ["fleet", "keys", "-h"],
                          ["fleet", "leases", "-h"]):
            out = self.expect(arguments, YES)[1]
            for word in ("WEIR_STORE", "--store", "xit status"):
                self.assertIn(word, out, arguments)
        self.assertEqual(self.expect(["help", "fleet", "status"], YES)[1], self.expect(["fleet", "status", "-h"], YES)[1])

    def test_help_is_the_manuals_synopsis(self):
        with open(os.path.join(SOURCE, "docs", "man", "weir-fleet.1.scd"), encoding="utf-8") as file:
            page = file.read()
        synopsis = re.search(r"# SYNOPSIS\n\n(.*?)\n\n# ", page, re.S).group(1).split("\n\n")
        told = set()
        for command, line in zip(("status", "keys", "leases"), synopsis):
            out = self.expect(["fleet", command, "-h"], YES)[1]
            shown = " ".join(re.match(r"usage: (.*?)\n\n", out, re.S).group(1).split())
            self.assertEqual(shown, line.replace("*", ""))
            told |= set(re.findall(r"^  (--[a-z-]+)", out, re.M))
        self.assertEqual(told, set(re.findall(r"^\*(--[a-z-]+)\*", page, re.M)))


class Status(CliTest):
    def status(self, url, expected, *more):
        came = self.run_weir("fleet", "status", *more, env={"WEIR_STORE": url})
        self.assertEqual(came[0], expected, came)
        return came

    def test_a_single_server(self):
        with Store() as store:
            out = self.expect(["fleet", "status", "--store", store.url], YES, err="")[1]
            self.assertRegex(out, r"\Astore redis://127\.0\.0\.1:%d script=[0-9a-f]{12}\n" % store.port)
            self.assertEqual([(m[0], m[1], m[4]) for m in ONE_LINE.findall(out)],
                             [(f"127.0.0.1:{store.port}", "master", "not-loaded")])
            shown = json.loads(self.status(store.url, YES, "--json")[1])
            node = shown["nodes"][0]
            self.assertEqual((shown["kind"], shown["reachable"], node["role"], node["reachable"], node["why"], node["server"]),
                             ("one", True, "master", True, None, "redis"))
            self.assertTrue(0 < node["ping_min"] <= node["ping_median"])
            record = store.command("GET", "weir:1:{0}:incarnation").decode().split()
            self.assertEqual(node["incarnation"]["id"], record[0])
            self.assertEqual(round(node["incarnation"]["began_at"] * 1e6), int(record[1]))

            # With a contract that says where.
            contract = self.write("weir.yaml", LIMITS.replace("{ deadline", f"{{ url: '{store.url}', deadline"))
            self.expect(["fleet", "status", contract], YES, err="")

            store.command("REPLICAOF", "127.0.0.1", "1")
            _, out, err = self.status(store.url, UNDECIDED)
            self.assertIn(f"127.0.0.1:{store.port} replica ping=", out)
            self.assertIn(f"127.0.0.1:{store.port} does not serve: it is a replica", err)

    def test_one_that_answers_and_takes_no_write(self):
        with Store() as store:
            store.command("CONFIG", "SET", "maxmemory", "1")
            _, out, err = self.status(store.url, UNDECIDED)
            self.assertRegex(out, r'master ping=.* refuses="OOM command not allowed [^"]+"\n')
            self.assertIn(f"127.0.0.1:{store.port} does not serve: OOM command not allowed", err)
            shown = json.loads(self.status(store.url, UNDECIDED, "--json")[1])
            self.assertEqual((shown["reachable"], shown["nodes"][0]["reachable"]), (False, True))
            self.assertIn("OOM", shown["nodes"][0]["why"])
            self.assertEqual(store.command("DBSIZE"), 0)  # the attempt left nothing behind
            store.command("CONFIG", "SET", "maxmemory", "0")
            self.assertEqual(self.status(store.url, YES)[2], "")
            self.assertEqual(store.command("KEYS", "weir:*status"), [])

    def test_a_node_of_a_cluster_is_no_single_server(self):
        contract = self.write("weir.yaml", LIMITS)
        cure = "it is a node of a Cluster: write redis+cluster://HOST:PORT"
        with Cluster() as cluster:
            for node in cluster.nodes:
                _, _, err = self.status(f"redis://127.0.0.1:{node.port}", UNDECIDED)
                self.assertIn(f"127.0.0.1:{node.port} does not serve: {cure}", err)
                came = self.run_weir("fleet", "keys", contract, "--limit", "tenant-requests",
                                     env={"WEIR_STORE": f"redis://127.0.0.1:{node.port}"})
                self.assertEqual(came, (UNDECIDED, "", f"weir fleet keys: redis://127.0.0.1:{node.port}: {cure}\n"))
            cluster.nodes[2].kill()
            for node in cluster.nodes[:2]:
                node.command("CONFIG", "SET", "cluster-node-timeout", "500")
            wait_for(lambda: all(b"cluster_state:fail" in node.command("CLUSTER", "INFO") for node in cluster.nodes[:2]))
            _, out, err = self.status(cluster.url, UNDECIDED)
            for node in cluster.nodes[:2]:
                self.assertIn(f"127.0.0.1:{node.port} does not serve: CLUSTERDOWN", err)
            self.assertEqual(out.count('refuses="CLUSTERDOWN'), 2)

    def test_which_store_is_said_where_none_is_named(self):
        came = self.run_weir("fleet", "status")
        self.assertEqual(came[:2], (WRONG, ""))
        self.assertRegex(came[2], r"\Aweir fleet status: which store\? give --store URL or set WEIR_STORE; .*\n\Z")

    def test_what_helps_is_said(self):
        with Store(password="geheim") as store:
            _, _, err = self.status(f"redis://127.0.0.1:{store.port}", UNDECIDED)
            self.assertIn("it wants a password: write redis://:PASSWORD@HOST:PORT into WEIR_STORE", err)

    def test_a_server_that_is_not_there(self):
        port = free_port()
        _, out, _ = self.status(f"redis://127.0.0.1:{port}", UNDECIDED)
        self.assertIn(f'127.0.0.1:{port} unknown unreachable why="connection refused"', out)
        shown = json.loads(self.status(f"redis://127.0.0.1:{port}", UNDECIDED, "--json")[1])
        self.assertEqual((shown["reachable"], shown["nodes"][0]["why"]), (False, "connection refused"))

    def test_passwords_are_used_and_never_shown(self):
        with Store(password="geheim") as store:
            for more in ((), ("--json",)):
                _, out, err = self.status(store.url, YES, *more)
                self.assertNotIn("geheim", out + err)
            wrong = store.url.replace("geheim", "gehaim")
            _, out, err = self.status(wrong, UNDECIDED)
            self.assertNotIn("gehaim", out + err)
            self.assertIn('why="WRONGPASS', out)
        with Store(acl="user default off\nuser weir on >geheim ~weir:* -@all +ping") as store:
            _, out, err = self.status(store.url_as("weir", "geheim"), YES)
            self.assertRegex(out, r"master ping=[\d.]+ms min=[\d.]+ms script=unknown\n")  # it may do nothing else

    def test_unix_sockets_and_tls(self):
        with Store(unix=True) as store:
            out = self.status(store.url, YES)[1]
            self.assertRegex(out, r"\n/\S+ master ping=")
        with Store(tls=True) as store:
            self.assertEqual(json.loads(self.status(store.url, YES, "--json")[1])["nodes"][0]["role"], "master")
            _, out, _ = self.status(f"rediss://127.0.0.1:{store.port}", UNDECIDED)  # whose authority nobody knows
            self.assertRegex(out, r'unreachable why=".*certificate.*"')

    def test_a_frozen_server_is_given_up(self):
        with Store() as store:
            store.freeze()
            try:
                _, out, _ = self.status(store.url, UNDECIDED)
            finally:
                store.thaw()
            self.assertRegex(out, r"unreachable why=\".+\"\n")

    def test_a_cluster_and_what_of_it_has_gone(self):
        with Cluster() as cluster:
            _, out, err = self.status(cluster.url, YES)
            self.assertEqual(err, "")
            found = ONE_LINE.findall(out)
            self.assertEqual({m[0] for m in found}, {f"127.0.0.1:{n.port}" for n in cluster.nodes})
            self.assertEqual(sum(int(m[2].split("=")[1]) for m in found), 16384)
            self.assertEqual(len({node["incarnation"]["id"]
                                  for node in json.loads(self.status(cluster.url, YES, "--json")[1])["nodes"]}), 3)
            cluster.nodes[2].kill()
            _, out, _ = self.status(cluster.url, UNDECIDED)
            self.assertIn(f"127.0.0.1:{cluster.nodes[2].port} master slots=", out)
            self.assertIn('unreachable why="connection refused"', out)
            self.assertEqual(len(ONE_LINE.findall(out)), 2)
        with Store() as store:  # that is none
            _, _, err = self.status(store.url.replace("redis://", "redis+cluster://"), UNDECIDED)
            self.assertIn("no node gives a map of the Cluster", err)
            self.assertIn("cluster support disabled", err)

    def test_sentinels_replica_and_master(self):
        with Sentinels() as group:
            _, out, err = self.status(group.url, YES)
            self.assertEqual(err, "")
            roles = {m[0]: m[1] for m in ONE_LINE.findall(out)}
            self.assertEqual(roles.pop(f"127.0.0.1:{group.master.port}"), "master")
            self.assertEqual(roles.pop(f"127.0.0.1:{group.replica.port}"), "replica")
            self.assertEqual(roles, {f"127.0.0.1:{s.port}": "sentinel" for s in group.sentinels})
            _, _, err = self.status(re.sub(r"/\w+$", "/nobody", group.url), UNDECIDED)
            self.assertIn("no master 'nobody' is known and serves", err)
            self.assertIn("it does not know a master of this name", err)


class Keys(CliTest):
    def keys(self, url, *arguments, expected=YES, err=""):
        came = self.run_weir("fleet", "keys", self.contract, *arguments, env={"WEIR_STORE": url})
        self.assertEqual((came[0], came[2]), (expected, err), came)
        return came[1]

    def found(self, url, *arguments, **how):
        return [json.loads(line) for line in self.keys(url, "--json", *arguments, **how).splitlines()]

    def spend(self, server, path, *tenants):
        for tenant in tenants:
            self.expect(["check", "--server", server.url, f"tenant={tenant}", f"path={path}"], YES)

    def setUp(self):
        super().setUp()
        self.contract = self.write("weir.yaml", LIMITS)

    def test_what_is_counted_is_shown_and_forgotten(self):
        long = "x" * 300
        with Store() as store, Server(self.contract, self.folder, "--store", store.url) as server:
            await_store(server)
            self.assertEqual(self.keys(store.url, "--limit", "tenant-requests"), "")
            self.spend(server, "/a", "acme", "acme", "a b:%{}", "big", "free", long)
            self.spend(server, "/b", "acme")

            shown = {tuple(key["key"].values()) if key["key"] else None: key
                     for key in self.found(store.url, "--limit", "tenant-requests")}
            self.assertEqual({values: (key["capacity"], key["remaining"]) for values, key in shown.items()},
                             {("acme", "/a"): (20, 18), ("acme", "/b"): (20, 19), ("a b:%{}", "/a"): (20, 19),
                              ("big", "/a"): (40, 39), None: (None, None)})
            acme = shown["acme", "/a"]
            self.assertEqual(acme["key"], {"tenant": "acme", "path": "/a"})
            self.assertTrue(0 < acme["reset_after"] <= 24 and acme["reset_after"] <= acme["ttl"] < 120, acme)

            out = self.keys(store.url, "--limit", "tenant-requests", "path=/b")
            self.assertRegex(out, r"\Atenant=acme,path=/b remaining=19/20 reset=[\d.]+s ttl=[\d.]+s\n\Z")
            self.assertIn("tenant=a%20b%3A%25%7B%7D,path=/a ", self.keys(store.url, "--limit", "tenant-requests"))
            self.assertRegex(self.keys(store.url, "--limit", "tenant-requests", f"tenant={long}", "path=/a"),
                             r"\A~[0-9a-f]{64} remaining=19/20 ")
            self.assertEqual(self.keys(store.url, "--limit", "tenant-requests", "tenant=new", "path=/a"),
                             "tenant=new,path=/a remaining=20/20 reset=0s absent\n")
            self.assertEqual(self.keys(store.url, "--limit", "tenant-requests", "tenant=free", "path=/a"),
                             "tenant=free,path=/a unlimited absent\n")
            self.assertRegex(self.keys(store.url, "--limit", "everything"),
                             r"\Aeverything remaining=93/100 reset=\d+[\d.]*s ttl=\d+[\d.]*s\n\Z")

            # A look took nothing; one key is forgotten, the others stay.
            out = self.keys(store.url, "--limit", "tenant-requests", "tenant=acme", "path=/a", "--reset", err="1 forgotten\n")
            self.assertRegex(out, r"\Atenant=acme,path=/a remaining=18/20 .* forgotten\n\Z")
            self.assertEqual(len(self.found(store.url, "--limit", "tenant-requests")), 4)
            out = self.expect(["check", "--server", server.url, "tenant=acme", "path=/a", "--json"], YES)[1]
            limits = {limit["limit"]: limit for limit in json.loads(out)["limits"]}
            self.assertEqual(limits["tenant-requests"]["remaining"], 19)  # of a fresh 20

            self.keys(store.url, "--limit", "tenant-requests", "tenant=acme", "--reset", "--all", "--yes", err="2 forgotten\n")
            self.keys(store.url, "--limit", "tenant-requests", "--reset", "--all", "--yes", err="3 forgotten\n")
            self.assertEqual(self.keys(store.url, "--limit", "tenant-requests"), "")
            self.assertEqual(len(self.found(store.url, "--limit", "everything")), 1)
            self.keys(store.url, "--limit", "everything", "--reset", err="1 forgotten\n")
            self.assertEqual([key["present"] for key in self.found(store.url, "--limit", "everything")], [False])

            # What is not there is not forgotten.
            self.assertEqual(self.keys(store.url, "--limit", "everything", "--reset", err="0 forgotten\n"),
                             "everything remaining=100/100 reset=0s absent\n")
            gone = self.found(store.url, "--limit", "everything", "--reset")
            self.assertEqual([(key["present"], key["forgotten"]) for key in gone], [(False, False)])

    def test_nothing_is_forgotten_because_of_a_variable(self):
        name = "weir:1:{tenant=acme}:tenant-requests:f:path=/a"
        left_over = {"WEIR_RESET": "1", "WEIR_ALL": "1", "WEIR_YES": "1", "WEIR_LIMIT": "tenant-requests"}
        with Store() as store:
            store.command("SET", name, "hello", "PX", "100000")
            status, out, err = self.run_weir("fleet", "keys", self.contract, env={"WEIR_STORE": store.url, **left_over})
            self.assertEqual((status, err), (YES, ""))  # shown, as WEIR_LIMIT says
            self.assertIn("tenant=acme,path=/a ", out)
            status, out, err = self.run_weir("fleet", "keys", self.contract, "--reset", "--all", "--yes",
                                             env={"WEIR_STORE": store.url, **left_over})
            self.assertEqual((status, out), (WRONG, ""))
            self.assertIn("whose keys is said by --limit NAME", err)
            self.assertEqual(store.command("EXISTS", name), 1)

    def test_permits(self):
        with Store() as store, Server(self.contract, self.folder, "--store", store.url) as server:
            await_store(server)
            body = json.dumps({"attributes": {"tenant": "acme", "path": "/jobs"}}).encode()
            for _ in range(2):
                with urllib.request.urlopen(urllib.request.Request(server.url + "/v1/acquire", body)) as reply:
                    self.assertEqual(json.load(reply)["decision"], "allow")
            self.assertRegex(self.keys(store.url, "--limit", "jobs"), r"\Atenant=acme remaining=1/3 reset=[\d.]+s ttl=[\d.]+s\n\Z")
            self.keys(store.url, "--limit", "jobs", "tenant=acme", "--reset", err="1 forgotten\n")
            self.assertEqual(self.keys(store.url, "--limit", "jobs", "tenant=acme"),
                             "tenant=acme remaining=3/3 reset=0s absent\n")

    def test_foreign_and_damaged_keys(self):
        with Store() as store:
            store.command("SET", "weir:1:{tenant=acme}:tenant-requests:b:path=/a", "hello")  # B35
            store.command("SET", "weir:1:{tenant=acme}:tenant-requests:x:path=/a", "1")
            store.command("SET", "weir:1:{tenant=acme}:tenant-requests", "1")
            store.command("SET", "other", "1")
            store.command("SET", "weir:1:{tenant=acme}:tenant-requests:f:path=/a", "1")  # of another algorithm, before
            found = {key["name"]: key for key in self.found(store.url, "--limit", "tenant-requests")}
            self.assertEqual(set(found), {"weir:1:{tenant=acme}:tenant-requests:b:path=/a",
                                          "weir:1:{tenant=acme}:tenant-requests:f:path=/a"})
            self.assertEqual(found["weir:1:{tenant=acme}:tenant-requests:b:path=/a"]["remaining"], 20)
            self.assertIsNone(found["weir:1:{tenant=acme}:tenant-requests:f:path=/a"]["remaining"])
            self.assertIn("ttl=never", self.keys(store.url, "--limit", "tenant-requests"))

    def test_thousands_over_a_cluster(self):
        with Cluster() as cluster:
            owner = {slot: index for index, (first, last) in enumerate(((0, 5460), (5461, 10922), (10923, 16383)))
                     for slot in range(first, last + 1)}
            for n in range(3000):
                name = "weir:1:{tenant=t%d}:tenant-requests:f:path=/" % n  # of another algorithm: not looked into
                cluster.nodes[owner[slot_of(name)]].command("SET", name, "x")
            found = self.found(cluster.url, "--limit", "tenant-requests")
            self.assertEqual(len(found), 3000)
            self.assertEqual(len({key["name"] for key in found}), 3000)
            self.keys(cluster.url, "--limit", "tenant-requests", "--reset", "--all", "--yes", err="3000 forgotten\n")
            self.assertEqual(self.keys(cluster.url, "--limit", "tenant-requests"), "")

    def test_a_part_of_a_cluster_is_not_taken_for_all(self):
        with Cluster() as cluster:
            cluster.nodes[1].kill()
            status, _, err = self.run_weir("fleet", "keys", self.contract, "--limit", "tenant-requests",
                                           env={"WEIR_STORE": cluster.url})
            self.assertEqual(status, UNDECIDED)
            self.assertIn(f"weir fleet keys: {cluster.url}: 127.0.0.1:{cluster.nodes[1].port}: connection refused", err)

    def test_a_store_that_is_away(self):
        url = f"redis://127.0.0.1:{free_port()}"
        for arguments in (("--limit", "tenant-requests"), ("--limit", "everything", "--reset")):
            self.keys(url, *arguments, expected=UNDECIDED,
                      err=f"weir fleet keys: {url}: {url[8:]}: connection refused\n")

    def test_a_person_is_asked_before_many_are_forgotten(self):
        import pty
        import subprocess
        from cli import WEIR, clean_environment
        with Store() as store:
            for answer, status, left in ((b"n\n", NO, True), (b"y\n", YES, False)):
                store.command("SET", "weir:1:{tenant=acme}:tenant-requests:b:path=/a", "hello")
                ours, theirs = pty.openpty()
                with os.fdopen(theirs, "rb") as stdin:
                    os.write(ours, answer)
                    done = subprocess.run([WEIR, "fleet", "keys", self.contract, "--limit", "tenant-requests", "--reset", "--all"],
                                          stdin=stdin, capture_output=True, timeout=60,
                                          env=clean_environment({"WEIR_STORE": store.url}))
                os.close(ours)
                self.assertEqual(done.returncode, status, done)
                self.assertIn(b"forget the keys of 'tenant-requests' in redis://", done.stderr)
                self.assertEqual(store.command("EXISTS", "weir:1:{tenant=acme}:tenant-requests:b:path=/a") == 1, left)


if __name__ == "__main__":
    unittest.main(verbosity=2)
