// SPDX-License-Identifier: Apache-2.0
/* A log whose limit changed: its stamps go into a ring of the size that is wanted now, or it keeps the one it has. */
#include "store/kit.h"
#include "support/random.h"

static const struct shape *log_shape(struct kit *kit, uint64_t count, uint32_t generation, weir_ns since)
{
    return kit_shape_at(kit,
                        (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG,
                                             .rate = { count, 10 * S },
                                             .when_full = WEIR_FULL_CLOSED },
                        (struct kit_place){ .lineage = 7, .generation = generation, .since = since });
}

/* The ring of the only log in the table. */
static const struct ring *ring_of_key(struct kit *kit, uint64_t tag)
{
    for (size_t i = 0; i < 2; i++)
        for (unsigned j = 0; j < GROUP_CELLS; j++) {
            struct cell seen = kit->store->groups[i].cells[j];
            if (cell_has_tag(seen, tag) && !cell_is_tent(seen))
                return &kit->store->arena.rings[(uint32_t)seen.state];
        }
    fail_msg("no log of this key");
    return NULL;
}

static unsigned ring_size(struct kit *kit, uint64_t tag)
{
    return RING_UNIT << ring_of_key(kit, tag)->order;
}

static void a_log_moves_to_the_ring_that_is_wanted(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        uint64_t count, used, next_count;
        unsigned size; /* after the next stamp */
        uint64_t left; /* before it */
    } rows[] = {
        { "larger", 8, 8, 30, 32, 22 },
        { "the same", 8, 5, 7, 8, 2 },
        { "smaller", 64, 5, 8, 8, 3 },
        { "smaller, and just fitting", 64, 8, 9, 16, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 256);
        const struct shape *old = log_shape(&kit, rows[i].count, 1, 0);
        const struct shape *next = log_shape(&kit, rows[i].next_count, 2, 5 * S);
        uint64_t key = hash_at(&kit, 0, 1);
        for (uint64_t n = 0; n < rows[i].used; n++) /* a stamp each 100 ms, around the ring's end */
            expect_row(take(&kit, old, key, n * 100 * MS, 1).outcome == WEIR_ALLOW, rows[i].why);
        expect_row(take(&kit, next, key, 5 * S, 1).report.remaining == rows[i].left - 1, rows[i].why);
        expect_row(ring_size(&kit, 1) == rows[i].size, rows[i].why);
        expect_row(256 - kit_stats(&kit, 5 * S).log_stamps_free == rows[i].size, rows[i].why);
        if (rows[i].left > 1)
            expect_row(take(&kit, next, key, 5 * S, rows[i].left - 1).outcome == WEIR_ALLOW, rows[i].why);
        /* The stamps are those that were taken: the first leaves at 10 s, the second 100 ms later. */
        struct store_answer answer = take(&kit, next, key, 5 * S, 1);
        expect_row(answer.outcome == WEIR_DENY && answer.report.retry_at == 10 * S, rows[i].why);
        expect_row(take(&kit, next, key, 5 * S, 2).report.retry_at == 10 * S + 100 * MS, rows[i].why);
        expect_row(take(&kit, next, key, 10 * S - 1, 1).outcome == WEIR_DENY, rows[i].why);
        expect_row(take(&kit, next, key, 10 * S, 1).outcome == WEIR_ALLOW, rows[i].why);
        kit_close(&kit);
    }
}

/* Sixty stamps do not fit a ring of eight: they stay where they are, all of them, until they have left. */
static void no_stamp_is_dropped_for_a_smaller_ring(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 256);
    const struct shape *old = log_shape(&kit, 64, 1, 0);
    const struct shape *next = log_shape(&kit, 8, 2, 5 * S);
    uint64_t key = hash_at(&kit, 0, 1);
    assert_int_equal(take(&kit, old, key, 1 * S, 60).outcome, WEIR_ALLOW);
    store_convert(kit.store, next, key, 5 * S);
    assert_int_equal(ring_size(&kit, 1), 64);
    assert_int_equal(take(&kit, next, key, 11 * S - 1, 1).outcome, WEIR_DENY);
    assert_int_equal(take(&kit, next, key, 11 * S, 8).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, next, key, 12 * S, 1).outcome, WEIR_DENY);
    assert_int_equal(take(&kit, next, key, 22 * S, 1).outcome, WEIR_ALLOW);
    assert_int_equal(ring_size(&kit, 1), 8);
    kit_close(&kit);
}

