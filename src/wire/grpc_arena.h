// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_arena.h - where protobuf-c puts what it reads: room that the caller has, handed out from front to back.
 *
 * Idea: a message says itself how many parts it has, so a reader that asks for memory lets its sender decide how much. Here the
 * bound is the room, nothing is returned before all of it is forgotten, and so nothing can leak either.
 */
#ifndef WEIR_WIRE_GRPC_ARENA_H
#define WEIR_WIRE_GRPC_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdalign.h>

#include "base/bytes.h"

struct grpc_arena {
    char *at; /* borrowed */
    size_t len, used;
    bool is_full; /* something was asked for that did not fit */
};

static inline struct grpc_arena grpc_arena_of(void *room, size_t len)
{
    size_t skew = (size_t)(-(uintptr_t)room % alignof(max_align_t));
    return skew < len ? (struct grpc_arena){ .at = (char *)room + skew, .len = len - skew }
                      : (struct grpc_arena){ .at = room };
}

/* What gives the arena's room to protobuf-c; takes nothing back. The arena stays where it is. */
ProtobufCAllocator grpc_arena_allocator(struct grpc_arena *arena);

#endif
