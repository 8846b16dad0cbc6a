// SPDX-License-Identifier: Apache-2.0
/*
 * shared_answer.c - the last step of a request that meets shared limits: what was charged here is kept or undone, and what both
 * say becomes one answer.
 *
 * Which decision binds is chosen as composite.c does among the limits of a process: so a request is answered alike wherever its
 * limits are counted.
 */
#include "rule/shared.h"
#include "rule/throttle.h"

/* One decision that takes part, and what it was asked. */
struct say {
    struct weir_decision decision;
    uint64_t cost;
    bool is_given;
};

/* A refusal outranks what passes, and a decision outranks its absence. */
static unsigned rank(enum weir_outcome outcome)
{
    static const unsigned ranks[WEIR_OUTCOME_COUNT] = {
        [WEIR_NEVER] = 5, [WEIR_DENY] = 4, [WEIR_REFUSED] = 3, [WEIR_UNMETERED] = 2, [WEIR_ALLOW] = 1
    };
    return ranks[outcome];
}

/* Among equals the latest retry, or the fewest such requests left. Ties: the first in contract order. */
static bool binds_harder(const struct say *x, const struct say *y)
{
    unsigned rank_x = rank(x->decision.outcome), rank_y = rank(y->decision.outcome);
    if (rank_x != rank_y)
        return rank_x > rank_y;
    if (rank_x > rank(WEIR_ALLOW) && x->decision.retry_at != y->decision.retry_at)
        return x->decision.retry_at > y->decision.retry_at;
    uint64_t left_x = x->decision.remaining / (x->cost == 0 ? 1 : x->cost);
    uint64_t left_y = y->decision.remaining / (y->cost == 0 ? 1 : y->cost);
    if (rank_x <= rank(WEIR_ALLOW) && (x->cost == 0) != (y->cost == 0))
        return y->cost == 0;
    if (rank_x <= rank(WEIR_ALLOW) && left_x != left_y)
        return left_x < left_y;
    return x->decision.limit < y->decision.limit;
}

static void speak(struct say *binding, const struct weir_decision *decision, uint64_t cost)
{
    struct say say = { *decision, cost, true };
    if (!binding->is_given || binds_harder(&say, binding))
        *binding = say;
}

void shared_answer(const struct rules *rules, const struct weir_shared_met *met, size_t count,
                   const struct weir_waiter *waiter, weir_ns now, struct weir_answer *out)
{
    struct weir_decision each[WEIR_ASKS_MAX], unused;
    struct say binding = { .is_given = false };
    size_t own = waiter == NULL ? 0 : waiter->count;
    out->limits = rules->limits;
    out->count = 0;
    out->watched = 0;
    if (own > 0 && waiter->is_tentative)
        weir_waiter_answer(rules->set, waiter, each, &unused);
    for (size_t i = 0; i < own; i++) {
        bool is_watched = (waiter->watched & question_bit(i)) != 0;
        if (!waiter->is_tentative)
            each[i] = waiter->parts[i].decision;
        if (each[i].limit == WEIR_NO_LIMIT)
            continue;
        answer_insert(out, &each[i], is_watched, waiter->parts[i].tag);
        if (!is_watched)
            speak(&binding, &each[i], waiter->parts[i].cost);
    }
    for (size_t i = 0; i < count && out->count < WEIR_ASKS_MAX; i++) {
        struct weir_decision decision = met[i].decision;
        decision.limit = met[i].limit;
        answer_insert(out, &decision, met[i].is_watched, met[i].asked_by);
        if (!met[i].is_watched)
            speak(&binding, &decision, met[i].cost);
    }
    out->decision = binding.is_given ? binding.decision : decide_no_limit(now);
}

static bool all_pass(const struct weir_shared_met *met, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!met[i].is_watched && !decision_passes(&met[i].decision))
            return false;
    return true;
}

void weir_contract_end(const struct weir_contract *contract, const void *rules,
                       const struct weir_shared_met *met, size_t count, struct weir_waiter *waiter, weir_ns now,
                       struct weir_answer *out)
{
    if (waiter != NULL && waiter->is_tentative && waiter->count > 0)
        (all_pass(met, count) ? weir_waiter_keep : weir_waiter_undo)(contract->limiter, waiter, now);
    shared_answer(rules, met, count, waiter, now, out);
    own_hide(out, ((const struct rules *)rules)->limit_count);
}
