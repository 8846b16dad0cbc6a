// SPDX-License-Identifier: Apache-2.0
/*
 * The store under chosen interleavings: P21, P22, P23, P24 and G1, by random schedules with seeds.
 *
 * test_threads_mutant_*.c run the same with a mistake put in, which must be found.
 */
#include "threads/schedule.h"

static void histories_are_linearizable_and_within_the_bound(void **state)
{
    (void)state;
    uint64_t seed = random_seed(1);
    unsigned runs = 100000;
    run_open();
    unsigned at = find_violation(runs, seed);
    const char *violation = run.violation;
    struct weir_stats stats = kit_stats(&run.kit, 0);
    run_close();
    if (at < runs)
        fail_msg("run %u (WEIR_SEED=%llu alone shows it): %s", at, (unsigned long long)(seed + at), violation);
    print_message("%u runs: %llu insertions, %llu reclaims, %llu contended\n", runs,
                  (unsigned long long)stats.placements, (unsigned long long)stats.reclaims,
                  (unsigned long long)stats.contended);
    assert_true(stats.placements > runs && stats.reclaims > runs / 10);
}

/* All fibers take single tokens of one new key at one instant. */
static void take_singles(unsigned fiber)
{
    (void)fiber;
    for (unsigned i = 0; i < run.ops_each; i++) {
        struct op *op = &run.ops[run.op_count++];
        *op = (struct op){ .kind = OP_TAKE, .cost = 1, .stamp = run.clock };
        store_take(run.kit.store, run.shape, key_hash(0), run.clock, 1, &op->answer);
        op->returned = 1;
    }
}

static unsigned count_allowed(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < run.op_count; i++)
        count += run.ops[i].returned != 0 && run.ops[i].answer.outcome == WEIR_ALLOW;
    return count;
}

static void start_singles(uint64_t seed, const struct shape *shape)
{
    run.random = (struct random){ seed };
    schedule.random = (struct random){ ~seed };
    schedule.stay = UINT64_C(1) << (1 + seed % 4);
    run.model = (struct model){ is_log(shape), shape->capacity };
    run.shape = shape;
    run.keys = 1;
    run.ops_each = 4;
    run.clock = 1000 * S;
    run.op_count = 0;
    memset(run.ops, 0, sizeof run.ops);
    run.violation = NULL;
    reset(2);
}

static void frozen_time_grants_the_burst_exactly(void **state)
{
    (void)state;
    run_open();
    for (uint64_t seed = 0; seed < 10000; seed++) {
        for (unsigned i = 0; i < FIBERS_MAX; i++)
            schedule.fibers[i].stops_at = UINT64_MAX;
        const struct shape *shape = (seed & 1) != 0 ? run.log[seed % 3] : run.bucket[seed % 3];
        start_singles(seed, shape);
        schedule_run(4, take_singles);
        assert_int_equal(count_allowed(), shape->capacity);
        assert_null(run.violation);
    }
    run_close();
}

/*
 * P23: one thread stopped for ever at any touch of shared memory. The others finish, all but what the stopped
 * one may have taken is granted, never more, and the next caller finds a table that it can use.
 */
static void a_stopped_thread_stops_nobody(void **state)
{
    (void)state;
    run_open();
    uint64_t longest = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        for (unsigned i = 0; i < FIBERS_MAX; i++)
            schedule.fibers[i].stops_at = i == 0 ? seed % 120 : UINT64_MAX;
        const struct shape *shape = run.bucket[seed % 3];
        start_singles(seed, shape);
        schedule_run(3, take_singles);
        assert_true(schedule.fibers[1].is_done && schedule.fibers[2].is_done);
        unsigned granted = count_allowed();
        assert_true(granted <= shape->capacity && granted + 1 >= shape->capacity);
        assert_null(run.violation);
        struct store_answer after = take(&run.kit, shape, key_hash(0), run.clock + 10 * S, shape->capacity);
        assert_int_equal(after.outcome, WEIR_ALLOW);
        if (schedule.fibers[1].steps > longest)
            longest = schedule.fibers[1].steps;
    }
    print_message("four takes beside a stopped thread: at most %llu touches\n", (unsigned long long)longest);
    run_close();
}

/* P25: what one decision touches when nobody disturbs it. */
static void a_lone_decision_is_bounded(void **state)
{
    (void)state;
    run_open();
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned j = 0; j < FIBERS_MAX; j++)
            schedule.fibers[j].stops_at = UINT64_MAX;
        start_singles(i, run.bucket[i]);
        run.ops_each = 1;
        schedule_run(1, take_singles);
        /* Find: 2 groups. Place: 16 reads and an exchange. Promote: 16 and 15 reads, the floor, an exchange. */
        assert_true(schedule.fibers[0].steps <= 2 + 16 + 2 + 16 + 15 + 1 + 1);
        run.op_count = 0;
        schedule_run(1, take_singles);
        assert_true(schedule.fibers[0].steps <= 2 + 1 + 1);
    }
    run_close();
}

/* ---- Composites through the public calls (P27) ---------------------------------------------------------- */

static struct {
    struct weir *weir;
    weir_limit_id limits[2];
    struct weir_decision decisions[FIBERS_MAX];
    weir_ns now;
} pair;

static void admit_both(unsigned fiber)
{
    struct weir_ask asks[2] = { { pair.limits[fiber & 1], "k", 1, 1 }, { pair.limits[~fiber & 1], "k", 1, 1 } };
    assert_int_equal(weir_admit(pair.weir, asks, 2, pair.now, NULL, &pair.decisions[fiber]), 0);
}

static void one_token_in_each_of_two_limits_passes_one(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW,
                                                      WEIR_SLIDING_LOG };
    schedule.watch = NULL;
    schedule.random = (struct random){ random_seed(27) };
    for (unsigned i = 0; i < COUNT_OF(algorithms) * COUNT_OF(algorithms); i++) {
        uint8_t secret[16] = { (uint8_t)i };
        assert_int_equal(
            weir_new(&pair.weir, &(struct weir_options){ .keys = 9, .log_stamps = 64, .secret = secret }), 0);
        for (unsigned j = 0; j < 2; j++) {
            struct weir_limit limit = { .name = j == 0 ? "a" : "b",
                                        .algorithm = algorithms[j == 0 ? i % 4 : i / 4],
                                        .rate = { 1, S },
                                        .burst = 1 };
            if (limit.algorithm != WEIR_TOKEN_BUCKET)
                limit.burst = 0;
            assert_int_equal(weir_limit_add(pair.weir, &limit, &pair.limits[j]), 0);
        }
        for (unsigned round = 0; round < 2000; round++) {
            unsigned passed = 0;
            pair.now = (weir_ns)round * 4 * S;
            schedule.stay = UINT64_C(1) << (1 + round % 4);
            for (unsigned j = 0; j < FIBERS_MAX; j++)
                schedule.fibers[j].stops_at = UINT64_MAX;
            schedule_run(FIBERS_MAX, admit_both);
            for (unsigned j = 0; j < FIBERS_MAX; j++)
                passed += pair.decisions[j].outcome == WEIR_ALLOW;
            assert_int_equal(passed, 1);
        }
        weir_free(pair.weir);
    }
    schedule_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histories_are_linearizable_and_within_the_bound),
        cmocka_unit_test(frozen_time_grants_the_burst_exactly),
        cmocka_unit_test(a_stopped_thread_stops_nobody),
        cmocka_unit_test(a_lone_decision_is_bounded),
        cmocka_unit_test(one_token_in_each_of_two_limits_passes_one),
    };
    return cmocka_run_group_tests_name("threads/scheduled", tests, NULL, NULL);
}
