// SPDX-License-Identifier: Apache-2.0
/* A store is made whole or not at all, of the size that was asked for, and counts what it holds (G5, P25). */
#include "store/kit.h"

static void the_table_has_the_next_power_of_two_at_sixty_percent(void **state)
{
    (void)state;
    static const struct row {
        size_t keys;
        uint64_t cells;
    } rows[] = {
        { 0, 16 },  { 1, 16 },  { 9, 16 },           { 10, 32 },
        { 18, 32 }, { 19, 64 }, { 629145, 1 << 20 }, { 629146, 1 << 21 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;
        kit_open(&kit, rows[i].keys, 0);
        assert_int_equal(kit_stats(&kit, 0).cells, rows[i].cells);
        kit_close(&kit);
    }
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        struct store_options options;
    } rows[] = {
        { "more keys than 2^33 cells hold", { .keys = (size_t)1 << 33 } },
        { "a bound on new keys without a period", { .new_keys = { 5, 0 } } },
        { "a bound on new keys that no word holds", { .new_keys = { UINT64_MAX, S } } },
        { "more log stamps than rings can be numbered", { .log_stamps = SIZE_MAX } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit = { 0 };
        expect_row(kit_try_open(&kit, &rows[i].options) == WEIR_ERR_OPTION, rows[i].why);
        expect_row(kit.block_count == 0, rows[i].why);
    }
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    struct store_options options = { .keys = 9, .log_stamps = 64 };
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        struct kit kit = { .fail_at = n };
        failed = kit_try_open(&kit, &options) != 0;
        if (failed) {
            assert_int_equal(kit.block_count, 0);
            continue;
        }
        assert_true(n > 4);
        /* The next allocation is that of a shape: refused, and the store goes on without it. */
        struct shape shape;
        struct weir_limit limit = { .name = "one", .rate = { 1, S }, .burst = 1 };
        assert_int_equal(shape_init(&shape, &limit, 0, &kit.allocator), 0);
        shape.number = 1;
        kit.fail_at = kit.allocations + 1;
        assert_int_equal(store_shape_add(kit.store, &shape), WEIR_ERR_MEMORY);
        assert_int_equal(store_shape_add(kit.store, &shape), 0);
        assert_int_equal(take(&kit, &shape, 1, 0, 1).outcome, WEIR_ALLOW);
        kit_close(&kit);
    }
    store_free(NULL);
}

static void bytes_are_what_was_reserved(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 5000, 4096);
    (void)kit_shape(&kit, (struct weir_limit){ .rate = { 1, S }, .burst = 1 });
    (void)kit_shape(&kit, (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG, .rate = { 100, S } });
    uint64_t reserved = 0;
    for (size_t i = 0; i < kit.block_count; i++)
        reserved += kit.blocks[i].size;
    assert_int_equal(kit_stats(&kit, 0).bytes, reserved);
    kit_close(&kit);
}

static void deciding_allocates_nothing(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 9, 64);
    const struct shape *shapes[] = {
        kit_shape(&kit, (struct weir_limit){ .rate = { 1, S }, .burst = 3 }),
        kit_shape(&kit, (struct weir_limit){ .algorithm = WEIR_SLIDING_LOG, .rate = { 3, S } }),
        kit_shape(&kit,
                  (struct weir_limit){ .rate = { 1, S }, .burst = 3, .when_full = WEIR_FULL_EVICT_LEAST }),
    };
    size_t before = kit.allocations;
    for (uint64_t i = 0; i < 10000; i++) {
        const struct shape *shape = shapes[i % 3];
        uint64_t hash = hash_at(&kit, i & 1, i % 37);
        struct store_answer answer = take(&kit, shape, hash, i * 10 * MS, 1);
        store_undo(kit.store, shape, hash, &answer, i * 10 * MS, 1);
        (void)peek(&kit, shape, hash, i * 10 * MS, 1);
        if (i % 100 == 0)
            store_sweep(kit.store, i * 10 * MS, 1);
    }
    assert_int_equal(kit.allocations, before);
    kit_close(&kit);
}

static void a_prefetch_changes_nothing(void **state)
{
    (void)state;
    struct kit kit;
    kit_open(&kit, 100, 0);
    struct snapshot before = kit_snapshot(&kit);
    store_prefetch(kit.store, 0);
    store_prefetch(kit.store, UINT64_MAX);
    assert_true(kit_is_unchanged(&kit, before));
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_the_next_power_of_two_at_sixty_percent),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(bytes_are_what_was_reserved),
        cmocka_unit_test(deciding_allocates_nothing),
        cmocka_unit_test(a_prefetch_changes_nothing),
    };
    return cmocka_run_group_tests_name("store/life", tests, NULL, NULL);
}
