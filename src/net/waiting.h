// SPDX-License-Identifier: Apache-2.0
/*
 * waiting.h - the decider of this process: an answer at once, or when the request's turn has come.
 *
 * Idea: every request is decided first as if nobody ever waited, so those who need not wait pay nothing for those who
 * do. Only where that denies, the limits let callers wait and the request says for how long, it is parked: the waiter
 * of weir_contract_wait() and what is needed to answer it, about a kilobyte. The ticker (ticker.h), on whichever thread,
 * ends the wait; the request's own worker finds it in its inbox and has it answered.
 *
 * Words      worker->ended: under worker->inbox_lock. server->parked_count: every worker adds and subtracts.
 * Ordering   the lock carries what the ending thread wrote. parked_count is relaxed: it is a gauge.
 * Progress   the lock is held for a few instructions.
 * Reuse      a parked request's memory is freed by its own worker, after it was taken back from the limiter
 *            (weir_wait_cancel() said so) or had ended.
 */
#ifndef WEIR_NET_WAITING_H
#define WEIR_NET_WAITING_H

#include "net/ask.h"
#include "net/counters.h"

struct worker;

/* What waits for its turn begins with this; its memory is whoever parked it. */
struct parked {
    struct weir_waiter waiter; /* first: its done() gets this; its owner is the ask */
    struct worker *worker;
    void (*ended)(struct parked *parked); /* on its worker, from waiting_collect() */
    struct parked *next;                  /* in worker->ended */
};

/* Its waiter's done(), on whichever thread ends it. */
void waiting_ended(struct weir_waiter *waiter);

/* It waits, and holds nothing of the contract now; and it does not any more. */
void waiting_park(struct parked *parked);
void waiting_unpark(struct parked *parked);

/* Close frees it. NULL: out of memory. */
struct decider *waiting_new(struct worker *worker);

/* As its start(), for a decider that leaves some asks to this one: what is parked then has this file's ended(). */
void waiting_start(struct worker *worker, struct decider *decider, struct ask *ask);

/* Take back what waits. False: it has ended, and its answer comes. */
bool waiting_leave(struct parked *parked, int why);
void waiting_cancel(struct decider *decider, struct ask *ask, int why);

/* Answer those of this worker's requests whose wait has ended. No connection may be active but in virtual time, where its
   output must be empty. */
void waiting_collect(struct worker *worker);

/* ---- What came of a wait ------------------------------------------------------------------------------------------- */

/* What an ended waiter was given beside its answer; NULL: the request met no limit that it stood for. */
void waiting_take_gift(const struct worker *worker, const struct ask *ask, const struct weir_waiter *waiter,
                       struct verdict *verdict);

/* Why a request that is answered at once did not wait; and one that waited did so in vain. */
enum answer_wait waiting_why_not(const struct ask *ask, const struct weir_answer *answer);
enum answer_wait waiting_why_in_vain(const struct weir_answer *answer, const struct weir_waiter *waiter);

/* It had to wait, and so it ended. */
enum wait_end waiting_end_of(const struct weir_answer *answer);
void waiting_count_end(struct worker *worker, const struct weir_answer *answer, enum wait_end end,
                       weir_ns waited);

#endif
