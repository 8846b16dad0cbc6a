// SPDX-License-Identifier: Apache-2.0
/*
 * log.c - sliding logs: a cell whose word says which ring of stamps is the key's.
 *
 * The one part of a decision that locks, because a ring does not fit the sixteen bytes that one exchange
 * replaces. The lock is the ring's own; whoever holds it checks that the ring still belongs to the cell
 * (generation and owner), acts and lets go. Taking the cell away happens under the same lock, so a holder that
 * saw the generation match knows that the cell is there.
 *
 * Words:    ring.lock; all else of a ring is its holder's. The cell's word [gen:31][ring:32].
 * Ordering: lock acquires, unlock releases. A new ring is written before the exchange that publishes its cell
 *           (a full barrier), and read after an acquire of that cell.
 * Progress: bounded: a lock is waited for LOCK_SPINS turns, then the answer is the limit's when-full,
 *           CONTENDED.
 * Reuse:    gen is raised under the lock by whoever took the cell away, before the ring goes back to the arena.
 */
#include "limit/log.h"

#include "store/table.h"

#define GEN_MASK ((UINT32_C(1) << 31) - 1)

static struct ring *ring_of(struct store *store, uint32_t ring)
{
    return &store->arena.rings[ring];
}

static struct log_view view_of(struct store *store, const struct shape *shape, uint32_t ring)
{
    const struct ring *head = ring_of(store, ring);
    uint32_t size = RING_UNIT << arena_order(shape->capacity);
    return (struct log_view){ arena_stamps(&store->arena, ring), size - 1, head->head, head->count };
}

static void keep(struct store *store, uint32_t ring, const struct log_view *log)
{
    ring_of(store, ring)->head = (uint16_t)(log->head & log->mask);
    ring_of(store, ring)->count = log->count;
}

/*
 * The holder's check, before it reads anything else: the ring is still the one that the cell meant. A ring
 * between two owners has another generation, so what its next owner writes without the lock is not read.
 */
static bool still_owns(struct store *store, struct cell seen)
{
    const struct ring *ring = ring_of(store, (uint32_t)seen.state);
    return ring->gen == (uint32_t)(seen.state >> 32) && ring->owner == (uint16_t)seen.tag;
}

/* The stamps and the latest one that was ever decided are long past. */
static bool says_nothing(const struct shape *shape, const struct ring *ring, const struct log_view *log,
                         weir_ns now)
{
    weir_ns when = STORE_HAS_GRACE ? now : now + SHAPE_GRACE_NS;
    return ring->latest + SHAPE_GRACE_NS <= when && log_is_dead(shape, log, when);
}

uint64_t log_state(struct store *store, uint32_t ring)
{
    return (uint64_t)ring_of(store, ring)->gen << 32 | ring;
}

/* ---- Rings ---------------------------------------------------------------------------------------------- */

enum ring_result log_claim(struct store *store, const struct shape *shape, uint32_t *ring)
{
    bool is_busy;
    *ring = arena_take(&store->arena, arena_order(shape->capacity), &is_busy);
    if (*ring != RING_NONE)
        return RING_OK;
    return is_busy ? RING_BUSY : RING_FULL;
}

/* ---- Deciding ------------------------------------------------------------------------------------------- */

/* Under the ring's lock. */
static void decide(struct ask *ask, uint32_t ring)
{
    struct log_view log = view_of(ask->store, ask->shape, ring);
    bool is_look = ask->is_peek || ask->cost == 0;
    weir_ns latest = ring_of(ask->store, ring)->latest, now = ask->now > latest ? ask->now : latest;
    struct step step = log_decide(ask->shape, &log, now, ask->cost, is_look, &ask->out->report);
    ask->out->outcome = step.outcome;
    ask->out->at = step.at;
    if (!is_look)
        keep(ask->store, ring, &log);
}

enum turn log_charge(struct ask *ask, struct cell seen)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(ask->store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS)) {
        full_answer(ask, WEIR_REASON_CONTENDED);
        return TURN_DONE;
    }
    bool owns = still_owns(ask->store, seen);
    if (owns)
        decide(ask, ring);
    word_unlock(lock);
    return owns ? TURN_DONE : TURN_AGAIN;
}

