// SPDX-License-Identifier: Apache-2.0
/*
 * civil.h - days since 1970-01-01 and the proleptic Gregorian calendar, both ways.
 *
 * The 400-year cycle shifted to begin in March, so that the leap day comes last (Howard Hinnant, "chrono-compatible
 * low-level date algorithms").
 */
#ifndef WEIR_BASE_CIVIL_H
#define WEIR_BASE_CIVIL_H

#include <stdint.h>

struct civil {
    int64_t year;
    unsigned month; /* 1 .. 12 */
    unsigned day;   /* 1 .. 31 */
};

static inline int64_t civil_to_days(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + (int64_t)day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static inline struct civil civil_from_days(int64_t days)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    unsigned month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
    return (struct civil){ year_of_era + era * 400 + (month <= 2), month,
                           (unsigned)(day_of_year - (153 * shifted + 2) / 5 + 1) };
}

/* floor(x / y) for y > 0. */
static inline int64_t floor_divide(int64_t x, int64_t y)
{
    return x / y - (x % y < 0);
}

#endif
