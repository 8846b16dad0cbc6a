// SPDX-License-Identifier: Apache-2.0
/*
 * test_client_budget.c - the budget of many requests: gRPC's vector, time that gives back, stamps out of order, threads.
 *
 * LABELS: threads
 */
#include <pthread.h>

#include "support/random.h"
#include "support/unit.h"
#include "weir_retry.h"

#define S WEIR_SECOND

__extension__ typedef unsigned __int128 wide;

/* gRPC A6: token_count starts at 10; five failures leave 5.0, which is not more than half; one success makes it 5.1. */
static void test_grpc_retry_tokens(void **unused)
{
    (void)unused;
    struct weir_retry_budget budget = WEIR_RETRY_BUDGET_FULL;
    for (uint64_t left = 9; left >= 6; left--) {
        assert_true(weir_retry_budget_failure(&budget, 0));
        assert_int_equal(weir_retry_budget_left(&budget, 0), left * 1000);
    }
    assert_false(weir_retry_budget_failure(&budget, 0));
    assert_int_equal(weir_retry_budget_left(&budget, 0), 5000);
    weir_retry_budget_success(&budget, 0);
    assert_int_equal(weir_retry_budget_left(&budget, 0), 5100);

    /* On again: ten more successes, and the failure behind them leaves 5.1. */
    for (int i = 0; i < 10; i++)
        weir_retry_budget_success(&budget, 0);
    assert_int_equal(weir_retry_budget_left(&budget, 0), 6100);
    assert_true(weir_retry_budget_failure(&budget, 0));
    assert_int_equal(weir_retry_budget_left(&budget, 0), 5100);
}

static const struct row {
    const char *why;
    weir_ns at;
    int failures, successes;
    uint64_t left;  /* thousandths, afterwards */
    bool may_retry; /* after the last failure */
} rows[] = {
    /* 4 tokens, a quarter of one per success, 2 a second */
    { "a new budget is whole", 5 * S, 0, 0, 4000, false },
    { "one failure of four", 5 * S, 1, 0, 3000, true },
    { "two leave just the half", 5 * S, 1, 0, 2000, false },
    { "a success gives a quarter back", 5 * S, 0, 1, 2250, false },
    { "half a second gives one", 5 * S + S / 2, 0, 0, 3250, false },
    { "to the thousandth, rounded down", 5 * S + S / 2 + 499999, 0, 0, 3250, false },
    { "which half a millisecond is", 5 * S + S / 2 + 500000, 0, 0, 3251, false },
    { "no more than four, however long", 3600 * S, 0, 0, 4000, false },
    { "and successes beyond it are lost", 3600 * S, 0, 9, 4000, false },
    { "so one failure counts at once", 3600 * S, 1, 0, 3000, true },
    { "many failures end at none", 3600 * S, 99, 0, 0, false },
    { "an older stamp mints nothing", 3500 * S, 0, 0, 0, false },
    { "nor does a failure at one", 3500 * S, 1, 0, 0, false },
    { "a success at one", 3500 * S, 0, 1, 0, false },
    { "counts from the newest stamp on", 3600 * S, 0, 0, 250, false },
    { "a second later", 3601 * S, 0, 0, 2250, false },
};

static void test_time_and_successes_give_back(void **unused)
{
    (void)unused;
    struct weir_retry_budget budget = { 4, 250, 2, 0 };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool may_retry = false;
        for (int n = 0; n < rows[i].failures; n++)
            may_retry = weir_retry_budget_failure(&budget, rows[i].at);
        for (int n = 0; n < rows[i].successes; n++)
            weir_retry_budget_success(&budget, rows[i].at);
        expect_row(weir_retry_budget_left(&budget, rows[i].at) == rows[i].left, rows[i].why);
        expect_row(may_retry == rows[i].may_retry, rows[i].why);
    }
}

