// SPDX-License-Identifier: Apache-2.0
/* test_calendar_now.c - where calendar windows begin around an instant, also for more zones than are remembered. */
#include "support/unit.h"

#include "fleet/calendar_now.h"

#define US UINT64_C(1000000)

static void tells_four_beginnings(void **state)
{
    (void)state;
    static const struct row {
        const char *why;
        enum weir_calendar unit;
        const char *zone;
        uint64_t now, begins[4]; /* Unix seconds, by `date -d` */
    } rows[] = {
        { "a day of UTC",
          WEIR_CALENDAR_DAY,
          NULL,
          1700000000,
          { 1699833600, 1699920000, 1700006400, 1700092800 } },
        { "its first second",
          WEIR_CALENDAR_DAY,
          "UTC",
          1699920000,
          { 1699833600, 1699920000, 1700006400, 1700092800 } },
        { "and its last",
          WEIR_CALENDAR_DAY,
          "UTC",
          1700006399,
          { 1699833600, 1699920000, 1700006400, 1700092800 } },
        { "the day of 23 hours",
          WEIR_CALENDAR_DAY,
          "Europe/Berlin",
          1711846800, /* 2024-03-31 03:00 CEST */
          { 1711753200, 1711839600, 1711922400, 1712008800 } },
        { "a month, a leap February ahead",
          WEIR_CALENDAR_MONTH,
          "UTC",
          1706000000, /* 2024-01-23 */
          { 1701388800, 1704067200, 1706745600, 1709251200 } },
        { "a week begins on Monday",
          WEIR_CALENDAR_WEEK,
          "UTC",
          1700000000,
          { 1699228800, 1699833600, 1700438400, 1701043200 } },
        { "a year", WEIR_CALENDAR_YEAR, "UTC", 1700000000, { 1640995200, 1672531200, 1704067200, 1735689600 } },
        { "the first day of all has none before it that we know",
          WEIR_CALENDAR_DAY,
          "UTC",
          5,
          { 0, 0, 86400, 172800 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t out[4];
        expect_row(calendar_now(rows[i].unit, rows[i].zone, rows[i].now * US + 999999, out), rows[i].why);
        for (size_t k = 0; k < 4; k++)
            expect_row(out[k] == rows[i].begins[k] * US, rows[i].why);
    }
}

static void remembers_few_zones_and_answers_for_all(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++)
        for (int hours = -14; hours <= 12; hours++)
            for (enum weir_calendar unit = WEIR_CALENDAR_DAY; unit <= WEIR_CALENDAR_WEEK; unit++) {
                char zone[32];
                uint64_t out[4];
                (void)snprintf(zone, sizeof zone, "Etc/GMT%+d", hours); /* its sign says how far west */
                assert_true(calendar_now(unit, zone, 1700000000 * US, out));
                assert_int_equal((out[1] / US + 86400 * 7 - (uint64_t)(hours * 3600 + 86400)) % 86400, 0);
                assert_true(out[0] < out[1] && out[1] <= 1700000000 * US && 1700000000 * US < out[2]
                            && out[2] < out[3]);
            }
}

static void says_that_a_zone_is_unknown(void **state)
{
    (void)state;
    uint64_t out[4];
    assert_false(calendar_now(WEIR_CALENDAR_DAY, "Nowhere/Town", US, out));
    assert_false(calendar_now(WEIR_CALENDAR_DAY,
                              "A/name/that/is/longer/than/any/zone/has/ever/been/in/the/whole/history/of/zones",
                              US, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_four_beginnings),
        cmocka_unit_test(remembers_few_zones_and_answers_for_all),
        cmocka_unit_test(says_that_a_zone_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
