# SPDX-License-Identifier: Apache-2.0
"""Generated request heads, read by our parser and by Node's HTTP server: each difference must be a known one.

The known ones are CLASSES below and, with their reasons, the table of docs/http-parser.md; the two lists must agree.
A difference that fits no class fails the test and is printed with its seed. Heads come from a grammar that likes the
edges (three in five are then mutated) and from a list of shapes that have been used in attacks.
"""

import collections
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("WEIR_SOURCE", os.getcwd())
BUILD = os.environ.get("WEIR_BUILD", "build")
SEED = int(os.environ.get("WEIR_SEED", "20260109"))
COUNT = int(os.environ.get("WEIR_HEADS", "20000"))

# ---- Heads ------------------------------------------------------------------------------------------------------

METHODS = [b"GET"] * 8 + [b"POST"] * 4 + [b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE",
                                          b"PROPFIND", b"get", b"FOO", b"M-SEARCH", b"PRI", b"*", b"G!", b""]
TARGETS = [b"/"] * 6 + [b"/v1/check?status=200", b"/v1/auth/a/b?c=d&e", b"*", b"http://weir/x", b"https://weir:80/?q",
                        b"http://other/", b"http://", b"http:///", b"http://u:p@weir/", b"HTTP://weir", b"ftp://weir/", b"weir:80",
                        b"//a//b", b"/%41%zz", b"/a b", b"/a#b", b"/a|{}^`\"<>\\", b"/\xc3\xa4", b"/a\tb", b"", b"?", b"a", b"/?#?",
                        b"/\x7f", b"/a;b=c", b"http://[::1]:80/", b"http://weir", b"http://weir?x", b"/" + b"x" * 300]
VERSIONS = [b"HTTP/1.1"] * 12 + [b"HTTP/1.0"] * 4 + [b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/1.10", b"HTTP/11", b"http/1.1",
                                                     b"HTTP/1.1 ", b"RTSP/1.0", b"ICE/1.0", b"HTTP/1", b"", b"HTTP/ 1.1"]
NAMES = [b"Host"] * 3 + [b"Content-Length"] * 3 + [b"Transfer-Encoding"] * 3 + [b"Connection"] * 3 + [
    b"Expect", b"Upgrade", b"X", b"x-key", b"Accept", b"Cookie", b"Authorization", b"Proxy-Connection", b"Trailer", b"TE",
    b"content-length", b"TRANSFER-ENCODING", b"Host ", b" X", b"X\t", b"", b"X(", b"X_Y", b"\xc3\xa4", b"Content-Length\x00",
    b"Content-Lengt", b"Content-Length1", b"Transfer_Encoding"]
VALUES = {
    b"host": [b"weir"] * 6 + [b"weir:8080", b"[::1]:80", b"", b"a b", b"a/b", b"a@b", b"a,b", b"\xc3\xa4", b"other"],
    b"content-length": [b"0", b"5", b"05", b"5, 5", b"5,6", b"+5", b"-5", b"0x5", b"5 5", b"", b"5;", b"5\x0b", b"18446744073709551616",
                        b"999999999999999999", b"9999999999999999999", b"1e3", b"\"5\"", b"5 "],
    b"transfer-encoding": [b"chunked"] * 4 + [b"Chunked", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked", b"identity",
                                              b"chunked;q=1", b"\"chunked\"", b" chunked", b"\x0bchunked", b"xchunked", b"chunkedx",
                                              b"", b",chunked", b"chunked,", b"chunked "],
    b"connection": [b"close", b"keep-alive", b"Keep-Alive", b"close, keep-alive", b"upgrade", b"x,close", b"close ", b"clos",
                    b"keep-alive, Upgrade", b"", b",", b"close,upgrade", b"close\tx"],
    b"expect": [b"100-continue", b"100-Continue", b"wonders", b""],
    b"upgrade": [b"h2c", b"websocket"],
}
ANY = [b"", b"a", b"a b", b"a\tb", b"\xc3\xa4", b"a\x00b", b"a\x01", b"a\x7f", b"x" * 200, b"a\rb", b"a\nb", b"a\r\n b", b"a\r\n\tb", b"a:b"]
ENDS = [b"\r\n"] * 40 + [b"\n", b"\r", b"\r\r\n", b"\r\n\r\n", b""]
BLANKS = [b" "] * 8 + [b"", b"  ", b"\t", b" \t "]
SMUGGLING = [
    b"POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding : chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding:\x0bchunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nFoo: bar\r\n Transfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nX: a\nContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nX: a\rContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: weir\r\nX: a\r\rContent-Length: 5\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: weir\r\n\rX: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: weir\r\nConnection: close, content-length\r\nContent-Length: 5\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost: weir\r\nHost: other\r\n\r\n",
    b"GET http://other/ HTTP/1.1\r\nHost: weir\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: weir\r\n\r\n",
    b"GET / HTTP/1.1\nHost: weir\n\n",
    b"GET /\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: weir\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: weir\r\n" + b"X: y\r\n" * 99 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: weir\r\n" + b"X: y\r\n" * 100 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: weir\r\nX: " + b"y" * 33000 + b"\r\n\r\n",
    b"GET /" + b"y" * 33000 + b" HTTP/1.1\r\nHost: weir\r\n\r\n",
]