static void test_extremes(void **unused)
{
    (void)unused;
    /* The clock's last instant, and the fastest and largest budget. */
    struct weir_retry_budget largest = { 1000, 1000, 1000, 0 };
    assert_true(weir_retry_budget_failure(&largest, WEIR_NO_TIME));
    assert_int_equal(weir_retry_budget_left(&largest, WEIR_NO_TIME), 999000);
    weir_retry_budget_success(&largest, WEIR_NO_TIME);
    assert_int_equal(weir_retry_budget_left(&largest, WEIR_NO_TIME), 1000000);
    /* One token: its half is less than a failure, so nothing is ever retried. */
    struct weir_retry_budget smallest = { 1, 1000, 0, 0 };
    assert_false(weir_retry_budget_failure(&smallest, 0));
    assert_int_equal(weir_retry_budget_left(&smallest, 0), 0);
}

/* The bound holds for stamps in any order: it counts the time between the earliest and the latest. */
static void P41_stamps_in_any_order_mint_nothing(void **unused)
{
    (void)unused;
    struct random random = { random_seed(43) };
    for (int run = 0; run < 200; run++) {
        struct weir_retry_budget budget = { 1 + (uint32_t)random_below(&random, 12),
                                            (uint32_t)random_below(&random, 300),
                                            (uint32_t)random_below(&random, 5), 0 };
        weir_ns first = 1000 * S;
        weir_ns last = first;
        uint64_t retries = 0;
        uint64_t successes = 0;
        for (int i = 0; i < 2000; i++) {
            weir_ns at = 1000 * S + random_below(&random, 20 * S);
            first = at < first || i == 0 ? at : first;
            last = at > last || i == 0 ? at : last;
            if (random_below(&random, 3) != 0) {
                retries += weir_retry_budget_failure(&budget, at);
            } else {
                weir_retry_budget_success(&budget, at);
                successes++;
            }
            wide allowed = (wide)budget.ratio * successes + 500 * budget.max_tokens
                           + (wide)budget.per_second * (last - first) / 1000000;
            assert_true((wide)retries * 1000 <= allowed);
        }
    }
}

/* ---- Threads -------------------------------------------------------------------------------------------------- */

#define THREADS 8
#define ROUNDS 20000

struct worker {
    pthread_t thread;
    struct weir_retry_budget *budget;
    uint64_t retries, successes;
};

static void *fail_and_succeed(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < ROUNDS; i++)
        if (i % 4 == 0) {
            weir_retry_budget_success(worker->budget, S);
            worker->successes++;
        } else {
            worker->retries += weir_retry_budget_failure(worker->budget, S);
        }
    return NULL;
}

static uint64_t run_threads(struct weir_retry_budget *budget, uint64_t *successes)
{
    static struct worker workers[THREADS];
    uint64_t retries = 0;
    *successes = 0;
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .budget = budget };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, fail_and_succeed, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        retries += workers[i].retries;
        *successes += workers[i].successes;
    }
    return retries;
}

/* No count is lost: with time frozen and no successes that give back, the grants are exactly those of one thread. */
static void P41_threads_are_granted_exactly_the_budget(void **unused)
{
    (void)unused;
    struct weir_retry_budget budget = { 1000, 0, 0, 0 };
    uint64_t successes;
    assert_int_equal(run_threads(&budget, &successes), 499);
    assert_int_equal(weir_retry_budget_left(&budget, S), 0);
}

static void P41_threads_share_one_bound(void **unused)
{
    (void)unused;
    struct weir_retry_budget budget = { 20, 100, 3, 0 };
    uint64_t successes;
    uint64_t retries = run_threads(&budget, &successes);
    assert_true(retries >= 9); /* what the full budget alone grants */
    assert_true(retries * 1000 <= 100 * successes + 500 * 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grpc_retry_tokens),
        cmocka_unit_test(test_time_and_successes_give_back),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(P41_stamps_in_any_order_mint_nothing),
        cmocka_unit_test(P41_threads_are_granted_exactly_the_budget),
        cmocka_unit_test(P41_threads_share_one_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
