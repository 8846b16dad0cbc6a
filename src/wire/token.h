// SPDX-License-Identifier: Apache-2.0
/*
 * token.h - a reservation or a permit that has a part in the shared store: both parts in one run of bytes.
 *
 *     what this server alone gave   its bytes as they are (byte 0 is 1, the version of weir.h's)
 *     with a part in the store      byte 0: 2; bytes 1 and 2: the length of this server's part, big-endian, 0 where it has
 *                                   none; that part; the store's handle, to the end
 *
 * Idea: one text for each pair of parts and no other, so a token cannot be spelt in two ways. Whether a part is one of ours
 * its maker says: the limiter by its proof, the store by the name in it that cannot be guessed.
 */
#ifndef WEIR_WIRE_TOKEN_H
#define WEIR_WIRE_TOKEN_H

#include "base/bytes.h"
#include "weir.h"

/* Longest part of either kind: a reservation is longer than a permit. FLEET_HANDLE_MAX is the store's. */
#define TOKEN_OWN_MAX WEIR_RESERVATION_MAX
#define TOKEN_SHARED_MAX ((size_t)48 << 10)
#define TOKEN_MAX (3 + TOKEN_OWN_MAX + TOKEN_SHARED_MAX)

/* Empty: there is no such part. */
struct token {
    struct slice own, shared;
};

/* Write a token that has a shared part, and gives its length; `out` has TOKEN_MAX bytes. */
size_t token_join(const struct token *token, unsigned char *out);

/* Its parts, which lie in `bytes`; own_max: of this server's. False: it cannot be a token. */
bool token_split(struct slice bytes, size_t own_max, struct token *out);

#endif
