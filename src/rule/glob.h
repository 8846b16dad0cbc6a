// SPDX-License-Identifier: Apache-2.0
/*
 * glob.h - the patterns of `when`, one at a time. (Many at once: match.h, which must agree with this file.)
 *
 * The whole value must match, case-sensitively, byte by byte. `\` makes the next character ordinary; nothing but
 * `*` and `\` is special.
 *   GLOB_PATH  one star is any run, also an empty one, without a slash; two or more are any run at all; a final
 *              slash and two stars also match the path without them: below /v1, /v1/ and /v1 itself.
 *   GLOB_TEXT  any number of stars is any run at all.
 */
#ifndef WEIR_RULE_GLOB_H
#define WEIR_RULE_GLOB_H

#include "base/bytes.h"

enum glob_dialect { GLOB_TEXT, GLOB_PATH };

/* The longest pattern in bytes: as long as the longest value. */
#define GLOB_MAX 1024

/* NULL, or what is wrong with the pattern, to follow its quoted text: "ends in a lone '\'". */
const char *glob_check(struct slice pattern);

/* Whether the pattern has no wildcard, so that it matches one value only. */
bool glob_is_exact(struct slice pattern);

/* Whether the value matches. Linear in ordinary cases, never more than a few times pattern.len * value.len steps. */
bool glob_match(struct slice pattern, struct slice value, enum glob_dialect dialect);

/* ---- Compiled patterns, for match.c ------------------------------------------------------------------------ */

/* 0..255: this byte; then what no byte can say. In the order in which the trie wants them. */
typedef uint16_t glob_token;
enum {
    GLOB_SEGMENT = 256, /* any run without `/` */
    GLOB_ANY,           /* any run */
    GLOB_TREE,          /* a final slash and two stars: nothing, or `/` and any run */
};

/* Compile a checked pattern into `out`, which has room for pattern.len tokens. Returns their number. */
size_t glob_compile(struct slice pattern, enum glob_dialect dialect, glob_token *out);

/* Whether the whole value matches the tokens; `count` at most GLOB_MAX. */
bool glob_run(const glob_token *tokens, size_t count, struct slice value);

#endif
