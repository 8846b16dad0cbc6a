// SPDX-License-Identifier: Apache-2.0
/* reserve.h - a reservation from what was charged; see reserve.c. */
#ifndef WEIR_RESERVE_H
#define WEIR_RESERVE_H

#include "set.h"

/* A settlement changes this part; a cancel gives back all. */
#define CHARGED_SETTLES 1u

/* What was charged to one (limit, key), for one ask. */
struct charged {
    uint32_t lineage, flags;
    uint64_t hash, cost;
    weir_ns at; /* a stamp */
};

/* Whether a settlement changes what was charged for this ask; `some`: of those beside it one says that it is an estimate. */
static inline bool reserve_settles(const struct weir_ask *ask, bool some)
{
    return ask->is_estimate || (!some && !ask->is_fixed);
}

/* Seal at most WEIR_ASKS_MAX parts under a nonce of their own; they can be settled until stamp + hold. */
void reserve_write(struct weir *weir, const struct charged *parts, size_t count, weir_ns stamp, weir_ns hold,
                   struct weir_reservation *out);

#endif
