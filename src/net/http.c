// SPDX-License-Identifier: Apache-2.0
/*
 * http.c - bytes of a connection become HTTP requests.
 *
 * Idea: a request is handled when its body is whole (or, where nobody reads the body, at its head), so a
 * request that never completes charges nothing.
 */
#include <assert.h>

#include "net/worker.h"

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
    conn->since = conn->worker->second;
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
        conn_refuse(conn, conn->chunked.status, conn->chunked.sentence);
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
        conn_refuse(conn, 413, "the body is larger than 1 MiB");
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
        conn_refuse(conn, conn->chunked.status, conn->chunked.sentence);
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
        conn_refuse(conn, head->status, head->sentence);
        return len;
    }
}

/* One step on the bytes of one request; 0: more are needed. */
size_t http_step(struct conn *conn, char *at, size_t *len)
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
