// SPDX-License-Identifier: Apache-2.0
/*
 * outcome.c - facts as text, and compared.
 */
#include "sim/outcome.h"

#include <inttypes.h>
#include <string.h>

struct facts facts_expected(const struct timeline_step *step)
{
    struct facts facts = { step->last.decided_at, step->last.served_at,     step->last.ended_at,
                           step->last.waited,     step->last.expires_after, 0,
                           step->last.effect };
    facts.effect.known = ~0u;
    return facts;
}

struct facts facts_of_outcome(const struct outcome *came)
{
    const struct verdict *last = &came->last;
    bool is_decided = came->ended_at != WEIR_NO_TIME;
    return (
        struct facts){ last->decided_at,    last->bound.outcome == WEIR_ALLOW ? came->ended_at : WEIR_NO_TIME,
                       came->ended_at,      is_decided ? last->waited : WEIR_NO_TIME,
                       last->expires_after, last->grain,
                       last->effect };
}

struct facts facts_none(void)
{
    return (struct facts){ .decided_at = WEIR_NO_TIME };
}

/* ---- Text ------------------------------------------------------------------------------------------------ */

/* A fact that is a time; NULL: it is none. */
static const weir_ns *fact_time(enum fact fact, const struct verdict_limit *value, const struct facts *more)
{
    switch (fact) {
    case FACT_RETRY_AFTER:
        return &value->retry_after;
    case FACT_RESET_AFTER:
        return &value->reset_after;
    case FACT_DECIDED_AT:
        return &more->decided_at;
    case FACT_SERVED_AT:
        return &more->served_at;
    case FACT_ENDED_AT:
        return &more->ended_at;
    case FACT_WAITED:
        return &more->waited;
    case FACT_EXPIRES_AFTER:
        return &more->expires_after;
    default:
        return NULL;
    }
}

/* A fact that is a number, where it is known; NULL: it is none, or nobody knows it. */
static const uint64_t *fact_number(enum fact fact, const struct verdict_limit *value, const struct facts *more)
{
    if (fact == FACT_CAPACITY)
        return value->has_capacity ? &value->capacity : NULL;
    if (fact == FACT_REMAINING)
        return value->has_remaining ? &value->remaining : NULL;
    if (fact < FACT_EFFECT || (more->effect.known >> (fact - FACT_EFFECT) & 1) == 0)
        return NULL;
    return &more->effect.number[fact - FACT_EFFECT];
}

/* A fact that is a word; NULL: null. */
static const char *fact_word(enum fact fact, const struct verdict_limit *value, const struct facts *more)
{
    switch (fact) {
    case FACT_DECISION:
        return weir_outcome_name(value->outcome);
    case FACT_LIMIT:
        return value->name[0] == '\0' ? NULL : value->name;
    case FACT_POLICY:
        return weir_policy_name(value->policy);
    case FACT_REASON:
        return weir_reason_name(value->reason);
    case FACT_ENFORCED:
        return value->is_watched ? "false" : "true";
    case FACT_ERROR:
        return more->effect.error;
    case FACT_REPEATED:
        return more->effect.is_repeated ? "true" : "false";
    case FACT_RELEASED:
        return more->effect.is_released ? "true" : "false";
    default:
        return NULL;
    }
}

const char *fact_text(enum fact fact, const struct verdict_limit *value, const struct facts *more,
                      char out[FACT_TEXT_MAX])
{
    char written[VERDICT_TIME_MAX];
    const uint64_t *number = fact_number(fact, value, more);
    const weir_ns *time = fact_time(fact, value, more);
    const char *text = time == NULL            ? fact_word(fact, value, more)
                       : *time == WEIR_NO_TIME ? NULL
                                               : verdict_time(*time, 1, written);
    if (number != NULL)
        (void)snprintf(out, FACT_TEXT_MAX, "%s=%" PRIu64, fact_name(fact), *number);
    else
        (void)snprintf(out, FACT_TEXT_MAX, "%s=%s", fact_name(fact), text == NULL ? "null" : text);
    return out;
}

/* ---- Comparing ------------------------------------------------------------------------------------------- */

