// SPDX-License-Identifier: Apache-2.0
/*
 * test_rls_answer.c - what weir decided in the words of Envoy's rate limit service: statuses, codes, headers, body.
 *
 * Decisions are made up here, over a table of limits. A status is compared as one word: CODE and, where a limit speaks,
 * NAME REQUESTS/UNIT*UNITS LEFT RESET ("-": none).
 */
#include "support/unit.h"

#include <jansson.h>

#include "wire/rls.h"

#define S WEIR_SECOND
#define MS WEIR_MILLISECOND
#define NOW (1000 * S)
#define DAY (86400 * S)

enum { TENANT, MINUTE, MONTHLY, BLOCKED, ODD, FIVE_DAYS, WEEKLY, HUGE_ONE, PAID, PRICED, LIMIT_COUNT };

static const struct weir_limit monthly = { .name = "monthly",
                                           .algorithm = WEIR_FIXED_WINDOW,
                                           .align = WEIR_ALIGN_CALENDAR,
                                           .calendar = WEIR_CALENDAR_MONTH };

static const struct weir_contract_limit limits[LIMIT_COUNT] = {
    [TENANT] = { .name = "tenant", .algorithm = WEIR_TOKEN_BUCKET, .capacity = 20, .window = 4 * S },
    [MINUTE] = { .name = "minute", .algorithm = WEIR_FIXED_WINDOW, .capacity = 60, .window = 60 * S },
    [MONTHLY] = { .name = "monthly",
                  .algorithm = WEIR_FIXED_WINDOW,
                  .capacity = 1000,
                  .window = 31 * DAY + 3600 * S, /* the longest that one can be */
                  .spec = &monthly },
    [BLOCKED] = { .name = "blocked", .algorithm = WEIR_TOKEN_BUCKET, .capacity = 3, .window = WEIR_NO_TIME },
    [ODD] = { .name = "odd", .algorithm = WEIR_TOKEN_BUCKET, .capacity = 7, .window = 1 + 89 * S },
    [FIVE_DAYS] = { .name = "five-days", .algorithm = WEIR_SLIDING_WINDOW, .capacity = 5, .window = 5 * DAY },
    [WEEKLY] = { .name = "weekly", .algorithm = WEIR_SLIDING_WINDOW, .capacity = 5, .window = 7 * DAY },
    [HUGE_ONE] = { .name = "huge", .algorithm = WEIR_FIXED_WINDOW, .capacity = UINT64_C(1) << 40, .window = S },
    [PAID] = { .name = "free-plan",
               .algorithm = WEIR_SLIDING_WINDOW,
               .capacity = 9,
               .window = S,
               .reply_status = 402,
               .reply_title = "Your plan is used up" },
    [PRICED] = { .name = "priced",
                 .algorithm = WEIR_TOKEN_BUCKET,
                 .capacity = 20,
                 .window = 20 * S,
                 .cost = 4 },
};

/* Which of the chain met which limit, and what became of it; retry and reset are from now. */
struct met {
    uint8_t asked_by;
    enum weir_outcome outcome;
    weir_limit_id limit;
    uint64_t remaining;
    weir_ns retry, reset;
    bool is_watched;
    uint64_t capacity; /* 0: the limit's */
    enum weir_reason reason;
};

static weir_ns instant(weir_ns from_now)
{
    return from_now == WEIR_NO_TIME ? from_now : NOW + from_now;
}

static struct weir_decision decision_of(const struct met *met)
{
    bool is_usual = met->capacity == 0 && met->limit != WEIR_NO_LIMIT;
    return (struct weir_decision){ .outcome = met->outcome,
                                   .reason = met->reason,
                                   .limit = met->limit,
                                   .capacity = is_usual ? limits[met->limit].capacity : met->capacity,
                                   .remaining = met->remaining,
                                   .decided_at = NOW,
                                   .retry_at = instant(met->retry),
                                   .reset_at = instant(met->reset) };
}

