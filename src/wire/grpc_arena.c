// SPDX-License-Identifier: Apache-2.0
/* grpc_arena.c - an allocator over a caller's room; see grpc_arena.h. */
#include "wire/grpc_arena.h"

static void *take(void *context, size_t size)
{
    struct grpc_arena *arena = context;
    size_t align = alignof(max_align_t), left = arena->len - arena->used;
    void *at = arena->at + arena->used;
    if (size > left) {
        arena->is_full = true;
        return NULL;
    }
    size_t padded = (size + align - 1) / align * align;
    arena->used += padded < left ? padded : left;
    return at;
}

static void forget(void *context, void *memory)
{
    (void)context; /* all of it is forgotten at once, with the arena */
    (void)memory;
}

ProtobufCAllocator grpc_arena_allocator(struct grpc_arena *arena)
{
    return (ProtobufCAllocator){ .alloc = take, .free = forget, .allocator_data = arena };
}
