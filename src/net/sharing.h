// SPDX-License-Identifier: Apache-2.0
/*
 * sharing.h - the decider of a server with a store: limits of this process first, then those of the fleet, then both.
 *
 * Idea: where the contract has shared limits, every request is begun with a waiter of its own, whose charges stand until the
 * store has answered (weir_contract_begin(), fleet_decide(), weir_contract_end()). Where it has none, and for requests that meet
 * none, all is as in waiting.h.
 *
 *     begin -> no shared limit met ------------------------------------> answer
 *           -> its turn has not come -> parked -> refused -------------> answer
 *           |                                  -> passed -> ask
 *           -> ask the store -> its decisions, or the policies' -> end -> answer
 *
 * What a request under way takes is bounded (WORKER_SHARED_MAX). Beyond it nothing waits, for the store neither: one piece of
 * memory is left, in which a request is answered by policy at once.
 *
 * Who hangs up while the store is asked: what it takes there stays taken, what was charged here is undone, permits return.
 */
#ifndef WEIR_NET_SHARING_H
#define WEIR_NET_SHARING_H

#include "net/ask.h"

struct worker;

/* Close frees it. NULL: out of memory. */
struct decider *sharing_new(struct worker *worker);

#endif
