// SPDX-License-Identifier: Apache-2.0
/*
 * line.c - replies leave in the order their requests came.
 *
 * Idea: the reply of the turn at the front is made straight into the worker's output. One that is done earlier than
 * those before it is kept as bytes until its turn comes: an answer's numbers are lent to us only while we are told.
 * What is kept is bounded, for one connection by not reading on and for all of them by closing the one that would add
 * more.
 */
#include <assert.h>
#include <stdlib.h>

#include "net/log.h"
#include "net/worker.h"

/* ---- Joining --------------------------------------------------------------------------------------------- */

struct turn *line_join(struct conn *conn)
{
    struct turn *turn = worker_turn_new(conn->worker);
    if (turn == NULL)
        return NULL;
    turn->conn = conn;
    turn->prev = conn->last;
    if (conn->last == NULL)
        conn->first = turn;
    else
        conn->last->next = turn;
    conn->last = turn;
    conn->turn_count++;
    return turn;
}

bool turn_hold(struct turn *turn, size_t bytes)
{
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    size_t used = worker->unsent + worker->held;
    if (used >= WORKER_UNSENT_MAX || bytes > WORKER_UNSENT_MAX - used) {
        log_event(LOG_WARN, "output_full", "bytes=%zu", used);
        conn_break(conn);
        return false;
    }
    turn->held += bytes;
    conn->held += bytes;
    worker->held += bytes;
    return true;
}

char *turn_reply_new(struct turn *turn, size_t len)
{
    if (!turn_hold(turn, len))
        return NULL;
    turn->reply = malloc(len);
    if (turn->reply == NULL)
        conn_break(turn->conn);
    turn->reply_len = turn->reply == NULL ? 0 : len;
    return turn->reply;
}

static void release(struct turn *turn)
{
    struct worker *worker = turn->conn->worker;
    turn->conn->held -= turn->held;
    worker->held -= turn->held;
    if (turn->is_bound)
        turn->conn->bound_count--; /* of the permit that it did not get */
    while (turn->first_ask != NULL) {
        struct ask *ask = turn->first_ask;
        turn->first_ask = ask->next;
        if (turn->is_batch)
            free(ask->held); /* an item that was kept */
        worker_ask_free(worker, ask);
    }
    worker->asks_out -= turn->asks_left;
    free(turn->reply);
    worker_turn_free(worker, turn);
}

static void leave(struct conn *conn)
{
    struct turn *turn = conn->first;
    conn->first = turn->next;
    if (conn->first == NULL)
        conn->last = NULL;
    else
        conn->first->prev = NULL;
    conn->turn_count--;
    release(turn);
}

void line_clear(struct conn *conn)
{
    assert(conn->asks_pending == 0);
    while (conn->first != NULL)
        leave(conn);
}

/* Where no order is kept, who is done leaves next. */
static void step_forward(struct turn *turn)
{
    struct conn *conn = turn->conn;
    if (turn == conn->first)
        return;
    turn->prev->next = turn->next;
    if (turn->next == NULL)
        conn->last = turn->prev;
    else
        turn->next->prev = turn->prev;
    turn->prev = NULL;
    turn->next = conn->first;
    conn->first->prev = turn;
    conn->first = turn;
}

void turn_forget(struct turn *turn)
{
    turn->is_done = true;
    turn->is_written = true;
    if (turn->conn->protocol->take != NULL)
        step_forward(turn);
}

/* ---- Sending --------------------------------------------------------------------------------------------- */

/* Bring the worker's sum up to date. */
static void count_unsent(struct conn *conn)
{
    struct worker *worker = conn->worker;
    worker->unsent += conn->stream.unsent - conn->unsent_counted;
    conn->unsent_counted = conn->stream.unsent;
}

static void send_bytes(struct conn *conn, const char *at, size_t len)
{
    if (conn->is_gone)
        return;
    struct worker *worker = conn->worker;
    size_t used = worker->unsent + worker->held;
    size_t room = used < WORKER_UNSENT_MAX ? WORKER_UNSENT_MAX - used : 0;
    bool is_sent = stream_send(&conn->stream, at, len, room);
    count_unsent(conn);
    if (is_sent)
        return;
    if (len > room)
        log_event(LOG_WARN, "output_full", "bytes=%zu", used);
    conn_break(conn);
}

