// SPDX-License-Identifier: Apache-2.0
/* test_counters.c - which answers count for which limit, and in which bucket a time falls. */
#include "support/unit.h"

#include "net/counters.h"

#define LIMITS 3

static uint64_t decisions(const struct counters *counters, size_t row, enum weir_outcome outcome)
{
    return counter_read(&counters->decisions[row * WEIR_OUTCOME_COUNT + outcome]);
}

static struct weir_decision said(weir_limit_id limit, enum weir_outcome outcome)
{
    return (struct weir_decision){ .limit = limit, .outcome = outcome };
}

static const struct row {
    const char *why;
    struct {
        weir_limit_id limit;
        enum weir_outcome outcome;
    } binding, each[2];
    size_t each_count;
    uint64_t allow[LIMITS + 1], deny[LIMITS + 1]; /* expected, per limit; the last: no limit */
} rows[] = {
    { "met none", { WEIR_NO_LIMIT, WEIR_ALLOW }, { { 0 } }, 0, { 0, 0, 0, 1 }, { 0 } },
    { "passed one", { 1, WEIR_ALLOW }, { { 1, WEIR_ALLOW } }, 1, { 0, 1, 0, 0 }, { 0 } },
    { "passed two: both were charged",
      { 2, WEIR_ALLOW },
      { { 0, WEIR_ALLOW }, { 2, WEIR_ALLOW } },
      2,
      { 1, 0, 1, 0 },
      { 0 } },
    { "refused by one: the other was charged nothing",
      { 2, WEIR_DENY },
      { { 0, WEIR_ALLOW }, { 2, WEIR_DENY } },
      2,
      { 0 },
      { 0, 0, 1, 0 } },
    { "refused by both", { 2, WEIR_DENY }, { { 0, WEIR_DENY }, { 2, WEIR_DENY } }, 2, { 0 }, { 1, 0, 1, 0 } },
    { "a race lost after each had let it pass",
      { 1, WEIR_DENY },
      { { 0, WEIR_ALLOW } },
      1,
      { 0 },
      { 0, 1, 0, 0 } },
};

static void each_answer_counts_where_it_should(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct counters counters;
        assert_int_equal(counters_init(&counters, LIMITS), 0);
        struct weir_answer answer = { .decision = said(row->binding.limit, row->binding.outcome),
                                      .count = row->each_count };
        for (size_t j = 0; j < row->each_count; j++)
            answer.each[j] = said(row->each[j].limit, row->each[j].outcome);
        counters_decision(&counters, &answer);
        for (size_t limit = 0; limit <= LIMITS; limit++) {
            expect_row(decisions(&counters, limit, WEIR_ALLOW) == row->allow[limit], row->why);
            expect_row(decisions(&counters, limit, WEIR_DENY) == row->deny[limit], row->why);
        }
        counters_deinit(&counters);
    }
}

static void undecided_answers_count_by_policy_and_reason(void **state)
{
    (void)state;
    struct counters counters;
    assert_int_equal(counters_init(&counters, LIMITS), 0);
    struct weir_decision refused = {
        .limit = 1, .outcome = WEIR_REFUSED, .policy = WEIR_POLICY_CLOSED, .reason = WEIR_REASON_FULL
    };
    struct weir_answer answer = { .decision = refused, .count = 1, .each = { refused } };
    counters_decision(&counters, &answer);
    uint64_t total = 0;
    for (size_t i = 0; i < (size_t)LIMITS * WEIR_POLICY_COUNT * WEIR_REASON_COUNT; i++)
        total += counters.undecided[i];
    assert_int_equal(total, 1);
    size_t index = (1 * WEIR_POLICY_COUNT + WEIR_POLICY_CLOSED) * WEIR_REASON_COUNT + WEIR_REASON_FULL;
    assert_int_equal(counters.undecided[index], 1);
    counters_deinit(&counters);
}

static void times_fall_into_the_bucket_of_their_mean(void **state)
{
    static const struct {
        const char *why;
        uint64_t count;
        weir_ns ns;
        size_t bucket;
    } times[] = {
        { "bounds are inclusive", 1, 1000, 0 },
        { "and 1 ns more is the next", 1, 1001, 1 },
        { "ten in 20 us are 2 us each", 10, 20000, 1 },
        { "a second", 1, WEIR_SECOND, COUNTERS_TIMES - 1 },
        { "above the last bound", 1, WEIR_SECOND + 1, COUNTERS_TIMES },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct counters counters;
        assert_int_equal(counters_init(&counters, LIMITS), 0);
        counters_time(&counters, times[i].count, times[i].ns);
        expect_row(counters.times[times[i].bucket] == times[i].count, times[i].why);
        expect_row(counters.time_sum_ns == times[i].ns, times[i].why);
        counters_deinit(&counters);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_counts_where_it_should),
        cmocka_unit_test(undecided_answers_count_by_policy_and_reason),
        cmocka_unit_test(times_fall_into_the_bucket_of_their_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
