// SPDX-License-Identifier: Apache-2.0
/*
 * kit.h - a store for tests: its memory can be compared, its allocator can fail, hashes are chosen by hand.
 *
 * The allocator remembers its blocks, so "writes nothing" is a comparison of all memory that the store has.
 */
#ifndef WEIR_TEST_STORE_KIT_H
#define WEIR_TEST_STORE_KIT_H

#include "store/table.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND

#define KIT_BLOCKS 64
#define KIT_SHAPES 16

struct kit {
    struct store *store;
    struct weir_allocator allocator;
    struct {
        void *memory;
        size_t size;
    } blocks[KIT_BLOCKS];
    size_t block_count, allocations, fail_at; /* the n-th allocation fails; 0: none */
    struct shape shapes[KIT_SHAPES];
    size_t shape_count;
};

static inline void *kit_allocate(void *context, size_t size, size_t alignment)
{
    struct kit *kit = context;
    if (++kit->allocations == kit->fail_at)
        return NULL;
    assert_true(kit->block_count < KIT_BLOCKS);
    void *memory = NULL;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0)
        return NULL;
    memset(memory, 0, size);
    kit->blocks[kit->block_count].memory = memory;
    kit->blocks[kit->block_count++].size = size;
    return memory;
}

static inline void kit_release(void *context, void *memory, size_t size)
{
    struct kit *kit = context;
    for (size_t i = 0; i < kit->block_count; i++) {
        if (kit->blocks[i].memory != memory)
            continue;
        assert_int_equal(kit->blocks[i].size, size);
        kit->blocks[i] = kit->blocks[--kit->block_count];
        free(memory);
        return;
    }
    fail_msg("a block was released that was never allocated");
}

static inline int kit_try_open(struct kit *kit, const struct store_options *options)
{
    kit->allocator = (struct weir_allocator){ kit_allocate, kit_release, kit };
    return store_new(&kit->store, options, &kit->allocator);
}

/* A store of 16 cells, all of them candidates of every key, unless `keys` says more. */
static inline void kit_open(struct kit *kit, size_t keys, size_t log_stamps)
{
    *kit = (struct kit){ 0 };
    assert_int_equal(kit_try_open(kit, &(struct store_options){ .keys = keys, .log_stamps = log_stamps }), 0);
}

static inline void kit_close(struct kit *kit)
{
    store_free(kit->store);
    for (size_t i = 0; i < kit->shape_count; i++)
        shape_deinit(&kit->shapes[i], &kit->allocator);
    assert_int_equal(kit->block_count, 0);
}

/* The next size of a limit: which one, of which set, since when. */
struct kit_place {
    uint32_t lineage, generation;
    weir_ns since, lost_at;
};

static inline const struct shape *kit_shape_at(struct kit *kit, struct weir_limit limit, struct kit_place place)
{
    assert_true(kit->shape_count < KIT_SHAPES);
    struct shape *shape = &kit->shapes[kit->shape_count];
    limit.name = "kit";
    assert_int_equal(shape_init(shape, &limit, 0, &kit->allocator), 0);
    shape->number = (uint16_t)++kit->shape_count;
    shape->lineage = place.lineage;
    shape->generation = place.generation;
    shape->since = place.since;
    shape->lost_at = place.lost_at;
    shape->absent = shape_lost(shape);
    assert_int_equal(store_shape_add(kit->store, shape), 0);
    return shape;
}

/* A limit that never changes, of a lineage of its own. */
static inline const struct shape *kit_shape(struct kit *kit, struct weir_limit limit)
{
    return kit_shape_at(kit, limit, (struct kit_place){ .lineage = 1000 + (uint32_t)kit->shape_count });
}

static inline struct store_answer take(struct kit *kit, const struct shape *shape, uint64_t hash, weir_ns now,
                                       uint64_t cost)
{
    struct store_answer answer;
    memset(&answer, 0xee, sizeof answer);
    assert_true(store_take(kit->store, shape, hash, now, cost, &answer));
    return answer;
}

static inline struct store_answer peek(struct kit *kit, const struct shape *shape, uint64_t hash, weir_ns now,
                                       uint64_t cost)
{
    struct store_answer answer;
    memset(&answer, 0xee, sizeof answer);
    assert_true(store_peek(kit->store, shape, hash, now, cost, &answer));
    return answer;
}

/* The hash of a key whose first group is `group` and whose tag is `tag`. */
static inline uint64_t hash_at(const struct kit *kit, uint64_t group, uint64_t tag)
{
    return group << (64 - kit->store->group_bits) | tag;
}

static inline struct weir_stats kit_stats(struct kit *kit, weir_ns now)
{
    struct weir_stats stats;
    store_stats(kit->store, now, &stats);
    return stats;
}

/* How many cells hold this tag, whatever their kind. */
static inline unsigned cells_of(struct kit *kit, uint64_t tag)
{
    unsigned count = 0;
    for (size_t i = 0; i < (size_t)1 << kit->store->group_bits; i++)
        for (unsigned j = 0; j < GROUP_CELLS; j++)
            count += cell_has_tag(kit->store->groups[i].cells[j], tag);
    return count;
}

/* All memory of the store, to be compared later. */
struct snapshot {
    unsigned char *bytes;
    size_t size;
};

static inline struct snapshot kit_snapshot(const struct kit *kit)
{
    struct snapshot shot = { NULL, 0 };
    for (size_t i = 0; i < kit->block_count; i++)
        shot.size += kit->blocks[i].size;
    shot.bytes = malloc(shot.size);
    size_t at = 0;
    for (size_t i = 0; i < kit->block_count; i++) {
        memcpy(shot.bytes + at, kit->blocks[i].memory, kit->blocks[i].size);
        at += kit->blocks[i].size;
    }
    return shot;
}

/* Whether nothing has changed since; frees the snapshot. */
static inline bool kit_is_unchanged(const struct kit *kit, struct snapshot before)
{
    struct snapshot after = kit_snapshot(kit);
    bool same = before.size == after.size && memcmp(before.bytes, after.bytes, before.size) == 0;
    free(before.bytes);
    free(after.bytes);
    return same;
}

#endif
