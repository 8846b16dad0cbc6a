// SPDX-License-Identifier: Apache-2.0
/*
 * clock.h - the only place that asks the system what time it is.
 *
 * Everything below net/ takes its stamp as an argument; weir_now() and weir_wall_offset() of weir.h are these.
 */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in ns. */
uint64_t clock_monotonic(void);

/* CLOCK_REALTIME in ns since 1970. */
int64_t clock_wall(void);

/* For how long the machine has been suspended since it started, in ns: what CLOCK_MONOTONIC leaves out. It changes only while
   the machine is suspended. 0 where the system has no such clock. */
uint64_t clock_asleep(void);

#endif
