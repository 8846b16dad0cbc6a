#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suite through the HTTP door: a server of the test build per file, told the time by `Weir-Now`. Shared limits
need a store: test_conformance_store.py."""

from conformance import play

play("weir-hooked", "--door", "http", has_store=False)
