// SPDX-License-Identifier: Apache-2.0
/*
 * http.c - bytes of a connection become requests.
 *
 * Idea: requests are parsed where the worker reads them, as many as one read brought, and answered with one write.
 * Only what is incomplete is copied into memory of the connection, and that memory is bounded, for one connection
 * and for all. A request is handled when its body is whole (or, where nobody reads the body, at its head), so a
 * request that never completes charges nothing.
 *
 * After an error whose end is unknown, and after a reply that says `Connection: close`, we finish our side and
 * discard what still comes, so that the peer reads the reply before it sees the connection end.
 */
#include <assert.h>
#include <stdlib.h>

#include "net/log.h"
#include "net/worker.h"

static const struct stream_events events;

/* ---- The life of a connection ---------------------------------------------------------------------------- */

void conn_enter(struct conn *conn)
{
    assert(!conn->is_active && conn->worker->out.len == 0);
    conn->is_active = true;
}

static bool is_idle(const struct conn *conn)
{
    return conn->first == NULL && conn->stream.unsent == 0;
}

void conn_leave(struct conn *conn)
{
    line_advance(conn);
    line_flush(conn);
    conn->is_active = false;
    if (conn->is_gone || !is_idle(conn))
        return;
    if (conn->has_ended) {
        conn_break(conn);
        return;
    }
    if (conn->worker->is_draining && conn->phase == PHASE_HEAD && conn->in_len == 0)
        conn->phase = PHASE_LINGER;
    if (conn->phase == PHASE_LINGER && !conn->has_finished) {
        conn->has_finished = true;
        conn->since = conn->worker->second;
        stream_finish(&conn->stream);
    }
}

static void conn_free(struct conn *conn)
{
    struct worker *worker = conn->worker;
    line_clear(conn);
    *conn->link = conn->next;
    if (conn->next != NULL)
        conn->next->link = conn->link;
    for (struct conn **link = &worker->dirty; conn->is_dirty && *link != NULL; link = &(*link)->next_dirty) {
        if (*link == conn) {
            *link = conn->next_dirty;
            break;
        }
    }
    worker->kept -= conn->in_cap;
    worker->unsent -= conn->unsent_counted;
    free(conn->in);
    free(conn);
    worker_forget(worker);
}

static void on_closed(struct stream *stream)
{
    struct conn *conn = (struct conn *)stream;
    conn->is_closed = true;
    if (conn->asks_pending == 0)
        conn_free(conn);
}

/* Dropped answers change nothing but asks_pending, so the lists stay as they are while we walk them. */
static void end_asks(struct conn *conn, int why)
{
    for (struct turn *turn = conn->first; turn != NULL; turn = turn->next)
        for (struct ask *ask = turn->first_ask; ask != NULL; ask = ask->next)
            if (ask->state == ASK_STARTED)
                ask_cancel(conn->worker->decider, ask, why);
}

void conn_break(struct conn *conn)
{
    if (conn->is_gone)
        return;
    conn->is_gone = true;
    stream_close(&conn->stream);
    end_asks(conn, ASK_CANCELLED);
    permits_return(conn);
}

/* Replies leave the line while we walk it, so we begin again after each. */
void conn_end_waits(struct conn *conn)
{
    struct turn *turn = conn->first;
    while (!conn->is_gone && turn != NULL) {
        struct ask *ask = turn->first_ask;
        bool was_waiting = ask != NULL && ask->state == ASK_STARTED && !turn->is_batch;
        size_t pending = conn->asks_pending;
        if (was_waiting)
            ask_cancel(conn->worker->decider, ask, ASK_DRAINED);
        turn = conn->asks_pending < pending ? conn->first : turn->next;
    }
}

void conn_start(struct conn *conn)
{
    struct worker *worker = conn->worker;
    conn->next = worker->conns;
    conn->link = &worker->conns;
    if (conn->next != NULL)
        conn->next->link = &conn->next;
    worker->conns = conn;
    conn->since = worker->second;
    if (stream_open(&conn->stream, &worker->loop, conn->fd, conn->peer.is_unix, &events) != 0)
        conn->is_gone = true;
}

/* ---- Input ----------------------------------------------------------------------------------------------- */

static void forget_input(struct conn *conn)
{
    conn->worker->kept -= conn->in_cap;
    free(conn->in);
    conn->in = NULL;
    conn->in_len = 0;
    conn->in_cap = 0;
}

