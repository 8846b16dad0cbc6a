// SPDX-License-Identifier: Apache-2.0
/* Keys that are waited for: the bit bars everybody but who is at its turn, and outlives whatever is done to the cell. */
#include "store/kit.h"

static const struct weir_limit limits[] = {
    { .name = "bucket", .rate = { 1, S }, .burst = 10, .debt = 20 },
    { .name = "window", .algorithm = WEIR_FIXED_WINDOW, .rate = { 10, 10 * S } },
    { .name = "first",
      .algorithm = WEIR_FIXED_WINDOW,
      .align = WEIR_ALIGN_FIRST_REQUEST,
      .rate = { 10, 10 * S } },
    { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 10, 10 * S } },
    { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { 10, 10 * S } },
    { .name = "permits", .algorithm = WEIR_CONCURRENCY, .at_most = 10, .hold = 10 * S },
};

struct bench {
    struct kit kit;
    const struct shape *shape;
    uint64_t key;
};

static void bench_open(struct bench *bench, struct weir_limit limit)
{
    bench->kit = (struct kit){ 0 };
    assert_int_equal(
        kit_try_open(&bench->kit, &(struct store_options){ .keys = 9, .log_stamps = 256, .permits = 256 }), 0);
    bench->shape = kit_shape_at(&bench->kit, limit, (struct kit_place){ .lineage = 7, .generation = 1 });
    bench->key = hash_at(&bench->kit, 0, 1);
}

static struct store_answer decide(struct bench *bench, weir_ns now, uint64_t cost, unsigned stance)
{
    struct store_answer answer;
    assert_true(
        store_decide(bench->kit.store, bench->shape, bench->key, now, cost, stance | STORE_ACQUIRE, &answer));
    return answer;
}

static bool bars(struct bench *bench, weir_ns now)
{
    struct store_answer taken = decide(bench, now, 1, STORE_TAKE), seen = decide(bench, now, 1, STORE_LOOK);
    bool is_barred = taken.outcome == WEIR_DENY && taken.is_queued;
    assert_int_equal(is_barred, seen.outcome == WEIR_DENY && seen.is_queued);
    return is_barred;
}

static void queue(struct bench *bench, weir_ns now)
{
    assert_int_equal(store_queue(bench->kit.store, bench->shape, bench->key, now), STORE_QUEUED);
}

static weir_ns foresee(struct bench *bench, weir_ns now, uint64_t ahead, uint64_t cost)
{
    weir_ns at;
    assert_true(store_foresee(bench->kit.store, bench->shape, bench->key, now, ahead, cost, &at));
    return at;
}

static void the_bit_bars_all_but_the_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        for (uint64_t used = 0; used <= 4; used += 4) { /* a key without a cell, and with one */
            struct bench bench;
            bench_open(&bench, limits[i]);
            if (used > 0)
                expect_row(decide(&bench, 20 * S, used, STORE_TAKE).outcome == WEIR_ALLOW, limits[i].name);
            queue(&bench, 20 * S);
            expect_row(cells_of(&bench.kit, 1) == 1, limits[i].name);
            struct snapshot before = kit_snapshot(&bench.kit);
            expect_row(bars(&bench, 20 * S), limits[i].name);
            expect_row(bars(&bench, 9 * S), limits[i].name);
            expect_row(decide(&bench, 20 * S, 11, STORE_TAKE).outcome == WEIR_NEVER, limits[i].name);
            expect_row(kit_is_unchanged(&bench.kit, before), limits[i].name);
            expect_row(decide(&bench, 20 * S, 4, STORE_TURN).outcome == WEIR_ALLOW, limits[i].name);
            expect_row(bars(&bench, 20 * S), limits[i].name);
            queue(&bench, 20 * S); /* it says so already */
            store_unqueue(bench.kit.store, bench.shape, bench.key);
            struct store_answer answer = decide(&bench, 20 * S, 1, STORE_TAKE);
            expect_row(answer.outcome == WEIR_ALLOW && !answer.is_queued, limits[i].name);
            expect_row(answer.report.remaining == 10 - used - 5, limits[i].name);
            store_unqueue(bench.kit.store, bench.shape, bench.key); /* nothing to do */
            kit_close(&bench.kit);
        }
    }
}

