// SPDX-License-Identifier: Apache-2.0
/* arena.c - blocks in a list; what is large gets a block of its own. */
#include "rule/arena.h"

#include <stdlib.h>

/* Large enough that a contract of ten thousand limits needs a hundred blocks, small enough for one of three. */
#define BLOCK_SIZE ((size_t)64 << 10)
#define ALIGNMENT ((size_t)16)

struct arena_block {
    struct arena_block *next;
    size_t size; /* of the whole block */
    _Alignas(16) char bytes[];
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

void arena_init(struct arena *arena, const struct weir_allocator *allocator)
{
    *arena = (struct arena){ .allocator = { c_allocate, c_release, NULL } };
    if (allocator != NULL)
        arena->allocator = *allocator;
}

void arena_deinit(struct arena *arena)
{
    struct arena_block *block = arena->blocks;
    while (block != NULL) {
        struct arena_block *next = block->next;
        arena->allocator.release(arena->allocator.context, block, block->size);
        block = next;
    }
    arena->blocks = NULL;
}

static bool has_room(const struct arena *arena, size_t bytes)
{
    const struct arena_block *block = arena->blocks;
    return block != NULL && bytes <= block->size - offsetof(struct arena_block, bytes) - arena->used;
}

static struct arena_block *new_block(struct arena *arena, size_t bytes)
{
    size_t size = offsetof(struct arena_block, bytes) + bytes;
    struct arena_block *block = arena->allocator.allocate(arena->allocator.context, size, ALIGNMENT);
    if (block == NULL)
        arena->has_failed = true;
    else
        block->size = size;
    return block;
}

/* A piece with a block of its own, behind the one that still has room. */
static void *cut_large(struct arena *arena, size_t bytes)
{
    struct arena_block *block = new_block(arena, bytes);
    if (block == NULL)
        return NULL;
    if (arena->blocks == NULL) {
        arena->blocks = block;
        arena->used = bytes;
    } else {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    }
    return block->bytes;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        arena->has_failed = true;
        return NULL;
    }
    bytes = (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (bytes > BLOCK_SIZE / 4)
        return cut_large(arena, bytes);
    if (!has_room(arena, bytes)) {
        struct arena_block *block = new_block(arena, BLOCK_SIZE);
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
    }
    void *at = arena->blocks->bytes + arena->used;
    arena->used += bytes;
    return at;
}

struct slice arena_copy(struct arena *arena, struct slice text)
{
    char *at = ARENA_NEW(arena, char, text.len + 1);
    if (at == NULL)
        return (struct slice){ NULL, 0 };
    if (text.len > 0)
        memcpy(at, text.at, text.len);
    return (struct slice){ at, text.len };
}
