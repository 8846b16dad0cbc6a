// SPDX-License-Identifier: Apache-2.0
/*
 * ask.h - the seam between doors and deciders: one question, one answer, now or later, exactly once.
 *
 * Idea: a door does not know whether an answer is computed or awaited. It starts an ask and is called back through
 * ask->done: inside ask_start() when the decider answers at once, or from a later turn of the same loop when the
 * request waits for its turn (waiting.c; late.c in test builds; fleet stores to come). done() comes exactly once for
 * each start, also after ask_cancel() and also when the caller has hung up meanwhile; the memory of an ask therefore
 * belongs to the decider from start to done.
 *
 * An answer is kilobytes and an ask is not: the verdict is lent for the time of done(), in memory that a worker has
 * once. So ten thousand requests that wait cost what they wait with, and no answers.
 *
 * An ask stays on the loop and thread it was started on.
 */
#ifndef WEIR_NET_ASK_H
#define WEIR_NET_ASK_H

#include <uv.h>

#include "weir_contract.h"
#include "wire/answer.h"

/* ask->result without a verdict: nothing was charged. Codes of weir.h are negative. */
enum {
    ASK_CANCELLED = 1, /* nobody wants the answer any more */
    ASK_DRAINED,       /* the server ends before the turn of a request that waits */
};

enum ask_kind { ASK_CHECK, ASK_RESERVE, ASK_ACQUIRE };

enum ask_state { ASK_IDLE, ASK_STARTED, ASK_DONE };

/* What was decided. */
struct verdict {
    struct weir_answer answer;
    weir_ns now;     /* lengths of time in it count from here */
    bool has_waited; /* for `waited`, whatever came of it */
    weir_ns waited;
    enum answer_wait wait; /* why it did not wait, or waited in vain */
    union {
        struct weir_reservation ticket; /* ASK_RESERVE; len 0: nothing was reserved */
        struct weir_permit permit;      /* ASK_ACQUIRE; len 0: nothing is held */
    };
    struct slice
        handle; /* of the same in the shared store; empty: it has no part there. Then permit.fence and .expires_at are set
                            also where permit.len is 0 */
};

struct ask {
    const struct weir_request *request; /* lent to ask_start(): who answers later copies what it needs */
    weir_ns now;
    weir_ns hold; /* ASK_RESERVE */
    /* `verdict` is lent to done(), where ask->result is 0; else it is NULL. */
    void (*done)(struct ask *ask, const struct verdict *verdict);
    void *owner; /* the door's */

    int result; /* written before done(): 0 or a code, as of weir_contract_decide(), or one of the above */
    uint8_t kind, state;
    bool is_peek;
    uint8_t tag;      /* the worker's, of when what it holds of the contract was read */
    struct ask *next; /* the door's, and its clock at the start */
    weir_ns started_at;
    void *held; /* the decider's */
};

struct decider {
    /* A fault of the request itself is found and answered here, while its bytes are at hand to say which. */
    void (*start)(struct decider *decider, struct ask *ask);
    void (*cancel)(struct decider *decider, struct ask *ask, int why);
    void (*close)(struct decider *decider); /* every ask is done; may close handles on the loop */
    uint64_t started, finished;
};

/* Start an idle ask. It may be done when this returns. */
void ask_start(struct decider *decider, struct ask *ask);

/* End a started ask with ASK_CANCELLED or ASK_DRAINED where it is not decided yet; done() still comes, now or later. */
void ask_cancel(struct decider *decider, struct ask *ask, int why);

/* For deciders: the answer, or why there is none. Ends with ask->done. */
void ask_finish(struct decider *decider, struct ask *ask, int result, const struct verdict *verdict);

/* For deciders: have the contract decide. Returns what ask_finish() wants. */
int ask_decide(const struct weir_contract *contract, const struct ask *ask, struct verdict *out);

/* Whether the caller may go on. */
static inline bool outcome_passes(enum weir_outcome outcome)
{
    return outcome == WEIR_ALLOW || outcome == WEIR_WAIT || outcome == WEIR_DUPLICATE
           || outcome == WEIR_UNMETERED;
}

#ifdef WEIR_TEST_HOOKS
/* Decides in the order asked and answers late and in any order: up to `max_ms` later, drawn from `seed`. */
struct decider *late_new(const struct weir_contract *contract, uv_loop_t *loop, uint64_t seed, unsigned max_ms);
#endif

#endif
