// SPDX-License-Identifier: Apache-2.0
/*
 * grpc.h - the door that speaks gRPC over HTTP/2: what its files share.
 *
 * Idea: a stream is a call, and a call is a turn in its connection's line as any request is, so deciding, waiting, counting and
 * draining are those of every door. Only the order is none: a turn that is done leaves at once (`take` of struct protocol), and what
 * it says waits in its call until the library has made frames of it.
 *
 * nghttp2 does frames, header compression and flow control; what a peer may cost us is counted by grpc_guard.h. A call is read
 * field by field and nothing of its head is kept; its message is bounded before it is buffered.
 *
 * Files: grpc.c the protocol's side, grpc_session.c the library's; grpc_call.c heads and messages, grpc_reply.c answers,
 * grpc_times.c times and the end; grpc_ratelimit.c and grpc_health.c are the methods.
 */
#ifndef WEIR_NET_GRPC_H
#define WEIR_NET_GRPC_H

#include <nghttp2/nghttp2.h>

#include "net/conn.h"
#include "net/grpc_guard.h"
#include "wire/grpc.h"

/* Streams of one connection at once. */
#define GRPC_STREAMS_MAX 1024

/* Turns of one: those whose callers took them back, while they are still being decided, beside those that wait. */
#define GRPC_TURNS_MAX (2 * GRPC_STREAMS_MAX)

/* Calls of a worker, about a kilobyte each with what the library keeps of them. */
#define GRPC_CALLS_MAX 65536

/* A head: name, value and 32 of each field, as SETTINGS_MAX_HEADER_LIST_SIZE counts. */
#define GRPC_HEAD_MAX ((size_t)8 << 10)

/* Bytes of one connection's messages that have not arrived whole. */
#define GRPC_PENDING_MAX ((size_t)1 << 20)

/* Bytes of a message, or of an answer, that need no memory of their own. */
#define GRPC_ROOM 320

/* A connection that is silent for so many seconds is asked whether it is there; so many later without an answer it is not. One
   without any call for so long is sent away. */
#define GRPC_PING_SECONDS 60
#define GRPC_PONG_SECONDS 20
#define GRPC_IDLE_SECONDS 3600

struct grpc_method;

/* One stream. */
struct grpc_call {
    struct grpc_call *next, **link; /* of the connection's, or the worker's spare ones */
    struct conn *conn;
    struct turn *turn; /* while it is being decided */
    const struct grpc_method *method;
    int32_t stream;
    weir_ns timeout, wait; /* grpc-timeout; weir-wait-ms */
    weir_ns now;           /* test builds: Weir-Now */
    size_t head_len;       /* as GRPC_HEAD_MAX counts */
    uint64_t since;        /* the second in which it began, or its answer was made */
    uint8_t role;
    uint8_t code;   /* an enum grpc_code, of its trailers */
    uint16_t fault; /* an HTTP status in place of gRPC's */
    bool has_timeout, has_bad_timeout, has_bad_wait, has_encoding;
    bool is_post, is_grpc;   /* of its head */
    bool is_whole;           /* the peer sends no more of it */
    bool is_answered;        /* what it is told is known */
    bool is_stream, is_over; /* messages go on coming, until it is over */
    bool is_watching;        /* grpc_health.c: its name is known */
    uint8_t watched;         /* and what it was told last */
    const char *why;         /* of a code that ends several messages */

    /* The message as it comes, then the answer as it goes. */
    unsigned char prefix[GRPC_PREFIX_LEN];
    size_t prefix_len;
    size_t len, done, want; /* bytes there; of an answer, sent; of a message, announced */
    char *at;               /* `room`, or memory of its own */
    size_t held;            /* of that */
    char room[GRPC_ROOM];
};

struct grpc_session {
    nghttp2_session *h2;
    struct conn *conn;
    struct grpc_call *calls;
    size_t call_count;
    size_t pending; /* bytes of messages */
    struct grpc_guard guard;
    uint64_t heard;  /* the second in which something came last */
    uint64_t called; /* and a call */
    uint64_t drain_since;
    bool is_pinged; /* an answer is owed */
    bool is_ending; /* nothing more is read */
    enum { DRAIN_NONE, DRAIN_NOTICED, DRAIN_AWAY } drain;
};

struct grpc_method {
    struct slice path;
    enum role needs;
    enum door door;
    void (*handle)(struct grpc_call *call, struct slice message);
};

/* ---- grpc_session.c: the library ------------------------------------------------------------------------------------ */

/* False: out of memory. */
bool grpc_session_open(struct conn *conn);
void grpc_session_free(struct conn *conn);

/* Frames that are to leave go into the output. */
void grpc_pump(struct conn *conn);

/* The connection ends with this GOAWAY; calls that are being decided are taken back. */
void grpc_end(struct conn *conn, uint32_t code, const char *reason);

/* ---- grpc_call.c: what comes ------------------------------------------------------------------------------------------ */

/* NULL: no room for more. */
struct grpc_call *grpc_call_new(struct conn *conn, int32_t stream);
/* Take back what is being decided. */
void grpc_call_drop(struct grpc_call *call);
/* Free its message, or its answer. */
void grpc_call_forget(struct grpc_call *call);
/* The stream is gone. */
void grpc_call_close(struct grpc_call *call);
void grpc_calls_free(struct worker *worker);

void grpc_call_field(struct grpc_call *call, struct slice name, struct slice value);
void grpc_call_head(struct grpc_call *call); /* it is whole */
void grpc_call_bytes(struct grpc_call *call, const unsigned char *at, size_t len);
void grpc_call_whole(struct grpc_call *call);

/* ---- grpc_reply.c: what goes -------------------------------------------------------------------------------------------- */

/* The answer, and that is all; a call that has one, or is gone, gets no other. */
void grpc_reply(struct grpc_call *call, struct slice message);
/* An error; `message` in ASCII or UTF-8. The second also counts a call that took no turn. */
void grpc_fail(struct grpc_call *call, enum grpc_code code, struct slice message);
void grpc_deny(struct grpc_call *call, enum grpc_code code, struct slice message);
/* No gRPC: a plain status, counted. */
void grpc_refuse(struct grpc_call *call, unsigned status);
/* One message of several, and their end. */
void grpc_send(struct grpc_call *call, struct slice message);
void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *why); /* a literal */

/* Count a call that took no turn. */
void grpc_count(const struct grpc_call *call, unsigned status);

/* ---- grpc_times.c --------------------------------------------------------------------------------------------------------- */

void grpc_second(struct conn *conn);
/* One step of a drain. Whether the connection may end. */
bool grpc_drain(struct conn *conn);

/* ---- The methods ------------------------------------------------------------------------------------------------------------ */

void grpc_ratelimit(struct grpc_call *call, struct slice message);

void grpc_health_check(struct grpc_call *call, struct slice message);
void grpc_health_watch(struct grpc_call *call, struct slice message);
void grpc_health_list(struct grpc_call *call, struct slice message);
/* Tell those who watch what has changed. */
void grpc_health_tell(struct conn *conn);

#endif
