// SPDX-License-Identifier: Apache-2.0
/*
 * test_answer_forms.c - an answer says the same in every form: member by member, in the same order, with the same texts.
 *
 * The JSON is read by its reader and the reply by the client's, side by side: names equal, words equal; a length of time is
 * text, a count an integer, and null is null. That goes over every outcome, policy and reason, with what may stand beside.
 */
#include "support/unit.h"

#include "support/random.h"
#include "wire/answer.h"
#include "wire/json.h"
#include "wire/resp.h"

#define NOW (1000 * WEIR_SECOND)
#define OUTCOMES (WEIR_REFUSED + 1)

static const struct weir_contract_limit limits[] = {
    { .name = "tenant-requests", .algorithm = WEIR_TOKEN_BUCKET, .capacity = 20 },
    { .name = "a-name-that-is-as-long-as-a-name-of-a-limit-may-be-which-is-64-bb",
      .algorithm = WEIR_FIXED_WINDOW },
};

static char json_room[ANSWER_MAX], resp_room[ANSWER_MAX];

/* ---- Side by side ---------------------------------------------------------------------------------------- */

static bool is_time(struct slice name)
{
    return slice_equals(name, SLICE("retry_after")) || slice_equals(name, SLICE("reset_after"))
           || slice_equals(name, SLICE("expires_after")) || slice_equals(name, SLICE("waited"));
}

static bool is_same_number(const struct resp_value *value, struct slice number, bool is_length,
                           enum resp_version version)
{
    uint64_t magnitude;
    bool is_negative;
    if (!slice_equals(value->text, number))
        return false;
    if (is_length)
        return value->type == RESP_BULK;
    assert_true(json_to_integer(number, &magnitude, &is_negative));
    if (magnitude <= INT64_MAX)
        return value->type == RESP_INTEGER;
    return value->type == (version == RESP3 ? RESP_BIG_NUMBER : RESP_BULK);
}

/* Whether a token of JSON and a value of RESP say the same. */
static bool is_same(const struct json *json, enum json_token token, const struct resp_value *value,
                    bool is_length, enum resp_version version)
{
    switch (token) {
    case TOKEN_OBJECT:
        return value->type == (version == RESP3 ? RESP_MAP : RESP_ARRAY);
    case TOKEN_ARRAY:
        return value->type == RESP_ARRAY;
    case TOKEN_NAME:
    case TOKEN_STRING:
        return value->type == RESP_BULK && slice_equals(value->text, json->text);
    case TOKEN_NUMBER:
        return is_same_number(value, json->text, is_length, version);
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        return value->type == (version == RESP3 ? RESP_BOOLEAN : RESP_INTEGER)
               && value->integer == (token == TOKEN_TRUE);
    case TOKEN_NULL:
        return value->type == RESP_NULL;
    default:
        return false;
    }
}

/* Gives how many members the outermost object has. */
static unsigned expect_same(const struct text *json_text, const struct text *resp_text,
                            enum resp_version version)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    struct resp_reader reader = resp_reader_of(resp_text->at, resp_text->len);
    struct json json;
    char scratch[64];
    size_t len;
    uint32_t left[8];
    unsigned depth = 0, members = 0;
    bool is_length = false;
    assert_false(json_text->is_cut || resp_text->is_cut);
    assert_int_equal(resp_reply_parse(&parser, resp_text->at, resp_text->len, &len), RESP_DONE);
    assert_int_equal(len, resp_text->len);
    json_init(&json, json_text->at, json_text->len, scratch, sizeof scratch);
    for (enum json_token token; (token = json_next(&json)) != TOKEN_END;) {
        struct resp_value value;
        assert_int_not_equal(token, TOKEN_ERROR);
        if (token == TOKEN_OBJECT_END || token == TOKEN_ARRAY_END) {
            assert_int_equal(left[--depth], 0); /* as many as its head said */
            continue;
        }
        assert_true(resp_next(&reader, &value));
        if (!is_same(&json, token, &value, is_length, version))
            fail_msg("%.*s\nis not\n%.*s", (int)json_text->len, json_text->at, (int)resp_text->len,
                     resp_text->at);
        members += token == TOKEN_NAME && depth == 1;
        is_length = token == TOKEN_NAME && is_time(json.text);
        if (depth > 0)
            left[depth - 1]--;
        if (token == TOKEN_OBJECT || token == TOKEN_ARRAY)
            left[depth++] = value.count;
    }
    assert_true(reader.at == reader.end);
    return members;
}

