// SPDX-License-Identifier: Apache-2.0
/*
 * test_denied.c - keys known to be refused: for how long an answer holds, whom it covers, what makes it untrue.
 */
#include "fleet/denied.h"
#include "support/random.h"
#include "support/unit.h"

#define MS WEIR_MILLISECOND
#define US WEIR_MICROSECOND

static const uint8_t secret[16] = "sixteen bytes ..";
static struct denied *denied;

static int open_table(void **state)
{
    (void)state;
    return denied_new(&denied, secret);
}

static int close_table(void **state)
{
    (void)state;
    denied_free(denied);
    return 0;
}

static void an_answer_holds_while_its_numbers_do(void **state)
{
    (void)state;
    static const struct weir_limit bucket = { .algorithm = WEIR_TOKEN_BUCKET },
                                   leaky = { .algorithm = WEIR_LEAKY_BUCKET },
                                   fixed = { .algorithm = WEIR_FIXED_WINDOW },
                                   sliding = { .algorithm = WEIR_SLIDING_WINDOW },
                                   log = { .algorithm = WEIR_SLIDING_LOG };
    /* Ten in a second: one token every 100 ms. */
    static const struct weir_shared_size size = { .tick = US, .capacity = 10, .count = 1, .period = 100000 };
    static const struct weir_shared_size thirds = { .tick = US, .capacity = 10, .count = 3, .period = 1000000 };
    static const struct weir_shared_size never = { .tick = US, .capacity = 10, .count = 0, .period = 0 };
    static const struct row {
        const char *why;
        const struct weir_limit *limit;
        const struct weir_shared_size *size;
        uint64_t cost, remaining;
        weir_ns retry_after, holds;
    } rows[] = {
        { "one missing: until it is there", &bucket, &size, 1, 0, 40 * MS, 40 * MS },
        { "the same with more", &bucket, &size, 5, 4, 40 * MS, 40 * MS },
        { "three missing: until the first of them, a tick early", &bucket, &size, 3, 0, 240 * MS,
          40 * MS - US },
        { "leaky is the same", &leaky, &size, 3, 0, 240 * MS, 40 * MS - US },
        { "thirds: the time of two is rounded up", &bucket, &thirds, 3, 0, 700 * MS,
          700 * MS - 666667 * US - US },
        { "the next token is due at once", &bucket, &size, 3, 0, 200 * MS, 0 },
        { "nothing ever comes back", &bucket, &never, 3, 1, WEIR_NO_TIME, 0 },
        { "nothing ever comes back, one missing", &bucket, &never, 2, 1, WEIR_NO_TIME, WEIR_NO_TIME },
        { "a fixed window: until it ends", &fixed, &size, 7, 2, 900 * MS, 900 * MS },
        { "a sliding one may say another number any time", &sliding, &size, 7, 2, 900 * MS, 0 },
        { "but for the last one", &sliding, &size, 3, 2, 900 * MS, 900 * MS },
        { "a log as well", &log, &size, 7, 2, 900 * MS, 0 },
        { "a log, the last one", &log, &size, 1, 0, 900 * MS, 900 * MS },
        { "there is enough: not a refusal of this limit's numbers", &fixed, &size, 2, 2, 900 * MS, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_row(
            denied_holds(rows[i].limit, rows[i].size, rows[i].cost, rows[i].remaining, rows[i].retry_after)
                == rows[i].holds,
            rows[i].why);
}

static void some_limits_must_be_asked(void **state)
{
    (void)state;
    assert_true(denied_may_keep(&(struct weir_limit){ .algorithm = WEIR_SLIDING_LOG }));
    assert_false(denied_may_keep(&(struct weir_limit){ .algorithm = WEIR_CONCURRENCY }));
    assert_false(denied_may_keep(&(struct weir_limit){ .refused = WEIR_REFUSAL_CHARGED }));
    assert_false(denied_may_keep(&(struct weir_limit){ .retries_free_within = 1 }));
}

static void learn(uint64_t hash, uint64_t cost, weir_ns sent_at, weir_ns holds)
{
    const struct denied_seen seen = { cost,  sent_at,
                                      holds, denied_generation(denied),
                                      5,     { cost - 1, sent_at + holds + 7, 99 } };
    denied_learn(denied, hash, &seen);
}

static bool finds(uint64_t hash, uint64_t cost, weir_ns now)
{
    struct denied_answer answer;
    bool is_there;
    bool is_found = denied_find(denied, hash, 5, cost, now, &answer, &is_there);
    assert_true(!is_found || (is_there && answer.remaining == cost - 1 && answer.reset_at == 99));
    return is_found;
}

static void only_the_same_cost_and_only_in_its_time(void **state)
{
    (void)state;
    assert_false(finds(1, 3, 1000));
    learn(1, 3, 1000, 50);
    assert_true(finds(1, 3, 1000));
    assert_true(finds(1, 3, 1049));
    assert_false(finds(1, 3, 1050));
    assert_false(finds(1, 3, 999));  /* a clock that is behind */
    assert_false(finds(1, 2, 1010)); /* it may fit */
    assert_false(finds(1, 4, 1010)); /* its numbers are others */
    assert_false(finds(2, 3, 1010));
    struct denied_answer answer;
    bool is_there;
    assert_false(denied_find(denied, 1, 6, 3, 1010, &answer, &is_there)); /* another request */
    assert_true(is_there);
    learn(1, 2, 1020, 50); /* the newer one replaces it */
    assert_true(finds(1, 2, 1030) && !finds(1, 3, 1030));
    learn(1, 3, 1010, 50); /* an older one comes in late */
    assert_true(finds(1, 2, 1030));
}

static void no_answer_is_trusted_for_long(void **state)
{
    (void)state;
    learn(1, 1, 1000, WEIR_NO_TIME);
    assert_true(finds(1, 1, 1000 + DENIED_TRUST_NS - 1));
    assert_false(finds(1, 1, 1000 + DENIED_TRUST_NS));
}

static void what_is_given_back_makes_it_untrue(void **state)
{
    (void)state;
    learn(1, 1, 1000, 500);
    denied_drop(denied, 1, 1100);
    assert_false(finds(1, 1, 1100));
    learn(1, 1, 1050, 500); /* asked before, on another connection, and heard after */
    assert_false(finds(1, 1, 1110));
    learn(1, 1, 1100, 500);
    assert_false(finds(1, 1, 1110)); /* of the same instant nobody knows */
    learn(1, 1, 1101, 500);
    assert_true(finds(1, 1, 1110));
}

static void another_contract_knows_nothing(void **state)
{
    (void)state;
    const struct denied_seen before = { 1, 1200, 500, denied_generation(denied), 5, { 0, 1700, 99 } };
    learn(1, 1, 1000, 500);
    denied_changed(denied);
    assert_false(finds(1, 1, 1100));
    denied_learn(denied, 1, &before); /* asked under the old one */
    assert_false(finds(1, 1, 1300));
    learn(1, 1, 1400, 500);
    assert_true(finds(1, 1, 1500));
}

static void keys_and_sizes_are_apart(void **state)
{
    (void)state;
    struct weir_shared_size size = { .tick = US, .capacity = 10, .count = 1, .period = 5 };
    uint64_t hash = denied_hash(denied, SLICE("weir:1:{a}:x:b"), &size);
    assert_true(hash == denied_hash(denied, SLICE("weir:1:{a}:x:b"), &size));
    assert_true(hash != denied_hash(denied, SLICE("weir:1:{b}:x:b"), &size));
    size.capacity = 11;
    assert_true(hash != denied_hash(denied, SLICE("weir:1:{a}:x:b"), &size));
}

static void the_table_is_bounded_and_the_soonest_goes(void **state)
{
    (void)state;
    struct random random = { 1 };
    /* Five in one set of four: the one that ends soonest is gone. */
    for (uint64_t i = 0; i < 5; i++)
        learn(7 + i * DENIED_ENTRIES / 4, 1, 1000, 100 + (i * 3 + 2) % 5);
    size_t known = 0;
    for (uint64_t i = 0; i < 5; i++) {
        bool is_found = finds(7 + i * DENIED_ENTRIES / 4, 1, 1050);
        known += is_found;
        assert_true(is_found || (i * 3 + 2) % 5 == 0 || i == 4);
    }
    assert_int_equal(known, 4);
    for (int i = 0; i < 200000; i++)
        learn(random_u64(&random), 1, 2000 + (weir_ns)i, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_holds_while_its_numbers_do),
        cmocka_unit_test(some_limits_must_be_asked),
        cmocka_unit_test_setup_teardown(only_the_same_cost_and_only_in_its_time, open_table, close_table),
        cmocka_unit_test_setup_teardown(no_answer_is_trusted_for_long, open_table, close_table),
        cmocka_unit_test_setup_teardown(what_is_given_back_makes_it_untrue, open_table, close_table),
        cmocka_unit_test_setup_teardown(another_contract_knows_nothing, open_table, close_table),
        cmocka_unit_test_setup_teardown(keys_and_sizes_are_apart, open_table, close_table),
        cmocka_unit_test_setup_teardown(the_table_is_bounded_and_the_soonest_goes, open_table, close_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
