// SPDX-License-Identifier: Apache-2.0
/*
 * P12 through a pause: a composite loses a race, is stopped for ten seconds, and only then gives back. What refill has
 * replaced meanwhile must not come back as well, or the next callers get it twice.
 *
 * The test is the clock that composite.c asks: at the first question somebody drains the other limit, at the second ten
 * seconds have passed.
 */
#include "support/unit.h"

static uint64_t fake_clock(void);
#define clock_monotonic fake_clock
#include "../../src/composite.c"
#undef clock_monotonic

#define S WEIR_SECOND

static struct weir *weir;
static weir_limit_id ours, theirs;
static int questions;

static uint64_t fake_clock(void)
{
    struct weir_decision decision;
    if (questions++ == 0) {
        assert_int_equal(weir_check(weir, theirs, "b", 1, 1, 0, &decision), 0);
        return 100 * S;
    }
    return 110 * S;
}

static int passed_of(const char *key, weir_ns now, int times)
{
    struct weir_decision decision;
    int passed = 0;
    for (int i = 0; i < times; i++) {
        assert_int_equal(weir_check(weir, ours, key, strlen(key), 1, now, &decision), 0);
        passed += decision.outcome == WEIR_ALLOW;
    }
    return passed;
}

static void what_refill_replaced_does_not_come_back(void **state)
{
    (void)state;
    int undone = 0;
    for (int i = 0; i < 16; i++) {
        const uint8_t secret[16] = { (uint8_t)i };
        assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 64, .secret = secret }), 0);
        assert_int_equal(
            weir_limit_add(weir, &(struct weir_limit){ .name = "a", .rate = { 1, S }, .burst = 10 }, &ours), 0);
        assert_int_equal(
            weir_limit_add(weir, &(struct weir_limit){ .name = "b", .rate = { 1, S }, .burst = 1 }, &theirs),
            0);
        struct weir_ask asks[] = { { ours, "a", 1, 10 }, { theirs, "b", 1, 1 } };
        struct weir_decision decision;
        questions = 0;
        assert_int_equal(weir_admit(weir, asks, 2, 0, NULL, &decision), 0);
        assert_int_equal(decision.outcome, WEIR_DENY);
        undone += questions == 2
                  && passed_of("a", 0, 1) == 0; /* it was charged first, and the ten seconds stay paid */
        assert_int_equal(passed_of("a", 10 * S, 20), 10);
        assert_int_equal(passed_of("a", 10 * S, 1), 0);
        weir_free(weir);
    }
    assert_true(undone > 0 && undone < 16); /* either order of charging was met */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_refill_replaced_does_not_come_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
