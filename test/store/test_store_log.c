// SPDX-License-Identifier: Apache-2.0
/* Sliding logs in the store: rings, their arena, and the end of both. */
#include "store/kit.h"
#include "support/random.h"

static struct weir_limit log_of(uint64_t count, weir_ns period, enum weir_when_full when_full)
{
    return (
        struct weir_limit){ .algorithm = WEIR_SLIDING_LOG, .rate = { count, period }, .when_full = when_full };
}

static uint64_t free_stamps(struct kit *kit)
{
    return kit_stats(kit, 0).log_stamps_free;
}

static void a_log_is_exact(void **state)
{
    (void)state;
    static const struct row { /* 3 in any 10 s */
        const char *why;
        weir_ns at;
        uint64_t cost;
        bool allowed;
        weir_ns retry_at;
    } rows[] = {
        { "the first", 0 * S, 1, true, 0 * S },
        { "two at once", 4 * S, 2, true, 4 * S },
        { "full until the first is ten seconds old", 9 * S, 1, false, 10 * S },
        { "one nanosecond early", 10 * S - 1, 1, false, 10 * S },
        { "exactly ten seconds old no longer counts", 10 * S, 1, true, 10 * S },
        { "two more need both of 4 s to leave", 11 * S, 2, false, 14 * S },
        { "an older stamp is decided at the newest", 5 * S, 1, false, 14 * S },
        { "more than the log holds", 11 * S, 4, false, WEIR_NO_TIME },
        { "and then they pass", 14 * S, 2, true, 14 * S },
    };
    struct kit kit;
    kit_open(&kit, 9, 64);
    const struct shape *shape = kit_shape(&kit, log_of(3, 10 * S, WEIR_FULL_CLOSED));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, 1), rows[i].at, rows[i].cost);
        expect_row((answer.outcome == WEIR_ALLOW) == rows[i].allowed, rows[i].why);
        expect_row(answer.report.retry_at == rows[i].retry_at, rows[i].why);
    }
    kit_close(&kit);
}

static void rings_are_the_next_power_of_two_and_at_least_eight(void **state)
{
    (void)state;
    static const struct row {
        uint64_t count, stamps;
    } rows[] = { { 1, 8 }, { 8, 8 }, { 9, 16 }, { 16, 16 }, { 17, 32 }, { 1000, 1024 }, { 65536, 65536 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 131072);
        const struct shape *shape = kit_shape(&kit, log_of(rows[i].count, S, WEIR_FULL_CLOSED));
        uint64_t before = free_stamps(&kit);
        assert_int_equal(before, 131072);
        assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 1), 0, rows[i].count).outcome, WEIR_ALLOW);
        assert_int_equal(before - free_stamps(&kit), rows[i].stamps);
        assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 1), S - 1, 1).outcome, WEIR_DENY);
        assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 1), S, rows[i].count).outcome, WEIR_ALLOW);
        kit_close(&kit);
    }
}

static void a_log_that_fits_no_ring_is_refused_when_added(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 64);
    struct shape large, small;
    struct weir_limit limit = log_of(65, S, WEIR_FULL_CLOSED);
    limit.name = "large";
    assert_int_equal(shape_init(&large, &limit, 0, &kit.allocator), 0);
    large.number = 1;
    assert_int_equal(store_shape_add(kit.store, &large), WEIR_ERR_LOG_MEMORY);
    limit = log_of(64, S, WEIR_FULL_OVERFLOW);
    limit.name = "small";
    assert_int_equal(shape_init(&small, &limit, 0, &kit.allocator), 0);
    small.number = 2;
    assert_int_equal(store_shape_add(kit.store, &small), 0); /* takes the only ring for its overflow cell */
    assert_int_equal(free_stamps(&kit), 0);
    large.number = 3;
    large.capacity = 1;
    assert_int_equal(store_shape_add(kit.store, &large), WEIR_ERR_LOG_MEMORY);
    kit_close(&kit);
}

