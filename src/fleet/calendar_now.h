// SPDX-License-Identifier: Apache-2.0
/*
 * calendar_now.h - the calendar windows around an instant, for a store that knows no time zones.
 */
#ifndef WEIR_FLEET_CALENDAR_NOW_H
#define WEIR_FLEET_CALENDAR_NOW_H

#include <stdbool.h>

#include "weir.h"

/*
 * Write where the window before the one that contains `wall_us`, this one, the next and the one after it begin, in us of Unix
 * time. False: the zone cannot be read any more. Zones are read once. Threads: any.
 */
bool calendar_now(enum weir_calendar unit, const char *zone, uint64_t wall_us, uint64_t out_us[4]);

#endif
