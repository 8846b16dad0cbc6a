// SPDX-License-Identifier: Apache-2.0
/*
 * table.c - deciding: find the key's cell, compute what it becomes, exchange it.
 *
 * Idea: a key has sixteen candidate cells and at most one of them is FINAL for it. Where there is one, a decision
 * is a pure function of its content and takes effect by one exchange (or, refused, at the read). Where there is none
 * the key is inserted in two phases, because two threads may insert the same key at once into different cells:
 *
 *     place    a TENT, unique by its nonce, in a cell of place.c's choice
 *     verify   read all candidates again after seeing that TENT: no FINAL of the key, and no other TENT (kill those)
 *     promote  exchange exactly that TENT for FINAL, with the first charge already in it
 *
 * P21, at most one FINAL cell per key. Suppose two, placed as x before y. Whoever promoted y verified after seeing y's
 * TENT, hence after x was placed, and did not read this key in x's cell: so x's TENT had been killed, and its
 * promotion, which names its nonce, fails for ever. The candidates never move, and nothing else is assumed: neither
 * that a look at sixteen cells is one instant, nor which free cell is chosen. proof/insertion.pml checks it.
 *
 * A key's cell may have been written under an earlier shape of its limit. Whoever charges it converts it
 * in the same exchange; whoever meets a later one than its own answers nothing: its caller's set is old.
 *
 * Words:    cells (cell.h); nonce; new_keys; counters.
 * Ordering: exchanges are full barriers and looks are acquires, so a look that starts after a TENT was seen sees all
 *           that happened before it was placed. The rest is one word of state.
 * Progress: lock-free. On a FINAL cell each lost exchange is another operation's success. Placing is given up after
 *           PLACE_ATTEMPTS loops. A thread that stops leaves EMPTY, TENT or FINAL cells, each of which everybody can
 *           handle: anyone promotes or kills anyone's TENT (P23).
 * Reuse:    place.c.
 */
#include "store/hot.h"

/* ---- A key that has its cell ---------------------------------------------------------------------------------- */

struct step ask_apply(struct ask *ask, uint64_t word, weir_ns now)
{
    switch (ask->verb) {
    case ASK_PEEK:
        return shape_look(ask->shape, word, now, ask->cost);
    case ASK_CHARGE:
        ask->settled = shape_charge(ask->shape, word, now, ask->cost);
        return (struct step){ ask->settled.word != word ? WEIR_ALLOW : WEIR_DENY, ask->settled.word, now };
    case ASK_HOLD:
        return memory_hold(ask, word, now);
    case ASK_QUEUE:
        return (struct step){ WEIR_ALLOW, shape_dated(ask->shape, word, now), now };
    default:
        return shape_decide(ask->shape, word, now, ask->cost);
    }
}

static struct report report_of(const struct ask *ask, const struct step *step)
{
    bool has_numbers = ask->verb == ASK_TAKE || ask->verb == ASK_PEEK;
    return has_numbers ? shape_report(ask->shape, step, ask->cost) : (struct report){ 0 };
}

/*
 * Charge the cell: the decision that we made is the one recorded, or the cell has changed. A cell of an earlier shape
 * is converted by the same exchange; where nothing is written it stays what it was, and the next one converts it.
 * order:    full barrier, though the cell is the whole state: see cell_exchange().
 * progress: lock-free. AGAIN means that another operation on this cell took effect.
 * reuse:    tag and state change together, so a cell given to another key makes our exchange fail.
 */
static enum turn charge(struct ask *ask, struct cell *cell, struct cell seen)
{
    if (has_record(ask->shape)) {
        *ask->out = (struct store_answer){ .outcome = WEIR_REFUSED };
        return is_log(ask->shape) ? log_charge(ask, cell, seen) : permit_charge(ask, cell, seen);
    }
    uint64_t word = seen.state;
    if (__builtin_expect(cell_shape_number(seen) != ask->shape->number, 0))
        word = shape_convert(shape_of_cell(ask->store, seen), ask->shape, word);
    struct step step = ask_apply(ask, word, ask->now);
    struct cell next = { ask->key.word | (seen.tag & CELL_QUEUED), step.word };
    if (step.word != word && !cell_exchange(cell, seen, next))
        return TURN_AGAIN;
    *ask->out =
        (struct store_answer){ .outcome = step.outcome, .at = step.at, .report = report_of(ask, &step) };
    return TURN_DONE;
}

