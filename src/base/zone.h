// SPDX-License-Identifier: Apache-2.0
/*
 * zone.h - a time zone: seconds east of UTC at any instant.
 *
 * Read once from the system's TZif files (RFC 8536) and immutable afterwards; asking allocates nothing and makes
 * no system call. C's own localtime() knows one zone per process, hence this.
 */
#ifndef WEIR_BASE_ZONE_H
#define WEIR_BASE_ZONE_H

#include <stdint.h>

#include "weir.h"

struct zone;

/*
 * Open a zone by name ("Europe/Berlin"); "UTC" needs no file. The allocator must outlive the zone.
 * Returns 0, WEIR_ERR_ZONE (no such name, or a file that is no TZif) or WEIR_ERR_MEMORY.
 */
int zone_open(struct zone **out, const char *name, const struct weir_allocator *allocator);
void zone_close(struct zone *zone, const struct weir_allocator *allocator);

/* Seconds to add to Unix time to read the zone's clock. */
int32_t zone_offset(const struct zone *zone, int64_t unix_seconds);

#endif
