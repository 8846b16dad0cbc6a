// SPDX-License-Identifier: Apache-2.0
/*
 * bench_bucket.c - what a decision of weir_bucket.h costs beside the atomic operation that it cannot do without.
 *
 * One hot bucket that threads may share. Allowing must exchange a word, denying must read and compare it.
 */
#include "measure.h"
#include "weir_bucket.h"

/* 1000 a second: one token each million ns. */
static const weir_rate fixed = WEIR_RATE(1000, WEIR_SECOND, 20);
#define STEP (WEIR_SECOND / 1000)

struct place {
    weir_bucket bucket;
    weir_rate rate; /* the same, made at run time */
    weir_rate odd;  /* 999 a second: no whole number of ticks in a ns */
    weir_ns now;
};

/* Each request comes one token later than the last, so all pass. */
static uint64_t allow_fixed(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t passed = 0;
    weir_ns now = place->now;
    for (uint64_t i = 0; i < count; i++, now += STEP)
        passed += weir_bucket_take_shared(&place->bucket, &fixed, now, 1).outcome == WEIR_ALLOW;
    place->now = now;
    return passed;
}

static uint64_t allow_rate(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t passed = 0;
    weir_ns now = place->now;
    for (uint64_t i = 0; i < count; i++, now += STEP)
        passed += weir_bucket_take_shared(&place->bucket, &place->rate, now, 1).outcome == WEIR_ALLOW;
    place->now = now;
    return passed;
}

static uint64_t allow_odd(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t passed = 0;
    weir_ns now = place->now;
    for (uint64_t i = 0; i < count; i++, now += 2 * STEP)
        passed += weir_bucket_take_shared(&place->bucket, &place->odd, now, 1).outcome == WEIR_ALLOW;
    place->now = now;
    return passed;
}

/* Time creeps, but never far enough for a token. */
static uint64_t deny_fixed(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t passed = 0;
    weir_ns now = place->now;
    for (uint64_t i = 0; i < count; i++)
        passed += weir_bucket_take_shared(&place->bucket, &fixed, now + (i & 63), 1).outcome == WEIR_ALLOW;
    return passed;
}

static uint64_t exchange(void *context, uint64_t count)
{
    uint64_t *word = context;
    uint64_t lost = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(word, &seen, seen + STEP, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            lost += 1;
    }
    return lost;
}

static uint64_t load_and_compare(void *context, uint64_t count)
{
    uint64_t *word = context;
    uint64_t passed = 0;
    for (uint64_t i = 0; i < count; i++)
        passed += __atomic_load_n(word, __ATOMIC_RELAXED) <= (i & 63);
    return passed;
}

int main(void)
{
    static struct place allowing, at_run_time, odd, denying;
    static uint64_t word = 1000;
    struct place *places[] = { &allowing, &at_run_time, &odd, &denying };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!weir_rate_init(&places[i]->rate, 1000, WEIR_SECOND, 20)
            || !weir_rate_init(&places[i]->odd, 999, WEIR_SECOND, 20))
            return 1;
    while (weir_bucket_take_shared(&denying.bucket, &fixed, 0, 1).outcome == WEIR_ALLOW)
        ;

    measure_row(&(struct row){ "bucket: allow / 64-bit exchange",
                               1.15,
                               { "take", allow_fixed, &allowing },
                               { "exchange", exchange, &word },
                               2000000 });
    measure_row(&(struct row){ "bucket: deny / load and compare",
                               2.0,
                               { "take", deny_fixed, &denying },
                               { "load", load_and_compare, &word },
                               8000000 });
    measure_row(&(struct row){ "bucket: allow, rate made at run time / 64-bit exchange",
                               0,
                               { "take", allow_rate, &at_run_time },
                               { "exchange", exchange, &word },
                               2000000 });
    measure_row(&(struct row){ "bucket: allow, inexact rate (999/s) / 64-bit exchange",
                               0,
                               { "take", allow_odd, &odd },
                               { "exchange", exchange, &word },
                               2000000 });
    return 0;
}
