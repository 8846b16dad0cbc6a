// SPDX-License-Identifier: Apache-2.0
/*
 * throttle.c - limits that come with their requests: one hidden limit, of which each request has as much as it says.
 *
 * It stands behind the contract's limits, under a name that no contract may give, and is the same through every reload, so
 * its keys go on.
 */
#include <sched.h>

#include "rule/throttle.h"

#define LOOKS_MAX 64

int throttle_prepare(struct load *load, struct weir_change *change)
{
    /* A token is a nanosecond. */
    const struct weir_limit limit = { .name = THROTTLE_NAME, .rate = { 1, 1 }, .burst = WEIR_THROTTLE_MAX };
    load->rules->throttle = WEIR_NO_LIMIT;
    return load->has_throttle ? weir_change_limit(change, &limit, &load->rules->throttle) : 0;
}

int weir_contract_throttle(const struct weir_contract *contract, const void *key, size_t len, uint64_t cost,
                           uint64_t tolerance, bool is_peek, weir_ns now, struct weir_decision *out)
{
    const struct rules *rules = NULL;
    for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
        rules = contract_rules(contract);
        int error =
            weir_set_check_within(rules->set, rules->throttle, key, len, cost, tolerance, is_peek, now, out);
        if (error == 0)
            out->limit = WEIR_NO_LIMIT;
        if (error != WEIR_ERR_CHANGED)
            return error;
        (void)sched_yield(); /* to the thread that reloads; never fails on Linux */
    }
    *out = (struct weir_decision){ .outcome = WEIR_REFUSED,
                                   .policy = WEIR_POLICY_CLOSED,
                                   .reason = WEIR_REASON_CONTENDED,
                                   .limit = WEIR_NO_LIMIT,
                                   .decided_at = now,
                                   .retry_at = now + WEIR_MILLISECOND,
                                   .reset_at = WEIR_NO_TIME };
    return 0;
}
