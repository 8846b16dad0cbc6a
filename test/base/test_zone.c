// SPDX-License-Identifier: Apache-2.0
/*
 * Time zones against the C library's, which reads the same files with other code: random instants from 1970 to 2130 in
 * zones with every kind of rule.
 */
#include "support/unit.h"

#include <time.h>

#include "base/civil.h"
#include "base/memory.h"
#include "base/zone.h"
#include "support/random.h"

static const struct row {
    const char *why, *zone;
} rows[] = {
    { "no rule at all", "UTC" },
    { "summer time by the last Sunday", "Europe/Berlin" },
    { "changes at midnight", "America/Havana" },
    { "changes at 24:00 of a Saturday", "America/Santiago" },
    { "south of the equator: summer spans the new year", "Australia/Lord_Howe" },
    { "a negative summer time", "Europe/Dublin" },
    { "an odd offset", "Asia/Kathmandu" },
    { "skipped a whole day in 2011", "Pacific/Apia" },
    { "many changes in the past, none to come", "Asia/Tehran" },
    { "a rule with hours beyond a day", "America/Nuuk" },
};

static void offsets_agree_with_the_c_library(void **state)
{
    (void)state;
    struct random random = { random_seed(7) };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct zone *zone;
        expect_row(zone_open(&zone, rows[i].zone, &memory_default) == 0, rows[i].why);
        setenv("TZ", rows[i].zone, 1);
        tzset();
        for (int k = 0; k < 20000; k++) {
            time_t at = (time_t)random_below(&random, UINT64_C(5049216000));
            struct tm local;
            localtime_r(&at, &local);
            if (zone_offset(zone, at) != local.tm_gmtoff)
                fail_msg("%s: %s at %lld: %d, the C library says %ld", rows[i].why, rows[i].zone, (long long)at,
                         zone_offset(zone, at), local.tm_gmtoff);
        }
        zone_close(zone, &memory_default);
    }
    unsetenv("TZ");
}

static void names_that_are_no_zones_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *why, *name;
    } bad[] = {
        { "empty", "" },
        { "a way out of the folder", "../../etc/passwd" },
        { "hidden inside", "Europe/../../../etc/passwd" },
        { "an absolute path", "/etc/localtime" },
        { "no such zone", "Europe/Atlantis" },
        { "a folder", "Europe" },
        { "a file that is no zone", "tzdata.zi" },
        { "ends in a slash", "Europe/" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct zone *zone;
        expect_row(zone_open(&zone, bad[i].name, &memory_default) == WEIR_ERR_ZONE, bad[i].why);
    }
}

static void days_and_dates_are_inverse(void **state)
{
    (void)state;
    for (int64_t day = -200000; day < 200000; day += 13) {
        struct civil date = civil_from_days(day);
        assert_int_equal(civil_to_days(date.year, date.month, date.day), day);
    }
    struct civil leap = civil_from_days(11016);
    assert_int_equal(leap.year, 2000);
    assert_int_equal(leap.month, 2);
    assert_int_equal(leap.day, 29);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(offsets_agree_with_the_c_library),
                                        cmocka_unit_test(names_that_are_no_zones_are_refused),
                                        cmocka_unit_test(days_and_dates_are_inverse) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
