// SPDX-License-Identifier: Apache-2.0
/*
 * answer.c - the numbers of a decision as JSON and as reply fields.
 *
 * Rounding goes one way: published seconds up (a wait that is refused is at least 1), tokens down. Where a
 * decision is undecided its counts are not known, so they are null here and absent there.
 *
 * Elsewhere: the HTTP envelope (response.c).
 */
#include "wire/answer.h"

/* Bounds of published numbers: Structured Fields end at 15 digits, and clients keep seconds in 32 bits. */
#define INTEGER_MAX UINT64_C(999999999999999)
#define SECONDS_MAX UINT64_C(2147483647)

/* Whether the caller may go on. */
static bool passes(enum weir_outcome outcome)
{
    return outcome == WEIR_ALLOW || outcome == WEIR_WAIT || outcome == WEIR_DUPLICATE
           || outcome == WEIR_UNMETERED;
}

static bool is_decided(const struct weir_decision *decision)
{
    return decision->outcome != WEIR_UNMETERED && decision->outcome != WEIR_REFUSED;
}

/* Whether the decision has numbers of a limit. */
static bool has_numbers(const struct weir_decision *decision)
{
    return decision->limit != WEIR_NO_LIMIT && is_decided(decision);
}

unsigned answer_status(enum weir_outcome outcome, enum answer_door door)
{
    if (passes(outcome))
        return 200;
    if (door == ANSWER_AUTH_NGINX)
        return 403;
    return outcome == WEIR_REFUSED ? 503 : 429;
}

/* ---- Lengths of time ------------------------------------------------------------------------------------- */

/*
 * How long to wait, exactly; WEIR_NO_TIME where none is known. 0 only for an allowed request: whatever else
 * comes back with a retry time that has passed already is told the smallest wait there is.
 */
static weir_ns retry_after(const struct weir_decision *decision, weir_ns now)
{
    if (decision->outcome == WEIR_ALLOW)
        return 0;
    if (decision->outcome == WEIR_NEVER || decision->outcome == WEIR_UNMETERED
        || decision->retry_at == WEIR_NO_TIME)
        return WEIR_NO_TIME;
    return decision->retry_at > now ? decision->retry_at - now : 1;
}

static weir_ns reset_after(const struct weir_decision *decision, weir_ns now)
{
    if (!has_numbers(decision) || decision->reset_at == WEIR_NO_TIME)
        return WEIR_NO_TIME;
    return decision->reset_at > now ? decision->reset_at - now : 0;
}

/* Whole seconds, rounded up. */
static uint64_t seconds_up(weir_ns ns)
{
    uint64_t seconds = ns / WEIR_SECOND + (ns % WEIR_SECOND != 0);
    return seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
}

/* What Retry-After says; 0: nothing (the request passed, or no wait helps). */
static uint64_t retry_seconds(const struct weir_decision *decision, weir_ns now)
{
    weir_ns wait = retry_after(decision, now);
    if (passes(decision->outcome))
        return 0;
    if (wait == WEIR_NO_TIME) /* undecided and nothing known: soon, as the cause is ours and passes */
        return decision->outcome == WEIR_REFUSED ? 1 : 0;
    return seconds_up(wait);
}

/* ---- JSON ------------------------------------------------------------------------------------------------ */

/* A fixed word of weir.h or null; they need no escapes. */
static void json_word(struct text *out, const char *word)
{
    if (word == NULL) {
        text_literal(out, "null");
        return;
    }
    text_literal(out, "\"");
    text_string(out, word);
    text_literal(out, "\"");
}

/* The name of a limit, whose letters need no escapes either; NULL for none. */
static const char *limit_name(const struct weir_contract *contract, weir_limit_id limit)
{
    const struct weir_contract_limit *found =
        limit == WEIR_NO_LIMIT ? NULL : weir_contract_limit(contract, limit);
    return found == NULL ? NULL : found->name;
}

static void json_seconds(struct text *out, weir_ns ns)
{
    if (ns == WEIR_NO_TIME)
        text_literal(out, "null");
    else
        text_seconds(out, ns);
}

/* ,"capacity":...,"reset_after":... */
static void json_numbers(struct text *out, const struct weir_decision *decision, weir_ns now)
{
    text_literal(out, ",\"capacity\":");
    if (decision->limit != WEIR_NO_LIMIT)
        text_u64(out, decision->capacity);
    else
        text_literal(out, "null");
    text_literal(out, ",\"remaining\":");
    if (has_numbers(decision))
        text_u64(out, decision->remaining);
    else
        text_literal(out, "null");
    text_literal(out, ",\"retry_after\":");
    json_seconds(out, retry_after(decision, now));
    text_literal(out, ",\"reset_after\":");
    json_seconds(out, reset_after(decision, now));
}

