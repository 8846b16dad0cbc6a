// SPDX-License-Identifier: Apache-2.0
/*
 * test_answer.c - what clients read: JSON, problem documents, reply fields, whole responses.
 *
 * Decisions are made up here and expected texts are written by hand from interface.md 2 and wire-formats.md 1,
 * so this needs no limiter: the limits that an answer indexes are a table here.
 */
#include "support/unit.h"

#include <jansson.h>

#include "support/random.h"
#include "wire/answer.h"

#define MS WEIR_MILLISECOND
#define S WEIR_SECOND
#define NOW (1000 * S)

/* ---- A contract of five limits --------------------------------------------------------------------------- */

enum { TENANT, WINDOW, BLOCKED, SECONDLY, PAID, LIMIT_COUNT };

static const struct weir_contract_limit limits[LIMIT_COUNT] = {
    [TENANT] = { .name = "tenant-requests", .algorithm = WEIR_TOKEN_BUCKET, .capacity = 20, .window = 4 * S },
    [WINDOW] = { .name = "per-minute", .algorithm = WEIR_FIXED_WINDOW, .capacity = 60, .window = 60 * S },
    [BLOCKED] = { .name = "blocked", .algorithm = WEIR_TOKEN_BUCKET, .capacity = 0, .window = WEIR_NO_TIME },
    [SECONDLY] = { .name = "slow", .algorithm = WEIR_LEAKY_BUCKET, .capacity = 5, .window = 5 * S },
    [PAID] = { .name = "free-plan",
               .algorithm = WEIR_SLIDING_WINDOW,
               .capacity = 9,
               .window = S,
               .reply_status = 402,
               .reply_title = "Your \"free\" plan is used up",
               .reply_detail = "buy more at https://example.test/" },
};

static struct weir_decision decision(enum weir_outcome outcome, weir_limit_id limit, uint64_t remaining,
                                     weir_ns retry, weir_ns reset)
{
    return (struct weir_decision){ .outcome = outcome,
                                   .limit = limit,
                                   .capacity = limit < 0 ? 0 : limits[limit].capacity,
                                   .remaining = remaining,
                                   .decided_at = NOW,
                                   .retry_at = retry == WEIR_NO_TIME ? retry : NOW + retry,
                                   .reset_at = reset == WEIR_NO_TIME ? reset : NOW + reset };
}

static struct weir_answer answer_of(struct weir_decision bound)
{
    struct weir_answer answer = { .decision = bound, .limits = limits, .count = bound.limit != WEIR_NO_LIMIT };
    answer.each[0] = bound;
    return answer;
}

static char storage[ANSWER_MAX];
static struct text out;

static void reset(void)
{
    out = text_of(storage, sizeof storage);
}

static void expect_out(const char *expected, const char *why)
{
    assert_false(out.is_cut);
    if (out.len != strlen(expected) || memcmp(out.at, expected, out.len) != 0)
        fail_msg("%s:\n%.*s\nwant\n%s", why, (int)out.len, out.at, expected);
}

/* ---- JSON ------------------------------------------------------------------------------------------------ */

static void decisions_are_the_documented_object(void **state)
{
    struct weir_answer answer = answer_of(decision(WEIR_ALLOW, TENANT, 19, 0, 200 * MS));
    (void)state;
    reset();
    answer_json(&out, &answer, NULL, NOW);
    expect_out(
        "{\"decision\":\"allow\",\"limit\":\"tenant-requests\",\"policy\":null,\"reason\":null,\"capacity\":20,"
        "\"remaining\":19,\"retry_after\":0,\"reset_after\":0.2,\"limits\":[{\"limit\":\"tenant-requests\","
        "\"decision\":\"allow\",\"capacity\":20,\"remaining\":19,\"retry_after\":0,\"reset_after\":0.2}]}",
        "the example of interface.md");

    answer = answer_of(decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0));
    reset();
    answer_json(&out, &answer, NULL, NOW);
    expect_out("{\"decision\":\"allow\",\"limit\":null,\"policy\":null,\"reason\":null,\"capacity\":null,"
               "\"remaining\":null,\"retry_after\":0,\"reset_after\":null,\"limits\":[]}",
               "a request that meets no limit");
}

/* What only says what would have been is told so, and is in nobody's way. */
static void watched_limits_are_told_apart(void **state)
{
    struct weir_answer answer = answer_of(decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S));
    (void)state;
    answer.count = 2;
    answer.each[1] = decision(WEIR_DENY, WINDOW, 0, S, S);
    answer.watched = 2;
    reset();
    answer_problem_json(&out, &answer, NULL, NOW, 429);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, "\"violated-policies\":[\"tenant-requests\"]"));
    assert_non_null(strstr(storage,
                           "{\"limit\":\"per-minute\",\"decision\":\"deny\",\"capacity\":60,"
                           "\"remaining\":0,\"retry_after\":1,\"reset_after\":1,\"enforced\":false}]"));
    assert_null(strstr(storage, "\"reset_after\":4,\"enforced\""));
    reset();
    answer_fields(&out, WEIR_HEADERS_DRAFT, &answer, NOW);
    expect_out("Cache-Control: no-store\r\nRetry-After: 1\r\nRateLimit-Policy: \"tenant-requests\";q=20;w=4\r\n"
               "RateLimit: \"tenant-requests\";r=0;t=1\r\n",
               "and is in no field");
}

