// SPDX-License-Identifier: Apache-2.0
/*
 * counters.h - what one worker counts; nobody else writes it.
 *
 * Idea: counters that no two threads write need neither lock nor locked instruction, and a scrape adds up all
 * workers' (metrics.c, limits.c). Labels are limits, fixed words and statuses: never keys of clients.
 *
 * Words      every counter: written by its worker, read by any.
 * Ordering   relaxed: a sum over counters that move is approximate anyway; a single word is never torn.
 * Progress   wait-free.
 * Reuse      none: counters live as long as the server.
 */
#ifndef WEIR_NET_COUNTERS_H
#define WEIR_NET_COUNTERS_H

#include <stdbool.h>

#include "weir_contract.h"

/* What a request was for: the label `door`. NONE: no request was understood, or no such path. */
enum door {
    DOOR_NONE,
    DOOR_CHECK,
    DOOR_AUTH,
    DOOR_AUTH_NGINX,
    DOOR_AUTH_ACCEL,
    DOOR_LIMITS,
    DOOR_HEALTHZ,
    DOOR_READYZ,
    DOOR_METRICS,
    DOOR_COUNT
};

const char *door_name(enum door door);

/* Statuses are below 600 (RFC 9110). */
#define COUNTERS_STATUS_MAX 600

/* Upper bounds of weir_decision_seconds, 1 us to 1 s; above the last is +Inf. */
#define COUNTERS_TIMES 19
extern const weir_ns counters_time_bounds[COUNTERS_TIMES];

struct counters {
    uint64_t requests[DOOR_COUNT][COUNTERS_STATUS_MAX];
    uint64_t times[COUNTERS_TIMES + 1];
    uint64_t time_sum_ns;
    size_t limit_count;
    uint64_t *decisions; /* [limit_count + 1][WEIR_OUTCOME_COUNT]; the last row: no limit */
    uint64_t *undecided; /* [limit_count][WEIR_POLICY_COUNT][WEIR_REASON_COUNT] */
};

/* 0 or WEIR_ERR_MEMORY. */
int counters_init(struct counters *counters, size_t limit_count);
void counters_deinit(struct counters *counters);

static inline void counter_add(uint64_t *counter, uint64_t more)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

static inline uint64_t counter_read(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/*
 * Count one answer. Where the request passed, each limit it met counts what it said; where not, only those that did
 * not let it pass: `allow` of a limit is thus the number of requests that were charged to it.
 */
void counters_decision(struct counters *counters, const struct weir_answer *answer);

/* `count` decisions took `ns` together. */
void counters_time(struct counters *counters, uint64_t count, weir_ns ns);

#endif
