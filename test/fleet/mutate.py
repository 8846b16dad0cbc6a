#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py SOURCE NAME OUT - src/fleet/lease.c with one mistake, for a program in which the simulator must find it.

What is changed must stand in the source once: a mutant of a line that is gone would test nothing. `mutate.py names` lists them.
"""
import sys

MUTANTS = {
    # name: why, [(what stands there, what stands there instead)]
    "from_the_reply": (
        "a portion lasts from its answer, not from the first sending of its message",
        [("    holding->expires_at = end_of(&flight, ttl);",
          "    flight.first_at = now;\n    holding->expires_at = end_of(&flight, ttl);")]),
    "never_ends": (
        "what is in hand is not dropped when its portion ends",
        [("if (holding->expires_at == 0 || now < holding->expires_at)\n        return 0;",
          "if (now > 0)\n        return 0;")]),
    "pending_returns": (
        "what was pending when its portion ended is put into the next one",
        [("    if (life != holding->life)\n        return;\n    holding->pending -= taken;\n    holding->have += taken;",
          "    if (life == holding->life)\n        holding->pending -= taken;\n    holding->have += taken;")]),
    "gives_and_keeps": (
        "what is given back stays in hand",
        [("    holding->have -= flight.give;\n", "")]),
    "trusts_a_forgetful_store": (
        "a portion that the store has forgotten is prolonged",
        [("if (ours + granted > left)", "if (ours + granted > left && left > NUMBER_MAX)")]),
    "tells_twice": (
        "what is spent while a message is under way is dropped, as if it had been told",
        [("holding->used -= flight.used - flight.gone;", "holding->used = 0;"),
         ("    holding->pending -= taken;\n    holding->used += taken;",
          "    holding->pending -= taken;\n    holding->used += holding->flight.seq == 0 ? taken : 0;\n"
          "    holding->have += holding->flight.seq == 0 ? 0 : taken;")]),
    "takes_any_answer": (
        "an answer counts again, though its message was answered",
        [("if (seq == 0 || flight.seq != seq)\n        return result;",
          "if (seq == 0 || flight.seq != seq)\n        return result;\n    holding->have += answer->granted;")]),
}


def main():
    if sys.argv[1:] == ["names"]:
        print("\n".join(sorted(MUTANTS)))
        return
    source, name, out = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    for find, replace in MUTANTS[name][1]:
        if text.count(find) != 1:
            sys.exit(f"mutate.py: {name}: {source} has {text.count(find)} times what is to be changed: {find!r}")
        text = text.replace(find, replace)
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)


main()