/* Room for `spare` bytes behind what is there; false when that would be too much, for us or for the machine. */
static bool grow_input(struct conn *conn, size_t spare)
{
    struct worker *worker = conn->worker;
    size_t want = conn->in_len + spare;
    if (want <= conn->in_cap)
        return true;
    size_t cap = conn->in_cap == 0 ? 4096 : conn->in_cap;
    while (cap < want)
        cap *= 2;
    if (worker->kept + (cap - conn->in_cap) > WORKER_KEPT_MAX)
        return false;
    char *grown = realloc(conn->in, cap);
    if (grown == NULL)
        return false;
    worker->kept += cap - conn->in_cap;
    conn->in = grown;
    conn->in_cap = cap;
    return true;
}

static void on_room(struct stream *stream, char **at, size_t *size)
{
    struct conn *conn = (struct conn *)stream;
    struct worker *worker = conn->worker;
    *at = worker->input;
    *size = WORKER_INPUT;
    if (conn->in_len == 0 || conn->phase == PHASE_LINGER)
        return;
    if (!grow_input(conn, 2048)) {
        log_event(LOG_WARN, "input_full", "bytes=%zu", worker->kept);
        *size = 0;
        return;
    }
    *at = conn->in + conn->in_len;
    *size = conn->in_cap - conn->in_len;
}

/* Refuse what cannot be read on from here. */
static void refuse(struct conn *conn, unsigned status, const char *sentence)
{
    struct turn *turn = line_join(conn);
    conn->phase = PHASE_LINGER;
    if (turn == NULL) {
        conn_break(conn);
        return;
    }
    turn->minor = 1;
    turn_error(turn, status, sentence, SLICE(""), SLICE(""));
}

static bool may_parse(const struct conn *conn)
{
    return !conn->is_gone && conn->turn_count < TURNS_MAX && conn->stream.unsent + conn->held < UNSENT_MAX;
}

#ifdef WEIR_TEST_HOOKS
/* Virtual time: the instant that the request names. */
static weir_ns stamp_of(struct worker *worker, const struct http1_head *head)
{
    if (!worker->server->is_virtual)
        return worker_now(worker);
    const struct weir_field *field = http1_field(head, SLICE("weir-now"), NULL);
    weir_ns now = 0;
    if (field != NULL)
        (void)slice_to_u64((struct slice){ field->value, field->value_len }, UINT64_MAX, &now); /* else: 0 */
    return now;
}

/* What waits until before this request ends first. */
static void pass_time(struct conn *conn, const struct http1_head *head)
{
    struct worker *worker = conn->worker;
    if (!worker->server->is_virtual)
        return;
    line_flush(conn);
    ticker_advance(worker, stamp_of(worker, head));
}
#else
static void pass_time(struct conn *conn, const struct http1_head *head)
{
    (void)conn;
    (void)head;
}

static weir_ns stamp_of(struct worker *worker, const struct http1_head *head)
{
    (void)head;
    return worker_now(worker);
}
#endif

/*
 * The request is whole, or nobody reads its body. `is_last`: nothing more of this connection was read, so that in a drain
 * its reply is the last.
 */
static void handle(struct conn *conn, const struct plan *plan, struct slice body, bool keeps_alive,
                   bool is_last)
{
    struct worker *worker = conn->worker;
    const struct http1_head *head = &worker->head;
    pass_time(conn, head);
    if (conn->is_gone)
        return;
    struct turn *turn = line_join(conn);
    if (turn == NULL) {
        conn_break(conn);
        return;
    }
    (void)worker_now(worker);
    conn->is_handling = true;
    conn->has_more = !is_last;
    turn->now = stamp_of(worker, head);
    turn->door = plan->door;
    turn->minor = head->minor;
    turn->keeps_alive = keeps_alive;
    turn->is_head = slice_equals(head->method, SLICE("HEAD"));
    if (!keeps_alive)
        conn->phase = PHASE_LINGER;
    if (plan->route == NULL) {
        turn_error(turn, plan->status, plan->detail, SLICE(""), plan->extra);
    } else {
        struct request request = { turn, head, body, plan->rest };
        route_handle(plan, &request);
    }
    line_advance(conn);
    conn->is_handling = false;
}

/* Behind a body comes a head. */
static void begin_head(struct conn *conn)
{
    conn->phase = PHASE_HEAD;
    conn->parser = HTTP1_START;
}

/* Bytes of a body that go nowhere. Returns how many of `len` were used. */
static size_t skip(struct conn *conn, char *at, size_t len)
{
    if (conn->phase == PHASE_SKIP) {
        size_t used = len < conn->skip_left ? len : (size_t)conn->skip_left;
        conn->skip_left -= used;
        if (conn->skip_left == 0)
            begin_head(conn);
        return used;
    }
    size_t body_len;
    size_t used = len;
    enum chunked_result result = chunked_decode(&conn->chunked, at, len, &body_len, &used);
    if (result == CHUNKED_DONE)
        begin_head(conn);
    if (result == CHUNKED_BAD)
        refuse(conn, conn->chunked.status, conn->chunked.sentence);
    return used;
}

