// SPDX-License-Identifier: Apache-2.0
/*
 * full.c - what a new key is answered when it gets no cell.
 *
 * The limit's when-full says so, and the answer says which policy spoke and why: FULL (sixteen live candidates,
 * no ring, or the bound on new keys) or CONTENDED (64 loops lost, or a ring held by somebody else). Only
 * `overflow` decides: all such keys of a shape share one more cell with its rate and burst, so together they
 * stay within the bound of one key (P26).
 *
 * Words:    slot.word, by 8-byte exchange: it belongs to one shape for ever, so it needs no tag.
 *           slot.overflows.
 * Ordering: relaxed. The word is its whole state and publishes nothing.
 * Progress: lock-free; a lost exchange means that another charge was recorded. A log's overflow ring: as log.c; the record
 *           that overflowing keys of a concurrency limit share: as permit.c.
 * Reuse:    none.
 */
#include "store/table.h"

void answer_undecided(struct ask *ask, enum weir_outcome outcome, enum weir_policy policy,
                      enum weir_reason reason)
{
    *ask->out = (struct store_answer){
        .outcome = outcome,
        .policy = policy,
        .reason = reason,
        .at = ask->now,
        .report = { 0, outcome == WEIR_UNMETERED ? ask->now : WEIR_NO_TIME, WEIR_NO_TIME },
    };
    ask->settled = (struct settled){ .dropped = ask->cost };
    if (reason == WEIR_REASON_CONTENDED && !is_peek(ask))
        count_up(&ask->store->contended);
}

static void decide_overflow(struct ask *ask, struct slot *slot)
{
    uint64_t seen = __atomic_load_n(&slot->word, __ATOMIC_RELAXED);
    struct step step;
    do {
        CELL_STEP();
        step = ask_apply(ask, seen, ask->now);
    } while (step.word != seen
             && !__atomic_compare_exchange_n(&slot->word, &seen, step.word, true, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED));
    ask->out->outcome = step.outcome;
    ask->out->at = step.at;
    if (ask->verb != ASK_CHARGE)
        ask->out->report = shape_report(ask->shape, &step, ask->cost);
}

static void answer_overflow(struct ask *ask, enum weir_reason reason)
{
    struct slot *slot = slot_of(ask->store, ask->shape);
    *ask->out = (struct store_answer){ .outcome = WEIR_REFUSED };
    if (!has_record(ask->shape)) {
        decide_overflow(ask, slot);
    } else if (is_log(ask->shape) ? !log_charge_ring(ask, slot->ring)
                                  : !permit_charge_shared(ask, slot->ring)) {
        answer_undecided(ask, WEIR_REFUSED, WEIR_POLICY_CLOSED, WEIR_REASON_CONTENDED);
        return;
    }
    ask->out->policy = WEIR_POLICY_OVERFLOW;
    ask->out->reason = reason;
    if (is_peek(ask))
        return;
    count_up(&slot->overflows);
    if (reason == WEIR_REASON_CONTENDED)
        count_up(&ask->store->contended);
}

void full_answer(struct ask *ask, enum weir_reason reason)
{
    if (ask->verb == ASK_QUEUE) { /* a cell that keys share has no queue */
        answer_undecided(ask, WEIR_REFUSED, WEIR_POLICY_CLOSED, reason);
        return;
    }
    switch (ask->shape->when_full) {
    case WEIR_FULL_OVERFLOW:
        answer_overflow(ask, reason);
        return;
    case WEIR_FULL_OPEN:
        answer_undecided(ask, WEIR_UNMETERED, WEIR_POLICY_OPEN, reason);
        return;
    default: /* closed; evict-least, which found nobody to evict */
        answer_undecided(ask, WEIR_REFUSED, WEIR_POLICY_CLOSED, reason);
    }
}

void full_undo(struct store *store, const struct shape *shape, const struct store_answer *taken, weir_ns now,
               uint64_t cost)
{
    struct slot *slot = slot_of(store, shape);
    if (is_log(shape)) {
        log_give_back_ring(store, slot->ring, taken, cost);
        return;
    }
    uint64_t seen = __atomic_load_n(&slot->word, __ATOMIC_RELAXED), next;
    do {
        CELL_STEP();
        next = shape_undo(shape, seen, taken->at, now, cost);
    } while (
        next != seen
        && !__atomic_compare_exchange_n(&slot->word, &seen, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

uint64_t store_overflows(const struct store *store, const struct shape *shape)
{
    return __atomic_load_n(&slot_of(store, shape)->overflows, __ATOMIC_RELAXED);
}

/*
 * Only the word that is in force when the new shape is made counts: what is still charged to the old one is charged under
 * the old set, as P14 counts it.
 * order: relaxed; nobody charges the new word yet.
 */
void store_succeed_overflow(struct store *store, const struct shape *old, const struct shape *next)
{
    uint64_t word = __atomic_load_n(&slot_of(store, old)->word, __ATOMIC_RELAXED);
    if (is_permits(next))
        permit_succeed_shared(store, old, next);
    else if (is_log(next))
        log_succeed_overflow(store, old, next);
    else
        __atomic_store_n(&slot_of(store, next)->word, shape_convert(old, next, word), __ATOMIC_RELAXED);
}