/*
 * A cell of our 48 tag bits that another limit's key wrote: the two meet about once in 2^65 / N^2 tables. Its word
 * means nothing under our shape and our key may not have a second cell, so we wait for it to die.
 */
static enum turn meet_stranger(struct ask *ask, struct cell *cell, struct cell seen)
{
    if (!is_peek(ask) && place_is_dead(ask->store, seen, ask->now)) {
        (void)place_take(ask->store, cell, seen, (struct cell){ 0, 0 }, ask->now);
        return TURN_AGAIN;
    }
    full_answer(ask, WEIR_REASON_FULL);
    return TURN_DONE;
}

/*
 * Others wait for this key, so it is theirs: whoever is not their first is denied, whatever the cell has left, and nothing is
 * written. The numbers are the cell's; the room knows when the queue will have gone.
 */
static enum turn meet_queue(struct ask *ask, struct cell *cell, struct cell seen)
{
    enum verb verb = ask->verb;
    ask->verb = ASK_PEEK;
    enum turn turn = charge(ask, cell, seen);
    ask->verb = verb;
    if (turn == TURN_DONE && (ask->out->outcome == WEIR_ALLOW || ask->out->outcome == WEIR_DENY)) {
        ask->out->outcome = WEIR_DENY;
        ask->out->is_queued = true;
    }
    return turn;
}

static enum turn charge_found(struct ask *ask, const struct look *look)
{
    struct cell seen = look->seen[look->final];
    struct cell *cell = look_cell(look, look->final);
    if (__builtin_expect(kin_of(ask->store, ask->shape, seen) == KIN_STRANGER, 0))
        return meet_stranger(ask, cell, seen);
    if (ask->verb == ASK_QUEUE)
        return queue_found(ask, cell, seen);
    bool decides = ask->verb == ASK_TAKE || ask->verb == ASK_PEEK;
    if (decides && (seen.tag & CELL_QUEUED) != 0 && (ask->stance & STORE_TURN) == 0)
        return meet_queue(ask, cell, seen);
    return charge(ask, cell, seen);
}

/*
 * Whether the key is counted under a later generation: the caller decides again, under the set in force. An insertion by
 * the new set says so too, though whoever promotes it would write a number of its own.
 */
static bool is_old(struct ask *ask, const struct look *look)
{
    unsigned at = look->final != LOOK_NONE ? look->final : look->tent;
    ask->is_old = at != LOOK_NONE && kin_of(ask->store, ask->shape, look->seen[at]) == KIN_LATER;
    return ask->is_old;
}

/* ---- A key that has none: two phases --------------------------------------------------------------------------- */

/* What an absent key is answered at `now`, and the word that its cell then starts with. A refusal starts none, also
   where refusals are charged. */
static struct step begin(struct ask *ask, weir_ns now, struct report *report)
{
    if (has_record(ask->shape))
        return is_log(ask->shape) ? log_begin(ask, now, report) : permit_begin(ask, now, report);
    struct step step = ask_apply(ask, shape_absent(ask->shape), now);
    *report = report_of(ask, &step);
    return step;
}

/*
 * No ring is left, but dead logs may hold some, in whichever group; and evict-least takes one from its candidates. Permits
 * likewise, but of those that are held none is taken.
 */
static bool rescue_ring(struct ask *ask, const struct look *look)
{
    struct store *store = ask->store;
    store_sweep(store, ask->now, RESCUE_GROUPS);
    if (is_permits(ask->shape))
        return true;
    if (ask->shape->when_full != WEIR_FULL_EVICT_LEAST || arena_may_hold(&store->arena, log_order(ask->shape)))
        return true;
    unsigned victim = place_pick_victim(store, look, ask->now, true);
    return victim != LOOK_NONE
           && place_evict(store, look_cell(look, victim), look->seen[victim], (struct cell){ 0, 0 });
}

static enum ring_result claim_record(struct ask *ask)
{
    return is_log(ask->shape) ? log_claim(ask->store, ask->shape, &ask->ring) : permit_claim(ask);
}

