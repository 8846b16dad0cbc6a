// SPDX-License-Identifier: Apache-2.0
/*
 * region.h - memory that is given back whole: a document while it is read, a contract while it lives.
 *
 * Small requests are cut from blocks, so that ten thousand limits cost a few dozen allocations and freeing has no
 * order. Memory is zeroed. Once an allocation has failed `has_failed` stays set, so a loader may look once at the end.
 */
#ifndef WEIR_RULE_REGION_H
#define WEIR_RULE_REGION_H

#include "base/bytes.h"
#include "weir.h"

struct region_block;

struct region {
    struct region_block *blocks; /* newest first */
    size_t front, back; /* what is left of the newest: objects are cut from the front, texts from the back */
    struct weir_allocator allocator;
    bool has_failed;
};

/* Keep a copy of `allocator`; NULL is the C library's. */
void region_init(struct region *region, const struct weir_allocator *allocator);
void region_deinit(struct region *region);

/* Zeroed memory, aligned to 8 bytes, or NULL. `count` * `size` may overflow: then NULL too. */
void *region_array(struct region *region, size_t count, size_t size);
#define REGION_NEW(region, type, count) ((type *)region_array((region), (count), sizeof(type)))

/* A copy with a zero behind it; `.at` is NULL when there is no memory. */
struct slice region_copy(struct region *region, struct slice text);

#endif