/* No larger ring is to be had: what the one it has holds is admitted, and more as soon as there is one. */
static void a_log_without_a_larger_ring_admits_less(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 24); /* three rings of eight */
    const struct shape *other = log_shape(&kit, 8, 1, 0);
    const struct shape *old =
        kit_shape_at(&kit,
                     (struct weir_limit){
                         .algorithm = WEIR_SLIDING_LOG, .rate = { 8, 10 * S }, .when_full = WEIR_FULL_CLOSED },
                     (struct kit_place){ .lineage = 9, .generation = 1 });
    const struct shape *next =
        kit_shape_at(&kit,
                     (struct weir_limit){
                         .algorithm = WEIR_SLIDING_LOG, .rate = { 12, 10 * S }, .when_full = WEIR_FULL_CLOSED },
                     (struct kit_place){ .lineage = 9, .generation = 2, .since = 5 * S });
    uint64_t key = hash_at(&kit, 0, 1);
    assert_int_equal(take(&kit, old, key, 1 * S, 6).outcome, WEIR_ALLOW);
    for (uint64_t tag = 2; tag <= 3; tag++)
        (void)take(&kit, other, hash_at(&kit, 0, tag), 4 * S, 1);

    struct snapshot before = kit_snapshot(&kit);
    struct store_answer answer = peek(&kit, next, key, 5 * S, 3);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.report.remaining, 2);
    assert_int_equal(answer.report.retry_at, 11 * S);
    assert_int_equal(take(&kit, next, key, 5 * S, 3).outcome, WEIR_DENY);
    /* What no ring of eight can ever hold is not denied until some time: there is no room for it. */
    answer = take(&kit, next, key, 5 * S, 9);
    assert_int_equal(answer.outcome, WEIR_REFUSED);
    assert_int_equal(answer.reason, WEIR_REASON_FULL);
    assert_int_equal(take(&kit, next, key, 5 * S, 13).outcome, WEIR_NEVER);
    assert_true(kit_is_unchanged(&kit, before));

    struct cell seen = { 0, 0 };
    for (unsigned j = 0; j < GROUP_CELLS; j++)
        if (cell_has_tag(kit.store->groups[0].cells[j], 1))
            seen = kit.store->groups[0].cells[j];
    struct store_answer taken = take(&kit, next, key, 5 * S, 2);
    assert_int_equal(taken.outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, next, key, 5 * S, 1).outcome, WEIR_DENY);
    /* The same ring, but who still holds the old content finds it gone. */
    assert_false(log_give_back(kit.store, seen, &taken, 2));
    assert_false(log_cell_is_dead(kit.store, old, seen, 100 * S));

    /* Another log ends: its ring and the one beside it make a larger one. */
    assert_true(store_reset(kit.store, other, hash_at(&kit, 0, 2)));
    assert_true(store_reset(kit.store, other, hash_at(&kit, 0, 3)));
    assert_int_equal(take(&kit, next, key, 5 * S, 3).outcome, WEIR_ALLOW);
    assert_int_equal(ring_size(&kit, 1), 16);
    assert_int_equal(take(&kit, next, key, 5 * S, 1).outcome, WEIR_ALLOW);
    assert_int_equal(take(&kit, next, key, 5 * S, 1).outcome, WEIR_DENY);
    kit_close(&kit);
}

static void charges_and_refunds_reach_a_log_of_an_earlier_shape(void **state)
{
    (void)state;
    struct kit kit;
    struct settled settled;
    kit_open(&kit, 9, 256);
    const struct shape *old = log_shape(&kit, 8, 1, 0);
    const struct shape *next = log_shape(&kit, 20, 2, 5 * S);
    uint64_t key = hash_at(&kit, 0, 1), other = hash_at(&kit, 0, 2);
    (void)take(&kit, old, key, 4 * S, 6);
    (void)take(&kit, old, other, 4 * S, 6);
    assert_true(store_charge(kit.store, next, key, 5 * S, 20, &settled));
    assert_int_equal(settled.done, 14);
    assert_int_equal(settled.dropped, 6);
    assert_int_equal(ring_size(&kit, 1), 32);
    assert_true(store_refund(kit.store, next, other, 4 * S, 5 * S, 4, &settled));
    assert_int_equal(settled.done, 4);
    assert_int_equal(peek(&kit, next, other, 5 * S, 1).report.remaining, 18);
    assert_true(store_reset(kit.store, next, key));
    assert_true(store_reset(kit.store, next, other));
    assert_int_equal(kit_stats(&kit, 0).log_stamps_free, 256);
    kit_close(&kit);
}

