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
    uint32_t spare; /* for a look: stamps that a larger ring would hold beside these */
};

/* The stamps that a log of this shape may hold: its count, or where refusals are charged twice that, as far as
   WEIR_LOG_MAX. A ring with less room admits less: the capacity is then what the ring holds. */
uint32_t log_room(const struct shape *shape);

/*
 * Drop what left the period, then take `cost` places at max(now, newest stamp), or none; a refusal that is charged takes
 * what places are left. A peek drops nothing and takes nothing. step.word is 0, or 1 where stamps were taken (a peek:
 * would be); the report is the same as shape_report()'s.
 */
struct step log_decide(const struct shape *shape, struct log_view *log, weir_ns now, uint64_t cost,
                       bool is_peek, struct report *report);

/* The answer for a key that nobody remembers, at `now`: nothing is left until lost_at + period. False: it is whole. */
bool log_starts_empty(const struct shape *shape, weir_ns now, uint64_t cost, struct step *step,
                      struct report *report);

/* When `cost` pass behind `ahead` others, as shape_foresee(). The log may have no ring: a key that nobody remembers. */
weir_ns log_foresee(const struct shape *shape, const struct log_view *log, weir_ns now, uint64_t ahead,
                    uint64_t cost);

/* Charge without asking, at max(now, newest stamp), as far as the count has room. How much was charged. */
uint64_t log_record(const struct shape *shape, struct log_view *log, weir_ns now, uint64_t amount);

/* Whether every stamp left the period at least SHAPE_GRACE_NS ago. */
bool log_is_dead(const struct shape *shape, const struct log_view *log, weir_ns now);

/* Take out up to `cost` stamps equal to charged_at (equal ones are interchangeable). */
void log_undo(struct log_view *log, weir_ns charged_at, uint64_t cost);

/* Take out the newest `amount` stamps not later than charged_at, of those that still count at `now`. How many. */
uint64_t log_refund(const struct shape *shape, struct log_view *log, weir_ns charged_at, weir_ns now,
                    uint64_t amount);

#endif
