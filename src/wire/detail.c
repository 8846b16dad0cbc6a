// SPDX-License-Identifier: Apache-2.0
/* detail.c - the words of problem documents; see detail.h. */
#include "wire/detail.h"

/* The limit of a decision, in the set it was made under; NULL for none. */
static const struct weir_contract_limit *limit_of(const struct weir_answer *answer,
                                                  const struct weir_decision *decision)
{
    return decision->limit == WEIR_NO_LIMIT || answer->limits == NULL ? NULL : &answer->limits[decision->limit];
}

/* One sentence for what cannot be read off the numbers: why no wait helps, or why nothing could be decided. */
static const char *detail_of(const struct weir_decision *decision)
{
    switch (decision->reason) {
    case WEIR_REASON_ATTRIBUTE:
        return "an attribute's value is one that no limit accepts";
    case WEIR_REASON_MISSING_KEY:
        return "the request lacks an attribute that the limit counts by";
    case WEIR_REASON_FULL:
        return "there is no room to count a new key";
    case WEIR_REASON_CONTENDED:
        return "too many requests for new keys came at once";
    case WEIR_REASON_TIME:
        return "the time of the request is beyond what can be counted";
    default:
        return decision->outcome == WEIR_NEVER ? "the cost is above the limit's capacity: no wait can help"
                                               : NULL;
    }
}

/* Nothing could be had of the store: whose limits refuse for it. */
static void store_detail(struct text *out, const struct weir_answer *answer)
{
    const struct weir_contract_limit *limit = limit_of(answer, &answer->decision);
    text_literal(out, "the shared store ");
    if (limit != NULL) {
        text_literal(out, "of limit '");
        text_string(out, limit->name);
        text_literal(out, "' ");
    }
    if (answer->decision.policy == WEIR_POLICY_LOCAL)
        text_literal(out, "could not be had, and the share that this server has meanwhile is used up");
    else if (answer->decision.policy == WEIR_POLICY_LEASED)
        text_literal(out, "could not be had, and this server has nothing left of its lease: ask again later");
    else
        text_literal(out, "could not be had, and the limit then refuses: ask again later");
}

/* How many may wait for the one limit that lets callers wait; 0: there are several. */
static uint32_t only_queue(const struct weir_answer *answer)
{
    uint32_t queue = 0;
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_contract_limit *limit = limit_of(answer, &answer->each[i]);
        if (limit == NULL || (answer->watched >> i & 1) != 0 || limit->wait.up_to == 0)
            continue;
        if (queue > 0)
            return 0;
        queue = limit->wait.queue;
    }
    return queue;
}

/* What happened to a request that could have waited, and the cure. */
static void wait_detail(struct text *out, enum answer_wait wait, const struct weir_answer *answer,
                        weir_ns retry_after)
{
    static const char *const fixed[] = {
        [ANSWER_WAIT_UNASKED] = "it did not say how long it can wait: send `wait`, in seconds, to get a turn",
        [ANSWER_WAIT_NO_WISH] =
            "it did not say how long it can wait: send `Prefer: wait=SECONDS` to get a turn",
        [ANSWER_WAIT_LOOKS] = "this call only looks at permits and does not wait for one: /v1/acquire does",
        [ANSWER_WAIT_LATE] = ", later than you can wait",
        [ANSWER_WAIT_BEYOND] = ", later than the limit lets callers wait",
        [ANSWER_WAIT_FULL] = "the queue of a limit is full: ask again later",
        [ANSWER_WAIT_CROWDED] = "too many requests wait at this server: ask again later",
        [ANSWER_WAIT_OVER] = "its turn did not come while it could wait: ask again, or wait longer",
        [ANSWER_WAIT_RESTARTED] = "the limit was changed and starts afresh: ask again",
    };
    uint32_t queue = only_queue(answer);
    if (wait == ANSWER_WAIT_LATE || wait == ANSWER_WAIT_BEYOND) {
        text_literal(out, "its turn would come in ");
        text_seconds(out, retry_after);
        text_literal(out, " s");
    } else if (wait == ANSWER_WAIT_FULL && queue > 0) {
        text_u64(out, queue);
        text_literal(out, " wait already: the queue is full, ask again later");
        return;
    }
    text_string(out, fixed[wait]);
}

void answer_detail(struct text *out, const struct weir_answer *answer, const struct answer_beside *beside,
                   weir_ns retry_after)
{
    const char *usual = detail_of(&answer->decision);
    if (answer->decision.reason == WEIR_REASON_STORE)
        store_detail(out, answer);
    else if (beside != NULL && beside->wait != ANSWER_WAIT_UNTOLD)
        wait_detail(out, beside->wait, answer, retry_after);
    else if (usual != NULL)
        text_string(out, usual);
}
