// SPDX-License-Identifier: Apache-2.0
/*
 * calendar.c - the current civil window, published in one word.
 *
 * Words:    `current` = [index:24][end in Unix seconds:40], written by whoever first sees a later window, read by every
 *           decision. `wall_at_origin`, written by whoever follows the wall clock.
 * Ordering: relaxed, each is self-contained; index and end travel in one word, so no reader sees half a window.
 * Progress: lock-free; a lost exchange means that somebody published a window at least as late.
 * Reuse:    none.
 *
 * Computing a window costs a few binary searches in the zone's table, once per window; every other decision
 * compares one number.
 */
#include "limit/calendar.h"

#include <stdatomic.h>

#include "base/civil.h"
#include "base/zone.h"

#define DAY_SECONDS INT64_C(86400)
#define END_BITS 40
/* The year 2328: what 17 bits of days reach. */
#define UNIX_MAX (INT64_C(130000) * DAY_SECONDS)

struct calendar {
    struct zone *zone;
    enum weir_calendar unit;
    _Atomic int64_t wall_at_origin;
    _Atomic uint64_t current;
};

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

static int64_t unix_start(const struct calendar *calendar, int64_t index)
{
    return start_of_day(calendar->zone, first_day(calendar->unit, index));
}

/* The window that contains a Unix second. Overlaps at midnight belong to the later day. */
static int64_t index_of(const struct calendar *calendar, int64_t unix_seconds)
{
    int64_t local = unix_seconds + zone_offset(calendar->zone, unix_seconds);
    int64_t index = index_of_day(calendar->unit, floor_divide(local, DAY_SECONDS));
    while (unix_start(calendar, index + 1) <= unix_seconds)
        index++;
    return index < 0 ? 0 : index;
}

static int64_t clamp_unix(int64_t seconds)
{
    return seconds < 0 ? 0 : seconds > UNIX_MAX ? UNIX_MAX : seconds;
}

/* Stamp of a Unix second: 0 when it lies before the origin. 64 bits of ns end in 2262, and so does this. */
static weir_ns stamp_of(int64_t unix_seconds, int64_t wall_at_origin)
{
    int64_t wall;
    if (__builtin_mul_overflow(unix_seconds, (int64_t)WEIR_SECOND, &wall))
        wall = INT64_MAX;
    return wall <= wall_at_origin ? 0 : (weir_ns)wall - (weir_ns)wall_at_origin;
}

int calendar_new(struct calendar **out, enum weir_calendar unit, const char *zone, int64_t wall_at_origin,
                 const struct weir_allocator *allocator)
{
    struct calendar *calendar =
        allocator->allocate(allocator->context, sizeof *calendar, _Alignof(struct calendar));
    if (calendar == NULL)
        return WEIR_ERR_MEMORY;
    calendar->unit = unit;
    calendar->wall_at_origin = wall_at_origin;
    int code = zone_open(&calendar->zone, zone == NULL ? "UTC" : zone, allocator);
    if (code != 0) {
        allocator->release(allocator->context, calendar, sizeof *calendar);
        return code;
    }
    *out = calendar;
    return 0;
}

void calendar_free(struct calendar *calendar, const struct weir_allocator *allocator)
{
    if (calendar == NULL)
        return;
    zone_close(calendar->zone, allocator);
    allocator->release(allocator->context, calendar, sizeof *calendar);
}

void calendar_set(struct calendar *calendar, int64_t wall_at_origin)
{
    atomic_store_explicit(&calendar->wall_at_origin, wall_at_origin, memory_order_relaxed);
}

struct position calendar_locate(struct calendar *calendar, weir_ns now)
{
    int64_t origin = atomic_load_explicit(&calendar->wall_at_origin, memory_order_relaxed);
    int64_t wall; /* `now` is within the horizon */
    if (__builtin_add_overflow(origin, (int64_t)now, &wall))
        wall = INT64_MAX;
    int64_t seconds = clamp_unix(floor_divide(wall, (int64_t)WEIR_SECOND));
    uint64_t seen = atomic_load_explicit(&calendar->current, memory_order_relaxed);

    while (seconds >= (int64_t)(seen & ((UINT64_C(1) << END_BITS) - 1))) {
        int64_t index = index_of(calendar, seconds);
        uint64_t later = (uint64_t)index << END_BITS | (uint64_t)unix_start(calendar, index + 1);
        if (atomic_compare_exchange_weak_explicit(&calendar->current, &seen, later, memory_order_relaxed,
                                                  memory_order_relaxed))
            seen = later;
    }
    uint64_t index = seen >> END_BITS;
    int64_t end = (int64_t)(seen & ((UINT64_C(1) << END_BITS) - 1));
    return (struct position){ index, stamp_of(end, origin) };
}

weir_ns calendar_start(struct calendar *calendar, uint64_t index)
{
    int64_t origin = atomic_load_explicit(&calendar->wall_at_origin, memory_order_relaxed);
    return stamp_of(unix_start(calendar, (int64_t)index), origin);
}
