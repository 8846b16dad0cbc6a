// SPDX-License-Identifier: Apache-2.0
/*
 * calendar.h - windows that follow the wall: civil days, weeks, months and years in a time zone.
 *
 * The index of a window is its number since 1970 (day, Monday week, month, year). The current window is one
 * published word that never goes back: a wall clock that is stepped back stays in the window it had reached, so no
 * window is opened twice (B11).
 */
#ifndef WEIR_LIMIT_CALENDAR_H
#define WEIR_LIMIT_CALENDAR_H

#include "limit/shape.h"

/* A window: its number, and the stamp at which the next one begins. */
struct position {
    uint64_t index;
    weir_ns end;
};

/* Bits of an index: days until the year 2328. */
#define CALENDAR_INDEX_BITS 17

/* 0, WEIR_ERR_ZONE or WEIR_ERR_MEMORY. `wall_at_origin` is Unix time in ns at stamp 0. */
int calendar_new(struct calendar **out, enum weir_calendar unit, const char *zone, int64_t wall_at_origin,
                 const struct weir_allocator *allocator);
void calendar_free(struct calendar *calendar, const struct weir_allocator *allocator);

/* The wall moved. Any thread. */
void calendar_set(struct calendar *calendar, int64_t wall_at_origin);

/* The current window at a stamp, which may be one that was reached before. Any thread; publishes a newer one. */
struct position calendar_locate(struct calendar *calendar, weir_ns now);

/* Where the window of an index begins, as a stamp; 0 if before the origin. */
weir_ns calendar_start(struct calendar *calendar, uint64_t index);

#endif
