// SPDX-License-Identifier: Apache-2.0
/*
 * line.c - replies leave in the order their requests came.
 *
 * Idea: a turn that is done waits until it is at the front; then its reply is made, straight into the worker's
 * output. A decision waits as numbers, not as text, and only a reply that cannot be made later (an error's text, a
 * list of limits) is kept as bytes.
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
    if (conn->last == NULL)
        conn->first = turn;
    else
        conn->last->next = turn;
    conn->last = turn;
    conn->turn_count++;
    return turn;
}

static void release(struct turn *turn)
{
    struct worker *worker = turn->conn->worker;
    while (turn->first_ask != NULL) {
        struct ask *ask = turn->first_ask;
        turn->first_ask = ask->next;
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
    conn->turn_count--;
    release(turn);
}

void line_clear(struct conn *conn)
{
    assert(conn->asks_pending == 0);
    while (conn->first != NULL)
        leave(conn);
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
    size_t room = worker->unsent < WORKER_UNSENT_MAX ? WORKER_UNSENT_MAX - worker->unsent : 0;
    bool is_sent = stream_send(&conn->stream, at, len, room);
    count_unsent(conn);
    if (is_sent)
        return;
    if (len > room)
        log_event(LOG_WARN, "output_full", "bytes=%zu", worker->unsent);
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

static struct answer_manner manner_of(const struct turn *turn)
{
    const struct worker *worker = turn->conn->worker;
    return (struct answer_manner){ .date = { worker->date, worker->date_len },
                                   .minor = turn->minor,
                                   .keeps_alive = turn->keeps_alive,
                                   .is_head = turn->is_head };
}

static void count_reply(struct turn *turn, unsigned status)
{
    counter_add(&turn->conn->worker->counters.requests[turn->door][status], 1);
}

/* Bytes of any length: those that do not fit the output go to the stream directly. */
static void write_bytes(struct conn *conn, const char *at, size_t len)
{
    struct text *out = &conn->worker->out;
    if (len <= out->cap - out->len) {
        text_bytes(out, at, len);
        return;
    }
    line_flush(conn);
    send_bytes(conn, at, len);
}

static const enum answer_door answer_doors[DOOR_COUNT] = {
    [DOOR_CHECK] = ANSWER_CHECK,           [DOOR_RESERVE] = ANSWER_CHECK,         [DOOR_AUTH] = ANSWER_AUTH,
    [DOOR_AUTH_NGINX] = ANSWER_AUTH_NGINX, [DOOR_AUTH_ACCEL] = ANSWER_AUTH_ACCEL,
};

/* Why a request could not be decided after its body was found good: our fault or the contract's. */
static void write_undecidable(struct turn *turn, struct text *out, int result)
{
    struct answer_manner manner = manner_of(turn);
    const char *why = result == ASK_CANCELLED ? "the decision was cancelled" : weir_error_text(result);
    log_event(LOG_ERROR, "undecidable", "door=%s code=%s", door_name(turn->door),
              result == ASK_CANCELLED ? "cancelled" : weir_error_name(result));
    answer_error(out, &manner, 500, why, SLICE(""), SLICE(""));
    count_reply(turn, 500);
}

static void write_decision(struct turn *turn, struct text *out)
{
    const struct ask *ask = turn->first_ask;
    if (ask->result != 0) {
        write_undecidable(turn, out, ask->result);
        return;
    }
    struct answer_manner manner = manner_of(turn);
    enum answer_door door = answer_doors[turn->door];
    const struct answer_reservation reservation = { ask->ticket, ask->hold };
    answer_decision(out, turn->conn->worker->edition->headers, &manner, door, turn->is_always_200, &ask->answer,
                    &reservation, ask->now);
    count_reply(turn, turn->is_always_200 ? 200 : answer_status(&ask->answer, door));
}

static void write_batch(struct turn *turn, struct text *out)
{
    struct answer_manner manner = manner_of(turn);
    answer_head(out, &manner, 200, ANSWER_TYPE_JSON, SLICE(""), turn->reply_len);
    if (!turn->is_head)
        write_bytes(turn->conn, turn->reply, turn->reply_len);
    count_reply(turn, 200);
}

