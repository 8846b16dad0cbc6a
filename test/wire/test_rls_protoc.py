# SPDX-License-Identifier: Apache-2.0
"""Random calls and answers of the rate limit service: our codec and protoc must agree.

Calls are encoded here in every way that protobuf allows (fields in any order and split, numbers in too many bytes, fields that
nobody knows), and some are then broken; protoc decodes each by the service's own types (proto3, text as string), and what it
says must be what ours read. Answers are written by ours and encoded by protoc from their text, byte by byte the same; their JSON
is read by Python.

They differ in one thing: ours refuses a known field of another wire type, or a group, which protoc keeps as fields that it does not
know.
"""

import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys

SOURCE = os.environ.get("WEIR_SOURCE", os.getcwd())
BUILD = os.environ.get("WEIR_BUILD", "build")
SEED = int(os.environ.get("WEIR_SEED", "20261201"))
COUNT = int(os.environ.get("WEIR_CALLS", "250"))
NO_CALL = "the message is no RateLimitRequest"

# ---- protoc ------------------------------------------------------------------------------------------------------


def protoc(action, message, data):
    """What protoc makes of it by the service's own types; None: it refuses."""
    done = subprocess.run(["protoc", f"--{action}=rls.{message}", f"rls_{message.lower()}.proto"],
                          cwd=os.path.join(SOURCE, "test/wire/proto"), input=data, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


TOKEN = re.compile(rb'\s*(?:([A-Za-z_]\w*|\d+)\s*(?::\s*("(?:[^"\\]|\\.)*"|[-\w]+)|(\{))|(\}))')
ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.S)
LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def unescape(text):
    def one(match):
        code = match.group(1)
        return bytes([int(code, 8)]) if len(code) == 3 else LETTERS.get(code, code)
    return ESCAPE.sub(one, text)


def parse_text(text):
    """protoc's text as [name, value or list]."""
    stack = [[]]
    at = 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        assert match, text[at:at + 80]
        at = match.end()
        if match.group(4):
            stack.pop()
        elif match.group(3):
            inside = []
            stack[-1].append([match.group(1).decode(), inside])
            stack.append(inside)
        else:
            value = match.group(2)
            value = unescape(value[1:-1]) if value[:1] == b'"' else value.decode()
            stack[-1].append([match.group(1).decode(), value])
    assert len(stack) == 1
    return stack[0]


def has_unknown(message):
    return any(name.isdigit() or (isinstance(value, list) and has_unknown(value)) for name, value in message)


def field(message, name, default):
    for found, value in message:
        if found == name:
            return value
    return default


def every(message, name):
    return [value for found, value in message if found == name]


# ---- What ours must say ------------------------------------------------------------------------------------------


def hexed(data):
    return "." + data.hex()


def want_of(call):
    """The line that ours must print of what protoc has read, by the rules of rls.h."""
    domain = field(call, "domain", b"")
    descriptors = every(call, "descriptors")
    if not domain:
        return "bad rate limit domain must not be empty"
    if not descriptors:
        return "bad rate limit descriptor list must not be empty"
    words = ["good", hexed(domain)]
    for descriptor in descriptors:
        entries = every(descriptor, "entries")
        if any(not field(entry, "key", b"") for entry in entries):
            return "bad rate limit descriptor entry has no key"
        own = field(descriptor, "hits_addend", None)
        hits = int(field(own, "value", "0")) if own is not None else max(1, int(field(call, "hits_addend", "0")))
        limit = field(descriptor, "limit", None)
        numbers = [0, 0, 0]
        if limit is not None:
            units = field(limit, "unit_multiplier", None)
            numbers = [int(field(limit, "requests_per_unit", "0")), int(field(limit, "unit", "0")),
                       max(1, int(field(units, "value", "0"))) if units is not None else 1]
            if not 1 <= numbers[1] <= 6:
                return "bad rate limit override has no unit"
        words += [min(hits, 2**63 - 1), int(field(descriptor, "is_negative_hits", "false") == "true"), int(limit is not None)]
        words += numbers + [len(entries)]
        for entry in entries:
            words += [hexed(field(entry, "key", b"")), hexed(field(entry, "value", b""))]
    return " ".join(str(word) for word in words)


# ---- Calls -------------------------------------------------------------------------------------------------------

