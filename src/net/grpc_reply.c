// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_reply.c - what a call is told: a head, messages, and the trailers that say how it ended; or the trailers alone.
 *
 * The answer lies in the call until the library has made frames of it, as fast as the peer's windows let it. One that does not read
 * holds its answers, which are counted with all others that wait for their readers.
 */
#include <stdlib.h>

#include "net/grpc.h"
#include "net/log.h"
#include "net/worker.h"

/* Longest grpc-message, escaped. */
#define MESSAGE_MAX 768

/* Names and values that the library need not copy. */
#define STILL (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)
#define FIELD(name, value) \
    { \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1, STILL \
    }

void grpc_count(const struct grpc_call *call, unsigned status)
{
    enum door door = call->method == NULL ? DOOR_GRPC : call->method->door;
    counter_add(&call->conn->worker->counters.requests[door][status], 1);
}

/* A status of gRPC as one of HTTP, as requests are counted. */
static unsigned status_of(enum grpc_code code)
{
    switch (code) {
    case GRPC_OK:
        return 200;
    case GRPC_INVALID_ARGUMENT:
        return 400;
    case GRPC_UNAUTHENTICATED:
        return 401;
    case GRPC_PERMISSION_DENIED:
        return 403;
    case GRPC_NOT_FOUND:
        return 404;
    case GRPC_RESOURCE_EXHAUSTED:
        return 413;
    case GRPC_UNIMPLEMENTED:
        return 501;
    case GRPC_UNAVAILABLE:
        return 503;
    case GRPC_DEADLINE_EXCEEDED:
        return 504;
    default:
        return 500;
    }
}

/* What the library refuses is out of memory, or a stream that is gone: then it is closed with us anyway. */
static void check(const struct grpc_call *call, int result)
{
    if (result == NGHTTP2_ERR_NOMEM)
        conn_break(call->conn);
}

/* ---- Trailers ------------------------------------------------------------------------------------------------------------- */

struct ending {
    char code[4], message[MESSAGE_MAX];
    nghttp2_nv fields[4];
    size_t count;
};

static void add(struct ending *ending, const char *name, const char *value, size_t value_len)
{
    ending->fields[ending->count++] = (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                                                    strlen(name), value_len, NGHTTP2_NV_FLAG_NO_COPY_NAME };
}

static void say(struct ending *ending, enum grpc_code code, struct slice words)
{
    struct text number = text_of(ending->code, sizeof ending->code);
    struct text message = text_of(ending->message, sizeof ending->message);
    text_u64(&number, code);
    add(ending, "grpc-status", ending->code, number.len);
    grpc_message_escape(words, &message);
    if (message.len > 0)
        add(ending, "grpc-message", ending->message, message.len);
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

static ssize_t on_want(nghttp2_session *h2, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    struct grpc_call *call = source->ptr;
    static const nghttp2_nv good = FIELD("grpc-status", "0");
    struct ending ending = { .count = 0 };
    (void)user;
    size_t len = call->len - call->done < room ? call->len - call->done : room;
    memcpy(to, call->at + call->done, len);
    call->done += len;
    call->since = call->conn->worker->second;
    if (call->done < call->len)
        return (ssize_t)len;
    if (call->is_stream && !call->is_over)
        return len > 0 ? (ssize_t)len : NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (call->code == GRPC_OK)
        return nghttp2_submit_trailer(h2, stream, &good, 1) == 0 ? (ssize_t)len : NGHTTP2_ERR_CALLBACK_FAILURE;
    say(&ending, call->code, slice_of(call->why));
    return nghttp2_submit_trailer(h2, stream, ending.fields, ending.count) == 0 ? (ssize_t)len
                                                                                : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* Room for an answer of `len` bytes; false: there is none, and the connection is closed. */
static bool make_room(struct grpc_call *call, size_t len)
{
    struct worker *worker = call->conn->worker;
    grpc_call_forget(call);
    if (len <= GRPC_ROOM)
        return true;
    char *at = len > WORKER_KEPT_MAX - worker->kept ? NULL : malloc(len);
    if (at == NULL) {
        log_event(LOG_WARN, "output_full", "bytes=%zu", worker->kept);
        conn_break(call->conn);
        return false;
    }
    call->at = at;
    call->held = len;
    worker->kept += len;
    return true;
}

static void begin(struct grpc_call *call)
{
    static const nghttp2_nv head[] = { FIELD(":status", "200"), FIELD("content-type", "application/grpc") };
    const nghttp2_data_provider provider = { .source.ptr = call, .read_callback = on_want };
    check(call, nghttp2_submit_response(call->conn->grpc->h2, call->stream, head, 2, &provider));
}

void grpc_reply(struct grpc_call *call, struct slice message)
{
    if (call->is_answered || !make_room(call, GRPC_PREFIX_LEN + message.len))
        return;
    call->is_answered = true;
    grpc_prefix_write(call->at, (uint32_t)message.len);
    if (message.len > 0)
        memcpy(call->at + GRPC_PREFIX_LEN, message.at, message.len);
    call->len = GRPC_PREFIX_LEN + message.len;
    call->done = 0;
    begin(call);
}

void grpc_send(struct grpc_call *call, struct slice message)
{
    bool has_begun = call->is_answered;
    if (!has_begun && !make_room(call, GRPC_ROOM))
        return;
    if (!has_begun || call->done == call->len) {
        call->len = 0;
        call->done = 0;
    }
    call->is_answered = true;
    call->is_stream = true;
    if (message.len + GRPC_PREFIX_LEN > GRPC_ROOM - call->len)
        return; /* who does not read hears of the next change */
    grpc_prefix_write(call->at + call->len, (uint32_t)message.len);
    memcpy(call->at + call->len + GRPC_PREFIX_LEN, message.at, message.len);
    call->len += GRPC_PREFIX_LEN + message.len;
    call->since = call->conn->worker->second;
    if (!has_begun)
        begin(call);
    else
        check(call, nghttp2_session_resume_data(call->conn->grpc->h2, call->stream));
}

void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *why)
{
    if (call->is_over)
        return;
    call->is_over = true;
    call->code = (uint8_t)code;
    call->why = why;
    check(call, nghttp2_session_resume_data(call->conn->grpc->h2, call->stream));
}

/* ---- Without a message ------------------------------------------------------------------------------------------------------ */

void grpc_fail(struct grpc_call *call, enum grpc_code code, struct slice message)
{
    static const nghttp2_nv status = FIELD(":status", "200"), type = FIELD("content-type", "application/grpc");
    struct ending ending = { .fields = { status, type }, .count = 2 };
    if (call->is_answered)
        return;
    grpc_call_forget(call);
    call->is_answered = true;
    call->len = 0;
    say(&ending, code, message);
    check(call, nghttp2_submit_response(call->conn->grpc->h2, call->stream, ending.fields, ending.count, NULL));
}

void grpc_deny(struct grpc_call *call, enum grpc_code code, struct slice message)
{
    if (call->is_answered)
        return;
    grpc_count(call, status_of(code));
    grpc_fail(call, code, message);
}

void grpc_refuse(struct grpc_call *call, unsigned status)
{
    char digits[4];
    struct text text = text_of(digits, sizeof digits);
    struct ending ending = { .count = 0 };
    if (call->is_answered)
        return;
    call->is_answered = true;
    text_u64(&text, status);
    add(&ending, ":status", digits, text.len);
    grpc_count(call, status);
    check(call, nghttp2_submit_response(call->conn->grpc->h2, call->stream, ending.fields, ending.count, NULL));
}
