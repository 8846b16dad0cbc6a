// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_call.c - a stream becomes a call: its head, field by field, its one message, and who serves it.
 *
 * Idea: what a head says is understood as it comes, so nothing of it is kept. What is wrong with it is answered before its message
 * is read, and a message that is too long before it is buffered: at its prefix.
 */
#include <stdlib.h>

#include "net/grpc.h"
#include "net/log.h"
#include "net/rls.h"
#include "net/worker.h"
#include "wire/rls.h"

/* Spare calls of a worker. */
#define SPARE_MAX 256

#define METHOD(literal) \
    { \
        literal, sizeof(literal) - 1 \
    }

/* clang-format off */
static const struct grpc_method methods[] = {
    { METHOD("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"), ROLE_CHECK, DOOR_GRPC_RATELIMIT, grpc_ratelimit },
    { METHOD("/grpc.health.v1.Health/Check"), ROLE_NONE, DOOR_GRPC_HEALTH, grpc_health_check },
    { METHOD("/grpc.health.v1.Health/Watch"), ROLE_NONE, DOOR_GRPC_HEALTH, grpc_health_watch },
    { METHOD("/grpc.health.v1.Health/List"),  ROLE_NONE, DOOR_GRPC_HEALTH, grpc_health_list },
};
/* clang-format on */

/* ---- Life --------------------------------------------------------------------------------------------------------------- */

struct grpc_call *grpc_call_new(struct conn *conn, int32_t stream)
{
    struct worker *worker = conn->worker;
    struct grpc_session *session = conn->grpc;
    struct grpc_call *call = worker->spare_calls;
    if (worker->call_count >= GRPC_CALLS_MAX)
        return NULL;
    if (call == NULL) {
        call = malloc(sizeof *call);
    } else {
        worker->spare_calls = call->next;
        worker->spare_call_count--;
    }
    if (call == NULL)
        return NULL;
    memset(call, 0, offsetof(struct grpc_call, room));
    call->conn = conn;
    call->stream = stream;
    call->at = call->room;
    call->since = worker->second;
    call->next = session->calls;
    call->link = &session->calls;
    if (call->next != NULL)
        call->next->link = &call->next;
    session->calls = call;
    session->call_count++;
    session->called = worker->second;
    worker->call_count++;
    return call;
}

void grpc_call_forget(struct grpc_call *call)
{
    struct grpc_session *session = call->conn->grpc;
    if (call->at == call->room)
        return;
    free(call->at);
    call->at = call->room;
    call->conn->worker->kept -= call->held;
    if (!call->is_answered)
        session->pending -= call->held;
    call->held = 0;
}

void grpc_call_drop(struct grpc_call *call)
{
    struct turn *turn = call->turn;
    call->turn = NULL;
    turn->call = NULL;
    turn->is_dropped = true;
    rls_cancel(turn);
}

void grpc_call_close(struct grpc_call *call)
{
    struct worker *worker = call->conn->worker;
    struct grpc_session *session = call->conn->grpc;
    if (call->turn != NULL && !call->conn->is_gone)
        grpc_call_drop(call);
    grpc_call_forget(call);
    *call->link = call->next;
    if (call->next != NULL)
        call->next->link = call->link;
    session->call_count--;
    worker->call_count--;
    if (worker->spare_call_count == SPARE_MAX) {
        free(call);
        return;
    }
    call->next = worker->spare_calls;
    worker->spare_calls = call;
    worker->spare_call_count++;
}

void grpc_calls_free(struct worker *worker)
{
    while (worker->spare_calls != NULL) {
        struct grpc_call *call = worker->spare_calls;
        worker->spare_calls = call->next;
        free(call);
    }
}

/* ---- The head ------------------------------------------------------------------------------------------------------------ */

static const struct grpc_method *find(struct slice path)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (slice_equals(methods[i].path, path))
            return &methods[i];
    return NULL;
}

/* application/grpc, +proto and whatever else begins so. */
static bool is_grpc_type(struct slice value)
{
    struct slice name = SLICE("application/grpc");
    return value.len >= name.len && slice_equals_fold((struct slice){ value.at, name.len }, name)
           && (value.len == name.len || value.at[name.len] == '+' || value.at[name.len] == ';');
}

static void hear_secret(struct grpc_call *call, struct slice secret)
{
    const struct tokens *tokens = call->conn->worker->server->tokens;
    enum role role = tokens == NULL ? ROLE_NONE : tokens_role(tokens, secret);
    if (role > call->role)
        call->role = (uint8_t)role;
}

static void hear_bearer(struct grpc_call *call, struct slice value)
{
    struct slice scheme = SLICE("bearer ");
    if (value.len > scheme.len && slice_equals_fold((struct slice){ value.at, scheme.len }, scheme))
        hear_secret(call, (struct slice){ value.at + scheme.len, value.len - scheme.len });
}

