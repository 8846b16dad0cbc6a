// SPDX-License-Identifier: Apache-2.0
/*
 * remote_operations.c - the bodies of /v1/reserve, settle, cancel, refund, reset and reload from a client's side.
 */
#include "cli/remote_operations.h"

#ifdef WEIR_TEST_HOOKS

#include <stdio.h>

#define BODY_MAX ((size_t)WEIR_ATTRIBUTES_MAX * (6 * WEIR_ATTRIBUTE_MAX + 64) + 2 * REMOTE_RESERVATION_MAX)

static const char *const targets[STEP_KIND_COUNT] = {
    [STEP_REQUEST] = "/v1/check?status=200",
    [STEP_RESERVE] = "/v1/reserve?status=200",
    [STEP_SETTLE] = "/v1/settle",
    [STEP_CANCEL] = "/v1/cancel",
    [STEP_REFUND] = "/v1/refund",
    [STEP_RESET] = "/v1/reset",
    [STEP_RELOAD] = "/v1/reload",
};

/* ---- The question ---------------------------------------------------------------------------------------- */

static void write_body(struct text *out, const struct timeline_step *step, const char *reservation)
{
    text_literal(out, "{");
    if (step->kind == STEP_SETTLE || step->kind == STEP_CANCEL) {
        text_literal(out, "\"reservation\": ");
        text_json(out, slice_of(reservation));
    } else if (step->kind == STEP_REFUND) {
        text_literal(out, "\"attributes\": ");
        remote_write_attributes(out, step->request.attributes, step->request.attribute_count);
    } else if (step->kind == STEP_RESET) {
        text_literal(out, "\"limit\": ");
        text_json(out, slice_of(step->limit));
        text_literal(out, ", \"key\": ");
        remote_write_attributes(out, step->request.attributes, step->request.attribute_count);
    }
    if (step->kind == STEP_SETTLE || step->kind == STEP_REFUND) {
        text_literal(out, ", \"cost\": ");
        text_u64(out, step->request.cost);
    }
    text_literal(out, "}");
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
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME };
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

/* The `reservation` of a decision that has one; else "". */
static void find_reservation(struct slice body, char out[REMOTE_RESERVATION_MAX])
{
    struct json json;
    char scratch[REMOTE_RESERVATION_MAX];
    out[0] = '\0';
    json_init(&json, body.at, body.len, scratch, sizeof scratch);
    if (json_next(&json) != TOKEN_OBJECT)
        return;
    while (json_next(&json) == TOKEN_NAME) {
        bool is_it = slice_equals(json.text, SLICE("reservation"));
        if (!is_it && !remote_skip_value(&json))
            return;
        if (is_it && json_next(&json) == TOKEN_STRING && json.text.len < REMOTE_RESERVATION_MAX)
            (void)snprintf(out, REMOTE_RESERVATION_MAX, "%.*s", (int)json.text.len, json.text.at);
        if (is_it)
            return;
    }
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
    if (step->kind == STEP_RESET)
        return slice_equals(field, SLICE("limit")) ? "limit" : "attribute";
    return "attribute";
}

static enum remote_result operate(struct client *client, const char *fields, const struct timeline_step *step,
                                  const char *reservation, struct verdict *out)
{
    static char body[BODY_MAX]; /* one caller at a time, as the client */
    struct text text = text_of(body, sizeof body);
    struct client_reply reply;
    write_body(&text, step, reservation);
    if (!client_post(client, targets[step->kind], fields, text_slice(&text), &reply))
        return REMOTE_UNREACHABLE;
    if (reply.status == 200 || reply.status == 204) {
        if (read_effect(reply.body, out))
            return REMOTE_DECIDED;
        (void)snprintf(client->error, sizeof client->error, "%.200s: the answer to %s is not as agreed",
                       client->url, targets[step->kind]);
        return REMOTE_UNREACHABLE;
    }
    struct slice field = remote_tell_problem(client, &reply);
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME };
    out->effect.error = effect_find_error(error_word(step, reply.status, field));
    return out->effect.error == NULL ? REMOTE_UNREACHABLE : REMOTE_DECIDED;
}

enum remote_result remote_operate(struct client *client, const char *fields, const struct timeline_step *step,
                                  char reservation[REMOTE_RESERVATION_MAX], struct verdict *out)
{
    struct slice json;
    if (step->kind > STEP_RESERVE)
        return operate(client, fields, step, reservation, out);
    char more[64] = "";
    if (step->kind == STEP_RESERVE)
        (void)snprintf(more, sizeof more, ", \"expires_after\": %llu",
                       (unsigned long long)(TIMELINE_HOLD_NS / WEIR_SECOND));
    enum remote_result result =
        remote_ask_at(client, targets[step->kind], fields, &step->request, more, out, &json);
    if (step->kind == STEP_RESERVE && result == REMOTE_DECIDED)
        find_reservation(json, reservation);
    return result;
}

#else

/* An empty file is not C. */
typedef int remote_operations_are_for_tests;

#endif
