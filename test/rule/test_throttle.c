// SPDX-License-Identifier: Apache-2.0
/*
 * test_throttle.c - limits that come with their requests, in injected time: the table of redis-cell's behaviour, and GCRA with numbers
 * that change from call to call against a model of three lines.
 */
#include "support/contracts.h"
#include "support/random.h"
#include "support/unit.h"

#define S WEIR_SECOND
#define MS WEIR_MILLISECOND

static const char contract[] = "weir: 1\nlimits:\n - { name: a, key: [], rate: 1/s, burst: 1 }\n";

static struct weir_contract *load(bool has_throttle)
{
    struct weir_contract *loaded;
    const struct weir_contract_options options = { .has_wall_offset = true, .has_throttle = has_throttle };
    assert_int_equal(weir_contract_parse(&loaded, contract, strlen(contract), "t.yaml", &options, NULL), 0);
    return loaded;
}

/* max_burst 4, one a second: wire-formats' table. */
static void the_table(void **state)
{
    static const struct {
        weir_ns at;
        uint64_t quantity, remaining;
        weir_ns reset, retry;
        enum weir_outcome outcome;
    } rows[] = {
        { 0, 6, 5, 0, WEIR_NO_TIME, WEIR_NEVER },
        { 0, 1, 4, S, 0, WEIR_ALLOW },
        { 0, 1, 3, 2 * S, 0, WEIR_ALLOW },
        { 0, 1, 2, 3 * S, 0, WEIR_ALLOW },
        { 0, 1, 1, 4 * S, 0, WEIR_ALLOW },
        { 0, 1, 0, 5 * S, 0, WEIR_ALLOW },
        { 0, 1, 0, 5 * S, S, WEIR_DENY },
        { 3 * S, 1, 2, 3 * S, 0, WEIR_ALLOW },
        { 3100 * MS, 1, 1, 3900 * MS, 0, WEIR_ALLOW },
        { 4 * S, 1, 1, 4 * S, 0, WEIR_ALLOW },
        { 8 * S, 1, 4, S, 0, WEIR_ALLOW },
        { 9500 * MS, 1, 4, S, 0, WEIR_ALLOW },
        { 9500 * MS, 0, 4, S, 0, WEIR_ALLOW },
        { 9500 * MS, 2, 2, 3 * S, 0, WEIR_ALLOW },
        { 9500 * MS, 5, 2, 3 * S, 3 * S, WEIR_DENY },
    };
    struct weir_contract *loaded = load(true);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir_decision decision;
        assert_int_equal(weir_contract_throttle(loaded, "k", 1, rows[i].quantity * S, 5 * S,
                                                rows[i].quantity == 0, rows[i].at, &decision),
                         0);
        weir_ns retry = decision.retry_at == WEIR_NO_TIME ? WEIR_NO_TIME : decision.retry_at - rows[i].at;
        if (decision.outcome != rows[i].outcome || decision.remaining / S != rows[i].remaining
            || decision.reset_at - rows[i].at != rows[i].reset || retry != rows[i].retry)
            fail_msg("row %zu: outcome %d remaining %llu reset %llu", i, (int)decision.outcome,
                     (unsigned long long)decision.remaining,
                     (unsigned long long)(decision.reset_at - rows[i].at));
        assert_int_equal(decision.limit, WEIR_NO_LIMIT);
    }
    weir_contract_free(loaded);
}

/* Costs and tolerances change from call to call; what is used is one number. P1, P7, P9, P10 for each call's own numbers. */
static void any_numbers(void **state)
{
    enum { KEYS = 8, CALLS = 1000000 };
    uint64_t full_at[KEYS] = { 0 };
    struct weir_contract *loaded = load(true);
    struct random random = { random_seed(7) };
    weir_ns now = 10 * S;
    (void)state;
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned key = (unsigned)random_below(&random, KEYS);
        uint64_t unit = UINT64_C(1) << random_below(&random, 40);
        uint64_t tolerance = random_below(&random, 20) * unit + random_below(&random, 3);
        uint64_t cost = random_below(&random, 6) * unit + random_below(&random, 3);
        bool is_peek = random_below(&random, 8) == 0;
        struct weir_decision decision;
        now += random_below(&random, 4) == 0 ? random_below(&random, 3 * unit) : random_below(&random, 2);
        uint64_t base = full_at[key] > now ? full_at[key] : now;
        uint64_t used = base - now;
        assert_int_equal(
            weir_contract_throttle(loaded, &key, sizeof key, cost, tolerance, is_peek, now, &decision), 0);
        enum weir_outcome want = cost > tolerance                        ? WEIR_NEVER
                                 : cost == 0 || used + cost <= tolerance ? WEIR_ALLOW
                                                                         : WEIR_DENY;
        if (decision.outcome != want)
            fail_msg("call %u: outcome %d, not %d", i, (int)decision.outcome, (int)want);
        if (want == WEIR_ALLOW && !is_peek && cost > 0)
            full_at[key] = base + cost;
        used = full_at[key] > now ? full_at[key] - now : 0;
        assert_int_equal(decision.remaining, used < tolerance ? tolerance - used : 0);
        assert_int_equal(decision.reset_at, now + used);
        if (want == WEIR_DENY)
            assert_int_equal(decision.retry_at, now + used + cost - tolerance);
    }
    weir_contract_free(loaded);
}

static void what_is_refused(void **state)
{
    static char long_key[WEIR_KEY_MAX + 1];
    struct weir_contract *without = load(false), *with = load(true);
    struct weir_decision decision;
    (void)state;
    assert_int_equal(weir_contract_throttle(without, "k", 1, 1, 1, false, 0, &decision), WEIR_ERR_LIMIT);
    assert_int_equal(weir_contract_throttle(with, long_key, sizeof long_key, 1, 1, false, 0, &decision),
                     WEIR_ERR_KEY);
    assert_int_equal(weir_contract_throttle(with, "k", 1, 1, WEIR_THROTTLE_MAX + 1, false, 0, &decision),
                     WEIR_ERR_RATE);
    assert_int_equal(
        weir_contract_throttle(with, "k", 1, WEIR_THROTTLE_MAX, WEIR_THROTTLE_MAX, false, 0, &decision), 0);
    assert_int_equal(decision.outcome, WEIR_ALLOW);
    assert_int_equal(weir_contract_limit_count(with), 1);
    weir_contract_free(without);
    weir_contract_free(with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(any_numbers),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