/* A log's ring, or a permit and its record, before anything is placed for it. AGAIN: go on, there is one or none is needed. */
static enum turn claim_ring(struct ask *ask, const struct look *look)
{
    if (!has_record(ask->shape) || ask->ring != RING_NONE)
        return TURN_AGAIN;
    enum ring_result result = claim_record(ask);
    if (result == RING_FULL && rescue_ring(ask, look))
        result = claim_record(ask);
    if (result == RING_OK)
        return TURN_AGAIN;
    full_answer(ask, result == RING_FULL ? WEIR_REASON_FULL : WEIR_REASON_CONTENDED);
    return TURN_DONE;
}

/*
 * Read all candidates again, after the TENT at `mine` was seen: true when no other cell is this key's. Other TENTs of
 * it are killed, and whoever placed them only looks again.
 * order: each read is an acquire that follows the acquire of our TENT (P21, at the top of this file).
 */
static bool verify(struct ask *ask, const struct look *look, unsigned mine)
{
    struct store *store = ask->store;
    for (unsigned i = 0; i < LOOK_CELLS; i++) {
        struct cell *cell = look_cell(look, i);
        if (i == mine)
            continue;
        struct cell seen = cell_load(cell, store->has_wide_load);
        if (!cell_has_tag(seen, ask->key.tag))
            continue;
        if (!cell_is_tent(seen) || !cell_exchange(cell, seen, (struct cell){ 0, 0 }))
            return false;
    }
    return true;
}

/*
 * Turn the key's TENT, whoever placed it, into FINAL with our charge in it.
 * order:    floor_ns is read after the verifying look: between that and the exchange no FINAL of this key can come
 *           and go, so every forgetting of it has raised the floor that we see.
 * progress: lock-free; a lost exchange means that the TENT was promoted, killed, or overwritten as abandoned.
 */
static enum turn promote(struct ask *ask, const struct look *look)
{
    unsigned mine = look->tent;
    if (claim_ring(ask, look) == TURN_DONE)
        return TURN_DONE;
    if (STORE_VERIFIES && !verify(ask, look, mine))
        return TURN_AGAIN;

    weir_ns floor = floor_read(ask->store);
    struct report report;
    struct step step = begin(ask, ask->now > floor ? ask->now : floor, &report);
    uint32_t permit = ask->permit;
    if (step.outcome == WEIR_ALLOW) {
        struct cell next = { ask->key.word | (ask->verb == ASK_QUEUE ? CELL_QUEUED : 0), step.word };
        if (!cell_exchange(look_cell(look, mine), look->seen[mine], next))
            return TURN_AGAIN;
        ask->ring = RING_NONE; /* the cell's now */
        ask->permit = POOL_NONE;
        count_up(&ask->store->placements);
    }
    *ask->out = (struct store_answer){
        .outcome = step.outcome, .at = step.at, .report = report, .permit = permit, .fence = ask->fence
    };
    return TURN_DONE;
}

static struct cell tent_of(struct ask *ask)
{
    uint64_t nonce = __atomic_fetch_add(&ask->store->nonce, 1, __ATOMIC_RELAXED) & UINT32_MAX;
    uint64_t ms = ask->now / WEIR_MILLISECOND & ((UINT64_C(1) << 31) - 1);
    return (struct cell){ ask->key.word, CELL_TENT | ms << 32 | nonce };
}

/* The bound on new keys, charged once per decision however often it tries. */
static bool may_place(struct ask *ask)
{
    struct store *store = ask->store;
    if (!ask->may_place && store->bounds_new_keys) {
        CELL_STEP();
        weir_verdict verdict = weir_bucket_take_shared(&store->new_keys, &store->new_keys_rate, ask->now, 1);
        ask->may_place = verdict.outcome == WEIR_ALLOW;
        return ask->may_place;
    }
    return true;
}

/* A key that starts empty may be refused although it is absent: it is, before anything is placed for it. */
static bool is_refused_absent(struct ask *ask)
{
    if (!ask->shape->starts_empty || ask->verb != ASK_TAKE)
        return false;
    weir_ns floor = floor_read(ask->store);
    struct report report;
    ask->verb = ASK_PEEK;
    struct step step = begin(ask, ask->now > floor ? ask->now : floor, &report);
    ask->verb = ASK_TAKE;
    *ask->out = (struct store_answer){ .outcome = step.outcome, .at = step.at, .report = report };
    return step.outcome != WEIR_ALLOW;
}

