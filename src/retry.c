// SPDX-License-Identifier: Apache-2.0
/*
 * retry.c - holding and remembering retry ids.
 */
#include "retry.h"

/* A decision takes microseconds: who holds an id for a second has died, or its thread was stopped. */
#define HOLD_NS WEIR_SECOND
/* Looks at an id that somebody else holds, before we say that we could not decide. */
#define BUSY_LOOKS 4096

bool retry_name(const struct weir_set *set, const struct limit *limit, uint64_t hash,
                const struct weir_ask *ask, uint64_t *out)
{
    if (limit->given.retries_free_within == 0 || ask->retry_id == NULL || ask->retry_id_len == 0
        || ask->cost == 0)
        return false;
    struct siphash state = set->weir->seed;
    uint64_t domain[2] = { UINT64_MAX - 4, hash }; /* no limit's name has such a length */
    siphash_absorb(&state, domain, sizeof domain);
    *out = siphash_end(state, ask->retry_id, ask->retry_id_len);
    return true;
}

enum retry retry_begin(const struct weir_set *set, const struct limit *limit, uint64_t name, weir_ns stamp,
                       bool is_peek, struct hold *out)
{
    struct store *store = set->weir->store;
    weir_ns free_within = limit->given.retries_free_within;
    if (free_within == 0)
        return RETRY_NONE;
    if (stamp > WEIR_HORIZON)
        return RETRY_NONE; /* nothing is decided there, so there is nothing to remember */

    *out = (struct hold){ name, free_within, 0 };
    if (is_peek)
        return store_recall(store, out->hash, stamp) ? RETRY_KNOWN : RETRY_NONE;
    for (unsigned looks = 0; looks < BUSY_LOOKS; looks++) {
        switch (store_recall_begin(store, out->hash, stamp, stamp + HOLD_NS, &out->nonce)) {
        case STORE_NEW:
            return RETRY_FIRST;
        case STORE_KNOWN:
            return RETRY_KNOWN;
        case STORE_FULL:
            return RETRY_NONE;
        case STORE_PENDING:
            break;
        }
    }
    return RETRY_BUSY;
}

void retry_end(struct weir *weir, const struct hold *hold, weir_ns stamp, bool was_allowed)
{
    weir_ns until = hold->free_within > WEIR_HORIZON - stamp ? WEIR_HORIZON : stamp + hold->free_within;
    store_recall_end(weir->store, hold->hash, hold->nonce, stamp, was_allowed ? until : 0);
}
