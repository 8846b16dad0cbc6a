// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_times.c - how long an HTTP/2 connection may take over things, and how it ends.
 *
 * The preface, a frame and a head have HEAD_SECONDS, a message BODY_SECONDS, an answer that its reader's windows hold up
 * UNREAD_SECONDS. Streams that are open and silent because they watch, or wait for their turn, may be so for ever: whether somebody is
 * still there a PING asks.
 *
 * A drain: health says NOT_SERVING, a first GOAWAY asks for no new calls, and when those that were on their way must have come
 * (our PING came back, or a second passed) a last one says which were the last. Calls that wait are finished, or told by the worker
 * when it ends.
 */
#include "net/grpc.h"
#include "net/worker.h"

/* Seconds for calls that were on their way when the drain began. */
#define DRAIN_NOTICE_SECONDS 1

static bool is_over(uint64_t second, uint64_t since, uint64_t seconds)
{
    return second - since > seconds;
}

static void reset(const struct grpc_call *call, uint32_t code)
{
    (void)nghttp2_submit_rst_stream(call->conn->grpc->h2, 0, call->stream,
                                    code); /* no memory: the next second */
}

/* Calls that do not arrive, and answers that nobody reads. */
static void check_calls(struct grpc_session *session, uint64_t second)
{
    for (const struct grpc_call *call = session->calls; call != NULL; call = call->next) {
        bool is_unread = call->is_answered && call->done < call->len;
        if (!call->is_whole && !call->is_answered && is_over(second, call->since, BODY_SECONDS))
            reset(call, NGHTTP2_CANCEL);
        else if (is_unread && is_over(second, call->since, UNREAD_SECONDS))
            reset(call, NGHTTP2_CANCEL);
    }
}

static bool ping(struct grpc_session *session)
{
    return nghttp2_submit_ping(session->h2, 0, NULL) == 0;
}

/* Whether the peer is there. */
static void check_silence(struct conn *conn, uint64_t second)
{
    struct grpc_session *session = conn->grpc;
    if (session->is_pinged && is_over(second, session->heard, GRPC_PING_SECONDS + GRPC_PONG_SECONDS))
        conn_break(conn);
    else if (!session->is_pinged && is_over(second, session->heard, GRPC_PING_SECONDS))
        session->is_pinged = ping(session);
    else if (session->call_count == 0 && is_over(second, session->called, GRPC_IDLE_SECONDS))
        grpc_end(conn, NGHTTP2_NO_ERROR, "idle");
}

void grpc_second(struct conn *conn)
{
    struct grpc_session *session = conn->grpc;
    uint64_t second = conn->worker->second;
    if (conn->phase == PHASE_LINGER)
        return;
    if (session == NULL) {
        if (is_over(second, conn->since, HEAD_SECONDS))
            conn_break(conn);
        return;
    }
    if (grpc_guard_is_half(&session->guard) && is_over(second, session->guard.half_since, HEAD_SECONDS))
        grpc_end(conn, NGHTTP2_ENHANCE_YOUR_CALM, "too_slow");
    else
        check_calls(session, second);
    if (!conn->is_gone)
        check_silence(conn, second);
    if (!conn->is_gone && (conn->worker->is_draining || nghttp2_session_want_write(session->h2)))
        worker_mark(conn->worker, conn);
}

/* ---- The end ------------------------------------------------------------------------------------------------------------- */

static void finish_watches(struct grpc_session *session)
{
    for (struct grpc_call *call = session->calls; call != NULL; call = call->next)
        if (call->is_stream)
            grpc_finish(call, GRPC_UNAVAILABLE, "the server ends");
}

static void say_last(struct grpc_session *session)
{
    static const char reason[] = "draining";
    (void)nghttp2_submit_goaway(session->h2, 0, nghttp2_session_get_last_proc_stream_id(session->h2),
                                NGHTTP2_NO_ERROR, (const uint8_t *)reason,
                                sizeof reason - 1); /* no memory: the end of the connection says it */
    finish_watches(session);
}

bool grpc_drain(struct conn *conn)
{
    struct grpc_session *session = conn->grpc;
    uint64_t second = conn->worker->second;
    if (session->drain == DRAIN_NONE) {
        session->drain = DRAIN_NOTICED;
        session->drain_since = second;
        grpc_health_tell(conn);
        (void)nghttp2_submit_shutdown_notice(session->h2); /* no memory: as above */
        session->is_pinged = ping(session);
    } else if (session->drain == DRAIN_NOTICED
               && (!session->is_pinged || is_over(second, session->drain_since, DRAIN_NOTICE_SECONDS))) {
        session->drain = DRAIN_AWAY;
        say_last(session);
    }
    return session->drain == DRAIN_AWAY;
}
