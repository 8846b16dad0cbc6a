#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suite through the Redis door: a server of the test build per file, told the time by WEIR.NOW. What cannot be said in
commands is asked of the same server by HTTP; what that is stands here, so that it does not become more."""

import re
import sys

from conformance import play

LEAST_COMMANDS = 12000
MOST_OTHERS = {"no command reloads": 250, "the wait is no whole number of milliseconds": 400, "who reserves does not wait": 30}

said = play("weir-hooked", "--door", "resp", has_store=False)
commands = re.fullmatch(r"said at the door: (\d+)", said[0])
if commands is None or int(commands.group(1)) < LEAST_COMMANDS:
    sys.exit(f"too little was said in commands: {said[0]}")
for line in said[1:]:
    found = re.fullmatch(r"asked by HTTP: (\d+), (.*)", line)
    if found is None or int(found.group(1)) > MOST_OTHERS.get(found.group(2), 0):
        sys.exit(f"not said in commands: {line}")
