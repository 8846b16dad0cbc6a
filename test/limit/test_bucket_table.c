// SPDX-License-Identifier: Apache-2.0
/*
 * The bucket by example: founding timelines, the extremes of algorithms 2.6 and the vectors of 8.1, worked out by hand.
 */
#include "support/unit.h"

#include "weir_bucket.h"

#define S WEIR_SECOND
#define MS WEIR_MILLISECOND
#define NEVER_AT WEIR_NO_TIME
#define YEAR (UINT64_C(31556952) * S)

static const struct row {
    const char *why;
    weir_ns at;
    uint64_t cost;
    enum weir_outcome outcome;
    uint64_t remaining;
    weir_ns retry_at; /* after the request: when the same one passes next; `at` when it would at once */
} founding[] = {
    { "a new bucket is full", 0, 0, WEIR_ALLOW, 20, 0 },
    { "the whole burst may be spent", 0, 20, WEIR_ALLOW, 0, 4 * S },
    { "the twenty-first waits for one token", 0, 1, WEIR_DENY, 0, 200 * MS },
    { "a second brings five", 1 * S, 5, WEIR_ALLOW, 0, 2 * S },
    { "the sixth waits", 1 * S, 1, WEIR_DENY, 0, 1200 * MS },
    { "two wait longer", 1 * S, 2, WEIR_DENY, 0, 1400 * MS },
    { "a nanosecond early is early", 1400 * MS - 1, 2, WEIR_DENY, 1, 1400 * MS },
    { "refusals cost nothing: exactly then it passes", 1400 * MS, 2, WEIR_ALLOW, 0, 1800 * MS },
    { "an older stamp mints nothing", 1300 * MS, 1, WEIR_DENY, 0, 1600 * MS },
    { "a look at an empty bucket passes and names one token", 1400 * MS, 0, WEIR_ALLOW, 0, 1600 * MS },
    { "above the burst no wait helps", 1400 * MS, 21, WEIR_NEVER, 0, NEVER_AT },
    { "a long sleep fills it once", 500 * S, 20, WEIR_ALLOW, 0, 504 * S },
    { "25 in five seconds after the burst, no more", 504 * S, 21, WEIR_NEVER, 20, NEVER_AT },
    { "the last instant that is decided", WEIR_HORIZON, 1, WEIR_ALLOW, 19, WEIR_HORIZON },
    { "one later is not decided, and wraps nothing", WEIR_HORIZON + 1, 1, WEIR_REFUSED, 0, 0 },
};

static void the_founding_example(void **state)
{
    (void)state;
    static const weir_rate rate = WEIR_RATE(5, WEIR_SECOND, 20);
    weir_bucket bucket = WEIR_BUCKET_FULL;
    for (size_t i = 0; i < COUNT_OF(founding); i++) {
        const struct row *row = &founding[i];
        uint64_t before = bucket.full_at;
        expect_row(weir_bucket_peek(&bucket, &rate, row->at, row->cost).outcome == row->outcome, row->why);
        expect_row(bucket.full_at == before, row->why);
        weir_verdict verdict = weir_bucket_take(&bucket, &rate, row->at, row->cost);
        expect_row(verdict.outcome == row->outcome && verdict.full_at == bucket.full_at, row->why);
        if (row->outcome != WEIR_ALLOW || row->cost == 0)
            expect_row(bucket.full_at == before, row->why);
        if (row->outcome == WEIR_REFUSED)
            continue;
        expect_row(weir_rate_remaining(&rate, bucket.full_at, row->at) == row->remaining, row->why);
        expect_row(weir_rate_retry_at(&rate, bucket.full_at, row->at, row->cost) == row->retry_at, row->why);
    }
}

/* One token left, polled each second at a tenth of a token: what floating point gets wrong. */
static void polling_neither_starves_nor_drifts(void **state)
{
    (void)state;
    static const weir_rate slow = WEIR_RATE(1, 10 * WEIR_SECOND, 1);
    weir_bucket bucket = WEIR_BUCKET_FULL;
    assert_int_equal(weir_bucket_take(&bucket, &slow, 0, 1).outcome, WEIR_ALLOW);
    for (weir_ns at = MS; at < 10 * S; at += MS)
        assert_int_equal(weir_bucket_take(&bucket, &slow, at, 1).outcome, WEIR_DENY);
    assert_int_equal(weir_bucket_take(&bucket, &slow, 10 * S, 1).outcome, WEIR_ALLOW);
}

