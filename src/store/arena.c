// SPDX-License-Identifier: Apache-2.0
#include "store/arena.h"

#include <assert.h>

#include "store/cell.h"

/* Rings joined per call of arena_take(), so that one caller does not pay for everybody's. */
#define JOINS_PER_TAKE 8

/* ---- Lock words ----------------------------------------------------------------------------------------- */

static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool word_lock(uint16_t *lock, unsigned spins)
{
    for (unsigned spin = 0; spin < spins; spin++) {
        CELL_STEP();
        if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0 && __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0)
            return true;
        spin_pause();
    }
    return false;
}

void word_unlock(uint16_t *lock)
{
    CELL_STEP();
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- Free lists, doubly linked through the first two stamps of each free block -------------------------- */

static weir_ns *link_next(const struct arena *arena, uint32_t ring)
{
    return arena_stamps(arena, ring);
}

static weir_ns *link_previous(const struct arena *arena, uint32_t ring)
{
    return arena_stamps(arena, ring) + 1;
}

static void list_add(struct arena *arena, uint32_t ring, unsigned order)
{
    uint32_t head = arena->free[order];
    *link_next(arena, ring) = head;
    *link_previous(arena, ring) = RING_NONE;
    if (head != RING_NONE)
        *link_previous(arena, head) = ring;
    arena->free[order] = ring;
    arena->rings[ring].order = (uint8_t)order;
    arena->rings[ring].is_free = 1;
}

static void list_remove(struct arena *arena, uint32_t ring)
{
    uint32_t next = (uint32_t)*link_next(arena, ring), previous = (uint32_t)*link_previous(arena, ring);
    if (previous == RING_NONE)
        arena->free[arena->rings[ring].order] = next;
    else
        *link_next(arena, previous) = next;
    if (next != RING_NONE)
        *link_previous(arena, next) = previous;
    arena->rings[ring].is_free = 0;
}

/* Join a block with its buddy for as long as that is free and whole, then list it. */
static void join(struct arena *arena, uint32_t ring)
{
    unsigned order = arena->rings[ring].order;
    while (order + 1 < RING_ORDERS) {
        uint32_t buddy = ring ^ (UINT32_C(1) << order);
        if (buddy >= arena->unit_count || !arena->rings[buddy].is_free || arena->rings[buddy].order != order)
            break;
        list_remove(arena, buddy);
        ring &= buddy;
        order++;
    }
    list_add(arena, ring, order);
}

/* ---- Life ----------------------------------------------------------------------------------------------- */

int arena_init(struct arena *arena, size_t stamps, const struct weir_allocator *allocator)
{
    size_t units = stamps >> RING_UNIT_BITS;
    *arena = (struct arena){ .returned = RING_NONE, .pending = RING_NONE };
    for (unsigned order = 0; order < RING_ORDERS; order++)
        arena->free[order] = RING_NONE;
    if (units >= RING_NONE)
        return WEIR_ERR_MEMORY;
    if (units == 0)
        return 0;

    arena->unit_count = (uint32_t)units;
    arena->stamps = allocator->allocate(allocator->context, units * RING_UNIT * sizeof(weir_ns), 64);
    arena->rings = allocator->allocate(allocator->context, units * sizeof(struct ring), 64);
    if (arena->stamps == NULL || arena->rings == NULL) {
        arena_deinit(arena, allocator);
        return WEIR_ERR_MEMORY;
    }
    /* The largest blocks that are aligned to their size, smaller ones for the rest. */
    for (uint32_t ring = 0; ring < arena->unit_count;) {
        unsigned order = RING_ORDERS - 1;
        while ((ring & ((UINT32_C(1) << order) - 1)) != 0 || (UINT32_C(1) << order) > arena->unit_count - ring)
            order--;
        list_add(arena, ring, order);
        ring += UINT32_C(1) << order;
    }
    arena->free_units = arena->unit_count;
    return 0;
}

void arena_deinit(struct arena *arena, const struct weir_allocator *allocator)
{
    if (arena->stamps != NULL)
        allocator->release(allocator->context, arena->stamps,
                           (size_t)arena->unit_count * RING_UNIT * sizeof(weir_ns));
    if (arena->rings != NULL)
        allocator->release(allocator->context, arena->rings, arena->unit_count * sizeof(struct ring));
    arena->stamps = NULL;
    arena->rings = NULL;
}

size_t arena_bytes(const struct arena *arena)
{
    return (size_t)arena->unit_count * (RING_UNIT * sizeof(weir_ns) + sizeof(struct ring));
}

/* ---- Taking and giving ---------------------------------------------------------------------------------- */

unsigned arena_order(uint64_t count)
{
    unsigned order = 0;
    while (((uint64_t)RING_UNIT << order) < count)
        order++;
    assert(order < RING_ORDERS);
    return order;
}

/* Under the lock: join one returned ring; false when there is none. */
static bool join_returned(struct arena *arena)
{
    if (arena->pending == RING_NONE)
        arena->pending = __atomic_exchange_n(&arena->returned, RING_NONE, __ATOMIC_ACQUIRE);
    if (arena->pending == RING_NONE)
        return false;
    uint32_t ring = arena->pending;
    arena->pending = (uint32_t)*link_next(arena, ring);
    join(arena, ring);
    return true;
}

/* Under the lock: the smallest free block that is large enough, its spare halves listed again. */
static uint32_t split(struct arena *arena, unsigned wanted)
{
    unsigned order = wanted;
    while (order < RING_ORDERS && arena->free[order] == RING_NONE)
        order++;
    if (order == RING_ORDERS)
        return RING_NONE;

    uint32_t ring = arena->free[order];
    list_remove(arena, ring);
    while (order > wanted) {
        order--;
        list_add(arena, ring + (UINT32_C(1) << order), order);
    }
    arena->rings[ring].order = (uint8_t)wanted;
    return ring;
}

uint32_t arena_take(struct arena *arena, unsigned order, bool *is_busy)
{
    *is_busy = false;
    if (!arena_may_hold(arena, order))
        return RING_NONE;
    if (!word_lock(&arena->lock, LOCK_SPINS)) {
        *is_busy = true;
        return RING_NONE;
    }
    for (unsigned joined = 0; joined < JOINS_PER_TAKE && join_returned(arena); joined++)
        ;
    uint32_t ring = split(arena, order);
    while (ring == RING_NONE && join_returned(arena))
        ring = split(arena, order);
    word_unlock(&arena->lock);
    if (ring != RING_NONE)
        __atomic_fetch_sub(&arena->free_units, UINT32_C(1) << order, __ATOMIC_RELAXED);
    return ring;
}

void arena_give(struct arena *arena, uint32_t ring)
{
    __atomic_fetch_add(&arena->free_units, UINT32_C(1) << arena->rings[ring].order, __ATOMIC_RELAXED);
    uint32_t head = __atomic_load_n(&arena->returned, __ATOMIC_RELAXED);
    do {
        CELL_STEP();
        *link_next(arena, ring) = head;
    } while (
        !__atomic_compare_exchange_n(&arena->returned, &head, ring, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

bool arena_may_hold(const struct arena *arena, unsigned order)
{
    return __atomic_load_n(&arena->free_units, __ATOMIC_RELAXED) >= UINT32_C(1) << order;
}
