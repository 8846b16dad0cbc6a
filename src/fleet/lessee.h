// SPDX-License-Identifier: Apache-2.0
/*
 * lessee.h - messages about leases, in one loop: gathered, sent together, answered.
 *
 * Idea: nobody waits for them. What requests of this turn of the loop left low, and what the beat finds due, leaves in commands of up to
 * SCRIPT_LEASES_MAX messages, in a Cluster those of one slot together. A command that is not answered in time is given up, and its
 * messages are sent again as they were: they are idempotent. The breaker is heeded, so an outage costs nothing; what is in
 * hand lasts until it ends.
 *
 * The beat is shared: loops that have seen a leased key since the table was last empty collect a stripe of its shards each. One
 * that goes away leaves its stripe to the others. A loop that has nothing to do with leases has no beat.
 */
#ifndef WEIR_FLEET_LESSEE_H
#define WEIR_FLEET_LESSEE_H

#include "fleet/holdings.h"
#include "fleet/work.h"

/* How often the table is looked at for what is due, and how long a command may take where decisions may not take longer. */
#define LESSEE_BEAT_NS (50 * WEIR_MILLISECOND)
#define LESSEE_PATIENCE_NS (250 * WEIR_MILLISECOND)
/* The beat while all goes back. */
#define LESSEE_LAST_BEAT_NS (5 * WEIR_MILLISECOND)
/* Before a message goes again that was not answered. */
#define LESSEE_PAUSE_NS (100 * WEIR_MILLISECOND)
/* Most commands gathered and under way in one loop: any more wait for the next beat. */
#define LESSEE_MISSIONS_MAX 64

_Static_assert(2 * LESSEE_BEAT_NS <= LEASE_NOTICE_NS, "what is due is seen in time");

struct lessee;

/* 0, WEIR_ERR_MEMORY. One for each fleet. */
int lessee_new(struct lessee **out, struct fleet *fleet);
/* Abandons what is under way. Accepts NULL. */
void lessee_free(struct lessee *lessee);

/* A key is in the table: take part in the beat. */
void lessee_watch(struct lessee *lessee, weir_ns now);
/* A key's hand is low: its message leaves at the end of this turn. */
void lessee_call(struct lessee *lessee, uint64_t hash, weir_ns now);

/* When lessee_tick() has something to do is in fleet->lessee_at. */
void lessee_tick(struct lessee *lessee, weir_ns now);

/* Everything is to go back: now, rather than at the next beat. */
void lessee_hand_back(struct lessee *lessee, weir_ns now);
/* Nothing is under way any more: others may send what was. */
void lessee_drain(struct lessee *lessee, weir_ns now);

#endif
