// SPDX-License-Identifier: Apache-2.0
/*
 * remote.c - the JSON of POST /v1/check from a client's side.
 *
 * Members that this version does not know are skipped: a newer server may say more.
 */
#include "cli/remote.h"

#include <inttypes.h>
#include <stdio.h>

/* 32 attributes of 1024 bytes, each byte escaped as \u00XX, and their names. */
#define BODY_MAX ((size_t)WEIR_ATTRIBUTES_MAX * (6 * WEIR_ATTRIBUTE_MAX + 64) + 256)

/* ---- The question ---------------------------------------------------------------------------------------- */

void remote_write_attributes(struct text *out, const struct weir_attribute *attributes, size_t count)
{
    text_literal(out, "{");
    for (size_t i = 0; i < count; i++) {
        const struct weir_attribute *attribute = &attributes[i];
        size_t len = attribute->len > 0 || attribute->value == NULL ? attribute->len : strlen(attribute->value);
        if (i > 0)
            text_literal(out, ", ");
        text_json(out, slice_of(attribute->name));
        text_literal(out, ": ");
        text_json(out, (struct slice){ attribute->value, len });
    }
    text_literal(out, "}");
}

static void write_question(struct text *out, const struct weir_request *request)
{
    text_literal(out, "{\"attributes\": ");
    remote_write_attributes(out, request->attributes, request->attribute_count);
    text_literal(out, ", \"cost\": ");
    text_u64(out, request->cost);
    if (request->is_peek)
        text_literal(out, ", \"mode\": \"peek\"");
    if (request->wait > 0) {
        text_literal(out, ", \"wait\": ");
        text_seconds(out, request->wait);
    }
    text_literal(out, "}");
}

/* ---- The decision ---------------------------------------------------------------------------------------- */

/* Decimal seconds to ns: "0.2", "4", "1.000000001". */
static bool parse_seconds(struct slice number, weir_ns *out)
{
    const char *point = memchr(number.at, '.', number.len);
    size_t whole_len = point == NULL ? number.len : (size_t)(point - number.at);
    uint64_t seconds;
    if (!slice_to_u64((struct slice){ number.at, whole_len }, UINT64_MAX / WEIR_SECOND - 1, &seconds))
        return false;
    weir_ns ns = seconds * WEIR_SECOND;
    weir_ns place = WEIR_SECOND / 10;
    for (size_t i = whole_len + 1; i < number.len; i++, place /= 10) {
        if (number.at[i] < '0' || number.at[i] > '9' || place == 0)
            return false;
        ns += (weir_ns)(number.at[i] - '0') * place;
    }
    *out = ns;
    return true;
}

bool remote_read_time(struct json *json, weir_ns *out)
{
    enum json_token token = json_next(json);
    *out = WEIR_NO_TIME;
    return token == TOKEN_NULL || (token == TOKEN_NUMBER && parse_seconds(json->text, out));
}

static bool read_count(struct json *json, bool *is_known, uint64_t *out)
{
    bool is_negative;
    enum json_token token = json_next(json);
    *is_known = token == TOKEN_NUMBER;
    return token == TOKEN_NULL || (*is_known && json_to_integer(json->text, out, &is_negative) && !is_negative);
}

/* Find the member of an enum whose word this is; null is 0. */
static bool read_word(struct json *json, const char *(*word)(int), int count, int *out)
{
    enum json_token token = json_next(json);
    *out = 0;
    if (token == TOKEN_NULL)
        return true;
    for (int i = 0; token == TOKEN_STRING && i < count; i++)
        if (word(i) != NULL && slice_equals(json->text, slice_of(word(i)))) {
            *out = i;
            return true;
        }
    return false;
}

static const char *outcome_word(int i)
{
    return weir_outcome_name((enum weir_outcome)i);
}

static const char *policy_word(int i)
{
    return weir_policy_name((enum weir_policy)i);
}

static const char *reason_word(int i)
{
    return weir_reason_name((enum weir_reason)i);
}

bool remote_skip_value(struct json *json)
{
    unsigned depth = 0;
    do {
        enum json_token token = json_next(json);
        if (token == TOKEN_ERROR || token == TOKEN_END)
            return false;
        if (token == TOKEN_OBJECT || token == TOKEN_ARRAY)
            depth++;
        else if (token == TOKEN_OBJECT_END || token == TOKEN_ARRAY_END)
            depth--;
    } while (depth > 0);
    return true;
}

