// SPDX-License-Identifier: Apache-2.0
/*
 * log.h - the sliding log's arithmetic: stamps in a ring, oldest first.
 *
 * A request passes when fewer than `count` lie in the last period; a stamp exactly one period old no longer
 * counts. Exact: any interval shorter than a period holds at most `count` (P16). Pure over the ring it is given;
 * the lock and the arena are the store's (store/log.c).
 */
#ifndef WEIR_LIMIT_LOG_H
#define WEIR_LIMIT_LOG_H

#include "limit/shape.h"

/* A ring of mask + 1 stamps; the oldest is stamps[head & mask]. Stamps never decrease from oldest to newest. */
struct log_view {
    weir_ns *stamps;
    uint32_t mask;
    uint32_t head;
    uint32_t count;
};

/*
 * Drop what left the period, then take `cost` places at max(now, newest stamp), or none. A peek drops nothing
 * and takes nothing. step.word is 0; the report is the same as shape_report()'s.
 */
struct step log_decide(const struct shape *shape, struct log_view *log, weir_ns now, uint64_t cost,
                       bool is_peek, struct report *report);

/* Whether every stamp left the period at least SHAPE_GRACE_NS ago. */
bool log_is_dead(const struct shape *shape, const struct log_view *log, weir_ns now);

/* Take out up to `cost` stamps equal to charged_at (equal ones are interchangeable). */
void log_undo(struct log_view *log, weir_ns charged_at, uint64_t cost);

#endif
