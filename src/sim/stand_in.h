// SPDX-License-Identifier: Apache-2.0
/*
 * stand_in.h - the store of shared limits in virtual time: the same contract once more, in one process that all ask.
 *
 * Idea: a store that all replicas share decides as one process would that had all their requests. So it is a contract that
 * stands for the whole fleet, asked with the questions that a real store is sent. It counts in nanoseconds; a real one in
 * ticks, and may answer up to one tick later.
 */
#ifndef WEIR_SIM_STAND_IN_H
#define WEIR_SIM_STAND_IN_H

#include "sim/timeline.h"

struct stand_in;

/* What the store gave: any replica may end it. All zero: nothing. */
struct stand_in_gift {
    struct weir_reservation reservation;
    struct weir_permit permit;
    uint64_t losses; /* of the store, when it was given */
};

/* Takes a contract of WEIR_FLEET_ALONE. NULL: out of memory, and the contract is still the caller's. */
struct stand_in *stand_in_new(struct weir_contract *contract);
void stand_in_free(struct stand_in *store);

struct weir_contract *stand_in_contract(const struct stand_in *store);

/* It is taken away or comes back; or it lost all that it knew and goes on with a contract in a fresh state, which it takes. */
void stand_in_leave(struct stand_in *store, weir_ns now);
void stand_in_return(struct stand_in *store);
void stand_in_lose(struct stand_in *store, struct weir_contract *fresh);

/* The outage that lasts; began_at WEIR_NO_TIME: none does. */
struct weir_outage stand_in_outage(const struct stand_in *store);

/* Decide all of `shared`, all or nothing; `met` has room for as many. The kinds are those that decide. True: it passes. */
bool stand_in_decide(const struct stand_in *store, enum step_kind kind, bool is_peek,
                     const struct weir_shared *shared, weir_ns now, struct weir_shared_met *met,
                     struct stand_in_gift *gift);

/* Charge one question's cost without asking: it was spent while the store was away. */
void stand_in_spend(const struct stand_in *store, const struct weir_shared_ask *ask, uint64_t cost,
                    weir_ns now);

/* The rest as the calls of weir.h; what was given before a loss is none of its own any more. */
bool stand_in_gave(const struct stand_in *store, const struct stand_in_gift *gift);
int stand_in_settle(const struct stand_in *store, const struct stand_in_gift *gift, bool is_cancel,
                    uint64_t cost, weir_ns now, struct weir_settlement *out);
int stand_in_refund(const struct stand_in *store, const struct weir_shared *shared, uint64_t cost, weir_ns now,
                    struct weir_settlement *out);
int stand_in_renew(const struct stand_in *store, const struct stand_in_gift *gift, weir_ns now,
                   weir_ns *expires_at);
int stand_in_release(const struct stand_in *store, const struct stand_in_gift *gift, weir_ns now,
                     bool *was_held);
int stand_in_reset(const struct stand_in *store, const struct weir_shared_ask *ask);

#endif
