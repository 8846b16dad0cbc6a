// SPDX-License-Identifier: Apache-2.0
/*
 * wait_decide.c - a waiter's request as a composite: gathered on arrival, resumed under the limits of another day, decided.
 *
 * Asks that are decided together come first, watched ones behind them, each a part of its own: it counts what passes, and is
 * looked at where nothing does.
 */
#include <string.h>

#include "wait.h"

/* ---- The request ---------------------------------------------------------------------------------------------------- */

/* Give a watched ask a part of its own, behind those that are decided together. */
static __attribute__((noinline)) int gather_watched(const struct weir_set *set, const struct weir_ask *ask,
                                                    struct part *out)
{
    struct composite alone;
    int code = composite_gather(set, ask, 1, &alone);
    if (code == 0) {
        composite_name_retries(&alone, ask, 1);
        *out = alone.parts[0];
    }
    return code;
}

/* Those that are decided together. There may be none. */
static int gather_joint(const struct weir_set *set, const struct weir_ask *asks, size_t count,
                        struct composite *all)
{
    struct weir_ask joint[WEIR_ASKS_MAX];
    size_t joint_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!asks[i].is_watched)
            joint[joint_count++] = asks[i];
    all->set = set;
    all->count = 0;
    memset(all->part_of, 0, sizeof all->part_of);
    if (joint_count == 0)
        return 0;
    int code = composite_gather(set, joint, joint_count, all);
    if (code == 0)
        composite_name_retries(all, joint, joint_count);
    return code;
}

int wait_gather(const struct weir_set *set, const struct weir_ask *asks, size_t count, struct composite *all,
                uint64_t *watched)
{
    uint8_t joint_part_of[WEIR_ASKS_MAX];
    if (count == 0 || count > WEIR_ASKS_MAX)
        return WEIR_ERR_ASKS;
    int code = gather_joint(set, asks, count, all);
    if (code != 0)
        return code;
    memcpy(joint_part_of, all->part_of, sizeof joint_part_of);
    *watched = 0;
    size_t joint = 0, at = all->count;
    for (size_t i = 0; i < count; i++) {
        if (!asks[i].is_watched) {
            all->part_of[i] = joint_part_of[joint++];
            continue;
        }
        code = gather_watched(set, &asks[i], &all->parts[at]);
        if (code != 0)
            return code;
        *watched |= UINT64_C(1) << i;
        all->part_of[i] = (uint8_t)at++;
    }
    return 0;
}

/* The request as it stands under the set in force. What is not counted any more passes. */
void wait_resume(const struct weir_set *set, const struct weir_waiter *waiter, weir_ns now,
                 struct composite *all)
{
    const struct waiter *state = waiter_state(waiter);
    all->set = set;
    all->stamp = now;
    all->stance =
        STANCE_IN_ROOM | (waiter->acquires ? STORE_ACQUIRE : 0) | (waiter->is_tentative ? STANCE_TENTATIVE : 0);
    all->count = state->joint_count;
    for (size_t i = 0; i < state->stand_count; i++) {
        const struct stand *stand = waiter_stand(waiter, i);
        struct part *part = &all->parts[i];
        *part = (struct part){ .hash = stand->hash,
                               .cost = stand->cost,
                               .stance = stand->in_queue ? STORE_TURN : STORE_TAKE,
                               .is_within = stand->is_within,
                               .within = stand->within,
                               .has_retry = stand->has_retry_id,
                               .retry_name = stand->retry_id };
        part->shape = room_shape(set, stand->lineage, stand->hash, &part->limit);
    }
    for (size_t i = 0; i < waiter->count; i++)
        all->part_of[i] = waiter_stand(waiter, i)->part_of;
}

int wait_decide(struct composite *all)
{
    if (all->count == 0)
        return 0;
    composite_begin_retries(all);
    int code = composite_decide(all);
    bool passes = code == 0 && composite_passes(all);
    if (!passes || (all->stance & STANCE_TENTATIVE) == 0)
        composite_end_retries(all, passes);
    return code;
}

/*
 * What a watched limit would have said. It counts what passes, and is looked at where nothing does. Should a change come in
 * between when others were charged already, it is left out.
 */
static __attribute__((noinline)) int watch(const struct composite *all, struct part *part, bool passes,
                                           bool is_charged)
{
    struct composite alone;
    alone.set = all->set;
    alone.stamp = all->stamp;
    alone.stance = (all->stance & (STANCE_IN_ROOM | STANCE_TENTATIVE)) | (passes ? STORE_TAKE : STORE_LOOK);
    alone.count = 1;
    alone.parts[0] = *part;
    int code = wait_decide(&alone);
    *part = alone.parts[0];
    if (code == 0 || !is_charged)
        return code;
    part->answer = contended(WEIR_UNMETERED, WEIR_POLICY_OPEN, all->stamp);
    return 0;
}

int wait_watch(struct composite *all, size_t stand_count, bool passes)
{
    int code = 0;
    for (size_t i = all->count; i < stand_count && code == 0; i++)
        code = watch(all, &all->parts[i], passes, passes && i > 0);
    return code;
}
