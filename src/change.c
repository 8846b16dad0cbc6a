// SPDX-License-Identifier: Apache-2.0
/*
 * change.c - another set of limits takes the place of the one in force, while they decide.
 *
 * Idea: a change never touches a key. It gives every limit that differs new shapes, under new numbers, and stores one
 * pointer. Whoever then charges a cell that was written under an old number converts it in the same exchange; a thread
 * that still decides under the old set and meets a new number is told to start over. When no such thread is left, one
 * walk of the table converts the rest, so that a cell is never more than one shape behind.
 *
 * Numbers and shapes that no cell names any more are used again only after a further quiescent period, because a
 * thread may have read a cell just before the walk converted it.
 *
 * Keeps P14: across the change at tc at most max(B_old, B_new) + r_old (tc - t1) + r_new (t2 - tc) is admitted.
 */
#include <string.h>

#include "set.h"

struct weir_change {
    struct weir *weir;
    struct weir_set *set;
};

/* ---- Preparing ------------------------------------------------------------------------------------------------ */

int weir_change_new(struct weir_change **out, struct weir *weir)
{
    if (weir->old != NULL)
        return WEIR_ERR_BUSY;
    struct weir_change *change = set_take_memory(weir, sizeof *change);
    if (change == NULL)
        return WEIR_ERR_MEMORY;
    change->weir = weir;
    change->set = set_new(weir);
    if (change->set == NULL) {
        set_give_memory(weir, change, sizeof *change);
        return WEIR_ERR_MEMORY;
    }
    *out = change;
    return 0;
}

void weir_change_free(struct weir_change *change)
{
    if (change == NULL)
        return;
    set_free(change->set, true);
    set_give_memory(change->weir, change, sizeof *change);
}

int weir_change_limit(struct weir_change *change, const struct weir_limit *limit, weir_limit_id *out)
{
    return set_add_limit(change->set, limit, out);
}

int weir_change_override(struct weir_change *change, weir_limit_id limit, const void *key, size_t len,
                         const struct weir_size *size)
{
    return set_add_override(change->set, limit, key, len, size);
}

/* ---- What differs --------------------------------------------------------------------------------------------- */

static const struct weir_size *size_of(const struct limit *limit, const struct shape *shape)
{
    for (size_t i = 0; shape != NULL && i < limit->family->count; i++)
        if (limit->family->members[i].shape == shape)
            return &limit->family->members[i].size;
    return NULL;
}

/* Whether deciding under either gives the same answers for ever. What compare_overrides() found is part of it. */
static bool is_unchanged(const struct limit *old, const struct limit *limit)
{
    const struct weir_limit *x = &old->given, *y = &limit->given;
    return set_same_size(&old->family->members[0].size, &limit->family->members[0].size) && x->hold == y->hold
           && x->wait.up_to == y->wait.up_to && x->wait.queue == y->wait.queue && x->when_full == y->when_full
           && x->refused == y->refused && x->state_lost == y->state_lost
           && x->retries_free_within == y->retries_free_within && old->override_count == limit->override_count
           && !limit->has_new_override;
}

/* The old limit that an added one continues, or NULL. */
static struct limit *predecessor(const struct weir_set *old_set, const struct limit *limit)
{
    weir_limit_id id = weir_limit_find(old_set->weir, limit->name);
    if (id == WEIR_NO_LIMIT)
        return NULL;
    struct limit *old = old_set->limits[id];
    return memcmp(&old->prefix, &limit->prefix, sizeof old->prefix) == 0 ? old : NULL;
}

/* Mark the limits with an override that their predecessors have not. One walk for all: limits and overrides are many. */
static void compare_overrides(struct weir_set *set, const struct weir_set *old_set)
{
    for (size_t i = 0; i < set->override_room; i++) {
        const struct override *theirs = &set->overrides[i];
        struct limit *limit = theirs->limit == 0 ? NULL : set->limits[theirs->limit - 1];
        const struct limit *old = limit == NULL || limit->has_new_override ? NULL : predecessor(old_set, limit);
        if (old == NULL || old->override_count == 0)
            continue;
        const struct override *ours = set_override_place(old_set, theirs->hash);
        limit->has_new_override =
            ours->limit == 0 || !set_same_size(size_of(old, ours->shape), size_of(limit, theirs->shape));
    }
}

/* After the families: the overrides of limits that did not change have the old shapes too. */
static void adopt_overrides(struct weir_set *set, const enum weir_change_kind *kinds,
                            const struct weir_set *old_set)
{
    for (size_t i = 0; i < set->override_room; i++) {
        struct override *override = &set->overrides[i];
        if (override->limit == 0 || kinds[override->limit - 1] != WEIR_CHANGE_KEPT)
            continue;
        const struct override *theirs = set_override_place(old_set, override->hash);
        override->shape = theirs->shape;
        override->member = theirs->member;
    }
}