/* Each form of one answer against the JSON. */
static void expect_forms(const struct weir_answer *answer, const struct answer_beside *beside, unsigned members)
{
    struct text json = text_of(json_room, sizeof json_room);
    answer_write(&json, ANSWER_JSON, answer, beside, NOW);
    for (int version = RESP2; version <= RESP3; version++) {
        struct text resp = text_of(resp_room, sizeof resp_room);
        answer_write(&resp, version == RESP3 ? ANSWER_RESP3 : ANSWER_RESP2, answer, beside, NOW);
        assert_int_equal(expect_same(&json, &resp, (enum resp_version)version), members);
    }
}

/* ---- Decisions ------------------------------------------------------------------------------------------- */

static struct weir_decision some_decision(struct random *random, enum weir_outcome outcome)
{
    static const uint64_t counts[] = {
        0, 1, 20, INT64_MAX, (uint64_t)INT64_MAX + 1, WEIR_UNLIMITED - 1, WEIR_UNLIMITED
    };
    static const weir_ns instants[] = { 0,       NOW,         NOW + 1, NOW + WEIR_SECOND, NOW + 1500000001,
                                        NOW - 1, WEIR_NO_TIME };
    return (struct weir_decision){
        .outcome = outcome,
        .policy = (enum weir_policy)random_below(random, WEIR_POLICY_COUNT),
        .reason = (enum weir_reason)random_below(random, WEIR_REASON_COUNT),
        .limit = random_below(random, 3) == 0 ? WEIR_NO_LIMIT
                                              : (weir_limit_id)random_below(random, COUNT_OF(limits)),
        .capacity = counts[random_below(random, COUNT_OF(counts))],
        .remaining = counts[random_below(random, COUNT_OF(counts))],
        .decided_at = NOW,
        .retry_at = instants[random_below(random, COUNT_OF(instants))],
        .reset_at = instants[random_below(random, COUNT_OF(instants))],
    };
}

static struct weir_answer some_answer(struct random *random, enum weir_outcome outcome, size_t count)
{
    struct weir_answer answer = { .decision = some_decision(random, outcome),
                                  .limits = limits,
                                  .count = count,
                                  .watched = random_u64(random) };
    for (size_t i = 0; i < count; i++)
        answer.each[i] = some_decision(random, (enum weir_outcome)random_below(random, OUTCOMES));
    return answer;
}

static void decisions_of_every_outcome(void **state)
{
    struct random random = { random_seed(0x5eed) };
    (void)state;
    for (int outcome = 0; outcome < OUTCOMES; outcome++)
        for (unsigned i = 0; i < 2000; i++) {
            struct weir_answer answer = some_answer(&random, (enum weir_outcome)outcome, i % 4);
            expect_forms(&answer, NULL, 9);
        }
}

static void the_largest_answer_fits(void **state)
{
    static struct weir_answer answer;
    struct random random = { 1 };
    (void)state;
    answer = some_answer(&random, WEIR_DENY, WEIR_ASKS_MAX);
    answer.watched = UINT64_MAX;
    for (size_t i = 0; i < WEIR_ASKS_MAX; i++)
        answer.each[i] = (struct weir_decision){ .outcome = WEIR_UNMETERED,
                                                 .limit = 1,
                                                 .capacity = WEIR_UNLIMITED - 1,
                                                 .remaining = WEIR_UNLIMITED - 1,
                                                 .retry_at = WEIR_NO_TIME - 1,
                                                 .reset_at = WEIR_NO_TIME - 1 };
    expect_forms(&answer, NULL, 9);
}

static void what_stands_beside(void **state)
{
    static const struct weir_reservation nothing_reserved,
        reserved = { .len = 5, .bytes = { 1, 2, 3, 4, 255 } };
    static const struct weir_permit nothing_held,
        held = { .len = 3, .bytes = { 9, 8, 7 }, .fence = UINT64_MAX - 1 };
    static const struct {
        struct answer_beside beside;
        unsigned members;
        const char *why;
    } rows[] = {
        { { .has_waited = true, .waited = 1500000000 }, 10, "it waited" },
        { { .ticket = &nothing_reserved, .expires_after = 7 }, 11, "nothing was reserved: null" },
        { { .ticket = &reserved, .expires_after = 600 * WEIR_SECOND }, 11, "a reservation" },
        { { .ticket = &nothing_reserved, .joint = { "joint", 5 }, .expires_after = 1 },
          11,
          "one in the store alone" },
        { { .permit = &nothing_held }, 12, "no permit: null" },
        { { .permit = &held, .expires_after = 1, .has_waited = true }, 13, "a permit that was waited for" },
        { { .permit = &nothing_held, .joint = { "in the store", 12 } }, 12, "one in the store alone" },
    };
    struct random random = { 7 };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int outcome = 0; outcome < OUTCOMES; outcome++) {
            struct weir_answer answer = some_answer(&random, (enum weir_outcome)outcome, 1);
            expect_forms(&answer, &rows[i].beside, rows[i].members);
        }
}

