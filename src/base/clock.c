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

weir_ns weir_now(void)
{
    return clock_monotonic();
}

int64_t weir_wall_offset(void)
{
    return clock_wall() - (int64_t)clock_monotonic();
}
