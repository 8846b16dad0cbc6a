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

struct worker;

/* Close frees it. NULL: out of memory. */
struct decider *waiting_new(struct worker *worker);

/* Answer those of this worker's requests whose wait has ended. No connection may be active but in virtual time, where its
   output must be empty. */
void waiting_collect(struct worker *worker);

#endif
