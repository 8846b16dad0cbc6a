// SPDX-License-Identifier: Apache-2.0
/* What a new key is answered when all its sixteen candidates are live (P26), by policy. */
#include "store/kit.h"
#include "support/random.h"

/* Sixteen live keys with tags 1..16 fill the table of the smallest kit. */
static void fill(struct kit *kit, const struct shape *shape, weir_ns now)
{
    for (uint64_t tag = 1; tag <= 16; tag++)
        assert_int_equal(take(kit, shape, hash_at(kit, 0, tag), now, 1).outcome, WEIR_ALLOW);
}

static struct weir_limit limit_of(enum weir_when_full when_full)
{
    return (struct weir_limit){ .rate = { 1, WEIR_MINUTE }, .burst = 3, .when_full = when_full };
}

static void each_policy_answers_a_new_key(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_when_full when_full;
        enum weir_outcome outcome;
        enum weir_policy policy;
        enum weir_reason reason;
        weir_ns retry_at;
    } rows[] = {
        { "overflow decides, on the shared cell", WEIR_FULL_OVERFLOW, WEIR_ALLOW, WEIR_POLICY_OVERFLOW,
          WEIR_REASON_FULL, 0 },
        { "closed refuses, and knows no better time", WEIR_FULL_CLOSED, WEIR_REFUSED, WEIR_POLICY_CLOSED,
          WEIR_REASON_FULL, WEIR_NO_TIME },
        { "open lets pass without counting", WEIR_FULL_OPEN, WEIR_UNMETERED, WEIR_POLICY_OPEN, WEIR_REASON_FULL,
          0 },
        { "evict-least decides, in somebody's cell", WEIR_FULL_EVICT_LEAST, WEIR_ALLOW, WEIR_POLICY_NONE,
          WEIR_REASON_NONE, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 0);
        const struct shape *shape = kit_shape(&kit, limit_of(rows[i].when_full));
        fill(&kit, shape, 0);
        struct snapshot before = kit_snapshot(&kit);
        struct store_answer looked = peek(&kit, shape, hash_at(&kit, 0, 99), 0, 1);
        expect_row(kit_is_unchanged(&kit, before), rows[i].why);
        struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, 99), 0, 1);
        expect_row(answer.outcome == rows[i].outcome && answer.policy == rows[i].policy
                       && answer.reason == rows[i].reason && answer.report.retry_at == rows[i].retry_at,
                   rows[i].why);
        expect_row(looked.outcome == answer.outcome && looked.policy == answer.policy
                       && looked.reason == answer.reason,
                   rows[i].why);
        kit_close(&kit);
    }
}

static void a_known_key_is_decided_whatever_the_policy(void **state)
{
    (void)state;
    for (unsigned policy = 0; policy < WEIR_FULL_COUNT; policy++) {
        struct kit kit;
        kit_open(&kit, 9, 0);
        const struct shape *shape = kit_shape(&kit, limit_of((enum weir_when_full)policy));
        fill(&kit, shape, 0);
        for (uint64_t tag = 1; tag <= 16; tag++) {
            struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, tag), 0, 1);
            assert_int_equal(answer.outcome, WEIR_ALLOW);
            assert_int_equal(answer.policy, WEIR_POLICY_NONE);
            assert_int_equal(answer.report.remaining, 1);
        }
        kit_close(&kit);
    }
}

