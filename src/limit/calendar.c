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

#include "base/almanac.h"
#include "base/civil.h"

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
        int64_t index = almanac_index(calendar->zone, calendar->unit, seconds);
        uint64_t later =
            (uint64_t)index << END_BITS | (uint64_t)almanac_start(calendar->zone, calendar->unit, index + 1);
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
    return stamp_of(almanac_start(calendar->zone, calendar->unit, (int64_t)index), origin);
}
