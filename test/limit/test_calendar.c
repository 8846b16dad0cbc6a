// SPDX-License-Identifier: Apache-2.0
/*
 * Calendar windows against the C library: the end of every window is the first second whose local date belongs to the
 * next one, found by asking localtime_r() around it.
 */
#include "support/unit.h"

#include <time.h>

#include "base/civil.h"
#include "base/memory.h"
#include "limit/calendar.h"
#include "support/random.h"

#define S WEIR_SECOND

/* The window that a local date belongs to, by the definition of each unit. */
static int64_t index_by_libc(enum weir_calendar unit, time_t at)
{
    struct tm local;
    localtime_r(&at, &local);
    int64_t year = local.tm_year + 1900,
            day = civil_to_days(year, (unsigned)local.tm_mon + 1, (unsigned)local.tm_mday);
    switch (unit) {
    case WEIR_CALENDAR_DAY:
        return day;
    case WEIR_CALENDAR_WEEK:
        return (day - (local.tm_wday + 6) % 7 + 3) / 7; /* of its Monday */
    case WEIR_CALENDAR_MONTH:
        return (year - 1970) * 12 + local.tm_mon;
    default:
        return year - 1970;
    }
}

static void windows_end_where_the_c_library_changes_the_date(void **state)
{
    (void)state;
    static const char *const zones[] = {
        "UTC",          "Europe/Berlin",       "America/Havana", "America/Santiago",
        "Pacific/Apia", "Australia/Lord_Howe", "Asia/Beirut"
    };
    struct random random = { random_seed(11) };
    for (size_t z = 0; z < COUNT_OF(zones); z++) {
        setenv("TZ", zones[z], 1);
        tzset();
        for (int unit = 0; unit < WEIR_CALENDAR_COUNT; unit++) {
            for (int k = 0; k < 400; k++) {
                time_t at = (time_t)(86400 * 400 + random_below(&random, UINT64_C(3000000000)));
                struct calendar *calendar;
                assert_int_equal(calendar_new(&calendar, (enum weir_calendar)unit, zones[z],
                                              (int64_t)at * (int64_t)S, &memory_default),
                                 0);
                struct position here = calendar_locate(calendar, 0);
                time_t end = at + (time_t)(here.end / S);
                assert_int_equal(here.end % S, 0);
                assert_true((int64_t)here.index >= index_by_libc((enum weir_calendar)unit, at));
                assert_true(index_by_libc((enum weir_calendar)unit, end) > (int64_t)here.index);
                assert_true(index_by_libc((enum weir_calendar)unit, end - 1) <= (int64_t)here.index);
                calendar_free(calendar, &memory_default);
            }
        }
    }
    unsetenv("TZ");
}

static void B11_a_wall_clock_stepped_back_reopens_no_window(void **state)
{
    (void)state;
    struct calendar *calendar;
    int64_t wall = INT64_C(1800000000) * (int64_t)S; /* 2027-01-15T08:00:00Z */
    assert_int_equal(calendar_new(&calendar, WEIR_CALENDAR_DAY, NULL, wall, &memory_default), 0);
    struct position friday = calendar_locate(calendar, 0);
    struct position saturday = calendar_locate(calendar, 16 * 3600 * S);
    assert_int_equal(saturday.index, friday.index + 1);

    calendar_set(calendar, wall - 3600 * (int64_t)S);
    struct position after = calendar_locate(calendar, 16 * 3600 * S);
    assert_int_equal(after.index, saturday.index);
    assert_int_equal(after.end, saturday.end + 3600 * S);
    assert_int_equal(calendar_start(calendar, after.index), 17 * 3600 * S);
    calendar_free(calendar, &memory_default);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(windows_end_where_the_c_library_changes_the_date),
                                        cmocka_unit_test(B11_a_wall_clock_stepped_back_reopens_no_window) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