static void what_has_no_bound_is_null(void **state)
{
    struct weir_answer answer = answer_of(decision(WEIR_ALLOW, TENANT, WEIR_UNLIMITED, 0, 0));
    (void)state;
    answer.decision.capacity = WEIR_UNLIMITED;
    answer.each[0] = answer.decision;
    reset();
    answer_json(&out, &answer, NULL, NOW);
    expect_out(
        "{\"decision\":\"allow\",\"limit\":\"tenant-requests\",\"policy\":null,\"reason\":null,"
        "\"capacity\":null,\"remaining\":null,\"retry_after\":0,\"reset_after\":0,\"limits\":[{\"limit\":"
        "\"tenant-requests\",\"decision\":\"allow\",\"capacity\":null,\"remaining\":null,\"retry_after\":0,"
        "\"reset_after\":0}]}",
        "an unlimited key");
    for (int headers = WEIR_HEADERS_TRIO; headers <= WEIR_HEADERS_NONE; headers++) {
        reset();
        answer_fields(&out, (enum weir_headers)headers, &answer, NOW);
        expect_out("", "no number, no field");
    }
    answer = answer_of(decision(WEIR_ALLOW, TENANT, 99, 0, S));
    answer.each[0].capacity = 100;
    reset();
    answer_fields(&out, WEIR_HEADERS_DRAFT, &answer, NOW);
    expect_out("RateLimit-Policy: \"tenant-requests\";q=100\r\nRateLimit: \"tenant-requests\";r=99;t=1\r\n",
               "a key with a size of its own: its capacity, and nothing that would be guessed");
}

static void a_reservation_stands_beside_the_decision(void **state)
{
    struct weir_reservation ticket = { .len = 3, .bytes = { 0xfb, 0xff, 0x01 } };
    const struct answer_beside beside = { .ticket = &ticket, .expires_after = 600 * S };
    struct weir_answer answer = answer_of(decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0));
    (void)state;
    reset();
    answer_json(&out, &answer, &beside, NOW);
    expect_out("{\"decision\":\"allow\",\"limit\":null,\"policy\":null,\"reason\":null,\"capacity\":null,"
               "\"remaining\":null,\"retry_after\":0,\"reset_after\":null,\"limits\":[],"
               "\"reservation\":\"-_8B\",\"expires_after\":600}",
               "letters that need no escape");
    ticket.len = 0;
    reset();
    answer_json(&out, &answer, &beside, NOW);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, "\"limits\":[],\"reservation\":null,\"expires_after\":null}"));
}

/* Three bytes of the store's beside none of ours, and beside ours: token.h. */
static void a_part_in_the_store_is_in_the_same_text(void **state)
{
    struct weir_reservation ticket = { .len = 0 };
    struct weir_permit permit = { .len = 3, .fence = 7, .bytes = { 0xfb, 0xff, 0x01 } };
    struct answer_beside beside = { .ticket = &ticket, .expires_after = 600 * S, .joint = SLICE("\2\0\0abc") };
    struct weir_answer answer = answer_of(decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0));
    (void)state;
    reset();
    answer_json(&out, &answer, &beside, NOW);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, ",\"reservation\":\"AgAAYWJj\",\"expires_after\":600}"));
    beside =
        (struct answer_beside){ .permit = &permit, .expires_after = S, .joint = SLICE("\2\0\3\xfb\xff\1abc") };
    reset();
    answer_json(&out, &answer, &beside, NOW);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, ",\"permit\":\"AgAD-_8BYWJj\",\"fence\":7,\"expires_after\":1}"));
}

static void a_store_that_is_away_is_named_by_its_limit(void **state)
{
    struct weir_answer answer = answer_of(decision(WEIR_REFUSED, WINDOW, 0, NOW + S, WEIR_NO_TIME));
    const struct answer_beside beside = { .wait = ANSWER_WAIT_UNASKED };
    (void)state;
    answer.decision.reason = WEIR_REASON_STORE;
    answer.decision.policy = WEIR_POLICY_CLOSED;
    reset();
    answer_problem_json(&out, &answer, &beside, NOW, 503);
    storage[out.len] = '\0';
    assert_non_null(strstr(
        storage,
        "\"detail\":\"the shared store of limit 'per-minute' could not be had, and the limit then refuses"));
    assert_non_null(strstr(storage, "#temporary-reduced-capacity\""));
    answer.decision.outcome = WEIR_DENY; /* a share of the limit, which is not the store's refusal */
    answer.decision.policy = WEIR_POLICY_LOCAL;
    reset();
    answer_problem_json(&out, &answer, &beside, NOW, 429);
    storage[out.len] = '\0';
    assert_non_null(
        strstr(storage, "could not be had, and the share that this server has meanwhile is used up\""));
}

