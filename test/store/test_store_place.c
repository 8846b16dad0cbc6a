// SPDX-License-Identifier: Apache-2.0
/* Where new keys go, and when a cell may serve another key (P24). */
#include "store/kit.h"
#include "support/random.h"

/* One token per second, one at once: a taken key is live for a second and dead with grace after two. */
static struct weir_limit per_second(void)
{
    return (struct weir_limit){ .rate = { 1, S }, .burst = 1, .when_full = WEIR_FULL_CLOSED };
}

static unsigned live_in(struct kit *kit, uint64_t group)
{
    unsigned count = 0;
    for (unsigned i = 0; i < GROUP_CELLS; i++)
        count += !cell_is_empty(kit->store->groups[group].cells[i]);
    return count;
}

static void candidates_of_one_tag_are_the_same_or_disjoint(void **state)
{
    (void)state;
    struct random random = { random_seed(1) };
    struct kit kit;
    kit_open(&kit, 4900, 0); /* 1024 groups */
    for (int i = 0; i < 20000; i++) {
        uint64_t tag = random_u64(&random) & CELL_TAG_MASK;
        uint64_t x = hash_at(&kit, random_below(&random, 1024), tag),
                 y = hash_at(&kit, random_below(&random, 1024), tag);
        uint64_t first = group_first(kit.store, x), second = group_second(kit.store, x);
        assert_true(first != second && first < 1024 && second < 1024);
        bool same = group_first(kit.store, y) == first || group_first(kit.store, y) == second;
        bool other_same = group_second(kit.store, y) == first || group_second(kit.store, y) == second;
        assert_int_equal(same, other_same);
    }
    kit_close(&kit);
}

static void first_group_until_six_are_live_then_the_less_loaded(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        unsigned first, second; /* keys placed before */
        unsigned goes_to;
    } rows[] = {
        { "an empty table: the first group", 0, 0, 0 },
        { "five live: still the first", 5, 0, 0 },
        { "six live and the other empty: the other", 6, 0, 1 },
        { "six live on both sides: a tie stays", 6, 6, 0 },
        { "seven and six: the less loaded", 7, 6, 1 },
        { "six and seven: the less loaded is the first", 6, 7, 0 },
        { "eight and seven: the last cell", 8, 7, 1 },
        { "seven and eight: the last cell of the first", 7, 8, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 0);
        const struct shape *shape = kit_shape(&kit, per_second());
        for (unsigned group = 0; group < 2; group++) /* straight into memory, so that the rule has no say */
            for (unsigned j = 0; j < (group == 0 ? rows[i].first : rows[i].second); j++)
                kit.store->groups[group].cells[j] =
                    (struct cell){ (uint64_t)shape->number << CELL_TAG_BITS | (100 * group + j + 1), S * 1000 };
        unsigned before = live_in(&kit, rows[i].goes_to);
        expect_row(take(&kit, shape, hash_at(&kit, 0, 7777), 0, 1).outcome == WEIR_ALLOW, rows[i].why);
        expect_row(live_in(&kit, rows[i].goes_to) == before + 1, rows[i].why);
        kit_close(&kit);
    }
}

static void a_cell_is_reused_when_dead_with_grace_and_no_earlier(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        struct weir_limit limit;
        weir_ns live_until; /* the first instant at which a key that took everything at 0 may be forgotten */
    } rows[] = {
        { "a bucket: full after a second, and a second of grace", { .rate = { 1, S }, .burst = 1 }, 2 * S },
        { "a deep bucket: twenty tokens at five per second", { .rate = { 5, S }, .burst = 20 }, 5 * S },
        { "a window: its end and the grace",
          { .algorithm = WEIR_FIXED_WINDOW, .rate = { 3, 10 * S } },
          11 * S },
        { "a first-request window: the same from its start",
          { .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST_REQUEST, .rate = { 3, 10 * S } },
          11 * S },
        { "a sliding window: two windows",
          { .algorithm = WEIR_SLIDING_WINDOW, .rate = { 3, 10 * S } },
          21 * S },
        { "a log: its newest stamp's period",
          { .algorithm = WEIR_SLIDING_LOG, .rate = { 3, 10 * S } },
          11 * S },
        { "no refill: never", { .rate = { 0, S }, .burst = 1 }, WEIR_NO_TIME },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 1024);
        struct weir_limit limit = rows[i].limit;
        limit.when_full = WEIR_FULL_CLOSED;
        const struct shape *shape = kit_shape(&kit, limit);
        for (uint64_t tag = 1; tag <= 16; tag++)
            expect_row(take(&kit, shape, hash_at(&kit, 0, tag), 0, shape->capacity).outcome == WEIR_ALLOW,
                       rows[i].why);

        weir_ns free_at = rows[i].live_until;
        weir_ns late = free_at == WEIR_NO_TIME ? WEIR_HORIZON : free_at - 1;
        struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, 99), late, 1);
        expect_row(answer.outcome == WEIR_REFUSED && answer.reason == WEIR_REASON_FULL, rows[i].why);
        expect_row(kit_stats(&kit, late).cells_live == 16, rows[i].why);
        if (free_at != WEIR_NO_TIME) {
            expect_row(kit_stats(&kit, free_at).cells_dead == 16, rows[i].why);
            expect_row(take(&kit, shape, hash_at(&kit, 0, 99), free_at, 1).outcome == WEIR_ALLOW, rows[i].why);
            expect_row(kit_stats(&kit, free_at).reclaims == 1, rows[i].why);
        }
        kit_close(&kit);
    }
}

