// SPDX-License-Identifier: Apache-2.0
/*
 * permit.c - permits: a cell whose word says which record knows who holds how much until when.
 *
 * A permit is an entry {fence, cost, expiry} of its key's record (record.c). Dropping what has expired, seeing whether there is room,
 * adding the entry and raising the fence are one step under the record's lock, so a cost of several is given whole or not at
 * all, and of two requests that each want all of it one gets it (P28: at every instant at most `at_most` are unexpired).
 *
 * Whoever holds a permit names its entry by place and fence. A fence is given once in the life of the store, so an entry that
 * has the fence is the permit's, whatever became of the key's cell, its shape or its record meanwhile.
 *
 * Time: an acquire or a renewal is done at max(now, record.latest) and leaves that stamp there, so nobody with an older one
 * sees a permit as held that was dropped already, nor holds one beside it. A look and a refusal leave everything as it is.
 *
 * Keys without a cell of their own share one record of `at_most`, whose entries are reserved with the shape; it goes on to the
 * shape's successor, because its holders do.
 *
 * Words:    record.lock; all else of a record and of its entries is the lock holder's. entry.fence and entry.record are read
 *           by whoever holds a permit, to find the lock. store.fence. The cell's word [gen:31][record:32].
 * Ordering: lock acquires, unlock releases. A new record is written before the exchange that publishes its cell (a full
 *           barrier), and read after an acquire of that cell; entry.record is released by the store of its fence.
 * Progress: to decide, a lock is waited for LOCK_SPINS turns, then the answer is the limit's when-full, CONTENDED. To give
 *           back it is waited for until it is had, the processor given up meanwhile: what is not given back is lost to all.
 * Reuse:    as log.c: the generation is raised under the lock by whoever took the cell away. An entry's fence is 0 before it
 *           goes back to the pool.
 */
#include <sched.h>

#include "store/record.h"

#define RECORD_GEN_MASK ((UINT32_C(1) << 31) - 1)

/* Wait until the record is ours: its holder is running. */
static void lock_patiently(struct record *record)
{
    while (!word_lock(&record->lock, LOCK_SPINS))
        (void)sched_yield();
}

/* As in log.c: nothing else is read before the generation matches. */
static bool is_of_cell(const struct record *record, struct cell seen)
{
    return record->gen == (uint32_t)(seen.state >> 32)
           && (record->hash & CELL_TAG_MASK) == (seen.tag & CELL_TAG_MASK);
}

static uint64_t state_of(const struct store *store, uint32_t record)
{
    return (uint64_t)record_of(store, record)->gen << 32 | record;
}

/* Permits that were given before state was lost may be in use until the last of them would have expired. */
static bool begins_empty(const struct shape *shape, weir_ns now, uint64_t cost, struct step *step,
                         struct report *report)
{
    weir_ns until = shape_lost_at(shape) + shape->hold;
    if (!shape->starts_empty || now >= until)
        return false;
    *step = (struct step){ cost > shape->capacity ? WEIR_NEVER : cost > 0 ? WEIR_DENY : WEIR_ALLOW, 0, now };
    *report = (struct report){ 0, cost > shape->capacity ? WEIR_NO_TIME : record_within_horizon(until),
                               record_within_horizon(until) };
    return true;
}

/* ---- Deciding ------------------------------------------------------------------------------------------------------ */

/* Under the record's lock, after a view that has room: give the permit and tell the numbers after it. */
static void grant(struct ask *ask, uint32_t record_number, const struct record_view *view)
{
    struct store *store = ask->store;
    struct record *record = record_of(store, record_number);
    record_drop_expired(store, record, view->at);
    record->latest = view->at;
    ask->out->permit = ask->permit;
    ask->out->fence = record_add(store, record_number, ask->permit, ask->cost, view->at + ask->shape->hold);
    ask->permit = POOL_NONE; /* the record's now */
    ask->out->report.remaining = ask->shape->capacity - record->held;
    ask->out->report.reset_at = record_within_horizon(entry_of(store, record->last)->expires_at);
}

/* Under the record's lock: answer what is asked. True: it may be taken. A record that was made for who waits may be there
   before anything can be taken. */
