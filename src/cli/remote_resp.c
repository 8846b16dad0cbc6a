// SPDX-License-Identifier: Apache-2.0
/*
 * remote_resp.c - WEIR.CHECK and its kin from a client's side.
 */
#include "cli/remote_resp.h"

#ifdef WEIR_TEST_HOOKS

#include <stdio.h>

#include "wire/resp.h"

static const char *const names[STEP_KIND_COUNT] = {
    [STEP_REQUEST] = "WEIR.CHECK",   [STEP_RESERVE] = "WEIR.RESERVE", [STEP_ACQUIRE] = "WEIR.ACQUIRE",
    [STEP_SETTLE] = "WEIR.SETTLE",   [STEP_CANCEL] = "WEIR.CANCEL",   [STEP_RENEW] = "WEIR.RENEW",
    [STEP_RELEASE] = "WEIR.RELEASE", [STEP_REFUND] = "WEIR.REFUND",   [STEP_RESET] = "WEIR.RESET",
};

const char *remote_resp_unsayable(const struct timeline_step *step)
{
    if (names[step->kind] == NULL)
        return "no command reloads"; /* and nothing else comes here that has no name */
    if (step->request.is_peek && step->kind != STEP_REQUEST)
        return "only a check peeks";
    if (step->may_wait && step->kind == STEP_RESERVE)
        return "who reserves does not wait";
    if (step->may_wait && step->request.wait % WEIR_MILLISECOND != 0)
        return "the wait is no whole number of milliseconds";
    return NULL;
}

/* ---- The question ---------------------------------------------------------------------------------------- */

/* Words are counted while they are put, for the head that stands in front. */
struct command {
    struct text words;
    uint32_t count;
};

static void put(struct command *command, struct slice word)
{
    resp_put_bulk(&command->words, word);
    command->count++;
}

static void put_number(struct command *command, const char *name, uint64_t number)
{
    char digits[24];
    put(command, slice_of(name));
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    put(command, slice_of(digits));
}

/* A command has at least one attribute; an empty one is as good as none. */
static void put_attributes(struct command *command, const struct weir_request *request)
{
    put(command, SLICE("ATTR"));
    for (size_t i = 0; i < request->attribute_count; i++) {
        const struct weir_attribute *attribute = &request->attributes[i];
        size_t len = attribute->len > 0 || attribute->value == NULL ? attribute->len : strlen(attribute->value);
        put(command, slice_of(attribute->name));
        put(command, (struct slice){ attribute->value, len });
    }
    if (request->attribute_count == 0) {
        put(command, SLICE("path"));
        put(command, SLICE(""));
    }
}

static void put_step(struct command *command, const struct timeline_step *step, const char *handle)
{
    const struct weir_request *request = &step->request;
    put(command, slice_of(names[step->kind]));
    if (step_decides(step->kind) || step->kind == STEP_REFUND) {
        put_number(command, "COST", request->cost);
        if (request->is_peek)
            put(command, SLICE("PEEK"));
        if (step->may_wait)
            put_number(command, "WAIT", request->wait / WEIR_MILLISECOND);
        if (step->kind == STEP_RESERVE)
            put_number(command, "EXPIRES", TIMELINE_HOLD_NS / WEIR_MILLISECOND);
        put_attributes(command, request);
    } else if (step->kind == STEP_RESET) {
        put(command, slice_of(step->limit));
        if (request->attribute_count > 0)
            put_attributes(command, request);
    } else {
        put(command, slice_of(handle));
        if (step->kind == STEP_SETTLE)
            resp_put_bulk_i64(&command->words, (int64_t)request->cost);
        command->count += step->kind == STEP_SETTLE;
    }
}

static bool send_command(struct client *client, const struct command *command)
{
    char head_bytes[16];
    struct text head = text_of(head_bytes, sizeof head_bytes);
    resp_put_array(&head, command->count);
    if (!command->words.is_cut)
        return client_send_bytes(client, text_slice(&head), text_slice(&command->words));
    (void)snprintf(client->error, sizeof client->error, "the command is too long");
    return false;
}

/* A command beside the step's, whose reply is no error. */
static bool ask_aside(struct client *client, const struct command *command)
{
    struct slice reply;
    if (!send_command(client, command) || !client_receive_resp(client, CLIENT_TIMEOUT_MS, &reply))
        return false;
    if (reply.at[0] != '-')
        return true;
    (void)snprintf(client->error, sizeof client->error, "%.100s: %.*s", client->url,
                   (int)(reply.len > 200 ? 200 : reply.len), reply.at);
    return false;
}

static bool say_who(struct client *client)
{
    char room[256];
    struct command command = { .words = text_of(room, sizeof room) };
    put(&command, SLICE("HELLO"));
    put(&command, SLICE("3"));
    put(&command, SLICE("AUTH"));
    put(&command, SLICE("default"));
    put(&command, SLICE(REMOTE_RESP_TOKEN));
    return ask_aside(client, &command);
}

static bool say_when(struct client *client, weir_ns now)
{
    char room[64];
    struct command command = { .words = text_of(room, sizeof room) };
    put_number(&command, "WEIR.NOW", now);
    return ask_aside(client, &command);
}

bool remote_resp_begin(struct client *client, weir_ns now, const struct timeline_step *step, const char *handle)
{
    static char room[RESP_COMMAND_MAX]; /* one caller at a time */
    struct command command = { .words = text_of(room, sizeof room) };
    bool is_new;
    put_step(&command, step, handle);
    return client_connect(client, &is_new) && (!is_new || say_who(client)) && say_when(client, now)
           && send_command(client, &command);
}