static void the_bit_outlives_what_is_done_to_the_cell(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct bench bench;
        struct settled settled;
        bench_open(&bench, limits[i]);
        struct store *store = bench.kit.store;
        queue(&bench, 20 * S);
        struct store_answer taken = decide(&bench, 20 * S, 4, STORE_TURN);
        store_undo(store, bench.shape, bench.key, &taken, 20 * S, 4);
        expect_row(bars(&bench, 20 * S), limits[i].name);
        (void)decide(&bench, 20 * S, 4, STORE_TURN);
        assert_true(store_charge(store, bench.shape, bench.key, 20 * S, 1, &settled));
        assert_true(store_refund(store, bench.shape, bench.key, 20 * S, 20 * S, 2, &settled));
        expect_row(bars(&bench, 20 * S), limits[i].name);

        /* Long dead, and still there; while another key of the table goes. */
        store_sweep(store, 1000 * S, SIZE_MAX);
        expect_row(cells_of(&bench.kit, 1) == 1 && bars(&bench, 1000 * S), limits[i].name);

        (void)decide(&bench, 1000 * S, 10, STORE_TURN);
        assert_true(store_reset(store, bench.shape, bench.key));
        expect_row(bars(&bench, 1000 * S), limits[i].name);
        expect_row(decide(&bench, 1000 * S, 10, STORE_LOOK | STORE_TURN).outcome == WEIR_ALLOW, limits[i].name);

        /* Another size: whoever charges converts, and so does the walk at the end. */
        struct weir_limit larger = limits[i];
        larger.rate.count += larger.rate.count == 0 ? 0 : 20;
        larger.burst = larger.burst == 0 ? 0 : 30;
        larger.at_most = larger.at_most == 0 ? 0 : 30;
        (void)decide(&bench, 1000 * S, 5, STORE_TURN);
        bench.shape = kit_shape_at(&bench.kit, larger, (struct kit_place){ .lineage = 7, .generation = 2 });
        expect_row(bars(&bench, 1000 * S), limits[i].name);
        expect_row(decide(&bench, 1000 * S, 20, STORE_TURN).outcome == WEIR_ALLOW, limits[i].name);
        expect_row(bars(&bench, 1000 * S), limits[i].name);
        bench.shape = kit_shape_at(&bench.kit, larger, (struct kit_place){ .lineage = 7, .generation = 3 });
        store_convert(store, bench.shape, bench.key, 1000 * S);
        expect_row(bars(&bench, 1000 * S), limits[i].name);
        store_unqueue(store, bench.shape, bench.key);
        expect_row(!bars(&bench, 1000 * S), limits[i].name);
        kit_close(&bench.kit);
    }
}

/* A cell is made for the waiter before anything is charged: an older stamp must not find more in it than at that instant. */
static void a_new_cell_is_dated(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits) - 1; i++) { /* a permit says by itself since when it is held */
        struct bench bench;
        bench_open(&bench, limits[i]);
        queue(&bench, 100 * S);
        store_unqueue(bench.kit.store, bench.shape, bench.key);
        uint64_t early = decide(&bench, 97 * S, 10, STORE_TAKE).outcome == WEIR_ALLOW ? 10 : 0;
        uint64_t now = decide(&bench, 100 * S, 10, STORE_TAKE).outcome == WEIR_ALLOW ? 10 : 0;
        expect_row(early + now <= 10, limits[i].name);
        kit_close(&bench.kit);
    }
}

static void a_key_without_a_place_cannot_be_waited_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct bench bench;
        bench_open(&bench, limits[i]);
        for (uint64_t tag = 2; tag < 2 + LOOK_CELLS; tag++) {
            struct store_answer answer;
            assert_true(store_decide(bench.kit.store, bench.shape, hash_at(&bench.kit, 0, tag), 20 * S, 1,
                                     STORE_ACQUIRE, &answer));
        }
        expect_row(store_queue(bench.kit.store, bench.shape, bench.key, 20 * S) == STORE_QUEUE_FULL,
                   limits[i].name);
        expect_row(store_queue(bench.kit.store, bench.shape, bench.key, WEIR_HORIZON + 1) == STORE_QUEUE_FULL,
                   limits[i].name);
        expect_row(cells_of(&bench.kit, 1) == 0, limits[i].name);
        kit_close(&bench.kit);
    }
}

