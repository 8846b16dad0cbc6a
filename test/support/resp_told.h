// SPDX-License-Identifier: Apache-2.0
/* resp_told.h - a RESP reply told in one line, so that tests compare replies as text; and random ones. */
#ifndef WEIR_TEST_RESP_TOLD_H
#define WEIR_TEST_RESP_TOLD_H

#include "support/random.h"
#include "wire/resp.h"

/*
 * Tell the whole reply: +OK -ERR.. :5 "bulk" ="verbatim" null #t ,1.5 (12 [array] {map} ~[set] >[push], strings in the
 * quotes of text_json(). False when the values do not end where the reply does.
 */
bool resp_tell(struct text *out, const char *at, size_t len);

/* The same of one command: its words as bulk strings in [ ]. */
void resp_tell_command(struct text *out, const struct resp_command *command);

/*
 * Write a random reply into `reply` through the writer, and into `told` what resp_tell() must make of it, derived from
 * what was written and not by reading it. With `has_attributes`, RESP3 replies get some, which are not told.
 */
void resp_random(struct random *random, enum resp_version version, bool has_attributes, struct text *reply,
                 struct text *told);

#endif
