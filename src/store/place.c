// SPDX-License-Identifier: Apache-2.0
/*
 * place.c - which cell a new key may take, and taking cells from keys that are done.
 *
 * A cell that says nothing any more (a full bucket, a window long past) is the same as no cell, so it may serve
 * another key. "Any more" is judged with a grace of SHAPE_GRACE_NS, and floor_ns covers what grace does not: a
 * caller whose stamp is older than the reclaim would find no cell and start whole at an instant at which the
 * key was not. So whoever forgets a key at stamp t first makes sure that floor_ns >= t - grace, and whoever
 * finds its key absent decides at max(now, floor_ns). The forgotten bucket was whole at that stamp (algorithms
 * 3.5).
 *
 * A shape that has a successor may say "full" where the next one does not: what was used before the change is paid back
 * at the new rate from then on. So its cells die only by what they were at the change; conversion does the rest
 * (succeed.c).
 *
 * Words:    cells, by exchange from the exact content that was judged. floor_ns, only ever raised.
 * Ordering: floor_ns is raised before the exchange that forgets (a full barrier) and read after the look that
 *           found nothing (acquire): whoever misses the cell sees the floor.
 * Progress: lock-free; a log's ring, or a record of permits, is tried once, never waited for.
 * Reuse:    P24: only EMPTY, abandoned TENT, and dead FINAL cells are taken, and live ones by evict-least.
 */
#include "store/table.h"

/* ---- Looking -------------------------------------------------------------------------------------------- */

void look_at(struct store *store, const struct key *key, struct look *look)
{
    look->cells[0] = store->groups[group_first(store, key->hash)].cells;
    look->cells[1] = store->groups[group_second(store, key->hash)].cells;
    look->final = look->tent = LOOK_NONE;
    for (unsigned i = 0; i < LOOK_CELLS; i++) {
        struct cell seen = cell_load(look_cell(look, i), store->has_wide_load);
        look->seen[i] = seen;
        if (!cell_has_tag(seen, key->tag))
            continue;
        if (!cell_is_tent(seen))
            look->final = i;
        else if (look->tent == LOOK_NONE)
            look->tent = i;
    }
}

/*
 * The stamp that a cell's death is judged at. With the grace, dead at over_at + grace means that nothing was left to
 * convert at the change; so a thread that does not see over_at yet may be that late.
 * order: relaxed, for that reason.
 */
static weir_ns judged_at(const struct store *store, struct cell seen, weir_ns now)
{
    weir_ns over_at = __atomic_load_n(&store->slots[cell_shape_number(seen)]->over_at, __ATOMIC_RELAXED);
    if (over_at != WEIR_NO_TIME && now > over_at + SHAPE_GRACE_NS)
        now = over_at + SHAPE_GRACE_NS;
    return STORE_HAS_GRACE ? now : now + SHAPE_GRACE_NS;
}

bool place_is_dead(struct store *store, struct cell seen, weir_ns now)
{
    const struct shape *shape = shape_of_cell(store, seen);
    if ((seen.tag & CELL_QUEUED) != 0)
        return false;
    weir_ns at = judged_at(store, seen, now);
    if (shape->number == MEMORY_NUMBER)
        return memory_is_dead(seen.state, at);
    if (is_permits(shape))
        return permit_cell_is_dead(store, seen, at);
    return is_log(shape) ? log_cell_is_dead(store, shape, seen, at) : shape_is_dead(shape, seen.state, at);
}

/* Milliseconds are kept modulo 2^31: an age in the upper half is a stamp older than the insertion's. */
static bool tent_is_abandoned(struct cell seen, weir_ns now)
{
    uint64_t mask = (UINT64_C(1) << 31) - 1;
    uint64_t age_ms = (now / WEIR_MILLISECOND - (seen.state >> 32)) & mask;
    return age_ms >= TENT_OLD_MS && age_ms <= mask / 2;
}

static bool is_free(struct store *store, struct cell seen, weir_ns now)
{
    return cell_is_empty(seen)
           || (cell_is_tent(seen) ? tent_is_abandoned(seen, now) : place_is_dead(store, seen, now));
}

/*
 * The first group unless six or more of its eight are live, then the less loaded one. Always taking the less
 * loaded fails a little later and sends three keys in eight to a second cache miss; this, one or two.
 */
