// SPDX-License-Identifier: Apache-2.0
/*
 * arena.h - rings of stamps, from one block reserved at the start.
 *
 * Idea: the buddy system (Knowlton 1965) over units of eight stamps. A ring is the next power of two of a
 * limit's COUNT, so buddies fit without waste, limits of any counts share one arena, and freed neighbours join
 * again.
 *
 * Ring headers are an array of their own, one per unit, and stay headers for ever: a thread that still holds
 * the number of a ring that was given back finds a lock and a generation there, never somebody's stamps.
 *
 * Words:    `lock` of the arena: free lists, order and is_free of headers, links in free blocks. `returned`:
 *           rings given back, pushed by anyone, taken all at once under the lock. free_units: a gauge.
 * Ordering: acquire by exchange, release by store; the push releases the ring's memory to the next drain.
 * Progress: giving back is lock-free. Taking holds the arena's lock, waited for a bounded time.
 * Reuse:    a ring is given back only by whoever took its cell away, after raising its generation under its
 *           lock.
 */
#ifndef WEIR_STORE_ARENA_H
#define WEIR_STORE_ARENA_H

#include "weir.h"

#define RING_NONE UINT32_MAX
#define RING_UNIT_BITS 3
#define RING_UNIT (1u << RING_UNIT_BITS)
#define RING_ORDERS 14 /* 8 .. 65536 = WEIR_LOG_MAX stamps */

/* One log. All but order and is_free are the ring owner's, under `lock`. */
struct ring {
    uint16_t lock;
    uint16_t owner; /* the tag's low bits: a second check */
    uint32_t gen;   /* of its life, 31 bits; the cell says the same or no longer owns it */
    weir_ns
        latest; /* no decision before this stamp: an undo took out a stamp that had already dropped others */
    uint32_t count;
    uint16_t head;
    uint8_t order; /* the arena's, with is_free */
    uint8_t is_free;
};
_Static_assert(sizeof(struct ring) == 24, "a header per unit of eight stamps must stay small beside it");

struct arena {
    weir_ns *stamps;
    struct ring *rings; /* one per unit */
    uint32_t unit_count;
    _Alignas(64) uint16_t lock;
    uint32_t returned; /* head of a stack of rings, RING_NONE: empty */
    uint32_t pending;  /* taken from `returned`, not yet joined */
    uint32_t free_units;
    uint32_t free[RING_ORDERS]; /* heads of the free lists */
};

/* 0 or WEIR_ERR_MEMORY. Zero stamps is a valid arena in which nothing fits. */
int arena_init(struct arena *arena, size_t stamps, const struct weir_allocator *allocator);
void arena_deinit(struct arena *arena, const struct weir_allocator *allocator);
size_t arena_bytes(const struct arena *arena);

/* The size of a ring for `count` stamps, as a power of two of units. */
unsigned arena_order(uint64_t count);

/*
 * A ring of at least 8 << order stamps. RING_NONE with *is_busy set: the lock was held all the time; else none
 * left.
 */
uint32_t arena_take(struct arena *arena, unsigned order, bool *is_busy);

/* Give a ring back. */
void arena_give(struct arena *arena, uint32_t ring);

/* Whether so many units are free in all; they may lie apart. */
bool arena_may_hold(const struct arena *arena, unsigned order);

static inline weir_ns *arena_stamps(const struct arena *arena, uint32_t ring)
{
    return arena->stamps + ((size_t)ring << RING_UNIT_BITS);
}

/* A lock word waited for a bounded time: about a tenth of a millisecond. */
#define LOCK_SPINS 4096
bool word_lock(uint16_t *lock, unsigned spins);
void word_unlock(uint16_t *lock);

#endif