/* P26: all keys without a cell together stay within burst + rate * t of one key. */
static void overflowing_keys_share_one_budget(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW,
                                                      WEIR_SLIDING_LOG };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct kit kit;
        kit_open(&kit, 9, 1024);
        const struct shape *lasting =
            kit_shape(&kit, (struct weir_limit){ .rate = { 1, WEIR_DAY }, .burst = 1 });
        struct weir_limit five = { .algorithm = algorithms[i],
                                   .rate = { 5, WEIR_MINUTE },
                                   .burst = algorithms[i] == WEIR_TOKEN_BUCKET ? 5 : 0 };
        const struct shape *shape = kit_shape(&kit, five), *other = kit_shape(&kit, five);
        fill(&kit, lasting, 0);
        unsigned passed = 0;
        for (uint64_t tag = 100; tag < 200; tag++) {
            struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, tag), 0, 1);
            assert_int_equal(answer.policy, WEIR_POLICY_OVERFLOW);
            passed += answer.outcome == WEIR_ALLOW;
        }
        assert_int_equal(passed, 5);
        assert_int_equal(store_overflows(kit.store, shape), 100);
        /* Another limit has an overflow cell of its own. */
        assert_int_equal(take(&kit, other, hash_at(&kit, 0, 300), 0, 5).outcome, WEIR_ALLOW);
        assert_int_equal(store_overflows(kit.store, other), 1);
        assert_int_equal(kit_stats(&kit, 0).overflows, 101);
        /* A peek is not counted, and writes nothing. */
        struct snapshot before = kit_snapshot(&kit);
        assert_int_equal(peek(&kit, shape, hash_at(&kit, 0, 300), 0, 1).outcome, WEIR_DENY);
        assert_true(kit_is_unchanged(&kit, before));
        kit_close(&kit);
    }
}

/* P26: of one key, overflowed and then placed, at most twice the bound. */
static void a_placed_key_starts_whole_after_overflowing(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *brief = kit_shape(&kit, (struct weir_limit){ .rate = { 1, S }, .burst = 1 });
    const struct shape *shape = kit_shape(&kit, (struct weir_limit){ .rate = { 1, WEIR_DAY }, .burst = 4 });
    fill(&kit, brief, 0);
    uint64_t key = hash_at(&kit, 0, 99);
    unsigned passed = 0;
    for (weir_ns now = 0; now <= 3 * S; now += S / 4)
        passed += take(&kit, shape, key, now, 1).outcome == WEIR_ALLOW;
    assert_int_equal(passed, 2 * 4);
    kit_close(&kit);
}

static void evict_least_takes_the_one_that_is_full_soonest(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *shape = kit_shape(
        &kit, (struct weir_limit){ .rate = { 1, S }, .burst = 100, .when_full = WEIR_FULL_EVICT_LEAST });
    const struct shape *guarded =
        kit_shape(&kit, (struct weir_limit){ .rate = { 1, S }, .burst = 1, .when_full = WEIR_FULL_CLOSED });
    /* Tag t has spent 10 + t tokens; a closed limit's key would be full sooner than all, and is not touched. */
    for (uint64_t tag = 1; tag <= 15; tag++)
        assert_int_equal(take(&kit, shape, hash_at(&kit, 0, tag), 0, 10 + tag).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, guarded, hash_at(&kit, 0, 16), 0, 1).outcome, WEIR_ALLOW);

    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 50), 0, 50).outcome, WEIR_ALLOW);
    assert_int_equal(cells_of(&kit, 1), 0);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 51), 0, 50).outcome, WEIR_ALLOW);
    assert_int_equal(cells_of(&kit, 2), 0);
    assert_int_equal(cells_of(&kit, 3), 1);
    assert_int_equal(cells_of(&kit, 16), 1);
    assert_int_equal(kit_stats(&kit, 0).evictions, 2);

    /* A limit that did not choose it evicts nobody. */
    assert_int_equal(take(&kit, guarded, hash_at(&kit, 0, 60), 0, 1).outcome, WEIR_REFUSED);
    kit_close(&kit);
}

static void evict_least_with_nobody_to_evict_is_closed(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *others = kit_shape(&kit, limit_of(WEIR_FULL_CLOSED));
    const struct shape *shape = kit_shape(&kit, limit_of(WEIR_FULL_EVICT_LEAST));
    fill(&kit, others, 0);
    struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, 99), 0, 1);
    assert_int_equal(answer.outcome, WEIR_REFUSED);
    assert_int_equal(answer.policy, WEIR_POLICY_CLOSED);
    assert_int_equal(peek(&kit, shape, hash_at(&kit, 0, 99), 0, 1).outcome, WEIR_REFUSED);
    kit_close(&kit);
}

