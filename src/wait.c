// SPDX-License-Identifier: Apache-2.0
/*
 * wait.c - the life of a waiter: refused or let in on arrival, decided at its turn, ended at its deadline, or gone.
 *
 * On arrival the request is decided as any. Only where that denies it, by limits that let their callers wait and for nothing
 * else, it takes the room's lock: it is refused where a queue is full or its turn, as foreseen, lies beyond its deadline; else
 * it stands in the queues, charged nowhere. At its turn it is decided anew, under the limits of then and at that instant, so
 * what is released conforms to the limits by the same arithmetic as everything else.
 *
 * Instants here are those of the agenda, not those at which somebody came to look: a driver that is late serves whoever's
 * turn came in time, and only after that denies whose deadline came first. Nor does its lateness add up: a turn is decided at
 * its own instant, not before, and a pace keeps its rate. What a late driver releases at once is bounded: it is as late as
 * LATE_NS at most, and whoever comes later finds that much of the past. Permits may return before they expire, so their expiry
 * refuses nobody on arrival.
 *
 * Elsewhere: deciding and watching (wait_decide.c), queues and the lock (room.c), what an ended waiter tells (wait_answer.c), a thread that blocks (wait_blocking.c).
 */
#include "wait.h"

#include <stddef.h>
#include <string.h>

/* How old a turn's own instant may be, for it to be decided at that: more than timers and schedulers are late, on a machine that
   is not overloaded, and little enough for what a limit lets through in that time to come at once. */
#define LATE_NS (10 * WEIR_MILLISECOND)

/* How long a waiter whose retry id, or whose log or record of permits, is held by somebody else stands aside before it is tried
   again. */
#define BUSY_NS WEIR_MILLISECOND

/* The key was not decided, because somebody held it: a log, a record of permits, for the length of a decision. */
static bool is_contended(const struct part *part)
{
    return part->answer.outcome == WEIR_REFUSED && part->answer.reason == WEIR_REASON_CONTENDED;
}

/* ---- Arriving -------------------------------------------------------------------------------------------------------- */

/* Permits are taken by who acquires; whoever only looks at them cannot wait for them. What costs nothing always passes. */
static bool lets_wait(const struct part *part, bool acquires)
{
    return part->shape != NULL && part->shape->wait_up_to > 0 && part->cost > 0
           && (acquires || part->shape->algorithm != WEIR_CONCURRENCY);
}

/* Whether nothing but limits that let callers wait refuses. A cell that overflowing keys share has no queue. */
static bool may_wait(const struct composite *all, bool acquires)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct store_answer *answer = &all->parts[i].answer;
        bool is_held = is_contended(&all->parts[i]) && all->parts[i].retry != RETRY_BUSY;
        bool waits = ((answer->outcome == WEIR_DENY && answer->policy == WEIR_POLICY_NONE) || is_held)
                     && lets_wait(&all->parts[i], acquires);
        if (is_refusal(answer->outcome) && !waits)
            return false;
    }
    return true;
}

static weir_ns deadline_of(const struct composite *all, bool acquires, weir_ns patience)
{
    weir_ns up_to = patience;
    for (size_t i = 0; i < all->count; i++)
        if (lets_wait(&all->parts[i], acquires) && all->parts[i].shape->wait_up_to < up_to)
            up_to = all->parts[i].shape->wait_up_to;
    return up_to > WEIR_NO_TIME - all->stamp ? WEIR_NO_TIME : all->stamp + up_to;
}

/* Foresee the turn in one queue, and answer as who cannot wait for it. True: it cannot. */
static bool is_too_late(const struct room *room, struct composite *all, struct part *part, weir_ns deadline)
{
    const struct stand *first = room_first(room, part->hash);
    weir_ns at = all->stamp;
    (void)store_foresee(all->set->weir->store, part->shape, part->hash, all->stamp, room_cost(first),
                        part->cost, &at); /* the set is in force */
    if (first != NULL || at > all->stamp) {
        part->answer.outcome = WEIR_DENY;
        part->answer.report.retry_at = at > part->answer.at ? at : part->answer.at;
    }
    if (first != NULL)
        part->answer.report.remaining = 0;
    bool is_full = first != NULL && first->queue.count >= part->shape->wait_queue;
    if (is_full) /* also where its turn would be at once */
        part->answer.outcome = WEIR_DENY;
    return is_full || (at > deadline && part->shape->algorithm != WEIR_CONCURRENCY);
}

