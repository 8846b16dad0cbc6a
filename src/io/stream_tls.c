// SPDX-License-Identifier: Apache-2.0
/*
 * stream_tls.c - a session between the socket and the events of a stream; see stream.h and tls.h.
 *
 * What the socket brings lies in one buffer of the thread while it is decrypted: libuv asks for room, reads and tells of it
 * in one go. A record is decrypted to where the owner wants it. When the owner pauses in the middle, what is left is
 * copied, and the socket is not read until it is used up; that is told from the loop, never within stream_resume().
 *
 * One timer serves both: until the handshake is over it is its limit, later it brings what was left.
 */
#include "io/stream_tls.h"

#include <stdlib.h>

#include "io/tls.h"

/* Two full records, so that one read of the socket is one or two of them. */
#define CIPHER_MAX ((size_t)34 << 10)

/* What may wait to leave of answers that the peer provokes (the handshake, changes of key). */
#define ANSWERS_MAX ((size_t)64 << 10)

/* A record of 16 KiB has at most this much more; the last one and an alert, too. */
#define RECORD_LEN ((size_t)16 << 10)
#define RECORD_MORE 64

struct secure {
    struct tls_session *session;
    uv_timer_t timer;
    const char *why; /* where the session does not say */
    size_t answers;  /* bytes of answers in what waits to leave */
    bool is_shaken;  /* the handshake is over */
    bool is_over;    /* the peer sends no more, or it broke: that was told */
    bool is_broken;
    bool reads_socket;
    bool is_pumping;
};

static _Thread_local char cipher[CIPHER_MAX];

static void on_timer(uv_timer_t *timer);

/* ---- The socket ---------------------------------------------------------------------------------------------------- */

/* Read the socket while the peer must be heard: for the handshake, and when the owner wants bytes and none are left. */
static void set_reading(struct stream *stream)
{
    struct secure *secure = stream->secure;
    bool wants =
        !secure->is_over && (!secure->is_shaken || (stream->is_reading && !tls_has_more(secure->session)));
    if (wants == secure->reads_socket || stream->is_closing)
        return;
    if (!wants)
        (void)uv_read_stop(&stream->uv.stream); /* always 0 */
    secure->reads_socket = wants && stream_read_start(stream) == 0;
}

/* Send what the session wants to say beside what the owner sends. False: too much of it waits, or the connection broke. */
static bool send_answers(struct stream *stream)
{
    struct secure *secure = stream->secure;
    struct slice out = tls_outgoing(secure->session);
    if (out.len == 0)
        return true;
    if (stream->unsent == 0)
        secure->answers = 0;
    bool is_sent = secure->answers + out.len <= ANSWERS_MAX && stream_put(stream, out.at, out.len, ANSWERS_MAX);
    secure->answers += out.len;
    tls_left(secure->session);
    return is_sent;
}

/* Nothing more comes: tell the owner, once; of a fault also after the peer's own end. */
static void end(struct stream *stream, int status, const char *why)
{
    struct secure *secure = stream->secure;
    if (secure->is_broken || stream->is_closing || (secure->is_over && status == 0))
        return;
    secure->is_over = true;
    secure->is_broken = status != 0;
    secure->why = why;
    (void)uv_timer_stop(&secure->timer); /* always 0 */
    set_reading(stream);
    stream->events->ended(stream, status);
}

static void break_off(struct stream *stream)
{
    (void)send_answers(stream); /* an alert; it is over either way */
    end(stream, UV_EPROTO, NULL);
}

/* ---- From the peer to the owner ------------------------------------------------------------------------------------- */

/* Whether the handshake is over now. */
static bool shake(struct stream *stream)
{
    struct secure *secure = stream->secure;
    enum tls_result result = tls_shake(secure->session);
    if (result == TLS_BROKEN) {
        break_off(stream);
    } else if (!send_answers(stream)) {
        end(stream, UV_ECONNABORTED, "TLS: the handshake could not be sent");
    } else if (result == TLS_DONE) {
        secure->is_shaken = true;
        (void)uv_timer_stop(&secure->timer); /* always 0 */
        if (stream->events->secured != NULL)
            stream->events->secured(stream);
    }
    return secure->is_shaken;
}

/* One piece of what was decrypted. False: there is none, or no more is to come. */
static bool deliver(struct stream *stream)
{
    struct secure *secure = stream->secure;
    char *at = NULL;
    size_t size = 0, len = 0;
    stream->events->room(stream, &at, &size);
    if (size == 0) {
        end(stream, UV_ENOBUFS, NULL);
        return false;
    }
    switch (tls_read(secure->session, at, size, &len)) {
    case TLS_DONE:
        stream->events->read(stream, len);
        return true;
    case TLS_WAITS:
        if (!send_answers(stream))
            end(stream, UV_ECONNABORTED, "TLS: the peer asks more than it reads");
        return false;
    case TLS_ENDED:
        end(stream, 0, NULL);
        return false;
    case TLS_BROKEN:
        break_off(stream);
        return false;
    }
    return false;
}

