// SPDX-License-Identifier: Apache-2.0
/*
 * life.c - the store is reserved whole, filled with shapes, counted and given back.
 *
 * Words: counters, relaxed; slots, released when a shape is added and acquired by store_stats(), which may run at any time.
 * Everything else here runs before or after deciding.
 */
#include "store/table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* 2^30 groups are 2^33 cells: what 2^32 keys need at 60 %. */
#define GROUP_BITS_MAX 30
/* A table of this size or more is aligned to the pages that the kernel can map at once. */
#define HUGE_PAGE ((size_t)2 << 20)

/* ---- The machine ------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
static bool machine_has_exchange(bool *has_wide_load)
{
    unsigned eax, ebx, ecx = 0, edx;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0)
        return false;
    *has_wide_load = (ecx & bit_AVX) != 0;
    return (ecx & bit_CMPXCHG16B) != 0;
}
#else
static bool machine_has_exchange(bool *has_wide_load)
{
    *has_wide_load = false;
    return true; /* the compiler made the exchange, or failed to */
}
#endif

/* ---- Making and freeing -------------------------------------------------------------------------------------- */

static void *reserve(const struct weir_allocator *allocator, size_t size, size_t alignment)
{
    return allocator->allocate(allocator->context, size, alignment);
}

static void release(const struct weir_allocator *allocator, void *memory, size_t size)
{
    if (memory != NULL)
        allocator->release(allocator->context, memory, size);
}

static size_t table_bytes(const struct store *store)
{
    return sizeof(struct group) << store->group_bits;
}

#define SLOTS_BYTES ((MEMORY_NUMBER + 1) * sizeof(struct slot *))

/* The least power of two of groups, at least two, that `keys` fill to 60 % at most; 0: too many. */
static unsigned bits_for(size_t keys)
{
    unsigned bits = 1;
    while (bits <= GROUP_BITS_MAX && ((uint64_t)GROUP_CELLS << bits) / 5 * 3 < keys)
        bits++;
    return bits <= GROUP_BITS_MAX ? bits : 0;
}

int store_new(struct store **out, const struct store_options *options, const struct weir_allocator *allocator)
{
    bool has_wide_load;
    weir_rate new_keys = WEIR_RATE(0, 1, 0);
    unsigned group_bits = bits_for(options->keys);
    if (!machine_has_exchange(&has_wide_load))
        return WEIR_ERR_MACHINE;
    if (group_bits == 0 || options->log_stamps > (size_t)UINT32_MAX << RING_UNIT_BITS
        || options->permits >= POOL_NONE || options->fence > INT64_MAX) /* no fence may come round to 0 */
        return WEIR_ERR_OPTION;
    if (options->new_keys.count > 0
        && !weir_rate_init(&new_keys, options->new_keys.count, options->new_keys.period,
                           options->new_keys.count))
        return WEIR_ERR_OPTION;

    struct store *store = reserve(allocator, sizeof *store, _Alignof(struct store));
    if (store == NULL)
        return WEIR_ERR_MEMORY;
    *store = (struct store){ .group_bits = group_bits,
                             .has_wide_load = has_wide_load,
                             .bounds_new_keys = options->new_keys.count > 0,
                             .new_keys_rate = new_keys,
                             .fence = options->fence,
                             .allocator = allocator };
    if (arena_init(&store->arena, options->log_stamps, allocator) != 0)
        goto undo_store;
    if (pool_init(&store->records, options->permits, has_wide_load, allocator) != 0
        || pool_init(&store->permits, options->permits, has_wide_load, allocator) != 0)
        goto undo_arena;
    store->slots = reserve(allocator, SLOTS_BYTES, 64);
    if (store->slots == NULL)
        goto undo_arena;
    size_t size = table_bytes(store);
    store->groups = reserve(allocator, size, size >= HUGE_PAGE ? HUGE_PAGE : _Alignof(struct group));
    if (store->groups == NULL)
        goto undo_slots;
    store->memory_shape =
        (struct shape){ .when_full = WEIR_FULL_CLOSED, .number = MEMORY_NUMBER, .lineage = UINT32_MAX };
    store->memory_slot =
        (struct slot){ .shape = &store->memory_shape, .over_at = WEIR_NO_TIME, .ring = RING_NONE };
    store->slots[MEMORY_NUMBER] = &store->memory_slot;
    *out = store;
    return 0;

undo_slots:
    release(allocator, store->slots, SLOTS_BYTES);
undo_arena:
    pool_deinit(&store->records, allocator);
    pool_deinit(&store->permits, allocator);
    arena_deinit(&store->arena, allocator);
undo_store:
    release(allocator, store, sizeof *store);
    return WEIR_ERR_MEMORY;
}