static void a_set_that_is_old_learns_of_it(void **state)
{
    (void)state;
    struct bench bench;
    weir_ns at;
    bench_open(&bench, limits[0]);
    const struct shape *old = bench.shape;
    bench.shape = kit_shape_at(&bench.kit, limits[0], (struct kit_place){ .lineage = 7, .generation = 2 });
    queue(&bench, S);
    assert_int_equal(store_queue(bench.kit.store, old, bench.key, S), STORE_QUEUE_OLD);
    assert_false(store_foresee(bench.kit.store, old, bench.key, S, 0, 1, &at));
    kit_close(&bench.kit);
}

static void a_turn_is_foreseen(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        size_t limit;
        uint64_t used, ahead, cost;
        weir_ns at;
    } rows[] = {
        { "a new key has all", 0, 0, 9, 1, 20 * S },
        { "one more waits for one", 0, 0, 10, 1, 21 * S },
        { "what was used counts", 0, 7, 10, 2, 29 * S },
        { "what never passes", 0, 0, 0, 11, WEIR_NO_TIME },
        { "a look is of one", 0, 10, 0, 0, 21 * S },
        { "a window of its own", 1, 10, 0, 1, 30 * S },
        { "and the one after it", 1, 10, 10, 1, 40 * S },
        { "a large one needs a window with room", 1, 10, 15, 6, 50 * S },
        { "from the first request", 2, 4, 6, 1, 30 * S },
        { "a log's oldest", 4, 10, 9, 1, 30 * S },
        { "and then those that took their places", 4, 10, 10, 1, 40 * S },
        { "permits that expire", 5, 10, 0, 3, 30 * S },
        { "and those given then", 5, 10, 10, 1, 40 * S },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct bench bench;
        bench_open(&bench, limits[row->limit]);
        if (row->used > 0)
            expect_row(decide(&bench, 20 * S, row->used, STORE_TAKE).outcome == WEIR_ALLOW, row->why);
        struct snapshot before = kit_snapshot(&bench.kit);
        expect_row(foresee(&bench, 20 * S, row->ahead, row->cost) == row->at, row->why);
        expect_row(kit_is_unchanged(&bench.kit, before), row->why);
        if (row->cost > 0 && row->at != WEIR_NO_TIME) { /* also with the bit, and under another size */
            queue(&bench, 20 * S);
            expect_row(foresee(&bench, 20 * S, row->ahead, row->cost) == row->at, row->why);
            bench.shape = kit_shape_at(&bench.kit, limits[row->limit],
                                       (struct kit_place){ .lineage = 7, .generation = 2 });
            expect_row(foresee(&bench, 20 * S, row->ahead, row->cost) == row->at, row->why);
        }
        kit_close(&bench.kit);
    }
}

/* Who waits after a loss of state waits until something is there again. */
static void what_was_lost_is_waited_for(void **state)
{
    (void)state;
    static const weir_ns first_at[] = { 21 * S, 30 * S, 30 * S, 30 * S, 30 * S };
    for (size_t i = 0; i < COUNT_OF(first_at); i++) {
        struct weir_limit limit = limits[i];
        struct bench bench;
        limit.state_lost = WEIR_LOST_EMPTY;
        bench_open(&bench, limits[i]);
        bench.shape = kit_shape_at(&bench.kit, limit, (struct kit_place){ .lineage = 8, .lost_at = 20 * S });
        weir_ns expected = i == 3 ? foresee(&bench, 20 * S, 0, 1) : first_at[i];
        expect_row(foresee(&bench, 20 * S, 0, 1) == expected, limits[i].name);
        queue(&bench, 20 * S);
        expect_row(decide(&bench, 20 * S, 1, STORE_TURN).outcome == WEIR_DENY, limits[i].name);
        expect_row(foresee(&bench, 20 * S, 0, 1) == expected, limits[i].name);
        expect_row(decide(&bench, expected, 1, STORE_TURN).outcome == WEIR_ALLOW, limits[i].name);
        kit_close(&bench.kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bit_bars_all_but_the_first),
        cmocka_unit_test(the_bit_outlives_what_is_done_to_the_cell),
        cmocka_unit_test(a_new_cell_is_dated),
        cmocka_unit_test(a_key_without_a_place_cannot_be_waited_for),
        cmocka_unit_test(a_set_that_is_old_learns_of_it),
        cmocka_unit_test(a_turn_is_foreseen),
        cmocka_unit_test(what_was_lost_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
