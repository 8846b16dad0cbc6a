// SPDX-License-Identifier: Apache-2.0
/* ask.c - keeps the promise of ask.h that each start has one done. */
#include "net/ask.h"

#include <assert.h>

void ask_start(struct decider *decider, struct ask *ask)
{
    assert(ask->state == ASK_IDLE);
    ask->state = ASK_STARTED;
    decider->started++;
    decider->start(decider, ask);
}

void ask_cancel(struct decider *decider, struct ask *ask, int why)
{
    assert(ask->state == ASK_STARTED);
    decider->cancel(decider, ask, why);
}

void ask_finish(struct decider *decider, struct ask *ask, int result, const struct verdict *verdict)
{
    assert(ask->state == ASK_STARTED);
    assert((result == 0) == (verdict != NULL));
    ask->state = ASK_DONE;
    ask->result = result;
    decider->finished++;
    ask->done(ask, verdict);
}

int ask_decide(const struct weir_contract *contract, const struct ask *ask, struct verdict *out)
{
    out->now = ask->now;
    out->has_waited = false;
    out->wait = ANSWER_WAIT_UNTOLD;
    out->handle = SLICE("");
    switch (ask->kind) {
    case ASK_RESERVE:
        return weir_contract_reserve(contract, ask->request, ask->now, ask->hold, &out->answer, &out->ticket);
    case ASK_ACQUIRE:
        return weir_contract_acquire(contract, ask->request, ask->now, &out->answer, &out->permit);
    default:
        return weir_contract_decide(contract, ask->request, ask->now, &out->answer);
    }
}
