// SPDX-License-Identifier: Apache-2.0
#include "store/record.h"

__extension__ typedef unsigned __int128 u128;

/* Links are written atomically, for the pool may read one that is no longer its own (pool.h). */
static void set_link(uint32_t *link, uint32_t entry)
{
    __atomic_store_n(link, entry, __ATOMIC_RELAXED);
}

void record_begin(struct record *record, bool is_shared)
{
    set_link(&record->first, POOL_NONE);
    record->last = POOL_NONE;
    record->held = 0;
    record->hash = 0;
    record->latest = 0;
    record->is_shared = is_shared;
    record->has_dropped = false;
}

/* ---- Entries ------------------------------------------------------------------------------------------------- */

/* Behind all that expire no later: the end, unless stamps came late or `hold` was shortened. */
static void link_entry(const struct store *store, struct record *record, uint32_t number)
{
    struct entry *entry = entry_of(store, number);
    uint32_t before = record->last, after = POOL_NONE;
    while (before != POOL_NONE && entry_of(store, before)->expires_at > entry->expires_at) {
        after = before;
        before = entry_of(store, before)->previous;
    }
    entry->previous = before;
    set_link(&entry->next, after);
    set_link(before == POOL_NONE ? &record->first : &entry_of(store, before)->next, number);
    *(after == POOL_NONE ? &record->last : &entry_of(store, after)->previous) = number;
}

static void unlink_entry(const struct store *store, struct record *record, uint32_t number)
{
    const struct entry *entry = entry_of(store, number);
    uint32_t before = entry->previous, after = entry->next;
    set_link(before == POOL_NONE ? &record->first : &entry_of(store, before)->next, after);
    *(after == POOL_NONE ? &record->last : &entry_of(store, after)->previous) = before;
}

/* order: the fence is released after the record that it is found by; see lock_holder() in permit.c. */
uint64_t record_add(struct store *store, uint32_t record_number, uint32_t number, uint64_t cost,
                    weir_ns expires_at)
{
    struct record *record = record_of(store, record_number);
    struct entry *entry = entry_of(store, number);
    CELL_STEP();
    uint64_t fence = __atomic_add_fetch(&store->fence, 1, __ATOMIC_RELAXED);
    entry->cost = (uint16_t)cost;
    entry->expires_at = expires_at;
    link_entry(store, record, number);
    record->held += entry->cost;
    if (record->is_shared)
        record->entries++;
    __atomic_store_n(&entry->record, record_number, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->fence, fence, __ATOMIC_RELEASE);
    return fence;
}

void record_move(const struct store *store, struct record *record, uint32_t number, weir_ns expires_at)
{
    unlink_entry(store, record, number);
    entry_of(store, number)->expires_at = expires_at;
    link_entry(store, record, number);
}

void record_drop(struct store *store, struct record *record, uint32_t number)
{
    struct entry *entry = entry_of(store, number);
    bool stays_reserved = record->is_shared && record->entries <= record->reserved;
    unlink_entry(store, record, number);
    record->held -= entry->cost;
    if (record->is_shared)
        record->entries--;
    __atomic_store_n(&entry->fence, 0, __ATOMIC_RELAXED);
    pool_give(&store->permits, number);
    if (!stays_reserved)
        pool_unreserve(&store->permits, 1);
}

void record_drop_expired(struct store *store, struct record *record, weir_ns at)
{
    while (record->first != POOL_NONE && entry_of(store, record->first)->expires_at <= at) {
        record_drop(store, record, record->first);
        record->has_dropped = true;
    }
}

/* ---- What they say ------------------------------------------------------------------------------------------- */

struct record_view record_view(const struct store *store, const struct record *record, weir_ns now)
{
    if (record == NULL)
        return (struct record_view){ now, 0, POOL_NONE, 0 };
    weir_ns latest = record->latest;
    struct record_view view = { now > latest ? now : latest, 0, record->first, record->held };
    while (view.first != POOL_NONE && entry_of(store, view.first)->expires_at <= view.at) {
        view.held -= entry_of(store, view.first)->cost;
        view.first = entry_of(store, view.first)->next;
    }
    if (view.first != POOL_NONE)
        view.last_at = entry_of(store, record->last)->expires_at;
    return view;
}

static weir_ns retry_at(const struct store *store, const struct shape *shape, const struct record_view *view,
                        uint64_t cost)
{
    uint64_t held = view->held;
    weir_ns at = view->at;
    if (cost > shape->capacity)
        return WEIR_NO_TIME;
    for (uint32_t i = view->first; held > shape->capacity - cost; i = entry_of(store, i)->next) {
        held -= entry_of(store, i)->cost;
        at = entry_of(store, i)->expires_at;
    }
    return record_within_horizon(at);
}

enum weir_outcome record_answer(const struct store *store, const struct shape *shape,
                                const struct record_view *view, uint64_t cost, struct report *report)
{
    enum weir_outcome outcome = WEIR_ALLOW;
    if (cost > shape->capacity)
        outcome = WEIR_NEVER;
    else if (cost > 0 && view->held > shape->capacity - cost)
        outcome = WEIR_DENY;
    report->remaining = view->held < shape->capacity ? shape->capacity - view->held : 0;
    report->retry_at =
        outcome == WEIR_ALLOW && cost > 0 ? view->at : retry_at(store, shape, view, cost == 0 ? 1 : cost);
    report->reset_at = view->held > 0 ? record_within_horizon(view->last_at) : view->at;
    return outcome;
}

weir_ns record_foresee(const struct store *store, const struct shape *shape, const struct record_view *view,
                       uint64_t ahead, uint64_t cost)
{
    uint64_t most = shape->capacity;
    if (cost == 0 || cost > most || ahead > UINT64_MAX - cost)
        return WEIR_NO_TIME;
    uint64_t unit = ahead + cost - 1, rounds = unit / most, place = unit % most;
    uint64_t must_go = place + 1 + view->held; /* of those held, so that this place is free; beside `most` */
    u128 instant = view->at;
    uint32_t i = view->first;
    for (uint64_t gone = 0; i != POOL_NONE && must_go > most + gone; i = entry_of(store, i)->next) {
        gone += entry_of(store, i)->cost;
        instant = entry_of(store, i)->expires_at;
    }
    instant += (u128)rounds * shape->hold;
    return instant > WEIR_HORIZON ? WEIR_NO_TIME : (weir_ns)instant;
}
