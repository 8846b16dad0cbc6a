#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir check --server`: a running server through TCP and Unix sockets, and servers that are none."""

import json
import os
import socket
import threading
import unittest

from cli import CONTRACT, NO, UNDECIDED, WRONG, YES, CliTest, Server

SECRET = "0123456789abcdef"


def answer(reply, keeps=False):
    """A listener that answers with these bytes, and closes the connection or waits for more. Gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    own = listener.dup()  # a number that is not given to the next test's listener while this thread is in accept()

    def serve():
        while True:
            connection, _ = own.accept()
            with connection:
                try:
                    while connection.recv(65536):
                        connection.sendall(reply)
                        if not keeps:
                            connection.shutdown(socket.SHUT_WR)
                            while connection.recv(65536):  # closing before all is read would reset the connection
                                pass
                            break
                except OSError:  # the client has seen enough
                    pass

    threading.Thread(target=serve, daemon=True).start()
    return listener, listener.getsockname()[1]


def http(body, head="HTTP/1.1 200 OK\r\nContent-Length: %d\r\n"):
    body = body.encode()
    return (head % len(body) if "%d" in head else head).encode() + b"\r\n" + body


DECISION = ('{"decision": "deny", "limit": "l", "policy": null, "reason": null, "capacity": 7, "remaining": 0,'
            ' "retry_after": 1.5, "reset_after": null, "limits": [], "new": {"in": ["a", {"later": null}]}}')


class Remote(CliTest):
    def setUp(self):
        super().setUp()
        self.contract = self.write("weir.yaml", CONTRACT.replace("5/s", "1/1h").replace("20", "3"))

    def test_a_server_remembers_what_was_spent(self):
        with Server(self.contract, self.folder) as server:
            ask = ["check", "--server", server.url, "tenant=acme"]
            _, out, err = self.expect([*ask, "--times", "4"], NO)
            self.assertEqual(err, "")
            words = [line.split() for line in out.splitlines()]
            self.assertEqual([w[:3] for w in words],
                             [["allow", "tenant-requests", f"remaining={i}/3"] for i in (2, 1, 0)]
                             + [["deny", "tenant-requests", "remaining=0/3"]])
            self.assertTrue(words[0][3].startswith("reset="))
            self.assertTrue(words[3][3].startswith("retry="))
            self.expect([*ask], NO)
            self.expect([*ask, "--peek"], NO)
            self.assertEqual(self.expect([*ask, "--cost", "4"], NO)[1], "never tenant-requests remaining=0/3\n")
            self.expect(["check", "--server", server.url + "/", "tenant=other"], YES)
            self.expect(["check", "--server", server.url, "path=/x"], YES, "allow (no limit)\n")
            self.expect(["check", "tenant=third"], YES, env={"WEIR_SERVER": server.url})

            _, out, _ = self.expect([*ask, "--json", "--times", "2"], NO)
            answers = [json.loads(line) for line in out.splitlines()]
            self.assertEqual([a["decision"] for a in answers], ["deny", "deny"])
            self.assertEqual(answers[0]["limits"][0]["limit"], "tenant-requests")
            self.assertNotIn("status", answers[0])

            _, out, err = self.expect(["check", "--server", server.url, "Tenant=acme"], WRONG, "")
            self.assertRegex(err, r"\Aweir check: http://[0-9.:]+: status 400: .*Tenant.*\n\Z")
            odd = 'quote" back\\slash \u00fc'
            self.expect(["check", "--server", server.url, "tenant=" + odd, "--times", "3"], YES)
            self.expect(["check", "--server", server.url, "tenant=" + odd], NO)

    def test_a_unix_socket(self):
        path = os.path.join(self.folder, "door.sock")
        with Server(self.contract, self.folder, "--http", "unix:" + path):
            out = self.expect(["check", "--server", "unix:" + path, "tenant=acme"], YES)[1]
            self.assertTrue(out.startswith("allow tenant-requests remaining=2/3 "), out)

    def test_tokens_come_from_files_or_the_environment(self):
        tokens = self.write("tokens", f"check {SECRET} tester\n")
        secret = self.write("secret", SECRET + "\n")
        other = self.write("other", "fedcba9876543210\n")
        os.chmod(tokens, 0o600)
        with Server(self.contract, self.folder, "--tokens", tokens) as server:
            ask = ["check", "--server", server.url, "tenant=acme"]
            self.expect([*ask, "--token-file", secret], YES)
            self.expect(ask, YES, env={"WEIR_TOKEN": SECRET})
            self.expect(ask, YES, env={"WEIR_TOKEN_FILE": secret})
            for why, arguments in (("no token", []), ("another", ["--token-file", other])):
                with self.subTest(why):
                    err = self.expect([*ask, *arguments], WRONG, "")[2]
                    self.assertRegex(err, r"\Aweir check: http://[0-9.:]+: status 40[13]: [^\n]+\n\Z")
                    self.assertNotIn("fedcba9876543210", err)

    def test_token_files_that_hold_none(self):
        ask = ["check", "--server", "http://127.0.0.1:1", "tenant=acme", "--token-file"]
        rows = (("missing", os.path.join(self.folder, "none"), "No such file or directory\n"),
                ("empty", self.write("empty", ""), "the file is empty\n"),
                ("a blank inside", self.write("blank", "a b\n"), "give the secret alone\n"),
                ("a folder", self.folder, "Is a directory\n"))
        for why, path, end in rows:
            with self.subTest(why):
                err = self.expect([*ask, path], WRONG, "")[2]
                self.assertTrue(err.startswith("weir check: ") and err.endswith(end), err)

    def test_a_server_that_is_not_there(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        self.expect(["check", "--server", f"http://127.0.0.1:{port}", "tenant=acme", "--times", "5"], UNDECIDED, "",
                    f"weir check: http://127.0.0.1:{port}: Connection refused\n")
        path = os.path.join(self.folder, "none.sock")
        self.expect(["check", "--server", "unix:" + path, "tenant=acme"], UNDECIDED, "",
                    f"weir check: unix:{path}: No such file or directory\n")

    def test_replies_in_every_framing(self):
        chunks = "".join(f"{1:x};x=y\r\n{c}\r\n" for c in DECISION) + "0\r\nA: b\r\n\r\n"
        rows = (("a length", http(DECISION)),
                ("chunks", http(chunks, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")),
                ("until the end", http(DECISION, "HTTP/1.1 200 OK\r\n")),
                ("HTTP/1.0", http(DECISION, "HTTP/1.0 200 OK\r\n")),
                ("behind a 100", b"HTTP/1.1 100 Continue\r\n\r\n" + http(DECISION)),
                ("names in any case", http(DECISION, "HTTP/1.1 200 OK\r\ncontent-LENGTH:%d\r\nCONNECTION: Close\r\n")),
                ("with a line end", http(DECISION + "\n")))
        for why, reply in rows:
            with self.subTest(why):
                listener, port = answer(reply, keeps=why in ("a length", "chunks", "behind a 100", "with a line end"))
                with listener:
                    self.expect(["check", "--server", f"http://127.0.0.1:{port}", "a=b", "--times", "2"], NO,
                                2 * "deny l remaining=0/7 retry=1.5s\n", "")

    def test_replies_that_are_no_decision(self):
        rows = (("nothing", b"", "the server closed the connection without an answer"),
                ("half a head", b"HTTP/1.1 200 OK\r\nContent-", "the server closed the connection within its answer"),
                ("half a body", http(DECISION)[:-20], "the server closed the connection within its answer"),
                ("half a chunk", http("5\r\nab", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"),
                 "the server closed the connection within its answer"),
                ("no HTTP", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the reply is not HTTP/1.1"),
                ("no status", b"HTTP/1.1 abc OK\r\n\r\n", "the reply is not HTTP/1.1"),
                ("a length that is none", http(DECISION, "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n"),
                 "the reply is not HTTP/1.1"),
                ("a length beyond all bounds", http("x", "HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n"),
                 "the reply is not HTTP/1.1"),
                ("chunks that are none", http("zz\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"),
                 "the reply's chunks are malformed"),
                ("without end", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200000, "the reply is too long to be weir's"),
                ("a head without end", b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200000, "the reply is too long to be weir's"),
                ("another server", http("<html>"), "the answer is not a decision"),
                ("no object", http("[]"), "the answer is not a decision"),
                ("no decision", http('{"limit": null}'), "the answer is not a decision"),
                ("a decision that is none", http('{"decision": "perhaps"}'), "the answer is not a decision"),
                ("a time that is none", http('{"decision": "allow", "retry_after": 1e3}'),
                 "the answer is not a decision"),
                ("a name that is too long", http('{"decision": "allow", "limit": "%s"}' % ("a" * 64)),
                 "the answer is not a decision"),
                ("a name that steers the terminal", http('{"decision": "allow", "limit": "\\u001b[31ma"}'),
                 "the answer is not a decision"),
                ("65 limits", http('{"decision": "allow", "limits": [%s]}' % ",".join(["{}"] * 65)),
                 "the answer is not a decision"),
                ("too deep", http('{"a": ' + "[" * 100), "the answer is not a decision"),
                ("a server error", http("", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n"), "status 500"),
                ("another service", http("{}", "HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n"), "status 404"))
        for why, reply, end in rows:
            with self.subTest(why):
                listener, port = answer(reply)
                with listener:
                    self.expect(["check", "--server", f"http://127.0.0.1:{port}", "a=b"], UNDECIDED, "",
                                f"weir check: http://127.0.0.1:{port}: {end}\n")

    def test_a_server_that_never_answers_is_given_up(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            self.expect(["check", "--server", f"http://127.0.0.1:{port}", "a=b"], UNDECIDED, "",
                        f"weir check: http://127.0.0.1:{port}: no answer in time\n")

    def test_a_refused_decision_is_undecided(self):
        refused = ('{"decision": "refused", "limit": "l", "policy": "closed", "reason": "full", "capacity": 2,'
                   ' "remaining": null, "retry_after": 1, "reset_after": null, "limits": []}')
        listener, port = answer(http(refused))
        with listener:
            self.expect(["check", "--server", f"http://127.0.0.1:{port}", "a=b"], UNDECIDED,
                        "refused l retry=1s policy=closed reason=full\n", "")

    def test_serve_tells_mistakes_with_status_2(self):
        for why, arguments in (("an address that is none", ["--http", "nowhere"]), ("a port that is none", ["--http", "65536"]),
                               ("an admin address that is none", ["--http", "0", "--admin", "nowhere"]),
                               ("tokens that are not there", ["--tokens", "none"])):
            with self.subTest(why):
                self.expect(["serve", self.contract, *arguments], WRONG, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
