// SPDX-License-Identifier: Apache-2.0
/*
 * wait_blocking.c - a thread that blocks while its request waits.
 *
 * Idea: the waiter stands on the thread's stack, and the thread sleeps until the instant at which there is something to do
 * about it. Then it ticks, and so does whatever else is due: so the thread that is woken first ends what is due for all, and
 * no driver is needed. Whoever ends another's waiting, or brings its instant forward, signals it under the lock.
 */
#include "base/clock.h"
#include "wait.h"

/* Others' waiters that one thread ends before it looks whether its own has ended. */
#define AT_ONCE 16

/* Sleep until `at`, a reading of weir_now(), or a signal. The lock is held before and after. */
static void sleep_until(struct weir *weir, pthread_cond_t *condition, weir_ns at)
{
    struct timespec until = { .tv_sec = (time_t)(at / WEIR_SECOND), .tv_nsec = (long)(at % WEIR_SECOND) };
    (void)pthread_cond_timedwait(condition, &weir->room.lock, &until); /* whichever it was, the caller looks */
}

static void block(struct weir *weir, struct weir_waiter *waiter, pthread_cond_t *condition)
{
    const struct waiter *state = waiter_state(waiter);
    room_lock(weir);
    while (state->state == WAITER_WAITS) {
        weir_ns now = clock_monotonic(), at = set_from_stamp(weir, state->entry.at);
        if (now < at) {
            sleep_until(weir, condition, at);
            continue;
        }
        room_unlock(weir, true);
        (void)weir_wait_tick(weir, now, AT_ONCE);
        room_lock(weir);
    }
    room_unlock(weir, true);
}

static void make_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes); /* these only write memory */
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

void weir_wait_block(struct weir *weir, struct weir_waiter *waiter)
{
    struct waiter *state = waiter_state(waiter);
    pthread_cond_t condition;
    make_condition(&condition);
    room_lock(weir);
    state->sleeper = &condition; /* from here on who ends it signals */
    room_unlock(weir, true);
    block(weir, waiter, &condition);
    state->sleeper = NULL; /* nobody else looks at one that has ended */
    (void)pthread_cond_destroy(&condition);
}

/* From the first question to the end of the waiter. */
static int ask_and_block(struct weir *weir, struct weir_waiter *waiter, const struct weir_ask *asks,
                         size_t count, weir_ns patience, struct weir_decision *each, struct weir_decision *out)
{
    struct weir_decision first;
    int code = weir_wait_start(weir, waiter, asks, count, patience, clock_monotonic(), &first);
    if (code != 0)
        return code;
    if (first.outcome == WEIR_WAIT)
        weir_wait_block(weir, waiter);
    weir_waiter_answer(set_current(weir), waiter, each, out);
    return 0;
}

int weir_admit_waiting(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns patience,
                       struct weir_decision *each, struct weir_decision *out)
{
    struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX };
    return ask_and_block(weir, &waiter, asks, count, patience, each, out);
}

int weir_acquire_waiting(struct weir *weir, const struct weir_ask *asks, size_t count, weir_ns patience,
                         struct weir_decision *each, struct weir_decision *out, struct weir_permit *permit)
{
    struct weir_waiter_part parts[WEIR_ASKS_MAX];
    struct weir_waiter waiter = { .parts = parts, .part_room = WEIR_ASKS_MAX, .acquires = true };
    int code = ask_and_block(weir, &waiter, asks, count, patience, each, out);
    if (code == 0)
        weir_waiter_permit(weir, &waiter, permit);
    return code;
}
