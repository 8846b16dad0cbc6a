// SPDX-License-Identifier: Apache-2.0
/*
 * stream.h - a connection as a pair of byte streams, on one libuv loop.
 *
 * Reading: the owner says where the next bytes go, so the common request is parsed where the kernel put it, in a
 * buffer that all connections of a loop share. Writing: one uv_try_write of everything a turn of the loop produced;
 * only what the socket does not take is copied and queued. So a request costs one read and one write.
 *
 * A stream is embedded in its owner and lives until events->closed. No event comes after stream_close() but closed.
 *
 * TLS sits between the socket and these events: the owner sees plain bytes only, from events->secured on. What a peer can
 * make us keep is bounded: what one read of the socket brought, and what its answers to that may need. A connection that
 * ends without the peer having said so is broken, not ended.
 */
#ifndef WEIR_IO_STREAM_H
#define WEIR_IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/bytes.h"

struct stream;
struct tls_context;

struct stream_events {
    /* Where the next bytes go; size 0 ends the stream with UV_ENOBUFS. */
    void (*room)(struct stream *stream, char **at, size_t *size);
    /* `len` bytes, at least one, now lie where room() said. */
    void (*read)(struct stream *stream, size_t len);
    /* The peer sends no more (status 0), or the connection broke (a libuv error; see stream_why()): also after a 0, when
       what is sent cannot leave. */
    void (*ended)(struct stream *stream, int status);
    /* Everything queued has left. Comes only after stream_send() left something unsent. */
    void (*sent)(struct stream *stream);
    /* TLS: the handshake is over, bytes may be sent. May be NULL. */
    void (*secured)(struct stream *stream);
    /* The stream's memory is the owner's again. */
    void (*closed)(struct stream *stream);
};

struct stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    const struct stream_events *events;
    struct secure *secure; /* of TLS, NULL: plain */
    size_t unsent;         /* bytes queued */
    bool is_reading, is_closing;
    bool owes_sent; /* events->sent */
};

/* Take over a connected socket and start reading. Returns 0, or a libuv error: the socket is closed then, and closed
   comes later all the same. */
int stream_open(struct stream *stream, uv_loop_t *loop, int fd, bool is_unix,
                const struct stream_events *events);

/*
 * The same, and shake hands within `timeout_ms`; the context is borrowed during the call. `host`, of a client: the name or
 * address that the server must prove.
 */
int stream_open_tls(struct stream *stream, uv_loop_t *loop, int fd, bool is_unix,
                    const struct stream_events *events, const struct tls_context *context, const char *host,
                    unsigned timeout_ms);

/* Of a server, once it is open: what is spoken, as tls_session_speaks(). Nothing without TLS. */
void stream_speaks(struct stream *stream, const char *protocol);

/*
 * Speak TLS from here on over a stream that was plain: it was read up to `came`, bytes of the handshake, which are copied. Within
 * an event of the stream. `protocol` as for stream_speaks(), or NULL. Returns 0, or a libuv error: close it. events->ended may have come by then.
 */
int stream_secure(struct stream *stream, const struct tls_context *context, const char *protocol,
                  struct slice came, unsigned timeout_ms);

/* The subject of its verified certificate, as tls_peer_subject(); 0 where it is plain. */
size_t stream_subject(const struct stream *stream, char *out, size_t cap);

/* What TLS says of a connection that broke, or NULL. Lives as long as the stream. */
const char *stream_why(const struct stream *stream);

/*
 * Send bytes, which are borrowed during the call. Of those that the socket does not take at once `room` may wait.
 * False when that is too little, the connection is broken, its TLS handshake not over or memory out: close it, some may
 * have left.
 */
bool stream_send(struct stream *stream, const void *bytes, size_t len, size_t room);

/* Bytes that wait to leave (encrypted, with TLS), as the socket takes them: falls while a slow peer reads. */
size_t stream_queued(const struct stream *stream);

/* Stop and go on reading: back-pressure. Both may be repeated. */
void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);

/* Whether nobody reads the stream and its peer has finished sending, or the connection broke: no event tells of it. */
bool stream_has_hung_up(const struct stream *stream);

/* Say that no more will be sent, once everything queued has left. Without memory for that nothing is said. */
void stream_finish(struct stream *stream);

void stream_close(struct stream *stream);

#endif
