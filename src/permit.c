// SPDX-License-Identifier: Apache-2.0
/*
 * permit.c - acquiring, renewing and releasing: permits as values.
 *
 * Idea: a permit is a value that says which entry of which key it is (store/permit.c), sealed so that nobody else can name
 * that entry. It carries no expiry: the entry knows.
 *
 *     byte 0       version, 1
 *     1 .. 3       parts, 1 .. 64
 *     then a part: lineage (4), place (4), hash (8), fence (8)
 *     last 16      the proof (sealed.h)
 *
 * A part names its limit by lineage, so a permit outlives a change of the limits; of one that was removed nothing is held.
 */
#include "permit.h"

#include "sealed.h"

#define VERSION 1
#define HEAD_LEN 4
#define PART_LEN 24

_Static_assert(HEAD_LEN + WEIR_ASKS_MAX * PART_LEN + PROOF_LEN <= WEIR_PERMIT_MAX,
               "WEIR_PERMIT_MAX holds every permit");

struct parts {
    size_t count;
    struct permit_part list[WEIR_ASKS_MAX];
};

/* ---- As bytes -------------------------------------------------------------------------------------------------- */

bool permit_of_answer(const struct shape *shape, uint64_t hash, const struct store_answer *answer,
                      struct permit_part *out)
{
    if (shape == NULL || shape->algorithm != WEIR_CONCURRENCY || answer->outcome != WEIR_ALLOW
        || answer->fence == 0)
        return false;
    *out = (struct permit_part){ .lineage = shape->lineage,
                                 .held = { hash, answer->fence, answer->permit },
                                 .expires_at = answer->at + shape->hold };
    return true;
}

void permit_encode(const struct weir *weir, const struct permit_part *parts, size_t count,
                   struct weir_permit *out)
{
    unsigned char *at = out->bytes;
    weir_ns expires_at = WEIR_NO_TIME;
    out->len = 0;
    out->fence = count == 0 ? 0 : parts[0].held.fence;
    sealed_put(&at, VERSION, 1);
    sealed_put(&at, count, 3);
    for (size_t i = 0; i < count; i++) {
        sealed_put(&at, parts[i].lineage, 4);
        sealed_put(&at, parts[i].held.place, 4);
        sealed_put(&at, parts[i].held.hash, 8);
        sealed_put(&at, parts[i].held.fence, 8);
        expires_at = parts[i].expires_at < expires_at ? parts[i].expires_at : expires_at;
    }
    out->expires_at = set_from_stamp(weir, expires_at);
    if (count == 0)
        return;
    sealed_prove(weir, SEALED_PERMIT, out->bytes, (size_t)(at - out->bytes), at);
    out->len = (size_t)(at - out->bytes) + PROOF_LEN;
}

/* Refuses what this limiter did not make. */
static int decode(const struct weir *weir, const void *bytes, size_t len, struct parts *out)
{
    const unsigned char *at = bytes;
    if (len < HEAD_LEN + PROOF_LEN || len > WEIR_PERMIT_MAX || !sealed_is_ours(weir, SEALED_PERMIT, at, len))
        return WEIR_ERR_PERMIT;
    uint64_t version = sealed_get(&at, 1);
    out->count = (size_t)sealed_get(&at, 3);
    if (version != VERSION || out->count == 0 || out->count > WEIR_ASKS_MAX
        || len != HEAD_LEN + out->count * PART_LEN + PROOF_LEN)
        return WEIR_ERR_PERMIT;
    for (size_t i = 0; i < out->count; i++) {
        struct permit_part *part = &out->list[i];
        part->lineage = (uint32_t)sealed_get(&at, 4);
        part->held.place = (uint32_t)sealed_get(&at, 4);
        part->held.hash = sealed_get(&at, 8);
        part->held.fence = sealed_get(&at, 8);
    }
    return 0;
}

/* ---- Acquiring ------------------------------------------------------------------------------------------------- */

