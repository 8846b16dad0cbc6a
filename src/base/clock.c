// SPDX-License-Identifier: Apache-2.0
/*
 * clock.c - the system's clocks as integers.
 */
#include "base/clock.h"

#include <time.h>

#include "weir.h"

static int64_t clock_read(clockid_t id)
{
    struct timespec at = { 0, 0 };
    (void)clock_gettime(id, &at); /* cannot fail for the two clocks that every Linux has */
    return (int64_t)at.tv_sec * (int64_t)WEIR_SECOND + at.tv_nsec;
}

uint64_t clock_monotonic(void)
{
    return (uint64_t)clock_read(CLOCK_MONOTONIC);
}

int64_t clock_wall(void)
{
    return clock_read(CLOCK_REALTIME);
}

#ifdef CLOCK_BOOTTIME
/* Readings that lie further apart than this were interrupted; another try, or the best of several. */
#define GAP_NS 20000
#define TRIES 8

/* Between two readings of one clock lies one of the other: the difference is known up to how far the two lie apart. */
uint64_t clock_asleep(void)
{
    int64_t asleep = 0, gap = INT64_MAX;
    for (int i = 0; i < TRIES && gap > GAP_NS; i++) {
        int64_t before = clock_read(CLOCK_MONOTONIC), boot = clock_read(CLOCK_BOOTTIME),
                behind = clock_read(CLOCK_MONOTONIC);
        if (behind - before < gap) {
            gap = behind - before;
            asleep = boot - before;
        }
    }
    return asleep > 0 ? (uint64_t)asleep : 0;
}
#else
uint64_t clock_asleep(void)
{
    return 0;
}
#endif

weir_ns weir_now(void)
{
    return clock_monotonic();
}

int64_t weir_wall_offset(void)
{
    return clock_wall() - (int64_t)clock_monotonic();
}
