// SPDX-License-Identifier: Apache-2.0
/* test_counters.c - which answers count for which limit, and in which bucket a time falls. */
#include "support/unit.h"

#include "net/counters.h"

#define LIMITS 3

/* Where the three limits are counted: rows of two blocks, in no order. */
static const uint32_t places[LIMITS] = { 70, 3, 0 };

static const struct weir_contract_limit limits[LIMITS]; /* token buckets */

static void claim_all(struct counters *counters)
{
    memset(counters, 0, sizeof *counters);
    for (size_t i = 0; i < LIMITS; i++)
        assert_true(counters_claim(counters, places[i]));
}

static uint64_t decisions(const struct counters *counters, size_t limit, enum weir_outcome outcome)
{
    return limit == LIMITS ? counter_read(&counters->none[outcome])
                           : counter_read(&counters_row(counters, places[limit])->decisions[outcome]);
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
        static struct counters counters;
        claim_all(&counters);
        struct weir_answer answer = { .decision = said(row->binding.limit, row->binding.outcome),
                                      .limits = limits,
                                      .count = row->each_count };
        for (size_t j = 0; j < row->each_count; j++)
            answer.each[j] = said(row->each[j].limit, row->each[j].outcome);
        counters_decision(&counters, places, &answer, false);
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
    static struct counters counters;
    claim_all(&counters);
    struct weir_decision refused = {
        .limit = 1, .outcome = WEIR_REFUSED, .policy = WEIR_POLICY_CLOSED, .reason = WEIR_REASON_FULL
    };
    struct weir_answer answer = { .decision = refused, .limits = limits, .count = 1, .each = { refused } };
    counters_decision(&counters, places, &answer, false);
    uint64_t total = 0;
    for (size_t i = 0; i < LIMITS; i++)
        for (size_t policy = 0; policy < WEIR_POLICY_COUNT; policy++)
            for (size_t reason = 0; reason < WEIR_REASON_COUNT; reason++)
                total += counters_row(&counters, places[i])->undecided[policy][reason];
    assert_int_equal(total, 1);
    assert_int_equal(counters_row(&counters, places[1])->undecided[WEIR_POLICY_CLOSED][WEIR_REASON_FULL], 1);
    counters_deinit(&counters);
}