/* Bring the owner all that it wants of what there is. */
static void pump(struct stream *stream)
{
    struct secure *secure = stream->secure;
    if (secure->is_pumping)
        return;
    secure->is_pumping = true;
    bool goes_on = secure->is_shaken || shake(stream);
    while (goes_on && stream->is_reading && !stream->is_closing && !secure->is_over)
        goes_on = deliver(stream);
    secure->is_pumping = false;
    if (stream->is_closing || secure->is_over)
        tls_give(secure->session, (struct slice){ NULL, 0 }); /* nobody wants the rest */
    else if (!tls_keep(secure->session))
        end(stream, UV_ENOMEM, NULL);
    set_reading(stream);
}

static void on_timer(uv_timer_t *timer)
{
    struct stream *stream = timer->data;
    if (stream->secure->is_shaken)
        pump(stream);
    else
        end(stream, UV_ETIMEDOUT, "TLS: the handshake took too long");
}

void secure_room(char **at, size_t *size)
{
    *at = cipher;
    *size = sizeof cipher;
}

void secure_read(struct stream *stream, const char *at, ssize_t len)
{
    struct secure *secure = stream->secure;
    if (len > 0) {
        tls_give(secure->session, (struct slice){ at, (size_t)len });
        pump(stream);
    } else if (len == UV_EOF) {
        end(stream, UV_ECONNABORTED,
            secure->is_shaken ? "TLS: the connection was cut"
                              : "TLS: it closed the connection in the handshake");
    } else if (len < 0) {
        end(stream, (int)len, NULL);
    }
}

void secure_break(struct stream *stream, int status)
{
    end(stream, status, NULL);
}

void secure_pause(struct stream *stream)
{
    if (!stream->secure->is_pumping)
        set_reading(stream);
}

void secure_resume(struct stream *stream)
{
    struct secure *secure = stream->secure;
    if (secure->is_pumping || !secure->is_shaken)
        return; /* it is looked at where that ends */
    if (tls_has_more(secure->session) && !secure->is_over)
        (void)uv_timer_start(&secure->timer, on_timer, 0, 0); /* always 0 */
    set_reading(stream);
}

/* ---- From the owner to the peer --------------------------------------------------------------------------------------- */

bool secure_send(struct stream *stream, const void *bytes, size_t len, size_t room)
{
    struct secure *secure = stream->secure;
    if (!secure->is_shaken || !tls_write(secure->session, bytes, len))
        return false;
    struct slice out = tls_outgoing(secure->session);
    size_t more = (len / RECORD_LEN + 2) * RECORD_MORE;
    bool is_sent = stream_put(stream, out.at, out.len, room + more);
    tls_left(secure->session);
    return is_sent;
}

void secure_finish(struct stream *stream)
{
    tls_finish(stream->secure->session);
    (void)send_answers(stream); /* a peer that does not take it has gone */
}

const char *secure_why(const struct stream *stream)
{
    const struct secure *secure = stream->secure;
    const char *why = secure->why == NULL ? tls_why(secure->session) : secure->why;
    return why[0] == '\0' ? NULL : why;
}

size_t secure_subject(const struct stream *stream, char *out, size_t cap)
{
    return tls_peer_subject(stream->secure->session, out, cap);
}

/* ---- Its life --------------------------------------------------------------------------------------------------------- */

/* A client speaks first. */
int secure_open(struct stream *stream, const struct tls_context *context, const char *host, unsigned timeout_ms)
{
    struct secure *secure = calloc(1, sizeof *secure);
    if (secure == NULL)
        return UV_ENOMEM;
    secure->session = tls_session_new(context, host);
    if (secure->session == NULL) {
        free(secure);
        return UV_ENOMEM;
    }
    (void)uv_timer_init(stream->uv.handle.loop, &secure->timer); /* both always 0 */
    (void)uv_timer_start(&secure->timer, on_timer, timeout_ms, 0);
    secure->timer.data = stream;
    secure->reads_socket = true; /* by stream_open_tls() */
    stream->secure = secure;
    return tls_shake(secure->session) != TLS_BROKEN && send_answers(stream) ? 0 : UV_EPROTO;
}

void secure_speaks(struct stream *stream, const char *protocol)
{
    tls_session_speaks(stream->secure->session, protocol);
}

int secure_begin(struct stream *stream, struct slice came)
{
    struct secure *secure = stream->secure;
    tls_give(secure->session, came);
    if (!tls_keep(secure->session))
        return UV_ENOMEM;
    secure->is_pumping = true; /* what the owner hears meanwhile is the end at most */
    bool is_shaken = shake(stream);
    secure->is_pumping = false;
    if (is_shaken && tls_has_more(secure->session))
        (void)uv_timer_start(&secure->timer, on_timer, 0, 0); /* always 0 */
    set_reading(stream);
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct stream *stream = handle->data;
    struct secure *secure = stream->secure;
    stream->secure = NULL;
    tls_session_free(secure->session);
    free(secure);
    stream->events->closed(stream);
}

void secure_close(struct stream *stream)
{
    uv_close((uv_handle_t *)&stream->secure->timer, on_timer_closed);
}