/*
 * Algorithms 3.5: ten admitted at 0, the cell reclaimed at 2 s; without a floor a caller of stamp 0 gets ten
 * more.
 */
static void a_late_caller_cannot_start_whole_in_the_past(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *shape = kit_shape(&kit, (struct weir_limit){ .rate = { 10, S }, .burst = 10 });
    uint64_t key = hash_at(&kit, 0, 1);
    assert_int_equal(take(&kit, shape, key, 0, 10).outcome, WEIR_ALLOW);
    store_sweep(kit.store, 2 * S, 2);
    assert_int_equal(cells_of(&kit, 1), 0);

    /* The key was whole again at 1 s: the late caller is decided there or later, and says so. */
    struct store_answer late = take(&kit, shape, key, 0, 10);
    assert_int_equal(late.outcome, WEIR_ALLOW);
    assert_true(late.at >= 1 * S && late.at <= 2 * S);
    assert_int_equal(take(&kit, shape, key, 0, 1).outcome, WEIR_DENY);
    kit_close(&kit);
}

static void the_floor_rises_by_half_a_grace_at_a_time(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *shape = kit_shape(&kit, per_second());
    for (uint64_t tag = 1; tag <= 3; tag++)
        (void)take(&kit, shape, hash_at(&kit, 0, tag), 0, 1);
    assert_int_equal(floor_read(kit.store), 0);
    store_sweep(kit.store, 10 * S, 2);
    assert_int_equal(floor_read(kit.store), 10 * S - S / 2);
    (void)take(&kit, shape, hash_at(&kit, 0, 4), 6 * S,
               1); /* late, decided at 9.5 s, dead with grace at 11.5 s */
    store_sweep(kit.store, 11 * S + S / 2 - 1, 2);
    assert_int_equal(cells_of(&kit, 4), 1);
    store_sweep(kit.store, 11 * S + S / 2, 2);
    assert_int_equal(cells_of(&kit, 4), 0);
    assert_int_equal(floor_read(kit.store), 11 * S);
    kit_close(&kit);
}

static void a_sweep_goes_round_and_takes_only_the_dead(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 100, 0); /* 32 groups */
    const struct shape *brief = kit_shape(&kit, per_second());
    const struct shape *lasting = kit_shape(&kit, (struct weir_limit){ .rate = { 1, WEIR_DAY }, .burst = 1 });
    for (uint64_t group = 0; group < 32; group++) {
        (void)take(&kit, brief, hash_at(&kit, group, 2 * group + 1), 0, 1);
        (void)take(&kit, lasting, hash_at(&kit, group, 2 * group + 2), 0, 1);
    }
    struct weir_stats stats = kit_stats(&kit, 3 * S);
    assert_int_equal(stats.cells_dead, 32);
    assert_int_equal(stats.cells_live, 32);
    store_sweep(kit.store, 3 * S, 20);
    stats = kit_stats(&kit, 3 * S);
    assert_int_equal(stats.cells_dead, 12);
    store_sweep(kit.store, 3 * S, 20);
    stats = kit_stats(&kit, 3 * S);
    assert_int_equal(stats.cells_dead, 0);
    assert_int_equal(stats.cells_live, 32);
    assert_int_equal(stats.reclaims, 32);
    kit_close(&kit);
}

