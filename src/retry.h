// SPDX-License-Identifier: Apache-2.0
/*
 * retry.h - a request that is asked again is answered again, and not charged again.
 *
 * A limit with retries_free_within remembers the retry ids of requests that were allowed, each in one cell of the table
 * until that time has passed. While a request is being decided its id is held, so that of two equal requests at once one
 * is charged; should the holder die, the hold runs out and a retry is charged again: twice charged, never twice granted
 * (P31). A denied request is forgotten at once, or it could never succeed.
 */
#ifndef WEIR_RETRY_H
#define WEIR_RETRY_H

#include "set.h"

enum retry {
    RETRY_NONE,  /* charge it: the limit or the request does not care, or there is no room to remember */
    RETRY_FIRST, /* charge it: retry_end() must be told what came of it */
    RETRY_KNOWN, /* allowed before: do not charge it */
    RETRY_BUSY,  /* the same request is being decided by somebody who does not get on */
};

struct hold {
    uint64_t hash;
    weir_ns free_within;
    uint32_t nonce;
};

/* The name that a request goes by under a limit, where `hash` is its key's. False: it has none, or the limit does not care. */
bool retry_name(const struct weir_set *set, const struct limit *limit, uint64_t hash,
                const struct weir_ask *ask, uint64_t *out);

/* A peek holds nothing: NONE or KNOWN. */
enum retry retry_begin(const struct weir_set *set, const struct limit *limit, uint64_t name, weir_ns stamp,
                       bool is_peek, struct hold *out);

/* After RETRY_FIRST. */
void retry_end(struct weir *weir, const struct hold *hold, weir_ns stamp, bool was_allowed);

#endif