/* A head is whole: decide what becomes of its body. Returns how many bytes are done with. */
static size_t begin_request(struct conn *conn, char *at, size_t len)
{
    const struct http1_head *head = &conn->worker->head;
    bool has_body = head->is_chunked || head->content_length > 0;
    struct plan plan;
    route_plan(conn, head, &plan);
    conn->parser = HTTP1_START;
    if (head->content_length > CHECK_BODY_MAX) {
        refuse(conn, 413, "the body is larger than 1 MiB");
        return len;
    }
    if (head->is_chunked)
        chunked_init(&conn->chunked, CHECK_BODY_MAX);

    if (!plan.wants_body || !has_body) {
        /* Who waits for `100 Continue` may or may not send the body after a final answer: only an end is clear. */
        bool keeps_alive = head->keeps_alive && !(has_body && head->expects_continue);
        bool is_last = !head->is_chunked && len - head->len <= head->content_length;
        handle(conn, &plan, SLICE(""), keeps_alive, is_last);
        conn->skip_left = head->content_length;
        if (has_body && conn->phase == PHASE_HEAD)
            conn->phase = head->is_chunked ? PHASE_SKIP_CHUNKS : PHASE_SKIP;
        return head->len;
    }
    if (!head->is_chunked && len - head->len >= head->content_length) {
        size_t body_len = (size_t)head->content_length;
        size_t used = head->len + body_len;
        handle(conn, &plan, (struct slice){ at + head->len, body_len }, head->keeps_alive, used == len);
        return used;
    }
    conn->phase = head->is_chunked ? PHASE_CHUNKS : PHASE_BODY;
    conn->need = head->len + (size_t)head->content_length;
    conn->head_len = head->len;
    conn->body_len = 0;
    conn->since = conn->worker->second;
    conn->owes_continue = head->expects_continue && len == head->len;
    return 0;
}

/* The body of a request is whole: its head is read again, since it may have moved meanwhile. `is_last` as for handle(). */
static void end_request(struct conn *conn, const char *at, size_t body_len, bool is_last)
{
    struct http1_parser parser = HTTP1_START;
    struct plan plan;
    enum http1_result result = http1_parse(&parser, at, conn->head_len, &conn->worker->head);
    assert(result == HTTP1_DONE);
    route_plan(conn, &conn->worker->head, &plan);
    begin_head(conn);
    conn->owes_continue = false;
    handle(conn, &plan, (struct slice){ at + conn->head_len, body_len }, conn->worker->head.keeps_alive,
           is_last);
}

/* Take the coding off what is new, in place. Returns how many bytes are done with; *len shrinks by what vanished. */
static size_t read_chunks(struct conn *conn, char *at, size_t *len)
{
    size_t whole = conn->head_len + conn->body_len;
    size_t decoded = 0;
    size_t used = 0;
    enum chunked_result result = chunked_decode(&conn->chunked, at + whole, *len - whole, &decoded, &used);
    conn->body_len += decoded;
    switch (result) {
    case CHUNKED_MORE:
        *len = whole + decoded;
        return 0;
    case CHUNKED_DONE:
        end_request(conn, at, conn->body_len, whole + used == *len);
        return whole + used;
    default:
        refuse(conn, conn->chunked.status, conn->chunked.sentence);
        return *len;
    }
}

static size_t read_head(struct conn *conn, char *at, size_t len)
{
    struct http1_head *head = &conn->worker->head;
    switch (http1_parse(&conn->parser, at, len, head)) {
    case HTTP1_MORE:
        return 0;
    case HTTP1_DONE:
        return begin_request(conn, at, len);
    default:
        refuse(conn, head->status, head->sentence);
        return len;
    }
}

/* One step on the bytes of one request; 0: more are needed. */
static size_t read_step(struct conn *conn, char *at, size_t *len)
{
    switch (conn->phase) {
    case PHASE_HEAD:
        return read_head(conn, at, *len);
    case PHASE_BODY:
        if (*len < conn->need)
            return 0;
        end_request(conn, at, conn->need - conn->head_len, *len == conn->need);
        return conn->need;
    case PHASE_CHUNKS:
        return read_chunks(conn, at, len);
    case PHASE_SKIP:
    case PHASE_SKIP_CHUNKS:
        return skip(conn, at, *len);
    default:
        return *len;
    }
}