static bool is_refused(const struct room *room, struct composite *all, bool acquires, weir_ns deadline)
{
    bool is_refused = false;
    for (size_t i = 0; i < all->count; i++)
        if (lets_wait(&all->parts[i], acquires) && is_too_late(room, all, &all->parts[i], deadline))
            is_refused = true;
    return is_refused;
}

/* Say of every key that it is waited for, where nobody does yet. False: one cannot be, and none is. */
static bool queue_all(struct weir *weir, const struct composite *all, struct weir_waiter *waiter)
{
    size_t done = 0;
    bool is_queued = true;
    for (; done < all->count && is_queued; done++) {
        const struct part *part = &all->parts[done];
        if (waiter_stand(waiter, done)->in_queue && room_first(&weir->room, part->hash) == NULL)
            is_queued = store_queue(weir->store, part->shape, part->hash, all->stamp) == STORE_QUEUED;
    }
    for (size_t i = 0; i < done && !is_queued; i++) {
        const struct part *part = &all->parts[i];
        if (waiter_stand(waiter, i)->in_queue && room_first(&weir->room, part->hash) == NULL)
            store_unqueue(weir->store, part->shape, part->hash);
    }
    return is_queued;
}

/* Under the lock. False: it is not let in, and answered. */
static bool enter(struct weir *weir, struct weir_waiter *waiter, struct composite *all, weir_ns deadline)
{
    struct room *room = &weir->room;
    struct waiter *state = waiter_state(waiter);
    if (is_refused(room, all, waiter->acquires, deadline))
        return false;
    for (size_t i = 0; i < all->count; i++)
        waiter_stand(waiter, i)->in_queue = lets_wait(&all->parts[i], waiter->acquires);
    atomic_fetch_add_explicit(&room->waiting, 1, memory_order_seq_cst); /* before the first bit: room.h */
    if (!queue_all(weir, all, waiter)) {
        atomic_fetch_sub_explicit(&room->waiting, 1, memory_order_relaxed);
        return false;
    }
    state->deadline = deadline;
    room_enter(weir, waiter);
    return true;
}

/* ---- Ending ------------------------------------------------------------------------------------------------------------- */

static void end(struct weir_waiter *waiter, const struct composite *all)
{
    struct waiter *state = waiter_state(waiter);
    wait_write_answer(all, waiter);
    waiter->waited = all->stamp > state->started_at ? all->stamp - state->started_at : 0;
    if (state->sleeper != NULL)
        (void)pthread_cond_signal(state->sleeper);
}

/* What a waiter is told whose limit was restarted. */
static void refuse(struct weir *weir, struct weir_waiter *waiter, weir_ns now, struct composite *all)
{
    room_leave(weir, waiter, now);
    wait_resume(set_current(weir), waiter, now, all);
    for (size_t i = 0; i < waiter_state(waiter)->stand_count; i++)
        all->parts[i].answer = contended(WEIR_REFUSED, WEIR_POLICY_CLOSED, now);
    end(waiter, all);
}

/* Its deadline came before its turn: it goes, and is told what somebody would be told who comes now. */
static void expire(struct weir *weir, struct weir_waiter *waiter, weir_ns at, weir_ns now,
                   struct composite *all)
{
    const struct waiter *state = waiter_state(waiter);
    uint64_t was_queued = 0; /* a bit each: WEIR_ASKS_MAX of them */
    for (size_t i = 0; i < state->joint_count; i++)
        was_queued |= (uint64_t)waiter_stand(waiter, i)->in_queue << i;
    room_leave(weir, waiter, at);
    wait_resume(set_current(weir), waiter, now, all);
    all->stance |= STORE_LOOK;
    (void)wait_decide(all); /* the set is in force */
    for (size_t i = 0; i < state->joint_count; i++)
        if ((was_queued >> i & 1) != 0 && !is_refusal(all->parts[i].answer.outcome))
            all->parts[i].answer.outcome = WEIR_DENY;
    (void)wait_watch(all, state->stand_count, false);
    end(waiter, all);
}

