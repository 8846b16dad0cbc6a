// SPDX-License-Identifier: Apache-2.0
/*
 * bench_waiting.c - what permits and waits cost beside two plain checks, and how late a release is.
 *
 * A permit takes and gives back, a wait starts and ends: each stands beside two weir_check() of one hot key, which is
 * what it would cost to count the same request twice. Time is a counter there.
 *
 * `bench_waiting lateness RATE COUNT` is in real time: COUNT requests wait for a leaky queue of RATE a second, and a loop
 * sleeps until weir_wait_next() and ticks. Prints `decided,ended` of each release in ns; the shell of it is
 * bench/http_waiting.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "measure.h"
#include "weir.h"

#define KEYS ((size_t)100000)
#define QUEUE ((size_t)10000)

struct place {
    struct weir *weir;
    weir_limit_id limit;
    weir_ns now;
    uint64_t seed;
    struct weir_waiter *waiters; /* a ring; all but one wait */
    struct weir_waiter_part *parts;
    size_t next;
    weir_ns *ended_at; /* lateness only: by index of the waiter */
    uint64_t ended;
};

static const char hot_key[16] = "user:0123456789a";

/* The floor: two checks, a microsecond apart. */
static uint64_t two_checks(void *context, uint64_t count)
{
    struct place *place = context;
    struct weir_decision decision;
    uint64_t passed = 0;
    for (uint64_t i = 0; i < 2 * count; i++) {
        place->now += WEIR_SECOND / 1000000;
        if (weir_check(place->weir, place->limit, hot_key, sizeof hot_key, 1, place->now, &decision) == 0)
            passed += decision.outcome == WEIR_ALLOW;
    }
    return passed;
}

static uint64_t pair(struct place *place, const void *key, size_t len)
{
    struct weir_ask ask = { .limit = place->limit, .key = key, .key_len = len, .cost = 1 };
    struct weir_decision decision;
    struct weir_permit permit;
    bool was_held = false;
    place->now += WEIR_SECOND / 1000000;
    if (weir_acquire(place->weir, &ask, 1, place->now, NULL, &decision, &permit) != 0
        || weir_release(place->weir, permit.bytes, permit.len, place->now, &was_held) != 0)
        abort();
    return was_held;
}

static uint64_t permits_of_one_key(void *context, uint64_t count)
{
    uint64_t held = 0;
    for (uint64_t i = 0; i < count; i++)
        held += pair(context, hot_key, sizeof hot_key);
    return held;
}

static uint64_t permits_of_many_keys(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t held = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = measure_random(&place->seed) % KEYS;
        held += pair(place, &key, sizeof key);
    }
    return held;
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------- */

static void on_done(struct weir_waiter *waiter)
{
    struct place *place = waiter->owner;
    if (waiter->decision.outcome != WEIR_ALLOW)
        abort();
    if (place->ended_at != NULL)
        place->ended_at[waiter - place->waiters] = weir_now();
    place->ended += 1;
}

static void start(struct place *place, weir_ns now, enum weir_outcome expected)
{
    struct weir_ask ask = { .limit = place->limit, .key = hot_key, .key_len = sizeof hot_key, .cost = 1 };
    struct weir_decision decision;
    if (weir_wait_start(place->weir, &place->waiters[place->next], &ask, 1, WEIR_WAIT_MAX, now, &decision) != 0
        || decision.outcome != expected)
        abort();
}

/* The first in the queue ends, and stands behind it again. */
static uint64_t waits(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t before = place->ended;
    for (uint64_t i = 0; i < count; i++) {
        place->now = weir_wait_next(place->weir);
        if (weir_wait_tick(place->weir, place->now, 1) != 1)
            abort();
        start(place, place->now, WEIR_WAIT);
        place->next = (place->next + 1) % QUEUE;
    }
    return place->ended - before;
}

static uint64_t waits_alone(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t before = place->ended;
    for (uint64_t i = 0; i < count; i++) {
        start(place, place->now, WEIR_WAIT);
        place->now = weir_wait_next(place->weir);
        if (weir_wait_tick(place->weir, place->now, 1) != 1)
            abort();
    }
    return place->ended - before;
}

