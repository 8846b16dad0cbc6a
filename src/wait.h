// SPDX-License-Identifier: Apache-2.0
/* wait.h - what the files of a waiter's life share: wait.c decides, wait_answer.c tells, wait_blocking.c blocks. */
#ifndef WEIR_WAIT_H
#define WEIR_WAIT_H

#include "composite.h"

/* Take down what the waiter is about, before it is answered or enters; the composite has a part for each stand. */
void wait_write_stands(const struct composite *all, const struct weir_ask *asks, struct weir_waiter *waiter);

/* Write down the answer; each part's is in the composite. */
void wait_write_answer(const struct composite *all, struct weir_waiter *waiter);

#endif
