// SPDX-License-Identifier: Apache-2.0
/*
 * set.h - the limits in force: an immutable set, found by one pointer.
 *
 * Idea: a decision loads weir.current once and uses that set throughout, so it sees one whole configuration. A change
 * builds a set beside it and stores the pointer; the old one lives until weir_quiesce(), when nobody can hold it.
 *
 * Words:    weir.current, written by weir_change_commit(), read by every decision.
 * Ordering: release and acquire: a set is complete before it can be seen.
 * Progress: wait-free for readers.
 * Reuse:    sets, shapes and shape numbers are reused only after weir_quiesce().
 */
#ifndef WEIR_SET_H
#define WEIR_SET_H

#include <stdatomic.h>

#include "base/siphash.h"
#include "store/store.h"
#include "weir.h"

/* One limit of a set. */
struct limit {
    struct siphash
        prefix; /* the secret and what makes the limit the same (name, algorithm, align, key_form), absorbed */
    const struct shape *shape; /* of keys without an override */
    uint32_t has_overrides;
    uint32_t lineage;
    weir_ns retries_free_within;
    struct weir_limit given; /* with strings of its own */
    char name[WEIR_NAME_MAX + 1];
};

/* A key with a size of its own, by its hash. */
struct override {
    uint64_t hash; /* 0: an empty place; a key whose hash is 0 cannot be overridden, which no key will notice */
    const struct shape *shape; /* NULL: unlimited */
    weir_limit_id limit;
};

struct weir_set {
    struct weir *weir;
    uint32_t generation;
    weir_ns since; /* when it came into force */
    size_t limit_count, limit_room;
    struct limit **limits;
    int32_t *by_name;                     /* open addressing, id + 1; twice limit_room places */
    struct override *overrides;           /* open addressing by hash, at most half full */
    size_t override_count, override_room; /* room is a power of two, or 0 */
};

struct weir {
    struct store *store;
    weir_ns origin;
    struct weir_set *_Atomic current;
    struct weir_set *old;         /* after a commit, until weir_quiesce() */
    struct siphash seed;          /* the secret, nothing absorbed */
    struct siphash signer;        /* keys the proof that reservations carry: the secret and a word of its own */
    int64_t wall_offset;          /* as of weir_new(), for epoch windows */
    _Atomic weir_ns wall_read_at; /* when weir_check_now() last looked at the wall */
    struct weir_allocator allocator;
    struct weir_change *change; /* being built */
    uint32_t next_lineage, next_generation;
    uint64_t numbers[(WEIR_LIMITS_MAX + 64) / 64]; /* shape numbers in use, a bit each */
};

/* The set that a decision uses. */
static inline const struct weir_set *set_current(const struct weir *weir)
{
    return atomic_load_explicit(&((struct weir *)(uintptr_t)weir)->current, memory_order_acquire);
}

static inline const struct limit *set_limit(const struct weir_set *set, weir_limit_id id)
{
    return (size_t)id < set->limit_count ? set->limits[id] : NULL;
}

/* The limit of a lineage in the set, or NULL: it was removed. */
const struct limit *set_find_lineage(const struct weir_set *set, uint32_t lineage, weir_limit_id *id);

/* The hash of a key under a limit. */
static inline uint64_t set_hash(const struct limit *limit, const void *key, size_t len)
{
    return siphash_end(limit->prefix, key, len);
}

/* The shape that a key has: its limit's, or its override's; NULL: it is not counted. */
const struct shape *set_shape_overridden(const struct weir_set *set, const struct limit *limit, uint64_t hash);

static inline const struct shape *set_shape(const struct weir_set *set, const struct limit *limit,
                                            uint64_t hash)
{
    return limit->has_overrides ? set_shape_overridden(set, limit, hash) : limit->shape;
}

/* Stamps are ns since the origin; see weir_options.origin. */
static inline weir_ns set_to_stamp(const struct weir *weir, weir_ns now)
{
    return now > weir->origin ? now - weir->origin : 0;
}

static inline weir_ns set_from_stamp(const struct weir *weir, weir_ns stamp)
{
    return stamp > WEIR_NO_TIME - weir->origin ? WEIR_NO_TIME : stamp + weir->origin;
}

#endif