/* Put a TENT of the key somewhere. Whether that worked or not, the next look tells. */
static enum turn place(struct ask *ask, const struct look *look)
{
    struct store *store = ask->store;
    if (is_refused_absent(ask))
        return TURN_DONE;
    unsigned pick = place_pick(store, look, ask->now);
    bool evicts = pick == LOOK_NONE && ask->shape->when_full == WEIR_FULL_EVICT_LEAST;
    if (evicts)
        pick = place_pick_victim(store, look, ask->now, false);
    if (pick == LOOK_NONE || !may_place(ask)) {
        full_answer(ask, WEIR_REASON_FULL);
        return TURN_DONE;
    }
    if (claim_ring(ask, look) == TURN_DONE)
        return TURN_DONE;

    struct cell *cell = look_cell(look, pick);
    if (evicts)
        (void)place_evict(store, cell, look->seen[pick], tent_of(ask));
    else
        (void)place_take(store, cell, look->seen[pick], tent_of(ask), ask->now);
    return TURN_AGAIN;
}

void ask_slowly(struct ask *ask)
{
    for (unsigned attempts = 0; attempts < PLACE_ATTEMPTS;) {
        struct look look;
        enum turn turn;
        look_at(ask->store, &ask->key, &look);
        if (is_old(ask, &look))
            goto release_ring;
        if (look.final != LOOK_NONE) {
            turn = charge_found(ask, &look);
        } else {
            attempts++;
            turn = look.tent != LOOK_NONE ? promote(ask, &look) : place(ask, &look);
        }
        if (turn == TURN_DONE)
            goto release_ring;
    }
    full_answer(ask, WEIR_REASON_CONTENDED);
release_ring:
    if (is_permits(ask->shape))
        permit_unclaim(ask);
    else if (ask->ring != RING_NONE)
        arena_give(&ask->store->arena, ask->ring);
}

/* ---- Looking without touching ----------------------------------------------------------------------------------- */

/* Whether ask_slowly() would find a cell, a ring and leave for this key. */
static bool could_place(struct ask *ask, const struct look *look)
{
    struct store *store = ask->store;
    if (is_log(ask->shape) && !arena_may_hold(&store->arena, log_order(ask->shape)))
        return false;
    if (is_permits(ask->shape) && !permit_may_claim(store))
        return false;
    if (look->tent != LOOK_NONE)
        return true;
    if (place_pick(store, look, ask->now) == LOOK_NONE
        && (ask->shape->when_full != WEIR_FULL_EVICT_LEAST
            || place_pick_victim(store, look, ask->now, false) == LOOK_NONE))
        return false;
    return !store->bounds_new_keys
           || weir_bucket_peek(&store->new_keys, &store->new_keys_rate, ask->now, 1).outcome == WEIR_ALLOW;
}

static void look_only(struct ask *ask)
{
    for (;;) {
        struct look look;
        look_at(ask->store, &ask->key, &look);
        if (is_old(ask, &look))
            return;
        if (look.final != LOOK_NONE) {
            if (charge_found(ask, &look) == TURN_DONE)
                return;
            continue; /* a log's cell changed hands: somebody moved on */
        }
        weir_ns floor = floor_read(ask->store);
        struct report report;
        struct step step = begin(ask, ask->now > floor ? ask->now : floor, &report);
        if (step.outcome == WEIR_ALLOW && !could_place(ask, &look))
            full_answer(ask, WEIR_REASON_FULL);
        else
            *ask->out = (struct store_answer){ .outcome = step.outcome, .at = step.at, .report = report };
        return;
    }
}

/* ---- The calls -------------------------------------------------------------------------------------------------- */

/*
 * Costs and stamps that cannot be charged: cost 0, above the capacity, beyond the horizon. Nothing is written. Beyond
 * the horizon nothing is even looked at: no word and no calendar has a meaning there.
 */
static void answer_without_charge(struct ask *ask)
{
    bool is_never = ask->cost > ask->shape->capacity;
    if (ask->now > WEIR_HORIZON) {
        answer_undecided(ask, is_never ? WEIR_NEVER : WEIR_REFUSED,
                         is_never ? WEIR_POLICY_NONE : WEIR_POLICY_CLOSED,
                         is_never ? WEIR_REASON_NONE : WEIR_REASON_TIME);
        return;
    }
    ask->verb = ASK_PEEK;
    look_only(ask);
}