static bool look_at_record(struct ask *ask, uint32_t record, struct record_view *view)
{
    struct step step;
    *view = record_view(ask->store, record_of(ask->store, record), ask->now);
    ask->out->at = view->at;
    if (begins_empty(ask->shape, view->at, ask->cost, &step, &ask->out->report)) {
        ask->out->outcome = step.outcome;
        return false;
    }
    ask->out->outcome = record_answer(ask->store, ask->shape, view, ask->cost, &ask->out->report);
    return ask->verb == ASK_TAKE && ask->out->outcome == WEIR_ALLOW;
}

static bool claim_permit(struct ask *ask)
{
    struct store *store = ask->store;
    if (ask->permit == POOL_NONE && pool_reserve(&store->permits, 1))
        ask->permit = pool_take(&store->permits);
    return ask->permit != POOL_NONE;
}

/* Under the record's lock: a permit out of the pool, which the record's own expired ones go back to. */
static bool claim_for(struct ask *ask, struct record *record, const struct record_view *view)
{
    if (claim_permit(ask))
        return true;
    if (view->first == record->first)
        return false;
    record_drop_expired(ask->store, record, view->at);
    record->latest = view->at;
    return claim_permit(ask);
}

/* The pool is empty, but records that are done may hold some, in whichever group. AGAIN: there is one now. */
static enum turn rescue_permit(struct ask *ask)
{
    store_sweep(ask->store, ask->now, RESCUE_GROUPS);
    if (claim_permit(ask))
        return TURN_AGAIN;
    full_answer(ask, WEIR_REASON_FULL);
    return TURN_DONE;
}

/* Under the record's lock. */
static bool put_tag(struct record *record, struct cell *cell, struct cell seen, uint64_t tag)
{
    uint32_t gen = (record->gen + 1) & RECORD_GEN_MASK;
    if (!cell_exchange(cell, seen, (struct cell){ tag, (uint64_t)gen << 32 | (uint32_t)seen.state }))
        return false;
    record->gen = gen;
    return true;
}

enum turn permit_charge(struct ask *ask, struct cell *cell, struct cell seen)
{
    uint32_t number = (uint32_t)seen.state;
    struct record *record = record_of(ask->store, number);
    if (!word_lock(&record->lock, LOCK_SPINS)) {
        full_answer(ask, WEIR_REASON_CONTENDED);
        return TURN_DONE;
    }
    struct record_view view;
    bool owns = is_of_cell(record, seen);
    bool takes = owns && look_at_record(ask, number, &view);
    if (!PERMIT_TAKES_AT_ONCE) {
        word_unlock(&record->lock);
        lock_patiently(record);
        owns = is_of_cell(record, seen);
        takes = takes && owns;
    }
    bool is_claimed = takes && claim_for(ask, record, &view);
    if (is_claimed && cell_shape_number(seen) != ask->shape->number)
        owns = put_tag(record, cell, seen, ask->key.word | (seen.tag & CELL_QUEUED));
    if (is_claimed && owns)
        grant(ask, number, &view);
    word_unlock(&record->lock);
    if (takes && !is_claimed)
        return rescue_permit(ask);
    return owns ? TURN_DONE : TURN_AGAIN;
}

bool permit_charge_shared(struct ask *ask, uint32_t number)
{
    struct record *record = record_of(ask->store, number);
    if (!word_lock(&record->lock, LOCK_SPINS))
        return false;
    struct record_view view;
    bool takes = look_at_record(ask, number, &view);
    /* What an attempt at a record of its own had claimed goes back: this entry is one of those reserved. */
    uint32_t claimed = ask->permit;
    if (takes) {
        ask->permit = pool_take(&ask->store->permits);
        grant(ask, number, &view);
        ask->permit = claimed;
    }
    word_unlock(&record->lock);
    return true;
}

/* Nobody else knows the record yet: it needs no lock. A second try for the same key starts it over. */
static void begin_own(struct ask *ask, weir_ns now)
{
    struct record *record = record_of(ask->store, ask->ring);
    record_begin(record, false);
    record->hash = ask->key.hash;
    record->latest = now;
}