/* Whether a length of time that came is the expected one, rounded up to the grain. */
static bool length_differs(weir_ns expected, weir_ns came, weir_ns grain)
{
    if (grain > 0 && expected != WEIR_NO_TIME)
        expected = (expected / grain + (expected % grain != 0)) * grain;
    return expected != came;
}

static bool fact_differs(enum fact fact, const struct expectation *expected, const struct verdict_limit *came,
                         const struct facts *more)
{
    const struct verdict_limit *value = &expected->value;
    if (fact >= FACT_EFFECT) /* a door tells less than the library */
        return more->effect.error != NULL
               || ((more->effect.known >> (fact - FACT_EFFECT) & 1) != 0
                   && expected->effect.number[fact - FACT_EFFECT] != more->effect.number[fact - FACT_EFFECT]);
    switch (fact) {
    case FACT_DECISION:
        return value->outcome != came->outcome;
    case FACT_LIMIT:
        return strcmp(value->name, came->name) != 0;
    case FACT_POLICY:
        return value->policy != came->policy;
    case FACT_REASON:
        return value->reason != came->reason;
    case FACT_CAPACITY:
        return value->has_capacity != came->has_capacity
               || (came->has_capacity && value->capacity != came->capacity);
    case FACT_REMAINING:
        return value->has_remaining != came->has_remaining
               || (came->has_remaining && value->remaining != came->remaining);
    case FACT_RETRY_AFTER:
        return length_differs(value->retry_after, came->retry_after, more->grain);
    case FACT_RESET_AFTER:
        return length_differs(value->reset_after, came->reset_after, more->grain);
    case FACT_DECIDED_AT: /* a door does not tell it */
        return more->decided_at != WEIR_NO_TIME && expected->decided_at != more->decided_at;
    case FACT_SERVED_AT:
        return expected->served_at != more->served_at;
    case FACT_ENDED_AT:
        return expected->ended_at != more->ended_at;
    case FACT_WAITED:
        return expected->waited != more->waited;
    case FACT_EXPIRES_AFTER:
        return expected->expires_after != more->expires_after;
    case FACT_RELEASED:
        return expected->effect.is_released != more->effect.is_released;
    case FACT_ENFORCED:
        return value->is_watched != came->is_watched;
    case FACT_ERROR:
        return expected->effect.error != more->effect.error;
    case FACT_REPEATED:
        return more->effect.knows_repeated && expected->effect.is_repeated != more->effect.is_repeated;
    default:
        break;
    }
    return true;
}

unsigned facts_differing(const struct expectation *expected, const struct verdict_limit *came,
                         const struct facts *more)
{
    unsigned differing = 0;
    for (int fact = 0; fact < FACT_COUNT; fact++)
        if ((expected->given >> fact & 1) != 0 && fact_differs((enum fact)fact, expected, came, more))
            differing |= 1u << fact;
    return differing;
}

/* ---- The step as a whole --------------------------------------------------------------------------------- */

static bool counts_differ(const struct timeline_step *step, const struct outcome *came)
{
    return (step->has_counts && memcmp(step->counts, came->counts, sizeof came->counts) != 0)
           || came->counts[WEIR_WAIT] > 0; /* whoever waits is ended, whatever else is expected */
}

bool outcome_limits_differ(const struct timeline_step *step, const struct outcome *came)
{
    const struct facts none = facts_none();
    if (!step->has_limits)
        return false;
    if (step->limit_count != came->last.count)
        return true;
    for (size_t i = 0; i < came->last.count; i++)
        if (facts_differing(&step->limits[i], &came->last.each[i], &none) != 0)
            return true;
    return false;
}

/* An error that nobody expected is a difference even where nothing is expected. */
bool outcome_is_surprise(const struct timeline_step *step, const struct outcome *came)
{
    return came->last.effect.error != NULL && step->last.effect.error == NULL;
}

bool outcome_differs(const struct timeline_step *step, const struct outcome *came)
{
    struct facts facts = facts_of_outcome(came);
    return counts_differ(step, came) || outcome_is_surprise(step, came)
           || facts_differing(&step->last, &came->last.bound, &facts) != 0 || outcome_limits_differ(step, came);
}