/* ---- The other answers ----------------------------------------------------------------------------------- */

static void settlements_renewals_releases(void **state)
{
    static const struct weir_settlement settlements[] = {
        { .charged = 22, .dropped = 3, .returned = INT64_MAX, .remaining = 0, .limit = 0 },
        { .remaining = WEIR_UNLIMITED, .limit = 1, .is_repeated = true },
        { .limit = WEIR_NO_LIMIT },
    };
    (void)state;
    for (int version = RESP2; version <= RESP3; version++) {
        enum answer_form form = version == RESP3 ? ANSWER_RESP3 : ANSWER_RESP2;
        for (size_t i = 0; i < 4 * COUNT_OF(settlements); i++) {
            struct text json = text_of(json_room, sizeof json_room),
                        resp = text_of(resp_room, sizeof resp_room);
            const char *name = i % 2 == 0 ? NULL : limits[1].name;
            answer_settlement(&json, ANSWER_JSON, &settlements[i / 4], name, i / 2 % 2 != 0);
            answer_settlement(&resp, form, &settlements[i / 4], name, i / 2 % 2 != 0);
            assert_int_equal(expect_same(&json, &resp, (enum resp_version)version), i / 2 % 2 != 0 ? 6 : 4);
        }
        for (size_t i = 0; i < 2; i++) {
            struct text json = text_of(json_room, sizeof json_room),
                        resp = text_of(resp_room, sizeof resp_room);
            answer_renewed(&json, ANSWER_JSON, i * 1500000000);
            answer_renewed(&resp, form, i * 1500000000);
            assert_int_equal(expect_same(&json, &resp, (enum resp_version)version), 1);
            json = text_of(json_room, sizeof json_room), resp = text_of(resp_room, sizeof resp_room);
            answer_released(&json, ANSWER_JSON, i != 0);
            answer_released(&resp, form, i != 0);
            assert_int_equal(expect_same(&json, &resp, (enum resp_version)version), 2);
        }
    }
}

/* Written by hand, so that both forms cannot be wrong in the same way. */
static void a_reply_byte_by_byte(void **state)
{
    const struct weir_decision bound = { .outcome = WEIR_DENY,
                                         .limit = 0,
                                         .capacity = 20,
                                         .remaining = 3,
                                         .retry_at = NOW + WEIR_SECOND / 4,
                                         .reset_at = NOW + 4 * WEIR_SECOND };
    struct weir_answer answer = { .decision = bound, .limits = limits, .count = 1, .watched = 1 };
    struct text out = text_of(resp_room, sizeof resp_room);
    static const char expected[] =
        "%9\r\n$8\r\ndecision\r\n$4\r\ndeny\r\n$5\r\nlimit\r\n$15\r\ntenant-requests\r\n$6\r\npolicy\r\n_\r\n"
        "$6\r\nreason\r\n_\r\n$8\r\ncapacity\r\n:20\r\n$9\r\nremaining\r\n:3\r\n$11\r\nretry_after\r\n$4\r\n0."
        "25\r\n"
        "$11\r\nreset_after\r\n$1\r\n4\r\n$6\r\nlimits\r\n*1\r\n%7\r\n$5\r\nlimit\r\n$15\r\ntenant-requests\r\n"
        "$8\r\ndecision\r\n$4\r\ndeny\r\n$8\r\ncapacity\r\n:20\r\n$9\r\nremaining\r\n:3\r\n$11\r\nretry_"
        "after\r\n"
        "$4\r\n0.25\r\n$11\r\nreset_after\r\n$1\r\n4\r\n$8\r\nenforced\r\n#f\r\n";
    (void)state;
    answer.each[0] = bound;
    answer_write(&out, ANSWER_RESP3, &answer, NULL, NOW);
    assert_int_equal(out.len, sizeof expected - 1);
    assert_memory_equal(out.at, expected, out.len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_of_every_outcome), cmocka_unit_test(the_largest_answer_fits),
        cmocka_unit_test(what_stands_beside),         cmocka_unit_test(settlements_renewals_releases),
        cmocka_unit_test(a_reply_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