static void place_init(struct place *place, const struct weir_limit *limit, size_t waiter_count)
{
    *place = (struct place){ .now = WEIR_SECOND, .seed = 7 };
    place->parts = calloc(waiter_count + 1, sizeof *place->parts);
    place->waiters = calloc(waiter_count + 1, sizeof *place->waiters);
    if (place->parts == NULL || place->waiters == NULL
        || weir_new(&place->weir, &(struct weir_options){ .keys = KEYS, .permits = 1000 }) != 0
        || weir_limit_add(place->weir, limit, &place->limit) != 0)
        abort();
    for (size_t i = 0; i < waiter_count; i++)
        place->waiters[i] =
            (struct weir_waiter){ .parts = &place->parts[i], .part_room = 1, .done = on_done, .owner = place };
}

static struct weir_limit queue_of(uint64_t rate)
{
    return (struct weir_limit){ .name = "steady",
                                .algorithm = WEIR_LEAKY_QUEUE,
                                .rate = { rate, WEIR_SECOND },
                                .burst = 1,
                                .wait = { WEIR_WAIT_MAX, WEIR_QUEUE_MAX } };
}

static int compare(void)
{
    static struct place checks, one, many, alone, behind;
    const struct weir_limit bucket = { .name = "hot", .rate = { 1000000, WEIR_SECOND }, .burst = 100 };
    const struct weir_limit permits = {
        .name = "running", .algorithm = WEIR_CONCURRENCY, .at_most = 10, .hold = 30 * WEIR_SECOND
    };
    const struct weir_limit queue = queue_of(1000000);
    place_init(&checks, &bucket, 0);
    place_init(&one, &permits, 0);
    place_init(&many, &permits, 0);
    place_init(&alone, &queue, 1);
    place_init(&behind, &queue, QUEUE);
    struct weir_decision decision;
    if (weir_check(alone.weir, alone.limit, hot_key, sizeof hot_key, 1, alone.now, &decision) != 0
        || weir_check(behind.weir, behind.limit, hot_key, sizeof hot_key, 1, behind.now, &decision) != 0)
        return 1;
    for (; behind.next < QUEUE; behind.next++)
        start(&behind, behind.now, WEIR_WAIT);
    behind.next = 0;

    measure_row(&(struct row){ "permit: acquire and release, one key / two checks",
                               0,
                               { "pair", permits_of_one_key, &one },
                               { "checks", two_checks, &checks },
                               100000 });
    measure_row(&(struct row){ "permit: acquire and release, 100,000 keys / two checks of one key",
                               0,
                               { "pair", permits_of_many_keys, &many },
                               { "checks", two_checks, &checks },
                               100000 });
    measure_row(&(struct row){ "wait: start and end, alone / two checks",
                               0,
                               { "wait", waits_alone, &alone },
                               { "checks", two_checks, &checks },
                               100000 });
    measure_row(&(struct row){ "wait: start and end, behind 10,000 others / two checks",
                               0,
                               { "wait", waits, &behind },
                               { "checks", two_checks, &checks },
                               100000 });
    return 0;
}

static int lateness(uint64_t rate, size_t count)
{
    static struct place place;
    const struct weir_limit queue = queue_of(rate);
    struct weir_decision decision;
    place_init(&place, &queue, count);
    place.ended_at = calloc(count, sizeof *place.ended_at);
    weir_ns begin = weir_now() + WEIR_SECOND / 5; /* all wait by then */
    if (place.ended_at == NULL
        || weir_check(place.weir, place.limit, hot_key, sizeof hot_key, 1, begin, &decision) != 0)
        return 1;
    for (; place.next < count; place.next++)
        start(&place, begin, WEIR_WAIT);
    (void)prctl(PR_SET_TIMERSLACK, 1); /* else a sleep may end 50 us late to spare the processor a wake-up */
    while (place.ended < count) {
        weir_ns at = weir_wait_next(place.weir);
        struct timespec until = { (time_t)(at / WEIR_SECOND), (long)(at % WEIR_SECOND) };
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until,
                              NULL); /* a signal only makes us look early */
        (void)weir_wait_tick(place.weir, weir_now(), 64);
    }
    printf("decided,ended\n");
    for (size_t i = 0; i < count; i++)
        printf("%llu,%llu\n", (unsigned long long)place.waiters[i].decision.decided_at,
               (unsigned long long)place.ended_at[i]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "lateness") == 0)
        return lateness(strtoull(argv[2], NULL, 10), (size_t)strtoull(argv[3], NULL, 10));
    if (argc == 1)
        return compare();
    fprintf(stderr, "usage: bench_waiting [lateness RATE COUNT]\n");
    return 2;
}
