// SPDX-License-Identifier: Apache-2.0
/*
 * bench_stampede.c - what clients do to a limit when all of them come at once, by how they retry.
 *
 * Everything happens in virtual time, so the same seed gives the same picture on any machine: 500 clients want one thing each,
 * within 10 ms of each other, of a limit that lets 50 pass at once and 50 a second. The limit is the library's, asked with
 * weir_admit(); a client hears of its decision 5 ms after it was made, with the wait in whole seconds as Retry-After has it.
 * They differ only in when they ask again:
 *
 *     immediate   at once, until they pass
 *     fixed       one second later, until they pass
 *     honoured    when Retry-After is over, until they pass
 *     jitter      as weir_retry.h says, up to 50 attempts
 *     defaults    as weir_retry.h says by default: 3 attempts
 *     waiting     not at all: they say that they can wait, and the limit lets them
 *
 * Prints a table; with a folder as argument also writes NAME.csv there, requests and passed ones in each 100 ms.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"
#include "weir_retry.h"

#define CLIENTS 500
#define TRIP (5 * WEIR_MILLISECOND) /* either way */
#define SLOT (100 * WEIR_MILLISECOND)
#define SLOTS 300 /* half a minute */
#define SEED UINT64_C(20261130)

enum strategy { IMMEDIATE, FIXED, HONOURED, JITTER, DEFAULTS, WAITING, STRATEGY_COUNT };

static const char *const names[STRATEGY_COUNT] = { "immediate", "fixed",    "honoured",
                                                   "jitter",    "defaults", "waiting" };

struct client {
    weir_ns ask_at; /* WEIR_NO_TIME: it passed, gave up or waits */
    struct weir_retry retry;
    struct weir_waiter_part part;
    struct weir_waiter waiter;
};

struct run {
    enum strategy strategy;
    struct weir_retry_options options;
    struct client clients[CLIENTS];
    unsigned asked[SLOTS], passed[SLOTS];
    unsigned attempts, successes;
    weir_ns last_success;
    uint64_t random;
};

/* splitmix64 */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* When a client that was denied at `now` asks again. */
static weir_ns ask_again(struct run *run, struct client *client, weir_ns now, weir_ns retry_after)
{
    weir_ns heard_at = now + TRIP;
    weir_ns at = WEIR_NO_TIME;
    switch (run->strategy) {
    case IMMEDIATE:
        return heard_at + TRIP;
    case FIXED:
        return heard_at + WEIR_SECOND + TRIP;
    case HONOURED:
        return heard_at + retry_after + TRIP;
    default:
        return weir_retry_next(&client->retry, WEIR_REPLY_DENIED, retry_after, heard_at,
                               random_bits(&run->random), &at)
                       == WEIR_RETRY_AT
                   ? at + TRIP
                   : WEIR_NO_TIME;
    }
}

static void note(unsigned slots[SLOTS], weir_ns now)
{
    size_t slot = (size_t)((now - WEIR_SECOND) / SLOT);
    if (slot < SLOTS)
        slots[slot]++;
}

static void note_success(struct run *run, weir_ns now)
{
    run->successes++;
    run->last_success = now;
    note(run->passed, now);
}

static void end_waiting(struct weir_waiter *waiter)
{
    struct run *run = waiter->owner;
    if (waiter->decision.outcome == WEIR_ALLOW)
        note_success(run, waiter->decision.decided_at);
}

static void ask(struct run *run, struct weir *weir, weir_limit_id limit, struct client *client)
{
    weir_ns now = client->ask_at;
    struct weir_decision decision;
    const struct weir_ask one = { .limit = limit, .key = "all", .key_len = 3, .cost = 1 };
    client->waiter =
        (struct weir_waiter){ .parts = &client->part, .part_room = 1, .done = end_waiting, .owner = run };
    int error = run->strategy == WAITING
                    ? weir_wait_start(weir, &client->waiter, &one, 1, WEIR_MINUTE, now, &decision)
                    : weir_admit(weir, &one, 1, now, NULL, &decision);
    if (error != 0)
        abort();
    run->attempts++;
    note(run->asked, now);
    client->ask_at = WEIR_NO_TIME;
    if (decision.outcome == WEIR_ALLOW)
        note_success(run, now);
    if (decision.outcome != WEIR_DENY || run->strategy == WAITING)
        return;
    weir_ns seconds = (decision.retry_at - now + WEIR_SECOND - 1) / WEIR_SECOND;
    client->ask_at = ask_again(run, client, now, seconds * WEIR_SECOND);
}

static void run_strategy(struct run *run, enum strategy strategy)
{
    struct weir *weir;
    weir_limit_id limit;
    struct weir_limit fifty = { .name = "fifty", .rate = { 50, WEIR_SECOND }, .burst = 50 };
    if (strategy == WAITING)
        fifty.wait = (struct weir_wait){ WEIR_MINUTE, CLIENTS };
    const struct weir_options options = { .secret = (const uint8_t *)"stampede stampede" };
    if (weir_new(&weir, &options) != 0 || weir_limit_add(weir, &fifty, &limit) != 0)
        abort();

    *run = (struct run){ .strategy = strategy, .random = SEED };
    run->options.attempts = strategy == DEFAULTS ? 0 : 50;
    for (size_t i = 0; i < CLIENTS; i++) {
        run->clients[i].ask_at = WEIR_SECOND + random_bits(&run->random) % (10 * WEIR_MILLISECOND);
        weir_retry_init(&run->clients[i].retry, &run->options, WEIR_NO_TIME);
    }
    for (;;) {
        struct client *next = &run->clients[0];
        for (size_t i = 1; i < CLIENTS; i++)
            if (run->clients[i].ask_at < next->ask_at)
                next = &run->clients[i];
        if (next->ask_at == WEIR_NO_TIME)
            break;
        ask(run, weir, limit, next);
    }
    for (weir_ns at; (at = weir_wait_next(weir)) != WEIR_NO_TIME;)
        (void)weir_wait_tick(weir, at, CLIENTS);
    weir_free(weir);
}

static bool write_csv(const struct run *run, const char *folder)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s.csv", folder, names[run->strategy]);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    fprintf(file, "seconds,requests,of these passed\n");
    for (size_t slot = 0; slot < SLOTS; slot++)
        if (run->asked[slot] > 0) /* of a scale without zero */
            fprintf(file, "%zu.%zu,%u,%u\n", slot / 10, slot % 10, run->asked[slot], run->passed[slot]);
    return fclose(file) == 0;
}

static unsigned largest_behind_the_first(const struct run *run)
{
    unsigned largest = 0;
    for (size_t slot = 1; slot < SLOTS; slot++)
        largest = run->asked[slot] > largest ? run->asked[slot] : largest;
    return largest;
}

int main(int argc, char **argv)
{
    static struct run run;
    printf("%-10s %9s %7s %21s %29s %14s\n", "retries", "attempts", "passed", "attempts per success",
           "most in 100 ms, after the first", "last passed");
    for (int strategy = 0; strategy < STRATEGY_COUNT; strategy++) {
        run_strategy(&run, (enum strategy)strategy);
        printf("%-10s %9u %7u %21.1f %31u %12.1f s\n", names[strategy], run.attempts, run.successes,
               (double)run.attempts / run.successes, largest_behind_the_first(&run),
               (double)(run.last_success - WEIR_SECOND) / WEIR_SECOND);
        if (argc > 1 && !write_csv(&run, argv[1])) {
            fprintf(stderr, "stampede: %s cannot be written to\n", argv[1]);
            return 1;
        }
    }
    return 0;
}
