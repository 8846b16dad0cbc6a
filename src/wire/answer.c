// SPDX-License-Identifier: Apache-2.0
/*
 * answer.c - the numbers of a decision in batches, problem documents and reply fields.
 *
 * Rounding goes one way: published seconds up (a wait that is refused is at least 1), tokens down. Where a
 * decision is undecided its counts are not known, so they are null here and absent there.
 *
 * Elsewhere: the members of an answer (answer_members.c); the HTTP envelope (response.c); the sentence of a problem document (detail.c).
 */
#include "wire/answer.h"

#include "wire/answer_members.h"
#include "wire/detail.h"

/* Bounds of published numbers: Structured Fields end at 15 digits, and clients keep seconds in 32 bits. */
#define INTEGER_MAX UINT64_C(999999999999999)
#define SECONDS_MAX UINT64_C(2147483647)

/* The same, and they are finite: a key that is never counted has none to publish in fields. */
static bool has_finite_numbers(const struct weir_decision *decision)
{
    return answer_has_numbers(decision) && decision->capacity != WEIR_UNLIMITED
           && decision->remaining != WEIR_UNLIMITED;
}

/* The limit that says how the refusal looks; NULL: nobody does. */
static const struct weir_contract_limit *replies(const struct weir_answer *answer)
{
    enum weir_outcome outcome = answer->decision.outcome;
    return outcome == WEIR_DENY || outcome == WEIR_NEVER ? answer_limit_of(answer, &answer->decision) : NULL;
}

unsigned answer_status(const struct weir_answer *answer, enum answer_door door)
{
    const struct weir_contract_limit *limit = replies(answer);
    if (answer_passes(answer->decision.outcome))
        return 200;
    if (answer->decision.outcome == WEIR_REFUSED)
        return 503; /* for nginx, too: 403 would tell its client that it asked too much */
    if (door == ANSWER_AUTH_NGINX)
        return 403;
    return limit != NULL && limit->reply_status != 0 ? limit->reply_status : 429;
}

/* ---- Lengths of time ------------------------------------------------------------------------------------- */

/* Whole seconds, rounded up. */
static uint64_t seconds_up(weir_ns ns)
{
    uint64_t seconds = ns / WEIR_SECOND + (ns % WEIR_SECOND != 0);
    return seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
}

