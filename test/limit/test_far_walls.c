// SPDX-License-Identifier: Apache-2.0
/*
 * Origins and wall offsets at the ends of 64 bits, where a sum of them could wrap (and is undefined): Unix time in ns
 * ends on 2262-04-11, windows that end later are said to end then, and every deny names a later instant.
 */
#include "support/unit.h"

#include "weir.h"

#define UNIX_END (INT64_MAX / (int64_t)WEIR_SECOND) /* the last whole second */

static const struct row {
    const char *why;
    weir_ns origin;
    int64_t offset; /* at weir_new() */
    int64_t later;  /* set after that */
    weir_ns after;  /* ns from the origin to the decisions */
} rows[] = {
    { "the window's year ends behind the last second", 0, (UNIX_END - 86400) * (int64_t)WEIR_SECOND,
      (UNIX_END - 86400) * (int64_t)WEIR_SECOND, WEIR_SECOND },
    { "the same with the offset split", WEIR_HORIZON,
      (UNIX_END - 86400) * (int64_t)WEIR_SECOND - (int64_t)WEIR_HORIZON,
      (UNIX_END - 86400) * (int64_t)WEIR_SECOND - (int64_t)WEIR_HORIZON, WEIR_SECOND },
    { "an origin of half the range under an offset of none", (weir_ns)INT64_MAX - WEIR_HORIZON, 0, 0,
      WEIR_SECOND },
    { "origin and offset add up to more", WEIR_HORIZON, INT64_MAX, INT64_MAX, 0 },
    { "set to more later", WEIR_HORIZON, 0, INT64_MAX, 0 },
    { "the least offset", 0, INT64_MIN, INT64_MIN, WEIR_SECOND },
    { "an origin behind INT64_MAX whose offset brings it back", (weir_ns)INT64_MAX + 5, -INT64_MAX, -INT64_MAX,
      WEIR_SECOND },
};

static const struct weir_limit limits[] = {
    { .name = "year",
      .algorithm = WEIR_FIXED_WINDOW,
      .rate = { 2, 0 },
      .align = WEIR_ALIGN_CALENDAR,
      .calendar = WEIR_CALENDAR_YEAR,
      .zone = "America/Los_Angeles" },
    { .name = "epoch", .algorithm = WEIR_FIXED_WINDOW, .rate = { 2, 63 * WEIR_SECOND } },
    { .name = "long", .algorithm = WEIR_FIXED_WINDOW, .rate = { 2, WEIR_HORIZON } },
    { .name = "sliding", .algorithm = WEIR_SLIDING_WINDOW, .rate = { 2, 7 * WEIR_SECOND } },
};

static void no_sum_wraps(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct weir *weir;
        assert_int_equal(weir_new(&weir, &(struct weir_options){ .keys = 16,
                                                                 .log_stamps = 64,
                                                                 .origin = row->origin,
                                                                 .wall_offset = row->offset }),
                         0);
        for (size_t j = 0; j < COUNT_OF(limits); j++) {
            weir_limit_id id;
            struct weir_decision decision;
            weir_ns now = row->origin + row->after;
            assert_int_equal(weir_limit_add(weir, &limits[j], &id), 0);
            weir_wall_offset_set(weir, row->later);
            assert_int_equal(weir_check(weir, id, "k", 1, 2, now, &decision), 0);
            expect_row(decision.outcome == WEIR_ALLOW, row->why);
            expect_row(decision.reset_at >= now, row->why);
            bool has_ended = row->later == INT64_MAX; /* no instant is left to wait for */
            assert_int_equal(weir_check(weir, id, "k", 1, 1, now, &decision), 0);
            expect_row(decision.outcome == WEIR_DENY, row->why);
            expect_row(decision.retry_at > now || has_ended, row->why);
        }
        weir_free(weir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sum_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
