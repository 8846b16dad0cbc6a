// SPDX-License-Identifier: Apache-2.0
/*
 * weir_lost_at_set(): what is absent counts as spent at an instant that moves on; and weir_set_size(), which tells what size a
 * key has.
 */
#include "support/unit.h"
#include "weir.h"

#define BURST 10

static struct weir *weir_of(enum weir_algorithm algorithm, enum weir_state_lost lost, weir_limit_id *limit)
{
    struct weir *weir;
    struct weir_limit spec = { .name = "l", .algorithm = algorithm, .state_lost = lost };
    if (algorithm == WEIR_CONCURRENCY) {
        spec.at_most = BURST;
        spec.hold = 10 * WEIR_SECOND;
    } else {
        spec.rate = (struct weir_quota){ BURST, 10 * WEIR_SECOND };
        spec.burst = algorithm == WEIR_TOKEN_BUCKET ? BURST : 0;
    }
    assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 100 }), 0);
    assert_int_equal(weir_limit_add(weir, &spec, limit), 0);
    return weir;
}

static uint64_t left(struct weir *weir, weir_limit_id limit, const char *key, weir_ns now)
{
    struct weir_decision decision;
    assert_int_equal(weir_check(weir, limit, key, 1, 0, now, &decision), 0);
    return decision.remaining;
}

/* Everything is there again one period later, whatever the algorithm; at once nothing is. */
static void absent_keys_are_spent_anew(void **state)
{
    static const enum weir_algorithm all[] = { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW,
                                               WEIR_SLIDING_LOG, WEIR_CONCURRENCY };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weir_limit_id limit;
        struct weir *weir = weir_of(all[i], WEIR_LOST_EMPTY, &limit);
        assert_int_equal(left(weir, limit, "a", 100 * WEIR_SECOND), BURST);
        weir_lost_at_set(weir, 100 * WEIR_SECOND);
        assert_int_equal(left(weir, limit, "a", 100 * WEIR_SECOND), 0);
        assert_int_equal(left(weir, limit, "a", 120 * WEIR_SECOND), BURST);
        weir_lost_at_set(weir, 130 * WEIR_SECOND);
        weir_lost_at_set(weir, 110 * WEIR_SECOND); /* older: nothing */
        assert_int_equal(left(weir, limit, "b", 130 * WEIR_SECOND), 0);
        weir_free(weir);
    }
}

static void a_bucket_fills_from_that_instant(void **state)
{
    weir_limit_id limit;
    struct weir *weir = weir_of(WEIR_TOKEN_BUCKET, WEIR_LOST_EMPTY, &limit);
    (void)state;
    weir_lost_at_set(weir, 50 * WEIR_SECOND);
    assert_int_equal(left(weir, limit, "a", 50 * WEIR_SECOND + WEIR_SECOND - 1), 0);
    assert_int_equal(left(weir, limit, "a", 51 * WEIR_SECOND), 1);
    weir_free(weir);
}

static void keys_in_the_table_and_limits_that_begin_full_do_not_care(void **state)
{
    weir_limit_id limit;
    struct weir_decision decision;
    struct weir *weir = weir_of(WEIR_TOKEN_BUCKET, WEIR_LOST_EMPTY, &limit);
    (void)state;
    assert_int_equal(weir_check(weir, limit, "a", 1, 3, 50 * WEIR_SECOND, &decision), 0);
    weir_lost_at_set(weir, 50 * WEIR_SECOND);
    assert_int_equal(left(weir, limit, "a", 50 * WEIR_SECOND), BURST - 3);
    weir_free(weir);

    weir = weir_of(WEIR_TOKEN_BUCKET, WEIR_LOST_FULL, &limit);
    weir_lost_at_set(weir, 50 * WEIR_SECOND);
    assert_int_equal(left(weir, limit, "a", 50 * WEIR_SECOND), BURST);
    weir_free(weir);
}

/* A change makes other shapes: they know of it too, and those after them. */
static void a_change_does_not_forget_it(void **state)
{
    weir_limit_id limit;
    struct weir *weir = weir_of(WEIR_TOKEN_BUCKET, WEIR_LOST_EMPTY, &limit);
    (void)state;
    for (uint64_t burst = 20; burst < 23; burst++) {
        struct weir_change *change;
        struct weir_limit spec = {
            .name = "l", .rate = { BURST, 10 * WEIR_SECOND }, .burst = burst, .state_lost = WEIR_LOST_EMPTY
        };
        assert_int_equal(weir_change_new(&change, weir), 0);
        assert_int_equal(weir_change_limit(change, &spec, &limit), 0);
        weir_lost_at_set(weir, burst * WEIR_SECOND); /* while it is built */
        assert_int_equal(weir_change_commit(change, burst * WEIR_SECOND, NULL, NULL), 0);
        weir_quiesce(weir, burst * WEIR_SECOND);
        assert_int_equal(left(weir, limit, "a", burst * WEIR_SECOND), 0);
    }
    weir_free(weir);
}

static void a_key_has_a_size(void **state)
{
    weir_limit_id limit;
    struct weir_size size;
    struct weir *weir = weir_of(WEIR_TOKEN_BUCKET, WEIR_LOST_FULL, &limit);
    (void)state;
    assert_int_equal(weir_override_add(weir, limit, "big", 3,
                                       &(struct weir_size){ .rate = { 7, WEIR_SECOND }, .burst = 70 }),
                     0);
    assert_int_equal(weir_override_add(weir, limit, "free", 4, &(struct weir_size){ .is_unlimited = true }), 0);
    const struct weir_set *set = weir_set_current(weir);

    assert_int_equal(weir_set_size(set, limit, "any", 3, &size), 0);
    assert_true(size.burst == BURST && size.rate.count == BURST && !size.is_unlimited);
    assert_int_equal(weir_set_size(set, limit, "big", 3, &size), 0);
    assert_true(size.burst == 70 && size.rate.count == 7 && size.rate.period == WEIR_SECOND);
    assert_int_equal(weir_set_size(set, limit, "free", 4, &size), 0);
    assert_true(size.is_unlimited);
    assert_int_equal(weir_set_size(set, 5, "any", 3, &size), WEIR_ERR_LIMIT);
    weir_free(weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_are_spent_anew),
        cmocka_unit_test(a_bucket_fills_from_that_instant),
        cmocka_unit_test(keys_in_the_table_and_limits_that_begin_full_do_not_care),
        cmocka_unit_test(a_change_does_not_forget_it),
        cmocka_unit_test(a_key_has_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
