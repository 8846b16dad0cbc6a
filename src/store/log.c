// SPDX-License-Identifier: Apache-2.0
/*
 * log.c - sliding logs: a cell whose word says which ring of stamps is the key's.
 *
 * The one part of a decision that locks, because a ring does not fit the sixteen bytes that one exchange replaces.
 * The lock is the ring's own; whoever holds it checks that the ring still belongs to the cell (generation and
 * owner), acts and lets go. Taking the cell away happens under the same lock, so a holder that saw the generation
 * match knows that the cell is there.
 *
 * A key whose limit was changed keeps its stamps, which mean the same under every shape; but another count may want a ring
 * of another size. Whoever charges or converts the cell copies them to one, under both rings' locks (own first, then
 * the free one, which nobody waits for). Where none is to be had the ring stays, and the key's capacity is what it
 * holds until a decision finds a larger one: less is admitted, never more. A cost that such a ring cannot hold at all is
 * answered as if the table were full.
 *
 * Words:    ring.lock; all else of a ring is its holder's. The cell's word [gen:31][ring:32].
 * Ordering: lock acquires, unlock releases. A new ring is written before the exchange that publishes its cell (a full
 *           barrier), and read after an acquire of that cell.
 * Progress: bounded: a lock is waited for LOCK_SPINS turns, then the answer is the limit's when-full, CONTENDED.
 * Reuse:    gen is raised under the lock by whoever took the cell away, before the ring goes back to the arena.
 */
#include "limit/log.h"

#include "store/table.h"

#define GEN_MASK ((UINT32_C(1) << 31) - 1)

static struct ring *ring_of(struct store *store, uint32_t ring)
{
    return &store->arena.rings[ring];
}

static uint32_t size_of(unsigned order)
{
    return RING_UNIT << order;
}

/* Under the ring's lock, by whoever it belongs to: its order does not change until it is given back. */
static struct log_view view_of(struct store *store, uint32_t ring)
{
    const struct ring *head = ring_of(store, ring);
    return (struct log_view){ arena_stamps(&store->arena, ring), size_of(head->order) - 1, head->head,
                              head->count, 0 };
}

static void keep(struct store *store, uint32_t ring, const struct log_view *log)
{
    ring_of(store, ring)->head = (uint16_t)(log->head & log->mask);
    ring_of(store, ring)->count = log->count;
}

/*
 * The holder's check, before it reads anything else: the ring is still the one that the cell meant. A ring between two
 * owners has another generation, so what its next owner writes without the lock is not read.
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
    return ring->latest + SHAPE_GRACE_NS <= now && log_is_dead(shape, log, now);
}

uint64_t log_state(struct store *store, uint32_t ring)
{
    return (uint64_t)ring_of(store, ring)->gen << 32 | ring;
}

/* ---- Rings -------------------------------------------------------------------------------------------------- */

unsigned log_order(const struct shape *shape)
{
    return arena_order(log_room(shape));
}

enum ring_result log_claim(struct store *store, const struct shape *shape, uint32_t *ring)
{
    bool is_busy;
    *ring = arena_take(&store->arena, log_order(shape), &is_busy);
    if (*ring != RING_NONE)
        return RING_OK;
    return is_busy ? RING_BUSY : RING_FULL;
}

/* ---- Moving: another shape, another ring ------------------------------------------------------------------------ */

/* Whether the cell names the shape, and its ring is of the size that the shape's are. */
static bool is_at_home(struct store *store, const struct shape *shape, struct cell seen)
{
    return cell_shape_number(seen) == shape->number
           && ring_of(store, (uint32_t)seen.state)->order == log_order(shape);
}

/* Under the ring's lock: whether a ring of the shape's size is wanted, and would hold what this one does. */
static bool wants_ring(struct store *store, const struct shape *shape, uint32_t ring)
{
    unsigned order = log_order(shape);
    return ring_of(store, ring)->order != order && ring_of(store, ring)->count <= size_of(order);
}

static void copy_ring(struct store *store, uint32_t from, uint32_t to)
{
    struct ring *source = ring_of(store, from), *target = ring_of(store, to);
    struct log_view log = view_of(store, from);
    weir_ns *stamps = arena_stamps(&store->arena, to);
    for (uint32_t i = 0; i < log.count; i++)
        stamps[i] = log.stamps[(log.head + i) & log.mask];
    target->owner = source->owner;
    target->latest = source->latest;
    target->head = 0;
    target->count = source->count;
}