static void an_abandoned_insertion_is_taken_over_or_finished(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        weir_ns placed, now;
        bool is_free;
    } rows[] = {
        { "nine ms: somebody is at it", 0, 9 * MS, false },
        { "ten ms: abandoned", 0, 10 * MS, true },
        { "an older stamp than the placement's", 100 * MS, 50 * MS, false },
        { "milliseconds wrap after 24 days", ((UINT64_C(1) << 31) - 1) * MS, ((UINT64_C(1) << 31) + 20) * MS,
          true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 0);
        const struct shape *shape = kit_shape(&kit, per_second());
        uint64_t word = (uint64_t)shape->number << CELL_TAG_BITS;
        uint64_t state_word = CELL_TENT | (rows[i].placed / MS & 0x7fffffff) << 32 | 1;
        for (unsigned group = 0; group < 2; group++)
            for (unsigned j = 0; j < 8; j++)
                kit.store->groups[group].cells[j] = (struct cell){ word | (100 + 8 * group + j), state_word };
        /* Another key gets a cell only from an abandoned one. */
        bool placed = take(&kit, shape, hash_at(&kit, 0, 7), rows[i].now, 1).outcome == WEIR_ALLOW;
        expect_row(placed == rows[i].is_free, rows[i].why);
        /* The key itself goes on from anybody's TENT, at any age. */
        expect_row(take(&kit, shape, hash_at(&kit, 0, 104), rows[i].now, 1).outcome == WEIR_ALLOW, rows[i].why);
        expect_row(cells_of(&kit, 104) == 1, rows[i].why);
        kit_close(&kit);
    }
}

static void two_insertions_of_one_key_leave_one_cell(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *shape = kit_shape(&kit, per_second());
    uint64_t word = (uint64_t)shape->number << CELL_TAG_BITS | 5;
    kit.store->groups[0].cells[3] = (struct cell){ word, CELL_TENT | 1 };
    kit.store->groups[1].cells[6] = (struct cell){ word, CELL_TENT | 2 };
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 5), 0, 1).outcome, WEIR_ALLOW);
    assert_int_equal(cells_of(&kit, 5), 1);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 5), 0, 1).outcome, WEIR_DENY);
    kit_close(&kit);
}

/*
 * A key of another limit with our 48 tag bits and our groups: never decided under our shape, never a second
 * cell.
 */
static void a_stranger_of_the_same_tag_is_not_decided_by_our_shape(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *theirs = kit_shape(&kit, (struct weir_limit){ .rate = { 1, S }, .burst = 100 });
    const struct shape *ours = kit_shape(&kit, (struct weir_limit){ .rate = { 1, WEIR_DAY }, .burst = 2 });
    uint64_t hash = hash_at(&kit, 0, 5);
    assert_int_equal(take(&kit, theirs, hash, 0, 100).outcome, WEIR_ALLOW);
    struct cell before = kit.store->groups[0].cells[0];

    struct store_answer answer = take(&kit, ours, hash, 0, 2);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.policy, WEIR_POLICY_OVERFLOW);
    assert_int_equal(take(&kit, ours, hash, 0, 1).outcome, WEIR_DENY);
    assert_int_equal(peek(&kit, ours, hash, 0, 1).outcome, WEIR_DENY);
    assert_memory_equal(&before, &kit.store->groups[0].cells[0], sizeof before);
    assert_int_equal(cells_of(&kit, 5), 1);

    /* Once it is dead its cell is ours. */
    answer = take(&kit, ours, hash, 200 * S, 2);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.policy, WEIR_POLICY_NONE);
    assert_int_equal(cells_of(&kit, 5), 1);
    kit_close(&kit);
}

/* Tag 0 is a tag like any other; an empty cell's tag word is 0 too. */
static void the_tag_zero_is_a_tag(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 0);
    const struct shape *shape = kit_shape(&kit, per_second());
    for (uint64_t group = 0; group < 2; group++)
        (void)take(&kit, shape, hash_at(&kit, group, 1 + group), 0, 1);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 0), 0, 1).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, shape, hash_at(&kit, 0, 0), 0, 1).outcome, WEIR_DENY);
    assert_int_equal(cells_of(&kit, 0), 1);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_of_one_tag_are_the_same_or_disjoint),
        cmocka_unit_test(first_group_until_six_are_live_then_the_less_loaded),
        cmocka_unit_test(a_cell_is_reused_when_dead_with_grace_and_no_earlier),
        cmocka_unit_test(a_late_caller_cannot_start_whole_in_the_past),
        cmocka_unit_test(the_floor_rises_by_half_a_grace_at_a_time),
        cmocka_unit_test(a_sweep_goes_round_and_takes_only_the_dead),
        cmocka_unit_test(an_abandoned_insertion_is_taken_over_or_finished),
        cmocka_unit_test(two_insertions_of_one_key_leave_one_cell),
        cmocka_unit_test(a_stranger_of_the_same_tag_is_not_decided_by_our_shape),
        cmocka_unit_test(the_tag_zero_is_a_tag),
    };
    return cmocka_run_group_tests_name("store/place", tests, NULL, NULL);
}