static bool read_name(struct json *json, struct verdict_limit *out)
{
    enum json_token token = json_next(json);
    if (token == TOKEN_NULL)
        return true;
    if (token != TOKEN_STRING || json->text.len >= sizeof out->name)
        return false;
    for (size_t i = 0; i < json->text.len; i++)
        if (json->text.at[i] <= ' '
            || json->text.at[i] > '~') /* no name of a limit; it could steer a terminal */
            return false;
    memcpy(out->name, json->text.at, json->text.len);
    out->name[json->text.len] = '\0';
    return true;
}

/* Read the value of the member `name` of one limit's object. */
static bool read_member(struct json *json, struct slice name, struct verdict_limit *out)
{
    int word;
    bool is_good;
    if (slice_equals(name, SLICE("decision"))) {
        is_good = read_word(json, outcome_word, WEIR_OUTCOME_COUNT, &word);
        out->outcome = (enum weir_outcome)word;
    } else if (slice_equals(name, SLICE("policy"))) {
        is_good = read_word(json, policy_word, WEIR_POLICY_COUNT, &word);
        out->policy = (enum weir_policy)word;
    } else if (slice_equals(name, SLICE("reason"))) {
        is_good = read_word(json, reason_word, WEIR_REASON_COUNT, &word);
        out->reason = (enum weir_reason)word;
    } else if (slice_equals(name, SLICE("limit"))) {
        is_good = read_name(json, out);
    } else if (slice_equals(name, SLICE("capacity"))) {
        is_good = read_count(json, &out->has_capacity, &out->capacity);
    } else if (slice_equals(name, SLICE("remaining"))) {
        is_good = read_count(json, &out->has_remaining, &out->remaining);
    } else if (slice_equals(name, SLICE("retry_after"))) {
        is_good = remote_read_time(json, &out->retry_after);
    } else if (slice_equals(name, SLICE("reset_after"))) {
        is_good = remote_read_time(json, &out->reset_after);
    } else if (slice_equals(name, SLICE("enforced"))) {
        enum json_token token = json_next(json);
        out->is_watched = token == TOKEN_FALSE;
        is_good = token == TOKEN_TRUE || token == TOKEN_FALSE;
    } else {
        is_good = remote_skip_value(json);
    }
    return is_good;
}

/* The members of one limit's object, behind its opening brace. */
static bool read_limit(struct json *json, struct verdict_limit *out)
{
    *out = (struct verdict_limit){ .retry_after = WEIR_NO_TIME, .reset_after = WEIR_NO_TIME };
    enum json_token token;
    while ((token = json_next(json)) == TOKEN_NAME)
        if (!read_member(json, json->text, out))
            return false;
    return token == TOKEN_OBJECT_END;
}

static bool read_limits(struct json *json, struct verdict *out)
{
    enum json_token token = json_next(json);
    if (token != TOKEN_ARRAY)
        return false;
    while ((token = json_next(json)) == TOKEN_OBJECT)
        if (out->count == WEIR_ASKS_MAX || !read_limit(json, &out->each[out->count++]))
            return false;
    return token == TOKEN_ARRAY_END;
}

bool remote_parse(struct slice body, struct verdict *out)
{
    struct json json;
    char scratch[4096]; /* only what is escaped; weir's own names are not */
    bool has_decision = false;
    json_init(&json, body.at, body.len, scratch, sizeof scratch);
    if (json_next(&json) != TOKEN_OBJECT)
        return false;

    *out = (struct verdict){ .decided_at = WEIR_NO_TIME,
                             .expires_after = WEIR_NO_TIME,
                             .bound = { .retry_after = WEIR_NO_TIME, .reset_after = WEIR_NO_TIME } };
    enum json_token token;
    while ((token = json_next(&json)) == TOKEN_NAME) {
        struct slice name = json.text;
        has_decision = has_decision || slice_equals(name, SLICE("decision"));
        bool is_good = slice_equals(name, SLICE("limits"))   ? read_limits(&json, out)
                       : slice_equals(name, SLICE("waited")) ? remote_read_time(&json, &out->waited)
                                                             : read_member(&json, name, &out->bound);
        if (!is_good)
            return false;
    }
    return token == TOKEN_OBJECT_END && json_next(&json) == TOKEN_END && has_decision;
}

