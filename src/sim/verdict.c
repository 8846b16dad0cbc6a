// SPDX-License-Identifier: Apache-2.0
/*
 * verdict.c - decisions as words and lengths of time.
 */
#include "sim/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static weir_ns length_from(weir_ns now, weir_ns at)
{
    if (at == WEIR_NO_TIME)
        return WEIR_NO_TIME;
    return at > now ? at - now : 0;
}

/* Whether a budget was looked at: else its remaining is not known. */
static bool is_decided(const struct weir_decision *decision)
{
    return decision->outcome != WEIR_REFUSED && decision->outcome != WEIR_UNMETERED
           && decision->reason != WEIR_REASON_MISSING_KEY;
}

static void limit_from_decision(const struct weir *weir, const struct weir_decision *decision, weir_ns now,
                                struct verdict_limit *out)
{
    const char *name = weir_limit_name(weir, decision->limit);
    *out = (struct verdict_limit){ .outcome = decision->outcome,
                                   .policy = decision->policy,
                                   .reason = decision->reason,
                                   .has_capacity = name != NULL,
                                   .has_remaining = name != NULL && is_decided(decision),
                                   .capacity = decision->capacity,
                                   .remaining = decision->remaining,
                                   .retry_after = length_from(now, decision->retry_at),
                                   .reset_after = length_from(now, decision->reset_at) };
    /* What passed may be sent again at once, whatever stamp it was decided at. */
    if (decision->outcome == WEIR_ALLOW)
        out->retry_after = 0;
    if (name != NULL)
        (void)snprintf(out->name, sizeof out->name, "%s", name);
}

void verdict_from_answer(const struct weir_contract *contract, const struct weir_answer *answer, weir_ns now,
                         struct verdict *out)
{
    const struct weir *weir = weir_contract_limiter(contract);
    limit_from_decision(weir, &answer->decision, now, &out->bound);
    out->decided_at = answer->decision.decided_at;
    out->count = answer->count;
    for (size_t i = 0; i < answer->count; i++)
        limit_from_decision(weir, &answer->each[i], now, &out->each[i]);
}

const char *verdict_time(weir_ns length, weir_ns step, char out[VERDICT_TIME_MAX])
{
    if (length == WEIR_NO_TIME) {
        (void)snprintf(out, VERDICT_TIME_MAX, "never");
        return out;
    }
    weir_ns grains = length / step + (length % step != 0);
    length = grains * step;
    int len =
        snprintf(out, VERDICT_TIME_MAX, "%" PRIu64 ".%09" PRIu64, length / WEIR_SECOND, length % WEIR_SECOND);
    while (out[len - 1] == '0')
        len--;
    if (out[len - 1] == '.')
        len--;
    out[len] = 's';
    out[len + 1] = '\0';
    return out;
}

const char *verdict_text(const struct verdict_limit *limit, weir_ns step, char out[VERDICT_TEXT_MAX])
{
    bool passes = limit->outcome == WEIR_ALLOW;
    char time[VERDICT_TIME_MAX];
    int len = snprintf(out, VERDICT_TEXT_MAX, "%s %s", weir_outcome_name(limit->outcome),
                       limit->name[0] == '\0' ? "(no limit)" : limit->name);
    if (limit->has_remaining)
        len += snprintf(out + len, (size_t)(VERDICT_TEXT_MAX - len), " remaining=%" PRIu64 "/%" PRIu64,
                        limit->remaining, limit->capacity);
    if (passes && limit->has_remaining)
        len += snprintf(out + len, (size_t)(VERDICT_TEXT_MAX - len), " reset=%s",
                        verdict_time(limit->reset_after, step, time));
    /* What never passes has no time to retry, and saying so again would read as if it had one. */
    if (limit->outcome == WEIR_DENY || (limit->outcome == WEIR_REFUSED && limit->retry_after != WEIR_NO_TIME))
        len += snprintf(out + len, (size_t)(VERDICT_TEXT_MAX - len), " retry=%s",
                        verdict_time(limit->retry_after, step, time));
    if (limit->policy != WEIR_POLICY_NONE)
        len += snprintf(out + len, (size_t)(VERDICT_TEXT_MAX - len), " policy=%s",
                        weir_policy_name(limit->policy));
    if (limit->reason != WEIR_REASON_NONE)
        (void)snprintf(out + len, (size_t)(VERDICT_TEXT_MAX - len), " reason=%s",
                       weir_reason_name(limit->reason));
    return out;
}
