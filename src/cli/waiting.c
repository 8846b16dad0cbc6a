// SPDX-License-Identifier: Apache-2.0
/*
 * waiting.c - a waiter of one's own, and the loop that drives it.
 */
#include "cli/waiting.h"

#include <assert.h>

#include "cli/cli.h"

static void note_end(struct weir_waiter *waiter)
{
    *(bool *)waiter->owner = true;
}

int waiting_decide(const struct weir_contract *contract, const struct weir_request *request, weir_ns *now,
                   struct weir_answer *out, weir_ns *waited)
{
    static struct weir_waiter_part parts[WEIR_ASKS_MAX]; /* too large for the stack */
    bool has_ended = false;
    *waited = 0;
    int error = weir_contract_decide(contract, request, *now, out);
    if (error != 0 || out->decision.outcome != WEIR_DENY || request->wait == 0 || !weir_answer_may_wait(out))
        return error;

    struct weir *weir = weir_contract_limiter(contract);
    struct weir_waiter waiter = {
        .parts = parts, .part_room = WEIR_ASKS_MAX, .done = note_end, .owner = &has_ended
    };
    error = weir_contract_wait(contract, request, *now, &waiter, out);
    if (error != 0 || out->decision.outcome != WEIR_WAIT)
        return error;
    while (!has_ended) {
        weir_ns at = weir_wait_next(weir);
        assert(at != WEIR_NO_TIME); /* somebody waits */
        cli_sleep_until(at);
        *now = at > *now ? at : *now;
        (void)weir_wait_tick(weir, *now, 1); /* there is one waiter, and the next turn looks whether it ended */
    }
    weir_contract_waited(contract, &waiter, out);
    *waited = waiter.waited;
    return 0;
}