/* A ring of the shape's size, under its lock: whoever still holds an old number of it may be looking at its generation. */
static uint32_t claim_locked(struct store *store, const struct shape *shape)
{
    uint32_t ring;
    if (log_claim(store, shape, &ring) != RING_OK)
        return RING_NONE;
    if (word_lock(&ring_of(store, ring)->lock, LOCK_SPINS))
        return ring;
    arena_give(&store->arena, ring);
    return RING_NONE;
}

/*
 * Under the lock of the cell's ring, and that of `to`: the cell gets the tag word, and `to` in place of its ring; or with
 * RING_NONE it keeps its ring in a new generation, so that whoever holds the old content finds it gone. Gives the ring
 * that is the key's now, locked; the other one was let go. RING_NONE: the cell changed, no lock is held.
 */
static uint32_t move(struct store *store, uint64_t word, struct cell *cell, struct cell seen, uint32_t to)
{
    uint32_t from = (uint32_t)seen.state, next_gen = (ring_of(store, from)->gen + 1) & GEN_MASK;
    uint64_t state = (uint64_t)next_gen << 32 | from;
    if (to != RING_NONE) {
        copy_ring(store, from, to);
        state = log_state(store, to);
    }
    bool moved = cell_exchange(cell, seen, (struct cell){ word, state });
    uint32_t left = !moved ? to : to == RING_NONE ? RING_NONE : from;
    if (moved)
        ring_of(store, from)->gen = next_gen;
    if (!moved || left == from)
        word_unlock(&ring_of(store, from)->lock);
    if (left == to && to != RING_NONE)
        word_unlock(&ring_of(store, to)->lock);
    if (left != RING_NONE)
        arena_give(&store->arena, left);
    return !moved ? RING_NONE : to == RING_NONE ? from : to;
}

bool log_retag(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen,
               uint64_t tag)
{
    uint32_t ring = (uint32_t)seen.state;
    if (!word_lock(&ring_of(store, ring)->lock, LOCK_SPINS))
        return false;
    if (!still_owns(store, seen)) {
        word_unlock(&ring_of(store, ring)->lock);
        return false;
    }
    uint32_t to = wants_ring(store, shape, ring) ? claim_locked(store, shape) : RING_NONE;
    ring = move(store, tag, cell, seen, to);
    if (ring != RING_NONE)
        word_unlock(&ring_of(store, ring)->lock);
    return ring != RING_NONE;
}

bool log_convert(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen)
{
    return log_retag(store, shape, cell, seen,
                     (uint64_t)shape->number << CELL_TAG_BITS | (seen.tag & ~CELL_SHAPE_MASK));
}

/* ---- Deciding ----------------------------------------------------------------------------------------------- */

/* Under the ring's lock. */
static void decide(struct ask *ask, uint32_t ring)
{
    struct log_view log = view_of(ask->store, ring);
    weir_ns latest = ring_of(ask->store, ring)->latest, now = ask->now > latest ? ask->now : latest;
    if (ask->verb == ASK_CHARGE) {
        uint64_t done = log_record(ask->shape, &log, now, ask->cost);
        ask->settled = (struct settled){ 0, done, ask->cost - done };
        *ask->out = (struct store_answer){ .outcome = WEIR_ALLOW, .at = now };
    } else {
        bool is_look = is_peek(ask) || ask->cost == 0;
        struct step step = log_decide(ask->shape, &log, now, ask->cost, is_look, &ask->out->report);
        ask->out->outcome = step.outcome;
        ask->out->at = step.at;
        if (is_look)
            return;
    }
    keep(ask->store, ring, &log);
}

/* Look at the log as if its ring had room for `spare` stamps more: answers what is asked, and says whether that writes. */
static bool would_write(struct ask *ask, uint32_t ring, uint32_t spare)
{
    struct log_view log = view_of(ask->store, ring);
    weir_ns latest = ring_of(ask->store, ring)->latest, now = ask->now > latest ? ask->now : latest;
    if (ask->verb == ASK_CHARGE)
        return ask->cost > 0;
    log.spare = spare;
    struct step step = log_decide(ask->shape, &log, now, ask->cost, true, &ask->out->report);
    ask->out->outcome = step.outcome;
    ask->out->at = step.at;
    return !is_peek(ask) && step.word != 0;
}

/* Under the ring's lock: the cell is another shape's, or the ring is of another size. A refusal moves nothing. */
static enum turn charge_moving(struct ask *ask, struct cell *cell, struct cell seen)
{
    struct store *store = ask->store;
    uint32_t ring = (uint32_t)seen.state, to = RING_NONE;
    uint32_t size = size_of(ring_of(store, ring)->order), wanted = size_of(log_order(ask->shape));
    bool wants = wants_ring(store, ask->shape, ring);
    bool may_grow = wants && wanted > size && arena_may_hold(&store->arena, log_order(ask->shape));
    uint32_t spare = may_grow ? wanted - size : 0;

