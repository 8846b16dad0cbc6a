// SPDX-License-Identifier: Apache-2.0
#include "store/pool.h"

int pool_init(struct pool *pool, size_t count, bool has_wide_load, const struct weir_allocator *allocator)
{
    *pool = (struct pool){ .has_wide_load = has_wide_load, .head = { 0, POOL_NONE } };
    if (count == 0)
        return 0;
    if (count >= POOL_NONE)
        return WEIR_ERR_MEMORY;
    pool->items = allocator->allocate(allocator->context, count * POOL_ITEM_BYTES, 64);
    if (pool->items == NULL)
        return WEIR_ERR_MEMORY;
    pool->count = pool->available = (uint32_t)count;
    return 0;
}

void pool_deinit(struct pool *pool, const struct weir_allocator *allocator)
{
    if (pool->items != NULL)
        allocator->release(allocator->context, pool->items, pool_bytes(pool));
    pool->items = NULL;
}

size_t pool_bytes(const struct pool *pool)
{
    return (size_t)pool->count * POOL_ITEM_BYTES;
}

static uint32_t *link_of(const struct pool *pool, uint32_t item)
{
    return pool_item(pool, item);
}

/* order: acquire, pairs with pool_unreserve(): the items that it counted are listed. */
bool pool_reserve(struct pool *pool, uint32_t count)
{
    uint32_t seen = __atomic_load_n(&pool->available, __ATOMIC_RELAXED);
    do {
        CELL_STEP();
        if (seen < count)
            return false;
    } while (!__atomic_compare_exchange_n(&pool->available, &seen, seen - count, true, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
    return true;
}

/* order: release, after the items were given back. */
void pool_unreserve(struct pool *pool, uint32_t count)
{
    CELL_STEP();
    __atomic_fetch_add(&pool->available, count, __ATOMIC_RELEASE);
}

/* progress: what was reserved is listed or fresh, so a turn that finds neither raced with others that moved on. */
uint32_t pool_take(struct pool *pool)
{
    __atomic_fetch_add(&pool->taken, 1, __ATOMIC_RELAXED);
    for (;;) {
        struct cell seen = cell_load(&pool->head, pool->has_wide_load);
        uint32_t item = (uint32_t)seen.state;
        if (item != POOL_NONE) {
            uint32_t next = __atomic_load_n(link_of(pool, item), __ATOMIC_RELAXED);
            if (cell_exchange(&pool->head, seen, (struct cell){ seen.tag + 1, next }))
                return item;
            continue;
        }
        uint32_t fresh = __atomic_load_n(&pool->fresh, __ATOMIC_RELAXED);
        CELL_STEP();
        if (fresh < pool->count
            && __atomic_compare_exchange_n(&pool->fresh, &fresh, fresh + 1, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED))
            return fresh;
    }
}

void pool_give(struct pool *pool, uint32_t item)
{
    __atomic_fetch_sub(&pool->taken, 1, __ATOMIC_RELAXED);
    struct cell seen;
    do {
        seen = cell_load(&pool->head, pool->has_wide_load);
        __atomic_store_n(link_of(pool, item), (uint32_t)seen.state, __ATOMIC_RELAXED);
    } while (!cell_exchange(&pool->head, seen, (struct cell){ seen.tag + 1, item }));
}
