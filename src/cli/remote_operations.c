// SPDX-License-Identifier: Apache-2.0
/*
 * remote_operations.c - the bodies of what a timeline does at a server: /v1/check, reserve, acquire, settle, cancel, renew,
 * release, refund, reset and reload, from a client's side.
 */
#include "cli/remote_operations.h"

#ifdef WEIR_TEST_HOOKS

#include <stdio.h>

#define BODY_MAX ((size_t)WEIR_ATTRIBUTES_MAX * (6 * WEIR_ATTRIBUTE_MAX + 64) + 2 * REMOTE_HANDLE_MAX)

static const char *const targets[STEP_KIND_COUNT] = {
    [STEP_REQUEST] = "/v1/check?status=200",
    [STEP_RESERVE] = "/v1/reserve?status=200",
    [STEP_ACQUIRE] = "/v1/acquire?status=200",
    [STEP_SETTLE] = "/v1/settle",
    [STEP_CANCEL] = "/v1/cancel",
    [STEP_RENEW] = "/v1/renew",
    [STEP_RELEASE] = "/v1/release",
    [STEP_REFUND] = "/v1/refund",
    [STEP_RESET] = "/v1/reset",
    [STEP_RELOAD] = "/v1/reload",
};

/* ---- The question ---------------------------------------------------------------------------------------- */

static void write_decided(struct text *out, const struct timeline_step *step)
{
    text_literal(out, "\"attributes\": ");
    remote_write_attributes(out, step->request.attributes, step->request.attribute_count);
    text_literal(out, ", \"cost\": ");
    text_u64(out, step->request.cost);
    if (step->request.is_peek)
        text_literal(out, ", \"mode\": \"peek\"");
    if (step->may_wait) {
        text_literal(out, ", \"wait\": ");
        text_seconds(out, step->request.wait);
    }
    if (step->kind == STEP_RESERVE) {
        text_literal(out, ", \"expires_after\": ");
        text_seconds(out, TIMELINE_HOLD_NS);
    }
}

static void write_operation(struct text *out, const struct timeline_step *step, const char *handle)
{
    bool has_cost = step->kind == STEP_SETTLE || step->kind == STEP_REFUND;
    if (step->kind == STEP_SETTLE || step->kind == STEP_CANCEL) {
        text_literal(out, "\"reservation\": ");
        text_json(out, slice_of(handle));
    } else if (step->kind == STEP_RENEW || step->kind == STEP_RELEASE) {
        text_literal(out, "\"permit\": ");
        text_json(out, slice_of(handle));
    } else if (step->kind == STEP_REFUND) {
        text_literal(out, "\"attributes\": ");
        remote_write_attributes(out, step->request.attributes, step->request.attribute_count);
    } else if (step->kind == STEP_RESET) {
        text_literal(out, "\"limit\": ");
        text_json(out, slice_of(step->limit));
        text_literal(out, ", \"key\": ");
        remote_write_attributes(out, step->request.attributes, step->request.attribute_count);
    }
    if (has_cost) {
        text_literal(out, ", \"cost\": ");
        text_u64(out, step->request.cost);
    }
}

/* Send a step's question. */
static bool send_step(struct client *client, const char *fields, const struct timeline_step *step,
                      const char *handle)
{
    static char body[BODY_MAX]; /* one caller at a time */
    struct text text = text_of(body, sizeof body);
    text_literal(&text, "{");
    if (step_decides(step->kind))
        write_decided(&text, step);
    else
        write_operation(&text, step, handle);
    text_literal(&text, "}");
    if (!text.is_cut)
        return client_send(client, "POST", targets[step->kind], fields, text_slice(&text));
    (void)snprintf(client->error, sizeof client->error, "an attribute is longer than %d bytes",
                   WEIR_ATTRIBUTE_MAX);
    return false;
}

/* ---- The answer ------------------------------------------------------------------------------------------ */

