// SPDX-License-Identifier: Apache-2.0
/*
 * settle.c - what is done to a key without deciding: charging, giving back, forgetting.
 *
 * A charge goes where a decision would have gone, to the key's cell, a new one or the overflow cell. The others only
 * touch what is there: a key without a cell is whole.
 *
 * Words, ordering, progress, reuse: as table.c.
 */
#include "store/table.h"

bool store_charge(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t amount,
                  struct settled *out)
{
    struct store_answer answer;
    struct ask ask = ask_of(store, shape, hash, now, amount, &answer);
    *out = (struct settled){ 0 };
    if (is_permits(shape))
        return true; /* a permit has a holder; it is not used up */
    ask.verb = ASK_CHARGE;
    if (amount > 0 && now <= WEIR_HORIZON)
        ask_slowly(&ask);
    *out = ask.settled;
    return !ask.is_old;
}

/* The key's FINAL cell of its lineage and its content; NULL: none. *kin says which shape it is of, or that it is not. */
static struct cell *find_kin(struct store *store, const struct shape *shape, uint64_t hash, struct cell *seen,
                             enum kin *kin)
{
    struct key key = key_of(shape, hash);
    struct look look;
    look_at(store, &key, &look);
    if (look.final == LOOK_NONE)
        return NULL;
    *seen = look.seen[look.final];
    *kin = kin_of(store, shape, *seen);
    return *kin == KIN_STRANGER ? NULL : look_cell(&look, look.final);
}

bool store_refund(struct store *store, const struct shape *shape, uint64_t hash, weir_ns charged_at,
                  weir_ns now, uint64_t amount, struct settled *out)
{
    struct cell seen, *cell;
    enum kin kin;
    weir_ns at = now > shape->since ? now : shape->since;
    *out = (struct settled){ 0 };
    if (amount == 0 || now > WEIR_HORIZON || is_permits(shape))
        return true;
    while ((cell = find_kin(store, shape, hash, &seen, &kin)) != NULL) {
        if (kin == KIN_LATER)
            return false;
        if (is_log(shape)) {
            if (log_refund_cell(store, shape, seen, charged_at, at, amount, out))
                return true;
            continue;
        }
        uint64_t word =
            kin == KIN_SAME ? seen.state : shape_convert(shape_of_cell(store, seen), shape, seen.state);
        *out = shape_refund(shape, word, charged_at, at, amount);
        struct cell next = { (uint64_t)shape->number << CELL_TAG_BITS | (seen.tag & ~CELL_SHAPE_MASK),
                             out->word };
        if (out->word == word || cell_exchange(cell, seen, next))
            return true;
    }
    return true;
}

/* A key that is waited for keeps its cell, and with it the bit. */
static bool reset_queued(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen)
{
    if (is_log(shape))
        return log_clear(store, seen);
    if (is_permits(shape))
        return permit_clear(store, seen);
    uint64_t tag = (uint64_t)shape->number << CELL_TAG_BITS | (seen.tag & ~CELL_SHAPE_MASK);
    return cell_exchange(cell, seen, (struct cell){ tag, shape_absent(shape) });
}

static bool reset_cell(struct store *store, const struct shape *shape, struct cell *cell, struct cell seen)
{
    static const struct cell empty = { 0, 0 };
    if ((seen.tag & CELL_QUEUED) != 0)
        return reset_queued(store, shape, cell, seen);
    return is_permits(shape) ? permit_retire(store, cell, seen, empty, 0, false, LOG_WAIT)
           : is_log(shape)   ? log_retire(store, shape, cell, seen, empty, 0, false, LOG_WAIT)
                             : cell_exchange(cell, seen, empty);
}

/* Nothing has to be told to the floor: a forgotten key is whole because somebody said so. */
bool store_reset(struct store *store, const struct shape *shape, uint64_t hash)
{
    struct cell seen, *cell;
    enum kin kin;
    for (unsigned attempts = 0; (cell = find_kin(store, shape, hash, &seen, &kin)) != NULL; attempts++) {
        if (kin == KIN_LATER)
            return false;
        if (reset_cell(store, shape, cell, seen) || (has_record(shape) && attempts == PLACE_ATTEMPTS))
            break;
    }
    return true;
}
