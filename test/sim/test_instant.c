// SPDX-License-Identifier: Apache-2.0
/* test_instant.c - durations and instants of test files, against values counted by hand or by `date -u -d`. */
#include "support/unit.h"

#include "sim/instant.h"

static void durations_are_exact_sums(void **state)
{
    static const struct row {
        const char *why, *text;
        bool is_good;
        weir_ns length;
    } rows[] = {
        { "zero needs a unit too", "0s", true, 0 },
        { "each unit: ns", "7ns", true, 7 },
        { "us", "7us", true, 7000 },
        { "ms is not m", "7ms", true, 7000000 },
        { "s", "7s", true, UINT64_C(7000000000) },
        { "m", "7m", true, UINT64_C(420000000000) },
        { "h", "7h", true, UINT64_C(25200000000000) },
        { "d", "7d", true, UINT64_C(604800000000000) },
        { "w", "1w", true, UINT64_C(604800000000000) },
        { "a sum", "1m30s", true, UINT64_C(90000000000) },
        { "a sum in any order, a unit twice", "1s1m1s", true, UINT64_C(62000000000) },
        { "ten mean years and a nanosecond", "3652d10h48m1ns", true, UINT64_C(315571680000000001) },
        { "the largest that is not `never`", "18446744073709551614ns", true, UINT64_MAX - 1 },
        { "`never` is no duration", "18446744073709551615ns", false, 0 },
        { "a product that overflows", "18446744073709551615s", false, 0 },
        { "a sum that overflows", "18446744073709551614ns1h", false, 0 },
        { "nothing", "", false, 0 },
        { "a bare number is never a duration", "5", false, 0 },
        { "a unit alone", "s", false, 0 },
        { "no such unit", "5y", false, 0 },
        { "a blank", "5 s", false, 0 },
        { "a fraction", "1.5s", false, 0 },
        { "a sign", "-5s", false, 0 },
        { "a leading zero", "05s", false, 0 },
        { "something behind it", "5s!", false, 0 },
        { "a number behind it", "5s5", false, 0 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weir_ns length = 0;
        expect_row(duration_parse(slice_of(rows[i].text), &length) == rows[i].is_good, rows[i].why);
        expect_row(length == rows[i].length, rows[i].why);
    }
}

static void instants_are_unix_time(void **state)
{
    static const struct row {
        const char *why, *text;
        bool is_good;
        int64_t seconds, fraction;
    } rows[] = {
        { "the beginning", "1970-01-01T00:00:00Z", true, 0, 0 },
        { "the end of the first day", "1970-01-01T23:59:59Z", true, 86399, 0 },
        { "a leap day of a year by 400", "2000-02-29T12:00:00Z", true, 951825600, 0 },
        { "a leap day", "2024-02-29T23:59:59Z", true, 1709251199, 0 },
        { "the day behind it", "2024-03-01T00:00:00Z", true, 1709251200, 0 },
        { "the last second of a year", "2026-12-31T23:59:59Z", true, 1798761599, 0 },
        { "a year by 100 has no leap day", "2100-03-01T00:00:00Z", true, 4107542400, 0 },
        { "the last year", "2199-12-31T23:59:59Z", true, 7258118399, 0 },
        { "a fraction", "1970-01-01T00:00:01.5Z", true, 1, 500000000 },
        { "nine decimals", "1970-01-01T00:00:01.000000001Z", true, 1, 1 },
        { "east of Greenwich is earlier", "1970-01-01T01:00:00+01:00", true, 0, 0 },
        { "west is later", "1970-01-01T00:00:00-02:30", true, 9000, 0 },
        { "before the beginning", "1969-12-31T23:59:59Z", false, 0, 0 },
        { "beyond the last year", "2200-01-01T00:00:00Z", false, 0, 0 },
        { "no month 13", "2024-13-01T00:00:00Z", false, 0, 0 },
        { "no month 0", "2024-00-01T00:00:00Z", false, 0, 0 },
        { "no day 30 of February", "2024-02-30T00:00:00Z", false, 0, 0 },
        { "no leap day in 2100", "2100-02-29T00:00:00Z", false, 0, 0 },
        { "no day 0", "2024-01-00T00:00:00Z", false, 0, 0 },
        { "no day 32", "2024-12-32T00:00:00Z", false, 0, 0 },
        { "no hour 24", "2024-01-01T24:00:00Z", false, 0, 0 },
        { "no leap second", "2016-12-31T23:59:60Z", false, 0, 0 },
        { "the zone is missing", "2024-01-01T00:00:00", false, 0, 0 },
        { "a blank is no T", "2024-01-01 00:00:00Z", false, 0, 0 },
        { "ten decimals", "2024-01-01T00:00:00.0000000001Z", false, 0, 0 },
        { "a point without decimals", "2024-01-01T00:00:00.Z", false, 0, 0 },
        { "something behind it", "2024-01-01T00:00:00Z ", false, 0, 0 },
        { "cut short", "2024-01-01T00:0", false, 0, 0 },
        { "nothing", "", false, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t instant = 0;
        expect_row(instant_parse(slice_of(rows[i].text), &instant) == rows[i].is_good, rows[i].why);
        expect_row(instant == rows[i].seconds * 1000000000 + rows[i].fraction, rows[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_exact_sums),
        cmocka_unit_test(instants_are_unix_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