/* Of a request that passes every limit that took part counts; of one that does not, the one that refuses. */
static void what_answered_in_place_of_the_store_is_said(void **state)
{
    static const struct {
        const char *why;
        enum weir_outcome bound;
        enum weir_policy first, second;
        bool is_watched;
        const char *expected;
    } rows[] = {
        { "all were had", WEIR_ALLOW, WEIR_POLICY_NONE, WEIR_POLICY_NONE, false, "" },
        { "another limit than the one that binds", WEIR_ALLOW, WEIR_POLICY_NONE, WEIR_POLICY_OPEN, false,
          "Weir-Degraded: open\r\n" },
        { "one that only watches takes no part", WEIR_ALLOW, WEIR_POLICY_NONE, WEIR_POLICY_OPEN, true, "" },
        { "the one that binds goes first", WEIR_ALLOW, WEIR_POLICY_LOCAL, WEIR_POLICY_OPEN, false,
          "Weir-Degraded: local\r\n" },
        { "a denial by what was had", WEIR_DENY, WEIR_POLICY_NONE, WEIR_POLICY_OPEN, false,
          "Cache-Control: no-store\r\nRetry-After: 1\r\n" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = answer_of(decision(rows[i].bound, TENANT, 1, S, S));
        answer.decision.policy = rows[i].first;
        answer.count = 2;
        answer.each[0].policy = rows[i].first;
        answer.each[1] = decision(WEIR_UNMETERED, WINDOW, 0, 0, 0);
        answer.each[1].policy = rows[i].second;
        answer.watched = rows[i].is_watched ? 2 : 0;
        reset();
        answer_fields(&out, WEIR_HEADERS_NONE, &answer, NOW);
        expect_out(rows[i].expected, rows[i].why);
    }
}

static void a_wait_and_a_permit_stand_beside_the_decision(void **state)
{
    struct weir_permit permit = { .len = 3, .fence = UINT64_MAX, .bytes = { 0xfb, 0xff, 0x01 } };
    const struct answer_beside beside = {
        .permit = &permit, .expires_after = 30 * S, .has_waited = true, .waited = 200 * MS, .preferred = 5
    };
    const struct answer_beside waited = { .has_waited = true };
    struct weir_answer answer = answer_of(decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0));
    (void)state;
    reset();
    answer_json(&out, &answer, &beside, NOW);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, "\"limits\":[],\"waited\":0.2,\"permit\":\"-_8B\","
                                    "\"fence\":18446744073709551615,\"expires_after\":30}"));
    permit.len = 0;
    reset();
    answer_json(&out, &answer, &beside, NOW);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, "\"permit\":null,\"fence\":null,\"expires_after\":null}"));
    reset();
    answer_json(&out, &answer, &waited, NOW);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, "\"limits\":[],\"waited\":0}"));

    reset();
    answer_renewed(&out, ANSWER_JSON, 1);
    expect_out("{\"expires_after\":0.000000001}\n", "exact");
    reset();
    answer_released(&out, ANSWER_JSON, true);
    expect_out("{\"released\":true,\"expires_after\":0}\n", "it was held");
    reset();
    answer_released(&out, ANSWER_JSON, false);
    expect_out("{\"released\":false,\"expires_after\":0}\n", "it was not");
}

static void settlements_say_what_they_did(void **state)
{
    const struct weir_settlement over = { .charged = 22, .dropped = 3, .remaining = 0, .limit = TENANT };
    const struct weir_settlement none = { .limit = WEIR_NO_LIMIT, .is_repeated = true };
    (void)state;
    reset();
    answer_settlement(&out, ANSWER_JSON, &over, "tenant-requests", true);
    expect_out("{\"charged\":22,\"dropped\":3,\"returned\":0,\"remaining\":0,\"limit\":\"tenant-requests\","
               "\"repeated\":false}\n",
               "a settlement above its estimate");
    reset();
    answer_settlement(&out, ANSWER_JSON, &none, NULL, false);
    expect_out("{\"returned\":0,\"remaining\":null,\"limit\":null,\"repeated\":true}\n",
               "nothing was settled, for the second time");
}

/* The numbers of one decision, as `retry_after, reset_after, remaining` in the JSON's own words. */
static void numbers_are_null_where_nothing_is_known(void **state)
{
    const weir_ns never = WEIR_NO_TIME;
    struct weir_decision missing = decision(WEIR_NEVER, TENANT, 0, never, never);
    missing.reason = WEIR_REASON_MISSING_KEY;
    const struct {
        const char *why;
        struct weir_decision decision;
        weir_ns now;
        const char *expected;
    } rows[] = {
        { "a wait is exact", decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S), NOW,
          "20,\"remaining\":0,\"retry_after\":0.2,\"reset_after\":4}" },
        { "to the nanosecond", decision(WEIR_DENY, TENANT, 0, 1, 3999999999), NOW,
          "20,\"remaining\":0,\"retry_after\":0.000000001,\"reset_after\":3.999999999}" },
        { "a stale stamp waits longer: instants count from now",
          decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S), NOW - 2 * S,
          "20,\"remaining\":0,\"retry_after\":2.2,\"reset_after\":6}" },
        { "an allowed stale stamp need not wait", decision(WEIR_ALLOW, TENANT, 3, 0, 4 * S), NOW - 2 * S,
          "20,\"remaining\":3,\"retry_after\":0,\"reset_after\":6}" },
        { "a budget that is whole", decision(WEIR_ALLOW, TENANT, 20, 0, 0), NOW,
          "20,\"remaining\":20,\"retry_after\":0,\"reset_after\":0}" },
        { "an instant that has passed is not negative", decision(WEIR_ALLOW, TENANT, 20, 0, 0), NOW + S,
          "20,\"remaining\":20,\"retry_after\":0,\"reset_after\":0}" },
        { "0 is for allow alone", decision(WEIR_DENY, TENANT, 0, 0, 4 * S), NOW + S,
          "20,\"remaining\":0,\"retry_after\":0.000000001,\"reset_after\":3}" },
        { "never has no retry", decision(WEIR_NEVER, TENANT, 7, never, 4 * S), NOW,
          "20,\"remaining\":7,\"retry_after\":null,\"reset_after\":4}" },
        { "nothing refills", decision(WEIR_DENY, BLOCKED, 0, never, never), NOW,
          "0,\"remaining\":0,\"retry_after\":null,\"reset_after\":null}" },
        { "an undecided limit's count is not known", decision(WEIR_REFUSED, TENANT, 0, never, never), NOW,
          "20,\"remaining\":null,\"retry_after\":null,\"reset_after\":null}" },
        { "nor when it lets pass", decision(WEIR_UNMETERED, TENANT, 0, 0, 0), NOW,
          "20,\"remaining\":null,\"retry_after\":null,\"reset_after\":null}" },
        { "a key that is not there has nothing left", missing, NOW,
          "20,\"remaining\":null,\"retry_after\":null,\"reset_after\":null}" },
        { "a duplicate was allowed", decision(WEIR_DUPLICATE, TENANT, 3, 0, 4 * S), NOW + S,
          "20,\"remaining\":3,\"retry_after\":0,\"reset_after\":3}" },
        { "undecided, but worth a retry", decision(WEIR_REFUSED, TENANT, 0, S, never), NOW,
          "20,\"remaining\":null,\"retry_after\":1,\"reset_after\":null}" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = answer_of(rows[i].decision);
        reset();
        answer_json(&out, &answer, NULL, rows[i].now);
        storage[out.len] = '\0';
        if (strstr(storage, rows[i].expected) == NULL)
            fail_msg("%s: %s lacks %s", rows[i].why, storage, rows[i].expected);
    }
}

