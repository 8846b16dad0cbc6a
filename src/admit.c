// SPDX-License-Identifier: Apache-2.0
/*
 * admit.c - deciding: keys become hashes, hashes decisions.
 *
 * Elsewhere: several limits as one (composite.c), arithmetic (limit/), cells and threads (store/), which limits there
 * are (set.c), costs that are known only afterwards (reserve.c).
 */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "composite.h"
#include "store/hot.h"

/* How many keys a batch hashes and prefetches ahead: enough to overlap misses, few enough to stay in L1. */
#define BATCH 32

/* ---- One limit --------------------------------------------------------------------------------------------- */

/* A bucket whose key has its cell. False: nothing was done; look closer. */
static inline __attribute__((always_inline)) bool take_hot(const struct weir_set *set, weir_limit_id id,
                                                           const struct shape *shape, uint64_t hash,
                                                           uint64_t cost, weir_ns stamp,
                                                           struct weir_decision *out)
{
    struct store_answer answer;
    if (shape == NULL || !hot_take(set->weir->store, shape, hash, stamp, cost, &answer))
        return false;
    write_decision(set->weir, id, shape, &answer, out);
    return true;
}

static inline __attribute__((always_inline)) int check_or_peek(struct weir *weir, weir_limit_id id,
                                                               const void *key, size_t len, uint64_t cost,
                                                               weir_ns now, unsigned stance,
                                                               struct weir_decision *out)
{
    for (;;) {
        const struct weir_set *set = set_current(weir);
        const struct limit *limit = set_limit(set, id);
        if (limit == NULL)
            return WEIR_ERR_LIMIT;
        if (len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
        uint64_t hash = set_hash(limit, key, len);
        const struct shape *shape = set_shape(set, limit, hash);
        weir_ns stamp = set_to_stamp(weir, now);
        struct store_answer answer;
        if (__builtin_expect(stance == STORE_TAKE && take_hot(set, id, shape, hash, cost, stamp, out), 1))
            return 0;
        if (!decide_one(set, shape, hash, cost, stamp, stance, &answer))
            continue;
        write_decision(weir, id, shape, &answer, out);
        return 0;
    }
}

int weir_check(struct weir *weir, weir_limit_id limit, const void *key, size_t len, uint64_t cost, weir_ns now,
               struct weir_decision *out)
{
    return check_or_peek(weir, limit, key, len, cost, now, STORE_TAKE, out);
}

int weir_peek(struct weir *weir, weir_limit_id limit, const void *key, size_t len, uint64_t cost, weir_ns now,
              struct weir_decision *out)
{
    return check_or_peek(weir, limit, key, len, cost, now, STORE_LOOK, out);
}

int weir_check_now(struct weir *weir, weir_limit_id limit, const void *key, size_t len, uint64_t cost,
                   struct weir_decision *out)
{
    weir_ns now = clock_monotonic();
    weir_ns seen = atomic_load_explicit(&weir->wall_read_at, memory_order_relaxed);
    if (now - seen >= WEIR_SECOND
        && atomic_compare_exchange_strong_explicit(&weir->wall_read_at, &seen, now, memory_order_relaxed,
                                                   memory_order_relaxed))
        weir_wall_offset_set(weir, weir_wall_offset());
    return weir_check(weir, limit, key, len, cost, now, out);
}

int weir_set_check_within(const struct weir_set *set, weir_limit_id id, const void *key, size_t len,
                          uint64_t cost, uint64_t capacity, bool is_peek, weir_ns now,
                          struct weir_decision *out)
{
    const struct limit *limit = set_limit(set, id);
    if (limit == NULL)
        return WEIR_ERR_LIMIT;
    if (len > WEIR_KEY_MAX)
        return WEIR_ERR_KEY;
    int code = within_check(limit, capacity);
    if (code != 0)
        return code;
    struct weir *weir = set->weir;
    struct store_answer answer;
    struct shape shape;
    shape_within(limit->shape, capacity, &shape);
    if (!decide_one(set, &shape, set_hash(limit, key, len), cost, set_to_stamp(weir, now),
                    is_peek ? STORE_LOOK : STORE_TAKE, &answer))
        return WEIR_ERR_CHANGED;
    write_decision(weir, id, &shape, &answer, out);
    return 0;
}

int weir_check_batch(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                     struct weir_decision *out)
{
    const struct weir_set *set = set_current(weir);
    for (size_t i = 0; i < count; i++) {
        if (set_limit(set, asks[i].limit) == NULL)
            return WEIR_ERR_LIMIT;
        if (asks[i].key_len > WEIR_KEY_MAX)
            return WEIR_ERR_KEY;
    }
    weir_ns stamp = set_to_stamp(weir, now);
    for (size_t done = 0; done < count; done += BATCH) {
        size_t some = count - done < BATCH ? count - done : BATCH;
        uint64_t hashes[BATCH];
        for (size_t i = 0; i < some; i++) {
            const struct weir_ask *ask = &asks[done + i];
            hashes[i] = set_hash(set->limits[ask->limit], ask->key, ask->key_len);
            store_prefetch(weir->store, hashes[i]);
        }
        for (size_t i = 0; i < some; i++) {
            const struct weir_ask *ask = &asks[done + i];
            const struct shape *shape = set_shape(set, set->limits[ask->limit], hashes[i]);
            struct store_answer answer;
            if (decide_one(set, shape, hashes[i], ask->cost, stamp, STORE_TAKE, &answer)) {
                write_decision(weir, ask->limit, shape, &answer, &out[done + i]);
                continue;
            }
            /* A change came in between: this one is decided under the new set. */
            int code = weir_check(weir, ask->limit, ask->key, ask->key_len, ask->cost, now, &out[done + i]);
            if (code != 0)
                return code;
        }
    }
    return 0;
}

/* ---- Several limits ------------------------------------------------------------------------------------------ */

/*
 * Nearly every request meets one limit, and of one the hot path is the whole composite: one exchange, or nothing. False:
 * nothing was done, and composite_gather() says what is wrong or special with the ask.
 */
static bool admit_alone(const struct weir_set *set, const struct weir_ask *ask, weir_ns now,
                        struct weir_decision *each, struct weir_decision *out)
{
    const struct limit *limit = set_limit(set, ask->limit);
    if (limit == NULL || ask->key_len > WEIR_KEY_MAX || ask->retry_id != NULL || ask->is_within)
        return false;
    uint64_t hash = set_hash(limit, ask->key, ask->key_len);
    const struct shape *shape = set_shape(set, limit, hash);
    if (!take_hot(set, ask->limit, shape, hash, ask->cost, set_to_stamp(set->weir, now), out))
        return false;
    if (each != NULL)
        each[0] = *out;
    return true;
}

static int admit(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                 bool is_peek, struct weir_decision *each, struct weir_decision *out)
{
    struct composite all;
    if (count == 1 && !is_peek && admit_alone(set, asks, now, each, out))
        return 0;
    int code = composite_gather(set, asks, count, &all);
    if (code != 0)
        return code;
    all.stamp = set_to_stamp(set->weir, now);
    all.stance = is_peek ? STORE_LOOK : STORE_TAKE;
    composite_name_retries(&all, asks, count);
    composite_begin_retries(&all);
    code = composite_decide(&all);
    composite_end_retries(&all, code == 0 && composite_passes(&all));
    if (code == 0)
        composite_answer(&all, count, each, out);
    return code;
}

int weir_set_admit(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                   struct weir_decision *each, struct weir_decision *out)
{
    return admit(set, asks, count, now, false, each, out);
}

int weir_set_admit_peek(const struct weir_set *set, const struct weir_ask *asks, size_t count, weir_ns now,
                        struct weir_decision *each, struct weir_decision *out)
{
    return admit(set, asks, count, now, true, each, out);
}

int weir_admit(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
               struct weir_decision *each, struct weir_decision *out)
{
    int code;
    do
        code = admit(set_current(weir), asks, count, now, false, each, out);
    while (code == WEIR_ERR_CHANGED);
    return code;
}

int weir_admit_peek(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns now,
                    struct weir_decision *each, struct weir_decision *out)
{
    int code;
    do
        code = admit(set_current(weir), asks, count, now, true, each, out);
    while (code == WEIR_ERR_CHANGED);
    return code;
}

/* ---- The rest ------------------------------------------------------------------------------------------------ */

static void follow_wall(const struct weir_set *set, int64_t wall_at_origin)
{
    for (size_t i = 0; i < set->limit_count; i++) {
        const struct family *family = set->limits[i]->family;
        for (size_t k = 0; family->members[0].shape->align == WEIR_ALIGN_CALENDAR && k < family->count; k++)
            shape_wall_set(family->members[k].shape, wall_at_origin);
    }
}

void weir_wall_offset_set(struct weir *weir, int64_t offset)
{
    follow_wall(set_current(weir), set_wall_at_origin(weir, offset));
}

void weir_stats(struct weir *weir, weir_ns now, struct weir_stats *out)
{
    const struct weir_set *set = set_current(weir);
    store_stats(weir->store, set_to_stamp(weir, now), out);
    out->waiting = atomic_load_explicit(&weir->room.waiting, memory_order_relaxed);
    out->bytes += sizeof *weir + room_bytes(&weir->room)
                  + set->limit_count * (sizeof **set->limits + sizeof(struct family) + sizeof(struct shape))
                  + set->limit_room * (sizeof *set->limits + 2 * sizeof *set->by_name)
                  + set->override_room * sizeof *set->overrides;
}

uint64_t weir_limit_overflows(const struct weir *weir, weir_limit_id id)
{
    const struct limit *limit = set_limit(set_current(weir), id);
    uint64_t sum = 0;
    for (size_t i = 0; limit != NULL && i < limit->family->count; i++)
        sum += store_overflows(weir->store, limit->family->members[i].shape);
    return sum;
}

void weir_sweep(struct weir *weir, weir_ns now, size_t groups)
{
    store_sweep(weir->store, set_to_stamp(weir, now), groups);
}
