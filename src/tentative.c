// SPDX-License-Identifier: Apache-2.0
/*
 * tentative.c - a waiter that passed here and has to pass elsewhere too: kept, or undone.
 *
 * Its charges are real from the start, so nobody else can take what it may yet need; undoing gives them back as a composite
 * does that lost a race (G2). Its retry ids stay held meanwhile: a twin that comes in between neither passes for its sake nor is
 * charged (P31).
 *
 * Elsewhere: what it was charged is in its parts (wait_answer.c), how charges are given back in the store.
 */
#include "wait.h"

/* The ask that tells of a part, as the first that was added up in it. */
static const struct weir_decision *decision_of(const struct weir_waiter *waiter, size_t part)
{
    size_t i = 0;
    while (waiter_stand(waiter, i)->part_of != part)
        i++; /* every part is of some ask */
    return &waiter->parts[i].decision;
}

static void end_retry(struct weir *weir, const struct weir_set *set, struct stand *stand, weir_ns stamp,
                      bool was_allowed)
{
    const struct limit *limit = set_limit(set, set_find_lineage(set, stand->lineage));
    struct hold hold = { .hash = stand->retry_id, .nonce = stand->retry_nonce };
    if (!stand->holds_retry)
        return;
    stand->holds_retry = false;
    hold.free_within = limit == NULL ? 0 : limit->given.retries_free_within;
    retry_end(weir, &hold, stamp, was_allowed && hold.free_within > 0);
}

static bool has_passed(const struct weir_waiter *waiter)
{
    return waiter->count > 0 && !is_refusal(waiter->decision.outcome);
}

void weir_waiter_keep(struct weir *weir, struct weir_waiter *waiter, weir_ns now)
{
    const struct weir_set *set = set_current(weir);
    for (size_t i = 0; has_passed(waiter) && i < waiter_state(waiter)->stand_count; i++)
        end_retry(weir, set, waiter_stand(waiter, i), set_to_stamp(weir, now), true);
}

/*
 * Give back what the part was charged, if it was: a duplicate, an unlimited key and a full table were not. Where its limit was
 * changed since, what was charged under the old shape cannot be told from what was converted: it stays charged, which is strict.
 */
static void give_back(struct weir *weir, const struct weir_set *set, const struct stand *stand,
                      const struct weir_decision *decision, weir_ns stamp)
{
    weir_limit_id id;
    const struct shape *shape = room_shape(set, stand->lineage, stand->hash, &id);
    const struct store_answer taken = { .outcome = decision->outcome,
                                        .policy = decision->policy,
                                        .at = set_to_stamp(weir, decision->decided_at),
                                        .permit = stand->place,
                                        .fence = stand->fence };
    bool is_charged =
        decision->outcome == WEIR_ALLOW && stand->cost > 0 && (stand->is_charged || stand->fence != 0);
    if (shape == NULL || !is_charged || (taken.at < shape->since && stand->fence == 0))
        return;
    store_undo(weir->store, shape, stand->hash, &taken, stamp, stand->cost);
    room_touch(weir, stand->hash, stamp);
}

/* What would be said now; takes nothing. A change may come in between. */
static void look_again(struct weir *weir, struct weir_waiter *waiter, weir_ns stamp)
{
    struct composite all;
    int code;
    do {
        wait_resume(set_current(weir), waiter, stamp, &all);
        all.stance = STORE_LOOK;
        for (size_t i = 0; i < waiter_state(waiter)->stand_count; i++)
            all.parts[i].stance = STORE_LOOK;
        code = wait_decide(&all);
        if (code == 0)
            code = wait_watch(&all, waiter_state(waiter)->stand_count, false);
    } while (code != 0);
    wait_write_answer(&all, waiter);
}

void weir_waiter_undo(struct weir *weir, struct weir_waiter *waiter, weir_ns now)
{
    struct waiter *state = waiter_state(waiter);
    weir_ns stamp = set_to_stamp(weir, now);
    const struct weir_set *set = set_current(weir);
    if (!has_passed(waiter) || state->is_undone)
        return;
    for (size_t i = state->stand_count; i-- > 0;) {
        struct stand *stand = waiter_stand(waiter, i);
        give_back(weir, set, stand, decision_of(waiter, i), stamp);
        end_retry(weir, set, stand, stamp, false);
    }
    look_again(weir, waiter, stamp);
    state->is_undone = true;
}