TEXTS = ["", "a", "remote_address", "192.0.2.7", "/v1/items", "caf\u00e9", "\U0001f30a", "a\0b", "x" * 130, "\n\"\\", "\u07ff\u0800"]
NUMBERS = [0, 1, 2, 5, 127, 128, 300, 2**31, 2**32 - 1, 2**32, 2**32 + 7, 2**63 - 1, 2**63, 2**64 - 1]


def varint(value, rng):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    out += bytes([value])
    while len(out) < 9 and rng.random() < 0.05:  # more bytes than it needs
        out = out[:-1] + bytes([out[-1] | 128, 0])
    return out


def number(tag, value, rng):
    return varint(tag << 3, rng) + varint(value, rng)


def data(tag, value, rng):
    return varint(tag << 3 | 2, rng) + varint(len(value), rng) + value


def text(tag, rng):
    return data(tag, rng.choice(TEXTS).encode(), rng)


def unknown(rng):
    tag = rng.choice([9, 15, 16, 2047, 2**29 - 1])
    return rng.choice([number(tag, rng.choice(NUMBERS), rng), varint(tag << 3 | 1, rng) + rng.randbytes(8),
                       data(tag, rng.randbytes(rng.randrange(5)), rng), varint(tag << 3 | 5, rng) + rng.randbytes(4)])


def shaken(fields, rng):
    """Some fields, with ones that nobody knows, and now and then in another order."""
    if rng.random() < 0.15:
        fields.append(unknown(rng))
    if rng.random() < 0.3:
        rng.shuffle(fields)
    return b"".join(fields)


def wrapped(tag, values, rng):
    return data(tag, shaken([number(1, rng.choice(values), rng)] if rng.random() < 0.8 else [], rng), rng)


def limit(rng):
    fields = [number(1, rng.choice(NUMBERS), rng), number(2, rng.choice([1, 2, 3, 4, 5, 6, 6, 7, 0, 2**64 - 1]), rng)]
    if rng.random() < 0.4:
        fields.append(wrapped(3, NUMBERS, rng))
    if rng.random() < 0.2:
        fields.pop(rng.randrange(len(fields)))
    return fields


def descriptor(rng):
    fields = []
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        key = data(1, rng.choice(TEXTS[1:]).encode(), rng)
        fields.append(data(1, shaken([key, text(2, rng)] if rng.random() < 0.95 else [text(1, rng)], rng), rng))
    if rng.random() < 0.3:
        parts = limit(rng)
        cut = rng.randrange(len(parts) + 1) if rng.random() < 0.3 else len(parts)  # in two parts, which are merged
        fields.append(data(2, shaken(parts[:cut], rng), rng))
        if cut < len(parts):
            fields.append(data(2, shaken(parts[cut:], rng), rng))
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        fields.append(wrapped(3, NUMBERS, rng))
    if rng.random() < 0.2:
        fields.append(number(4, rng.choice(NUMBERS), rng))
    return shaken(fields, rng)


