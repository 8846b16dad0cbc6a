// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_h2.c - any bytes as an HTTP/2 client of the gRPC door, at any pace: nothing is left behind, nothing grows beyond its bounds,
 * and what is sent is whole frames.
 *
 * The way is the door's from the bytes of a read to the bytes of a write: grpc_guard.c, nghttp2, calls, replies, times and the drain.
 * Deciding is faked here (rls.h): it answers at once, later or never, as a byte of each message says. The clock is the input's.
 *
 * Input: a byte of flags (1: the preface is said for it), then pieces: a length and so many bytes; behind a length of 0 a byte that
 * lets seconds pass (its lower 6 bits), answers one that waits (64) or begins a drain (128).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/grpc.h"
#include "net/rls.h"
#include "net/worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Longest input that is looked at: its answers fit the worker's output. */
#define INPUT_MAX ((size_t)16 << 10)
#define OUTPUT_MAX ((size_t)16 << 20)

static struct server server;
static struct worker worker = { .server = &server };
static struct conn *conn;
static bool is_closed;
static size_t sent_left; /* of the frame that is being sent */
static unsigned char sent_head[9];
static size_t sent_head_len;

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* ---- Deciding ---------------------------------------------------------------------------------------------------------- */

static struct rls_call room;
static char text_room[RLS_ANSWER_MAX];
static struct turn *late[4096];
static rls_done *late_done[4096];
static size_t late_count;

struct rls_call *rls_room(struct worker *at)
{
    return at == &worker ? &room : NULL;
}

char *rls_text_room(struct worker *at)
{
    return at == &worker ? text_room : NULL;
}

void rls_desk_free(struct rls_desk *desk)
{
    require(desk == NULL);
}

static void answer(struct turn *turn, rls_done *done, unsigned how)
{
    static struct rls_answer found;
    found = (struct rls_answer){ .overall = how % 2 == 0 ? RLS_OK : RLS_OVER_LIMIT, .count = 1 + how % 3 };
    for (size_t i = 0; i < found.count; i++)
        found.statuses[i] = (struct rls_status){ .code = RLS_OK, .name = SLICE("a name") };
    if (turn->is_dropped)
        turn_forget(turn);
    else
        done(turn, how % 5 == 4 ? RLS_UNDECIDED : RLS_ANSWERED, how % 5 == 4 ? "\xc3\xa4 why %" : NULL, &found);
}

void rls_start(struct turn *turn, const struct rls_call *call, weir_ns wait, rls_done *done)
{
    unsigned how = call->domain.len > 0 ? (unsigned char)call->domain.at[0] : 0;
    (void)wait;
    if (how % 4 < 2 || late_count == sizeof late / sizeof *late) {
        answer(turn, done, how);
        return;
    }
    conn->asks_pending++;
    late[late_count] = turn;
    late_done[late_count++] = done;
}

static void answer_late(size_t i, unsigned how)
{
    struct turn *turn = late[i];
    rls_done *done = late_done[i];
    late[i] = late[--late_count];
    late_done[i] = late_done[late_count];
    conn->asks_pending--;
    if (conn->is_gone)
        turn->is_done = true;
    else
        answer(turn, done, how);
}

/* Half of those that are taken back end at once, the others later. */
void rls_cancel(struct turn *turn)
{
    for (size_t i = 0; i < late_count; i++) {
        if (late[i] == turn && i % 2 == 0) {
            answer_late(i, 0);
            return;
        }
    }
}

/* ---- The connection ------------------------------------------------------------------------------------------------------ */

/* Frames of what leaves: none is longer than any client must take. */
static void see_sent(const unsigned char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (sent_left > 0) {
            size_t step = sent_left < len - i ? sent_left : len - i;
            sent_left -= step;
            i += step - 1;
            continue;
        }
        sent_head[sent_head_len++] = at[i];
        if (sent_head_len < sizeof sent_head)
            continue;
        sent_head_len = 0;
        sent_left = (size_t)sent_head[0] << 16 | (size_t)sent_head[1] << 8 | sent_head[2];
        require(sent_left <= 16384 && sent_head[3] <= 9);
    }
}

static void leave(void)
{
    line_advance(conn);
    (void)conn->protocol->leave(conn);
    see_sent((const unsigned char *)worker.out.at, worker.out.len);
    worker.out.len = 0;
    conn->is_active = false;
    require(worker.held + worker.kept <= WORKER_KEPT_MAX && conn->turn_count <= GRPC_TURNS_MAX + INPUT_MAX);
    require(conn->grpc == NULL
            || (conn->grpc->pending <= GRPC_PENDING_MAX && conn->grpc->call_count <= GRPC_STREAMS_MAX));
}

static void feed(const uint8_t *at, size_t len)
{
    char *copy = malloc(len + 1); /* what is read beyond it is seen */
    require(copy != NULL);
    memcpy(copy, at, len);
    conn_enter(conn);
    if (conn->phase != PHASE_LINGER)
        require(conn->protocol->step(conn, copy, &len) == len);
    free(copy);
    leave();
}

static void pass(unsigned op)
{
    conn_enter(conn);
    worker.is_draining = worker.is_draining || (op & 128) != 0;
    server.is_draining = worker.is_draining;
    if ((op & 64) != 0 && late_count > 0)
        answer_late(op % late_count, op);
    for (unsigned i = 0; i < (op & 63) && !conn->is_gone; i++) {
        worker.second++;
        conn->protocol->second(conn);
    }
    leave();
}

static void on_closed(struct stream *stream)
{
    (void)stream;
    is_closed = true;
}

static void on_ended(struct stream *stream, int status)
{
    (void)stream, (void)status;
}

static const struct stream_events events = { .closed = on_closed, .ended = on_ended };

static void prepare(void)
{
    require(uv_loop_init(&worker.loop) == 0);
    worker.out = text_of(malloc(OUTPUT_MAX), OUTPUT_MAX);
    worker.aside = text_of(malloc(ANSWER_MAX), ANSWER_MAX);
    require(worker.out.at != NULL && worker.aside.at != NULL);
}

static void begin(void)
{
    int ends[2];
    conn = calloc(1, sizeof *conn);
    require(conn != NULL && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    (void)close(ends[1]); /* nothing is sent there */
    conn->protocol = &protocol_grpc;
    conn->worker = &worker;
    conn->role = ROLE_CHECK;
    is_closed = false;
    worker.is_draining = server.is_draining = false;
    late_count = sent_left = sent_head_len = 0;
    require(stream_open(&conn->stream, &worker.loop, ends[0], true, &events) == 0);
    stream_pause(&conn->stream);
}

static void end(void)
{
    conn->is_gone = true;
    stream_close(&conn->stream);
    while (!is_closed)
        (void)uv_run(&worker.loop, UV_RUN_NOWAIT);
    while (late_count > 0)
        answer_late(0, 0);
    worker.dirty = NULL;
    line_clear(conn);
    conn->protocol->free(conn);
    require(worker.call_count == 0 && worker.kept == 0 && worker.held == 0 && worker.unsent == 0);
    free(conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    if (size == 0 || size > INPUT_MAX)
        return 0;
    if (worker.out.at == NULL)
        prepare();
    begin();
    if ((data[0] & 1) != 0)
        feed((const uint8_t *)preface, sizeof preface);
    for (size_t at = 1; at < size && !conn->is_gone;) {
        size_t len = data[at++];
        if (len == 0 && at < size) {
            pass(data[at++]);
            continue;
        }
        len = len < size - at ? len : size - at;
        feed(data + at, len);
        at += len;
    }
    end();
    return 0;
}
