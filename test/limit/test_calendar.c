// SPDX-License-Identifier: Apache-2.0
/*
 * Calendar windows by instants from the public record: when days, weeks, months and years begin where, across changes
 * of the clock; and the wall clock that moves under them (B11, B13).
 */
#include "support/unit.h"

#include "base/memory.h"
#include "limit/shape.h"

#define S WEIR_SECOND

/* Unix seconds at the origin, and the seconds after which the window that holds it ends, and the next one. */
static const struct row {
    const char *why;
    const char *zone;
    enum weir_calendar unit;
    int64_t unix_seconds;
    uint64_t first_end, second_end;
} rows[] = {
    { "UTC by default", NULL, WEIR_CALENDAR_DAY, 1798848000 + 3600, 86400 - 3600, 2 * 86400 - 3600 },
    { "Berlin, 2027-03-28: a day of 23 hours", "Europe/Berlin", WEIR_CALENDAR_DAY, 1806188400, 23 * 3600,
      47 * 3600 },
    { "Berlin, 2026-10-25: a day of 25 hours", "Europe/Berlin", WEIR_CALENDAR_DAY, 1792879200, 25 * 3600,
      49 * 3600 },
    { "a week begins on Monday: 1970-01-01 was a Thursday", "UTC", WEIR_CALENDAR_WEEK, 0, 4 * 86400,
      11 * 86400 },
    { "Sunday is its last day", "UTC", WEIR_CALENDAR_WEEK, 4 * 86400 - 1, 1, 1 + 7 * 86400 },
    { "2028-02 has 29 days", "UTC", WEIR_CALENDAR_MONTH, 1832976000, 29 * 86400, 60 * 86400 },
    { "2027-02 has 28", "UTC", WEIR_CALENDAR_MONTH, 1801440000, 28 * 86400, 59 * 86400 },
    { "2028 has 366 days", "UTC", WEIR_CALENDAR_YEAR, 1830297600, UINT64_C(366) * 86400,
      UINT64_C(731) * 86400 },
    { "Kathmandu is 5:45 ahead", "Asia/Kathmandu", WEIR_CALENDAR_DAY, 0, 86400 - 5 * 3600 - 30 * 60,
      2 * 86400 - 5 * 3600 - 30 * 60 },
};

static struct shape shape_of(const char *zone, enum weir_calendar unit, int64_t unix_seconds)
{
    struct weir_limit limit = { .name = "c",
                                .algorithm = WEIR_FIXED_WINDOW,
                                .rate = { 2, 0 },
                                .align = WEIR_ALIGN_CALENDAR,
                                .calendar = unit,
                                .zone = zone };
    struct shape shape;
    assert_int_equal(shape_init(&shape, &limit, unix_seconds * (int64_t)S, &memory_default), 0);
    return shape;
}

static void windows_end_when_the_calendar_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct shape shape = shape_of(row->zone, row->unit, row->unix_seconds);
        weir_ns first = row->first_end * S, second = row->second_end * S;
        struct step step = shape_decide(&shape, 0, 0, 2);
        expect_row(step.outcome == WEIR_ALLOW, row->why);
        expect_row(shape_report(&shape, &step, 2).reset_at == first, row->why);
        expect_row(shape_decide(&shape, step.word, first - 1, 1).outcome == WEIR_DENY, row->why);
        step = shape_decide(&shape, step.word, first, 1);
        expect_row(step.outcome == WEIR_ALLOW, row->why);
        expect_row(shape_report(&shape, &step, 1).reset_at == second, row->why);
        shape_deinit(&shape, &memory_default);
    }
}

static void B11_a_wall_that_steps_back_reopens_nothing(void **state)
{
    (void)state;
    struct shape shape = shape_of("UTC", WEIR_CALENDAR_DAY, 86400 - 10); /* ten seconds to midnight */
    uint64_t word = shape_decide(&shape, 0, 0, 2).word;
    struct step step = shape_decide(&shape, word, 10 * S, 2);
    assert_int_equal(step.outcome, WEIR_ALLOW);
    shape_wall_set(&shape, INT64_C(86400 - 10 - 3600) * (int64_t)S); /* an hour back: yesterday again */
    assert_int_equal(shape_decide(&shape, step.word, 11 * S, 1).outcome, WEIR_DENY);
    assert_int_equal(shape_decide(&shape, 0, 11 * S, 2).outcome, WEIR_ALLOW); /* another key: today's count */
    struct step other = shape_decide(&shape, 0, 11 * S, 2);
    assert_int_equal(shape_decide(&shape, other.word, 12 * S, 1).outcome, WEIR_DENY);
    shape_deinit(&shape, &memory_default);
}

static void a_wall_that_steps_on_opens_the_window_it_shows(void **state)
{
    (void)state;
    struct shape shape = shape_of("UTC", WEIR_CALENDAR_DAY, 0);
    uint64_t word = shape_decide(&shape, 0, 0, 2).word;
    assert_int_equal(shape_decide(&shape, word, S, 1).outcome, WEIR_DENY);
    shape_wall_set(&shape, INT64_C(86400) * (int64_t)S);
    assert_int_equal(shape_decide(&shape, word, 2 * S, 1).outcome, WEIR_ALLOW);
    shape_deinit(&shape, &memory_default);
}

static void B13_calendars_that_are_none_are_refused(void **state)
{
    (void)state;
    struct weir_limit limit = { .name = "c",
                                .algorithm = WEIR_FIXED_WINDOW,
                                .rate = { 2, 0 },
                                .align = WEIR_ALIGN_CALENDAR,
                                .calendar = (enum weir_calendar)9 };
    struct shape shape;
    assert_int_equal(shape_init(&shape, &limit, 0, &memory_default), WEIR_ERR_CALENDAR);
    limit.calendar = WEIR_CALENDAR_DAY;
    static const char *const zones[] = { "Europe/Atlantis", "../../../etc/passwd", "/etc/localtime", "",
                                         "Europe" };
    for (size_t i = 0; i < COUNT_OF(zones); i++) {
        limit.zone = zones[i];
        expect_row(shape_init(&shape, &limit, 0, &memory_default) == WEIR_ERR_ZONE, zones[i]);
    }
    limit.zone = "UTC";
    limit.rate.count = UINT64_MAX;
    assert_int_equal(shape_init(&shape, &limit, 0, &memory_default), WEIR_ERR_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_end_when_the_calendar_says),
        cmocka_unit_test(B11_a_wall_that_steps_back_reopens_nothing),
        cmocka_unit_test(a_wall_that_steps_on_opens_the_window_it_shows),
        cmocka_unit_test(B13_calendars_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