/* A key that is waited for has a record, though nothing is held. */
struct step permit_begin(struct ask *ask, weir_ns now, struct report *report)
{
    struct store *store = ask->store;
    if (ask->verb == ASK_QUEUE) {
        begin_own(ask, now);
        return (struct step){ WEIR_ALLOW, state_of(store, ask->ring), now };
    }
    struct step step;
    if (begins_empty(ask->shape, now, ask->cost, &step, report))
        return step;
    struct record_view view = record_view(store, NULL, now);
    enum weir_outcome outcome = record_answer(store, ask->shape, &view, ask->cost, report);
    if (ask->verb != ASK_TAKE || outcome != WEIR_ALLOW)
        return (struct step){ outcome, 0, now };
    begin_own(ask, now);
    ask->fence = record_add(store, ask->ring, ask->permit, ask->cost, now + ask->shape->hold);
    report->remaining -= ask->cost;
    report->reset_at = record_within_horizon(now + ask->shape->hold);
    return (struct step){ WEIR_ALLOW, state_of(store, ask->ring), now };
}

/* ---- Records of keys ------------------------------------------------------------------------------------------------- */

bool permit_may_claim(const struct store *store)
{
    return pool_available(&store->records) > 0 && pool_available(&store->permits) > 0;
}

enum ring_result permit_claim(struct ask *ask)
{
    struct store *store = ask->store;
    bool needs_permit = ask->verb != ASK_QUEUE;
    if ((needs_permit && !claim_permit(ask)) || !pool_reserve(&store->records, 1))
        return RING_FULL;
    ask->ring = pool_take(&store->records);
    return RING_OK;
}

void permit_unclaim(struct ask *ask)
{
    struct store *store = ask->store;
    if (ask->permit != POOL_NONE) {
        __atomic_store_n(&entry_of(store, ask->permit)->fence, 0, __ATOMIC_RELAXED);
        pool_give(&store->permits, ask->permit);
        pool_unreserve(&store->permits, 1);
    }
    if (ask->ring != RING_NONE) {
        pool_give(&store->records, ask->ring);
        pool_unreserve(&store->records, 1);
    }
}

bool permit_retag(struct store *store, struct cell *cell, struct cell seen, uint64_t tag)
{
    struct record *record = record_of(store, (uint32_t)seen.state);
    if (!word_lock(&record->lock, LOCK_SPINS))
        return false;
    bool done = is_of_cell(record, seen) && put_tag(record, cell, seen, tag);
    word_unlock(&record->lock);
    return done;
}

/*
 * Under the lock. What expired is kept for the grace, as in place.c: a stamp older than that must not hold beside it. What was
 * released leaves nothing to remember.
 */
static bool is_forgettable(const struct store *store, const struct record *record, weir_ns now)
{
    if (record->last != POOL_NONE && entry_of(store, record->last)->expires_at + SHAPE_GRACE_NS > now)
        return false;
    return !record->has_dropped || record->latest + SHAPE_GRACE_NS <= now;
}

bool permit_cell_is_dead(struct store *store, struct cell seen, weir_ns now)
{
    struct record *record = record_of(store, (uint32_t)seen.state);
    if (!word_lock(&record->lock, 1))
        return false; /* in use, so not dead */
    bool is_dead = is_of_cell(record, seen) && is_forgettable(store, record, now);
    word_unlock(&record->lock);
    return is_dead;
}

bool permit_retire(struct store *store, struct cell *cell, struct cell seen, struct cell next, weir_ns now,
                   bool only_dead, enum log_wait wait)
{
    uint32_t number = (uint32_t)seen.state;
    struct record *record = record_of(store, number);
    if (!word_lock(&record->lock, wait))
        return false;
    bool retires = is_of_cell(record, seen) && (!only_dead || is_forgettable(store, record, now));
    retires = retires && cell_exchange(cell, seen, next);
    if (retires) {
        record->gen = (record->gen + 1) & RECORD_GEN_MASK;
        while (record->first != POOL_NONE)
            record_drop(store, record, record->first);
    }
    word_unlock(&record->lock);
    if (retires) {
        pool_give(&store->records, number);
        pool_unreserve(&store->records, 1);
    }
    return retires;
}

