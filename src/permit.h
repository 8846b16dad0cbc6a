// SPDX-License-Identifier: Apache-2.0
/* permit.h - a permit as bytes: what was taken of each concurrency limit, sealed. See permit.c. */
#ifndef WEIR_PERMIT_H
#define WEIR_PERMIT_H

#include "composite.h"

/* What was taken of one (limit, key). */
struct permit_part {
    uint32_t lineage;
    struct store_permit held;
    weir_ns expires_at; /* a stamp; for the answer, not in the bytes */
};

/* What a decided part was given, of the limit with this lineage. False: nothing. */
bool permit_of_answer(const struct shape *shape, uint64_t hash, const struct store_answer *answer,
                      struct permit_part *out);

/* Seal at most WEIR_ASKS_MAX parts, in the order of their asks. None: len is 0. */
void permit_encode(const struct weir *weir, const struct permit_part *parts, size_t count,
                   struct weir_permit *out);

#endif
