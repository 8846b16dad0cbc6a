// SPDX-License-Identifier: Apache-2.0
/* throttle.h - the hidden limits behind weir_contract_throttle() and weir_request.own. */
#ifndef WEIR_RULE_THROTTLE_H
#define WEIR_RULE_THROTTLE_H

#include "rule/contract.h"

/* No contract gives it to a limit of its own. */
#define THROTTLE_NAME "cl.throttle"

/* What begins so are the limits that requests bring. */
#define OWN_PREFIX "rls."

/* Behind the contract's own limits, where they are wanted. 0, or a code of weir_change_limit(). */
int throttle_prepare(struct load *load, struct weir_change *change);

/* What a request asks of the limit that it brings. 0, WEIR_ERR_LIMIT, WEIR_ERR_KEY, WEIR_ERR_RATE or WEIR_ERR_COST. */
int own_ask(const struct rules *rules, const struct weir_request *request, struct weir_ask *out);

/* Whether a limit of the set is none of the contract's. */
static inline bool is_hidden(const struct rules *rules, weir_limit_id limit)
{
    return limit >= (weir_limit_id)rules->limit_count;
}

/* An answer's limits that are none of the contract's have no number. */
static inline void own_hide(struct weir_answer *answer, size_t limit_count)
{
    for (size_t i = answer->count; i > 0 && answer->each[i - 1].limit >= (weir_limit_id)limit_count; i--)
        answer->each[i - 1].limit = WEIR_NO_LIMIT;
    if (answer->decision.limit >= (weir_limit_id)limit_count)
        answer->decision.limit = WEIR_NO_LIMIT;
}

#endif