void store_free(struct store *store)
{
    if (store == NULL)
        return;
    const struct weir_allocator *allocator = store->allocator;
    for (size_t i = 0; i <= WEIR_LIMITS_MAX; i++)
        release(allocator, store->slots[i], sizeof(struct slot));
    while (store->spare_slots != NULL) {
        struct slot *slot = store->spare_slots;
        store->spare_slots = slot->spare;
        release(allocator, slot, sizeof *slot);
    }
    release(allocator, store->groups, table_bytes(store));
    release(allocator, store->slots, SLOTS_BYTES);
    pool_deinit(&store->records, allocator);
    pool_deinit(&store->permits, allocator);
    arena_deinit(&store->arena, allocator);
    release(allocator, store, sizeof *store);
}

static enum ring_result claim_patiently(struct store *store, const struct shape *shape, uint32_t *ring)
{
    enum ring_result result = RING_BUSY;
    for (unsigned i = 0; i < PLACE_ATTEMPTS && result == RING_BUSY; i++)
        result = log_claim(store, shape, ring);
    return result;
}

/*
 * A log whose keys can overflow needs the ring of its overflow cell now, if need be from keys that are done; and any
 * log needs room for one key, which may be taken for the moment.
 */
static int reserve_ring(struct store *store, const struct shape *shape, struct slot *slot)
{
    if (is_permits(shape))
        return permit_reserve_shared(store, shape, slot);
    if (!is_log(shape))
        return 0;
    uint32_t units = UINT32_C(1) << log_order(shape);
    if (shape->when_full != WEIR_FULL_OVERFLOW)
        return (uint64_t)store->reserved_units + units <= store->arena.unit_count ? 0 : WEIR_ERR_LOG_MEMORY;

    enum ring_result result = claim_patiently(store, shape, &slot->ring);
    if (result == RING_FULL) {
        store_sweep(store, shape->since, SIZE_MAX);
        result = claim_patiently(store, shape, &slot->ring);
    }
    if (result != RING_OK)
        return WEIR_ERR_LOG_MEMORY;
    struct ring *ring = &store->arena.rings[slot->ring];
    ring->latest = ring->head = ring->count = 0;
    store->reserved_units += units;
    return 0;
}

/* One that nobody uses, its overflows 0: store_stats() reads those at any time. NULL: out of memory. */
static struct slot *take_slot(struct store *store)
{
    struct slot *slot = store->spare_slots;
    if (slot == NULL)
        return reserve(store->allocator, sizeof *slot, _Alignof(struct slot));
    store->spare_slots = slot->spare;
    return slot;
}

int store_shape_add(struct store *store, const struct shape *shape)
{
    struct slot *slot = take_slot(store);
    if (slot == NULL)
        return WEIR_ERR_MEMORY;
    slot->shape = shape;
    slot->over_at = WEIR_NO_TIME;
    slot->word = shape_absent(shape);
    slot->ring = RING_NONE;
    slot->is_handed_on = false;
    int code = reserve_ring(store, shape, slot);
    if (code != 0) {
        slot->spare = store->spare_slots;
        store->spare_slots = slot;
        return code;
    }
    /* A cell names it only after the set that has it is in force; store_stats() may come before. */
    __atomic_store_n(&store->slots[shape->number], slot, __ATOMIC_RELEASE);
    return 0;
}

/* ---- Counting -------------------------------------------------------------------------------------------------- */

static uint64_t read_counter(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void count_cell(struct store *store, struct cell seen, weir_ns now, struct weir_stats *out)
{
    if (cell_is_empty(seen))
        return;
    if (cell_is_tent(seen))
        out->cells_tentative++;
    else if (place_is_dead(store, seen, now))
        out->cells_dead++;
    else
        out->cells_live++;
}

void store_stats(struct store *store, weir_ns now, struct weir_stats *out)
{
    size_t group_count = (size_t)1 << store->group_bits, slots = 0;
    *out = (struct weir_stats){ .cells = group_count * GROUP_CELLS };
    for (size_t i = 0; i < group_count; i++)
        for (unsigned j = 0; j < GROUP_CELLS; j++)
            count_cell(store, cell_load(&store->groups[i].cells[j], store->has_wide_load), now, out);
    for (size_t i = 0; i <= WEIR_LIMITS_MAX; i++) {
        const struct slot *slot = __atomic_load_n(&store->slots[i], __ATOMIC_ACQUIRE);
        if (slot == NULL)
            continue;
        slots++;
        out->overflows += read_counter(&slot->overflows);
    }
    out->overflows += read_counter(&store->overflows);
    out->placements = read_counter(&store->placements);
    out->reclaims = read_counter(&store->reclaims);
    out->evictions = read_counter(&store->evictions);
    out->contended = read_counter(&store->contended);
    out->log_stamps = (uint64_t)store->arena.unit_count * RING_UNIT;
    out->log_stamps_free = (uint64_t)__atomic_load_n(&store->arena.free_units, __ATOMIC_RELAXED) * RING_UNIT;
    out->permits = store->permits.count;
    out->permits_held = pool_taken(&store->permits);
    out->permits_free = pool_available(&store->permits);
    out->bytes = sizeof *store + SLOTS_BYTES + slots * sizeof(struct slot) + table_bytes(store)
                 + arena_bytes(&store->arena) + pool_bytes(&store->records) + pool_bytes(&store->permits);
}