unsigned place_pick(struct store *store, const struct look *look, weir_ns now)
{
    unsigned live[2] = { 0, 0 }, pick[2] = { LOOK_NONE, LOOK_NONE };
    for (unsigned i = LOOK_CELLS; i-- > 0;) {
        if (is_free(store, look->seen[i], now))
            pick[i / GROUP_CELLS] = i;
        else
            live[i / GROUP_CELLS]++;
    }
    return live[0] >= 6 && live[1] < live[0] ? pick[1] : pick[0];
}

unsigned place_pick_victim(struct store *store, const struct look *look, weir_ns now, bool logs_only)
{
    unsigned victim = LOOK_NONE;
    weir_ns soonest = 0;
    for (unsigned i = 0; i < LOOK_CELLS; i++) {
        struct cell seen = look->seen[i];
        if (cell_is_empty(seen) || cell_is_tent(seen) || (seen.tag & CELL_QUEUED) != 0)
            continue;
        const struct shape *shape = shape_of_cell(store, seen);
        if (shape->when_full != WEIR_FULL_EVICT_LEAST || (logs_only && !is_log(shape)) || is_permits(shape))
            continue; /* permits that are held are somebody's */
        struct step step = { WEIR_DENY, seen.state, now };
        weir_ns reset_at =
            is_log(shape) ? log_reset_at(store, shape, seen) : shape_report(shape, &step, 0).reset_at;
        if (victim == LOOK_NONE || reset_at < soonest) {
            victim = i;
            soonest = reset_at;
        }
    }
    return victim;
}

/* ---- Taking --------------------------------------------------------------------------------------------- */

/* order: acquire, pairs with floor_raise(). progress: wait-free. */
weir_ns floor_read(struct store *store)
{
    CELL_STEP();
    return STORE_HAS_FLOOR ? __atomic_load_n(&store->floor_ns, __ATOMIC_ACQUIRE) : 0;
}

/*
 * Before a key is forgotten at `now`: floor_ns >= now - grace. Raised by half a grace more than needed, so that
 * it is written at most twice a second.
 * order:    release; the exchange that forgets comes after it and is a full barrier.
 * progress: lock-free; it only grows, so a lost exchange means that it is higher.
 */
static void floor_raise(struct store *store, weir_ns now)
{
    if (now < SHAPE_GRACE_NS)
        return;
    CELL_STEP();
    weir_ns seen = __atomic_load_n(&store->floor_ns, __ATOMIC_RELAXED);
    while (seen < now - SHAPE_GRACE_NS
           && !__atomic_compare_exchange_n(&store->floor_ns, &seen, now - SHAPE_GRACE_NS / 2, true,
                                           __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

bool place_take(struct store *store, struct cell *cell, struct cell seen, struct cell next, weir_ns now)
{
    if (cell_is_empty(seen) || cell_is_tent(seen))
        return cell_exchange(cell, seen, next);

    const struct shape *shape = shape_of_cell(store, seen);
    floor_raise(store, now);
    weir_ns at = judged_at(store, seen, now);
    bool taken = is_permits(shape) ? permit_retire(store, cell, seen, next, at, true, LOG_TRY)
                 : is_log(shape)   ? log_retire(store, shape, cell, seen, next, at, true, LOG_TRY)
                                   : cell_exchange(cell, seen, next);
    if (taken)
        count_up(&store->reclaims);
    return taken;
}

bool place_evict(struct store *store, struct cell *cell, struct cell seen, struct cell next)
{
    const struct shape *shape = shape_of_cell(store, seen);
    bool taken = is_log(shape) ? log_retire(store, shape, cell, seen, next, 0, false, LOG_TRY)
                               : cell_exchange(cell, seen, next);
    if (taken)
        count_up(&store->evictions);
    return taken;
}

/* ---- The sweep ------------------------------------------------------------------------------------------ */

void store_sweep(struct store *store, weir_ns now, size_t groups)
{
    uint64_t group_count = UINT64_C(1) << store->group_bits;
    if (now > WEIR_HORIZON)
        return;
    if (groups > group_count)
        groups = group_count;
    uint64_t first = __atomic_fetch_add(&store->sweep_at, groups, __ATOMIC_RELAXED);
    for (size_t i = 0; i < groups; i++) {
        struct group *group = &store->groups[(first + i) & (group_count - 1)];
        for (unsigned j = 0; j < GROUP_CELLS; j++) {
            struct cell seen = cell_load(&group->cells[j], store->has_wide_load);
            if (!cell_is_empty(seen) && is_free(store, seen, now))
                (void)place_take(store, &group->cells[j], seen, (struct cell){ 0, 0 }, now);
        }
    }
}
