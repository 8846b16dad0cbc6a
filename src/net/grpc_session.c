// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_session.c - the library's side of a connection: what it tells us of frames, and what it wants to send.
 *
 * The library's own guard against streams that are taken back ends a connection after some 1,000 of them, which a client whose
 * deadlines pass sends in a slow second; it is put out of reach where it can be, and grpc_guard.c counts.
 */
#include <pthread.h>
#include <stdlib.h>

#include "net/grpc.h"
#include "net/log.h"
#include "net/worker.h"

/* The library's guards, beyond what grpc_guard.c lets pass in one turn. */
#define LIBRARY_BUDGET ((uint64_t)1 << 40)
#define LIBRARY_ACKS 10000

/* For all streams together: many small calls must not wait for WINDOW_UPDATE. */
#define WINDOW (1 << 20)

static nghttp2_session_callbacks *callbacks;
static nghttp2_option *options;
static pthread_once_t made_once = PTHREAD_ONCE_INIT;

/* ---- What the library tells ---------------------------------------------------------------------------------------- */

static struct grpc_call *call_of(nghttp2_session *h2, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(h2, stream);
}

/* After each: a connection that is gone stops the library. */
static int result_of(const struct grpc_session *session)
{
    return session->conn->is_gone ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static bool is_call(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
    struct grpc_session *session = user;
    if (!is_call(frame))
        return 0;
    struct grpc_call *call = grpc_call_new(session->conn, frame->hd.stream_id);
    if (call == NULL) {
        (void)nghttp2_submit_rst_stream(h2, 0, frame->hd.stream_id,
                                        NGHTTP2_REFUSED_STREAM); /* out of memory: it is closed with us */
        return 0;
    }
    return nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, call);
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct grpc_call *call = is_call(frame) ? call_of(h2, frame->hd.stream_id) : NULL;
    (void)flags, (void)user;
    if (call != NULL)
        grpc_call_field(call, (struct slice){ (const char *)name, name_len },
                        (struct slice){ (const char *)value, value_len });
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *at, size_t len,
                   void *user)
{
    struct grpc_call *call = call_of(h2, stream);
    (void)flags;
    if (call != NULL)
        grpc_call_bytes(call, at, len);
    return result_of(user);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
    struct grpc_session *session = user;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
        session->is_pinged = false;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct grpc_call *call = call_of(h2, frame->hd.stream_id);
    if (call != NULL && is_call(frame))
        grpc_call_head(call);
    if (call != NULL && !session->conn->is_gone && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        grpc_call_whole(call);
    return result_of(session);
}

/* An answer that came before the call was whole: the rest of it is not wanted. */
static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
    (void)user;
    if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    const struct grpc_call *call = call_of(h2, frame->hd.stream_id);
    if (call != NULL && !call->is_whole)
        (void)nghttp2_submit_rst_stream(h2, 0, frame->hd.stream_id, NGHTTP2_NO_ERROR); /* as above */
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t stream, uint32_t code, void *user)
{
    struct grpc_call *call = call_of(h2, stream);
    (void)code;
    if (call != NULL)
        grpc_call_close(call);
    return result_of(user);
}

/* ---- The session ----------------------------------------------------------------------------------------------------- */

/* Once for the process: both are only read afterwards. */
static void make(void)
{
    if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&options) != 0)
        return; /* no session can be made */
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_option_set_no_closed_streams(options, 1);
    nghttp2_option_set_max_outbound_ack(options, LIBRARY_ACKS);
#ifdef WEIR_NGHTTP2_RESET_BUDGET
    nghttp2_option_set_stream_reset_rate_limit(options, LIBRARY_BUDGET, LIBRARY_BUDGET);
#endif
#ifdef WEIR_NGHTTP2_CONTINUATIONS
    nghttp2_option_set_max_continuations(options, GUARD_CONTINUATIONS);
#endif
}

static bool begin(nghttp2_session *h2)
{
    static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEAD_MAX },
    };
    return nghttp2_submit_settings(h2, 0, settings, sizeof settings / sizeof *settings) == 0
           && nghttp2_session_set_local_window_size(h2, 0, 0, WINDOW) == 0;
}

bool grpc_session_open(struct conn *conn)
{
    (void)pthread_once(&made_once, make); /* always 0 */
    struct grpc_session *session = calloc(1, sizeof *session);
    if (session == NULL || callbacks == NULL || options == NULL
        || nghttp2_session_server_new2(&session->h2, callbacks, session, options) != 0) {
        free(session);
        return false;
    }
    uint64_t second = conn->worker->second;
    session->conn = conn;
    session->heard = second;
    session->called = second;
    grpc_guard_init(&session->guard, second);
    conn->grpc = session;
    return begin(session->h2);
}

void grpc_session_free(struct conn *conn)
{
    struct grpc_session *session = conn->grpc;
    if (session == NULL)
        return;
    while (session->calls != NULL)
        grpc_call_close(session->calls);
    nghttp2_session_del(session->h2);
    free(session);
    conn->grpc = NULL;
}