static void batches_are_results_with_a_status(void **state)
{
    struct weir_answer first = answer_of(decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0));
    struct weir_answer second = answer_of(decision(WEIR_REFUSED, WEIR_NO_LIMIT, 0, WEIR_NO_TIME, WEIR_NO_TIME));
    (void)state;
    second.decision.policy = WEIR_POLICY_CLOSED;
    second.decision.reason = WEIR_REASON_FULL;
    reset();
    answer_batch_open(&out);
    answer_batch_item(&out, &first, NOW, true);
    answer_batch_item(&out, &second, NOW, false);
    answer_batch_close(&out);
    expect_out(
        "{\"results\":[{\"status\":200,\"decision\":\"allow\",\"limit\":null,\"policy\":null,\"reason\":null,"
        "\"capacity\":null,\"remaining\":null,\"retry_after\":0,\"reset_after\":null,\"limits\":[]},"
        "{\"status\":503,\"decision\":\"refused\",\"limit\":null,\"policy\":\"closed\",\"reason\":\"full\","
        "\"capacity\":null,\"remaining\":null,\"retry_after\":null,\"reset_after\":null,\"limits\":[]}]}\n",
        "two items");
}

static void problems_are_documents(void **state)
{
    struct weir_answer answer = answer_of(decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S));
    (void)state;
    answer.count = 2;
    answer.each[1] = decision(WEIR_ALLOW, WINDOW, 60, 0, 0);
    reset();
    answer_problem_json(&out, &answer, NULL, NOW, 429);
    expect_out(
        "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":\"Too many "
        "requests\",\"status\":429,\"violated-policies\":[\"tenant-requests\"],\"decision\":\"deny\",\"limit\":"
        "\"tenant-requests\",\"policy\":null,\"reason\":null,\"capacity\":20,\"remaining\":0,\"retry_after\":0."
        "2,"
        "\"reset_after\":4,\"limits\":[{\"limit\":\"tenant-requests\",\"decision\":\"deny\",\"capacity\":20,"
        "\"remaining\":0,\"retry_after\":0.2,\"reset_after\":4},{\"limit\":\"per-minute\",\"decision\":"
        "\"allow\","
        "\"capacity\":60,\"remaining\":60,\"retry_after\":0,\"reset_after\":0}]}\n",
        "the example of interface.md, with a limit that was not violated");

    static const struct {
        const char *why;
        enum weir_outcome outcome;
        enum weir_reason reason;
        unsigned status;
        const char *type, *detail;
    } rows[] = {
        { "no wait helps", WEIR_NEVER, WEIR_REASON_NONE, 429, "urn:weir:problem:cost-above-capacity",
          "capacity" },
        { "never, for want of a key", WEIR_NEVER, WEIR_REASON_MISSING_KEY, 429,
          "urn:weir:problem:cost-above-capacity", "lacks an attribute" },
        { "never, for a value", WEIR_NEVER, WEIR_REASON_ATTRIBUTE, 403, "urn:weir:problem:cost-above-capacity",
          "attribute's value" },
        { "no room", WEIR_REFUSED, WEIR_REASON_FULL, 503,
          "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", "no room" },
        { "no time", WEIR_REFUSED, WEIR_REASON_TIME, 503,
          "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", "time" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        answer = answer_of(decision(rows[i].outcome, TENANT, 0, WEIR_NO_TIME, WEIR_NO_TIME));
        answer.decision.reason = rows[i].reason;
        reset();
        answer_problem_json(&out, &answer, NULL, NOW, rows[i].status);
        json_t *problem = json_loadb(out.at, out.len, JSON_REJECT_DUPLICATES, NULL);
        expect_row(problem != NULL, rows[i].why);
        expect_row(strcmp(json_string_value(json_object_get(problem, "type")), rows[i].type) == 0, rows[i].why);
        expect_row(json_integer_value(json_object_get(problem, "status")) == rows[i].status, rows[i].why);
        expect_row(strstr(json_string_value(json_object_get(problem, "detail")), rows[i].detail) != NULL,
                   rows[i].why);
        expect_row(json_array_size(json_object_get(problem, "violated-policies")) == 1, rows[i].why);
        json_decref(problem);
    }
}

static void faults_name_their_field(void **state)
{
    (void)state;
    reset();
    answer_error_json(&out, 400, "requests[3].cost is -1: \"no\"", SLICE("requests[3].cost"));
    expect_out("{\"type\":\"about:blank\",\"title\":\"Bad "
               "Request\",\"status\":400,\"detail\":\"requests[3].cost is -1: "
               "\\\"no\\\"\",\"field\":\"requests[3].cost\"}\n",
               "with a field");
    reset();
    answer_error_json(&out, 413, "too long", SLICE(""));
    expect_out(
        "{\"type\":\"about:blank\",\"title\":\"Content Too Large\",\"status\":413,\"detail\":\"too long\"}\n",
        "without one");
}

/* ---- Reply fields ---------------------------------------------------------------------------------------- */