/* Every ring is a key's: a shape that can do without is known all the same, and one that cannot takes what is dead. */
static void a_crowded_arena_does_not_stop_a_change(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_when_full when_full;
        uint64_t count;
        weir_ns since;
        int code;
    } rows[] = {
        { "closed: keys will leave", WEIR_FULL_CLOSED, 8, 5 * S, 0 },
        { "closed, but too large for all of the arena", WEIR_FULL_CLOSED, 65, 5 * S, WEIR_ERR_LOG_MEMORY },
        { "overflow, and all keys live", WEIR_FULL_OVERFLOW, 8, 5 * S, WEIR_ERR_LOG_MEMORY },
        { "overflow, and all keys dead", WEIR_FULL_OVERFLOW, 64, 50 * S, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        const struct shape *old = log_shape(&kit, 8, 1, 0);
        for (uint64_t tag = 1; tag <= 8; tag++)
            (void)take(&kit, old, hash_at(&kit, 0, tag), 4 * S, 1);
        struct shape next = *old;
        next.number = 2;
        next.capacity = rows[i].count;
        next.when_full = rows[i].when_full;
        next.generation = 2;
        next.since = rows[i].since;
        expect_row(store_shape_add(kit.store, &next) == rows[i].code, rows[i].why);
        if (rows[i].code == 0) {
            store_shape_remove(kit.store, &next);
            expect_row(kit_stats(&kit, 0).log_stamps_free == (rows[i].since > 10 * S ? 64 : 0), rows[i].why);
            expect_row(store_shape_add(kit.store, &next) == 0, rows[i].why); /* the number is free again */
        }
        kit_close(&kit);
    }
}

/* Counts go up and down at random over a crowded arena; against a log that is only a list of stamps. */
static void moving_logs_never_admit_more_than_their_count(void **state)
{
    (void)state;
    struct random random = { random_seed(16) };
    uint64_t full = 0, refused = 0;
    for (unsigned run = 0; run < 400; run++) {
        struct kit kit;
        kit_open(&kit, 9, 64);
        weir_ns now = 0, stamps[600];
        unsigned count = 0;
        const struct shape *shape = NULL;
        for (uint32_t change = 1; change <= 8; change++) {
            uint64_t most = 1 + random_below(&random, 24);
            shape = log_shape(&kit, most, change, now);
            for (unsigned n = 0; n < 60; n++) {
                now += random_below(&random, 4) == 0 ? random_below(&random, 4 * S) : 0;
                if (random_below(&random, 3) == 0) { /* others take rings and leave them */
                    uint64_t hash = hash_at(&kit, 1, 2 + random_below(&random, 6));
                    if (random_below(&random, 3) == 0)
                        (void)store_reset(kit.store, shape, hash);
                    else
                        (void)take(&kit, shape, hash, now, 1);
                    continue;
                }
                uint64_t cost = 1 + random_below(&random, 3), live = 0;
                for (unsigned i = 0; i < count; i++)
                    live += stamps[i] + 10 * S > now;
                struct store_answer answer = take(&kit, shape, hash_at(&kit, 0, 1), now, cost);
                if (cost > most)
                    assert_int_equal(answer.outcome, WEIR_NEVER);
                else if (live + cost > most)
                    assert_true(answer.outcome == WEIR_DENY || answer.outcome == WEIR_REFUSED);
                full += answer.outcome == WEIR_ALLOW && live + cost == most;
                refused += answer.outcome != WEIR_ALLOW && live + cost <= most;
                for (uint64_t i = 0; answer.outcome == WEIR_ALLOW && i < cost; i++)
                    stamps[count++] = answer.at;
                assert_true(count + 3 < COUNT_OF(stamps));
            }
        }
        kit_close(&kit);
    }
    print_message("%llu times to the last place, %llu times refused for want of a ring\n",
                  (unsigned long long)full, (unsigned long long)refused);
    assert_true(full > 1000 && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_moves_to_the_ring_that_is_wanted),
        cmocka_unit_test(no_stamp_is_dropped_for_a_smaller_ring),
        cmocka_unit_test(a_log_without_a_larger_ring_admits_less),
        cmocka_unit_test(charges_and_refunds_reach_a_log_of_an_earlier_shape),
        cmocka_unit_test(a_crowded_arena_does_not_stop_a_change),
        cmocka_unit_test(moving_logs_never_admit_more_than_their_count),
    };
    return cmocka_run_group_tests_name("store/log_move", tests, NULL, NULL);
}