static const struct size {
    const char *why;
    uint64_t count;
    weir_ns period;
    uint64_t burst;
    uint64_t ticks, a, b;       /* m, and a/b ticks per ns */
    uint64_t reciprocal, shift; /* 2.5's K and s, kept only where b is not 1 */
} sizes[] = {
    { "5/s", 5, S, 20, 200000000, 1, 1, 0, 0 },
    { "60/min", 60, WEIR_MINUTE, 60, 1000000000, 1, 1, 0, 0 },
    { "7/s", 7, S, 10, 1000000000, 7, 1, 0, 0 },
    { "3/s", 3, S, 5, 1000000000, 3, 1, 0, 0 },
    { "1 per 3 days", 1, 3 * WEIR_DAY, 3, UINT64_C(259200000000000), 1, 1, 0, 0 },
    { "1 per year", 1, YEAR, 1, UINT64_C(31556952000000000), 1, 1, 0, 0 },
    { "1 per year, burst 2^31: a tick of 29 ms", 1, YEAR, UINT64_C(1) << 31, UINT64_C(1) << 30, 262144,
      UINT64_C(7704333984375), UINT64_C(0x9223758b006baa5d), 88 },
    { "300,000,000/s: three ticks a nanosecond", 300000000, S, 1, 10, 3, 1, 0, 0 },
    { "10^9/s, burst 2^31", 1000000000, S, UINT64_C(1) << 31, 1, 1, 1, 0, 0 },
    { "1/s, burst 2^31", 1, S, UINT64_C(1) << 31, 1000000000, 1, 1, 0, 0 },
    { "999/s: 999 needs more ticks than fit", 999, S, 100, 1 << 23, 16367616, 1953125,
      UINT64_C(0x861560eddf1ebc8c), 60 },
    { "1,000,003/h", 1000003, WEIR_HOUR, 1000, 1 << 25, UINT64_C(4096012288), 439453125,
      UINT64_C(0x95219a02fba5174f), 60 },
    { "999,999,937/s", 999999937, S, 1000, 8, 999999937, 125000000, UINT64_C(0xfffffef16ac4779c), 61 },
    { "rate 0 counts tokens", 0, S, 5, 1, 0, 1, 0, 0 },
    { "burst 0 is a rate all the same", 5, S, 0, 200000000, 1, 1, 0, 0 },
    { "14 is the largest numerator that is exact for ten years", 14, S + 3, 1, S + 3, 14, 1, 0, 0 },
};

static void ticks_are_chosen_by_the_book(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const struct size *row = &sizes[i];
        weir_rate rate = { 0 };
        expect_row(weir_rate_init(&rate, row->count, row->period, row->burst), row->why);
        expect_row(rate.burst == row->burst, row->why);
        expect_row(rate.ticks == row->ticks, row->why);
        expect_row(rate.per_b == row->a && rate.b == row->b, row->why);
        expect_row(rate.reciprocal == row->reciprocal && rate.shift == row->shift, row->why);
    }
}

/* Spend `burst` at `at`; then one token's word and the instants of 2.6. */
static const struct spent {
    const char *why;
    uint64_t count;
    weir_ns period;
    uint64_t burst;
    weir_ns at;
    uint64_t full_at; /* in ticks */
    uint64_t cost;
    weir_ns retry_after;
} spends[] = {
    { "7/s: a seventh of a second, up", 7, S, 10, 1234567891, UINT64_C(18641975237), 1, 142857143 },
    { "999/s: exact in spite of ticks", 999, S, 1, 1234567891, UINT64_C(10354338389), 1, 1001002 },
    { "a year is a year", 1, YEAR, 1, 77, 77 + YEAR, 1, YEAR },
    { "late by less than the tick", 1, YEAR, UINT64_C(1) << 31, UINT64_C(100000000000000000),
      UINT64_C(3402552389) + (UINT64_C(1) << 61), 1, YEAR + 15979939 },
    { "a token a nanosecond", 1000000000, S, UINT64_C(1) << 31, UINT64_C(1000000000000000),
      UINT64_C(1000002147483648), 1, 1 },
    { "nearly a token a nanosecond", 999999937, S, 1000, UINT64_C(1000000000000001), 0, 1, 2 },
    { "a thousand of them", 999999937, S, 1000, UINT64_C(1000000000000001), 0, 1000, 1001 },
};