static void fields_follow_the_contract(void **state)
{
    const weir_ns never = WEIR_NO_TIME;
    const struct {
        const char *why;
        enum weir_headers headers;
        struct weir_decision decision;
        enum weir_policy policy;
        const char *expected;
    } rows[] = {
        { "allowed: reset rounds up", WEIR_HEADERS_TRIO, decision(WEIR_ALLOW, TENANT, 19, 0, 200 * MS), 0,
          "RateLimit-Limit: 20\r\nRateLimit-Remaining: 19\r\nRateLimit-Reset: 1\r\n" },
        { "denied: reset is Retry-After, at least 1", WEIR_HEADERS_TRIO,
          decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S), 0,
          "Cache-Control: no-store\r\nRetry-After: 1\r\nRateLimit-Limit: 20\r\nRateLimit-Remaining: "
          "0\r\nRateLimit-Reset: 1\r\n" },
        { "whole seconds stay", WEIR_HEADERS_TRIO, decision(WEIR_DENY, TENANT, 3, 2 * S, 4 * S), 0,
          "Cache-Control: no-store\r\nRetry-After: 2\r\nRateLimit-Limit: 20\r\nRateLimit-Remaining: "
          "3\r\nRateLimit-Reset: 2\r\n" },
        { "a nanosecond more is a second more", WEIR_HEADERS_TRIO,
          decision(WEIR_DENY, TENANT, 3, 2 * S + 1, 4 * S), 0,
          "Cache-Control: no-store\r\nRetry-After: 3\r\nRateLimit-Limit: 20\r\nRateLimit-Remaining: "
          "3\r\nRateLimit-Reset: 3\r\n" },
        { "never has no Retry-After", WEIR_HEADERS_TRIO, decision(WEIR_NEVER, TENANT, 20, never, 0), 0,
          "Cache-Control: no-store\r\nRateLimit-Limit: 20\r\nRateLimit-Remaining: 20\r\nRateLimit-Reset: "
          "0\r\n" },
        { "nothing refills: no reset", WEIR_HEADERS_TRIO, decision(WEIR_DENY, BLOCKED, 0, never, never), 0,
          "Cache-Control: no-store\r\nRateLimit-Limit: 0\r\nRateLimit-Remaining: 0\r\n" },
        { "no limit, no fields", WEIR_HEADERS_TRIO, decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0), 0, "" },
        { "undecided: come back soon, nothing else is known", WEIR_HEADERS_TRIO,
          decision(WEIR_REFUSED, TENANT, 0, never, never), WEIR_POLICY_CLOSED,
          "Cache-Control: no-store\r\nRetry-After: 1\r\n" },
        { "let through undecided", WEIR_HEADERS_TRIO, decision(WEIR_UNMETERED, TENANT, 0, 0, 0),
          WEIR_POLICY_OPEN, "Weir-Degraded: open\r\n" },
        { "a shared cell is decided, not degraded", WEIR_HEADERS_TRIO, decision(WEIR_ALLOW, TENANT, 19, 0, S),
          WEIR_POLICY_OVERFLOW, "RateLimit-Limit: 20\r\nRateLimit-Remaining: 19\r\nRateLimit-Reset: 1\r\n" },
        { "a local answer says so", WEIR_HEADERS_NONE, decision(WEIR_ALLOW, TENANT, 19, 0, S),
          WEIR_POLICY_LOCAL, "Weir-Degraded: local\r\n" },
        { "a lease says so", WEIR_HEADERS_NONE, decision(WEIR_ALLOW, TENANT, 19, 0, S), WEIR_POLICY_LEASED,
          "Weir-Degraded: leased\r\n" },
        { "the older names, in seconds from now", WEIR_HEADERS_X_RATELIMIT,
          decision(WEIR_ALLOW, TENANT, 19, 0, 200 * MS), 0,
          "X-RateLimit-Limit: 20\r\nX-RateLimit-Remaining: 19\r\nX-RateLimit-Reset: 1\r\n" },
        { "none still says when to retry", WEIR_HEADERS_NONE, decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S),
          0, "Cache-Control: no-store\r\nRetry-After: 1\r\n" },
        { "a century is clamped", WEIR_HEADERS_TRIO, decision(WEIR_ALLOW, TENANT, 19, 0, 3000000000 * S), 0,
          "RateLimit-Limit: 20\r\nRateLimit-Remaining: 19\r\nRateLimit-Reset: 2147483647\r\n" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const enum weir_headers headers = rows[i].headers;
        struct weir_answer answer = answer_of(rows[i].decision);
        answer.decision.policy = rows[i].policy;
        reset();
        answer_fields(&out, headers, &answer, NOW);
        expect_out(rows[i].expected, rows[i].why);
    }
}

