// SPDX-License-Identifier: Apache-2.0
/* wait.h - what the files of a waiter's life share: wait.c decides, wait_answer.c tells, wait_blocking.c blocks. */
#ifndef WEIR_WAIT_H
#define WEIR_WAIT_H

#include "composite.h"

/*
 * weir_set_wait_start(), for a thread that blocks until the waiter has ended, or with NULL. The condition is signalled, under
 * the room's lock, when it has ended or is to be looked at earlier; it is not told by weir_wait_tick() then.
 */
int wait_start(const struct weir_set *set, struct weir_waiter *waiter, const struct weir_ask *asks,
               size_t count, weir_ns patience, weir_ns now, pthread_cond_t *sleeper, struct weir_decision *out);

/* Take down what the waiter is about, before it is answered or enters; the composite has a part for each stand. */
void wait_write_stands(const struct composite *all, const struct weir_ask *asks, struct weir_waiter *waiter);

/* Write down the answer; each part's is in the composite. */
void wait_write_answer(const struct composite *all, struct weir_waiter *waiter);

#endif