void line_flush(struct conn *conn)
{
    struct text *out = &conn->worker->out;
    if (out->len > 0)
        send_bytes(conn, out->at, out->len);
    else
        count_unsent(conn);
    out->len = 0;
}

void turn_count(struct turn *turn, unsigned status)
{
    counter_add(&turn->conn->worker->counters.requests[turn->door][status], 1);
}

void line_write(struct conn *conn, const char *at, size_t len)
{
    struct text *out = &conn->worker->out;
    if (len <= out->cap - out->len) {
        text_bytes(out, at, len);
        return;
    }
    line_flush(conn);
    send_bytes(conn, at, len);
}

bool turn_is_last(const struct turn *turn)
{
    const struct conn *conn = turn->conn;
    bool has_more = conn->is_handling ? conn->has_more : conn->in_len > 0;
    return conn->worker->is_draining && turn->next == NULL && !has_more;
}

static void write_turn(struct turn *turn)
{
    struct conn *conn = turn->conn;
    const struct text *out = &conn->worker->out;
    if (turn->is_written)
        return;
    if (out->cap - out->len < ANSWER_MAX)
        line_flush(conn);
    bool ends = turn->keeps_alive && turn_is_last(turn) && conn->protocol->may_end(turn);
    if (ends)
        turn->keeps_alive = false;
    conn->protocol->write(turn, ends);
}

void line_advance(struct conn *conn)
{
    while (conn->first != NULL && conn->first->is_done && !conn->is_gone) {
        struct turn *turn = conn->first;
        write_turn(turn);
        if (!turn->keeps_alive)
            conn->phase = PHASE_LINGER;
        leave(conn);
    }
    if (conn->first == NULL && conn->phase != PHASE_LINGER && conn->protocol->rest != NULL)
        conn->protocol->rest(conn);
}

/* ---- Replies that are text ------------------------------------------------------------------------------- */

/* While another connection's replies are in the output it is not ours. */
bool turn_enter(struct turn *turn)
{
    struct conn *conn = turn->conn;
    bool may_enter =
        !conn->is_active && turn == conn->first && conn->worker->out.len == 0
        && conn->protocol->take == NULL; /* else all that are answered now are sent with one write */
    if (may_enter)
        conn_enter(conn);
    return may_enter;
}

void turn_leave(struct conn *conn)
{
    conn->since = conn->worker->second;
    conn_leave(conn);
}

struct text *turn_begin(struct turn *turn)
{
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    if (turn == conn->first && conn->is_active && conn->protocol->take == NULL) {
        turn->keeps_alive = turn->keeps_alive && !turn_is_last(turn);
        if (worker->out.cap - worker->out.len < ANSWER_MAX)
            line_flush(conn);
        return &worker->out;
    }
    worker->aside.len = 0;
    worker->aside.is_cut = false;
    return &worker->aside;
}

void turn_end(struct turn *turn, unsigned status, const struct text *text)
{
    struct worker *worker = turn->conn->worker;
    assert(!text->is_cut);
    turn->status = status;
    turn->is_done = true;
    if (turn->conn->protocol->take != NULL) {
        turn->conn->protocol->take(turn, text);
        turn_count(turn, status);
        turn_forget(turn);
        return;
    }
    if (text == &worker->out) {
        turn->is_written = true;
        turn_count(turn, status);
        return;
    }
    if (turn_reply_new(turn, text->len) != NULL)
        memcpy(turn->reply, text->at, text->len);
}

void turn_error(struct turn *turn, unsigned status, const char *detail, struct slice field, struct slice extra)
{
    struct text *text = turn_begin(turn);
    turn->conn->protocol->error(turn, status, detail, field, extra, text);
    turn_end(turn, status, text);
}

enum answer_form turn_form(const struct turn *turn)
{
    const struct protocol *protocol = turn->conn->protocol;
    return protocol->form == NULL ? ANSWER_JSON : protocol->form(turn);
}

void turn_body(struct turn *turn, unsigned status, struct slice content_type, struct slice body)
{
    turn->conn->protocol->body(turn, status, content_type, body);
}
