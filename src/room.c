// SPDX-License-Identifier: Apache-2.0
/*
 * room.c - the queues of the waiting room, and what others have to do with them.
 *
 * Words, ordering, progress, reuse: room.h.
 */
#include "room.h"

#include <string.h>

#include "composite.h"

/* Chains for this many keys each, within bounds: waiting is for the few that are over their limit. */
#define KEYS_PER_CHAIN 16
#define CHAIN_BITS_MIN 6
#define CHAIN_BITS_MAX 16

int room_init(struct weir *weir, size_t keys)
{
    struct room *room = &weir->room;
    room->chain_bits = CHAIN_BITS_MIN;
    while (room->chain_bits < CHAIN_BITS_MAX && keys / KEYS_PER_CHAIN >> room->chain_bits != 0)
        room->chain_bits++;
    room->chains = set_take_memory(weir, sizeof *room->chains << room->chain_bits);
    if (room->chains == NULL)
        return WEIR_ERR_MEMORY;
    room->agenda.secret = siphash_end(weir->seed, "agenda", 6);
    room->next = WEIR_NO_TIME;
    (void)pthread_mutex_init(&room->lock, NULL); /* without attributes it only initializes memory */
    return 0;
}

void room_deinit(struct weir *weir)
{
    struct room *room = &weir->room;
    if (room->chains == NULL)
        return;
    (void)pthread_mutex_destroy(&room->lock);
    set_give_memory(weir, room->chains, sizeof *room->chains << room->chain_bits);
}

size_t room_bytes(const struct room *room)
{
    return sizeof *room->chains << room->chain_bits;
}

void room_lock(struct weir *weir)
{
    (void)pthread_mutex_lock(&weir->room.lock); /* a plain mutex fails only where it is misused */
}

void room_unlock(struct weir *weir, bool is_driver)
{
    struct room *room = &weir->room;
    const struct agenda_entry *first = agenda_first(&room->agenda);
    weir_ns next = first == NULL ? WEIR_NO_TIME : first->at;
    bool is_earlier = next < atomic_load_explicit(&room->next, memory_order_relaxed);
    atomic_store_explicit(&room->next, next, memory_order_relaxed);
    (void)pthread_mutex_unlock(&room->lock);
    if (is_earlier && !is_driver && room->wake != NULL)
        room->wake(room->wake_context);
}

/* ---- Queues -------------------------------------------------------------------------------------------------------- */

static struct stand **chain_of(const struct room *room, uint64_t hash)
{
    return &room->chains[hash >> (64 - room->chain_bits)];
}

/* Where the chain names the first of this hash, or ends. */
static struct stand **find(const struct room *room, uint64_t hash)
{
    struct stand **link = chain_of(room, hash);
    while (*link != NULL && (*link)->hash != hash)
        link = &(*link)->queue.chain;
    return link;
}

struct stand *room_first(const struct room *room, uint64_t hash)
{
    return *find(room, hash);
}

uint64_t room_cost(const struct stand *first)
{
    return first == NULL ? 0 : first->queue.cost_high > 0 ? UINT64_MAX : first->queue.cost_low;
}

static void add_cost(struct queue *queue, uint64_t cost)
{
    queue->cost_low += cost;
    queue->cost_high += queue->cost_low < cost;
    queue->count++;
}

static void take_cost(struct queue *queue, uint64_t cost)
{
    queue->cost_high -= queue->cost_low < cost;
    queue->cost_low -= cost;
    queue->count--;
}

static void append(struct room *room, struct stand *stand)
{
    struct stand **link = find(room, stand->hash), *first = *link;
    stand->next = stand->previous = NULL;
    if (first == NULL) {
        stand->queue = (struct queue){ .last = stand };
        *link = first = stand;
    } else {
        stand->previous = first->queue.last;
        stand->previous->next = stand;
        first->queue.last = stand;
        waiter_state(stand->waiter)->behind++;
    }
    add_cost(&first->queue, stand->cost);
}

/* Take the stand out of its queue. Whoever became the first by it; NULL: nobody. *is_last: the queue is no more. */
static struct stand *take_out(struct room *room, struct stand *stand, bool *is_last)
{
    struct stand **link = find(room, stand->hash), *first = *link, *next = stand->next;
    take_cost(&first->queue, stand->cost);
    stand->in_queue = false;
    *is_last = first->queue.count == 0;
    if (next != NULL)
        next->previous = stand->previous;
    else
        first->queue.last = stand->previous;
    if (stand != first) {
        stand->previous->next = next;
        return NULL;
    }
    *link = next == NULL ? stand->queue.chain : next;
    if (next != NULL)
        next->queue = stand->queue;
    return next;
}