/* What Retry-After says; 0: nothing (the request passed, or no wait helps). */
static uint64_t retry_seconds(const struct weir_decision *decision, weir_ns now)
{
    weir_ns wait = answer_retry_after(decision, now);
    if (answer_passes(decision->outcome))
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

void answer_batch_open(struct text *out)
{
    text_literal(out, "{\"results\":[");
}

void answer_batch_item(struct text *out, const struct weir_answer *answer, weir_ns now, bool is_first)
{
    text_string(out, is_first ? "{\"status\":" : ",{\"status\":");
    text_u64(out, answer_status(answer, ANSWER_CHECK));
    text_literal(out, ",");
    answer_members_json(out, answer, NULL, now);
    text_literal(out, "}");
}

void answer_batch_close(struct text *out)
{
    text_literal(out, "]}\n");
}

/* ---- Problem documents ----------------------------------------------------------------------------------- */

static const char *problem_type(enum weir_outcome outcome)
{
    switch (outcome) {
    case WEIR_NEVER:
        return "{\"type\":\"urn:weir:problem:cost-above-capacity\",\"title\":";
    case WEIR_REFUSED:
        return "{\"type\":\"https://iana.org/assignments/"
               "http-problem-types#temporary-reduced-capacity\",\"title\":";
    default:
        return "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":";
    }
}

static const char *problem_title(enum weir_outcome outcome)
{
    return outcome == WEIR_NEVER     ? "Request can never pass"
           : outcome == WEIR_REFUSED ? "Temporarily reduced capacity"
                                     : "Too many requests";
}

void answer_problem_json(struct text *out, const struct weir_answer *answer, const struct answer_beside *beside,
                         weir_ns now, unsigned status)
{
    enum weir_outcome outcome = answer->decision.outcome;
    const struct weir_contract_limit *limit = replies(answer);
    const char *title =
        limit != NULL && limit->reply_title != NULL ? limit->reply_title : problem_title(outcome);
    char space[256];
    struct text found = text_of(space, sizeof space);
    answer_detail(&found, answer, beside, answer_retry_after(&answer->decision, now));
    struct slice detail =
        limit != NULL && limit->reply_detail != NULL ? slice_of(limit->reply_detail) : text_slice(&found);
    bool is_first = true;
    text_string(out, problem_type(outcome));
    text_json(out, slice_of(title));
    text_literal(out, ",\"status\":");
    text_u64(out, status);
    if (detail.len > 0) {
        text_literal(out, ",\"detail\":");
        text_json(out, detail);
    }
    text_literal(out, ",\"violated-policies\":[");
    for (size_t i = 0; i < answer->count; i++) {
        if (answer_passes(answer->each[i].outcome) || answer_is_watched(answer, i))
            continue;
        if (!is_first)
            text_literal(out, ",");
        const struct weir_contract_limit *violated = answer_limit_of(answer, &answer->each[i]);
        json_word(out, violated == NULL ? NULL : violated->name);
        is_first = false;
    }
    text_literal(out, "],");
    answer_members_json(out, answer, beside, now);
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
    weir_ns reset = answer_reset_after(decision, now);
    if (!has_finite_numbers(decision))
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

/* Whether the key has the limit's own size: of an override's only the capacity is known here. */
static bool is_usual(const struct weir_contract_limit *limit, const struct weir_decision *decision)
{
    return decision->capacity == limit->capacity;
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
    weir_ns reset = answer_reset_after(decision, now), retry = answer_retry_after(decision, now), more = reset;
    bool is_bucket = limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
    if (limit->algorithm == WEIR_CONCURRENCY) /* a permit may come back sooner than at its expiry */
        return WEIR_NO_TIME;
    if (reset == WEIR_NO_TIME || reset == 0)
        return WEIR_NO_TIME;
    if (is_bucket && limit->window != WEIR_NO_TIME && is_usual(limit, decision)
        && decision->remaining < decision->capacity) {
        uint64_t behind = decision->capacity - decision->remaining - 1; /* tokens that come after the next */
        weir_u128_ product = (weir_u128_)behind * limit->window;
        uint64_t later = (uint64_t)(product / decision->capacity);
        later -= later > 0 && limit->window % decision->capacity != 0;
        more = later < reset ? reset - later : 1;
    }
    return decision->outcome == WEIR_DENY && retry < more ? retry : more;
}

static void draft_policy(struct text *out, const struct weir_contract_limit *limit,
                         const struct weir_decision *decision)
{
    text_literal(out, ";q=");
    text_u64(out, clamp(decision->capacity));
    if (limit->window != WEIR_NO_TIME && is_usual(limit, decision)) {
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
 * state is known; limits that are only watched are in neither. A field without members is left out.
 */
static void draft_field(struct text *out, const struct weir_answer *answer, weir_ns now, bool is_policy)
{
    bool is_first = true;
    for (size_t i = 0; i < answer->count; i++) {
        const struct weir_decision *each = &answer->each[i];
        const struct weir_contract_limit *limit = answer_limit_of(answer, each);
        if (limit == NULL || answer_is_watched(answer, i) || each->capacity == WEIR_UNLIMITED
            || !(is_policy || has_finite_numbers(each)))
            continue;
        text_string(out, !is_first ? ", \"" : is_policy ? "RateLimit-Policy: \"" : "RateLimit: \"");
        text_string(out, limit->name);
        text_literal(out, "\"");
        if (is_policy)
            draft_policy(out, limit, each);
        else
            draft_state(out, limit, each, now);
        is_first = false;
    }
    if (!is_first)
        text_literal(out, "\r\n");
}

/* What answered in place of the store: the binding limit's policy, or of a request that passes any other limit's that took
   part. */
static enum weir_policy degraded_policy(const struct weir_answer *answer)
{
    enum weir_policy policy = answer->decision.policy;
    for (size_t i = 0;
         i < answer->count && policy == WEIR_POLICY_NONE && answer_passes(answer->decision.outcome); i++)
        if (!answer_is_watched(answer, i))
            policy = answer->each[i].policy;
    return policy;
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

void answer_fields(struct text *out, enum weir_headers headers, const struct weir_answer *answer, weir_ns now)
{
    static const struct trio plain = { { "RateLimit-Limit: ", 17 },
                                       { "\r\nRateLimit-Remaining: ", 23 },
                                       { "\r\nRateLimit-Reset: ", 19 } };
    static const struct trio x = { { "X-RateLimit-Limit: ", 19 },
                                   { "\r\nX-RateLimit-Remaining: ", 25 },
                                   { "\r\nX-RateLimit-Reset: ", 21 } };
    const struct weir_decision *decision = &answer->decision;
    uint64_t retry = retry_seconds(decision, now);
    if (!answer_passes(decision->outcome))
        text_literal(out, "Cache-Control: no-store\r\n");
    if (retry != 0) {
        text_literal(out, "Retry-After: ");
        text_u64(out, retry);
        text_literal(out, "\r\n");
    }
    if (headers == WEIR_HEADERS_TRIO)
        trio_fields(out, &plain, decision, now);
    if (headers == WEIR_HEADERS_X_RATELIMIT)
        trio_fields(out, &x, decision, now);
    if (headers == WEIR_HEADERS_DRAFT) {
        draft_field(out, answer, now, true);
        draft_field(out, answer, now, false);
    }
    degraded_field(out, degraded_policy(answer));
}