/* An exhausted arena is a full table: the limit's when-full, reason FULL. */
static void an_exhausted_arena_is_a_full_table(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_when_full when_full;
        enum weir_outcome outcome;
        enum weir_policy policy;
        enum weir_reason reason;
    } rows[] = {
        { "closed", WEIR_FULL_CLOSED, WEIR_REFUSED, WEIR_POLICY_CLOSED, WEIR_REASON_FULL },
        { "open", WEIR_FULL_OPEN, WEIR_UNMETERED, WEIR_POLICY_OPEN, WEIR_REASON_FULL },
        { "overflow has a ring of its own", WEIR_FULL_OVERFLOW, WEIR_ALLOW, WEIR_POLICY_OVERFLOW,
          WEIR_REASON_FULL },
        { "evict-least takes a ring from a candidate", WEIR_FULL_EVICT_LEAST, WEIR_ALLOW, WEIR_POLICY_NONE,
          WEIR_REASON_NONE },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 32); /* four rings; overflow takes one */
        const struct shape *shape = kit_shape(&kit, log_of(8, WEIR_MINUTE, rows[i].when_full));
        unsigned rings = (unsigned)free_stamps(&kit) / 8;
        for (uint64_t tag = 1; tag <= rings; tag++)
            expect_row(take(&kit, shape, hash_at(&kit, 0, tag), tag * MS, 8).outcome == WEIR_ALLOW,
                       rows[i].why);
        if (rows[i].when_full != WEIR_FULL_EVICT_LEAST) {
            struct snapshot before = kit_snapshot(&kit);
            struct store_answer looked = peek(&kit, shape, hash_at(&kit, 0, 99), 10 * MS, 1);
            expect_row(looked.outcome == rows[i].outcome && looked.reason == rows[i].reason, rows[i].why);
            expect_row(kit_is_unchanged(&kit, before), rows[i].why);
        }
        struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, 99), 10 * MS, 1);
        expect_row(answer.outcome == rows[i].outcome && answer.policy == rows[i].policy
                       && answer.reason == rows[i].reason,
                   rows[i].why);
        expect_row(kit_stats(&kit, 10 * MS).cells_tentative == 0, rows[i].why);
        if (rows[i].when_full == WEIR_FULL_EVICT_LEAST) {
            expect_row(cells_of(&kit, 1) == 0 && cells_of(&kit, 2) == 1,
                       rows[i].why); /* tag 1 is free soonest */
            expect_row(kit_stats(&kit, 0).evictions == 1, rows[i].why);
        }
        /* Known keys go on being decided. */
        expect_row(take(&kit, shape, hash_at(&kit, 0, rings), WEIR_MINUTE - 1, 1).outcome == WEIR_DENY,
                   rows[i].why);
        kit_close(&kit);
    }
}

/* Dead logs anywhere in the table give their rings to a new key, sooner than it is refused. */
static void dead_logs_give_their_rings(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 100, 64); /* 32 groups, eight rings */
    const struct shape *shape = kit_shape(&kit, log_of(8, S, WEIR_FULL_CLOSED));
    for (uint64_t round = 0; round < 50; round++) {
        weir_ns now = round * 2 * S;
        for (uint64_t i = 0; i < 8; i++)
            assert_int_equal(
                take(&kit, shape, hash_at(&kit, (7 * round + 11 * i) % 32, 1 + round * 8 + i), now, 8).outcome,
                WEIR_ALLOW);
        assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 9999), now + 2 * S - 1, 1).outcome, WEIR_REFUSED);
    }
    store_sweep(kit.store, 1000 * S, 32);
    assert_int_equal(free_stamps(&kit), 64);
    kit_close(&kit);
}

/* A cell that was taken away and whose ring serves another key: the old content opens nothing. */
static void an_old_generation_opens_nothing(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 8); /* one ring */
    const struct shape *shape = kit_shape(&kit, log_of(5, S, WEIR_FULL_CLOSED));
    struct store_answer taken = take(&kit, shape, hash_at(&kit, 0, 1), 0, 5);
    assert_int_equal(taken.outcome, WEIR_ALLOW);
    struct cell old = kit.store->groups[0].cells[0];
    store_sweep(kit.store, 2 * S, 2);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 2), 2 * S, 3).outcome, WEIR_ALLOW);
    assert_false(log_cell_is_dead(kit.store, shape, old, 100 * S));
    assert_false(log_give_back(kit.store, old, &taken, 5));
    assert_false(log_retire(kit.store, shape, &kit.store->groups[0].cells[0], old, (struct cell){ 0, 0 }, 0,
                            false, LOG_TRY));
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 2), 2 * S, 2).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 2), 2 * S, 1).outcome, WEIR_DENY);
    kit_close(&kit);
}

static void a_held_ring_is_contended_and_not_a_denial(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 64);
    const struct shape *shape = kit_shape(&kit, log_of(5, S, WEIR_FULL_CLOSED));
    (void)take(&kit, shape, hash_at(&kit, 0, 1), 0, 1);
    struct ring *ring = &kit.store->arena.rings[(uint32_t)kit.store->groups[0].cells[0].state];
    ring->lock = 1; /* its holder was stopped */
    struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, 1), 0, 1);
    assert_int_equal(answer.outcome, WEIR_REFUSED);
    assert_int_equal(answer.reason, WEIR_REASON_CONTENDED);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 2), 0, 1).outcome, WEIR_ALLOW); /* others do not care */
    store_sweep(kit.store, 100 * S, 2);
    assert_int_equal(cells_of(&kit, 1), 1);
    assert_int_equal(kit_stats(&kit, 0).contended, 1);
    ring->lock = 0;
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 1), 0, 4).outcome, WEIR_ALLOW);
    kit_close(&kit);
}