static void the_draft_names_every_limit(void **state)
{
    const enum weir_headers headers = WEIR_HEADERS_DRAFT;
    const weir_ns never = WEIR_NO_TIME;
    const struct {
        const char *why;
        struct weir_decision first, second;
        const char *expected; /* behind the policies, which are the same */
    } rows[] = {
        { "t is the next token, a fifth of a second away at most",
          decision(WEIR_ALLOW, TENANT, 19, 0, 200 * MS), decision(WEIR_ALLOW, WINDOW, 59, 0, 42 * S),
          "RateLimit: \"tenant-requests\";r=19;t=1, \"per-minute\";r=59;t=42\r\n" },
        { "an empty bucket gets its next token as soon", decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S),
          decision(WEIR_ALLOW, WINDOW, 60, 0, 0),
          "RateLimit: \"tenant-requests\";r=0;t=1, \"per-minute\";r=60\r\n" },
        { "a violated window: t is its end", decision(WEIR_ALLOW, TENANT, 20, 0, 0),
          decision(WEIR_DENY, WINDOW, 0, 500 * MS, 500 * MS),
          "RateLimit: \"tenant-requests\";r=20, \"per-minute\";r=0;t=1\r\n" },
        { "an undecided limit has a policy but no state", decision(WEIR_REFUSED, TENANT, 0, never, never),
          decision(WEIR_ALLOW, WINDOW, 60, 0, 0), "RateLimit: \"per-minute\";r=60\r\n" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char expected[512];
        struct weir_answer answer = answer_of(rows[i].first);
        answer.count = 2;
        answer.each[1] = rows[i].second;
        answer.decision.outcome = WEIR_ALLOW; /* so that no Retry-After is in the way */
        sprintf(expected, "RateLimit-Policy: \"tenant-requests\";q=20;w=4, \"per-minute\";q=60;w=60\r\n%s",
                rows[i].expected);
        reset();
        answer_fields(&out, headers, &answer, NOW);
        expect_out(expected, rows[i].why);
    }

    struct weir_answer answer = answer_of(decision(WEIR_NEVER, BLOCKED, 0, never, never));
    reset();
    answer_fields(&out, headers, &answer, NOW);
    expect_out("Cache-Control: no-store\r\nRateLimit-Policy: \"blocked\";q=0\r\nRateLimit: \"blocked\";r=0\r\n",
               "a limit that never refills has neither window nor reset");
    answer = answer_of(decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0));
    reset();
    answer_fields(&out, headers, &answer, NOW);
    expect_out("", "no limit, no fields");
}

/* The draft's t for a bucket of 5 that gets one token a second, against counting by hand. */
static void the_next_token_is_counted_exactly(void **state)
{
    const enum weir_headers headers = WEIR_HEADERS_DRAFT;
    (void)state;
    for (uint64_t missing_ns = 1; missing_ns <= 5 * S; missing_ns += 125 * MS - (missing_ns == 1)) {
        /* full in missing_ns: whole tokens now, and the next one when the level reaches them plus one */
        uint64_t whole = (5 * S - missing_ns) / S, next = missing_ns - (5 - whole - 1) * S;
        struct weir_answer answer = answer_of(decision(WEIR_ALLOW, SECONDLY, whole, 0, missing_ns));
        char expected[128];
        sprintf(expected, "RateLimit-Policy: \"slow\";q=5;w=5\r\nRateLimit: \"slow\";r=%u;t=%u\r\n",
                (unsigned)whole, (unsigned)((next + S - 1) / S));
        reset();
        answer_fields(&out, headers, &answer, NOW);
        expect_out(expected, "a token a second");
    }
}

/* ---- Whole responses ------------------------------------------------------------------------------------- */

static const enum weir_headers trio = WEIR_HEADERS_TRIO;
static const struct answer_manner keep = { .minor = 1, .keeps_alive = true };

static void statuses_follow_the_door(void **state)
{
    static const struct {
        enum weir_outcome outcome;
        unsigned check, nginx;
    } rows[] = {
        { WEIR_ALLOW, 200, 200 },   { WEIR_WAIT, 200, 200 },      { WEIR_DENY, 429, 403 },
        { WEIR_NEVER, 429, 403 },   { WEIR_DUPLICATE, 200, 200 }, { WEIR_UNMETERED, 200, 200 },
        { WEIR_REFUSED, 503, 503 },
    };
    _Static_assert(COUNT_OF(rows) == WEIR_OUTCOME_COUNT, "an outcome lacks its row");
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = answer_of(decision(rows[i].outcome, TENANT, 0, 0, 0));
        assert_int_equal(answer_status(&answer, ANSWER_CHECK), rows[i].check);
        assert_int_equal(answer_status(&answer, ANSWER_AUTH), rows[i].check);
        assert_int_equal(answer_status(&answer, ANSWER_AUTH_ACCEL), rows[i].check);
        assert_int_equal(answer_status(&answer, ANSWER_AUTH_NGINX), rows[i].nginx);
    }
}

/* `reply` of the limit that binds; what could not be decided is no refusal of its. */
static void refusals_look_as_the_binding_limit_says(void **state)
{
    static const struct {
        const char *why;
        enum weir_outcome outcome;
        weir_limit_id limit;
        unsigned check, nginx;
    } rows[] = {
        { "what passes", WEIR_ALLOW, PAID, 200, 200 },
        { "a refusal", WEIR_DENY, PAID, 402, 403 },
        { "no wait helps: a refusal too", WEIR_NEVER, PAID, 402, 403 },
        { "undecided", WEIR_REFUSED, PAID, 503, 503 },
        { "by another limit", WEIR_DENY, TENANT, 429, 403 },
        { "by none", WEIR_NEVER, WEIR_NO_LIMIT, 429, 403 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_answer answer = answer_of(decision(rows[i].outcome, rows[i].limit, 0, 0, 0));
        expect_row(answer_status(&answer, ANSWER_CHECK) == rows[i].check, rows[i].why);
        expect_row(answer_status(&answer, ANSWER_AUTH_ACCEL) == rows[i].check, rows[i].why);
        expect_row(answer_status(&answer, ANSWER_AUTH_NGINX) == rows[i].nginx, rows[i].why);
    }
    struct weir_answer answer = answer_of(decision(WEIR_DENY, PAID, 0, S, S));
    reset();
    answer_problem_json(&out, &answer, NULL, NOW, 402);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, "\"title\":\"Your \\\"free\\\" plan is used up\",\"status\":402,"
                                    "\"detail\":\"buy more at https://example.test/\","));
    answer = answer_of(decision(WEIR_REFUSED, PAID, 0, S, S));
    reset();
    answer_problem_json(&out, &answer, NULL, NOW, 503);
    storage[out.len] = '\0';
    assert_null(strstr(storage, "buy more"));
}

