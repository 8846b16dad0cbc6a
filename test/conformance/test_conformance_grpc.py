#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suite through the gRPC door: a server of the test build per file, told the time by `weir-now`. Of what passes the door
tells the limit that binds, with lengths of time in whole seconds; of what is refused, the whole problem document. What has no call is asked
of the same server by HTTP; what that is stands here, so that it does not become more."""

import re
import sys

from conformance import play

LEAST_CALLS = 14000
MOST_OTHERS = {"only checks have a call": 1800, "it may wait": 1650, "a look is for a cost of 0, of all limits": 620,
               "of several limits one is told": 100, "who passes uncounted is told no more than OK": 30,
               "a number has more than 32 bits": 10}

said = play("weir-hooked", "--door", "grpc", has_store=False)
calls = re.fullmatch(r"said at the door: (\d+)", said[0])
if calls is None or int(calls.group(1)) < LEAST_CALLS:
    sys.exit(f"too little was said in calls: {said[0]}")
for line in said[1:]:
    found = re.fullmatch(r"asked by HTTP: (\d+), (.*)", line)
    if found is None or int(found.group(1)) > MOST_OTHERS.get(found.group(2), 0):
        sys.exit(f"not said in calls: {line}")
