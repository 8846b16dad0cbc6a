// SPDX-License-Identifier: Apache-2.0
/*
 * resp.c - bytes of a connection become commands, replies bytes; see resp.h.
 *
 * A command is handled when it is whole. What cannot be read on from (a bad length, a quote that does not end) is said in Redis's words
 * and ends the connection. A line that begins like an HTTP request comes from a browser that somebody leads here: it ends
 * without a word.
 */
#include "net/resp.h"

#include <stdarg.h>
#include <stdio.h>

#include "net/worker.h"

/* ---- Replies ------------------------------------------------------------------------------------------------------- */

struct text *resp_begin(struct resp_request *request)
{
    return turn_begin(request->turn);
}

void resp_end(struct resp_request *request, struct text *out)
{
    turn_end(request->turn, 200, out);
}

void resp_ok(struct resp_request *request)
{
    struct text *out = resp_begin(request);
    resp_put_simple(out, SLICE("OK"));
    resp_end(request, out);
}

void resp_fail(struct resp_request *request, const char *format, ...)
{
    char line[512];
    va_list words;
    va_start(words, format);
    int len = vsnprintf(line, sizeof line, format, words);
    va_end(words);
    struct text *out = turn_begin(request->turn);
    resp_put_error(out, (struct slice){ line, len < (int)sizeof line ? (size_t)len : sizeof line - 1 });
    turn_end(request->turn, 400, out);
}

/* The sentence says which word it means: the field is that of a body. */
static void write_error(struct turn *turn, unsigned status, const char *detail, struct slice field,
                        struct slice extra, struct text *out)
{
    char line[512];
    struct text text = text_of(line, sizeof line);
    (void)turn, (void)status, (void)field, (void)extra;
    text_literal(&text, "ERR weir: ");
    text_string(&text, detail);
    resp_put_error(out, text_slice(&text));
}

static enum answer_form form_of(const struct turn *turn)
{
    return turn->minor == 3 ? ANSWER_RESP3 : ANSWER_RESP2;
}

static unsigned write_decision(struct turn *turn, const struct ask *ask, const struct verdict *verdict,
                               struct slice token, struct text *out)
{
    struct answer_beside beside = answer_beside_of(ask, verdict, token);
    answer_write(out, form_of(turn), &verdict->answer, &beside, verdict->now);
    return answer_status(&verdict->answer, ANSWER_CHECK);
}

/* A body is in our form already. */
static void write_body(struct turn *turn, unsigned status, struct slice content_type, struct slice body)
{
    (void)content_type;
    struct text *out = turn_begin(turn);
    if (body.len == 0)
        resp_put_simple(out, SLICE("OK"));
    else
        text_slice_add(out, body);
    turn_end(turn, status, out);
}

static bool may_end(const struct turn *turn)
{
    (void)turn;
    return true; /* the end needs no words */
}

static void write_kept(struct turn *turn, bool ends)
{
    (void)ends;
    line_write(turn->conn, turn->reply, turn->reply_len);
    turn_count(turn, turn->status);
}

/* ---- Commands ------------------------------------------------------------------------------------------------------ */

#ifdef WEIR_TEST_HOOKS
static weir_ns stamp_of(const struct conn *conn)
{
    return conn->worker->server->is_virtual ? conn->resp_now : worker_now(conn->worker);
}

/* What waits until before this command ends first; as of an HTTP request. */
static void pass_time(struct conn *conn)
{
    if (!conn->worker->server->is_virtual)
        return;
    line_flush(conn);
    ticker_advance(conn->worker, conn->resp_now);
}
#else
static weir_ns stamp_of(const struct conn *conn)
{
    return worker_now(conn->worker);
}

static void pass_time(struct conn *conn)
{
    (void)conn;
}
#endif

static struct turn *join(struct conn *conn)
{
    struct turn *turn = line_join(conn);
    if (turn == NULL) {
        conn_break(conn);
        return NULL;
    }
    turn->now = stamp_of(conn);
    turn->door = DOOR_RESP;
    turn->minor = conn->resp_version == RESP3 ? 3 : 2;
    turn->keeps_alive = true;
    return turn;
}