static void an_auth_door_that_allows_sends_no_body(void **state)
{
    const struct answer_manner dated = { .date = SLICE("Sun, 06 Nov 1994 08:49:37 GMT"), .keeps_alive = true };
    struct weir_answer answer = answer_of(decision(WEIR_ALLOW, TENANT, 19, 0, 200 * MS));
    (void)state;
    reset();
    answer_decision(&out, trio, &keep, ANSWER_AUTH, false, &answer, NULL, NOW);
    expect_out("HTTP/1.1 200 OK\r\nRateLimit-Limit: 20\r\nRateLimit-Remaining: 19\r\nRateLimit-Reset: "
               "1\r\nContent-Length: 0\r\n\r\n",
               "/v1/auth");
    reset();
    answer_decision(&out, trio, &dated, ANSWER_AUTH_ACCEL, false, &answer, NULL, NOW);
    expect_out(
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nRateLimit-Limit: 20\r\nRateLimit-Remaining: "
        "19\r\nRateLimit-Reset: 1\r\nX-Accel-Redirect: @app\r\nContent-Length: 0\r\nConnection: "
        "keep-alive\r\n\r\n",
        "/v1/auth-accel, HTTP/1.0 that stays");
}

/* Head and body of what was written; the body as parsed JSON. */
static json_t *body_of(const char *head_start, const char *why)
{
    storage[out.len] = '\0';
    char *empty = strstr(storage, "\r\n\r\n");
    expect_row(!out.is_cut && empty != NULL, why);
    expect_row(strncmp(storage, head_start, strlen(head_start)) == 0, why);
    size_t announced = strtoul(strstr(storage, "Content-Length: ") + 16, NULL, 10);
    size_t len = out.len - (size_t)(empty + 4 - storage);
    expect_row(announced == len, why);
    json_t *json = json_loadb(empty + 4, len, JSON_REJECT_DUPLICATES, NULL);
    expect_row(json != NULL, why);
    expect_row(storage[out.len - 1] == '\n', why);
    return json;
}

static void refusals_carry_a_problem_document(void **state)
{
    static const struct {
        const char *why;
        enum answer_door door;
        bool is_always_200;
        const char *head;
        int status; /* in the body; 0: not there */
    } rows[] = {
        { "check", ANSWER_CHECK, false,
          "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\nCache-Control: "
          "no-store\r\nRetry-After: 1\r\nRateLimit-Limit: 20\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: "
          "1\r\n"
          "Content-Length: ",
          429 },
        { "check with status=200: the plain decision", ANSWER_CHECK, true,
          "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", 0 },
        { "auth", ANSWER_AUTH, false,
          "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n", 429 },
        { "nginx knows a refusal as 403 only, with the same fields", ANSWER_AUTH_NGINX, false,
          "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nCache-Control: "
          "no-store\r\nRetry-After: 1\r\n",
          403 },
        { "accel", ANSWER_AUTH_ACCEL, false, "HTTP/1.1 429 Too Many Requests\r\n", 429 },
    };
    struct weir_answer answer = answer_of(decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S));
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        reset();
        answer_decision(&out, trio, &keep, rows[i].door, rows[i].is_always_200, &answer, NULL, NOW);
        json_t *json = body_of(rows[i].head, rows[i].why);
        expect_row(json_integer_value(json_object_get(json, "status")) == rows[i].status, rows[i].why);
        expect_row(strcmp(json_string_value(json_object_get(json, "decision")), "deny") == 0, rows[i].why);
        expect_row(strstr(storage, "X-Accel-Redirect") == NULL, rows[i].why);
        json_decref(json);
    }
}

static void head_requests_get_the_fields_only(void **state)
{
    const struct answer_manner manner = { .minor = 1, .is_head = true };
    struct weir_answer answer = answer_of(decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S));
    (void)state;
    reset();
    answer_decision(&out, trio, &manner, ANSWER_AUTH, false, &answer, NULL, NOW);
    storage[out.len] = '\0';
    assert_string_equal(storage + out.len - 4, "\r\n\r\n");
    assert_non_null(strstr(storage, "Connection: close\r\n\r\n"));
    assert_null(strstr(storage, "Content-Length: 0\r\n"));
    reset();
    answer_error(&out, &manner, 404, "nothing here", SLICE(""), SLICE(""));
    assert_memory_equal(storage + out.len - 4, "\r\n\r\n", 4);
}

static void other_responses_are_enveloped(void **state)
{
    const struct answer_manner old = { .minor = 0 };
    (void)state;
    reset();
    answer_body(&out, &keep, 200, SLICE("text/plain"), SLICE(""), SLICE("ok\n"));
    expect_out("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n", "a body");
    reset();
    answer_body(&out, &old, 204, SLICE(""), SLICE("X: y\r\n"), SLICE(""));
    expect_out("HTTP/1.1 204 No Content\r\nX: y\r\nConnection: close\r\n\r\n", "no content has no length");
    reset();
    answer_error(&out, &keep, 405, "use POST", SLICE(""), SLICE("Allow: POST\r\n"));
    expect_out("HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/problem+json\r\nAllow: POST\r\n"
               "Content-Length: 85\r\n\r\n{\"type\":\"about:blank\",\"title\":\"Method Not "
               "Allowed\",\"status\":405,\"detail\":"
               "\"use POST\"}\n",
               "a wrong method");
    assert_string_equal(answer_reason(431), "Request Header Fields Too Large");
    assert_string_equal(answer_reason(299), "Unknown");
}