/* ---- Records of overflowing keys ------------------------------------------------------------------------------------- */

static bool reserve_shared(struct store *store, const struct shape *shape)
{
    if (!pool_reserve(&store->records, 1))
        return false;
    if (pool_reserve(&store->permits, (uint32_t)shape->capacity))
        return true;
    pool_unreserve(&store->records, 1);
    return false;
}

int permit_reserve_shared(struct store *store, const struct shape *shape, struct slot *slot)
{
    if (shape->when_full != WEIR_FULL_OVERFLOW)
        return store->reserved_permits < store->permits.count ? 0 : WEIR_ERR_PERMIT_MEMORY;
    if (!reserve_shared(store, shape)) {
        store_sweep(store, shape->since, SIZE_MAX);
        if (!reserve_shared(store, shape))
            return WEIR_ERR_PERMIT_MEMORY;
    }
    slot->ring = pool_take(&store->records);
    struct record *record = record_of(store, slot->ring);
    record_begin(record, true);
    record->entries = 0;
    record->reserved = (uint32_t)shape->capacity;
    store->reserved_permits += shape->capacity;
    return 0;
}

/* Permits that nobody else can have. */
static uint32_t unavailable(const struct record *record)
{
    return record->reserved > record->entries ? record->reserved : record->entries;
}

/* The successor's own record is not needed then. What was reserved for it is, but for what is held already beyond the old
   reservation. */
void permit_succeed_shared(struct store *store, const struct shape *old, const struct shape *next)
{
    struct slot *from = slot_of(store, old), *to = slot_of(store, next);
    if (from->ring == RING_NONE || to->ring == RING_NONE)
        return;
    struct record *record = record_of(store, from->ring);
    lock_patiently(record);
    uint32_t before = unavailable(record);
    record->reserved += (uint32_t)next->capacity;
    uint32_t excess = before + (uint32_t)next->capacity - unavailable(record);
    word_unlock(&record->lock);
    pool_unreserve(&store->permits, excess);
    pool_give(&store->records, to->ring);
    pool_unreserve(&store->records, 1);
    to->ring = from->ring;
    from->is_handed_on = true;
}

void permit_release_shared(struct store *store, const struct shape *shape, struct slot *slot)
{
    if (slot->ring == RING_NONE)
        return;
    struct record *record = record_of(store, slot->ring);
    lock_patiently(record);
    while (!slot->is_handed_on && record->first != POOL_NONE)
        record_drop(store, record, record->first);
    uint32_t excess = unavailable(record);
    record->reserved -= (uint32_t)shape->capacity;
    excess -= unavailable(record);
    word_unlock(&record->lock);
    pool_unreserve(&store->permits, excess);
    store->reserved_permits -= shape->capacity;
    if (slot->is_handed_on)
        return;
    pool_give(&store->records, slot->ring);
    pool_unreserve(&store->records, 1);
}

/* ---- Those who hold -------------------------------------------------------------------------------------------------- */

/*
 * The record of a permit that is there, locked; NULL: it is gone. A fence is given once, so an entry that still has it under
 * the lock of the record that it names is this permit.
 */
static struct record *lock_holder(struct store *store, const struct store_permit *permit)
{
    if (permit->fence == 0 || permit->place >= store->permits.count)
        return NULL;
    const struct entry *entry = entry_of(store, permit->place);
    for (;;) {
        CELL_STEP();
        if (__atomic_load_n(&entry->fence, __ATOMIC_ACQUIRE) != permit->fence)
            return NULL;
        uint32_t number = __atomic_load_n(&entry->record, __ATOMIC_RELAXED);
        struct record *record = record_of(store, number);
        lock_patiently(record);
        bool is_here = __atomic_load_n(&entry->fence, __ATOMIC_RELAXED) == permit->fence
                       && __atomic_load_n(&entry->record, __ATOMIC_RELAXED) == number;
        if (is_here && (record->is_shared || ((record->hash ^ permit->hash) & CELL_TAG_MASK) == 0))
            return record;
        word_unlock(&record->lock);
        if (is_here)
            return NULL;
    }
}