/*
 * One in ten seconds: a stamp at 50 is dropped by one at 100, which is then given back. A caller still at 55
 * must not be admitted beside 50; it is decided at 100, as it would be had the log kept what it knew.
 */
static void an_emptied_log_still_knows_how_late_it_is(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 64);
    const struct shape *shape = kit_shape(&kit, log_of(1, 10 * S, WEIR_FULL_CLOSED));
    uint64_t key = hash_at(&kit, 0, 1);
    assert_int_equal(take(&kit, shape, key, 50 * S, 1).outcome, WEIR_ALLOW);
    struct store_answer taken = take(&kit, shape, key, 100 * S, 1);
    store_undo(kit.store, shape, key, &taken, 100 * S, 1);
    store_sweep(kit.store, 55 * S, 2); /* too early to forget it */
    struct store_answer late = take(&kit, shape, key, 55 * S, 1);
    assert_int_equal(late.outcome, WEIR_ALLOW);
    assert_true(late.at >= 100 * S);

    store_undo(kit.store, shape, key, &late, 100 * S, 1);
    store_sweep(kit.store, 101 * S - 1, 2);
    assert_int_equal(cells_of(&kit, 1), 1);
    store_sweep(kit.store, 101 * S, 2);
    assert_int_equal(cells_of(&kit, 1), 0);
    late = take(&kit, shape, key, 55 * S, 1);
    assert_true(late.at >= 100 * S);
    kit_close(&kit);
}

/* ---- The arena by itself -------------------------------------------------------------------------------- */

/* Random takes and gives against a map of units: no two rings overlap, all is joined again at the end. */
static void the_arena_never_hands_out_a_unit_twice(void **state)
{
    (void)state;
    struct random random = { random_seed(3) };
    static const size_t sizes[] = { 8, 64, 1000, 4096, 65536 + 8 * 37 };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct kit kit;
        kit_open(&kit, 9, sizes[i]);
        struct arena *arena = &kit.store->arena;
        unsigned char *used = calloc(arena->unit_count, 1);
        uint32_t held[256], held_count = 0;
        uint32_t orders[256];
        for (int n = 0; n < 20000; n++) {
            if (held_count < 256 && random_below(&random, 2) == 0) {
                unsigned order = (unsigned)random_below(&random, 7);
                bool is_busy;
                uint32_t ring = arena_take(arena, order, &is_busy);
                assert_false(is_busy);
                if (ring == RING_NONE)
                    continue;
                assert_int_equal(ring % (1u << order), 0);
                for (uint32_t unit = ring; unit < ring + (1u << order); unit++) {
                    assert_true(unit < arena->unit_count && !used[unit]);
                    used[unit] = 1;
                }
                held[held_count] = ring;
                orders[held_count++] = order;
            } else if (held_count > 0) {
                uint32_t at = (uint32_t)random_below(&random, held_count);
                memset(used + held[at], 0, (size_t)1 << orders[at]);
                arena_give(arena, held[at]);
                held[at] = held[--held_count];
                orders[at] = orders[held_count];
            }
        }
        while (held_count > 0)
            arena_give(arena, held[--held_count]);
        assert_int_equal(arena->free_units, arena->unit_count);
        /* Everything joined: the largest block that ever fitted fits again. */
        unsigned order = 0;
        while (order + 1 < RING_ORDERS && 2u << order <= arena->unit_count)
            order++;
        bool is_busy;
        assert_int_not_equal(arena_take(arena, order, &is_busy), RING_NONE);
        free(used);
        kit_close(&kit);
    }
}

static void an_arena_of_nothing_holds_nothing(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 7);
    bool is_busy;
    assert_int_equal(arena_take(&kit.store->arena, 0, &is_busy), RING_NONE);
    assert_false(is_busy);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_exact),
        cmocka_unit_test(rings_are_the_next_power_of_two_and_at_least_eight),
        cmocka_unit_test(a_log_that_fits_no_ring_is_refused_when_added),
        cmocka_unit_test(an_exhausted_arena_is_a_full_table),
        cmocka_unit_test(dead_logs_give_their_rings),
        cmocka_unit_test(an_old_generation_opens_nothing),
        cmocka_unit_test(a_held_ring_is_contended_and_not_a_denial),
        cmocka_unit_test(an_emptied_log_still_knows_how_late_it_is),
        cmocka_unit_test(the_arena_never_hands_out_a_unit_twice),
        cmocka_unit_test(an_arena_of_nothing_holds_nothing),
    };
    return cmocka_run_group_tests_name("store/log", tests, NULL, NULL);
}
