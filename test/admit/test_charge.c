// SPDX-License-Identifier: Apache-2.0
/* weir_charge(): what was spent elsewhere, by every algorithm: as much as fits, and the rest is told. */
#include "support/unit.h"

#include "weir.h"

#define S WEIR_SECOND

static const struct row {
    const char *why;
    struct weir_limit limit;
    uint64_t used, spent;
    uint64_t charged, dropped, left;
    weir_ns one_passes_at; /* after both, at 2 s */
} rows[] = {
    { "a bucket with room takes it all", { .rate = { 1, S }, .burst = 10 }, 3, 5, 5, 0, 2, 2 * S },
    { "without debt up to its capacity", { .rate = { 1, S }, .burst = 10 }, 8, 5, 2, 3, 0, 3 * S },
    { "what is full takes nothing", { .rate = { 1, S }, .burst = 10 }, 10, 5, 0, 5, 0, 3 * S },
    { "and with debt beyond it, without asking",
      { .rate = { 1, S }, .burst = 10, .debt = 4 },
      10,
      5,
      4,
      1,
      0,
      7 * S },
    { "a window up to its count",
      { .algorithm = WEIR_FIXED_WINDOW, .rate = { 10, 10 * S } },
      8,
      5,
      2,
      3,
      0,
      10 * S },
    { "a sliding window up to its count; 10 weigh 9 when a second of the next has passed",
      { .algorithm = WEIR_SLIDING_WINDOW, .rate = { 10, 10 * S } },
      8,
      5,
      2,
      3,
      0,
      11 * S },
    { "a log gets stamps of that moment",
      { .algorithm = WEIR_SLIDING_LOG, .rate = { 10, 10 * S } },
      4,
      9,
      6,
      3,
      0,
      12 * S },
    { "a permit has a holder: none is taken",
      { .algorithm = WEIR_CONCURRENCY, .at_most = 2, .hold = S, .when_full = WEIR_FULL_CLOSED },
      0,
      5,
      0,
      0,
      2,
      2 * S },
};

static void each_algorithm_takes_what_fits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct weir *weir;
        struct weir_limit limit = row->limit;
        struct weir_decision decision;
        struct weir_settlement settlement;
        weir_limit_id id;
        limit.name = "l";
        expect_row(weir_new(&weir, &(struct weir_options){ .keys = 100 }) == 0, row->why);
        expect_row(weir_limit_add(weir, &limit, &id) == 0, row->why);
        if (row->used > 0)
            expect_row(weir_check(weir, id, "k", 1, row->used, 2 * S, &decision) == 0
                           && decision.outcome == WEIR_ALLOW,
                       row->why);
        const struct weir_ask ask = { .limit = id, .key = "k", .key_len = 1, .cost = row->spent };
        expect_row(weir_charge(weir, &ask, 1, 2 * S, &settlement) == 0, row->why);
        expect_row(settlement.charged == row->charged, row->why);
        expect_row(settlement.dropped == row->dropped, row->why);
        expect_row(settlement.returned == 0 && settlement.remaining == row->left, row->why);
        expect_row(weir_peek(weir, id, "k", 1, 1, 2 * S, &decision) == 0, row->why);
        expect_row(decision.retry_at == row->one_passes_at, row->why);
        expect_row(weir_peek(weir, id, "other", 5, 1, 2 * S, &decision) == 0 && decision.outcome == WEIR_ALLOW,
                   row->why);
        weir_free(weir);
    }
}

/* What is wrong with one ask charges none. */
static void bad_asks_charge_nothing(void **state)
{
    (void)state;
    struct weir *weir;
    struct weir_limit limit = { .name = "l", .rate = { 1, S }, .burst = 10 };
    struct weir_decision decision;
    struct weir_settlement settlement;
    weir_limit_id id;
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 100 }), 0);
    assert_int_equal(weir_limit_add(weir, &limit, &id), 0);
    const struct weir_ask asks[] = { { .limit = id, .key = "k", .key_len = 1, .cost = 3 },
                                     { .limit = id + 1, .key = "k", .key_len = 1, .cost = 3 } };
    assert_int_equal(weir_charge(weir, asks, 2, 0, &settlement), WEIR_ERR_LIMIT);
    assert_int_equal(weir_charge(weir, asks, 0, 0, &settlement), WEIR_ERR_ASKS);
    assert_int_equal(weir_peek(weir, id, "k", 1, 1, 0, &decision), 0);
    assert_int_equal(decision.remaining, 10);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_algorithm_takes_what_fits),
                                        cmocka_unit_test(bad_asks_charge_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