static __attribute__((noinline)) bool take_otherwise(struct store *store, const struct shape *shape,
                                                     uint64_t hash, weir_ns now, uint64_t cost, unsigned stance,
                                                     struct store_answer *out)
{
    struct ask ask = ask_of(store, shape, hash, now, cost, out);
    ask.stance = stance;
    bool only_looks = is_permits(shape) && (stance & STORE_ACQUIRE) == 0;
    if (cost == 0 || cost > shape->capacity || now > WEIR_HORIZON || only_looks)
        answer_without_charge(&ask);
    else
        ask_slowly(&ask);
    return !ask.is_old;
}

/* Most calls end in the first half. */
bool store_take(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                struct store_answer *out)
{
    return hot_take(store, shape, hash, now, cost, out)
           || take_otherwise(store, shape, hash, now, cost, STORE_TAKE, out);
}

bool store_peek(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                struct store_answer *out)
{
    struct ask ask = ask_of(store, shape, hash, now, cost, out);
    struct cell seen;
    ask.verb = ASK_PEEK;
    if (now > WEIR_HORIZON)
        answer_without_charge(&ask);
    else if (!has_record(shape) && find(store, &ask.key, &seen) != NULL)
        (void)charge(&ask, NULL, seen);
    else
        look_only(&ask);
    return !ask.is_old;
}

bool store_decide(struct store *store, const struct shape *shape, uint64_t hash, weir_ns now, uint64_t cost,
                  unsigned stance, struct store_answer *out)
{
    if ((stance & (STORE_LOOK | STORE_TURN)) == 0 && hot_take(store, shape, hash, now, cost, out))
        return true;
    if ((stance & STORE_LOOK) == 0)
        return take_otherwise(store, shape, hash, now, cost, stance, out);
    if ((stance & STORE_TURN) == 0)
        return store_peek(store, shape, hash, now, cost, out);
    struct ask ask = ask_of(store, shape, hash, now, cost, out);
    ask.stance = stance;
    answer_without_charge(&ask);
    return !ask.is_old;
}

/*
 * Give back what was taken, if the key still has its cell.
 * progress: lock-free, as charge(). A miss in a race with a reclaim gives nothing back, which is sound.
 */
/* The cell that a charge under the shape is in now: its key's, also if a change of the limit converted it since. */
static struct cell *find_charged(struct store *store, const struct shape *shape, const struct key *key,
                                 struct cell *seen)
{
    struct look look;
    struct cell *cell = find(store, key, seen);
    if (cell != NULL)
        return cell;
    look_at(store, key, &look);
    if (look.final == LOOK_NONE || kin_of(store, shape, look.seen[look.final]) == KIN_STRANGER)
        return NULL;
    *seen = look.seen[look.final];
    return look_cell(&look, look.final);
}

void store_undo(struct store *store, const struct shape *shape, uint64_t hash, const struct store_answer *taken,
                weir_ns now, uint64_t cost)
{
    struct key key = key_of(shape, hash);
    struct cell seen, *cell;
    if (taken->outcome != WEIR_ALLOW || cost == 0 || now > WEIR_HORIZON)
        return;
    if (is_permits(shape)) {
        permit_undo(store, hash, taken);
        return;
    }
    if (taken->policy == WEIR_POLICY_OVERFLOW) {
        full_undo(store, shape, taken, now, cost);
        return;
    }
    while ((cell = find_charged(store, shape, &key, &seen)) != NULL) {
        if (is_log(shape)) {
            if (log_give_back(store, seen, taken, cost))
                return;
            continue;
        }
        const struct shape *now_under = shape_of_cell(store, seen);
        uint64_t word = now_under == shape
                            ? shape_undo(shape, seen.state, taken->at, now, cost)
                            : shape_undo_converted(shape, now_under, seen.state, taken->at, now, cost);
        if (word == seen.state || cell_exchange(cell, seen, (struct cell){ seen.tag, word }))
            return;
    }
}

void store_prefetch(const struct store *store, uint64_t hash)
{
    const struct group *group = &store->groups[group_first(store, hash)];
    __builtin_prefetch(&group->cells[0], 1);
    __builtin_prefetch(&group->cells[GROUP_CELLS / 2], 1);
}