/* Whether only queues that it stands in refuse; and when they would not. */
static bool waits_on(const struct weir_waiter *waiter, const struct composite *all, weir_ns *due)
{
    bool is_denied = false;
    *due = all->stamp + 1; /* nobody is tried twice at one instant */
    for (size_t i = 0; i < all->count; i++) {
        const struct part *part = &all->parts[i];
        if (!is_refusal(part->answer.outcome))
            continue;
        if (is_contended(part)) { /* its retry id as well */
            *due = all->stamp + BUSY_NS > *due ? all->stamp + BUSY_NS : *due;
        } else if (part->answer.outcome == WEIR_DENY && waiter_stand(waiter, i)->in_queue) {
            weir_ns retry_at = part->answer.report.retry_at;
            if (retry_at
                <= all->stamp) /* no denial says so; but were there one, it must not be asked again and again */
                retry_at = all->stamp + BUSY_NS;
            *due = retry_at > *due ? retry_at : *due;
        } else {
            return false;
        }
        is_denied = true;
    }
    return is_denied;
}

/* It is first everywhere, and its turn came at `at`. True: it has ended. */
static bool take_turn(struct weir *weir, struct weir_waiter *waiter, weir_ns at, weir_ns now,
                      struct composite *all)
{
    struct waiter *state = waiter_state(waiter);
    weir_ns earliest = now > LATE_NS ? now - LATE_NS : 0, due;
    wait_resume(set_current(weir), waiter, at > earliest ? at : earliest, all);
    (void)wait_decide(all); /* the set is in force */
    if (waits_on(waiter, all, &due) && (now < state->deadline || due <= state->deadline)) {
        state->due = due;
        room_reschedule(weir, waiter);
        return false;
    }
    (void)wait_watch(all, state->stand_count, composite_passes(all));
    room_leave(weir, waiter, at);
    end(waiter, all);
    return true;
}

/* There is something to do about the first of the agenda. True: it has ended. */
static bool look_at(struct weir *weir, struct weir_waiter *waiter, weir_ns now)
{
    struct composite all;
    struct waiter *state = waiter_state(waiter);
    weir_ns at = state->entry.at;
    if (!state->is_refused && state->behind == 0 && state->due <= state->deadline)
        return take_turn(weir, waiter, at, now, &all);
    if (state->is_refused)
        refuse(weir, waiter, now, &all);
    else
        expire(weir, waiter, at, now, &all);
    return true;
}

/* ---- The public calls ----------------------------------------------------------------------------------------------------- */

/* The answer is known. CHANGED: a watched limit's is not, and nothing was charged. */
static int answer(struct composite *all, struct weir_waiter *waiter)
{
    int code = wait_watch(all, waiter_state(waiter)->stand_count, composite_passes(all));
    if (code == 0)
        wait_write_answer(all, waiter);
    return code;
}

/* The request is denied, and wants to wait. True: it does, and the composite tells when its turn will be. */
static bool let_in(struct weir *weir, struct weir_waiter *waiter, struct composite *all, weir_ns deadline,
                   bool *ended)
{
    struct waiter *state = waiter_state(waiter);
    *ended = false;
    if (!enter(weir, waiter, all, deadline))
        return false;
    if (state->behind > 0)
        return true;
    state->due = room_due(weir, waiter, all->stamp);
    room_reschedule(weir, waiter);
    *ended = state->due <= all->stamp && take_turn(weir, waiter, all->stamp, all->stamp, all);
    for (size_t i = 0; i < all->count && !*ended; i++)
        if (is_contended(&all->parts[i]))
            all->parts[i].answer.report.retry_at = state->due; /* it is tried again then */
    return !*ended;
}

/* Its turn will be when the last of its limits has room. */
static void say_wait(const struct composite *all, struct weir_decision *out)
{
    composite_answer(all, 0, NULL, out);
    out->outcome = WEIR_WAIT;
    out->policy = WEIR_POLICY_NONE;
    out->reason = WEIR_REASON_NONE;
}