/* The first of `met` speaks for all. */
static struct weir_answer answer_of(const struct met *met, size_t count)
{
    struct weir_answer answer = { .limits = limits, .count = count };
    answer.decision = (struct weir_decision){ .outcome = WEIR_ALLOW, .limit = WEIR_NO_LIMIT };
    for (size_t i = 0; i < count; i++) {
        answer.each[i] = decision_of(&met[i]);
        answer.asked_by[i] = met[i].asked_by;
        answer.watched |= (uint64_t)met[i].is_watched << i;
        if (i == 0 && !met[i].is_watched)
            answer.decision = answer.each[i];
    }
    return answer;
}

static struct rls_answer out;

static const char *word_of(const struct rls_status *status)
{
    static char word[200];
    static const char *const codes[] = { "UNKNOWN", "OK", "OVER" };
    static const char *const units[] = { "?", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK" };
    char limit[100] = "", reset[32] = "-";
    if (status->has_reset)
        (void)snprintf(reset, sizeof reset, "%llu", (unsigned long long)status->reset_seconds);
    if (status->has_limit)
        (void)snprintf(limit, sizeof limit, " %.*s %u/%s*%u", (int)status->name.len,
                       status->name.len == 0 ? "" : status->name.at, status->requests_per_unit,
                       units[status->unit], status->unit_multiplier);
    (void)snprintf(word, sizeof word, "%s%s %u %s", codes[status->code], limit, status->remaining, reset);
    return word;
}

static void expect_status(size_t index, const char *want, const char *why)
{
    const char *got = word_of(&out.statuses[index]);
    if (strcmp(got, want) != 0)
        fail_msg("%s, %zu: %s, want %s", why, index, got, want);
}

/* ---- One descriptor -------------------------------------------------------------------------------------- */

static void a_status_has_the_limit_that_binds(void **state)
{
    static const struct {
        const char *why;
        uint64_t hits;
        enum rls_code overall;
        const char *status;
        struct met met[3];
        size_t count, bound; /* which of them speaks for all */
    } rows[] = {
        { "no limit was met", 1, RLS_OK, "OK 0 -", { { 0 } }, 0 },
        { "a bucket per the time in which it fills",
          1,
          RLS_OK,
          "OK tenant 20/SECOND*4 19 1",
          { { 0, WEIR_ALLOW, TENANT, 19, 0, 200 * MS } },
          1 },
        { "a window",
          1,
          RLS_OK,
          "OK minute 60/MINUTE*1 59 42",
          { { 0, WEIR_ALLOW, MINUTE, 59, 0, 42 * S } },
          1 },
        { "a moment more is a second more",
          1,
          RLS_OK,
          "OK minute 60/MINUTE*1 59 43",
          { { 0, WEIR_ALLOW, MINUTE, 59, 0, 42 * S + 1 } },
          1 },
        { "a calendar month is one, however long it is",
          1,
          RLS_OK,
          "OK monthly 1000/MONTH*1 999 86400",
          { { 0, WEIR_ALLOW, MONTHLY, 999, 0, DAY } },
          1 },
        { "what is no whole seconds counts as longer",
          1,
          RLS_OK,
          "OK odd 7/SECOND*90 6 12",
          { { 0, WEIR_ALLOW, ODD, 6, 0, 12 * S } },
          1 },
        { "several of a unit",
          1,
          RLS_OK,
          "OK five-days 5/DAY*5 4 1",
          { { 0, WEIR_ALLOW, FIVE_DAYS, 4, 0, S } },
          1 },
        { "a week", 1, RLS_OK, "OK weekly 5/WEEK*1 4 1", { { 0, WEIR_ALLOW, WEEKLY, 4, 0, S } }, 1 },
        { "what never comes back has no window and no reset",
          1,
          RLS_OK,
          "OK blocked 3/?*0 2 -",
          { { 0, WEIR_ALLOW, BLOCKED, 2, 0, WEIR_NO_TIME } },
          1 },
        { "numbers end at 32 bits",
          1,
          RLS_OK,
          "OK huge 4294967295/SECOND*1 4294967295 1",
          { { 0, WEIR_ALLOW, HUGE_ONE, (UINT64_C(1) << 40) - 1, 0, S } },
          1 },
        { "the window of an override is not known",
          1,
          RLS_OK,
          "OK minute 600/?*0 599 42",
          { { .limit = MINUTE, .outcome = WEIR_ALLOW, .remaining = 599, .reset = 42 * S, .capacity = 600 } },
          1 },
        { "a key that is never counted, as the reference server says it",
          1,
          RLS_OK,
          "OK 4294967295 -",
          { { .limit = MINUTE,
              .outcome = WEIR_ALLOW,
              .remaining = WEIR_UNLIMITED,
              .capacity = WEIR_UNLIMITED } },
          1 },
        { "refused: until it can pass",
          1,
          RLS_OVER_LIMIT,
          "OVER tenant 20/SECOND*4 0 1",
          { { 0, WEIR_DENY, TENANT, 0, 1, 4 * S } },
          1 },
        { "which is not when all is back",
          1,
          RLS_OVER_LIMIT,
          "OVER tenant 20/SECOND*4 0 2",
          { { 0, WEIR_DENY, TENANT, 0, S + 1, 4 * S } },
          1 },
        { "and never at once",
          1,
          RLS_OVER_LIMIT,
          "OVER tenant 20/SECOND*4 0 1",
          { { 0, WEIR_DENY, TENANT, 0, 0, 4 * S } },
          1 },
        { "refused for good has no time",
          1,
          RLS_OVER_LIMIT,
          "OVER blocked 3/?*0 0 -",
          { { 0, WEIR_DENY, BLOCKED, 0, WEIR_NO_TIME, WEIR_NO_TIME } },
          1 },
        { "too much for any time has none either",
          100,
          RLS_OVER_LIMIT,
          "OVER tenant 20/SECOND*4 20 -",
          { { 0, WEIR_NEVER, TENANT, 20, 0, 0 } },
          1 },
        { "a retry that was counted before",
          1,
          RLS_OK,
          "OK minute 60/MINUTE*1 59 42",
          { { 0, WEIR_DUPLICATE, MINUTE, 59, 0, 42 * S } },
          1 },
        { "what passed after a wait",
          1,
          RLS_OK,
          "OK minute 60/MINUTE*1 0 42",
          { { 0, WEIR_WAIT, MINUTE, 0, 0, 42 * S } },
          1 },
        { "what could not be counted and may pass",
          1,
          RLS_OK,
          "OK 0 -",
          { { 0, WEIR_UNMETERED, MINUTE, 0, 0, 0 } },
          1 },
        { "a key that is missing is refused without numbers",
          1,
          RLS_OVER_LIMIT,
          "OVER 0 -",
          { { .limit = MINUTE, .outcome = WEIR_DENY, .reason = WEIR_REASON_MISSING_KEY } },
          1 },
        { "of two the one with less left",
          1,
          RLS_OK,
          "OK minute 60/MINUTE*1 3 9",
          { { 0, WEIR_ALLOW, TENANT, 19, 0, S }, { 0, WEIR_ALLOW, MINUTE, 3, 0, 9 * S } },
          2,
          1 },
        { "of which 16 of 4 each are less than 9, as the whole answer says",
          1,
          RLS_OK,
          "OK priced 20/SECOND*20 16 4",
          { { 0, WEIR_ALLOW, TENANT, 9, 0, S }, { 0, WEIR_ALLOW, PRICED, 16, 0, 4 * S } },
          2,
          1 },
        { "and also where what an attribute costs is known to the limiter alone",
          1,
          RLS_OK,
          "OK minute 60/MINUTE*1 30 9",
          { { 0, WEIR_ALLOW, TENANT, 9, 0, S }, { 0, WEIR_ALLOW, MINUTE, 30, 0, 9 * S } },
          2,
          1 },
        { "in such requests: 4 and 5 are two of 2 each, and the first of them speaks",
          2,
          RLS_OK,
          "OK tenant 20/SECOND*4 5 1",
          { { 0, WEIR_ALLOW, TENANT, 5, 0, S }, { 0, WEIR_ALLOW, MINUTE, 4, 0, 9 * S } },
          2 },
        { "of two refusals the one that frees last",
          1,
          RLS_OVER_LIMIT,
          "OVER minute 60/MINUTE*1 0 9",
          { { 0, WEIR_DENY, TENANT, 0, S, 4 * S }, { 0, WEIR_DENY, MINUTE, 0, 9 * S, 9 * S } },
          2,
          1 },
        { "never is last",
          1,
          RLS_OVER_LIMIT,
          "OVER tenant 20/SECOND*4 0 -",
          { { 0, WEIR_NEVER, TENANT, 0, WEIR_NO_TIME, 4 * S }, { 0, WEIR_DENY, MINUTE, 0, 9 * S, 9 * S } },
          2 },
        { "a refusal before what has less left",
          1,
          RLS_OVER_LIMIT,
          "OVER minute 60/MINUTE*1 5 9",
          { { 0, WEIR_DENY, MINUTE, 5, 9 * S, 9 * S }, { 0, WEIR_ALLOW, TENANT, 0, 0, S } },
          2 },
        { "what is only watched takes no part",
          1,
          RLS_OK,
          "OK tenant 20/SECOND*4 19 1",
          { { 0, WEIR_ALLOW, TENANT, 19, 0, S },
            { 0, WEIR_DENY, MINUTE, 0, 9 * S, 9 * S, .is_watched = true } },
          2 },
        { "alone neither",
          1,
          RLS_OK,
          "OK 0 -",
          { { 0, WEIR_DENY, MINUTE, 0, 9 * S, 9 * S, .is_watched = true } },
          1 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct rls_asked asked = { .hits = rows[i].hits };
        struct weir_answer answer = answer_of(rows[i].met, rows[i].count);
        if (rows[i].bound > 0)
            answer.decision = answer.each[rows[i].bound];
        memset(&out, 0xa5, sizeof out);
        rls_answer_make(&answer, NOW, &asked, 1, WEIR_HEADERS_NONE, &out);
        expect_row(out.count == 1 && out.overall == rows[i].overall, rows[i].why);
        expect_status(0, rows[i].status, rows[i].why);
    }
}

/* ---- Several --------------------------------------------------------------------------------------------- */

static void each_descriptor_has_its_status(void **state)
{
    static const struct met met[] = {
        { 1, WEIR_DENY, MINUTE, 0, 9 * S, 9 * S }, { 0, WEIR_ALLOW, TENANT, 19, 0, S },
        { 3, WEIR_ALLOW, TENANT, 9, 0, S },        { 3, WEIR_ALLOW, PRICED, 16, 0, 4 * S },
        { 4, WEIR_ALLOW, PRICED, 12, 0, 8 * S },   { 4, WEIR_ALLOW, TENANT, 2, 0, 4 * S },
        { 5, WEIR_ALLOW, WEEKLY, 4, 0, 3600 * S }, { 5, WEIR_ALLOW, TENANT, 3, 0, 4 * S },
    };
    static const struct rls_asked asked[6] = { { .hits = 1 }, { .hits = 1 }, { .hits = 1 },
                                               { .hits = 1 }, { .hits = 1 }, { .hits = 2 } };
    struct weir_answer answer = answer_of(met, COUNT_OF(met));
    (void)state;
    rls_answer_make(&answer, NOW, asked, 6, WEIR_HEADERS_NONE, &out);
    assert_int_equal(out.count, 6);
    assert_int_equal(out.overall, RLS_OVER_LIMIT);
    expect_status(0, "OK tenant 20/SECOND*4 19 1", "the first passes");
    expect_status(1, "OVER minute 60/MINUTE*1 0 9", "the second does not");
    expect_status(2, "OK 0 -", "the third met nothing");
    expect_status(3, "OK priced 20/SECOND*20 16 4", "four of 4 are fewer than nine");
    expect_status(4, "OK tenant 20/SECOND*4 2 4", "two are fewer than three of 4");
    expect_status(5, "OK tenant 20/SECOND*4 3 4", "one of 2 is fewer than two");
}

/* A refund is told by whoever made it; the requests of the chain are those of the others. */
static void refunds_are_left_alone(void **state)
{
    static const struct met met[] = { { 1, WEIR_ALLOW, MINUTE, 5, 0, 9 * S },
                                      { 0, WEIR_ALLOW, TENANT, 19, 0, S } };
    static const struct rls_asked asked[4] = {
        { .hits = 1, .is_refund = true }, { .hits = 1 }, { .hits = 1, .is_refund = true }, { .hits = 1 }
    };
    struct weir_answer answer = answer_of(met, COUNT_OF(met));
    (void)state;
    memset(&out, 0, sizeof out);
    out.statuses[0] = (struct rls_status){ .code = RLS_OK, .remaining = 77 };
    out.statuses[2] = (struct rls_status){ .code = RLS_OK, .remaining = 78 };
    rls_answer_make(&answer, NOW, asked, 4, WEIR_HEADERS_NONE, &out);
    assert_int_equal(out.overall, RLS_OK);
    expect_status(0, "OK 77 -", "as it was");
    expect_status(1, "OK tenant 20/SECOND*4 19 1", "the first of the chain");
    expect_status(2, "OK 78 -", "as it was");
    expect_status(3, "OK minute 60/MINUTE*1 5 9", "the second");

    out.statuses[2].code = RLS_OVER_LIMIT;
    rls_answer_make(&answer, NOW, asked, 4, WEIR_HEADERS_NONE, &out);
    assert_int_equal(out.overall, RLS_OVER_LIMIT);
    assert_int_equal(out.statuses[1].code, RLS_OK);

    answer = answer_of(NULL, 0);
    out.statuses[0].code = RLS_OK;
    rls_answer_make(&answer, NOW, asked, 1, WEIR_HEADERS_NONE, &out);
    assert_int_equal(out.overall, RLS_OK);
    expect_status(0, "OK 77 -", "alone");
}

static void an_own_limit_is_told_as_it_was_said(void **state)
{
    static const struct {
        const char *why, *status;
        struct met met;
        uint32_t requests;
    } rows[] = {
        { "counted by the piece",
          "OK  10/MINUTE*5 7 42",
          { .outcome = WEIR_ALLOW, .limit = WEIR_NO_LIMIT, .remaining = 7, .capacity = 10, .reset = 42 * S },
          10 },
        { "or in parts of one, rounded down",
          "OK  10/MINUTE*5 6 42",
          { .outcome = WEIR_ALLOW,
            .limit = WEIR_NO_LIMIT,
            .remaining = 6999,
            .capacity = 10000,
            .reset = 42 * S },
          10 },
        { "of any size",
          "OK  4294967295/MINUTE*5 4294967294 42",
          { .outcome = WEIR_ALLOW,
            .limit = WEIR_NO_LIMIT,
            .remaining = (uint64_t)INT64_MAX - 1,
            .capacity = INT64_MAX,
            .reset = 42 * S },
          UINT32_MAX },
        { "refused",
          "OVER  10/MINUTE*5 0 6",
          { .outcome = WEIR_DENY, .limit = WEIR_NO_LIMIT, .capacity = 10, .retry = 6 * S, .reset = 42 * S },
          10 },
        { "of none",
          "OVER  0/MINUTE*5 0 -",
          { .outcome = WEIR_NEVER, .limit = WEIR_NO_LIMIT, .retry = WEIR_NO_TIME, .reset = WEIR_NO_TIME },
          0 },
        { "not counted", "OK 0 -", { .outcome = WEIR_UNMETERED, .limit = WEIR_NO_LIMIT }, 10 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct rls_asked asked = { .hits = 1,
                                         .has_limit = true,
                                         .requests_per_unit = rows[i].requests,
                                         .unit = RLS_MINUTE,
                                         .unit_multiplier = 5 };
        struct weir_answer answer = answer_of(&rows[i].met, 1);
        rls_answer_make(&answer, NOW, &asked, 1, WEIR_HEADERS_NONE, &out);
        expect_status(0, rows[i].status, rows[i].why);
    }
}

/* An attribute that no limit accepts refuses the call before any limit is met. */
static void a_refused_attribute_is_over_the_limit(void **state)
{
    static const struct rls_asked asked[3] = { { .hits = 1 }, { .hits = 1, .is_refund = true }, { .hits = 1 } };
    struct weir_answer answer = { .decision = { .outcome = WEIR_NEVER,
                                                .reason = WEIR_REASON_ATTRIBUTE,
                                                .limit = WEIR_NO_LIMIT,
                                                .retry_at = WEIR_NO_TIME,
                                                .reset_at = WEIR_NO_TIME } };
    (void)state;
    memset(&out, 0, sizeof out);
    out.statuses[1].code = RLS_OK;
    rls_answer_make(&answer, NOW, asked, 3, WEIR_HEADERS_TRIO, &out);
    assert_int_equal(out.overall, RLS_OVER_LIMIT);
    expect_status(0, "OVER 0 -", "whose it is, is not known");
    expect_status(1, "OK 0 -", "a refund is another matter");
    expect_status(2, "OVER 0 -", "whose it is, is not known");
}

/* ---- Headers and body ------------------------------------------------------------------------------------ */

static const char *headers_of(void)
{
    static char lines[4096];
    struct text text = text_of(lines, sizeof lines - 1);
    for (size_t i = 0; i < out.header_count; i++) {
        text_slice_add(&text, out.headers[i].key);
        text_literal(&text, "=");
        text_slice_add(&text, out.headers[i].value);
        text_literal(&text, "\n");
    }
    assert_false(text.is_cut);
    lines[text.len] = '\0';
    return lines;
}

static void headers_are_those_of_the_contract(void **state)
{
    static const struct met passes[] = { { 0, WEIR_ALLOW, TENANT, 19, 0, 200 * MS } },
                            refused[] = { { 0, WEIR_DENY, MINUTE, 0, 9 * S, 9 * S },
                                          { 0, WEIR_ALLOW, TENANT, 19, 0, 200 * MS } };
    static const struct {
        const char *why, *headers;
        const struct met *met;
        size_t count;
        enum weir_headers form;
    } rows[] = {
        { "a pass", "ratelimit-limit=20\nratelimit-remaining=19\nratelimit-reset=1\n", passes, 1,
          WEIR_HEADERS_TRIO },
        { "a refusal",
          "cache-control=no-store\nretry-after=9\nratelimit-limit=60\nratelimit-remaining=0\n"
          "ratelimit-reset=9\ncontent-type=application/problem+json\n",
          refused, 2, WEIR_HEADERS_TRIO },
        { "the older names", "x-ratelimit-limit=20\nx-ratelimit-remaining=19\nx-ratelimit-reset=1\n", passes, 1,
          WEIR_HEADERS_X_RATELIMIT },
        { "the draft's lists",
          "cache-control=no-store\nretry-after=9\n"
          "ratelimit-policy=\"minute\";q=60;w=60, \"tenant\";q=20;w=4\n"
          "ratelimit=\"minute\";r=0;t=9, \"tenant\";r=19;t=1\ncontent-type=application/problem+json\n",
          refused, 2, WEIR_HEADERS_DRAFT },
        { "none", "", passes, 1, WEIR_HEADERS_NONE },
        { "none but when to come again",
          "cache-control=no-store\nretry-after=9\ncontent-type=application/problem+json\n", refused, 2,
          WEIR_HEADERS_NONE },
    };
    static const struct rls_asked asked = { .hits = 1 };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = answer_of(rows[i].met, rows[i].count);
        rls_answer_make(&answer, NOW, &asked, 1, rows[i].form, &out);
        if (strcmp(headers_of(), rows[i].headers) != 0)
            fail_msg("%s:\n%swant\n%s", rows[i].why, headers_of(), rows[i].headers);
    }
}

static void a_refusal_says_why_in_its_body(void **state)
{
    static const struct met refused[] = { { 0, WEIR_DENY, MINUTE, 0, 9 * S, 9 * S } },
                            paid[] = { { 0, WEIR_DENY, PAID, 0, S, S } },
                            passes[] = { { 0, WEIR_ALLOW, TENANT, 19, 0, S } };
    static const struct rls_asked asked = { .hits = 1 };
    struct weir_answer answer = answer_of(refused, 1);
    (void)state;
    rls_answer_make(&answer, NOW, &asked, 1, WEIR_HEADERS_TRIO, &out);
    json_t *body = json_loadb(out.body.at, out.body.len, 0, NULL);
    assert_non_null(body);
    assert_int_equal(json_integer_value(json_object_get(body, "status")), 429);
    assert_string_equal(json_string_value(json_object_get(body, "decision")), "deny");
    assert_string_equal(json_string_value(json_object_get(body, "limit")), "minute");
    assert_int_equal(json_integer_value(json_object_get(body, "retry_after")), 9);
    assert_int_equal(out.body.at[out.body.len - 1], '\n');
    json_decref(body);

    answer = answer_of(paid, 1);
    rls_answer_make(&answer, NOW, &asked, 1, WEIR_HEADERS_TRIO, &out);
    body = json_loadb(out.body.at, out.body.len, 0, NULL);
    assert_non_null(body);
    assert_int_equal(json_integer_value(json_object_get(body, "status")), 402);
    assert_string_equal(json_string_value(json_object_get(body, "title")), "Your plan is used up");
    json_decref(body);

    answer = answer_of(passes, 1);
    rls_answer_make(&answer, NOW, &asked, 1, WEIR_HEADERS_TRIO, &out);
    assert_int_equal(out.body.len, 0);
}

/* 64 limits with the longest names and numbers, refused, of 64 descriptors: all of it has room, in either coding. */
static void the_largest_answer_has_room(void **state)
{
    enum { COUNT = WEIR_ASKS_MAX };
    static char names[COUNT][WEIR_NAME_MAX + 1], written[RLS_ANSWER_MAX];
    static struct weir_contract_limit many[COUNT];
    static struct rls_asked asked[WEIR_DESCRIPTORS_MAX];
    struct weir_answer answer = { .limits = many, .count = COUNT };
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        memset(names[i], 'a' + (int)(i % 26), WEIR_NAME_MAX);
        many[i] = (struct weir_contract_limit){
            .name = names[i], .algorithm = WEIR_TOKEN_BUCKET, .capacity = INT64_MAX, .window = 3650 * DAY - 1
        };
        answer.each[i] = (struct weir_decision){ .outcome = WEIR_DENY,
                                                 .limit = (weir_limit_id)i,
                                                 .capacity = INT64_MAX,
                                                 .remaining = INT64_MAX - 1,
                                                 .decided_at = NOW,
                                                 .retry_at = NOW + 3650 * DAY - 1,
                                                 .reset_at = NOW + 3650 * DAY - 1 };
        answer.asked_by[i] = (uint8_t)i;
        asked[i].hits = INT64_MAX;
    }
    answer.decision = answer.each[0];
    rls_answer_make(&answer, NOW, asked, WEIR_DESCRIPTORS_MAX, WEIR_HEADERS_DRAFT, &out);
    assert_int_equal(out.count, WEIR_DESCRIPTORS_MAX);
    assert_true(out.body.len > 0);
    struct text text = text_of(written, sizeof written);
    rls_write(&out, &text);
    assert_false(text.is_cut);
    text = text_of(written, sizeof written);
    rls_json_write(&out, &text);
    assert_false(text.is_cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_has_the_limit_that_binds),
        cmocka_unit_test(each_descriptor_has_its_status),
        cmocka_unit_test(refunds_are_left_alone),
        cmocka_unit_test(an_own_limit_is_told_as_it_was_said),
        cmocka_unit_test(a_refused_attribute_is_over_the_limit),
        cmocka_unit_test(headers_are_those_of_the_contract),
        cmocka_unit_test(a_refusal_says_why_in_its_body),
        cmocka_unit_test(the_largest_answer_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
