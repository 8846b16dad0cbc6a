// SPDX-License-Identifier: Apache-2.0
/*
 * wait_answer.c - what a waiter is about, and what came of it: its answer, its permit, its reservation.
 *
 * A waiter outlives changes of the limits, so it keeps lineages rather than ids; and what its permit or reservation is made of
 * rather than these, which are long and which few ask for.
 */
#include <string.h>

#include "permit.h"
#include "reserve.h"
#include "wait.h"

/* ---- Taking down --------------------------------------------------------------------------------------------------- */

static void write_stand(const struct composite *all, size_t index, struct weir_waiter *waiter)
{
    const struct part *part = &all->parts[index];
    *waiter_stand(waiter, index) = (struct stand){ .waiter = waiter,
                                                   .hash = part->hash,
                                                   .cost = part->cost,
                                                   .has_retry_id = part->has_retry,
                                                   .retry_id = part->retry_name,
                                                   .lineage = all->set->limits[part->limit]->family->lineage,
                                                   .is_watched = index >= all->count,
                                                   .is_within = part->is_within,
                                                   .within = part->within };
}

void wait_write_stands(const struct composite *all, const struct weir_ask *asks, struct weir_waiter *waiter)
{
    struct waiter *state = waiter_state(waiter);
    bool some = false;
    state->joint_count = (uint16_t)all->count;
    state->stand_count = (uint16_t)(all->count + (size_t)__builtin_popcountll(waiter->watched));
    for (size_t i = 0; i < state->stand_count; i++)
        write_stand(all, i, waiter);
    for (size_t i = 0; i < waiter->count; i++)
        some |= asks[i].is_estimate && !asks[i].is_watched;
    for (size_t i = 0; i < waiter->count; i++) {
        struct stand *stand = waiter_stand(waiter, i);
        waiter->parts[i].cost = asks[i].cost;
        waiter->parts[i].tag = asks[i].tag;
        stand->part_of = all->part_of[i];
        stand->settles = reserve_settles(&asks[i], some);
    }
}

/* Nothing is asked that could refuse. */
static struct weir_decision no_limit(const struct composite *all)
{
    struct weir_decision decision;
    const struct store_answer answer = unlimited(all->stamp);
    write_decision(all->set->weir, WEIR_NO_LIMIT, NULL, &answer, &decision);
    return decision;
}

static void write_result(const struct weir_waiter *waiter, const struct part *part, bool passes,
                         struct stand *stand)
{
    struct permit_part permit;
    stand->is_charged = part->shape != NULL && part->shape->algorithm != WEIR_CONCURRENCY;
    stand->holds_retry = passes && waiter->is_tentative && part->retry == RETRY_FIRST;
    stand->retry_nonce = part->hold.nonce;
    stand->fence = 0;
    if (passes && permit_of_answer(part->shape, part->hash, &part->answer, &permit)) {
        stand->fence = permit.held.fence;
        stand->place = permit.held.place;
        stand->expires_at = permit.expires_at;
    }
}

void wait_write_answer(const struct composite *all, struct weir_waiter *waiter)
{
    struct waiter *state = waiter_state(waiter);
    waiter->decision = no_limit(all);
    if (all->count > 0)
        composite_answer(all, 0, NULL, &waiter->decision);
    const struct limit *binding = set_limit(all->set, waiter->decision.limit);
    state->binding = binding == NULL ? 0 : binding->family->lineage;
    for (size_t i = 0; i < state->stand_count; i++)
        write_result(waiter, &all->parts[i], composite_passes(all), waiter_stand(waiter, i));
    for (size_t i = 0; i < waiter->count; i++) {
        const struct part *part = &all->parts[waiter_stand(waiter, i)->part_of];
        write_part(all, part, &waiter->parts[i].decision);
    }
}

/* ---- Telling ------------------------------------------------------------------------------------------------------- */

void weir_waiter_answer(const struct weir_set *set, const struct weir_waiter *waiter,
                        struct weir_decision *each, struct weir_decision *out)
{
    *out = waiter->decision;
    out->limit = set_find_lineage(set, waiter_state(waiter)->binding);
    for (size_t i = 0; each != NULL && i < waiter->count; i++) {
        each[i] = waiter->parts[i].decision;
        each[i].limit = set_find_lineage(set, waiter_stand(waiter, waiter_stand(waiter, i)->part_of)->lineage);
    }
}

void weir_waiter_permit(struct weir *weir, const struct weir_waiter *waiter, struct weir_permit *out)
{
    struct permit_part parts[WEIR_ASKS_MAX];
    size_t count = 0;
    for (size_t i = 0; waiter->count > 0 && i < waiter_state(waiter)->joint_count; i++) {
        const struct stand *stand = waiter_stand(waiter, i);
        if (stand->fence != 0)
            parts[count++] = (struct permit_part){ .lineage = stand->lineage,
                                                   .held = { stand->hash, stand->fence, stand->place },
                                                   .expires_at = stand->expires_at };
    }
    permit_encode(weir, parts, count, out);
}

static bool is_charged(const struct weir_waiter *waiter, size_t ask)
{
    const struct weir_decision *decision = &waiter->parts[ask].decision;
    const struct stand *stand = waiter_stand(waiter, waiter_stand(waiter, ask)->part_of);
    return stand->is_charged && !stand->is_watched && waiter->parts[ask].cost > 0
           && decision->outcome == WEIR_ALLOW && decision->policy == WEIR_POLICY_NONE;
}

void weir_waiter_reservation(struct weir *weir, const struct weir_waiter *waiter, weir_ns hold,
                             struct weir_reservation *out)
{
    struct charged parts[WEIR_ASKS_MAX];
    const struct waiter *state = waiter_state(waiter);
    size_t count = 0;
    out->len = 0;
    bool passes = waiter->decision.outcome == WEIR_ALLOW || waiter->decision.outcome == WEIR_DUPLICATE;
    if (waiter->count == 0 || state->joint_count == 0 || !passes || state->is_undone)
        return;
    for (size_t i = 0; i < waiter->count; i++) {
        const struct stand *ask = waiter_stand(waiter, i), *stand = waiter_stand(waiter, ask->part_of);
        if (is_charged(waiter, i))
            parts[count++] = (struct charged){ .lineage = stand->lineage,
                                               .flags = ask->settles ? CHARGED_SETTLES : 0,
                                               .hash = stand->hash,
                                               .cost = waiter->parts[i].cost,
                                               .at = set_to_stamp(weir, waiter->parts[i].decision.decided_at) };
    }
    reserve_write(weir, parts, count, state->started_at + waiter->waited, hold, out);
}