/* Decide it, or let it in: 0 and *out. From then on a waiter that waits is anybody's who ticks. */
static int arrive(const struct weir_set *set, struct weir_waiter *waiter, struct composite *all,
                  weir_ns patience, struct weir_decision *out)
{
    struct weir *weir = set->weir;
    bool waits = false, ended = false;
    int code = wait_decide(all);
    if (code != 0)
        return code;
    if (!composite_passes(all) && patience > 0 && may_wait(all, waiter->acquires)) {
        room_lock(weir);
        bool is_current = set == set_current(weir);
        all->stance |= STANCE_IN_ROOM;
        if (is_current)
            waits = let_in(weir, waiter, all, deadline_of(all, waiter->acquires, patience), &ended);
        all->stance &= ~STANCE_IN_ROOM;
        room_unlock(weir, false);
        if (!is_current)
            return WEIR_ERR_CHANGED;
    }
    if (!waits && !ended)
        code = answer(all, waiter);
    if (waits)
        say_wait(all, out);
    else if (code == 0)
        *out = waiter->decision;
    return code;
}

int weir_set_wait_start(const struct weir_set *set, struct weir_waiter *waiter, const struct weir_ask *asks,
                        size_t count, weir_ns patience, weir_ns now, struct weir_decision *out)
{
    struct composite all;
    struct waiter *state = waiter_state(waiter);
    if (state->state == WAITER_WAITS || waiter->part_room < count)
        return WEIR_ERR_WAITER;
    uint64_t watched;
    int code = wait_gather(set, asks, count, &all, &watched);
    if (code != 0)
        return code;
    all.stamp = set_to_stamp(set->weir, now);
    all.stance =
        (waiter->acquires ? STORE_ACQUIRE : STORE_TAKE) | (waiter->is_tentative ? STANCE_TENTATIVE : 0);
    waiter->count = count;
    waiter->watched = watched;
    waiter->waited = 0;
    *state = (struct waiter){ .started_at = all.stamp };
    wait_write_stands(&all, asks, waiter);
    return arrive(set, waiter, &all, patience, out);
}

int weir_wait_start(struct weir *weir, struct weir_waiter *waiter, const struct weir_ask *asks, size_t count,
                    weir_ns patience, weir_ns now, struct weir_decision *out)
{
    int code;
    do
        code = weir_set_wait_start(set_current(weir), waiter, asks, count, patience, now, out);
    while (code == WEIR_ERR_CHANGED);
    return code;
}

weir_ns weir_wait_next(const struct weir *weir)
{
    struct room *room = (struct room *)(uintptr_t)&weir->room;
    return set_from_stamp(weir, atomic_load_explicit(&room->next, memory_order_relaxed));
}

static struct weir_waiter *waiter_of(const struct agenda_entry *entry)
{
    return (struct weir_waiter *)((char *)(uintptr_t)entry - offsetof(struct weir_waiter, opaque)
                                  - offsetof(struct waiter, entry));
}

/* End who is to end by `now`, at most `budget`. Those with a done() are listed in order; a blocked thread was signalled. */
static size_t end_due(struct weir *weir, weir_ns now, size_t budget, struct weir_waiter **ended)
{
    size_t count = 0;
    const struct agenda_entry *entry;
    while (count < budget && (entry = agenda_first(&weir->room.agenda)) != NULL && entry->at <= now) {
        struct weir_waiter *waiter = waiter_of(entry);
        struct waiter *state = waiter_state(waiter);
        bool is_told =
            state->sleeper == NULL && waiter->done != NULL; /* else it is its owner's from the end on */
        if (!look_at(weir, waiter, now))
            continue;
        count++;
        if (!is_told)
            continue;
        state->ended = NULL;
        *ended = waiter;
        ended = &state->ended;
    }
    return count;
}

size_t weir_wait_tick(struct weir *weir, weir_ns now, size_t budget)
{
    struct weir_waiter *ended = NULL;
    if (weir_wait_next(weir) > now)
        return 0;
    room_lock(weir);
    size_t count = end_due(weir, set_to_stamp(weir, now), budget, &ended);
    room_unlock(weir, true);
    while (ended != NULL) {
        struct weir_waiter *waiter = ended;
        ended = waiter_state(waiter)->ended;
        waiter->done(waiter);
    }
    return count;
}

bool weir_wait_cancel(struct weir *weir, struct weir_waiter *waiter, weir_ns now)
{
    room_lock(weir);
    bool waits = waiter_state(waiter)->state == WAITER_WAITS;
    if (waits)
        room_leave(weir, waiter, set_to_stamp(weir, now));
    room_unlock(weir, false);
    return waits;
}