/* The members of a decision, from "decision" to "limits", without braces. */
static void json_members(struct text *out, const struct weir_contract *contract,
                         const struct weir_answer *answer, weir_ns now)
{
    const struct weir_decision *decision = &answer->decision;
    text_literal(out, "\"decision\":");
    json_word(out, weir_outcome_name(decision->outcome));
    text_literal(out, ",\"limit\":");
    json_word(out, limit_name(contract, decision->limit));
    text_literal(out, ",\"policy\":");
    json_word(out, weir_policy_name(decision->policy));
    text_literal(out, ",\"reason\":");
    json_word(out, weir_reason_name(decision->reason));
    json_numbers(out, decision, now);
    text_literal(out, ",\"limits\":[");
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_decision *each = &answer->each[i];
        text_string(out, i == 0 ? "{\"limit\":" : ",{\"limit\":");
        json_word(out, limit_name(contract, each->limit));
        text_literal(out, ",\"decision\":");
        json_word(out, weir_outcome_name(each->outcome));
        json_numbers(out, each, now);
        text_literal(out, "}");
    }
    text_literal(out, "]");
}

void answer_json(struct text *out, const struct weir_contract *contract, const struct weir_answer *answer,
                 weir_ns now)
{
    text_literal(out, "{");
    json_members(out, contract, answer, now);
    text_literal(out, "}");
}

void answer_batch_open(struct text *out)
{
    text_literal(out, "{\"results\":[");
}

void answer_batch_item(struct text *out, const struct weir_contract *contract, const struct weir_answer *answer,
                       weir_ns now, bool is_first)
{
    text_string(out, is_first ? "{\"status\":" : ",{\"status\":");
    text_u64(out, answer_status(answer->decision.outcome, ANSWER_CHECK));
    text_literal(out, ",");
    json_members(out, contract, answer, now);
    text_literal(out, "}");
}

void answer_batch_close(struct text *out)
{
    text_literal(out, "]}\n");
}

/* ---- Problem documents ----------------------------------------------------------------------------------- */