def field(rng):
    name = rng.choice(NAMES)
    value = rng.choice(VALUES.get(name.strip().lower(), ANY)) if rng.random() < 0.9 else rng.choice(ANY)
    colon = b":" if rng.random() < 0.99 else rng.choice([b"", b" :", b"::", b"="])
    return name + colon + rng.choice(BLANKS) + value + rng.choice([b"", b"", b"", b" ", b"\t"])


def plain_field(rng):
    name = rng.choice([b"X", b"Accept", b"Cookie", b"x-key", b"User-Agent"])
    return name + b": " + rng.choice([b"a", b"", b"text/html, */*;q=0.8", b"a=b; c=d", b"\xc3\xa4"])


def head(rng):
    is_odd = rng.random() < 0.6
    pick = rng.choice if is_odd else lambda options: options[0]
    fields = [b"Host: weir"] if rng.random() < 0.85 else []
    fields += [field(rng) if is_odd else plain_field(rng) for _ in range(rng.choice([0, 1, 1, 2, 3, 5]))]
    rng.shuffle(fields)
    method, version = rng.choice(METHODS[:17] if not is_odd else METHODS), pick(VERSIONS)
    target = rng.choice(TARGETS) if is_odd or rng.random() < 0.3 else b"/"
    space = b" " if rng.random() < 0.97 else rng.choice([b"  ", b"\t", b""])
    text = rng.choice([b""] * 20 + [b"\r\n", b"\r\n\r\n", b"\n", b" "]) + method + space + target + space + version
    for line in fields:
        text += pick(ENDS) + line
    return text + pick(ENDS) + pick(ENDS) + rng.choice([b"", b"", b"body", b"GET / HTTP/1.1\r\n"])


def mutate(rng, text):
    text = bytearray(text)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at, run = rng.randrange(len(text) + 1), rng.randrange(1, 9)
        byte = rng.choice(b"\x00\x01\t\n\r \"#(),/:;?@AZaz09\x7f\x80\xff{}|~%+-.*") if rng.random() < 0.8 else rng.randrange(256)
        kind = rng.randrange(5)
        if kind == 0:
            text[at:at + 1] = bytes([byte])
        elif kind == 1:
            text[at:at] = bytes([byte])
        elif kind == 2:
            del text[at:at + run]
        elif kind == 3:
            text[at:at] = text[at:at + run]
        else:
            del text[at:]
    return bytes(text)


def heads():
    rng = random.Random(SEED)
    made = list(SMUGGLING)
    while len(made) < COUNT:
        text = head(rng)
        made.append(mutate(rng, text) if rng.random() < 0.6 else text)
    return made


# ---- Two readings -------------------------------------------------------------------------------------------------