/* Serve as many requests as the bytes hold and the line has room for. Returns how many bytes are done with. */
static size_t consume(struct conn *conn, char *at, size_t *len)
{
    size_t used = 0;
    while (used < *len && may_parse(conn)) {
        size_t left = *len - used;
        enum phase phase = conn->phase;
        size_t step = read_step(conn, at + used, &left);
        *len = used + left;
        used += step;
        if (step == 0 && conn->phase == phase)
            break;
    }
    return used;
}

/* Keep the `len` bytes at `at`, which lie in the connection's own input or else in the worker's. */
static void keep_rest(struct conn *conn, const char *at, size_t len, bool is_own)
{
    if (len == 0 || conn->is_gone) {
        forget_input(conn);
        return;
    }
    if (is_own) {
        memmove(conn->in, at, len);
    } else if (!grow_input(conn, len)) {
        log_event(LOG_WARN, "input_full", "bytes=%zu", conn->worker->kept);
        refuse(conn, 503, "too many requests are incomplete at once; try again");
        return;
    } else {
        memcpy(conn->in, at, len);
    }
    conn->in_len = len;
}

static void serve(struct conn *conn, char *at, size_t len)
{
    bool is_own = at == conn->in;
    size_t used = consume(conn, at, &len);
    keep_rest(conn, at + used, len - used, is_own);
    if (used > 0 || !is_own)
        conn->since = conn->worker->second;
    if (may_parse(conn) || conn->phase == PHASE_LINGER)
        stream_resume(&conn->stream);
    else if (!conn->is_gone)
        stream_pause(&conn->stream);
}

/* ---- Events ---------------------------------------------------------------------------------------------- */

static void on_read(struct stream *stream, size_t len)
{
    struct conn *conn = (struct conn *)stream;
    if (conn->phase == PHASE_LINGER)
        return;
    conn_enter(conn);
    if (conn->in_len == 0)
        serve(conn, conn->worker->input, len);
    else
        serve(conn, conn->in, conn->in_len += len);
    conn_leave(conn);
}

void conn_poke(struct conn *conn)
{
    if (conn->is_gone) {
        if (conn->is_closed && conn->asks_pending == 0)
            conn_free(conn);
        return;
    }
    conn_enter(conn);
    line_advance(conn);
    if (conn->in_len > 0 && conn->phase != PHASE_LINGER)
        serve(conn, conn->in, conn->in_len);
    else if (may_parse(conn))
        stream_resume(&conn->stream);
    conn_leave(conn);
}

static void on_sent(struct stream *stream)
{
    struct conn *conn = (struct conn *)stream;
    conn->since = conn->worker->second;
    conn_poke(conn);
}

/*
 * The peer finished sending. Replies that are on their way are still sent; a decision that is not made yet is
 * cancelled, because a peer that has hung up looks the same, and nobody should wait in its place.
 */
static void on_ended(struct stream *stream, int status)
{
    struct conn *conn = (struct conn *)stream;
    if (status != 0 || conn->asks_pending > 0) {
        conn_break(conn);
        return;
    }
    conn->has_ended = true;
    conn_enter(conn);
    conn_leave(conn);
}

static const struct stream_events events = {
    .room = on_room,
    .read = on_read,
    .ended = on_ended,
    .sent = on_sent,
    .closed = on_closed,
};

/* ---- Times ----------------------------------------------------------------------------------------------- */

/* The seconds that the connection may spend on what it is waiting for; 0: as long as the decider needs. */
static unsigned patience(const struct conn *conn)
{
    if (conn->stream.unsent > 0)
        return UNREAD_SECONDS;
    if (conn->first != NULL)
        return 0;
    switch (conn->phase) {
    case PHASE_HEAD:
        return conn->in_len > 0 ? HEAD_SECONDS : IDLE_SECONDS;
    case PHASE_LINGER:
        return LINGER_SECONDS;
    default:
        return BODY_SECONDS;
    }
}

void conn_check_time(struct conn *conn)
{
    unsigned seconds = patience(conn);
    if (conn->asks_pending > 0 && stream_has_hung_up(&conn->stream)) {
        conn_break(conn);
        return;
    }
    size_t queued = stream_queued(&conn->stream);
    if (queued != conn->queued_seen) { /* the peer reads, if slowly */
        conn->queued_seen = queued;
        conn->since = conn->worker->second;
    }
    if (conn->is_gone || seconds == 0 || conn->worker->second - conn->since <= seconds)
        return;
    bool is_partial = conn->first == NULL && conn->stream.unsent == 0 && conn->phase != PHASE_LINGER
                      && (conn->phase != PHASE_HEAD || conn->in_len > 0);
    if (!is_partial) {
        conn_break(conn);
        return;
    }
    conn_enter(conn);
    refuse(conn, 408, "the request did not arrive in time");
    forget_input(conn);
    conn_leave(conn);
}
