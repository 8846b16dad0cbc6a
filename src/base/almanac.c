// SPDX-License-Identifier: Apache-2.0
/*
 * almanac.c - civil windows by arithmetic on days, and by a search for the second at which a zone's clock changes.
 */
#include "base/almanac.h"

#include "base/civil.h"

#define DAY_SECONDS INT64_C(86400)

/* The number of the window that a local day lies in, and the first day of a window. */
static int64_t index_of_day(enum weir_calendar unit, int64_t day)
{
    struct civil date = civil_from_days(day);
    switch (unit) {
    case WEIR_CALENDAR_DAY:
        return day;
    case WEIR_CALENDAR_WEEK:
        return floor_divide(day + 3, 7); /* 1970-01-01 was a Thursday */
    case WEIR_CALENDAR_MONTH:
        return (date.year - 1970) * 12 + (int64_t)date.month - 1;
    default:
        return date.year - 1970;
    }
}

static int64_t first_day(enum weir_calendar unit, int64_t index)
{
    switch (unit) {
    case WEIR_CALENDAR_DAY:
        return index;
    case WEIR_CALENDAR_WEEK:
        return index * 7 - 3;
    case WEIR_CALENDAR_MONTH:
        return civil_to_days(1970 + floor_divide(index, 12),
                             (unsigned)(index - floor_divide(index, 12) * 12) + 1, 1);
    default:
        return civil_to_days(1970 + index, 1, 1);
    }
}

/*
 * The first second whose local date is `day` or later. Where a zone's clock skips midnight that is the skip itself;
 * where it repeats midnight, the first of the two. Zones change at most once in the two days looked at.
 */
static int64_t start_of_day(const struct zone *zone, int64_t day)
{
    int64_t midnight = day * DAY_SECONDS;
    int32_t before = zone_offset(zone, midnight - DAY_SECONDS);
    int32_t after = zone_offset(zone, midnight + DAY_SECONDS);
    if (before == after)
        return midnight - before;

    int64_t low = midnight - DAY_SECONDS, high = midnight + DAY_SECONDS; /* the change is in (low, high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (zone_offset(zone, middle) == before)
            low = middle;
        else
            high = middle;
    }
    if (midnight - before < high)
        return midnight - before;
    return midnight - after > high ? midnight - after : high;
}

int64_t almanac_start(const struct zone *zone, enum weir_calendar unit, int64_t index)
{
    return start_of_day(zone, first_day(unit, index));
}

/* Overlaps at midnight belong to the later day. */
int64_t almanac_index(const struct zone *zone, enum weir_calendar unit, int64_t unix_seconds)
{
    int64_t local = unix_seconds + zone_offset(zone, unix_seconds);
    int64_t index = index_of_day(unit, floor_divide(local, DAY_SECONDS));
    while (almanac_start(zone, unit, index + 1) <= unix_seconds)
        index++;
    return index < 0 ? 0 : index;
}
