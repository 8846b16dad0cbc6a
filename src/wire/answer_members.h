// SPDX-License-Identifier: Apache-2.0
/* answer_members.h - what answer.c and answer_members.c have in common: reading a decision, and its members in JSON. */
#ifndef WEIR_WIRE_ANSWER_MEMBERS_H
#define WEIR_WIRE_ANSWER_MEMBERS_H

#include "wire/answer.h"

/* Whether the caller may go on. */
static inline bool answer_passes(enum weir_outcome outcome)
{
    return outcome == WEIR_ALLOW || outcome == WEIR_WAIT || outcome == WEIR_DUPLICATE
           || outcome == WEIR_UNMETERED;
}

/* Whether the decision has numbers of a limit. */
static inline bool answer_has_numbers(const struct weir_decision *decision)
{
    bool is_decided = decision->outcome != WEIR_UNMETERED && decision->outcome != WEIR_REFUSED;
    return decision->limit != WEIR_NO_LIMIT && is_decided && decision->reason != WEIR_REASON_MISSING_KEY;
}

/* The limit of a decision, in the set it was made under; NULL for none. */
static inline const struct weir_contract_limit *answer_limit_of(const struct weir_answer *answer,
                                                                const struct weir_decision *decision)
{
    return decision->limit == WEIR_NO_LIMIT || answer->limits == NULL ? NULL : &answer->limits[decision->limit];
}

/* Whether each[i] only says what would have been. */
static inline bool answer_is_watched(const struct weir_answer *answer, size_t i)
{
    return (answer->watched >> i & 1) != 0;
}

/*
 * How long to wait, exactly; WEIR_NO_TIME where none is known. 0 only for an allowed request: whatever else
 * comes back with a retry time that has passed already is told the smallest wait there is.
 */
static inline weir_ns answer_retry_after(const struct weir_decision *decision, weir_ns now)
{
    if (decision->outcome == WEIR_ALLOW || decision->outcome == WEIR_DUPLICATE) /* which was allowed */
        return 0;
    if (decision->outcome == WEIR_NEVER || decision->outcome == WEIR_UNMETERED
        || decision->retry_at == WEIR_NO_TIME)
        return WEIR_NO_TIME;
    return decision->retry_at > now ? decision->retry_at - now : 1;
}

static inline weir_ns answer_reset_after(const struct weir_decision *decision, weir_ns now)
{
    if (!answer_has_numbers(decision) || decision->reset_at == WEIR_NO_TIME)
        return WEIR_NO_TIME;
    return decision->reset_at > now ? decision->reset_at - now : 0;
}

/* The members of answer_write() in JSON, without braces and with no comma in front. `beside`: NULL for none of its own. */
void answer_members_json(struct text *out, const struct weir_answer *answer, const struct answer_beside *beside,
                         weir_ns now);

#endif