static void write_turn(struct turn *turn)
{
    struct conn *conn = turn->conn;
    struct text *out = &conn->worker->out;
    if (out->cap - out->len < ANSWER_MAX)
        line_flush(conn);
    if (turn->is_written)
        return;
    if (turn->is_batch) {
        write_batch(turn, out);
    } else if (turn->reply != NULL) {
        write_bytes(conn, turn->reply, turn->reply_len);
        count_reply(turn, turn->status);
    } else {
        write_decision(turn, out);
    }
    assert(!out->is_cut);
}

void line_advance(struct conn *conn)
{
    while (conn->first != NULL && conn->first->is_done && !conn->is_gone) {
        struct turn *turn = conn->first;
        if (conn->worker->is_draining && turn->next == NULL && conn->in_len == 0 && !turn->is_written)
            turn->keeps_alive = false;
        write_turn(turn);
        if (!turn->keeps_alive)
            conn->phase = PHASE_LINGER;
        leave(conn);
    }
    if (conn->first == NULL && conn->owes_continue && conn->phase != PHASE_LINGER) {
        struct text *out = &conn->worker->out;
        conn->owes_continue = false;
        if (out->cap - out->len < ANSWER_CONTINUE.len) /* the replies before it may have left no room */
            line_flush(conn);
        text_slice_add(out, ANSWER_CONTINUE);
    }
}

/* ---- Replies that are text ------------------------------------------------------------------------------- */

/* Where a turn's reply is made now: the output when it is at the front, else aside until its turn comes. */
static struct text *begin_reply(struct turn *turn)
{
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    if (turn == conn->first) {
        if (worker->out.cap - worker->out.len < ANSWER_MAX)
            line_flush(conn);
        return &worker->out;
    }
    worker->aside.len = 0;
    worker->aside.is_cut = false;
    return &worker->aside;
}

static void end_reply(struct turn *turn, unsigned status, const struct text *text)
{
    struct worker *worker = turn->conn->worker;
    turn->status = status;
    turn->is_done = true;
    if (text == &worker->out) {
        turn->is_written = true;
        count_reply(turn, status);
        return;
    }
    turn->reply = malloc(text->len);
    if (turn->reply == NULL) {
        conn_break(turn->conn);
        return;
    }
    memcpy(turn->reply, text->at, text->len);
    turn->reply_len = text->len;
}

void turn_error(struct turn *turn, unsigned status, const char *detail, struct slice field, struct slice extra)
{
    struct answer_manner manner = manner_of(turn);
    struct text *text = begin_reply(turn);
    answer_error(text, &manner, status, detail, field, extra);
    end_reply(turn, status, text);
}

void turn_body(struct turn *turn, unsigned status, struct slice content_type, struct slice body)
{
    struct answer_manner manner = manner_of(turn);
    char space[512]; /* a head without extra fields has at most five lines of words of ours */
    struct text head = text_of(space, sizeof space);
    answer_head(&head, &manner, status, content_type, SLICE(""), body.len);
    assert(!head.is_cut);

    size_t body_len = turn->is_head ? 0 : body.len;
    turn->reply = malloc(head.len + body_len);
    if (turn->reply == NULL) {
        conn_break(turn->conn);
        return;
    }
    memcpy(turn->reply, head.at, head.len);
    if (body_len > 0)
        memcpy(turn->reply + head.len, body.at, body_len);
    turn->reply_len = head.len + body_len;
    turn->status = status;
    turn->is_done = true;
}

/* ---- Replies that are decisions -------------------------------------------------------------------------- */

/* Room for one more item, by doubling: a batch is at most CHECK_REQUESTS_MAX * ANSWER_JSON_MAX. */
static bool grow_batch(struct turn *turn)
{
    if (turn->reply_cap - turn->reply_len >= ANSWER_JSON_MAX)
        return true;
    size_t cap = turn->reply_cap == 0 ? 2 * ANSWER_JSON_MAX : 2 * turn->reply_cap;
    char *grown = realloc(turn->reply, cap);
    if (grown == NULL)
        return false;
    turn->reply = grown;
    turn->reply_cap = cap;
    return true;
}

static bool append_item(struct turn *turn, const struct ask *ask)
{
    bool is_first = turn->reply_len == 0;
    if (!grow_batch(turn))
        return false;
    struct text text = { .at = turn->reply, .len = turn->reply_len, .cap = turn->reply_cap };
    if (is_first)
        answer_batch_open(&text);
    answer_batch_item(&text, &ask->answer, ask->now, is_first);
    if (turn->asks_left == 1)
        answer_batch_close(&text);
    assert(!text.is_cut);
    turn->reply_len = text.len;
    return true;
}