    bool writes = would_write(ask, ring, spare);
    if (writes && wants)
        to = claim_locked(store, ask->shape);
    if (writes && to == RING_NONE && spare > 0) {
        spare = 0;
        writes = would_write(ask, ring, 0);
    }
    if (writes && (to != RING_NONE || cell_shape_number(seen) != ask->shape->number))
        ring = move(store, ask->key.word | (seen.tag & CELL_QUEUED), cell, seen, to);
    if (ring == RING_NONE)
        return TURN_AGAIN;
    if (writes)
        decide(ask, ring);
    word_unlock(&ring_of(store, ring)->lock);
    bool is_too_small = ask->cost > (uint64_t)size + spare && ask->cost <= ask->shape->capacity;
    if (is_too_small && ask->verb != ASK_CHARGE)
        full_answer(ask, WEIR_REASON_FULL);
    return TURN_DONE;
}

enum turn log_charge(struct ask *ask, struct cell *cell, struct cell seen)
{
    struct store *store = ask->store;
    uint32_t ring = (uint32_t)seen.state;
    if (!word_lock(&ring_of(store, ring)->lock, LOCK_SPINS)) {
        full_answer(ask, WEIR_REASON_CONTENDED);
        return TURN_DONE;
    }
    if (!still_owns(store, seen)) {
        word_unlock(&ring_of(store, ring)->lock);
        return TURN_AGAIN;
    }
    if (__builtin_expect(is_at_home(store, ask->shape, seen), 1)) {
        decide(ask, ring);
        word_unlock(&ring_of(store, ring)->lock);
        return TURN_DONE;
    }
    return charge_moving(ask, cell, seen);
}

/* Whether a key without a log of its own has nothing left yet; then nothing can be charged to it either. */
static bool starts_empty(struct ask *ask, weir_ns now, struct step *step, struct report *report)
{
    ask->settled = (struct settled){ .dropped = ask->cost };
    return log_starts_empty(ask->shape, now, ask->cost, step, report);
}

bool log_charge_ring(struct ask *ask, uint32_t ring)
{
    struct step step;
    if (starts_empty(ask, ask->now, &step, &ask->out->report)) {
        ask->out->outcome = step.outcome;
        ask->out->at = step.at;
        return true;
    }
    uint16_t *lock = &ring_of(ask->store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return false;
    decide(ask, ring);
    word_unlock(lock);
    return true;
}

/*
 * A ring that nobody else knows yet, for a key that is waited for: dated, and with the stamps of what was lost where the key
 * has nothing left before that is over.
 */
static struct step begin_queue(struct ask *ask, weir_ns now)
{
    const struct shape *shape = ask->shape;
    struct ring *ring = ring_of(ask->store, ask->ring);
    ring->owner = (uint16_t)ask->key.tag;
    ring->latest = now;
    ring->head = ring->count = 0;
    struct log_view log = view_of(ask->store, ask->ring);
    if (shape->starts_empty && now < shape_lost_at(shape) + shape->period)
        (void)log_record(shape, &log, shape_lost_at(shape), shape->capacity);
    keep(ask->store, ask->ring, &log);
    return (struct step){ WEIR_ALLOW, log_state(ask->store, ask->ring), now };
}

/* A key that starts empty keeps what it lost by having no log, so it gets none before that is over. */
struct step log_begin(struct ask *ask, weir_ns now, struct report *report)
{
    struct step step;
    if (ask->verb == ASK_QUEUE)
        return begin_queue(ask, now);
    if (starts_empty(ask, now, &step, report))
        return step;
    if (is_peek(ask)) {
        struct log_view none = { .stamps = NULL };
        return log_decide(ask->shape, &none, now, ask->cost, true, report);
    }
    /* Nobody else knows the ring yet: it needs no lock. A second try for the same key starts it over. */
    struct ring *ring = ring_of(ask->store, ask->ring);
    ring->owner = (uint16_t)ask->key.tag;
    ring->latest = ring->head = ring->count = 0;
    struct log_view log = view_of(ask->store, ask->ring);
    if (ask->verb == ASK_CHARGE) {
        uint64_t done = log_record(ask->shape, &log, now, ask->cost);
        ask->settled = (struct settled){ 0, done, ask->cost - done };
        step = (struct step){ done > 0 ? WEIR_ALLOW : WEIR_DENY, 0, now };
    } else {
        step = log_decide(ask->shape, &log, now, ask->cost, false, report);
    }
    keep(ask->store, ask->ring, &log);
    step.word = log_state(ask->store, ask->ring);
    return step;
}

bool log_foresee_cell(struct store *store, const struct shape *shape, struct cell seen, weir_ns now,
                      uint64_t ahead, uint64_t cost, weir_ns *out)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return false;
    bool owns = still_owns(store, seen);
    if (owns) {
        struct log_view log = view_of(store, ring);
        uint32_t size = size_of(ring_of(store, ring)->order), wanted = size_of(log_order(shape));
        log.spare = wanted > size ? wanted - size : 0; /* it moves to a larger ring as it is charged */
        *out = log_foresee(shape, &log, now, ahead, cost);
    }
    word_unlock(lock);
    return owns;
}

