// SPDX-License-Identifier: Apache-2.0
/*
 * instant.h - the times of test files as text: `1m30s`, and `2024-02-29T23:59:59.5Z`.
 */
#ifndef WEIR_SIM_INSTANT_H
#define WEIR_SIM_INSTANT_H

#include "base/bytes.h"
#include "weir.h"

/* A sum of integers with a unit: ns us ms s m h d w. "0" needs a unit too. False where it is none or overflows. */
bool duration_parse(struct slice text, weir_ns *out);

/* RFC 3339 with `T` and `Z` or an offset, up to nine decimals, as ns since 1970; from 1970 to 2200. */
bool instant_parse(struct slice text, int64_t *out);

#endif
