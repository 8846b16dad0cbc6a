// SPDX-License-Identifier: Apache-2.0
/* wait.h - what the files of a waiter's life share: wait.c lets in and ends, wait_decide.c decides, wait_answer.c tells,
   wait_blocking.c blocks. */
#ifndef WEIR_WAIT_H
#define WEIR_WAIT_H

#include "composite.h"

/* Gather the asks: parts that are decided together, and behind them a part for each watched one, which `watched` has a bit for.
   0, or as composite_gather(). */
int wait_gather(const struct weir_set *set, const struct weir_ask *asks, size_t count, struct composite *all,
                uint64_t *watched);

/* The request as it stands under the set in force. What is not counted any more passes. */
void wait_resume(const struct weir_set *set, const struct weir_waiter *waiter, weir_ns now,
                 struct composite *all);

/* Decide those that are decided together. There may be none. 0, or WEIR_ERR_CHANGED and nothing was charged. */
int wait_decide(struct composite *all);

/* And the watched ones behind them. CHANGED only where nothing was charged. */
int wait_watch(struct composite *all, size_t stand_count, bool passes);

/* Take down what the waiter is about, before it is answered or enters; the composite has a part for each stand. */
void wait_write_stands(const struct composite *all, const struct weir_ask *asks, struct weir_waiter *waiter);

/* Write down the answer; each part's is in the composite. */
void wait_write_answer(const struct composite *all, struct weir_waiter *waiter);

#endif