bool log_charge_ring(struct ask *ask, uint32_t ring)
{
    uint16_t *lock = &ring_of(ask->store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return false;
    decide(ask, ring);
    word_unlock(lock);
    return true;
}

struct step log_begin(struct ask *ask, weir_ns now, struct report *report)
{
    if (ask->is_peek) {
        struct log_view none = { NULL, 0, 0, 0 };
        return log_decide(ask->shape, &none, now, ask->cost, true, report);
    }
    /* Nobody else knows the ring yet: it needs no lock. A second try for the same key starts it over. */
    struct ring *ring = ring_of(ask->store, ask->ring);
    ring->owner = (uint16_t)ask->key.tag;
    ring->latest = ring->head = ring->count = 0;
    struct log_view log = view_of(ask->store, ask->shape, ask->ring);
    struct step step = log_decide(ask->shape, &log, now, ask->cost, false, report);
    keep(ask->store, ask->ring, &log);
    step.word = log_state(ask->store, ask->ring);
    return step;
}

/* ---- The end of a log ----------------------------------------------------------------------------------- */

bool log_cell_is_dead(struct store *store, const struct shape *shape, struct cell seen, weir_ns now)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, 1))
        return false; /* in use, so not dead */
    bool is_dead = false;
    if (still_owns(store, seen)) {
        struct log_view log = view_of(store, shape, ring);
        is_dead = says_nothing(shape, ring_of(store, ring), &log, now);
    }
    word_unlock(lock);
    return is_dead;
}

weir_ns log_reset_at(struct store *store, const struct shape *shape, struct cell seen)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    weir_ns reset_at = WEIR_NO_TIME;
    if (!word_lock(lock, 1))
        return reset_at;
    if (still_owns(store, seen)) {
        struct log_view log = view_of(store, shape, ring);
        reset_at = log.count == 0 ? 0 : log.stamps[(log.head + log.count - 1) & log.mask] + shape->period;
    }
    word_unlock(lock);
    return reset_at;
}

bool log_retire(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen,
                struct cell next, weir_ns now, bool only_dead)
{
    uint32_t number = (uint32_t)seen.state;
    struct ring *ring = ring_of(store, number);
    if (!word_lock(&ring->lock, 1))
        return false;
    bool retires = still_owns(store, seen);
    if (retires && only_dead) {
        struct log_view log = view_of(store, shape, number);
        retires = says_nothing(shape, ring, &log, now);
    }
    retires = retires && cell_exchange(cell, seen, next);
    if (retires)
        ring->gen = (ring->gen + 1) & GEN_MASK;
    word_unlock(&ring->lock);
    if (retires)
        arena_give(&store->arena, number);
    return retires;
}

/* ---- Giving back ---------------------------------------------------------------------------------------- */

/*
 * Under the ring's lock. Stamps decide at the newest one, and drop what has left its period. With that one
 * taken out an older stamp could be admitted beside those dropped, so the ring remembers how late it has been.
 */
static void give_back(struct store *store, const struct shape *shape, uint32_t ring,
                      const struct store_answer *taken, uint64_t cost)
{
    struct ring *head = ring_of(store, ring);
    struct log_view log = view_of(store, shape, ring);
    weir_ns newest = log.count == 0 ? 0 : log.stamps[(log.head + log.count - 1) & log.mask];
    if (newest > head->latest)
        head->latest = newest;
    log_undo(&log, taken->at, cost);
    keep(store, ring, &log);
}

bool log_give_back(struct store *store, const struct shape *shape, struct cell seen,
                   const struct store_answer *taken, uint64_t cost)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return true; /* held all the time: what was taken stays taken, which is sound */
    bool owns = still_owns(store, seen);
    if (owns)
        give_back(store, shape, ring, taken, cost);
    word_unlock(lock);
    return owns;
}

void log_give_back_ring(struct store *store, const struct shape *shape, uint32_t ring,
                        const struct store_answer *taken, uint64_t cost)
{
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return;
    give_back(store, shape, ring, taken, cost);
    word_unlock(lock);
}
