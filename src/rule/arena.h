// SPDX-License-Identifier: Apache-2.0
/*
 * arena.h - memory that is given back whole: a document while it is read, a contract while it lives.
 *
 * Small requests are cut from blocks, so that ten thousand limits cost a few dozen allocations and freeing has no
 * order. Memory is zeroed. Once an allocation has failed `has_failed` stays set, so a loader may look once at the end.
 */
#ifndef WEIR_RULE_ARENA_H
#define WEIR_RULE_ARENA_H

#include "base/bytes.h"
#include "weir.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used;                /* bytes of the newest that are given away */
    struct weir_allocator allocator;
    bool has_failed;
};

/* Keep a copy of `allocator`; NULL is the C library's. */
void arena_init(struct arena *arena, const struct weir_allocator *allocator);
void arena_deinit(struct arena *arena);

/* Zeroed memory aligned for any type, or NULL. `count` * `size` may overflow: then NULL too. */
void *arena_array(struct arena *arena, size_t count, size_t size);
#define ARENA_NEW(arena, type, count) ((type *)arena_array((arena), (count), sizeof(type)))

/* A copy with a zero behind it; `.at` is NULL when there is no memory. */
struct slice arena_copy(struct arena *arena, struct slice text);

#endif
