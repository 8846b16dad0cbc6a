// SPDX-License-Identifier: Apache-2.0
/*
 * WEIR_RATE makes at compile time what weir_rate_init() makes at run time: the same ticks, and the same clock even
 * where a common factor above 7 stays in and a/b is not in lowest terms.
 */
#include "support/unit.h"

#include "support/random.h"
#include "weir_bucket.h"

#define RATES(X) \
    X(5, WEIR_SECOND, 20) \
    X(60, WEIR_MINUTE, 60) \
    X(7, WEIR_SECOND, 10) \
    X(3, WEIR_SECOND, 5) \
    X(1, 3 * WEIR_DAY, 3) \
    X(1, UINT64_C(31556952) * WEIR_SECOND, 1) \
    X(1, UINT64_C(31556952) * WEIR_SECOND, UINT64_C(1) << 31) \
    X(300000000, WEIR_SECOND, 1) \
    X(1000000000, WEIR_SECOND, UINT64_C(1) << 31) \
    X(1, WEIR_SECOND, UINT64_C(1) << 31) \
    X(999, WEIR_SECOND, 100) \
    X(1000003, WEIR_HOUR, 1000) \
    X(999999937, WEIR_SECOND, 1000) \
    X(0, WEIR_SECOND, 5) \
    X(0, 1, 0) \
    X(5, WEIR_SECOND, 0) \
    X(100, 15 * WEIR_MINUTE, 100) \
    X(10000, WEIR_WEEK, 500) \
    X(49, 7 * WEIR_DAY, 49) \
    X(1024, 1024, 1) \
    X(14, 1, 1) \
    X(27, 81, 27) \
    X(UINT64_C(244140625), UINT64_C(244140625) * 4, 3)

/* Common factors that the macro does not divide out: 11, 13 and a large prime. The clock is still the same. */
#define UNREDUCED(X) \
    X(11, 22 * WEIR_SECOND, 5) \
    X(143, 143 * WEIR_SECOND, 9) \
    X(1000003, UINT64_C(1000003000), 10) \
    X(11 * 999, 11 * WEIR_SECOND, 100)

#define ROW(count, period, burst) \
    { #count " per " #period ", " #burst, WEIR_RATE(count, period, burst), count, period },

static const struct row {
    const char *why;
    weir_rate rate;
    uint64_t count;
    weir_ns period;
} reduced[] = { RATES(ROW) }, unreduced[] = { UNREDUCED(ROW) };

static void expect_same_clock(const weir_rate *macro, const weir_rate *made, const char *why)
{
    struct random random = { 7 };
    for (unsigned i = 0; i < 2000; i++) {
        unsigned inexact_macro, inexact_made;
        weir_ns now = i == 0 ? WEIR_HORIZON : random_u64(&random) >> (6 + random_below(&random, 50));
        if (now > WEIR_HORIZON)
            now = WEIR_HORIZON - i;
        expect_row(weir_rate_clock(macro, now, &inexact_macro) == weir_rate_clock(made, now, &inexact_made),
                   why);
        expect_row(inexact_macro == inexact_made, why);
    }
}

static void the_macro_agrees_with_the_call(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(reduced); i++) {
        const struct row *row = &reduced[i];
        weir_rate made = { 0 };
        expect_row(weir_rate_init(&made, row->count, row->period, row->rate.burst), row->why);
        expect_row(row->rate.ticks == made.ticks, row->why);
        expect_row(row->rate.per_b * (weir_u128_)made.b == made.per_b * (weir_u128_)row->rate.b, row->why);
        expect_same_clock(&row->rate, &made, row->why);
    }
}

/* Where a factor stays the macro may find other ticks than the call, and its rate is still the rate asked for. */
static void factors_that_stay_change_no_rate(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(unreduced); i++) {
        const struct row *row = &unreduced[i];
        weir_u128_ asked = (weir_u128_)row->count * row->rate.ticks * row->rate.b;
        expect_row((weir_u128_)row->rate.per_b * row->period == asked, row->why);
        expect_row(row->rate.ticks >= 1 && row->rate.burst * row->rate.ticks < UINT64_C(1) << 62, row->why);
        struct random random = { i };
        for (unsigned k = 0; k < 1000; k++) {
            unsigned inexact;
            weir_ns now = k == 0 ? WEIR_HORIZON : random_below(&random, WEIR_HORIZON);
            weir_u128_ scaled = (weir_u128_)now * row->rate.per_b;
            expect_row(weir_rate_clock(&row->rate, now, &inexact) == (uint64_t)(scaled / row->rate.b),
                       row->why);
            expect_row(inexact == (scaled % row->rate.b != 0), row->why);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_macro_agrees_with_the_call),
                                        cmocka_unit_test(factors_that_stay_change_no_rate) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
