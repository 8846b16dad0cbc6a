// SPDX-License-Identifier: Apache-2.0
/*
 * floor.h - the bare loop that a keyed limiter is measured by: hash, look for the tag in one group, exchange 16 bytes.
 *
 * It has the table's size and the key's hash but no second group, no insertion, no policies, no report, and its
 * "decision" adds one. So nothing that decides can be faster without leaving one of the three steps out.
 */
#ifndef WEIR_BENCH_FLOOR_H
#define WEIR_BENCH_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"

__extension__ typedef unsigned __int128 floor_pair;

struct floor_cell {
    uint64_t state, tag;
} __attribute__((aligned(16)));

struct floor_group {
    struct floor_cell cells[8];
} __attribute__((aligned(128)));

struct floor_table {
    struct floor_group *groups;
    unsigned shift; /* 64 - log2 of the number of groups */
    struct siphash prefix;
};

#define FLOOR_TAG_MASK ((UINT64_C(1) << 48) - 1)

static inline uint64_t floor_hash(const struct floor_table *table, const void *key, size_t len)
{
    return siphash_end(table->prefix, key, len);
}

static inline struct floor_group *floor_group(const struct floor_table *table, uint64_t hash)
{
    return &table->groups[hash >> table->shift];
}

/* The cell of this tag, or NULL. */
static inline struct floor_cell *floor_scan(struct floor_group *group, uint64_t tag)
{
    for (int i = 0; i < 8; i++)
        if ((__atomic_load_n(&group->cells[i].tag, __ATOMIC_RELAXED) & FLOOR_TAG_MASK) == tag)
            return &group->cells[i];
    return NULL;
}

/* Add one to the state by a 16-byte exchange. */
static inline void floor_exchange(struct floor_cell *cell)
{
    for (;;) {
        struct floor_cell seen = { __atomic_load_n(&cell->state, __ATOMIC_RELAXED),
                                   __atomic_load_n(&cell->tag, __ATOMIC_RELAXED) };
        struct floor_cell next = { seen.state + 1, seen.tag };
        floor_pair from, to;
        memcpy(&from, &seen, sizeof from);
        memcpy(&to, &next, sizeof to);
        if (__sync_bool_compare_and_swap((floor_pair *)(void *)cell, from, to))
            return;
    }
}

/* A zeroed table of 2^bits groups, its memory touched, as weir_new() leaves its own. */
static inline bool floor_table_init(struct floor_table *table, unsigned bits)
{
    static const uint8_t secret[16] = "an open secret ";
    size_t size = sizeof *table->groups << bits;
    table->groups = aligned_alloc(4096, size < 4096 ? 4096 : size);
    if (table->groups == NULL)
        return false;
    memset(table->groups, 0, size);
    table->shift = 64 - bits;
    table->prefix = siphash_begin(secret);
    siphash_absorb(&table->prefix, "per-user", 8);
    return true;
}

/* Give a key its cell, in the first free place of its group; NULL where the group is full. */
static inline struct floor_cell *floor_place(struct floor_table *table, uint64_t hash)
{
    struct floor_group *group = floor_group(table, hash);
    for (int i = 0; i < 8; i++)
        if (group->cells[i].tag == 0) {
            group->cells[i].tag = hash & FLOOR_TAG_MASK;
            return &group->cells[i];
        }
    return NULL;
}

#endif