/* The words of the numbers that an answer may have. */
static const char *const numbers[EFFECT_NUMBERS] = {
    [EFFECT_CHARGED] = "charged",     [EFFECT_RETURNED] = "returned", [EFFECT_DROPPED] = "dropped",
    [EFFECT_KEPT] = "kept",           [EFFECT_RESIZED] = "resized",   [EFFECT_ADDED] = "added",
    [EFFECT_RESTARTED] = "restarted", [EFFECT_REMOVED] = "removed",
};

/* A member's number; null is none. */
static bool read_number(struct json *json, bool *is_known, uint64_t *out)
{
    bool is_negative = false;
    enum json_token token = json_next(json);
    *is_known = token == TOKEN_NUMBER;
    return token == TOKEN_NULL || (*is_known && json_to_integer(json->text, out, &is_negative) && !is_negative);
}

static bool read_member(struct json *json, struct slice name, struct verdict *out)
{
    bool is_known;
    for (int i = 0; i < EFFECT_NUMBERS; i++)
        if (slice_equals(name, slice_of(numbers[i]))) {
            if (!read_number(json, &is_known, &out->effect.number[i]))
                return false;
            out->effect.known |= is_known ? 1u << i : 0;
            return true;
        }
    if (slice_equals(name, SLICE("remaining")))
        return read_number(json, &out->bound.has_remaining, &out->bound.remaining);
    if (slice_equals(name, SLICE("expires_after")))
        return remote_read_time(json, &out->expires_after);
    if (slice_equals(name, SLICE("released"))) {
        enum json_token token = json_next(json);
        out->effect.is_released = token == TOKEN_TRUE;
        return token == TOKEN_TRUE || token == TOKEN_FALSE;
    }
    if (slice_equals(name, SLICE("repeated"))) {
        enum json_token token = json_next(json);
        out->effect.knows_repeated = true;
        out->effect.is_repeated = token == TOKEN_TRUE;
        return token == TOKEN_TRUE || token == TOKEN_FALSE;
    }
    if (slice_equals(name, SLICE("limit"))) {
        enum json_token token = json_next(json);
        if (token == TOKEN_STRING)
            (void)snprintf(out->bound.name, sizeof out->bound.name, "%.*s", (int)json->text.len, json->text.at);
        return token == TOKEN_STRING || token == TOKEN_NULL;
    }
    return remote_skip_value(json);
}

static bool read_effect(struct slice body, struct verdict *out)
{
    struct json json;
    char scratch[4096];
    enum json_token token;
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME, .expires_after = WEIR_NO_TIME };
    if (body.len == 0) /* 204 */
        return true;
    json_init(&json, body.at, body.len, scratch, sizeof scratch);
    if (json_next(&json) != TOKEN_OBJECT)
        return false;
    while ((token = json_next(&json)) == TOKEN_NAME)
        if (!read_member(&json, json.text, out))
            return false;
    return token == TOKEN_OBJECT_END;
}

static bool read_gift(struct json *json, struct slice name, enum step_kind kind, char handle[REMOTE_HANDLE_MAX],
                      struct verdict *out)
{
    bool is_known;
    if (slice_equals(name, kind == STEP_RESERVE ? SLICE("reservation") : SLICE("permit"))) {
        enum json_token token = json_next(json);
        if (token == TOKEN_STRING && json->text.len < REMOTE_HANDLE_MAX)
            (void)snprintf(handle, REMOTE_HANDLE_MAX, "%.*s", (int)json->text.len, json->text.at);
        return token == TOKEN_STRING || token == TOKEN_NULL;
    }
    if (slice_equals(name, SLICE("fence")))
        return read_number(json, &is_known, &out->fence);
    if (slice_equals(name, SLICE("expires_after")) && kind == STEP_ACQUIRE)
        return remote_read_time(json, &out->expires_after);
    return remote_skip_value(json);
}

