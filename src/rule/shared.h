// SPDX-License-Identifier: Apache-2.0
/*
 * shared.h - a request that meets limits of a fleet: asked here, then of the store, and put together.
 *
 * Under rules that are `is_apart` the limiter knows the shared limits, so that ids are the contract's, and counts none of them.
 */
#ifndef WEIR_RULE_SHARED_H
#define WEIR_RULE_SHARED_H

#include "rule/decide.h"

/* Move the questions of shared limits from `questions` to `out`; but for those whose key the request lacks, which need no
   asking. Those that stay keep their order. */
void shared_take(const struct rules *rules, struct questions *questions, struct weir_shared *out);

/* Of one key: the limit's, or its override's. */
struct weir_shared_size shared_size_of_key(const struct rules *rules, const struct rule *rule,
                                           const struct weir_ask *ask);

/* Whether a question is of a limit that is counted elsewhere. */
bool questions_have_shared(const struct rules *rules, const struct questions *questions);

/* As weir_contract_begin(), without waiting for more than `patience`; `waiter` has room for all. */
int shared_begin(const struct rules *rules, bool is_peek, struct questions *questions, weir_ns patience,
                 weir_ns now, struct weir_waiter *waiter, struct weir_answer *out, struct weir_shared *shared);

/* As weir_contract_decide() and its kin, where the store counts as away since the contract was loaded. Nothing waits. */
int shared_decide_away(const struct weir_contract *contract, const struct asking *asking,
                       struct questions *questions, struct weir_waiter *waiter, struct weir_answer *out);

/* The store cannot be had, and the limit refuses. */
struct weir_decision decide_closed(const struct weir_shared_ask *ask, enum weir_reason reason, weir_ns now);

/* The whole answer of what the waiter (NULL: nobody) and the store say, in contract order. shared_answer.c. */
void shared_answer(const struct rules *rules, const struct weir_shared_met *met, size_t count,
                   const struct weir_waiter *waiter, weir_ns now, struct weir_answer *out);

#endif
