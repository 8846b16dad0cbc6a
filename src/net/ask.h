// SPDX-License-Identifier: Apache-2.0
/*
 * ask.h - the seam between doors and deciders: one question, one answer, now or later, exactly once.
 *
 * Idea: a door does not know whether an answer is computed or awaited. It starts an ask and is called back through
 * ask->done: inside ask_start() when the decider answers at once (local.c), or from a later turn of the same loop
 * when it waits for something (late.c in test builds; waiting rooms and fleet stores to come). done() comes exactly
 * once for each start, also after ask_cancel() and also when the caller has hung up meanwhile; the memory of an ask
 * therefore belongs to the decider from start to done.
 *
 * An ask stays on the loop and thread it was started on.
 */
#ifndef WEIR_NET_ASK_H
#define WEIR_NET_ASK_H

#include <uv.h>

#include "weir_contract.h"

/* ask->result of an ask that was cancelled before it was decided; nothing was charged. */
#define ASK_CANCELLED 1

enum ask_state { ASK_IDLE, ASK_STARTED, ASK_DONE };

struct ask {
    struct weir_request request; /* its bytes are borrowed by ask_start() only: who answers later copies them */
    weir_ns now;
    weir_ns hold;                    /* with a ticket */
    struct weir_reservation *ticket; /* NULL, or this reserves: the door's */
    void (*done)(struct ask *ask);
    void *owner; /* the door's */

    /* Written before done(). */
    int result; /* 0 or a code, as of weir_contract_decide() or _reserve(); or ASK_CANCELLED */
    struct weir_answer answer;

    enum ask_state state;
    unsigned char tag; /* the worker's, of when it began */
    struct ask *next;  /* the door's, and its clock at the start */
    weir_ns started_at;
    struct ask *later; /* the decider's, and when it will answer */
    weir_ns due;
};

struct decider {
    /* A fault of the request itself is found and answered here, while its bytes are at hand to say which. */
    void (*start)(struct decider *decider, struct ask *ask);
    void (*cancel)(struct decider *decider, struct ask *ask);
    void (*close)(struct decider *decider); /* every ask is done; may close handles on the loop */
    uint64_t started, finished;
};

/* Start an idle ask. It may be done when this returns. */
void ask_start(struct decider *decider, struct ask *ask);

/* Nobody wants the answer of a started ask any more; done() still comes, now or later. */
void ask_cancel(struct decider *decider, struct ask *ask);

/* For deciders: the answer, or why there is none. Ends with ask->done. */
void ask_finish(struct decider *decider, struct ask *ask, int result);

/* For deciders: have the contract decide. Returns what ask_finish() wants. */
int ask_decide(const struct weir_contract *contract, struct ask *ask);

/* Decides at once, in this process. Close frees it. NULL: out of memory. */
struct decider *local_new(const struct weir_contract *contract);

#ifdef WEIR_TEST_HOOKS
/* Decides in the order asked and answers late and in any order: up to `max_ms` later, drawn from `seed`. */
struct decider *late_new(const struct weir_contract *contract, uv_loop_t *loop, uint64_t seed, unsigned max_ms);
#endif

#endif