/* Arguments in Redis's words: each in quotes, cut, with a blank behind. */
static void say_unknown(struct resp_request *request)
{
    char args[160];
    struct text text = text_of(args, 128);
    for (size_t i = 1; i < request->count && text.len < 120; i++) {
        struct slice word = request->words[i];
        size_t room = text.cap - text.len > 3 ? text.cap - text.len - 3 : 0;
        text_literal(&text, "'");
        text_bytes(&text, word.at, word.len < room ? word.len : room);
        text_literal(&text, "' ");
    }
    struct slice name = request->words[0];
    resp_fail(request, "ERR unknown command '%.*s', with args beginning with: %.*s",
              (int)(name.len < 128 ? name.len : 128), name.at, (int)text.len, args);
}

static bool has_words(const struct resp_row *row, size_t count)
{
    return row->arity >= 0 ? count == (size_t)row->arity : count >= (size_t)-row->arity;
}

static void dispatch(struct resp_request *request)
{
    const struct conn *conn = request->turn->conn;
    const struct resp_row *row = request->row = resp_find(request->words[0]);
    if (row == NULL && conn->role == ROLE_NONE) {
        resp_fail(request, "NOAUTH Authentication required.");
    } else if (row == NULL) {
        say_unknown(request);
    } else if (conn->role == ROLE_NONE && row->needs != ROLE_NONE) {
        resp_fail(request, "NOAUTH Authentication required.");
    } else if (row->handle != resp_weir && !has_words(row, request->count)) { /* those say which is missing */
        resp_fail(request, "ERR wrong number of arguments for '%s' command", row->name);
    } else if (conn->role < row->needs) {
        resp_fail(request,
                  "NOPERM %s needs an admin token: AUTH with one, or call the HTTP API at the admin socket "
                  "(curl --unix-socket)",
                  row->name);
    } else {
        request->turn->door = (uint8_t)row->door;
        row->handle(request);
    }
}

/* Whether the words are of HTTP: Redis's guard. */
static bool is_browser(const struct resp_command *command)
{
    return slice_equals_fold(command->words[0], SLICE("POST"))
           || slice_equals_fold(command->words[0], SLICE("Host:"));
}

static void serve(struct conn *conn, const struct resp_command *command, bool is_last)
{
    pass_time(conn);
    struct turn *turn = conn->is_gone ? NULL : join(conn);
    if (turn == NULL)
        return;
    struct resp_request request = { .turn = turn, .words = command->words, .count = command->count };
    conn->is_handling = true;
    conn->has_more = !is_last;
    dispatch(&request);
    line_advance(conn);
    conn->is_handling = false;
}

static void refuse(struct conn *conn, const struct resp_command *bad)
{
    struct turn *turn = join(conn);
    conn->phase = PHASE_LINGER;
    if (turn == NULL)
        return;
    turn->keeps_alive = false;
    struct text *out = turn_begin(turn);
    resp_put_protocol_error(out, bad);
    turn_end(turn, 400, out);
}

static size_t resp_step(struct conn *conn, char *at, size_t *len)
{
    struct resp_command command;
    if (conn->phase == PHASE_LINGER)
        return *len;
    switch (resp_command_parse(&conn->command, at, *len, conn->role == ROLE_NONE, &command)) {
    case RESP_MORE:
        return 0;
    case RESP_BAD:
        refuse(conn, &command);
        return *len;
    default:
        break;
    }
    conn->command = RESP_COMMAND_START;
    if (command.count == 0)
        return command.len;
    if (is_browser(&command)) {
        conn_break(conn);
        return *len;
    }
    serve(conn, &command, command.len == *len);
    return command.len;
}

const struct protocol protocol_resp = {
    .step = resp_step,
    .decision = write_decision,
    .error = write_error,
    .body = write_body,
    .form = form_of,
    .may_end = may_end,
    .write = write_kept,
    .turns_max = TURNS_MAX,
    .idle_seconds = RESP_IDLE_SECONDS,
};
