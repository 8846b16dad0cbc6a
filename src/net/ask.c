// SPDX-License-Identifier: Apache-2.0
/* ask.c - keeps the promise of ask.h that each start has one done, and the decider that needs no patience. */
#include "net/ask.h"

#include <assert.h>
#include <stdlib.h>

void ask_start(struct decider *decider, struct ask *ask)
{
    assert(ask->state == ASK_IDLE);
    ask->state = ASK_STARTED;
    decider->started++;
    decider->start(decider, ask);
}

void ask_cancel(struct decider *decider, struct ask *ask)
{
    assert(ask->state == ASK_STARTED);
    decider->cancel(decider, ask);
}

void ask_finish(struct decider *decider, struct ask *ask, int result)
{
    assert(ask->state == ASK_STARTED);
    ask->state = ASK_DONE;
    ask->result = result;
    decider->finished++;
    ask->done(ask);
}

int ask_decide(const struct weir_contract *contract, struct ask *ask)
{
    if (ask->ticket != NULL)
        return weir_contract_reserve(contract, &ask->request, ask->now, ask->hold, &ask->answer, ask->ticket);
    return weir_contract_decide(contract, &ask->request, ask->now, &ask->answer);
}

/* ---- The local decider: the answer is a function call away ------------------------------------------------- */

struct local {
    struct decider decider;
    const struct weir_contract *contract;
};

static void local_start(struct decider *decider, struct ask *ask)
{
    const struct local *local = (struct local *)decider;
    ask_finish(decider, ask, ask_decide(local->contract, ask));
}

static void local_cancel(struct decider *decider, struct ask *ask)
{
    (void)decider;
    (void)ask;
    assert(!"a local ask is done before anybody could cancel it");
}

static void local_close(struct decider *decider)
{
    free(decider);
}

struct decider *local_new(const struct weir_contract *contract)
{
    struct local *local = malloc(sizeof *local);
    if (local == NULL)
        return NULL;
    *local = (struct local){ { .start = local_start, .cancel = local_cancel, .close = local_close }, contract };
    return &local->decider;
}
