// SPDX-License-Identifier: Apache-2.0
/*
 * composite.h - several limits become one decision, all or nothing.
 *
 * Idea: asks are gathered into parts, one for each (limit, key); the parts are looked at, charged in one total order, and
 * given back strictly where a race was lost in between. See composite.c for why that is enough (G2, P27).
 *
 * A composite is used once, by one thread, on its stack (some 10 KB).
 */
#ifndef WEIR_COMPOSITE_H
#define WEIR_COMPOSITE_H

#include "retry.h"
#include "set.h"

/* Beside enum store_stance: whoever decides holds the waiting room's lock. */
#define STANCE_IN_ROOM 0x100u
/* And: what passes may yet be undone, so its retry ids stay held. */
#define STANCE_TENTATIVE 0x200u

/* One (limit, key) of a composite; asks for the same one are added up. */
struct part {
    const struct shape *shape; /* NULL: unlimited */
    weir_limit_id limit;
    uint64_t hash, cost;
    unsigned stance; /* enum store_stance, beside the composite's: whether it is this part's turn */
    bool is_within;  /* of the shape's capacity the key has this much: */
    uint64_t within;
    bool has_retry; /* the request may be asked again, under the name `retry_name` */
    uint64_t retry_name;
    enum retry retry;
    struct hold hold; /* with RETRY_FIRST */
    struct store_answer answer;
};

struct composite {
    const struct weir_set *set;
    weir_ns stamp;
    unsigned stance; /* enum store_stance, of the whole request: looking, acquiring; and STANCE_IN_ROOM */
    struct part parts[WEIR_ASKS_MAX]; /* in the order of their first asks */
    size_t count;
    uint8_t part_of[WEIR_ASKS_MAX]; /* which part answers an ask */
};

/* Check every ask, hash its key and add up what belongs together. 0, WEIR_ERR_ASKS, _LIMIT or _KEY. */
int composite_gather(const struct weir_set *set, const struct weir_ask *asks, size_t count,
                     struct composite *all);

/* Which parts may be asked again; hold their ids; and say what came of them. */
void composite_name_retries(struct composite *all, const struct weir_ask *asks, size_t count);
void composite_begin_retries(struct composite *all);
void composite_end_retries(const struct composite *all, bool was_allowed);

/* Decide all parts at all->stamp. 0, or WEIR_ERR_CHANGED and nothing was charged. */
int composite_decide(struct composite *all);

/* Whether no part refuses. */
bool composite_passes(const struct composite *all);

/* Whether keys of the limit may bring their own capacity, and this one. 0, WEIR_ERR_LIMIT or WEIR_ERR_RATE. */
int within_check(const struct limit *limit, uint64_t capacity);

/* The binding answer, and each ask's own where `each` is not NULL. */
void composite_answer(const struct composite *all, size_t count, struct weir_decision *each,
                      struct weir_decision *out);

/* ---- What one limit needs as well --------------------------------------------------------------------------- */

static inline void write_decision(const struct weir *weir, weir_limit_id limit, const struct shape *shape,
                                  const struct store_answer *answer, struct weir_decision *out)
{
    out->outcome = answer->outcome;
    out->policy = answer->policy;
    out->reason = answer->reason;
    out->limit = limit;
    out->capacity = shape == NULL ? WEIR_UNLIMITED : shape->capacity;
    out->remaining = answer->report.remaining;
    out->decided_at = set_from_stamp(weir, answer->at);
    out->retry_at = set_from_stamp(weir, answer->report.retry_at);
    out->reset_at = set_from_stamp(weir, answer->report.reset_at);
}

static inline void write_part(const struct composite *all, const struct part *part, struct weir_decision *out)
{
    write_decision(all->set->weir, part->limit, part->shape, &part->answer, out);
    if (__builtin_expect(part->is_within, 0))
        out->capacity = part->within;
}

static inline bool is_refusal(enum weir_outcome outcome)
{
    return outcome == WEIR_DENY || outcome == WEIR_NEVER || outcome == WEIR_REFUSED;
}

/* We could not decide: too many others at once, or a change came in between. */
static inline struct store_answer contended(enum weir_outcome outcome, enum weir_policy policy, weir_ns stamp)
{
    return (struct store_answer){ .outcome = outcome,
                                  .policy = policy,
                                  .reason = WEIR_REASON_CONTENDED,
                                  .at = stamp,
                                  .report = { 0, stamp, WEIR_NO_TIME } };
}

/* A key without a bound: it passes, and was whole before and after. */
static inline struct store_answer unlimited(weir_ns stamp)
{
    return (
        struct store_answer){ .outcome = WEIR_ALLOW, .at = stamp, .report = { WEIR_UNLIMITED, stamp, stamp } };
}

/* The rest of a decision that met a key which others wait for: behind them, or again where nobody does by now. */
bool decide_queued(const struct weir_set *set, const struct shape *shape, uint64_t hash, uint64_t cost,
                   weir_ns stamp, unsigned stance, struct store_answer *out);

/* False: the set is old. */
static inline bool decide_one(const struct weir_set *set, const struct shape *shape, uint64_t hash,
                              uint64_t cost, weir_ns stamp, unsigned stance, struct store_answer *out)
{
    if (__builtin_expect(shape == NULL, 0)) {
        *out = unlimited(stamp);
        return true;
    }
    bool is_done = store_decide(set->weir->store, shape, hash, stamp, cost, stance, out);
    if (__builtin_expect(is_done && out->is_queued, 0))
        return decide_queued(set, shape, hash, cost, stamp, stance, out);
    return is_done;
}

#endif