/* A local share decides, and no store did; a shared cell is decided as any. */
static void what_a_share_decides_counts_twice(void **state)
{
    static const struct {
        const char *why;
        enum weir_outcome outcome;
        enum weir_policy policy;
        enum weir_reason reason;
        uint64_t undecided;
    } each[] = {
        { "allowed out of the share", WEIR_ALLOW, WEIR_POLICY_LOCAL, WEIR_REASON_STORE, 1 },
        { "denied by it", WEIR_DENY, WEIR_POLICY_LOCAL, WEIR_REASON_STORE, 1 },
        { "by the store", WEIR_ALLOW, WEIR_POLICY_NONE, WEIR_REASON_NONE, 0 },
        { "on a cell that keys share", WEIR_ALLOW, WEIR_POLICY_OVERFLOW, WEIR_REASON_FULL, 0 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(each); i++) {
        static struct counters counters;
        claim_all(&counters);
        struct weir_decision decision = said(1, each[i].outcome);
        decision.policy = each[i].policy;
        decision.reason = each[i].reason;
        struct weir_answer answer = {
            .decision = decision, .limits = limits, .count = 1, .each = { decision }
        };
        counters_decision(&counters, places, &answer, false);
        const struct counter_row *row = counters_row(&counters, places[1]);
        expect_row(row->decisions[each[i].outcome] == 1, each[i].why);
        expect_row(row->undecided[each[i].policy][each[i].reason] == each[i].undecided, each[i].why);
        counters_deinit(&counters);
    }
}

/* What only says what would have been counts apart, also where the request was refused by another. */
static void watched_limits_count_apart(void **state)
{
    (void)state;
    static struct counters counters;
    claim_all(&counters);
    struct weir_answer answer = { .decision = said(2, WEIR_DENY),
                                  .limits = limits,
                                  .count = 3,
                                  .watched = 3,
                                  .each = { said(0, WEIR_DENY), said(1, WEIR_ALLOW), said(2, WEIR_DENY) } };
    counters_decision(&counters, places, &answer, false);
    assert_int_equal(counters_row(&counters, places[0])->watched[WEIR_DENY], 1);
    assert_int_equal(counters_row(&counters, places[1])->watched[WEIR_ALLOW], 1);
    assert_int_equal(counters_row(&counters, places[2])->watched[WEIR_DENY], 0);
    for (size_t limit = 0; limit <= LIMITS; limit++)
        assert_int_equal(decisions(&counters, limit, WEIR_DENY), limit == 2);

    answer = (struct weir_answer){ .decision = { .outcome = WEIR_ALLOW, .limit = WEIR_NO_LIMIT },
                                   .limits = limits,
                                   .count = 1,
                                   .watched = 1,
                                   .each = { said(0, WEIR_DENY) } };
    counters_decision(&counters, places, &answer, false);
    assert_int_equal(counters_row(&counters, places[0])->watched[WEIR_DENY], 2);
    assert_int_equal(decisions(&counters, LIMITS, WEIR_ALLOW), 1); /* no limit bound it */
    counters_deinit(&counters);
}

/* A door that gives no permits takes none: what a concurrency limit says there is a look. */
static void looks_count_apart(void **state)
{
    struct weir_contract_limit mixed[LIMITS] = { [1] = { .algorithm = WEIR_CONCURRENCY } };
    static struct counters counters;
    (void)state;
    claim_all(&counters);
    struct weir_answer answer = { .decision = said(0, WEIR_ALLOW),
                                  .limits = mixed,
                                  .count = 2,
                                  .each = { said(0, WEIR_ALLOW), said(1, WEIR_ALLOW) } };
    counters_decision(&counters, places, &answer, false);
    assert_int_equal(decisions(&counters, 0, WEIR_ALLOW), 1);
    assert_int_equal(decisions(&counters, 1, WEIR_ALLOW), 0);
    assert_int_equal(counters_row(&counters, places[1])->looks[WEIR_ALLOW], 1);
    counters_decision(&counters, places, &answer, true);
    assert_int_equal(decisions(&counters, 1, WEIR_ALLOW), 1);
    assert_int_equal(counters_row(&counters, places[1])->looks[WEIR_ALLOW], 1);

    answer.decision = answer.each[1] = said(1, WEIR_DENY);
    counters_decision(&counters, places, &answer, false);
    assert_int_equal(counters_row(&counters, places[1])->looks[WEIR_DENY], 1);
    for (size_t limit = 0; limit <= LIMITS; limit++) /* by no limit that took part in deciding */
        assert_int_equal(decisions(&counters, limit, WEIR_DENY), 0);
    counters_deinit(&counters);
}

static void waits_fall_into_their_buckets(void **state)
{
    static const struct {
        const char *why;
        weir_ns waited;
        size_t bucket;
    } waits[] = {
        { "not at all", 0, 0 },
        { "a millisecond is within its bound", WEIR_MILLISECOND, 0 },
        { "a nanosecond more is not", WEIR_MILLISECOND + 1, 1 },
        { "a fifth of a second", 200 * WEIR_MILLISECOND, 7 },
        { "a hundred seconds", 100 * WEIR_SECOND, COUNTERS_WAITS - 1 },
        { "a day", 86400 * WEIR_SECOND, COUNTERS_WAITS },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        static struct counters counters;
        memset(&counters, 0, sizeof counters);
        counters_wait(&counters, COUNTERS_NO_ROW, WAIT_SERVED, waits[i].waited);
        counters_wait(&counters, COUNTERS_NO_ROW, WAIT_TIMEOUT,
                      WEIR_SECOND); /* whoever was not served tells nothing of waits */
        expect_row(counters.wait_times[waits[i].bucket] == 1, waits[i].why);
        expect_row(counters.wait_sum_ns == waits[i].waited, waits[i].why);
        expect_row(counters.waits[WAIT_SERVED] == 1 && counters.waits[WAIT_TIMEOUT] == 1, waits[i].why);
    }
}

/* A row that another limit gets begins at zero; a limit without a row is not counted, and nothing breaks. */
static void rows_are_given_at_zero(void **state)
{
    (void)state;
    static struct counters counters;
    claim_all(&counters);
    struct weir_answer answer = {
        .decision = said(1, WEIR_ALLOW), .limits = limits, .count = 1, .each = { said(1, WEIR_ALLOW) }
    };
    counters_decision(&counters, places, &answer, false);
    assert_true(counters_claim(&counters, places[1]));
    assert_int_equal(decisions(&counters, 1, WEIR_ALLOW), 0);
    assert_true(counters_claim(&counters, COUNTERS_ROWS - 1));
    const uint32_t nowhere[LIMITS] = { COUNTERS_NO_ROW, COUNTERS_NO_ROW, COUNTERS_NO_ROW };
    counters_decision(&counters, nowhere, &answer, false);
    assert_int_equal(decisions(&counters, 1, WEIR_ALLOW), 0);
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
        static struct counters counters;
        claim_all(&counters);
        counters_time(&counters, DOOR_AUTH, times[i].count, times[i].ns);
        expect_row(counters.times[DOOR_AUTH][times[i].bucket] == times[i].count, times[i].why);
        expect_row(counters.time_sum_ns[DOOR_AUTH] == times[i].ns, times[i].why);
        counters_deinit(&counters);
    }
}

/* A reload for which memory was short. */
static void limits_without_rows_go_uncounted(void **state)
{
    (void)state;
    struct counters counters;
    claim_all(&counters);
    struct weir_answer answer = { .limits = limits, .count = 1, .decision = said(1, WEIR_ALLOW) };
    answer.each[0] = answer.decision;
    counters_decision(&counters, NULL, &answer, false);
    answer.watched = 1;
    counters_decision(&counters, NULL, &answer, false);
    for (size_t i = 0; i <= LIMITS; i++)
        assert_int_equal(decisions(&counters, i, WEIR_ALLOW), 0);
    counters_deinit(&counters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_counts_where_it_should),
        cmocka_unit_test(undecided_answers_count_by_policy_and_reason),
        cmocka_unit_test(what_a_share_decides_counts_twice),
        cmocka_unit_test(watched_limits_count_apart),
        cmocka_unit_test(looks_count_apart),
        cmocka_unit_test(waits_fall_into_their_buckets),
        cmocka_unit_test(rows_are_given_at_zero),
        cmocka_unit_test(limits_without_rows_go_uncounted),
        cmocka_unit_test(times_fall_into_the_bucket_of_their_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