/* ---- Bytes -------------------------------------------------------------------------------------------------------------- */

void grpc_pump(struct conn *conn)
{
    nghttp2_session *h2 = conn->grpc->h2;
    const uint8_t *at;
    ssize_t len = 0;
    while (!conn->is_gone && conn->stream.unsent < UNSENT_MAX && (len = nghttp2_session_mem_send(h2, &at)) > 0)
        line_write(conn, (const char *)at, (size_t)len);
    if (!conn->is_gone && conn->stream.unsent < UNSENT_MAX && len < 0)
        conn_break(conn); /* out of memory */
    else if (!nghttp2_session_want_read(h2) && !nghttp2_session_want_write(h2))
        conn->phase = PHASE_LINGER; /* it has said its last */
}

static void take_back(struct conn *conn)
{
    for (struct grpc_call *call = conn->grpc->calls; call != NULL; call = call->next)
        if (call->turn != NULL)
            grpc_call_drop(call);
}

void grpc_end(struct conn *conn, uint32_t code, const char *reason)
{
    struct grpc_session *session = conn->grpc;
    if (session->is_ending || conn->is_gone)
        return;
    char quoted[LOG_QUOTED_MAX];
    if (code != NGHTTP2_NO_ERROR)
        log_event(LOG_WARN, "grpc_ended", "reason=%s", log_quote(reason, quoted));
    session->is_ending = true;
    int result = nghttp2_submit_goaway(session->h2, 0, nghttp2_session_get_last_proc_stream_id(session->h2),
                                       code, (const uint8_t *)reason, strlen(reason));
    take_back(conn);
    conn->phase = PHASE_LINGER;
    if (result != 0)
        conn_break(conn); /* out of memory */
}

static size_t grpc_step(struct conn *conn, char *at, size_t *len)
{
    if (conn->phase == PHASE_LINGER)
        return *len;
    if (conn->grpc == NULL && !grpc_session_open(conn)) {
        conn_break(conn);
        return *len;
    }
    struct grpc_session *session = conn->grpc;
    uint64_t second = conn->worker->second;
    session->heard = second;
    const char *reason = grpc_guard_see(&session->guard, at, *len, second);
    if (reason != NULL) {
        grpc_end(conn, NGHTTP2_ENHANCE_YOUR_CALM, reason);
        return *len;
    }
    ssize_t result = nghttp2_session_mem_recv(session->h2, (const uint8_t *)at, *len);
    if (result < 0 && !conn->is_gone)
        conn_break(conn); /* no HTTP/2, or out of memory; what breaks its rules was told with a GOAWAY */
    return *len;
}

/* ---- The protocol ------------------------------------------------------------------------------------------------------- */

/* Statuses of HTTP are those of gRPC, roughly: as the faults of all doors are told. */
static enum grpc_code code_of(unsigned status)
{
    switch (status) {
    case 400:
    case 413:
        return GRPC_INVALID_ARGUMENT;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 503:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_INTERNAL;
    }
}

static void write_error(struct turn *turn, unsigned status, const char *detail, struct slice field,
                        struct slice extra, struct text *out)
{
    (void)extra;
    if (turn->call != NULL)
        turn->call->code = (uint8_t)code_of(status);
    if (field.len > 0) {
        text_slice_add(out, field);
        text_literal(out, ": ");
    }
    text_string(out, detail);
}

static void write_body(struct turn *turn, unsigned status, struct slice content_type, struct slice body)
{
    (void)content_type;
    struct text *out = turn_begin(turn);
    text_slice_add(out, body);
    turn_end(turn, status, out);
}

static bool may_end(const struct turn *turn)
{
    (void)turn;
    return false; /* grpc_drain() sees to that */
}

static void write_kept(struct turn *turn, bool ends)
{
    (void)turn, (void)ends; /* it was taken when it was done */
}

static void refuse(struct conn *conn)
{
    if (conn->grpc == NULL)
        conn_break(conn);
    else
        grpc_end(conn, NGHTTP2_ENHANCE_YOUR_CALM, "too_much_unread");
}

static void take(struct turn *turn, const struct text *text)
{
    struct grpc_call *call = turn->call;
    if (call == NULL) { /* conn_refuse(): of the connection, and no call's */
        refuse(turn->conn);
        return;
    }
    turn->call = NULL;
    call->turn = NULL;
    if (call->code == GRPC_OK)
        grpc_reply(call, text_slice(text));
    else
        grpc_fail(call, call->code, text_slice(text));
}

static bool leave(struct conn *conn)
{
    if (conn->grpc == NULL || conn->is_gone)
        return true;
    bool may_go = !conn->worker->is_draining || grpc_drain(conn);
    grpc_pump(conn);
    return may_go && conn->grpc->call_count == 0;
}

const struct protocol protocol_grpc = {
    .step = grpc_step,
    .error = write_error,
    .body = write_body,
    .may_end = may_end,
    .write = write_kept,
    .turns_max = GRPC_TURNS_MAX,
    .alpn = "h2",
    .take = take,
    .leave = leave,
    .second = grpc_second,
    .free = grpc_session_free,
};
