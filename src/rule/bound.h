// SPDX-License-Identifier: Apache-2.0
/*
 * bound.h - the most that a limit admits in any interval: the arrival curves of algorithms.md, as numbers (G1).
 */
#ifndef WEIR_RULE_BOUND_H
#define WEIR_RULE_BOUND_H

#include "rule/contract.h"

/* The intervals that explain prints. */
enum span { SPAN_ONCE, SPAN_SECOND, SPAN_MINUTE, SPAN_HOUR, SPAN_DAY, SPAN_COUNT };

struct span_row {
    weir_ns length;    /* ONCE: one ns, so that both sides of a window's edge count */
    const char *name;  /* "in any second" */
    const char *field; /* "second", in JSON */
};
extern const struct span_row spans[SPAN_COUNT];

/*
 * The most cost that one key is admitted in any interval of `length`, ends included. Saturates at 2^64 - 1. Calendar
 * windows are taken at their shortest, so the number may be too large by one window, never too small.
 */
uint64_t bound_in(const struct rule *rule, weir_ns length);

/* A concurrency limit bounds how many run, not how many begin: but "at once" the answer is 2^64 - 1. */

/*
 * Callers of one key who wait, each for a cost of 1: most of them at once, and the longest that one waits. The queue bounds
 * the first and `up-to` the second; where the pace is known, each bounds the other too. May be too large where a window
 * slides or a calendar decides; a concurrency limit's holders have no pace.
 */
uint64_t bound_turns(const struct rule *rule); /* that come within up-to: 2^64 - 1 where there is no pace */
uint64_t bound_waiting(const struct rule *rule);
weir_ns bound_longest_wait(const struct rule *rule);

/* The same for `replicas` processes that each hold the limit. */
uint64_t bound_times(uint64_t bound, uint64_t replicas);

#endif