/* Let a limit that did not change go on with the old one's family. */
static void adopt(struct weir *weir, struct limit *limit, const struct limit *old)
{
    family_free(weir, limit->family);
    limit->family = old->family;
    limit->shape = old->shape;
}

/* Any key may have had any size of the old limit. */
static void widen(const struct family *family, const struct family *old)
{
    const struct shape *widest = old->members[0].shape;
    for (size_t i = 1; i < old->count; i++)
        if (shape_is_wider(old->members[i].shape, widest))
            widest = old->members[i].shape;
    for (size_t i = 0; i < family->count; i++)
        shape_widen(family->members[i].shape, widest);
}

static enum weir_change_kind relate(struct weir_set *set, weir_limit_id id, const struct weir_set *old_set)
{
    struct weir *weir = set->weir;
    struct limit *limit = set->limits[id];
    const struct limit *old = predecessor(old_set, limit);
    if (old == NULL) {
        limit->family->lineage = ++weir->next_lineage;
        return weir_limit_find(weir, limit->name) == WEIR_NO_LIMIT ? WEIR_CHANGE_NEW : WEIR_CHANGE_RESTARTED;
    }
    limit->family->lineage = old->family->lineage;
    if (!is_unchanged(old, limit)) {
        widen(limit->family, old->family);
        return WEIR_CHANGE_RESIZED;
    }
    adopt(weir, limit, old);
    return WEIR_CHANGE_KEPT;
}

/* ---- Putting in force ------------------------------------------------------------------------------------------- */

/* Adopted families stay the old set's when a change fails: they are taken out before it is freed. */
static void disown(struct weir_set *set, const enum weir_change_kind *kinds)
{
    for (size_t i = 0; i < set->limit_count; i++)
        if (kinds[i] == WEIR_CHANGE_KEPT)
            set->limits[i]->family = NULL;
}

static int publish(struct weir_set *set, const enum weir_change_kind *kinds, weir_ns since)
{
    struct weir *weir = set->weir;
    for (size_t i = 0; i < set->limit_count; i++) {
        struct family *family = set->limits[i]->family;
        if (kinds[i] == WEIR_CHANGE_KEPT)
            continue;
        for (size_t k = 0; k < family->count; k++) {
            family->members[k].shape->generation = set->generation;
            family->members[k].shape->since = since;
        }
        int code = family_publish(weir, family, 0);
        if (code == 0)
            continue;
        while (i-- > 0)
            if (kinds[i] != WEIR_CHANGE_KEPT)
                family_withdraw(weir, set->limits[i]->family);
        return code;
    }
    return 0;
}

/* Memory that weir_quiesce() will need is reserved now, so that it cannot fail then. */
static int reserve_sweep(struct weir *weir, size_t families)
{
    size_t numbers = WEIR_LIMITS_MAX + 1;
    if (weir->successor == NULL)
        weir->successor = set_take_memory(weir, numbers * sizeof *weir->successor);
    if (weir->is_gone == NULL)
        weir->is_gone = set_take_memory(weir, numbers * sizeof *weir->is_gone);
    if (weir->successor == NULL || weir->is_gone == NULL)
        return WEIR_ERR_MEMORY;
    struct retired *retired = &weir->retired;
    if (retired->count + families <= retired->room)
        return 0;
    size_t room = retired->count + families;
    struct family **grown = set_take_memory(weir, room * sizeof *grown);
    if (grown == NULL)
        return WEIR_ERR_MEMORY;
    if (retired->count > 0)
        memcpy(grown, retired->families, retired->count * sizeof *grown);
    set_give_memory(weir, retired->families, retired->room * sizeof *grown);
    retired->families = grown;
    retired->room = room;
    return 0;
}

/*
 * What is not in a cell goes on as well: the budget that overflowing keys share, and what a key that nobody remembers has
 * used. Before the set can be seen.
 */
static void succeed(struct weir *weir, const struct limit *before, const struct limit *limit)
{
    store_succeed_overflow(weir->store, before->shape, limit->shape);
    for (size_t i = 0; limit->shape->starts_empty && before->shape->starts_empty && i < limit->family->count;
         i++) {
        struct shape *shape = limit->family->members[i].shape;
        if (shape->algorithm != WEIR_SLIDING_LOG && shape->algorithm != WEIR_CONCURRENCY)
            atomic_store_explicit(&shape->absent,
                                  shape_convert(before->shape, shape, shape_absent(before->shape)),
                                  memory_order_relaxed);
    }
}