static void write_permit(const struct composite *all, struct weir_permit *out)
{
    struct permit_part parts[WEIR_ASKS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < all->count && composite_passes(all); i++)
        count +=
            permit_of_answer(all->parts[i].shape, all->parts[i].hash, &all->parts[i].answer, &parts[count]);
    permit_encode(all->set->weir, parts, count, out);
}

int weir_set_acquire(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                     struct weir_decision *each, struct weir_decision *out, struct weir_permit *permit)
{
    struct composite all;
    int code = composite_gather(set, asks, count, &all);
    if (code != 0)
        return code;
    all.stamp = set_to_stamp(set->weir, now);
    all.stance = STORE_ACQUIRE;
    composite_name_retries(&all, asks, count);
    composite_begin_retries(&all);
    code = composite_decide(&all);
    composite_end_retries(&all, code == 0 && composite_passes(&all));
    if (code != 0)
        return code;
    composite_answer(&all, count, each, out);
    write_permit(&all, permit);
    return 0;
}

int weir_acquire(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                 struct weir_decision *each, struct weir_decision *out, struct weir_permit *permit)
{
    int code;
    do
        code = weir_set_acquire(set_current(weir), asks, count, now, each, out, permit);
    while (code == WEIR_ERR_CHANGED);
    return code;
}

/* ---- Holding ----------------------------------------------------------------------------------------------------- */

/* The size that a part is held under now; NULL: its limit was removed. A key that is not counted any more keeps what it
   holds, under the limit's own size. */
static const struct shape *shape_of(const struct weir_set *set, const struct permit_part *part)
{
    const struct limit *limit = set_limit(set, set_find_lineage(set, part->lineage));
    if (limit == NULL)
        return NULL;
    const struct shape *shape = set_shape(set, limit, part->held.hash);
    return shape != NULL ? shape : limit->shape;
}

static bool are_held(struct weir *weir, const struct weir_set *set, const struct parts *parts, weir_ns stamp)
{
    for (size_t i = 0; i < parts->count; i++) {
        const struct shape *shape = shape_of(set, &parts->list[i]);
        if (shape == NULL || !store_permit_is_held(weir->store, shape, &parts->list[i].held, stamp))
            return false;
    }
    return true;
}

/* Looked at before any is renewed: a permit of which a part is lost is lost, and its other parts are not held for longer. */
int weir_renew(struct weir *weir, const void *permit, size_t len, weir_ns now, weir_ns *expires_at)
{
    struct parts parts;
    int code = decode(weir, permit, len, &parts);
    if (code != 0)
        return code;
    const struct weir_set *set = set_current(weir);
    weir_ns stamp = set_to_stamp(weir, now), soonest = WEIR_NO_TIME;
    bool is_held = are_held(weir, set, &parts, stamp);
    for (size_t i = 0; i < parts.count && is_held; i++) {
        weir_ns until =
            store_permit_renew(weir->store, shape_of(set, &parts.list[i]), &parts.list[i].held, stamp);
        is_held = until != WEIR_NO_TIME;
        soonest = until < soonest ? until : soonest;
    }
    *expires_at = is_held ? set_from_stamp(weir, soonest) : WEIR_NO_TIME;
    return 0;
}

int weir_release(struct weir *weir, const void *permit, size_t len, weir_ns now, bool *was_held)
{
    struct parts parts;
    int code = decode(weir, permit, len, &parts);
    if (code != 0)
        return code;
    const struct weir_set *set = set_current(weir);
    weir_ns stamp = set_to_stamp(weir, now);
    bool any = false;
    for (size_t i = 0; i < parts.count; i++) {
        const struct shape *shape = shape_of(set, &parts.list[i]);
        if (shape == NULL || !store_permit_release(weir->store, shape, &parts.list[i].held, stamp))
            continue;
        any = true;
        room_touch(weir, parts.list[i].held.hash, stamp);
    }
    if (was_held != NULL)
        *was_held = any;
    return 0;
}
