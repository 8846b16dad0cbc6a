// SPDX-License-Identifier: Apache-2.0
/*
 * succeed.c - the end of an old set: every cell of an earlier shape becomes one of the next.
 *
 * Keys that are used meanwhile convert themselves (table.c); this is for those that are not, so that the numbers of the
 * old shapes are free again and a cell is never more than one shape behind. Nobody decides under the old set any more;
 * the new one may be in use.
 *
 * Words:    cells, by exchange from the exact content that was converted. slots, slot.over_at.
 * Ordering: as table.c. A slot is written before any cell can name it, and cleared when none does.
 * Progress: a lost exchange means that the new set's threads converted the cell or took it. A log's ring, or a record of
 *           permits, is waited for, with the processor given up: its holder is running.
 * Reuse:    a shape and its number outlive the walk by as much as a call that read a cell before it may last.
 */
#include <sched.h>

#include "store/table.h"

/* Turn the cell, as it was seen, into one of the next shape. */
static bool convert(struct store *store, const struct shape *next, struct cell *cell, struct cell seen)
{
    uint64_t tag = (uint64_t)next->number << CELL_TAG_BITS | (seen.tag & ~CELL_SHAPE_MASK);
    if (has_record(next)) {
        if (is_log(next) ? log_convert(store, next, cell, seen) : permit_retag(store, cell, seen, tag))
            return true;
        (void)sched_yield();
        return false;
    }
    uint64_t word = shape_convert(shape_of_cell(store, seen), next, seen.state);
    return cell_exchange(cell, seen, (struct cell){ tag, word });
}

void store_convert(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now)
{
    (void)now; /* conversions are anchored at shape->since */
    struct key key = key_of(shape, hash);
    for (;;) {
        struct look look;
        look_at(store, &key, &look);
        if (look.final == LOOK_NONE || kin_of(store, shape, look.seen[look.final]) != KIN_EARLIER)
            return;
        if (convert(store, shape, look_cell(&look, look.final), look.seen[look.final]))
            return;
    }
}

/* Its limit was removed. */
static bool forget(struct store *store, struct cell *cell, struct cell seen)
{
    static const struct cell empty = { 0, 0 };
    const struct shape *shape = shape_of_cell(store, seen);
    if (!has_record(shape))
        return cell_exchange(cell, seen, empty);
    if (is_log(shape) ? log_retire(store, shape, cell, seen, empty, 0, false, LOG_WAIT)
                      : permit_retire(store, cell, seen, empty, 0, false, LOG_WAIT))
        return true;
    (void)sched_yield();
    return false;
}

static void succeed_cell(struct store *store, struct cell *cell, const struct shape *const *successor,
                         const bool *is_gone)
{
    for (;;) {
        struct cell seen = cell_load(cell, store->has_wide_load);
        uint16_t number = cell_shape_number(seen);
        if (number == 0 || number == MEMORY_NUMBER || (successor[number] == NULL && !is_gone[number]))
            return;
        bool done;
        if (cell_is_tent(seen)) /* abandoned by a thread of the old set */
            done = cell_exchange(cell, seen, (struct cell){ 0, 0 });
        else
            done = is_gone[number] ? forget(store, cell, seen) : convert(store, successor[number], cell, seen);
        if (done)
            return;
    }
}

/* What was counted for the old number goes on being told. */
static void move_overflows(struct slot *from, struct slot *to)
{
    uint64_t overflows = __atomic_exchange_n(&from->overflows, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->overflows, overflows, __ATOMIC_RELAXED);
}

void store_succeed(struct store *store, const struct shape *const *successor, const bool *is_gone, weir_ns now)
{
    (void)now; /* as above */
    for (size_t i = 0; i < (size_t)1 << store->group_bits; i++)
        for (unsigned j = 0; j < GROUP_CELLS; j++)
            succeed_cell(store, &store->groups[i].cells[j], successor, is_gone);
    for (size_t i = 1; i <= WEIR_LIMITS_MAX; i++)
        if (successor[i] != NULL && store->slots[i] != NULL)
            move_overflows(store->slots[i], slot_of(store, successor[i]));
}

void store_shape_over(struct store *store, const struct shape *shape, weir_ns since)
{
    __atomic_store_n(&slot_of(store, shape)->over_at, since, __ATOMIC_RELAXED);
}

void store_shape_remove(struct store *store, const struct shape *shape)
{
    struct slot *slot = slot_of(store, shape);
    __atomic_store_n(&store->slots[shape->number], NULL, __ATOMIC_RELEASE);
    __atomic_fetch_add(&store->overflows, __atomic_exchange_n(&slot->overflows, 0, __ATOMIC_RELAXED),
                       __ATOMIC_RELAXED);
    if (is_permits(shape)) {
        permit_release_shared(store, shape, slot);
    } else if (slot->ring != RING_NONE) {
        store->reserved_units -= UINT32_C(1) << log_order(shape);
        arena_give(&store->arena, slot->ring);
    }
    slot->spare = store->spare_slots;
    store->spare_slots = slot;
}