static int put_in_force(struct weir_set *set, enum weir_change_kind *kinds, weir_ns since)
{
    struct weir *weir = set->weir;
    struct weir_set *old = weir->current;
    if (weir->old != NULL)
        return WEIR_ERR_BUSY;
    compare_overrides(set, old);
    for (size_t i = 0; i < set->limit_count; i++)
        kinds[i] = relate(set, (weir_limit_id)i, old);
    adopt_overrides(set, kinds, old);
    set->generation = weir->next_generation + 1;
    set->since = since;
    int code = reserve_sweep(weir, old->limit_count);
    if (code == 0)
        code = publish(set, kinds, since);
    if (code != 0) {
        disown(set, kinds);
        return code;
    }
    set_index_lineages(set);
    for (size_t i = 0; i < set->limit_count; i++) {
        const struct limit *before = kinds[i] == WEIR_CHANGE_RESIZED ? predecessor(old, set->limits[i]) : NULL;
        if (before == NULL)
            continue;
        succeed(weir, before, set->limits[i]);
        for (size_t k = 0; k < before->family->count; k++)
            store_shape_over(weir->store, before->family->members[k].shape, since);
    }
    weir->next_generation++;
    weir->old = old;
    room_lock(weir);
    room_change_begin(weir, old, set, since);
    atomic_store_explicit(&weir->current, set, memory_order_release);
    room_change_end(weir, since);
    room_unlock(weir, false);
    atomic_thread_fence(
        memory_order_seq_cst); /* weir_lost_at_set() has one: it saw this set, or is seen here */
    set_lose(set, atomic_load_explicit(&weir->lost_at, memory_order_relaxed));
    return 0;
}

int weir_change_commit(struct weir_change *change, weir_ns now, const struct weir_set **out,
                       enum weir_change_kind *kinds)
{
    struct weir *weir = change->weir;
    size_t count = change->set->limit_count, size = (count + 1) * sizeof(enum weir_change_kind);
    enum weir_change_kind *found = set_take_memory(weir, size);
    int code = found == NULL ? WEIR_ERR_MEMORY : put_in_force(change->set, found, set_to_stamp(weir, now));
    if (code == 0) {
        if (out != NULL)
            *out = change->set;
        if (kinds != NULL && count > 0)
            memcpy(kinds, found, count * sizeof *kinds);
        change->set = NULL;
    }
    set_give_memory(weir, found, size);
    weir_change_free(change);
    return code;
}

/* ---- Finishing -------------------------------------------------------------------------------------------------- */

/* What nobody can have met any more. */
static void free_retired(struct weir *weir)
{
    struct retired *retired = &weir->retired;
    for (size_t i = 0; i < retired->count; i++) {
        family_withdraw(weir, retired->families[i]);
        family_free(weir, retired->families[i]);
    }
    retired->count = 0;
}

/* Keys with a size of their own first, by their hashes: a cell tells its number, but not whose it is. */
static void convert_overrides(struct weir *weir, const struct weir_set *set, weir_ns now)
{
    for (size_t i = 0; i < set->override_room; i++) {
        const struct override *override = &set->overrides[i];
        if (override->limit != 0 && override->shape != NULL && override->shape->generation == set->generation)
            store_convert(weir->store, override->shape, override->hash, now);
    }
}

/* Of an old limit: which numbers become which, or end. */
static void name_successors(struct weir *weir, const struct weir_set *set, struct limit *old)
{
    weir_limit_id id = set_find_lineage(set, old->family->lineage);
    const struct limit *next = set_limit(set, id);
    if (next != NULL && next->family == old->family)
        return;
    for (size_t i = 0; i < old->family->count; i++) {
        uint16_t number = old->family->members[i].shape->number;
        weir->successor[number] = next == NULL ? NULL : next->shape;
        weir->is_gone[number] = next == NULL;
    }
    weir->retired.families[weir->retired.count++] = old->family;
}

void weir_quiesce(struct weir *weir, weir_ns now)
{
    struct weir_set *old = weir->old, *set = weir->current;
    if (old == NULL)
        return; /* and calls that met a retired shape before it was swept may still run: see weir_retire() */
    free_retired(weir);
    weir_ns stamp = set_to_stamp(weir, now);
    memset(weir->successor, 0, (WEIR_LIMITS_MAX + 1) * sizeof *weir->successor);
    memset(weir->is_gone, 0, (WEIR_LIMITS_MAX + 1) * sizeof *weir->is_gone);
    for (size_t i = 0; i < old->limit_count; i++)
        name_successors(weir, set, old->limits[i]);
    if (weir->retired.count > 0) {
        convert_overrides(weir, set, stamp);
        store_succeed(weir->store, weir->successor, weir->is_gone, stamp);
    }
    set_free(old, false);
    weir->old = NULL;
}

void weir_retire(struct weir *weir)
{
    free_retired(weir);
}

void weir_free(struct weir *weir)
{
    if (weir == NULL)
        return;
    size_t numbers = WEIR_LIMITS_MAX + 1;
    weir_quiesce(weir, weir->origin);
    free_retired(weir);
    room_deinit(weir);
    store_free(weir->store);
    set_free(weir->current, true);
    set_give_memory(weir, weir->retired.families, weir->retired.room * sizeof *weir->retired.families);
    set_give_memory(weir, weir->successor, numbers * sizeof *weir->successor);
    set_give_memory(weir, weir->is_gone, numbers * sizeof *weir->is_gone);
    struct weir_allocator allocator = weir->allocator;
    allocator.release(allocator.context, weir, sizeof *weir);
}
