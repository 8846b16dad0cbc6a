// SPDX-License-Identifier: Apache-2.0
/*
 * almanac.h - which civil day, week, month or year an instant lies in, and when one begins.
 *
 * Idea: the windows of a calendar are numbered since 1970 (day, Monday week, month, year) and begin at midnight of the zone. Where
 * a zone's clock skips midnight that is the skip; where it repeats midnight, the first of the two.
 */
#ifndef WEIR_BASE_ALMANAC_H
#define WEIR_BASE_ALMANAC_H

#include "base/zone.h"

/* The window that contains a Unix second; 0 for what lies before 1970. */
int64_t almanac_index(const struct zone *zone, enum weir_calendar unit, int64_t unix_seconds);

/* The Unix second at which a window begins. */
int64_t almanac_start(const struct zone *zone, enum weir_calendar unit, int64_t index);

#endif