const struct shape *room_shape(const struct weir_set *set, uint32_t lineage, uint64_t hash,
                               weir_limit_id *limit)
{
    *limit = set_find_lineage(set, lineage);
    return *limit == WEIR_NO_LIMIT ? NULL : set_shape(set, set->limits[*limit], hash);
}

/* The shape that the cell of a stand's key is found with: a key that is not counted by now may have one of before. */
static const struct shape *shape_to_find(const struct weir_set *set, const struct stand *stand)
{
    weir_limit_id limit;
    const struct shape *shape = room_shape(set, stand->lineage, stand->hash, &limit);
    return shape != NULL ? shape : set->limits[limit]->shape;
}

/*
 * Who is to be refused is, as soon as somebody comes to do it. A turn that has come by `at` has come, though the driver is late:
 * were it dated anew, it could lie beyond a deadline that it was in time for. Should it not be one any more, it is found so.
 */
static void look_again(struct weir *weir, struct weir_waiter *waiter, weir_ns at)
{
    struct waiter *state = waiter_state(waiter);
    if (state->due > at)
        state->due = state->is_refused ? at : room_due(weir, waiter, at);
    room_reschedule(weir, waiter);
}

/* `set` is one that has the stand's limit. */
static void leave_queue(struct weir *weir, const struct weir_set *set, struct stand *stand, weir_ns at)
{
    bool is_last, was_first = stand->previous == NULL;
    struct stand *next = take_out(&weir->room, stand, &is_last);
    if (!was_first)
        waiter_state(stand->waiter)->behind--;
    if (is_last)
        store_unqueue(weir->store, shape_to_find(set, stand), stand->hash);
    if (next != NULL && --waiter_state(next->waiter)->behind == 0)
        look_again(weir, next->waiter, at);
}

void room_enter(struct weir *weir, struct weir_waiter *waiter)
{
    struct room *room = &weir->room;
    struct waiter *state = waiter_state(waiter);
    state->behind = 0;
    for (size_t i = 0; i < state->joint_count; i++)
        if (waiter_stand(waiter, i)->in_queue)
            append(room, waiter_stand(waiter, i));
    state->older = room->newest;
    state->newer = NULL;
    *(room->newest == NULL ? &room->oldest : &waiter_state(room->newest)->newer) = waiter;
    room->newest = waiter;
    state->entry.ticket = ++room->next_ticket;
    state->entry.at = state->deadline;
    state->due = WEIR_NO_TIME;
    state->state = WAITER_WAITS;
    agenda_add(&room->agenda, &state->entry);
}

void room_leave(struct weir *weir, struct weir_waiter *waiter, weir_ns at)
{
    struct room *room = &weir->room;
    struct waiter *state = waiter_state(waiter);
    const struct weir_set *set = set_current(weir);
    agenda_remove(&room->agenda, &state->entry);
    state->state = 0;
    *(state->older == NULL ? &room->oldest : &waiter_state(state->older)->newer) = state->newer;
    *(state->newer == NULL ? &room->newest : &waiter_state(state->newer)->older) = state->older;
    for (size_t i = 0; i < state->joint_count; i++)
        if (waiter_stand(waiter, i)->in_queue)
            leave_queue(weir, set, waiter_stand(waiter, i), at);
    atomic_fetch_sub_explicit(&room->waiting, 1, memory_order_relaxed);
}

/* ---- Instants ------------------------------------------------------------------------------------------------------- */

/* What can never pass any more, or is not counted any more, is decided at once. */
weir_ns room_due(struct weir *weir, const struct weir_waiter *waiter, weir_ns from)
{
    const struct weir_set *set = set_current(weir);
    weir_ns since = waiter_state(waiter)->started_at, at = from > since ? from : since, due = at;
    for (size_t i = 0; i < waiter_state(waiter)->joint_count; i++) {
        const struct stand *stand = waiter_stand(waiter, i);
        weir_limit_id limit;
        const struct shape *shape =
            stand->in_queue ? room_shape(set, stand->lineage, stand->hash, &limit) : NULL;
        if (shape == NULL)
            continue;
        if (stand->cost > shape->capacity)
            return at;
        weir_ns passes_at = at;
        (void)store_foresee(weir->store, shape, stand->hash, at, 0, stand->cost,
                            &passes_at); /* the set is in force */
        due = passes_at > due ? passes_at : due;
    }
    return due;
}