def ask(command, records, folder):
    path = os.path.join(folder, "heads")
    with open(path, "wb") as file:
        for record in records:
            file.write(struct.pack(">I", len(record)) + record)
    with open(path, "rb") as file:
        done = subprocess.run(command + [path], stdin=file, stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.decode("utf-8").split("\n")[:-1]]
    if len(answers) != len(records):
        sys.exit(f"{command[0]} answered {len(answers)} of {len(records)} heads")
    return answers


def has_body(ours):
    return ours["chunked"] or (ours["length"] or 0) > 0


def same(ours, node):
    """Whether both readings are one."""
    if ours["verdict"] != "done" or node["verdict"] != "done":
        refusals = ("bad", "closed")
        return ours["verdict"] == node["verdict"] or (ours["verdict"] == "bad" and node["verdict"] in refusals)
    return (node["major"] == 1 and all(ours[k] == node[k] for k in ("minor", "method", "target", "fields", "keep"))
            and has_body(ours) == node["body"])


# ---- The known differences ------------------------------------------------------------------------------------------
#
# id: predicate(head, ours, node). Where we refuse, our own sentence says which rule it was. Listed in docs/http-parser.md.

def we_refuse(part, shape=b""):
    return lambda text, ours, node: ours["verdict"] == "bad" and part in ours["why"] and re.search(shape, text, re.S)


def node_refuses(verdict, code, why, shape=b""):
    return lambda text, ours, node: (ours["verdict"] == verdict and node["verdict"] == "bad" and node["code"].startswith(code)
                                     and why in node["why"] and re.search(shape, text, re.S))


def read_apart(key, shape):
    return lambda text, ours, node: (ours["verdict"] == node["verdict"] == "done" and ours[key] != node[key]
                                     and same({**ours, key: node[key]}, node) and re.search(shape, text, re.S))


LINE = rb"^(?:\r\n)?[!-~]+ "  # up to the target
CLASSES = {
    # the start
    "lf-in-front": we_refuse("must begin with a method", rb"^[\r\n]*\n"),
    "empty-lines-in-front": we_refuse("more than one empty line", rb"^\r\n\r\n?"),
    # the request line
    "any-method": node_refuses("done", "HPE_INVALID_METHOD", ""),
    "preface-method": lambda text, ours, node: (re.match(rb"(?:\r\n)?PRI ", text) and ours["verdict"] != "more"
                                                and node["verdict"] in ("bad", "more")),
    "connect": we_refuse("CONNECT"),
    "two-spaces": we_refuse("exactly one space stands before and behind", rb"^(?:\r\n)?[!-~]+  "),
    "space-behind-target": we_refuse("one space and HTTP/1.1", LINE + rb"[!-~]+  "),
    "no-version": we_refuse("the version is missing"),
    "no-version-lf": we_refuse("percent-encoded", LINE + rb"[!-~]+\n"),
    "other-protocol": we_refuse("one space and HTTP/1.1", LINE + rb"[!-~]+ (?:R|RTSP/...|I|ICE/...)"),
    "other-version": we_refuse("only HTTP/1.1 and HTTP/1.0", rb"HTTP/(?:0\.9|2\.0)"),
    "fragment": we_refuse("percent-encoded", LINE + rb"[!-~]*?#"),
    "raw-bytes-in-target": we_refuse("percent-encoded", LINE + rb"[!-~]*[\x80-\xff]"),
    "tab-in-target": we_refuse("percent-encoded", LINE + rb"[!-~]*[\t\x0c]"),
    "asterisk-and-more": we_refuse("an http:// or https:// URL", LINE + rb"\*[!-~]"),
    "asterisk": we_refuse("for OPTIONS only"),
    "other-scheme": we_refuse("an http:// or https:// URL", LINE + rb"[A-Za-z]+://"),
    "url-host": we_refuse("the target's URL needs a host"),
    "two-names": we_refuse("names another host"),
    # fields
    "bare-lf": we_refuse("LF without CR"),
    "bare-cr": we_refuse("CR stands without LF", rb"\r[^\n]"),
    "folded-line": we_refuse("begins with a blank", rb"\n[ \t]"),
    "blank-in-name": we_refuse("between a field's name and its colon", rb"\n[^\r\n:]* "),
    "lf-for-field": we_refuse("must be a name, which is a token", rb"\r\n\n"),
    "no-field-name": we_refuse("must be a name, which is a token", rb"\r\n:"),
    "many-fields": we_refuse("more than 100 fields"),
    "no-host": we_refuse("Host is missing"),
    "two-hosts": we_refuse("Host is given twice"),
    "host-bytes": we_refuse("Host holds a byte"),
    "unknown-coding": we_refuse("the only Transfer-Encoding"),
    "coding-twice": we_refuse("Transfer-Encoding is given twice"),
    "coding-in-old-version": we_refuse("does not exist in HTTP/1.0"),
    "long-length": we_refuse("1 to 18 digits", rb"[0-9]{19}"),
    "tab-behind-length": node_refuses("done", "HPE_INVALID_CONTENT_LENGTH", "", rb"(?i)content-length:[^\r]*[0-9][ ]*\t"),
    "tab-behind-close": read_apart("keep", rb"(?i)connection:[^\r]*(?:close|keep-alive) *\t"),
    "close-and-keep-alive": read_apart("keep", rb"(?i)connection:.*close, keep-alive"),
    # heads that are not complete: one side has seen the fault already
    "incomplete": node_refuses("more", "HPE_", ""),
    "incomplete-for-node": lambda text, ours, node: (ours["verdict"] == "bad" and node["verdict"] == "more"
                                                     and b"\r\n\r\n" not in text.lstrip(b"\r\n")),
}