/* ---- The end of a log ----------------------------------------------------------------------------------------- */

bool log_cell_is_dead(struct store *store, const struct shape *shape, struct cell seen, weir_ns now)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, 1))
        return false; /* in use, so not dead */
    bool is_dead = false;
    if (still_owns(store, seen)) {
        struct log_view log = view_of(store, ring);
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
        struct log_view log = view_of(store, ring);
        reset_at = log.count == 0 ? 0 : log.stamps[(log.head + log.count - 1) & log.mask] + shape->period;
    }
    word_unlock(lock);
    return reset_at;
}

bool log_retire(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen,
                struct cell next, weir_ns now, bool only_dead, enum log_wait wait)
{
    uint32_t number = (uint32_t)seen.state;
    struct ring *ring = ring_of(store, number);
    if (!word_lock(&ring->lock, wait))
        return false;
    bool retires = still_owns(store, seen);
    if (retires && only_dead) {
        struct log_view log = view_of(store, number);
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

/* ---- Giving back ------------------------------------------------------------------------------------------------ */

/*
 * Under the ring's lock, before stamps are taken out: stamps decide at the newest one, and drop what has left its period.
 * With that one taken out an older stamp could be admitted beside those dropped, so the ring remembers how late it has
 * been.
 */
static void remember_latest(struct store *store, uint32_t ring, const struct log_view *log)
{
    weir_ns newest = log->count == 0 ? 0 : log->stamps[(log->head + log->count - 1) & log->mask];
    if (newest > ring_of(store, ring)->latest)
        ring_of(store, ring)->latest = newest;
}

static void give_back(struct store *store, uint32_t ring, const struct store_answer *taken, uint64_t cost)
{
    struct log_view log = view_of(store, ring);
    remember_latest(store, ring, &log);
    log_undo(&log, taken->at, cost);
    keep(store, ring, &log);
}

bool log_give_back(struct store *store, struct cell seen, const struct store_answer *taken, uint64_t cost)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return true; /* held all the time: what was taken stays taken, which is sound */
    bool owns = still_owns(store, seen);
    if (owns)
        give_back(store, ring, taken, cost);
    word_unlock(lock);
    return owns;
}

void log_give_back_ring(struct store *store, uint32_t ring, const struct store_answer *taken, uint64_t cost)
{
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return;
    give_back(store, ring, taken, cost);
    word_unlock(lock);
}

bool log_refund_cell(struct store *store, const struct shape *shape, struct cell seen, weir_ns charged_at,
                     weir_ns now, uint64_t amount, struct settled *out)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return true; /* as above */
    bool owns = still_owns(store, seen);
    if (owns) {
        struct log_view log = view_of(store, ring);
        remember_latest(store, ring, &log);
        out->done = log_refund(shape, &log, charged_at, now, amount);
        keep(store, ring, &log);
    }
    word_unlock(lock);
    return owns;
}

bool log_clear(struct store *store, struct cell seen)
{
    uint32_t ring = (uint32_t)seen.state;
    uint16_t *lock = &ring_of(store, ring)->lock;
    if (!word_lock(lock, LOCK_SPINS))
        return false;
    bool owns = still_owns(store, seen);
    if (owns)
        ring_of(store, ring)->latest = ring_of(store, ring)->count = 0;
    word_unlock(lock);
    return owns;
}

void log_succeed_overflow(struct store *store, const struct shape *old, const struct shape *next)
{
    uint32_t from = slot_of(store, old)->ring, to = slot_of(store, next)->ring;
    if (from == RING_NONE || to == RING_NONE || !word_lock(&ring_of(store, from)->lock, LOCK_SPINS))
        return;
    struct log_view source = view_of(store, from), target = view_of(store, to);
    uint32_t room = target.mask + 1, first = source.count > room ? source.count - room : 0;
    for (uint32_t i = first; i < source.count; i++)
        target.stamps[(target.head + target.count++) & target.mask] =
            source.stamps[(source.head + i) & source.mask];
    ring_of(store, to)->latest = ring_of(store, from)->latest;
    word_unlock(&ring_of(store, from)->lock);
    keep(store, to, &target);
}
