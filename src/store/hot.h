// SPDX-License-Identifier: Apache-2.0
/*
 * hot.h - the decision that nearly every call is: a token bucket whose key has its cell.
 *
 * In line, so that a public call is one stretch of code from hashing to the exchange: on this path a function call and the
 * copy of an answer cost as much as the decision. Everything else (windows, logs, new keys, changed shapes, charged
 * refusals, costs that cannot pass) is left to store_take(), of which this is the first half.
 *
 * Words, Ordering, Progress, Reuse: as table.c.
 */
#ifndef WEIR_STORE_HOT_H
#define WEIR_STORE_HOT_H

#include "store/table.h"

/* The FINAL cell of the key in one group, and its content. */
static inline __attribute__((always_inline)) struct cell *find_in(struct store *store, struct group *group,
                                                                  const struct key *key, struct cell *seen)
{
    for (unsigned mask = group_match(group, key->tag); mask != 0; mask &= mask - 1) {
        struct cell *cell = &group->cells[__builtin_ctz(mask)];
        *seen = cell_load(cell, store->has_wide_load);
        if (seen->tag == key->word && !cell_is_tent(*seen))
            return cell;
    }
    return NULL;
}

/* NULL: not there, or something that needs look_at(): an insertion, a waiting key, a stranger of the same tag. */
static inline __attribute__((always_inline)) struct cell *find(struct store *store, const struct key *key,
                                                               struct cell *seen)
{
    struct cell *cell = find_in(store, &store->groups[group_first(store, key->hash)], key, seen);
    if (__builtin_expect(cell != NULL, 1))
        return cell;
    return find_in(store, &store->groups[group_second(store, key->hash)], key, seen);
}

/* shape_report() of a bucket in line: the clock is computed once, and a refused single token divides nothing. */
static inline __attribute__((always_inline)) void report_bucket(const weir_rate *rate, uint64_t word,
                                                                weir_ns now, uint64_t cost, bool passes,
                                                                struct report *report)
{
    report->remaining = !passes && cost == 1 ? 0 : weir_rate_remaining(rate, word, now);
    report->retry_at = passes ? now : weir_rate_retry_at(rate, word, now, cost);
    report->reset_at = weir_rate_full_at(rate, word, now);
}

/*
 * A bucket that has its cell: shape_decide() and charge() in line, with the arithmetic of weir_bucket.h. False:
 * somebody has to look closer.
 */
static inline __attribute__((always_inline)) bool take_bucket(const weir_rate *rate, struct cell *cell,
                                                              struct cell seen, weir_ns now, uint64_t cost,
                                                              struct store_answer *out)
{
    uint64_t word;
    enum weir_outcome outcome = weir_rate_decide(rate, seen.state, now, cost, &word);
    bool passes = outcome == WEIR_ALLOW;
    if (passes && __builtin_expect(!cell_exchange(cell, seen, (struct cell){ seen.tag, word }), 0))
        return false;
    out->outcome = outcome;
    out->policy = WEIR_POLICY_NONE;
    out->reason = WEIR_REASON_NONE;
    out->is_queued = false;
    out->at = now;
    report_bucket(rate, word, now, cost, passes, &out->report);
    return true;
}

/*
 * False: nothing was done and *out is unset; ask store_take(). A cell of an earlier shape is not found here, nor are
 * refusals charged.
 */
static inline __attribute__((always_inline)) bool hot_take(struct store *store, const struct shape *shape,
                                                           uint64_t hash, weir_ns now, uint64_t cost,
                                                           struct store_answer *out)
{
    bool charges = cost - 1 < shape->capacity && now <= WEIR_HORIZON; /* cost 0 wraps to the largest */
    if (__builtin_expect(!charges || !is_bucket(shape) || shape->charges_refusals, 0))
        return false;
    struct key key = key_of(shape, hash);
    struct cell seen, *cell = find(store, &key, &seen);
    if (__builtin_expect(cell == NULL, 0))
        return false;
    const weir_rate *rate = &shape->rate;
    weir_ns at = now > shape->since ? now : shape->since;
    /* A copy that no exchange can be thought to change, and whose clock is one multiplication. */
    const weir_rate exact = { rate->burst, rate->ticks, rate->per_b, 1, 0, 0 };
    return __builtin_expect(rate->b == 1, 1) ? take_bucket(&exact, cell, seen, at, cost, out)
                                             : take_bucket(rate, cell, seen, at, cost, out);
}

#endif
