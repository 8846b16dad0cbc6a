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

static void limit_from_decision(const struct weir_contract_limit *limits, const struct weir_decision *decision,
                                weir_ns now, struct verdict_limit *out)
{
    const char *name = decision->limit == WEIR_NO_LIMIT ? NULL : limits[decision->limit].name;
    *out = (struct verdict_limit){ .outcome = decision->outcome,
                                   .policy = decision->policy,
                                   .reason = decision->reason,
                                   .has_capacity = name != NULL && decision->capacity != WEIR_UNLIMITED,
                                   .has_remaining = name != NULL && is_decided(decision)
                                                    && decision->remaining != WEIR_UNLIMITED,
                                   .capacity = decision->capacity,
                                   .remaining = decision->remaining,
                                   .retry_after = length_from(now, decision->retry_at),
                                   .reset_after = length_from(now, decision->reset_at) };
    /* What passed may be sent again at once, whatever stamp it was decided at. */
    if (decision->outcome == WEIR_ALLOW || decision->outcome == WEIR_DUPLICATE)
        out->retry_after = 0;
    if (name != NULL)
        (void)snprintf(out->name, sizeof out->name, "%s", name);
}

void verdict_from_answer(const struct weir_answer *answer, weir_ns now, struct verdict *out)
{
    limit_from_decision(answer->limits, &answer->decision, now, &out->bound);
    out->decided_at = answer->decision.decided_at;
    out->effect = (struct effect){ .error = NULL };
    out->waited = 0;
    out->expires_after = WEIR_NO_TIME;
    out->fence = 0;
    out->grain = 0;
    out->tick = 0;
    out->is_store_away = false;
    out->count = answer->count;
    for (size_t i = 0; i < answer->count; i++) {
        limit_from_decision(answer->limits, &answer->each[i], now, &out->each[i]);
        out->each[i].is_watched = (answer->watched >> i & 1) != 0;
    }
}

/* ---- Effects ----------------------------------------------------------------------------------------------- */

const char *const effect_errors[] = { "reservation", "permit", "ended", "contract", "limit", "attribute",
                                      "cost",        "full",   "busy",  "store",    "other", NULL };

const char *effect_find_error(const char *word)
{
    for (size_t i = 0; word != NULL && effect_errors[i] != NULL; i++)
        if (strcmp(effect_errors[i], word) == 0)
            return effect_errors[i];
    return NULL;
}

static const char *error_word(int code)
{
    switch (code) {
    case 0:
        return NULL;
    case WEIR_ERR_RESERVATION:
        return "reservation";
    case WEIR_ERR_PERMIT:
        return "permit";
    case WEIR_ERR_CONTRACT:
    case WEIR_ERR_FILE:
        return "contract";
    case WEIR_ERR_LIMIT:
        return "limit";
    case WEIR_ERR_ATTRIBUTE:
        return "attribute";
    case WEIR_ERR_COST:
        return "cost";
    case WEIR_ERR_FULL:
        return "full";
    case WEIR_ERR_BUSY:
        return "busy";
    default:
        return "other";
    }
}

const char *effect_error(int code)
{
    return effect_find_error(error_word(code));
}

static void set_number(struct effect *effect, enum effect_number which, uint64_t number)
{
    effect->known |= 1u << which;
    effect->number[which] = number;
}

void effect_from_settlement(const struct weir_settlement *settlement, struct effect *out)
{
    *out = (struct effect){ .knows_repeated = true, .is_repeated = settlement->is_repeated };
    set_number(out, EFFECT_CHARGED, settlement->charged);
    set_number(out, EFFECT_RETURNED, settlement->returned);
    set_number(out, EFFECT_DROPPED, settlement->dropped);
}

void effect_from_reload(const struct weir_reload *reload, struct effect *out)
{
    *out = (struct effect){ .known = 0 };
    set_number(out, EFFECT_KEPT, reload->kept);
    set_number(out, EFFECT_RESIZED, reload->resized);
    set_number(out, EFFECT_ADDED, reload->added);
    set_number(out, EFFECT_RESTARTED, reload->restarted);
    set_number(out, EFFECT_REMOVED, reload->removed);
}

/* ---- Text -------------------------------------------------------------------------------------------------- */

const char *verdict_time(weir_ns length, weir_ns step, char out[VERDICT_TIME_MAX])
{
    if (length == WEIR_NO_TIME) {
        (void)snprintf(out, VERDICT_TIME_MAX, "never");
        return out;
    }
    weir_ns grains = length / step + (length % step != 0);
    if (grains > UINT64_MAX / step) /* the largest that there is, rather than one that wraps */
        grains = UINT64_MAX / step;
    if (grains > UINT64_MAX / step) /* beyond the last whole one, nobody lives to see the difference */
        grains = UINT64_MAX / step;
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
