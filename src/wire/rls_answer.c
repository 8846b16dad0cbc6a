// SPDX-License-Identifier: Apache-2.0
/*
 * rls_answer.c - a decision in the words of Envoy's rate limit service; see rls.h.
 *
 * A status has room for one limit, so of those that its descriptor met the one that binds hardest speaks, as it does for the whole
 * answer. Seconds are whole, since Envoy drops what is behind the point: waits are rounded up, tokens down.
 *
 * Elsewhere: reply fields and the problem document, which are those of the HTTP door (answer.c).
 */
#include <assert.h>

#include "wire/answer.h"
#include "wire/answer_members.h"
#include "wire/rls.h"

/* Published seconds end where clients that keep them in 32 bits do. */
#define SECONDS_MAX UINT64_C(2147483647)

static uint32_t clamp(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static uint64_t seconds_up(weir_ns ns)
{
    uint64_t seconds = ns / WEIR_SECOND + (ns % WEIR_SECOND != 0);
    return seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
}

static bool is_refusal(enum weir_outcome outcome)
{
    return outcome == WEIR_DENY || outcome == WEIR_NEVER;
}

/* ---- Which limit speaks ---------------------------------------------------------------------------------- */

static unsigned rank(enum weir_outcome outcome)
{
    static const unsigned ranks[WEIR_OUTCOME_COUNT] = {
        [WEIR_NEVER] = 5,     [WEIR_DENY] = 4,  [WEIR_REFUSED] = 3,
        [WEIR_UNMETERED] = 2, [WEIR_ALLOW] = 1, [WEIR_WAIT] = 1
    };
    return ranks[outcome];
}

/* How many such requests are left. What an attribute says that they cost is not known here. */
static uint64_t requests_left(const struct weir_answer *answer, const struct weir_decision *decision,
                              uint64_t hits)
{
    const struct weir_contract_limit *limit = answer_limit_of(answer, decision);
    uint64_t cost = limit != NULL && limit->cost > 0 ? limit->cost : hits;
    return decision->remaining / (cost == 0 ? 1 : cost);
}

/* The order of weir_answer.decision: a refusal before what passes; then what frees last, or has the fewest such requests left. */
static bool binds_harder(const struct weir_answer *answer, const struct weir_decision *x,
                         const struct weir_decision *y, uint64_t hits)
{
    unsigned rank_x = rank(x->outcome), rank_y = rank(y->outcome);
    if (rank_x != rank_y)
        return rank_x > rank_y;
    if (rank_x > rank(WEIR_ALLOW))
        return x->retry_at > y->retry_at;
    return requests_left(answer, x, hits) < requests_left(answer, y, hits);
}

/* Whether it is the decision that binds the whole answer, and so its descriptor, too. */
static bool binds_all(const struct weir_answer *answer, const struct weir_decision *decision)
{
    const struct weir_decision *all = &answer->decision;
    return decision->limit == all->limit && decision->outcome == all->outcome
           && decision->remaining == all->remaining && decision->retry_at == all->retry_at
           && decision->reset_at == all->reset_at;
}

/* ---- Statuses -------------------------------------------------------------------------------------------- */

static enum rls_code code_of(enum weir_outcome outcome)
{
    return is_refusal(outcome) ? RLS_OVER_LIMIT : answer_passes(outcome) ? RLS_OK : RLS_UNKNOWN;
}

/* A window as so many of a unit: the largest unit that divides it. One that is no whole seconds is rounded up to such. */
static void put_window(weir_ns window, struct rls_status *status)
{
    static const struct {
        uint32_t seconds;
        enum rls_unit unit;
    } units[] = { { 365 * 86400, RLS_YEAR }, { 30 * 86400, RLS_MONTH }, { 7 * 86400, RLS_WEEK },
                  { 86400, RLS_DAY },        { 3600, RLS_HOUR },        { 60, RLS_MINUTE },
                  { 1, RLS_SECOND } };
    uint64_t seconds = seconds_up(window);
    size_t i = 0;
    while (seconds % units[i].seconds != 0)
        i++;
    status->unit = units[i].unit;
    status->unit_multiplier = (uint32_t)(seconds / units[i].seconds);
}

static void put_calendar(enum weir_calendar calendar, struct rls_status *status)
{
    static const enum rls_unit units[WEIR_CALENDAR_COUNT] = { [WEIR_CALENDAR_DAY] = RLS_DAY,
                                                              [WEIR_CALENDAR_WEEK] = RLS_WEEK,
                                                              [WEIR_CALENDAR_MONTH] = RLS_MONTH,
                                                              [WEIR_CALENDAR_YEAR] = RLS_YEAR };
    status->unit = units[calendar];
    status->unit_multiplier = 1;
}

/* Of an override only the capacity is known, and what never refills has no window: their unit is unknown, which Envoy leaves out. */
static void put_limit(const struct weir_contract_limit *limit, const struct weir_decision *decision,
                      struct rls_status *status)
{
    const struct weir_limit *spec = limit->spec;
    status->has_limit = true;
    status->name = slice_of(limit->name);
    status->requests_per_unit = clamp(decision->capacity);
    status->remaining = clamp(decision->remaining);
    if (decision->capacity != limit->capacity)
        return;
    if (spec != NULL && spec->algorithm == WEIR_FIXED_WINDOW && spec->align == WEIR_ALIGN_CALENDAR)
        put_calendar(spec->calendar, status);
    else if (limit->window != WEIR_NO_TIME && limit->window > 0)
        put_window(limit->window, status);
}

/* A limit that the descriptor brought along is told as it was said. */
static void put_own(const struct rls_asked *asked, const struct weir_decision *decision,
                    struct rls_status *status)
{
    weir_u128_ left = (weir_u128_)decision->remaining * asked->requests_per_unit;
    status->has_limit = true;
    status->requests_per_unit = asked->requests_per_unit;
    status->unit = asked->unit;
    status->unit_multiplier = asked->unit_multiplier;
    status->remaining = decision->capacity == 0 ? 0 : clamp((uint64_t)(left / decision->capacity));
}

/* Of a refusal until it can pass, which is at least a second; else until the budget is whole again. */
static void put_reset(const struct weir_decision *decision, weir_ns now, struct rls_status *status)
{
    weir_ns at = is_refusal(decision->outcome) ? decision->retry_at : decision->reset_at;
    if (decision->outcome == WEIR_NEVER || at == WEIR_NO_TIME)
        return;
    status->has_reset = true;
    status->reset_seconds = at > now ? seconds_up(at - now) : 0;
    if (is_refusal(decision->outcome) && status->reset_seconds == 0)
        status->reset_seconds = 1;
}

static struct rls_status status_of(const struct weir_answer *answer, const struct weir_decision *decision,
                                   const struct rls_asked *asked, weir_ns now)
{
    struct rls_status status = { .code = code_of(decision->outcome) };
    const struct weir_contract_limit *limit = answer_limit_of(answer, decision);
    bool is_decided = decision->outcome != WEIR_UNMETERED && decision->outcome != WEIR_REFUSED;
    if (decision->capacity == WEIR_UNLIMITED && is_decided) {
        status.remaining = UINT32_MAX;
    } else if (asked->has_limit && limit == NULL && is_decided) {
        put_own(asked, decision, &status);
        put_reset(decision, now, &status);
    } else if (limit != NULL && answer_has_numbers(decision)) {
        put_limit(limit, decision, &status);
        put_reset(decision, now, &status);
    }
    return status;
}

/* Which decision speaks for each descriptor; NULL: it met no limit. `descriptors`: of each request of the chain. */
static void find_binding(const struct weir_answer *answer, const struct rls_asked *asked,
                         const uint8_t *descriptors, size_t request_count,
                         const struct weir_decision *bindings[WEIR_DESCRIPTORS_MAX])
{
    for (size_t i = 0; i < answer->count; i++) {
        if (answer_is_watched(answer, i) || answer->asked_by[i] >= request_count)
            continue;
        size_t descriptor = descriptors[answer->asked_by[i]];
        const struct weir_decision *each = &answer->each[i], **binding = &bindings[descriptor];
        bool is_bound = *binding != NULL && binds_all(answer, *binding);
        if (*binding == NULL
            || (!is_bound
                && (binds_all(answer, each) || binds_harder(answer, each, *binding, asked[descriptor].hits))))
            *binding = each;
    }
}

static void put_statuses(const struct weir_answer *answer, weir_ns now, const struct rls_asked *asked,
                         size_t count, struct rls_answer *out)
{
    const struct weir_decision *bindings[WEIR_DESCRIPTORS_MAX] = { NULL };
    uint8_t descriptors[WEIR_DESCRIPTORS_MAX];
    size_t request_count = 0;
    bool is_over = is_refusal(answer->decision.outcome), is_told = false;
    for (size_t i = 0; i < count; i++)
        if (!asked[i].is_refund)
            descriptors[request_count++] = (uint8_t)i;
    find_binding(answer, asked, descriptors, request_count, bindings);
    for (size_t k = 0; k < request_count; k++) {
        size_t i = descriptors[k];
        out->statuses[i] = bindings[i] == NULL ? (struct rls_status){ .code = RLS_OK }
                                               : status_of(answer, bindings[i], &asked[i], now);
        is_told |= out->statuses[i].code == RLS_OVER_LIMIT;
    }
    /* A call that is refused although no limit refuses it has an attribute that no limit accepts: whose is not known. */
    for (size_t k = 0; is_over && !is_told && k < request_count; k++)
        out->statuses[descriptors[k]].code = RLS_OVER_LIMIT;
    for (size_t i = 0; i < count; i++)
        is_over |= out->statuses[i].code == RLS_OVER_LIMIT;
    out->count = count;
    out->overall = is_over ? RLS_OVER_LIMIT : RLS_OK;
}

/* ---- Headers and body ------------------------------------------------------------------------------------ */

static void add_header(struct rls_answer *out, struct slice key, struct slice value)
{
    assert(out->header_count < RLS_HEADERS_MAX);
    out->headers[out->header_count++] = (struct rls_header){ key, value };
}

/* Lines of `Name: value` as headers, in place; no value has a CR. */
static void split_fields(char *at, size_t len, struct rls_answer *out)
{
    char *end = at + len;
    while (at < end) {
        char *colon = at;
        for (; colon < end && *colon != ':'; colon++)
            *colon = ascii_lower(*colon);
        char *value = colon + 2;
        assert(value < end);
        char *next = memchr(value, '\r', (size_t)(end - value));
        assert(next != NULL);
        add_header(out, (struct slice){ at, (size_t)(colon - at) },
                   (struct slice){ value, (size_t)(next - value) });
        at = next + 2;
    }
}

static void put_body(const struct weir_answer *answer, weir_ns now, struct text *text, struct rls_answer *out)
{
    size_t start = text->len;
    if (!is_refusal(answer->decision.outcome))
        return;
    answer_problem_json(text, answer, NULL, now, answer_status(answer, ANSWER_CHECK));
    if (text->is_cut) /* the numbers of a refusal do without its words */
        return;
    out->body = (struct slice){ text->at + start, text->len - start };
    add_header(out, SLICE("content-type"), ANSWER_TYPE_PROBLEM);
}

void rls_answer_make(const struct weir_answer *answer, weir_ns now, const struct rls_asked *asked, size_t count,
                     enum weir_headers headers, struct rls_answer *out)
{
    struct text text = text_of(out->storage, sizeof out->storage);
    assert(count <= WEIR_DESCRIPTORS_MAX);
    put_statuses(answer, now, asked, count, out);
    out->header_count = 0;
    out->body = SLICE("");
    answer_fields(&text, headers, answer, now);
    if (text.is_cut) /* cannot be: names have at most WEIR_NAME_MAX bytes, limits are at most WEIR_ASKS_MAX */
        return;
    split_fields(text.at, text.len, out);
    put_body(answer, now, &text, out);
}