/* What a decision gives beside its answer: the text of a reservation or permit, and until when. */
static bool read_gifts(struct slice body, enum step_kind kind, char handle[REMOTE_HANDLE_MAX],
                       struct verdict *out)
{
    struct json json;
    char scratch[REMOTE_HANDLE_MAX];
    enum json_token token;
    handle[0] = '\0';
    json_init(&json, body.at, body.len, scratch, sizeof scratch);
    if (json_next(&json) != TOKEN_OBJECT)
        return false;
    while ((token = json_next(&json)) == TOKEN_NAME)
        if (!read_gift(&json, json.text, kind, handle, out))
            return false;
    return token == TOKEN_OBJECT_END;
}

/* The word of a refusal to do it; NULL: the server could not even be asked. */
static const char *error_word(const struct timeline_step *step, unsigned status, struct slice field)
{
    if (status == 422)
        return "contract";
    if (status == 409)
        return "busy";
    if (status == 503)
        return "full";
    if (status != 400 && status != 404 && status != 410)
        return NULL;
    if (step->kind == STEP_SETTLE || step->kind == STEP_CANCEL)
        return slice_equals(field, SLICE("cost")) ? "cost" : "reservation";
    if (step->kind == STEP_RENEW || step->kind == STEP_RELEASE)
        return "permit";
    if (step->kind == STEP_RESET)
        return slice_equals(field, SLICE("limit")) ? "limit" : "attribute";
    return "attribute";
}

static enum remote_result not_agreed(struct client *client, const struct timeline_step *step)
{
    (void)snprintf(client->error, sizeof client->error, "%.200s: the answer to %s is not as agreed",
                   client->url, targets[step->kind]);
    return REMOTE_UNREACHABLE;
}

static enum remote_result finish_operation(struct client *client, const struct timeline_step *step,
                                           const struct client_reply *reply, struct verdict *out)
{
    if (reply->status == 200 || reply->status == 204)
        return read_effect(reply->body, out) ? REMOTE_DECIDED : not_agreed(client, step);
    struct slice field = remote_tell_problem(client, reply);
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME, .expires_after = WEIR_NO_TIME };
    out->effect.error = effect_find_error(error_word(step, reply->status, field));
    return out->effect.error == NULL ? REMOTE_UNREACHABLE : REMOTE_DECIDED;
}

/* A plain 200 for every decision was asked for: other statuses are faults. */
static enum remote_result finish_decision(struct client *client, const struct timeline_step *step,
                                          const struct client_reply *reply, char handle[REMOTE_HANDLE_MAX],
                                          struct verdict *out)
{
    if (reply->status != 200) {
        (void)remote_tell_problem(client, reply); /* the status says whose fault it is */
        return reply->status == 400 || reply->status == 401 || reply->status == 403 ? REMOTE_FAULTY
                                                                                    : REMOTE_UNREACHABLE;
    }
    return remote_parse(reply->body, out) && read_gifts(reply->body, step->kind, handle, out)
               ? REMOTE_DECIDED
               : not_agreed(client, step);
}

bool remote_begin(struct client *client, const char *fields, const struct timeline_step *step)
{
    return send_step(client, fields, step, "");
}

enum remote_result remote_judge(struct client *client, const struct timeline_step *step,
                                const struct client_reply *reply, char handle[REMOTE_HANDLE_MAX],
                                struct verdict *out)
{
    return step_decides(step->kind) ? finish_decision(client, step, reply, handle, out)
                                    : finish_operation(client, step, reply, out);
}

enum remote_result remote_finish(struct client *client, unsigned timeout_ms, const struct timeline_step *step,
                                 char handle[REMOTE_HANDLE_MAX], struct verdict *out)
{
    struct client_reply reply;
    if (!client_receive(client, timeout_ms, &reply))
        return REMOTE_UNREACHABLE;
    return remote_judge(client, step, &reply, handle, out);
}

enum remote_result remote_operate(struct client *client, const char *fields, const struct timeline_step *step,
                                  char handle[REMOTE_HANDLE_MAX], struct verdict *out)
{
    if (!send_step(client, fields, step, handle))
        return REMOTE_UNREACHABLE;
    return remote_finish(client, CLIENT_TIMEOUT_MS, step, handle, out);
}

#else

/* An empty file is not C. */
typedef int remote_operations_are_for_tests;

#endif
