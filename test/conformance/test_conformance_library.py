#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suite against the library."""

from conformance import play

play("weir")