/* ---- A refusal to decide --------------------------------------------------------------------------------- */

struct slice remote_tell_problem(struct client *client, const struct client_reply *reply)
{
    struct json json;
    char scratch[4096];
    struct slice field = SLICE("");
    struct slice detail = SLICE("");
    json_init(&json, reply->body.at, reply->body.len, scratch, sizeof scratch);
    if (json_next(&json) == TOKEN_OBJECT)
        while (json_next(&json) == TOKEN_NAME) {
            bool is_field = slice_equals(json.text, SLICE("field"));
            bool is_detail = slice_equals(json.text, SLICE("detail"));
            if (!is_field && !is_detail) {
                if (!remote_skip_value(&json))
                    break;
            } else if (json_next(&json) == TOKEN_STRING) {
                *(is_field ? &field : &detail) = json.text;
            } else {
                break;
            }
        }
    (void)snprintf(client->error, sizeof client->error, "%.100s: status %u%s%.*s%s%.*s", client->url,
                   reply->status, field.len > 0 ? ": " : "", (int)(field.len > 60 ? 60 : field.len), field.at,
                   detail.len > 0 ? ": " : "", (int)(detail.len > 120 ? 120 : detail.len), detail.at);
    return field;
}

/* ---- Asking ----------------------------------------------------------------------------------------------- */

/* Whether the reply is a decision: 200 for every one of them, as asked, or the usual statuses where that was not heard. */
static bool read_decision(const struct client_reply *reply, struct verdict *out)
{
    return (reply->status == 200 || reply->status == 429 || reply->status == 503)
           && remote_parse(reply->body, out);
}

static bool send_question(struct client *client, const char *fields, const struct weir_request *request,
                          struct client_reply *out)
{
    static char body[BODY_MAX]; /* one caller at a time, as the client */
    struct text text = text_of(body, sizeof body);
    write_question(&text, request);
    if (text.is_cut) {
        (void)snprintf(client->error, sizeof client->error, "an attribute is longer than %d bytes",
                       WEIR_ATTRIBUTE_MAX);
        out->status = 400; /* as the server would say */
        return false;
    }
    out->status = 0;
    return client_send(client, "POST", "/v1/check?status=200", fields, text_slice(&text))
           && client_receive(client, CLIENT_TIMEOUT_MS + (unsigned)(request->wait / WEIR_MILLISECOND), out);
}

enum remote_result remote_ask(struct client *client, const char *fields, const struct weir_request *request,
                              struct verdict *out, struct slice *json, struct remote_end *end)
{
    struct client_reply reply;
    *end = (struct remote_end){ WEIR_REPLY_FINAL, WEIR_NO_TIME };
    if (!send_question(client, fields, request, &reply)) {
        if (reply.status != 0)
            return REMOTE_FAULTY;
        end->reply = client->is_sent ? WEIR_REPLY_LOST : WEIR_REPLY_UNDECIDED;
        return REMOTE_UNREACHABLE;
    }
    end->retry_after = reply.retry_after;
    if (read_decision(&reply, out)) {
        end->reply = weir_reply_from_outcome(out->bound.outcome);
        if (out->bound.retry_after != WEIR_NO_TIME) /* the same without its rounding */
            end->retry_after = out->bound.retry_after;
        while (reply.body.len > 0 && reply.body.at[reply.body.len - 1] == '\n')
            reply.body.len--;
        *json = reply.body;
        return REMOTE_DECIDED;
    }
    if (reply.status == 200) {
        (void)snprintf(client->error, sizeof client->error, "%.200s: the answer is not a decision",
                       client->url);
        return REMOTE_UNREACHABLE;
    }
    (void)remote_tell_problem(client, &reply); /* the status says whose fault it is */
    enum weir_reply meant = weir_reply_from_status(reply.status);
    end->reply = meant == WEIR_REPLY_ALLOWED ? WEIR_REPLY_FINAL : meant; /* 204 is no decision either */
    return reply.status == 400 || reply.status == 401 || reply.status == 403 ? REMOTE_FAULTY
                                                                             : REMOTE_UNREACHABLE;
}