/* The fields that say something to us; others are the client's own affair. */
static void hear(struct grpc_call *call, struct slice name, struct slice value)
{
    uint64_t number;
    if (slice_equals(name, SLICE(":path"))) {
        call->method = find(value);
    } else if (slice_equals(name, SLICE(":method"))) {
        call->is_post = slice_equals(value, SLICE("POST"));
    } else if (slice_equals(name, SLICE("content-type"))) {
        call->is_grpc = is_grpc_type(value);
    } else if (slice_equals(name, SLICE("grpc-timeout"))) {
        call->has_timeout = grpc_timeout_parse(value, &call->timeout);
        call->has_bad_timeout = !call->has_timeout;
    } else if (slice_equals(name, SLICE("grpc-encoding"))) {
        call->has_encoding = !slice_equals(value, SLICE("identity"));
    } else if (slice_equals(name, SLICE("weir-wait-ms"))) {
        call->has_bad_wait = !slice_to_u64(value, UINT32_MAX, &number);
        call->wait = call->has_bad_wait ? 0 : number * WEIR_MILLISECOND;
    } else if (slice_equals(name, SLICE("authorization"))) {
        hear_bearer(call, value);
    } else if (slice_equals(name, SLICE("weir-token"))) {
        hear_secret(call, value);
    }
#ifdef WEIR_TEST_HOOKS
    else if (slice_equals(name, SLICE("weir-now"))) {
        (void)slice_to_u64(value, UINT64_MAX, &call->now); /* else: 0 */
    }
#endif
}

void grpc_call_field(struct grpc_call *call, struct slice name, struct slice value)
{
    call->head_len += name.len + value.len + 32;
    if (call->head_len <= GRPC_HEAD_MAX)
        hear(call, name, value);
}

void grpc_call_head(struct grpc_call *call)
{
    if (call->head_len > GRPC_HEAD_MAX)
        grpc_refuse(call, 431);
    else if (!call->is_post)
        grpc_refuse(call, 405);
    else if (!call->is_grpc)
        grpc_refuse(call, 415);
    else if (call->method == NULL)
        grpc_deny(call, GRPC_UNIMPLEMENTED, SLICE("there is no such method"));
    else if (call->has_bad_timeout)
        grpc_deny(call, GRPC_INVALID_ARGUMENT,
                  SLICE("grpc-timeout must be up to 8 digits and one of H M S m u n"));
    else if (call->has_bad_wait)
        grpc_deny(call, GRPC_INVALID_ARGUMENT, SLICE("weir-wait-ms must be milliseconds, 0 to 4294967295"));
    else if (call->conn->role < call->method->needs && call->role < call->method->needs)
        grpc_deny(call, GRPC_UNAUTHENTICATED,
                  SLICE("this call needs a token: send `authorization: Bearer SECRET` or `weir-token`"));
}

/* ---- The message ---------------------------------------------------------------------------------------------------------- */

/* The prefix is whole: make room, or say why not. */
static void begin_message(struct grpc_call *call)
{
    struct grpc_session *session = call->conn->grpc;
    struct worker *worker = call->conn->worker;
    size_t want = grpc_prefix_len(call->prefix);
    call->want = want;
    if (call->prefix[0] == 1 && call->has_encoding)
        grpc_deny(call, GRPC_UNIMPLEMENTED, SLICE("messages are read uncompressed alone"));
    else if (call->prefix[0] != 0)
        grpc_deny(call, GRPC_INTERNAL, SLICE("the message is compressed, and its head does not say how"));
    else if (want > RLS_CALL_MAX)
        grpc_deny(call, GRPC_RESOURCE_EXHAUSTED, SLICE("the message is larger than 64 KiB"));
    else if (want > GRPC_ROOM
             && (want > GRPC_PENDING_MAX - session->pending || want > WORKER_KEPT_MAX - worker->kept))
        grpc_deny(call, GRPC_RESOURCE_EXHAUSTED, SLICE("too many messages are incomplete at once; try again"));
    if (call->is_answered || want <= GRPC_ROOM)
        return;
    call->at = malloc(want);
    if (call->at == NULL) {
        call->at = call->room;
        grpc_deny(call, GRPC_RESOURCE_EXHAUSTED, SLICE("out of memory"));
        return;
    }
    call->held = want;
    session->pending += want;
    worker->kept += want;
}

static size_t read_prefix(struct grpc_call *call, const unsigned char *at, size_t len)
{
    size_t used = GRPC_PREFIX_LEN - call->prefix_len < len ? GRPC_PREFIX_LEN - call->prefix_len : len;
    memcpy(call->prefix + call->prefix_len, at, used);
    call->prefix_len += used;
    if (call->prefix_len == GRPC_PREFIX_LEN)
        begin_message(call);
    return used;
}

void grpc_call_bytes(struct grpc_call *call, const unsigned char *at, size_t len)
{
    if (call->is_answered)
        return;
    if (call->prefix_len < GRPC_PREFIX_LEN) {
        size_t used = read_prefix(call, at, len);
        at += used;
        len -= used;
    }
    if (call->is_answered || len == 0)
        return;
    if (len > call->want - call->len) {
        grpc_deny(call, GRPC_INTERNAL, SLICE("more than one message"));
        return;
    }
    memcpy(call->at + call->len, at, len);
    call->len += len;
}

void grpc_call_whole(struct grpc_call *call)
{
    call->is_whole = true;
    call->since = call->conn->worker->second;
    if (call->is_answered)
        return;
    if (call->prefix_len < GRPC_PREFIX_LEN || call->len < call->want) {
        grpc_deny(call, GRPC_INTERNAL, SLICE("the call ends before its message does"));
        return;
    }
    call->method->handle(call, (struct slice){ call->at, call->len });
}