/* ---- The answer ------------------------------------------------------------------------------------------ */

/* An array or a map that is being written. */
struct level {
    uint32_t count, done;
    bool is_map;
};

/* Lengths of time are strings here, and numbers there. */
static bool is_time(struct slice name)
{
    return slice_equals(name, SLICE("retry_after")) || slice_equals(name, SLICE("reset_after"))
           || slice_equals(name, SLICE("expires_after")) || slice_equals(name, SLICE("waited"));
}

static void put_between(struct text *out, const struct level *level)
{
    if (level->is_map && level->done % 2 == 1)
        text_literal(out, ":");
    else if (level->done > 0)
        text_literal(out, ",");
}

static void put_scalar(struct text *out, const struct resp_value *value, bool is_length)
{
    if (value->type == RESP_NULL)
        text_literal(out, "null");
    else if (value->type == RESP_BOOLEAN)
        text_string(out, value->integer != 0 ? "true" : "false");
    else if (value->type == RESP_INTEGER || value->type == RESP_BIG_NUMBER || is_length)
        text_slice_add(out, value->text);
    else
        text_json(out, value->text);
}

/* A reply of RESP3 as the JSON that the other doors answer. */
static bool put_json(struct text *out, struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct level levels[RESP_DEPTH_MAX];
    struct resp_value value;
    unsigned depth = 0;
    bool is_length = false;
    while (resp_next(&reader, &value)) {
        struct level *level = depth == 0 ? NULL : &levels[depth - 1];
        bool opens = value.type == RESP_ARRAY || value.type == RESP_MAP;
        bool is_name = level != NULL && level->is_map && level->done % 2 == 0;
        if (level != NULL)
            put_between(out, level);
        if (level != NULL)
            level->done++;
        if (opens) {
            text_string(out, value.type == RESP_MAP ? "{" : "[");
            levels[depth++] = (struct level){ value.count, 0, value.type == RESP_MAP };
        } else {
            put_scalar(out, &value, is_length);
        }
        is_length = is_name && is_time(value.text);
        for (; depth > 0 && levels[depth - 1].done == levels[depth - 1].count; depth--)
            text_string(out, levels[depth - 1].is_map ? "}" : "]");
    }
    return depth == 0 && !out->is_cut;
}

/* Which member of a body the error is about, told by its sentence. */
static struct slice field_of(struct slice detail)
{
    if (slice_equals(detail, slice_of(weir_error_text(WEIR_ERR_LIMIT))))
        return SLICE("limit");
    if (slice_equals(detail, slice_of(weir_error_text(WEIR_ERR_COST)))
        || (detail.len > 5 && memcmp(detail.at, "COST ", 5) == 0))
        return SLICE("cost");
    return SLICE("");
}

/* "ERR weir: detail" as a problem document. Gives the status that says the same. */
static unsigned put_problem(struct text *out, struct slice error)
{
    static const char prefix[] = "ERR weir: ";
    struct slice detail = error;
    if (error.len >= sizeof prefix - 1 && memcmp(error.at, prefix, sizeof prefix - 1) == 0)
        detail = (struct slice){ error.at + sizeof prefix - 1, error.len - (sizeof prefix - 1) };
    text_literal(out, "{\"field\":");
    text_json(out, field_of(detail));
    text_literal(out, ",\"detail\":");
    text_json(out, detail);
    text_literal(out, "}");
    return slice_equals(detail, slice_of(weir_error_text(WEIR_ERR_FULL))) ? 503 : 400;
}

static bool read_reply(struct client *client, unsigned timeout_ms, struct client_reply *out)
{
    static char room[CLIENT_REPLY_MAX];
    struct text json = text_of(room, sizeof room);
    struct resp_reader reader;
    struct resp_value value;
    struct slice reply;
    if (!client_receive_resp(client, timeout_ms, &reply))
        return false;
    *out = (struct client_reply){ .status = 200, .retry_after = WEIR_NO_TIME };
    reader = resp_reader_of(reply.at, reply.len);
    bool is_good = resp_next(&reader, &value);
    if (is_good && value.type == RESP_ERROR)
        out->status = put_problem(&json, value.text);
    else if (is_good && !(value.type == RESP_SIMPLE && slice_equals(value.text, SLICE("OK"))))
        is_good = put_json(&json, reply);
    out->body = text_slice(&json);
    if (!is_good)
        (void)snprintf(client->error, sizeof client->error, "%.200s: the reply is not as agreed", client->url);
    return is_good;
}

enum remote_result remote_resp_finish(struct client *client, unsigned timeout_ms,
                                      const struct timeline_step *step, char handle[REMOTE_HANDLE_MAX],
                                      struct verdict *out)
{
    struct client_reply reply;
    if (!read_reply(client, timeout_ms, &reply))
        return REMOTE_UNREACHABLE;
    return remote_judge(client, step, &reply, handle, out);
}

enum remote_result remote_resp_operate(struct client *client, weir_ns now, const struct timeline_step *step,
                                       char handle[REMOTE_HANDLE_MAX], struct verdict *out)
{
    if (!remote_resp_begin(client, now, step, handle))
        return REMOTE_UNREACHABLE;
    return remote_resp_finish(client, CLIENT_TIMEOUT_MS, step, handle, out);
}

#else

/* An empty file is not C. */
typedef int remote_resp_is_for_tests;

#endif
