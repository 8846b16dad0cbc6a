// SPDX-License-Identifier: Apache-2.0
/*
 * test_foreign_fields.c - a limit that states what only another algorithm reads is refused: its author expected something.
 */
#include "admit/waiting.h"

static void a_field_of_another_algorithm_is_refused(void **state)
{
    (void)state;
#define WAITS .wait = { S, 10 }
#define JOBS .algorithm = WEIR_CONCURRENCY, .at_most = 1, .hold = S
    static const struct row {
        const char *why;
        struct weir_limit limit;
        int code;
    } rows[] = {
        { "a queue's burst is 1", { .algorithm = WEIR_LEAKY_QUEUE, .rate = { 5, S }, .burst = 2, WAITS }, -38 },
        { "and may be said", { .algorithm = WEIR_LEAKY_QUEUE, .rate = { 5, S }, .burst = 1, WAITS }, 0 },
        { "or not", { .algorithm = WEIR_LEAKY_QUEUE, .rate = { 5, S }, WAITS }, 0 },
        { "a queue's permits", { .algorithm = WEIR_LEAKY_QUEUE, .rate = { 5, S }, .at_most = 1, WAITS }, -38 },
        { "a bucket's permits", { .rate = { 5, S }, .burst = 5, .at_most = 1 }, -38 },
        { "a bucket's hold", { .rate = { 5, S }, .burst = 5, .hold = S }, -38 },
        { "a window's burst", { .algorithm = WEIR_FIXED_WINDOW, .rate = { 5, S }, .burst = 5 }, -38 },
        { "a log's burst", { .algorithm = WEIR_SLIDING_LOG, .rate = { 5, S }, .burst = 1 }, -38 },
        { "a log's hold", { .algorithm = WEIR_SLIDING_LOG, .rate = { 5, S }, .hold = S }, -38 },
        { "a rate of permits", { JOBS, .rate = { 5, S } }, -38 },
        { "half a rate of permits", { JOBS, .rate = { 0, S } }, -38 },
        { "a burst of permits", { JOBS, .burst = 1 }, -38 },
        { "permits", { JOBS }, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weir_limit_id id = 7;
        struct weir *weir = limiter();
        struct weir_limit limit = rows[i].limit;
        limit.name = "l";
        expect_row(weir_limit_add(weir, &limit, &id) == rows[i].code, rows[i].why);
        expect_row(id == (rows[i].code == 0 ? 0 : 7), rows[i].why);
        weir_free(weir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_of_another_algorithm_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