def call(rng):
    fields = [text(1, rng) for _ in range(rng.choice([1, 1, 1, 1, 2, 0] if rng.random() < 0.2 else [1]))]
    fields += [data(2, descriptor(rng), rng) for _ in range(rng.choice([1, 1, 1, 2, 3, 5]))]
    fields += [number(3, rng.choice(NUMBERS), rng) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
    out = shaken(fields, rng)
    if rng.random() < 0.4:
        out = bytearray(out)
        for _ in range(rng.choice([1, 1, 2])):
            what = rng.randrange(3)
            at = rng.randrange(len(out)) if out else 0
            if what == 0 and out:
                out[at] = rng.randrange(256)
            elif what == 1 and out:
                del out[at:at + rng.choice([1, 1, 2, len(out)])]
            else:
                out[at:at] = rng.randbytes(1)
        out = bytes(out)
    return out


# ---- Answers -----------------------------------------------------------------------------------------------------

UNITS = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"]
CODES = ["UNKNOWN", "OK", "OVER_LIMIT"]


def quoted(value):
    return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'


def present(items):
    return {name: value for name, value in items if value not in (0, "", "UNKNOWN")}


def answer(rng):
    """(line for ours, text for protoc, JSON)"""
    statuses, words, lines, headers = [], [], [], []
    overall = rng.randrange(3)
    for _ in range(rng.choice([0, 1, 1, 2, 64])):
        code, has_limit, unit = rng.randrange(3), rng.random() < 0.7, rng.randrange(8)
        requests, units, left = (rng.choice([0, 1, 10, 2**32 - 1]) for _ in range(3))
        reset = rng.choice([-1, 0, 1, 42, 2**31 - 1])
        name = rng.choice(TEXTS).encode()
        words += [code, int(has_limit), requests, unit, units, hexed(name), left, reset]
        inner = f"requests_per_unit: {requests} unit: {unit} name: {quoted(name)}"
        inner += f" unit_multiplier {{ value: {units} }}" if units > 1 else ""
        lines.append(f"statuses {{ code: {code} limit_remaining: {left}"
                     + (f" current_limit {{ {inner} }}" if has_limit else "")
                     + (f" duration_until_reset {{ seconds: {reset} }}" if reset >= 0 else "") + " }")
        status = present([("code", CODES[code]), ("limitRemaining", left)])
        if has_limit:
            status["currentLimit"] = present([("requestsPerUnit", requests), ("unit", UNITS[unit]), ("name", name.decode()),
                                              ("unitMultiplier", units if units > 1 else 0)])
        if reset >= 0:
            status["durationUntilReset"] = f"{reset}s"
        statuses.append(status)
    header_words = []
    for _ in range(rng.choice([0, 1, 3, 8])):
        key, value = rng.choice(TEXTS), rng.choice(TEXTS)
        header_words += [hexed(key.encode()), hexed(value.encode())]
        lines.append(f"response_headers_to_add {{ key: {quoted(key.encode())} value: {quoted(value.encode())} }}")
        headers.append(present([("key", key), ("value", value)]))
    body = rng.randbytes(rng.choice([0, 1, 2, 3, 200]))
    line = ["answer", overall, len(statuses)] + words + [len(headers)] + header_words + [hexed(body)]
    lines += [f"overall_code: {overall}", f"raw_body: {quoted(body)}"]
    wanted = present([("overallCode", CODES[overall]), ("rawBody", base64.b64encode(body).decode())])
    if statuses:
        wanted["statuses"] = statuses
    if headers:
        wanted["responseHeadersToAdd"] = headers
    return " ".join(str(word) for word in line), "\n".join(lines).encode(), wanted


# ---- The test ----------------------------------------------------------------------------------------------------


def check_call(message, ours, seen):
    said = protoc("decode", "Call", message)
    if said is None:
        seen["refused by both"] += 1
        return ours.startswith("bad " + NO_CALL) or (ours.startswith("bad ") and "is not valid UTF-8" in ours)
    parsed = parse_text(said)
    if ours.startswith("bad " + NO_CALL):
        seen["kept as unknown by protoc"] += 1
        return has_unknown(parsed)
    want = want_of(parsed)
    seen["good" if want.startswith("good") else "no such call"] += 1
    return ours.startswith(want) if want.startswith("bad") else ours == want


def main():
    if shutil.which("protoc") is None:
        sys.exit("protoc is missing: tools/deps test installs it")
    rng = random.Random(SEED)
    seen = {"good": 0, "no such call": 0, "refused by both": 0, "kept as unknown by protoc": 0}
    calls = [call(rng) for _ in range(COUNT)]
    answers = [answer(rng) for _ in range(COUNT // 2)]
    lines = ["call " + hexed(message) for message in calls] + [line for line, _, _ in answers]
    done = subprocess.run([os.path.join(BUILD, "test/rls_codec")], input="\n".join(lines) + "\n", capture_output=True, text=True,
                          check=True)
    ours = done.stdout.split("\n")
    for message, line in zip(calls, ours):
        if not check_call(message, line, seen):
            said = protoc("decode", "Call", message)
            sys.exit(f"seed {SEED}: call {message.hex()}\nours: {line}\nprotoc: {said}\nwant: "
                     f"{want_of(parse_text(said)) if said is not None else 'refused'}")
    for (line, as_text, wanted), got in zip(answers, ours[COUNT:]):
        message, written = got.split(" ", 1)
        encoded = protoc("encode", "Answer", as_text)
        if encoded is None or message != hexed(encoded):
            sys.exit(f"seed {SEED}: {line}\nours: {message}\nprotoc: {encoded.hex() if encoded is not None else None}")
        if json.loads(written) != wanted:
            sys.exit(f"seed {SEED}: {line}\nours: {written}\nwant: {wanted}")
    print(f"seed {SEED}: {seen}, {len(answers)} answers")
    for kind, least in (("good", COUNT // 4), ("no such call", 5), ("refused by both", COUNT // 20)):
        if seen[kind] < least:
            sys.exit(f"only {seen[kind]} calls were {kind}: the test no longer says much")


if __name__ == "__main__":
    main()