/* Under the record's lock: whether the permit has not expired at *at, which is made no earlier than the record's latest. */
static bool is_held(const struct store *store, const struct record *record, const struct store_permit *permit,
                    weir_ns *at)
{
    if (*at < record->latest)
        *at = record->latest;
    return entry_of(store, permit->place)->expires_at > *at;
}

weir_ns store_permit_renew(struct store *store, const struct shape *shape, const struct store_permit *permit,
                           weir_ns now)
{
    weir_ns at = now > shape->since ? now : shape->since, expires_at = WEIR_NO_TIME;
    struct record *record = now > WEIR_HORIZON ? NULL : lock_holder(store, permit);
    if (record == NULL)
        return WEIR_NO_TIME;
    if (is_held(store, record, permit, &at)) {
        expires_at = at + shape->hold;
        record_move(store, record, permit->place, expires_at);
        record->latest = at;
    }
    word_unlock(&record->lock);
    return expires_at;
}

bool store_permit_is_held(struct store *store, const struct shape *shape, const struct store_permit *permit,
                          weir_ns now)
{
    weir_ns at = now > shape->since ? now : shape->since;
    struct record *record = now > WEIR_HORIZON ? NULL : lock_holder(store, permit);
    if (record == NULL)
        return false;
    bool held = is_held(store, record, permit, &at);
    word_unlock(&record->lock);
    return held;
}

/* An entry that has expired goes as well; only what is told differs. */
bool store_permit_release(struct store *store, const struct shape *shape, const struct store_permit *permit,
                          weir_ns now)
{
    weir_ns at = now > shape->since ? now : shape->since;
    struct record *record = lock_holder(store, permit);
    if (record == NULL)
        return false;
    bool held = is_held(store, record, permit, &at);
    record_drop(store, record, permit->place);
    word_unlock(&record->lock);
    return held;
}

/* What was never told to anybody needs no stamp. */
void permit_undo(struct store *store, uint64_t hash, const struct store_answer *taken)
{
    const struct store_permit permit = { hash, taken->fence, taken->permit };
    struct record *record = lock_holder(store, &permit);
    if (record == NULL)
        return;
    record_drop(store, record, permit.place);
    word_unlock(&record->lock);
}

/* ---- Those who wait ---------------------------------------------------------------------------------------------- */

/* Before it nothing can be taken. */
static weir_ns begins_at(const struct shape *shape, weir_ns now)
{
    weir_ns until = shape->starts_empty ? shape_lost_at(shape) + shape->hold : 0;
    return now > until ? now : until;
}

weir_ns permit_foresee_absent(const struct shape *shape, weir_ns now, uint64_t ahead, uint64_t cost)
{
    struct record_view view = record_view(NULL, NULL, begins_at(shape, now));
    return record_foresee(NULL, shape, &view, ahead, cost);
}

bool permit_foresee(struct store *store, const struct shape *shape, struct cell seen, weir_ns now,
                    uint64_t ahead, uint64_t cost, weir_ns *out)
{
    struct record *record = record_of(store, (uint32_t)seen.state);
    if (!word_lock(&record->lock, LOCK_SPINS))
        return false;
    bool owns = is_of_cell(record, seen);
    if (owns) {
        weir_ns from = begins_at(shape, now);
        struct record_view view = record_view(store, record, from);
        *out = record_foresee(store, shape, &view, ahead, cost);
        if (*out == view.at)
            *out = from; /* it is free, also for a stamp that is older than the record's latest */
    }
    word_unlock(&record->lock);
    return owns;
}

bool permit_clear(struct store *store, struct cell seen)
{
    struct record *record = record_of(store, (uint32_t)seen.state);
    if (!word_lock(&record->lock, LOCK_SPINS))
        return false;
    bool owns = is_of_cell(record, seen);
    while (owns && record->first != POOL_NONE)
        record_drop(store, record, record->first);
    word_unlock(&record->lock);
    return owns;
}
