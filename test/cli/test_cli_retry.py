#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir check --retry`: which replies are asked for again, when, how often, and what is left to say at the end.

Servers here answer from a script and note when they were asked. A time is only ever checked from below (never early) or
read from what the program announced; nothing depends on how fast this machine is.
"""

import json
import re
import socket
import threading
import time
import unittest

from cli import CONTRACT, NO, UNDECIDED, WRONG, YES, CliTest, Server


class Stub:
    """Answers one request a connection with the next reply of its script, the last one again and again."""

    def __init__(self, *replies):
        self.replies = replies
        self.asked = []  # (monotonic time, body) of each request
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, args=(self.listener.dup(),), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.listener.close()

    def serve(self, listener):
        while True:
            connection, _ = listener.accept()
            with connection:
                try:
                    self.answer(connection)
                except OSError:  # the client has seen enough
                    pass

    def answer(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        while len(body) < length:
            body += connection.recv(65536)
        self.asked.append((time.monotonic(), json.loads(body)))
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        connection.sendall(reply)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


def http(status, body="", *fields):
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", "Connection: close", *fields, "", body]
    return "\r\n".join(lines).encode()


def decision(word, retry_after, limit="l", status=200, fields=()):
    return http(status, json.dumps({"decision": word, "limit": limit, "policy": None, "reason": None, "capacity": 7,
                                    "remaining": 0, "retry_after": retry_after, "reset_after": 1, "limits": []}), *fields)


ALLOW = decision("allow", 0)
ALLOWED = "allow l remaining=0/7 reset=1s\n"
NEXT = r"; next in ([0-9.]+)s\n"


class Retry(CliTest):
    def ask(self, stub, status, out, *arguments):
        """Runs it; gives the lines of standard error."""
        _, _, err = self.expect(["check", "--server", stub.url, "a=b", "--retry", *arguments], status, out)
        return err

    def test_a_denial_is_asked_again_after_the_time_it_names(self):
        rows = (("the decision's own time, which is exact", decision("deny", 0.3, status=429, fields=("Retry-After: 1",)),
                 "deny l retry=0.3s", 0.3, 0.4),
                ("as weir answers where it is asked to", decision("deny", 0.3), "deny l retry=0.3s", 0.3, 0.4),
                ("a quarter of a long time is more than the backoff", decision("deny", 0.8), "deny l retry=0.8s", 0.8, 1.0),
                ("another service's 429", http(429, "slow down", "Retry-After: 1"), "URL: status 429 retry=1s", 1, 1.25),
                ("names in any case", http(429, "", "RETRY-after:1"), "URL: status 429 retry=1s", 1, 1.25),
                ("503", http(503, "", "Retry-After: 1"), "URL: status 503 retry=1s", 1, 1.25),
                ("undecided", decision("refused", 0.2), "refused l retry=0.2s", 0.2, 0.3),
                ("no time at all", decision("deny", None), "deny l", 0, 0.1),
                ("a date that is over", http(503, "", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"),
                 "URL: status 503 retry=0s", 0, 0.1),
                ("garbage is no time", http(503, "", "Retry-After: soon"), "URL: status 503", 0, 0.1),
                ("nor is a fraction", http(429, "", "Retry-After: 0.5"), "URL: status 429", 0, 0.1),
                ("nor a negative one", http(429, "", "Retry-After: -1"), "URL: status 429", 0, 0.1))
        for why, reply, text, least, most in rows:
            with self.subTest(why), Stub(reply, ALLOW) as stub:
                err = self.ask(stub, YES, ALLOWED)
                told = re.fullmatch("attempt 1: " + re.escape(text.replace("URL", stub.url)) + NEXT
                                    + "attempt 2: allow l\n", err)
                self.assertIsNotNone(told, err)
                self.assertTrue(least <= float(told.group(1)) <= most + 0.001, err)
                self.assertEqual(len(stub.asked), 2)
                self.assertGreaterEqual(stub.asked[1][0] - stub.asked[0][0], least)

    def test_three_attempts_and_the_last_answer_is_the_answer(self):
        with Stub(decision("deny", 0), decision("deny", 0.1), decision("deny", 0.2)) as stub:
            err = self.ask(stub, NO, "deny l remaining=0/7 retry=0.2s\n")
            self.assertRegex(err, r"\Aattempt 1: deny l retry=0s" + NEXT + "attempt 2: deny l retry=0.1s" + NEXT
                             + r"attempt 3: deny l retry=0.2s; gave up: attempts\n\Z")
            self.assertEqual(len(stub.asked), 3)
        with Stub(http(503)) as stub:
            err = self.ask(stub, UNDECIDED, "")
            self.assertRegex(err, r"(?s)\Aattempt 1: .*\nattempt 2: .*\nattempt 3: [^\n]+; gave up: attempts\n"
                             + f"weir check: {stub.url}: status 503\n\\Z")
        with Stub(decision("refused", 0)) as stub:
            self.ask(stub, UNDECIDED, "refused l remaining=0/7 retry=0s\n")
            self.assertEqual(len(stub.asked), 3)

    def test_what_is_not_asked_again(self):
        rows = (("never", decision("never", None), NO, "never l remaining=0/7\n", "never l; gave up: never"),
                ("never, as 429", decision("never", None, status=429), NO, "never l remaining=0/7\n",
                 "never l; gave up: never"),
                ("a page", http(200, "<html>"), UNDECIDED, "", "URL: the answer is not a decision; gave up: final"),
                ("a fault of the request", http(400, '{"detail": "bad"}'), WRONG, "", "URL: status 400: bad; gave up: final"),
                ("no such call", http(404), UNDECIDED, "", "URL: status 404; gave up: final"),
                ("a server's own error", http(500), UNDECIDED, "", "URL: status 500; gave up: final"),
                ("nothing in it", http(204), UNDECIDED, "", "URL: status 204; gave up: final"),
                ("an hour is too long", decision("deny", 3600), NO, "deny l remaining=0/7 retry=3600s\n",
                 "deny l retry=3600s; gave up: deadline"),
                ("longer than all time", http(429, "", "Retry-After: 99999999999999999999"), UNDECIDED, "",
                 "URL: status 429 retry=18446744073.709s; gave up: deadline"),
                ("cut before the answer", b"", UNDECIDED, "",
                 "URL: the server closed the connection without an answer; gave up: lost"),
                ("cut within it", ALLOW[:-5], UNDECIDED, "",
                 "URL: the server closed the connection within its answer; gave up: lost"),
                ("no HTTP", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", UNDECIDED, "", "URL: the reply is not HTTP/1.1; gave up: lost"),
                ("a gateway that gave up", http(504), UNDECIDED, "", "URL: status 504; gave up: lost"))
        for why, reply, status, out, text in rows:
            with self.subTest(why), Stub(reply, ALLOW) as stub:
                err = self.ask(stub, status, out)
                self.assertEqual(err.splitlines()[0], "attempt 1: " + text.replace("URL", stub.url))
                # Without an answer on standard output the last line says why, as without --retry.
                self.assertEqual(len(err.splitlines()), 1 if out else 2, err)
                self.assertEqual(len(stub.asked), 1)

    def test_lost_requests_are_repeated_where_that_does_no_harm(self):
        for why, arguments in (("the server can tell a retry", ["request-id=7"]), ("it was a look", ["--cost", "0"])):
            with self.subTest(why), Stub(b"", ALLOW[:-5], ALLOW) as stub:
                err = self.ask(stub, YES, ALLOWED, *arguments)
                self.assertRegex(err, r"\Aattempt 1: .* without an answer" + NEXT + "attempt 2: .* within its answer" + NEXT
                                 + r"attempt 3: allow l\n\Z")

    def test_a_server_that_is_not_there_was_not_asked(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = "http://127.0.0.1:%d" % listener.getsockname()[1]
        _, _, err = self.expect(["check", "--server", url, "a=b", "--retry", "--times", "5"], UNDECIDED, "")
        refused = re.escape(url) + ": Connection refused"
        self.assertRegex(err, rf"\Aattempt 1: {refused}{NEXT}attempt 2: {refused}{NEXT}"
                         rf"attempt 3: {refused}; gave up: attempts\nweir check: {refused}\n\Z")

    def test_the_caller_says_how_long(self):
        """--wait is for the server and for the retries together: the last attempt begins within it."""
        with Stub(decision("deny", 0.2), decision("deny", 0.1), ALLOW) as stub:
            self.ask(stub, YES, ALLOWED, "--wait", "30s")
            waits = [body["wait"] for _, body in stub.asked]
            self.assertEqual(len(waits), 3)
            self.assertTrue(30 >= waits[0] and waits[0] - 0.2 >= waits[1] and waits[1] - 0.1 >= waits[2] > 0, waits)
        with Stub(decision("deny", 2)) as stub:
            err = self.ask(stub, NO, "deny l remaining=0/7 retry=2s\n", "--wait", "1s")
            self.assertEqual(err, "attempt 1: deny l retry=2s; gave up: deadline\n")
        with Stub(decision("deny", 0.2), ALLOW) as stub:
            self.ask(stub, YES, ALLOWED)
            self.assertTrue(all("wait" not in body for _, body in stub.asked))

    def test_wait_alone_is_one_question(self):
        with Stub(decision("deny", 0.2)) as stub:
            self.expect(["check", "--server", stub.url, "a=b", "--wait", "1m1s500ms"], NO, "deny l remaining=0/7 retry=0.2s\n", "")
            self.assertEqual([body.get("wait") for _, body in stub.asked], [61.5])
        waited = http(200, '{"decision": "allow", "limit": "l", "remaining": 0, "capacity": 7, "reset_after": 1,'
                           ' "retry_after": 0, "waited": 0.25}')
        with Stub(waited) as stub:
            self.expect(["check", "--server", stub.url, "a=b", "--wait", "1s"], YES,
                        "allow l remaining=0/7 reset=1s waited=0.25s\n", "")
            _, out, _ = self.expect(["check", "--server", stub.url, "a=b", "--wait", "1s", "--json"], YES)
            self.assertEqual(json.loads(out)["waited"], 0.25)

    def test_json_and_times(self):
        with Stub(decision("deny", 0), ALLOW, ALLOW, decision("deny", 0), ALLOW) as stub:
            err = self.ask(stub, YES, None, "--json", "--times", "3")
            self.assertRegex(err, r"\Aattempt 1: deny l retry=0s" + NEXT + r"attempt 2: allow l\nattempt 1: allow l\n"
                             + "attempt 1: deny l retry=0s" + NEXT + r"attempt 2: allow l\n\Z")
        with Stub(decision("deny", 0), ALLOW) as stub:
            _, out, _ = self.expect(["check", "--server", stub.url, "a=b", "--json"], YES, env={"WEIR_RETRY": "1"})
            self.assertEqual([json.loads(line)["decision"] for line in out.splitlines()], ["allow"])

    def test_a_server_may_steer_nobodys_terminal(self):
        with Stub(http(400, '{"detail": "\\u001b[31mred"}')) as stub:
            self.assertNotIn("\033", self.ask(stub, WRONG, ""))

    def test_with_a_real_server(self):
        """5 a second, one at once: each request behind the first is refused once, and passes when it was told."""
        contract = self.write("weir.yaml", CONTRACT.replace("20", "1"))
        with Server(contract, self.folder) as server:
            _, out, err = self.expect(["check", "--server", server.url, "tenant=acme", "--times", "4", "--retry"], YES)
            self.assertEqual([line.split()[0] for line in out.splitlines()], 4 * ["allow"])
            for line in err.splitlines():
                self.assertRegex(line, r"\Aattempt [12]: (allow tenant-requests"
                                       r"|deny tenant-requests retry=0(\.[0-9]+)?s; next in [0-9.]+s)\Z")
            self.expect(["check", "--server", server.url, "tenant=acme", "--cost", "2", "--retry"], NO,
                        err="attempt 1: never tenant-requests; gave up: never\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
