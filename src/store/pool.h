// SPDX-License-Identifier: Apache-2.0
/*
 * pool.h - items of one size from one block reserved at the start: taken and given by any thread without a lock.
 *
 * Idea: a stack whose head is a cell, [changes:64][item:64], so a head never recurs and whoever was stopped between reading
 * it and exchanging it fails. Items that were never used are not listed but counted, so a pool that nobody needs is memory
 * that nobody touches.
 *
 * How many may be taken is a number of its own: a reservation lowers it before anything is taken, so that who reserved many
 * (the record that overflowing keys share) finds each of them there.
 *
 * Words:    head, by exchange of both words; the link in a free item; fresh and available, by exchange.
 * Ordering: an exchange is a full barrier: what the last owner wrote into an item is seen by the next.
 * Progress: lock-free; a lost exchange is another thread's taking or giving.
 * Reuse:    an item stays an item for ever: whoever holds an old number of it finds its generation or fence, never something
 *           else. An old head's link may be read while its item is in use, so links are written atomically.
 */
#ifndef WEIR_STORE_POOL_H
#define WEIR_STORE_POOL_H

#include "store/cell.h"
#include "weir.h"

#define POOL_NONE UINT32_MAX
#define POOL_ITEM_BYTES 32

struct pool {
    char *items; /* each begins with a uint32_t that is the pool's while the item is free */
    uint32_t count;
    bool has_wide_load;
    _Alignas(64) struct cell head;
    uint32_t fresh;     /* items from here on were never taken */
    uint32_t available; /* not taken and not reserved */
    uint32_t taken;     /* a gauge */
};

/* 0 or WEIR_ERR_MEMORY. No items is a valid pool, from which nothing can be taken. */
int pool_init(struct pool *pool, size_t count, bool has_wide_load, const struct weir_allocator *allocator);
void pool_deinit(struct pool *pool, const struct weir_allocator *allocator);
size_t pool_bytes(const struct pool *pool);

static inline void *pool_item(const struct pool *pool, uint32_t item)
{
    return pool->items + (size_t)item * POOL_ITEM_BYTES;
}

static inline uint32_t pool_available(const struct pool *pool)
{
    return __atomic_load_n(&pool->available, __ATOMIC_RELAXED);
}

static inline uint32_t pool_taken(const struct pool *pool)
{
    return __atomic_load_n(&pool->taken, __ATOMIC_RELAXED);
}

/* Make sure that so many can be taken later. False: they cannot. */
bool pool_reserve(struct pool *pool, uint32_t count);
void pool_unreserve(struct pool *pool, uint32_t count);

/* Take what was reserved; put it back, reserved still. */
uint32_t pool_take(struct pool *pool);
void pool_give(struct pool *pool, uint32_t item);

#endif