/* Move the items that are decided, in order, from numbers to text: a batch of a thousand holds few answers at once. */
static void collect_batch(struct turn *turn)
{
    struct worker *worker = turn->conn->worker;
    while (turn->first_ask != NULL && turn->first_ask->state == ASK_DONE) {
        struct ask *ask = turn->first_ask;
        if (ask->result != 0)
            log_event(LOG_ERROR, "undecidable", "door=%s code=%s", door_name(turn->door),
                      ask->result == ASK_CANCELLED ? "cancelled" : weir_error_name(ask->result));
        if (ask->result != 0)
            weir_answer_refused(ask->now, &ask->answer);
        if (!append_item(turn, ask)) {
            conn_break(turn->conn);
            return;
        }
        turn->first_ask = ask->next;
        if (turn->first_ask == NULL)
            turn->last_ask = NULL;
        worker_ask_free(worker, ask);
        turn->asks_left--;
        worker->asks_out--;
    }
    turn->is_done = turn->asks_left == 0;
}

static void count_answer(struct worker *worker, const struct weir_answer *answer)
{
    counters_decision(&worker->counters, edition_of(worker, answer)->rows, answer);
}

static void on_decided(struct ask *ask)
{
    struct turn *turn = ask->owner;
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    conn->asks_pending--;
    if (ask->result == 0 && !ask->request.is_peek)
        count_answer(worker, &ask->answer);
    if (conn->is_active)
        worker->decided++;
    else
        counters_time(&worker->counters, 1, weir_now() - ask->started_at);
    if (!conn->is_gone && turn->is_batch)
        collect_batch(turn);
    else
        turn->is_done = true;
    if (!conn->is_active)
        worker_mark(worker, conn);
}

void turn_busy(struct turn *turn)
{
    turn_error(turn, 503, "too many decisions are under way; try again", SLICE(""),
               SLICE("Retry-After: 1\r\n"));
}

bool turn_reserve(struct turn *turn, size_t count, bool is_batch)
{
    struct worker *worker = turn->conn->worker;
    if (count > WORKER_ASKS_MAX - worker->asks_out)
        return false;
    worker->asks_out += count;
    turn->asks_left = count;
    turn->is_batch = is_batch;
    return true;
}

static struct ask *new_ask(struct turn *turn)
{
    struct ask *ask = worker_ask_new(turn->conn->worker);
    if (ask == NULL) {
        conn_break(turn->conn);
        return NULL;
    }
    ask->now = turn->now;
    ask->owner = turn;
    if (turn->last_ask == NULL)
        turn->first_ask = ask;
    else
        turn->last_ask->next = ask;
    turn->last_ask = ask;
    return ask;
}

static void start(struct turn *turn, struct ask *ask, const struct weir_request *request)
{
    struct conn *conn = turn->conn;
    ask->request = *request;
    ask->started_at = conn->worker->now;
    ask->done = on_decided;
    conn->asks_pending++;
    ask_start(conn->worker->decider, ask);
}

void turn_ask(struct turn *turn, const struct weir_request *request)
{
    struct ask *ask = new_ask(turn);
    if (ask != NULL)
        start(turn, ask, request);
}

void turn_ask_reserve(struct turn *turn, const struct weir_request *request, weir_ns hold)
{
    struct ask *ask = new_ask(turn);
    if (ask == NULL)
        return;
    ask->ticket = malloc(sizeof *ask->ticket);
    if (ask->ticket == NULL) {
        conn_break(turn->conn);
        return;
    }
    ask->ticket->len = 0;
    ask->hold = hold;
    start(turn, ask, request);
}

int turn_fault(struct turn *turn)
{
    struct worker *worker = turn->conn->worker;
    struct ask *ask = turn->first_ask;
    if (ask == NULL || ask->state != ASK_DONE || ask->result == 0)
        return 0;
    int code = ask->result;
    turn->first_ask = NULL;
    turn->last_ask = NULL;
    turn->is_done = false;
    worker->asks_out -= turn->asks_left;
    turn->asks_left = 0;
    worker_ask_free(worker, ask);
    return code;
}

void turn_refuse(struct turn *turn)
{
    struct ask *ask = new_ask(turn);
    if (ask == NULL)
        return;
    weir_answer_refused(turn->now, &ask->answer);
    ask->state = ASK_DONE;
    ask->result = 0;
    turn->is_done = true;
    count_answer(turn->conn->worker, &ask->answer);
}
