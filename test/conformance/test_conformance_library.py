#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suite against the library, with the stand-in for the store of shared limits."""

from conformance import play

play("weir", has_store=True)
