// SPDX-License-Identifier: Apache-2.0
/*
 * conn.c - the life of a connection: its input, its times, its end.
 *
 * Idea: requests are parsed where the worker reads them, as many as one read brought, and answered with one write.
 * Only what is incomplete is copied into memory of the connection, and that memory is bounded, for one connection
 * and for all.
 *
 * After an error whose end is unknown, and after a reply that ends the connection, we finish our side and
 * discard what still comes, so that the peer reads the reply before it sees the connection end.
 *
 * Elsewhere: what the bytes say (http.c), when replies leave (line.c).
 */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/arrival.h"
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
    bool may_end = conn->protocol->leave == NULL || conn->protocol->leave(conn);
    line_flush(conn);
    conn->is_active = false;
    if (conn->is_gone || !is_idle(conn))
        return;
    if (conn->has_ended) {
        conn_break(conn);
        return;
    }
    if (conn->worker->is_draining && may_end && conn->phase == PHASE_HEAD && conn->in_len == 0)
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
    counter_add(&worker->counters.closed[conn->gate], 1);
    line_clear(conn);
    if (conn->protocol->free != NULL)
        conn->protocol->free(conn);
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
    arrival_end(conn);
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
    if (!arrival_begin(conn)) {
        (void)close(conn->fd);
        conn_free(conn);
        return;
    }
    if (conn_open_stream(conn, &events) != 0)
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
void conn_refuse(struct conn *conn, unsigned status, const char *sentence)
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
    return !conn->is_gone && conn->turn_count < conn->protocol->turns_max
           && conn->stream.unsent + conn->held < UNSENT_MAX;
}

/* Serve as many requests as the bytes hold and the line has room for. Returns how many bytes are done with. */
static size_t consume(struct conn *conn, char *at, size_t *len)
{
    size_t used = 0;
    while (used < *len && may_parse(conn)) {
        size_t left = *len - used;
        enum phase phase = conn->phase;
        size_t step = phase == PHASE_PROXY ? arrival_step(conn, at + used, left)
                                           : conn->protocol->step(conn, at + used, &left);
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
        if (conn->phase == PHASE_PROXY)
            conn_break(conn); /* nothing is spoken yet */
        else
            conn_refuse(conn, 503, "too many requests are incomplete at once; try again");
        return;
    } else {
        memcpy(conn->in, at, len);
    }
    conn->in_len = len;
}

/* Whether it is in the middle of what has a time as a whole, however little of it comes at once. What ends it sets the time. */
static bool waits_on(const struct conn *conn)
{
    return conn->phase == PHASE_PROXY || conn->phase == PHASE_SKIP || conn->phase == PHASE_SKIP_CHUNKS;
}

static void serve(struct conn *conn, char *at, size_t len)
{
    bool is_own = at == conn->in;
    bool was_waiting_on = waits_on(conn);
    size_t used = consume(conn, at, &len);
    keep_rest(conn, at + used, len - used, is_own);
    if (!was_waiting_on && (used > 0 || !is_own))
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

static void on_secured(struct stream *stream)
{
    struct conn *conn = (struct conn *)stream;
    conn->is_shaken = true;
    if (!arrival_secured(conn))
        conn_break(conn);
}

/* A client that is not trusted here, or speaks no TLS, sees a closed connection and no more: only we can say why. */
static void note_broken_handshake(const struct conn *conn)
{
    char quoted[LOG_QUOTED_MAX], peer[PEER_TEXT_MAX];
    if (!conn->has_tls || conn->is_shaken || conn->phase == PHASE_PROXY)
        return;
    const char *why = stream_why(&conn->stream);
    counter_add(&conn->worker->counters.handshakes_broken, 1);
    peer_format(&conn->peer, peer);
    log_event(LOG_WARN, "handshake_failed", "peer=%s reason=%s", peer,
              log_quote(why == NULL ? "it was cut off" : why, quoted));
}

/*
 * The peer finished sending. Replies that are on their way are still sent; a decision that is not made yet is
 * cancelled, because a peer that has hung up looks the same, and nobody should wait in its place.
 */
static void on_ended(struct stream *stream, int status)
{
    struct conn *conn = (struct conn *)stream;
    note_broken_handshake(conn);
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
    .secured = on_secured,
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
        return conn->in_len > 0 ? HEAD_SECONDS : conn->protocol->idle_seconds;
    case PHASE_LINGER:
        return LINGER_SECONDS;
    case PHASE_PROXY:
        return PROXY_HEADER_SECONDS;
    default:
        return BODY_SECONDS;
    }
}

void conn_check_time(struct conn *conn)
{
    if (conn->protocol->second != NULL && !conn->is_gone)
        conn->protocol->second(conn);
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
    if (conn->phase == PHASE_PROXY) {
        arrival_late(conn);
        return;
    }
    bool is_partial = conn->first == NULL && conn->stream.unsent == 0 && conn->phase != PHASE_LINGER
                      && (conn->phase != PHASE_HEAD || conn->in_len > 0);
    if (is_partial || conn->stream.unsent > 0)
        counter_add(&conn->worker->counters.refusals[REFUSAL_SLOW], 1);
    if (!is_partial) {
        conn_break(conn);
        return;
    }
    conn_enter(conn);
    conn_refuse(conn, 408, "the request did not arrive in time");
    forget_input(conn);
    conn_leave(conn);
}
