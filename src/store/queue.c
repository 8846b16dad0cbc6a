// SPDX-License-Identifier: Apache-2.0
/*
 * queue.c - keys that are waited for: a bit in the cell's tag word says so to everybody.
 *
 * Idea: whoever decides without a lock must not overtake those who wait, and must not look anywhere else to learn of them. So
 * the bit stands in the word that identifies the cell: an exchange that was computed before it was set fails, and the search
 * of the hot path does not find the cell, which costs those who meet no queue nothing. Who waits, and for how long, is known
 * only to the room above.
 *
 * A cell that is made for a waiter is dated: the key was absent, so it was whole at the floor or later, but an older stamp must
 * not take that for a key that was never used.
 *
 * Words:    the bit of a cell's tag word, by the room alone, which holds its lock meanwhile. It survives every other exchange.
 * Ordering: the exchange is a full barrier. Of two threads of which one sets the bit and then looks, and the other gives
 *           something back and then looks for a queue, one sees what the other did (room.c).
 * Progress: lock-free. A log or a record is changed under its lock, in a new generation, so that whoever has read the cell
 *           and waits for that lock finds its content gone; the lock's holder is running, so it is waited for.
 * Reuse:    a queued cell is not forgotten (place.c), but when its limit is removed.
 */
#include <sched.h>

#include "limit/log.h"
#include "store/table.h"

static uint64_t tag_of(const struct shape *shape, struct cell seen, bool is_queued)
{
    uint64_t tag = (uint64_t)shape->number << CELL_TAG_BITS | (seen.tag & CELL_TAG_MASK);
    return is_queued ? tag | CELL_QUEUED : tag;
}

/* Say of the cell, as it was seen, that the key is waited for or not, and that it is of the shape. False: look again. */
static bool retag(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen,
                  bool is_queued)
{
    uint64_t tag = tag_of(shape, seen, is_queued);
    if (!has_record(shape)) {
        const struct shape *old = shape_of_cell(store, seen);
        uint64_t word = old == shape ? seen.state : shape_convert(old, shape, seen.state);
        return cell_exchange(cell, seen, (struct cell){ tag, word });
    }
    bool is_done =
        is_log(shape) ? log_retag(store, shape, cell, seen, tag) : permit_retag(store, cell, seen, tag);
    if (!is_done)
        (void)sched_yield();
    return is_done;
}

enum turn queue_found(struct ask *ask, struct cell *cell, struct cell seen)
{
    if ((seen.tag & CELL_QUEUED) == 0 && !retag(ask->store, ask->shape, cell, seen, true))
        return TURN_AGAIN;
    *ask->out = (struct store_answer){ .outcome = WEIR_ALLOW, .at = ask->now };
    return TURN_DONE;
}

enum store_queued store_queue(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now)
{
    struct store_answer answer = { .outcome = WEIR_REFUSED };
    struct ask ask = ask_of(store, shape, hash, now, 0, &answer);
    ask.verb = ASK_QUEUE;
    if (now <= WEIR_HORIZON)
        ask_slowly(&ask);
    return ask.is_old ? STORE_QUEUE_OLD : answer.outcome == WEIR_ALLOW ? STORE_QUEUED : STORE_QUEUE_FULL;
}

void store_unqueue(struct store *store, const struct shape *shape, uint64_t hash)
{
    struct key key = key_of(shape, hash);
    for (;;) {
        struct look look;
        look_at(store, &key, &look);
        if (look.final == LOOK_NONE)
            return;
        struct cell seen = look.seen[look.final];
        if ((seen.tag & CELL_QUEUED) == 0 || kin_of(store, shape, seen) == KIN_STRANGER)
            return;
        if (retag(store, shape_of_cell(store, seen), look_cell(&look, look.final), seen, false))
            return;
    }
}

/* ---- Looking ahead ---------------------------------------------------------------------------------------------- */

/* The key has no cell: it is whole at the floor, or lost what it had. */
static weir_ns foresee_absent(struct store *store, const struct shape *shape, weir_ns now, uint64_t ahead,
                              uint64_t cost)
{
    static const struct log_view none;
    weir_ns floor = floor_read(store), at = now > floor ? now : floor;
    if (is_permits(shape))
        return permit_foresee_absent(shape, at, ahead, cost);
    if (!is_log(shape))
        return shape_foresee(shape, shape_absent(shape), at, ahead, cost);
    weir_ns whole_at = shape->starts_empty ? shape_lost_at(shape) + shape->period : 0;
    return log_foresee(shape, &none, at > whole_at ? at : whole_at, ahead, cost);
}

/* False: the cell has changed since it was seen, or its record was held all the time. */
static bool foresee_found(struct store *store, const struct shape *shape, struct cell seen, weir_ns now,
                          uint64_t ahead, uint64_t cost, weir_ns *out)
{
    if (is_log(shape))
        return log_foresee_cell(store, shape, seen, now, ahead, cost, out);
    if (is_permits(shape))
        return permit_foresee(store, shape, seen, now, ahead, cost, out);
    const struct shape *old = shape_of_cell(store, seen);
    uint64_t word = old == shape ? seen.state : shape_convert(old, shape, seen.state);
    *out = shape_foresee(shape, word, now, ahead, cost);
    return true;
}

bool store_foresee(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t ahead,
                   uint64_t cost, weir_ns *out)
{
    struct key key = key_of(shape, hash);
    weir_ns at = now > shape->since ? now : shape->since;
    uint64_t wanted = cost == 0 ? 1 : cost;
    *out = WEIR_NO_TIME;
    if (at > WEIR_HORIZON || wanted > shape->capacity)
        return true;
    for (;;) {
        struct look look;
        look_at(store, &key, &look);
        if (look.final == LOOK_NONE) {
            *out = foresee_absent(store, shape, at, ahead, wanted);
            return true;
        }
        struct cell seen = look.seen[look.final];
        enum kin kin = kin_of(store, shape, seen);
        if (kin == KIN_LATER || kin == KIN_STRANGER)
            return kin != KIN_LATER;
        if (foresee_found(store, shape, seen, at, ahead, wanted, out))
            return true;
        (void)sched_yield();
    }
}
