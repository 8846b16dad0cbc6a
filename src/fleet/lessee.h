// SPDX-License-Identifier: Apache-2.0
/*
 * lessee.h - messages about leases, in one loop: gathered, sent together, answered.
 *
 * Idea: nobody waits for them. What requests of this turn of the loop left low, and what the beat finds due, leaves in commands of up to
 * SCRIPT_LEASES_MAX messages, in a Cluster those of one slot together. A command that is not answered in time is given up, and its
 * messages are sent again as they were: they are idempotent. The breaker is heeded, so an outage costs nothing; what is in
 * hand lasts until it ends.
 */
#ifndef WEIR_FLEET_LESSEE_H
#define WEIR_FLEET_LESSEE_H

#include "fleet/holdings.h"
#include "fleet/work.h"

/* How often the table is looked at for what is due, and how long a command may take. */
#define LESSEE_BEAT_NS (50 * WEIR_MILLISECOND)
#define LESSEE_PATIENCE_NS (250 * WEIR_MILLISECOND)

struct lessee;

/* 0, WEIR_ERR_MEMORY. One for each fleet. */
int lessee_new(struct lessee **out, struct fleet *fleet);
/* Abandons what is under way. */
void lessee_free(struct lessee *lessee);

/* A key's hand is low: its message leaves at the end of this turn. */
void lessee_call(struct lessee *lessee, uint64_t hash, weir_ns now);

/* As fleet_next() and fleet_tick(), which call them. */
weir_ns lessee_next(const struct lessee *lessee);
void lessee_tick(struct lessee *lessee, weir_ns now);

/* Everything is to go back: now, rather than at the next beat. */
void lessee_hand_back(struct lessee *lessee, weir_ns now);

#endif