void room_reschedule(struct weir *weir, struct weir_waiter *waiter)
{
    struct waiter *state = waiter_state(waiter);
    weir_ns at = state->due < state->deadline ? state->due : state->deadline;
    if (at == state->entry.at)
        return;
    bool is_earlier = at < state->entry.at;
    agenda_remove(&weir->room.agenda, &state->entry);
    state->entry.at = at;
    agenda_add(&weir->room.agenda, &state->entry);
    if (is_earlier && state->sleeper != NULL)
        (void)pthread_cond_signal(state->sleeper);
}

/* ---- Those who do not wait ------------------------------------------------------------------------------------------- */

void room_touch(struct weir *weir, uint64_t hash, weir_ns stamp)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&weir->room.waiting, memory_order_relaxed) == 0)
        return;
    room_lock(weir);
    const struct stand *first = room_first(&weir->room, hash);
    if (first != NULL && waiter_state(first->waiter)->behind == 0)
        look_again(weir, first->waiter, stamp);
    room_unlock(weir, false);
}

/* A look that costs nothing is told when one more could pass. */
static void quote_behind(struct weir *weir, const struct stand *first, const struct shape *shape, uint64_t cost,
                         weir_ns stamp, struct store_answer *out)
{
    weir_ns at = WEIR_NO_TIME;
    (void)store_foresee(weir->store, shape, first->hash, stamp, room_cost(first), cost,
                        &at); /* NO_TIME where it is old */
    out->outcome = cost == 0 ? WEIR_ALLOW : WEIR_DENY;
    out->report.retry_at =
        at > out->at ? at : out->at; /* a stale stamp may foresee what was before the answer */
    out->report.remaining = 0;
}

bool room_quote(struct weir *weir, const struct shape *shape, uint64_t hash, uint64_t cost, weir_ns stamp,
                unsigned stance, struct store_answer *out)
{
    bool is_held = (stance & STANCE_IN_ROOM) != 0;
    if (!is_held)
        room_lock(weir);
    const struct stand *first = room_first(&weir->room, hash);
    if (first != NULL)
        quote_behind(weir, first, shape, cost, stamp, out);
    if (!is_held)
        room_unlock(weir, false);
    return first != NULL;
}

/* The first in a queue knows how many there are, so what is walked are keys, not waiters. */
void weir_set_waiting(const struct weir_set *set, uint64_t *counts, size_t count)
{
    const struct room *room = &set->weir->room;
    memset(counts, 0, count * sizeof *counts);
    if (count == 0 || atomic_load_explicit(&room->waiting, memory_order_relaxed) == 0)
        return;
    room_lock(set->weir);
    for (size_t i = 0; i >> room->chain_bits == 0; i++)
        for (const struct stand *first = room->chains[i]; first != NULL; first = first->queue.chain) {
            weir_limit_id limit = set_find_lineage(set, first->lineage);
            if (limit != WEIR_NO_LIMIT && (size_t)limit < count)
                counts[limit] += first->queue.count;
        }
    room_unlock(set->weir, false);
}

/* ---- Changes --------------------------------------------------------------------------------------------------------- */

/* A stand whose limit the next set has not. One of the same name is another limit: who was promised a turn has lost it. */
static void drop(struct weir *weir, const struct weir_set *old, const struct weir_set *next,
                 struct stand *stand, weir_ns at)
{
    struct waiter *state = waiter_state(stand->waiter);
    weir_limit_id was = set_find_lineage(old, stand->lineage);
    if (!stand->is_watched && was != WEIR_NO_LIMIT && set_has_name(next, old->limits[was]->name))
        state->is_refused = true;
    if (stand->in_queue)
        leave_queue(weir, old, stand, at);
    stand->is_dropped = true;
}

void room_change_begin(struct weir *weir, const struct weir_set *old, const struct weir_set *next,
                       weir_ns stamp)
{
    for (struct weir_waiter *waiter = weir->room.oldest; waiter != NULL; waiter = waiter_state(waiter)->newer)
        for (size_t i = 0; i < waiter_state(waiter)->stand_count; i++) {
            struct stand *stand = waiter_stand(waiter, i);
            if (!stand->is_dropped && set_find_lineage(next, stand->lineage) == WEIR_NO_LIMIT)
                drop(weir, old, next, stand, stamp);
        }
}

void room_change_end(struct weir *weir, weir_ns stamp)
{
    for (struct weir_waiter *waiter = weir->room.oldest; waiter != NULL; waiter = waiter_state(waiter)->newer)
        if (waiter_state(waiter)->behind == 0 || waiter_state(waiter)->is_refused)
            look_again(weir, waiter, stamp);
}