/* NEVER is an answer about the request, not about the table. */
static void never_outranks_a_full_table(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *shape = kit_shape(&kit, limit_of(WEIR_FULL_CLOSED));
    fill(&kit, shape, 0);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 99), 0, 4).outcome, WEIR_NEVER);
    kit_close(&kit);
}

static void new_keys_are_bounded(void **state)
{
    (void)state;
    struct kit kit = { 0 };
    assert_int_equal(kit_try_open(&kit, &(struct store_options){ .keys = 1000, .new_keys = { 10, S } }), 0);
    const struct shape *shape = kit_shape(&kit, limit_of(WEIR_FULL_CLOSED));
    unsigned placed = 0;
    for (uint64_t tag = 1; tag <= 50; tag++)
        placed += take(&kit, shape, hash_at(&kit, tag, tag), 0, 1).outcome == WEIR_ALLOW;
    assert_int_equal(placed, 10);
    struct store_answer answer = take(&kit, shape, hash_at(&kit, 51, 51), 0, 1);
    assert_int_equal(answer.outcome, WEIR_REFUSED);
    assert_int_equal(answer.reason, WEIR_REASON_FULL);
    struct snapshot before = kit_snapshot(&kit);
    assert_int_equal(peek(&kit, shape, hash_at(&kit, 51, 51), 0, 1).outcome, WEIR_REFUSED);
    assert_true(kit_is_unchanged(&kit, before));
    /* Known keys go on; a tenth of a second lets one more in. */
    assert_int_equal(take(&kit, shape, hash_at(&kit, 1, 1), 0, 1).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 52, 52), S / 10, 1).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 53, 53), S / 10, 1).outcome, WEIR_REFUSED);
    kit_close(&kit);
}

/* Algorithms 3.3: with 8+8 candidates, below 1e-4 failed inserts at 60 % fill; and so 28 bytes a live key. */
static void sixty_percent_fill_fails_fewer_than_one_in_ten_thousand(void **state)
{
    (void)state;
    struct random random = { random_seed(60) };
    struct kit kit;
    uint64_t keys = 629145; /* 60 % of 2^20 cells */
    kit_open(&kit, keys, 0);
    const struct shape *shape = kit_shape(
        &kit, (struct weir_limit){ .rate = { 1, WEIR_DAY }, .burst = 1, .when_full = WEIR_FULL_CLOSED });
    uint64_t failed = 0;
    for (uint64_t i = 0; i < keys; i++)
        failed += take(&kit, shape, random_u64(&random), 0, 1).outcome != WEIR_ALLOW;
    struct weir_stats stats = kit_stats(&kit, 0);
    print_message("%llu of %llu inserts failed; %.2f bytes of cells a live key\n", (unsigned long long)failed,
                  (unsigned long long)keys, 16.0 * (double)stats.cells / (double)stats.cells_live);
    assert_int_equal(stats.cells, 1 << 20);
    assert_true(failed * 10000 < keys);
    assert_true(stats.cells * 16 <= 28 * stats.cells_live);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_answers_a_new_key),
        cmocka_unit_test(a_known_key_is_decided_whatever_the_policy),
        cmocka_unit_test(overflowing_keys_share_one_budget),
        cmocka_unit_test(a_placed_key_starts_whole_after_overflowing),
        cmocka_unit_test(evict_least_takes_the_one_that_is_full_soonest),
        cmocka_unit_test(evict_least_with_nobody_to_evict_is_closed),
        cmocka_unit_test(never_outranks_a_full_table),
        cmocka_unit_test(new_keys_are_bounded),
        cmocka_unit_test(sixty_percent_fill_fails_fewer_than_one_in_ten_thousand),
    };
    return cmocka_run_group_tests_name("store/full", tests, NULL, NULL);
}