def classify(text, ours, node):
    for name, fits in CLASSES.items():
        if fits(text, ours, node):
            return name
    return None


def documented():
    with open(os.path.join(SOURCE, "docs", "http-parser.md"), encoding="utf-8") as file:
        return set(re.findall(r"^\| `([a-z0-9-]+)` \|", file.read(), re.M))


def main():
    node = shutil.which(os.environ.get("WEIR_NODE", "node"))
    if node is None:
        sys.exit("node is not installed: `make deps` installs it (apt package nodejs)")
    if documented() != set(CLASSES):
        sys.exit(f"docs/http-parser.md and this test list different classes: {documented() ^ set(CLASSES)}")
    records = heads()
    with tempfile.TemporaryDirectory() as folder:
        ours = ask([os.path.join(BUILD, "test", "http1_verdict")], records, folder)
        # What we read whole goes to Node without what follows it, so that Node shows whether it waits for a body.
        records = [text[:answer["len"]] if answer["verdict"] == "done" else text for text, answer in zip(records, ours)]
        script = [node, os.path.join(SOURCE, "test", "wire", "node_heads.js")]
        theirs = ask(script, records, folder)
        # And without its last byte, so that it shows whether it agrees where the head ends.
        whole = [text for text, answer in zip(records, ours) if answer["verdict"] == "done"]
        cut = ask(script, [text[:-1] for text in whole], folder)

    seen, unknown = collections.Counter(), []
    for text, our, their in zip(records, ours, theirs):
        if same(our, their):
            seen["alike: " + ("read" if our["verdict"] == "done" else "refused" if our["verdict"] == "bad" else "incomplete")] += 1
            continue
        name = classify(text, our, their)
        if name is None:
            unknown.append((text, our, their))
        else:
            seen[name] += 1
    early = [text for text, answer in zip(whole, cut) if answer["verdict"] == "done"]

    print(f"seed {SEED}, {len(records)} heads, node {subprocess.run([node, '--version'], stdout=subprocess.PIPE).stdout.decode().strip()}")
    for name, count in sorted(seen.items()):
        print(f"{count:7} {name}")
    for text, our, their in unknown[:20]:
        print(f"UNEXPLAINED {text!r}\n  ours {our}\n  node {their}")
    for text in early[:20]:
        print(f"NODE READS IT SHORTER {text!r}")
    if unknown or early:
        sys.exit(f"{len(unknown)} unexplained differences, {len(early)} heads that end earlier for Node")
    if min(seen["alike: read"], seen["alike: refused"]) < COUNT // 10:
        sys.exit("the generator makes too few heads that both read, or that both refuse")


if __name__ == "__main__":
    main()