/* jansson reads int64. */
static void a_preference_that_was_heard_is_told(void **state)
{
    const struct answer_beside heard = { .has_waited = true, .preferred = 5 }, none = { .has_waited = true };
    struct weir_answer answer = answer_of(decision(WEIR_ALLOW, WEIR_NO_LIMIT, 0, 0, 0));
    (void)state;
    reset();
    answer_decision(&out, trio, &keep, ANSWER_AUTH, false, &answer, &heard, NOW);
    storage[out.len] = '\0';
    assert_non_null(strstr(storage, "\r\nPreference-Applied: wait=5\r\n"));
    reset();
    answer_decision(&out, trio, &keep, ANSWER_AUTH, false, &answer, &none, NOW);
    storage[out.len] = '\0';
    assert_null(strstr(storage, "Preference-Applied"));
}

static uint64_t any_count(struct random *random)
{
    return random_below(random, 8) == 0 ? WEIR_UNLIMITED : random_u64(random) >> (1 + random_below(random, 63));
}

/*
 * Any decision, also one that no limiter makes, gives valid JSON of its announced length in the promised room.
 */
static void any_decision_fits_the_promised_room(void **state)
{
    static struct weir_reservation ticket;
    static const char joint[TOKEN_MAX];
    struct answer_beside beside = { .ticket = &ticket,
                                    .expires_after = 86400 * S,
                                    .has_waited = true,
                                    .waited = 86399 * S,
                                    .preferred = 86400 };
    struct random random = { random_seed(20260108) };
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct weir_answer answer;
        const enum weir_headers headers = (enum weir_headers)random_below(&random, 4);
        enum answer_door door = (enum answer_door)random_below(&random, 4);
        answer.limits = limits;
        answer.watched = random_u64(&random) & random_u64(&random);
        answer.count = round % 10 == 0 ? WEIR_ASKS_MAX : (size_t)random_below(&random, 4);
        for (size_t i = 0; i <= answer.count; i++) {
            struct weir_decision *each = i == answer.count ? &answer.decision : &answer.each[i];
            weir_ns at[3];
            for (size_t j = 0; j < 3; j++)
                at[j] = random_below(&random, 8) == 0 ? WEIR_NO_TIME
                                                      : random_u64(&random) >> random_below(&random, 64);
            *each = (struct weir_decision){
                .outcome = (enum weir_outcome)random_below(&random, WEIR_OUTCOME_COUNT),
                .policy = (enum weir_policy)random_below(&random, WEIR_POLICY_COUNT),
                .reason = (enum weir_reason)random_below(&random, WEIR_REASON_COUNT),
                .limit = (weir_limit_id)random_below(&random, LIMIT_COUNT + (i == answer.count))
                         - (i == answer.count),
                .capacity = any_count(&random),
                .remaining = any_count(&random),
                .decided_at = at[0],
                .retry_at = at[1],
                .reset_at = at[2],
            };
        }
        reset();
        ticket.len =
            random_below(&random, 4) == 0 ? (size_t)random_below(&random, WEIR_RESERVATION_MAX + 1) : 0;
        beside.joint = random_below(&random, 16) == 0 ? (struct slice){ joint, sizeof joint } : SLICE("");
        answer_decision(&out, headers, &keep, door, random_below(&random, 4) == 0, &answer,
                        random_below(&random, 2) == 0 ? NULL : &beside,
                        random_u64(&random) >> random_below(&random, 64));
        if (memcmp(storage + out.len - 4, "\r\n\r\n", 4) != 0)
            json_decref(body_of("HTTP/1.1 ", "random"));
        assert_false(out.is_cut);
    }
}

/* A response that does not fit is flagged, never sent in part unknown to its sender. */
static void a_response_without_room_is_flagged(void **state)
{
    struct weir_answer answer = answer_of(decision(WEIR_DENY, TENANT, 0, 200 * MS, 4 * S));
    (void)state;
    reset();
    answer_decision(&out, trio, &keep, ANSWER_CHECK, false, &answer, NULL, NOW);
    size_t whole = out.len;
    for (size_t cap = 0; cap <= whole; cap++) {
        out = text_of(storage, cap);
        answer_decision(&out, trio, &keep, ANSWER_CHECK, false, &answer, NULL, NOW);
        assert_int_equal(out.is_cut, cap < whole);
        assert_true(out.len <= cap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_the_documented_object),
        cmocka_unit_test(numbers_are_null_where_nothing_is_known),
        cmocka_unit_test(watched_limits_are_told_apart),
        cmocka_unit_test(what_has_no_bound_is_null),
        cmocka_unit_test(a_reservation_stands_beside_the_decision),
        cmocka_unit_test(a_part_in_the_store_is_in_the_same_text),
        cmocka_unit_test(a_store_that_is_away_is_named_by_its_limit),
        cmocka_unit_test(what_answered_in_place_of_the_store_is_said),
        cmocka_unit_test(a_wait_and_a_permit_stand_beside_the_decision),
        cmocka_unit_test(a_preference_that_was_heard_is_told),
        cmocka_unit_test(settlements_say_what_they_did),
        cmocka_unit_test(batches_are_results_with_a_status),
        cmocka_unit_test(problems_are_documents),
        cmocka_unit_test(faults_name_their_field),
        cmocka_unit_test(fields_follow_the_contract),
        cmocka_unit_test(the_draft_names_every_limit),
        cmocka_unit_test(the_next_token_is_counted_exactly),
        cmocka_unit_test(statuses_follow_the_door),
        cmocka_unit_test(refusals_look_as_the_binding_limit_says),
        cmocka_unit_test(an_auth_door_that_allows_sends_no_body),
        cmocka_unit_test(refusals_carry_a_problem_document),
        cmocka_unit_test(head_requests_get_the_fields_only),
        cmocka_unit_test(other_responses_are_enveloped),
        cmocka_unit_test(any_decision_fits_the_promised_room),
        cmocka_unit_test(a_response_without_room_is_flagged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
