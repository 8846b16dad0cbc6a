// SPDX-License-Identifier: Apache-2.0
/*
 * http_reply.c - what HTTP makes of replies: heads, problem documents, batches, the line that says that a connection ends.
 *
 * Elsewhere: reading (http.c), the words of answers (wire/answer.h), when a reply leaves (line.c).
 */
#include <assert.h>

#include "net/worker.h"

static const enum answer_door answer_doors[DOOR_COUNT] = {
    [DOOR_CHECK] = ANSWER_CHECK, [DOOR_RESERVE] = ANSWER_CHECK,         [DOOR_ACQUIRE] = ANSWER_CHECK,
    [DOOR_AUTH] = ANSWER_AUTH,   [DOOR_AUTH_NGINX] = ANSWER_AUTH_NGINX, [DOOR_AUTH_ACCEL] = ANSWER_AUTH_ACCEL,
};

static struct answer_manner turn_manner(const struct turn *turn)
{
    const struct worker *worker = turn->conn->worker;
    return (struct answer_manner){ .date = { worker->date, worker->date_len },
                                   .minor = turn->minor,
                                   .keeps_alive = turn->keeps_alive,
                                   .is_head = turn->is_head };
}

/* ---- Decisions ------------------------------------------------------------------------------------------- */

/* At the auth doors a wish to wait is a field, and nobody is told of what the operator does not allow. */
static enum answer_wait why_not(const struct turn *turn, enum answer_wait wait)
{
    if (answer_doors[turn->door] == ANSWER_CHECK || (wait != ANSWER_WAIT_UNASKED && wait != ANSWER_WAIT_LOOKS))
        return wait;
    bool is_heard = wait == ANSWER_WAIT_UNASKED && turn->conn->worker->server->settings->auth_wait;
    return is_heard ? ANSWER_WAIT_NO_WISH : ANSWER_WAIT_UNTOLD;
}

static unsigned http_decision(struct turn *turn, const struct ask *ask, const struct verdict *verdict,
                              struct slice token, struct text *out)
{
    const struct weir_answer *answer = &verdict->answer;
    struct answer_manner manner = turn_manner(turn);
    enum answer_door door = answer_doors[turn->door];
    struct answer_beside beside = answer_beside_of(ask, verdict, token);
    beside.wait = why_not(turn, verdict->wait);
    beside.preferred = verdict->has_waited ? turn->preferred : 0;
    answer_decision(out, turn->conn->worker->edition->headers, &manner, door, turn->is_always_200, answer,
                    &beside, verdict->now);
    return turn->is_always_200 ? 200 : answer_status(answer, door);
}

/* ---- Other replies --------------------------------------------------------------------------------------- */

static void http_error(struct turn *turn, unsigned status, const char *detail, struct slice field,
                       struct slice extra, struct text *out)
{
    struct answer_manner manner = turn_manner(turn);
    answer_error(out, &manner, status, detail, field, extra);
}

static void http_body(struct turn *turn, unsigned status, struct slice content_type, struct slice body)
{
    struct answer_manner manner = turn_manner(turn);
    char space[512]; /* a head without extra fields has at most five lines of words of ours */
    struct text head = text_of(space, sizeof space);
    answer_head(&head, &manner, status, content_type, SLICE(""), body.len);
    assert(!head.is_cut);

    size_t body_len = turn->is_head ? 0 : body.len;
    if (turn_reply_new(turn, head.len + body_len) == NULL)
        return;
    memcpy(turn->reply, head.at, head.len);
    if (body_len > 0)
        memcpy(turn->reply + head.len, body.at, body_len);
    turn->status = status;
    turn->is_done = true;
}

/* ---- Sending --------------------------------------------------------------------------------------------- */

static void write_batch(struct turn *turn, struct text *out)
{
    struct answer_manner manner = turn_manner(turn);
    answer_head(out, &manner, 200, ANSWER_TYPE_JSON, SLICE(""), turn->reply_len);
    if (!turn->is_head)
        line_write(turn->conn, turn->reply, turn->reply_len);
    turn_count(turn, 200);
}

/*
 * In a drain the last reply of a connection says that it ends. A reply that was made before the drain began says so by a
 * line more in front of its body.
 */
static void write_closing(struct conn *conn, const struct turn *turn)
{
    const struct slice line = SLICE("Connection: close\r\n");
    const char *end = memmem(turn->reply, turn->reply_len, "\r\n\r\n", 4);
    size_t head_len = (size_t)(end + 2 - turn->reply);
    line_write(conn, turn->reply, head_len);
    line_write(conn, line.at, line.len);
    line_write(conn, turn->reply + head_len, turn->reply_len - head_len);
}

/* Whether the reply can still say that it is the last: one of HTTP/1.0 says so by itself. */
static bool http_may_end(const struct turn *turn)
{
    return turn->is_batch || turn->minor > 0;
}

static void http_write(struct turn *turn, bool ends)
{
    if (turn->is_batch) {
        write_batch(turn, &turn->conn->worker->out);
        return;
    }
    if (ends)
        write_closing(turn->conn, turn);
    else
        line_write(turn->conn, turn->reply, turn->reply_len);
    turn_count(turn, turn->status);
}

/* Behind the last reply: who waits for it may send the body now. */
static void http_rest(struct conn *conn)
{
    struct text *out = &conn->worker->out;
    if (!conn->owes_continue)
        return;
    conn->owes_continue = false;
    if (out->cap - out->len < ANSWER_CONTINUE.len) /* the replies before it may have left no room */
        line_flush(conn);
    text_slice_add(out, ANSWER_CONTINUE);
}

const struct protocol protocol_http = {
    .step = http_step,
    .decision = http_decision,
    .error = http_error,
    .body = http_body,
    .may_end = http_may_end,
    .write = http_write,
    .rest = http_rest,
    .idle_seconds = IDLE_SECONDS,
    .turns_max = TURNS_MAX,
};