static void instants_of_the_extremes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        const struct spent *row = &spends[i];
        weir_rate rate = { 0 };
        weir_bucket bucket = WEIR_BUCKET_FULL;
        assert_true(weir_rate_init(&rate, row->count, row->period, row->burst));
        expect_row(weir_bucket_take(&bucket, &rate, row->at, row->burst).outcome == WEIR_ALLOW, row->why);
        if (row->full_at != 0)
            expect_row(bucket.full_at == row->full_at, row->why);
        weir_ns retry_at = weir_rate_retry_at(&rate, bucket.full_at, row->at, row->cost);
        expect_row(retry_at == row->at + row->retry_after, row->why);
        expect_row(weir_bucket_peek(&bucket, &rate, retry_at, row->cost).outcome == WEIR_ALLOW, row->why);
        expect_row(weir_bucket_peek(&bucket, &rate, retry_at - 1, row->cost).outcome == WEIR_DENY, row->why);
    }
}

/* 1/year and 2^31 at once: full again in two billion years, which 64 bits of ns cannot say. */
static void instants_beyond_the_horizon_saturate(void **state)
{
    (void)state;
    weir_rate rate = { 0 };
    weir_bucket bucket = WEIR_BUCKET_FULL;
    assert_true(weir_rate_init(&rate, 1, YEAR, UINT64_C(1) << 31));
    assert_int_equal(weir_bucket_take(&bucket, &rate, UINT64_C(100000000000000000), rate.burst).outcome,
                     WEIR_ALLOW);
    assert_true(weir_rate_full_at(&rate, bucket.full_at, UINT64_C(100000000000000000)) == WEIR_NO_TIME);
    assert_true(weir_rate_retry_at(&rate, bucket.full_at, UINT64_C(100000000000000000), rate.burst)
                == WEIR_NO_TIME);
}

static const struct refusal {
    const char *why;
    uint64_t count;
    weir_ns period;
    uint64_t burst;
} refusals[] = {
    { "no period", 1, 0, 1 },
    { "a period of 64 bits", 1, UINT64_C(1) << 63, 1 },
    { "a period past the horizon", 1, WEIR_HORIZON + 1, 1 },
    { "a numerator so long that ticks per ns overflow", (UINT64_C(1) << 63) + 1, (UINT64_C(1) << 63) - 1,
      1000 },
    { "B09 (d): 2 TiB/s is 2199 tokens a nanosecond", UINT64_C(2199023255552), S, UINT64_C(34359738368) },
    { "15 tokens a nanosecond", 15, 1, 1 },
    { "a burst that leaves no bit for a tick", 1, S, UINT64_C(1) << 62 },
};

static void what_cannot_be_kept_is_refused_and_writes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const struct refusal *row = &refusals[i];
        weir_rate rate = { 1, 2, 3, 4, 5, 6 }, before = rate;
        expect_row(!weir_rate_init(&rate, row->count, row->period, row->burst), row->why);
        expect_row(memcmp(&rate, &before, sizeof rate) == 0, row->why);
    }
    weir_rate most = { 0 };
    assert_true(weir_rate_init(&most, 14, 1, 1));
    assert_true(weir_rate_init(&most, 1, S, (UINT64_C(1) << 62) - 1));
}

/* B11: three used at 1000 s look like fourteen at 989 s; back at 1000 nothing was minted and nothing lost. */
static void B11_an_older_stamp_is_stricter_and_mints_nothing(void **state)
{
    (void)state;
    static const weir_rate rate = WEIR_RATE(1, WEIR_SECOND, 10);
    weir_bucket bucket = WEIR_BUCKET_FULL;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(weir_bucket_take(&bucket, &rate, 1000 * S, 1).outcome, WEIR_ALLOW);
    assert_int_equal(weir_bucket_take(&bucket, &rate, 989 * S, 1).outcome, WEIR_DENY);
    assert_int_equal(weir_rate_remaining(&rate, bucket.full_at, 989 * S), 0);
    assert_int_equal(weir_rate_remaining(&rate, bucket.full_at, 1000 * S), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_founding_example),
        cmocka_unit_test(polling_neither_starves_nor_drifts),
        cmocka_unit_test(ticks_are_chosen_by_the_book),
        cmocka_unit_test(instants_of_the_extremes),
        cmocka_unit_test(instants_beyond_the_horizon_saturate),
        cmocka_unit_test(what_cannot_be_kept_is_refused_and_writes_nothing),
        cmocka_unit_test(B11_an_older_stamp_is_stricter_and_mints_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