/* One sentence for what cannot be read off the numbers: why no wait helps, or why nothing could be decided. */
static const char *detail_of(const struct weir_decision *decision)
{
    switch (decision->reason) {
    case WEIR_REASON_ATTRIBUTE:
        return "an attribute's value is one that no limit accepts";
    case WEIR_REASON_MISSING_KEY:
        return "the request lacks an attribute that the limit counts by";
    case WEIR_REASON_STORE:
        return "the shared store did not answer in time";
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

static const char *problem_type(enum weir_outcome outcome)
{
    switch (outcome) {
    case WEIR_NEVER:
        return "{\"type\":\"urn:weir:problem:cost-above-capacity\",\"title\":\"Request can never "
               "pass\",\"status\":";
    case WEIR_REFUSED:
        return "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\","
               "\"title\":\"Temporarily reduced capacity\",\"status\":";
    default:
        return "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
               "\"title\":\"Too many requests\",\"status\":";
    }
}

void answer_problem_json(struct text *out, const struct weir_contract *contract,
                         const struct weir_answer *answer, weir_ns now, unsigned status)
{
    const char *detail = detail_of(&answer->decision);
    bool is_first = true;
    text_string(out, problem_type(answer->decision.outcome));
    text_u64(out, status);
    if (detail != NULL) {
        text_literal(out, ",\"detail\":");
        json_word(out, detail);
    }
    text_literal(out, ",\"violated-policies\":[");
    for (size_t i = 0; i < answer->count; i++) {
        if (passes(answer->each[i].outcome))
            continue;
        if (!is_first)
            text_literal(out, ",");
        json_word(out, limit_name(contract, answer->each[i].limit));
        is_first = false;
    }
    text_literal(out, "],");
    json_members(out, contract, answer, now);
    text_literal(out, "}\n");
}

void answer_error_json(struct text *out, unsigned status, const char *detail, struct slice field)
{
    text_literal(out, "{\"type\":\"about:blank\",\"title\":");
    json_word(out, answer_reason(status));
    text_literal(out, ",\"status\":");
    text_u64(out, status);
    text_literal(out, ",\"detail\":");
    text_json(out, slice_of(detail));
    if (field.len > 0) {
        text_literal(out, ",\"field\":");
        text_json(out, field);
    }
    text_literal(out, "}\n");
}

/* ---- Reply fields ---------------------------------------------------------------------------------------- */

static uint64_t clamp(uint64_t value)
{
    return value < INTEGER_MAX ? value : INTEGER_MAX;
}

/* The three names of a form that tells about the binding limit only. */
struct trio {
    struct slice limit, remaining, reset;
};

static void trio_fields(struct text *out, const struct trio *names, const struct weir_decision *decision,
                        weir_ns now)
{
    uint64_t retry = retry_seconds(decision, now);
    weir_ns reset = reset_after(decision, now);
    if (!has_numbers(decision))
        return;
    text_slice_add(out, names->limit);
    text_u64(out, clamp(decision->capacity));
    text_slice_add(out, names->remaining);
    text_u64(out, clamp(decision->remaining));
    if (retry != 0 || reset != WEIR_NO_TIME) {
        text_slice_add(out, names->reset);
        text_u64(out, retry != 0 ? retry : seconds_up(reset));
    }
    text_literal(out, "\r\n");
}

/*
 * The draft's `t`: the time until more quota exists; WEIR_NO_TIME to say nothing (the budget is whole, or
 * nothing comes back). A bucket gets one token each window / capacity, counted back from the instant it is
 * full; that is exact where a token's period is whole nanoseconds, else up to 2 ns late. A window gets it when
 * it ends. Neither may be later than the retry time of a violated limit, which is when quota exists too.
 */
static weir_ns more_after(const struct weir_contract_limit *limit, const struct weir_decision *decision,
                          weir_ns now)
{
    weir_ns reset = reset_after(decision, now), retry = retry_after(decision, now), more = reset;
    bool is_bucket = limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
    if (reset == WEIR_NO_TIME || reset == 0)
        return WEIR_NO_TIME;
    if (is_bucket && limit->window != WEIR_NO_TIME && decision->remaining < decision->capacity) {
        uint64_t behind = decision->capacity - decision->remaining - 1; /* tokens that come after the next */
        weir_u128_ product = (weir_u128_)behind * limit->window;
        uint64_t later = (uint64_t)(product / decision->capacity);
        later -= later > 0 && limit->window % decision->capacity != 0;
        more = later < reset ? reset - later : 1;
    }
    return decision->outcome == WEIR_DENY && retry < more ? retry : more;
}

static void draft_policy(struct text *out, const struct weir_contract_limit *limit)
{
    text_literal(out, ";q=");
    text_u64(out, clamp(limit->capacity));
    if (limit->window != WEIR_NO_TIME) {
        text_literal(out, ";w=");
        text_u64(out, seconds_up(limit->window));
    }
}

static void draft_state(struct text *out, const struct weir_contract_limit *limit,
                        const struct weir_decision *decision, weir_ns now)
{
    weir_ns more = more_after(limit, decision, now);
    text_literal(out, ";r=");
    text_u64(out, clamp(decision->remaining));
    if (more != WEIR_NO_TIME) {
        text_literal(out, ";t=");
        text_u64(out, seconds_up(more));
    }
}

/*
 * One field of the draft: a Structured Fields List of names as Strings (names of limits hold no quote and no
 * backslash) with parameters. RateLimit-Policy lists every limit that the request met, RateLimit those whose
 * state is known; a field without members is left out.
 */
static void draft_field(struct text *out, const struct weir_contract *contract,
                        const struct weir_answer *answer, weir_ns now, bool is_policy)
{
    bool is_first = true;
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_decision *each = &answer->each[i];
        const struct weir_contract_limit *limit = weir_contract_limit(contract, each->limit);
        if (limit == NULL || !(is_policy || has_numbers(each)))
            continue;
        text_string(out, !is_first ? ", \"" : is_policy ? "RateLimit-Policy: \"" : "RateLimit: \"");
        text_string(out, limit->name);
        text_literal(out, "\"");
        if (is_policy)
            draft_policy(out, limit);
        else
            draft_state(out, limit, each, now);
        is_first = false;
    }
    if (!is_first)
        text_literal(out, "\r\n");
}

/* The field that says that an answer came from less than was asked for; closed and overflow need no warning. */
static void degraded_field(struct text *out, enum weir_policy policy)
{
    if (policy == WEIR_POLICY_OPEN)
        text_literal(out, "Weir-Degraded: open\r\n");
    else if (policy == WEIR_POLICY_LOCAL)
        text_literal(out, "Weir-Degraded: local\r\n");
    else if (policy == WEIR_POLICY_LEASED)
        text_literal(out, "Weir-Degraded: leased\r\n");
}

void answer_fields(struct text *out, const struct answer_contract *shape, const struct weir_answer *answer,
                   weir_ns now)
{
    static const struct trio plain = { { "RateLimit-Limit: ", 17 },
                                       { "\r\nRateLimit-Remaining: ", 23 },
                                       { "\r\nRateLimit-Reset: ", 19 } };
    static const struct trio x = { { "X-RateLimit-Limit: ", 19 },
                                   { "\r\nX-RateLimit-Remaining: ", 25 },
                                   { "\r\nX-RateLimit-Reset: ", 21 } };
    const struct weir_decision *decision = &answer->decision;
    uint64_t retry = retry_seconds(decision, now);
    if (!passes(decision->outcome))
        text_literal(out, "Cache-Control: no-store\r\n");
    if (retry != 0) {
        text_literal(out, "Retry-After: ");
        text_u64(out, retry);
        text_literal(out, "\r\n");
    }
    if (shape->headers == WEIR_HEADERS_TRIO)
        trio_fields(out, &plain, decision, now);
    if (shape->headers == WEIR_HEADERS_X_RATELIMIT)
        trio_fields(out, &x, decision, now);
    if (shape->headers == WEIR_HEADERS_DRAFT) {
        draft_field(out, shape->contract, answer, now, true);
        draft_field(out, shape->contract, answer, now, false);
    }
    degraded_field(out, decision->policy);
}
