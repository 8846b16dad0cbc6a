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
#include "room.h"
#include "store/store.h"
#include "weir.h"

/*
 * The shapes of one limit: the first is of keys without an override, the others one for each different size. A limit that a
 * change leaves alone takes its family over, numbers and all; any change of it makes a new one, so that a cell's number
 * tells which set it was last written under.
 */
struct family {
    struct member {
        struct shape *shape;
        struct weir_size size;
    } * members;
    size_t count, room;
    uint32_t lineage;
};

/* One limit of a set. */
struct limit {
    struct siphash
        prefix; /* the secret and what makes the limit the same (name, algorithm, align, key_form), absorbed */
    const struct shape *shape; /* family->members[0].shape */
    size_t override_count;
    bool has_new_override; /* that its predecessor has not: while a change is put in force */
    struct family *family;
    struct weir_limit given; /* as it was added; its strings are those below, or NULL */
    char name[WEIR_NAME_MAX + 1];
    char zone[WEIR_NAME_MAX + 2];
};

/* A key with a size of its own, by its hash. */
struct override {
    uint64_t hash;
    const struct shape *shape; /* NULL: unlimited */
    int32_t limit;             /* id + 1; 0: an empty place */
    uint32_t member;           /* of its limit's family, where shape is not NULL */
};

struct weir_set {
    struct weir *weir;
    uint32_t generation;
    weir_ns since; /* when it came into force */
    size_t limit_count, limit_room;
    struct limit **limits;
    int32_t *by_name;                     /* open addressing, id + 1; twice limit_room places */
    int32_t *by_lineage;                  /* the same by family->lineage, filled when the set is put in force */
    struct override *overrides;           /* open addressing by hash, at most half full */
    size_t override_count, override_room; /* room is a power of two, or 0 */
};

/* Shapes that no cell names any more, but that a call which is running may have met. */
struct retired {
    struct family **families;
    size_t count, room;
};

struct weir {
    struct store *store;
    weir_ns origin;
    struct weir_set *_Atomic current;
    struct weir_set *old;           /* after a commit, until weir_quiesce() */
    struct retired retired;         /* after that, until the next one */
    const struct shape **successor; /* by number, for the sweep; reserved by the commit */
    bool *is_gone;
    struct siphash seed;          /* the secret, nothing absorbed */
    int64_t wall_offset;          /* as of weir_new(), for epoch windows */
    _Atomic weir_ns lost_at;      /* a stamp, for shapes to come; rises only */
    _Atomic weir_ns wall_read_at; /* when weir_check_now() last looked at the wall */
    _Atomic uint64_t next_nonce;  /* of reservations; begins at random, so that a restart repeats none */
    struct weir_allocator allocator;
    uint32_t next_lineage, next_generation;
    struct room room;
    uint64_t numbers[(WEIR_LIMITS_MAX + 64) / 64]; /* shape numbers in use, a bit each */
};

/* Whether two sizes of one limit are the same; NULL is unlimited. */
static inline bool set_same_size(const struct weir_size *x, const struct weir_size *y)
{
    if (x == NULL || y == NULL)
        return x == y;
    return x->rate.count == y->rate.count && x->rate.period == y->rate.period && x->burst == y->burst
           && x->debt == y->debt && x->at_most == y->at_most;
}

/* The set that a decision uses. */
static inline const struct weir_set *set_current(const struct weir *weir)
{
    return atomic_load_explicit(&((struct weir *)(uintptr_t)weir)->current, memory_order_acquire);
}

static inline const struct limit *set_limit(const struct weir_set *set, weir_limit_id id)
{
    return (size_t)id < set->limit_count ? set->limits[id] : NULL;
}

/* The limit of a lineage in the set, or WEIR_NO_LIMIT: it was removed. */
weir_limit_id set_find_lineage(const struct weir_set *set, uint32_t lineage);

/* Whether a limit of the set has this name. */
bool set_has_name(const struct weir_set *set, const char *name);

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
    return limit->override_count > 0 ? set_shape_overridden(set, limit, hash) : limit->shape;
}

/* Unix time of the origin. Offsets that put it outside of 64 bits mean its nearest end: no sum may wrap. */
static inline int64_t set_wall_at_origin(const struct weir *weir, int64_t offset)
{
    __extension__ typedef __int128 i128;
    i128 wall = (i128)offset + weir->origin;
    return wall > INT64_MAX ? INT64_MAX : wall < INT64_MIN ? INT64_MIN : (int64_t)wall;
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

/* ---- Building (set.c, change.c) ---------------------------------------------------------------------------- */

struct weir_set *set_new(struct weir *weir);

/* Free a set, and with `and_families` the shapes of its limits. */
void set_free(struct weir_set *set, bool and_families);
void family_free(struct weir *weir, struct family *family);

/* As weir_limit_add() and weir_override_add(), without making shapes known to the store. */
int set_add_limit(struct weir_set *set, const struct weir_limit *limit, weir_limit_id *out);
int set_add_override(struct weir_set *set, weir_limit_id id, const void *key, size_t len,
                     const struct weir_size *size);

/* The override of a hash, or the empty place where it would stand. override_room is not 0. */
struct override *set_override_place(const struct weir_set *set, uint64_t hash);

/* Give the family's shapes from `first` on their numbers and make them known. All or none. */
int family_publish(struct weir *weir, struct family *family, size_t first);

/* The reverse: the store forgets them, and their numbers are free. */
void family_withdraw(struct weir *weir, struct family *family);

/* What is absent under it had nothing left at this stamp, where it said an earlier one. */
void set_lose(const struct weir_set *set, weir_ns stamp);

/* Index the set by lineage. */
void set_index_lineages(struct weir_set *set);

void *set_take_memory(struct weir *weir, size_t size);
void set_give_memory(struct weir *weir, void *memory, size_t size);

#endif
