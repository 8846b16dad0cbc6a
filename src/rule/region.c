// SPDX-License-Identifier: Apache-2.0
/* region.c - blocks in a list; what is large gets a block of its own. */
#include "rule/region.h"

#include <stdlib.h>

/* Large enough that a contract of ten thousand limits needs a hundred blocks, small enough for one of three. */
#define BLOCK_SIZE ((size_t)64 << 10)
#define ALIGNMENT ((size_t)8)

struct region_block {
    struct region_block *next;
    size_t size; /* of the whole block */
    _Alignas(8) char bytes[];
};

static void *c_allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    (void)alignment; /* malloc suits every type */
    return calloc(1, size);
}

static void c_release(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

void region_init(struct region *region, const struct weir_allocator *allocator)
{
    *region = (struct region){ .allocator = { c_allocate, c_release, NULL } };
    if (allocator != NULL)
        region->allocator = *allocator;
}

void region_deinit(struct region *region)
{
    struct region_block *block = region->blocks;
    while (block != NULL) {
        struct region_block *next = block->next;
        region->allocator.release(region->allocator.context, block, block->size);
        block = next;
    }
    region->blocks = NULL;
}

static struct region_block *new_block(struct region *region, size_t bytes)
{
    size_t size = offsetof(struct region_block, bytes) + bytes;
    struct region_block *block = region->allocator.allocate(region->allocator.context, size, ALIGNMENT);
    if (block == NULL)
        region->has_failed = true;
    else
        block->size = size;
    return block;
}

/* A piece with a block of its own, behind the one that still has room. */
static void *cut_large(struct region *region, size_t bytes)
{
    struct region_block *block = new_block(region, bytes);
    if (block == NULL)
        return NULL;
    if (region->blocks == NULL) {
        region->blocks = block;
        region->front = region->back = bytes;
    } else {
        block->next = region->blocks->next;
        region->blocks->next = block;
    }
    return block->bytes;
}

/* Whether the newest block has `bytes` left, if need be by adding one. Small pieces only. */
static bool has_room(struct region *region, size_t bytes)
{
    if (region->blocks != NULL && bytes <= region->back - region->front)
        return true;
    struct region_block *block = new_block(region, BLOCK_SIZE);
    if (block == NULL)
        return false;
    block->next = region->blocks;
    region->blocks = block;
    region->front = 0;
    region->back = BLOCK_SIZE;
    return true;
}

void *region_array(struct region *region, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        region->has_failed = true;
        return NULL;
    }
    bytes = (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (bytes > BLOCK_SIZE / 4)
        return cut_large(region, bytes);
    if (!has_room(region, bytes + ALIGNMENT)) /* the back may lie between two aligned places */
        return NULL;
    void *at = region->blocks->bytes + region->front;
    region->front += bytes;
    return at;
}

struct slice region_copy(struct region *region, struct slice text)
{
    char *at;
    if (text.len >= BLOCK_SIZE / 4) {
        at = REGION_NEW(region, char, text.len + 1);
    } else if (has_room(region, text.len + 1)) {
        region->back -= text.len + 1;
        at = region->blocks->bytes + region->back;
    } else {
        at = NULL;
    }
    if (at == NULL)
        return (struct slice){ NULL, 0 };
    if (text.len > 0)
        memcpy(at, text.at, text.len);
    return (struct slice){ at, text.len };
}
