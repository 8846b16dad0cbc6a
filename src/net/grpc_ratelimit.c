// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_ratelimit.c - envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit: a message, a question (rls.h), a message.
 *
 * Denied is an answer: OVER_LIMIT. What could not be decided is a status, so that the proxy's own policy for it applies.
 *
 * A call waits only if it says for how long it can (`weir-wait-ms`). Its deadline (`grpc-timeout`) never asks for a wait, but ends one.
 */
#include "net/grpc.h"
#include "net/rls.h"
#include "net/worker.h"
#include "wire/rls.h"

#ifdef WEIR_TEST_HOOKS
static weir_ns stamp_of(const struct grpc_call *call)
{
    struct worker *worker = call->conn->worker;
    return worker->server->is_virtual ? call->now : worker_now(worker);
}

/* What waits until before this call ends first; as of an HTTP request. */
static void pass_time(const struct grpc_call *call)
{
    if (call->conn->worker->server->is_virtual)
        ticker_advance(call->conn->worker, call->now);
}
#else
static weir_ns stamp_of(const struct grpc_call *call)
{
    return worker_now(call->conn->worker);
}

static void pass_time(const struct grpc_call *call)
{
    (void)call;
}
#endif

static bool is_cut(const struct grpc_call *call)
{
    return call->wait > 0 && call->has_timeout && call->timeout <= call->wait;
}

static void fail(struct turn *turn, enum grpc_code code, unsigned status, const char *why)
{
    struct text *out = turn_begin(turn);
    turn->call->code = (uint8_t)code;
    text_string(out, why);
    turn_end(turn, status, out);
}

/* Statuses alone always fit: what is to be told to the proxy's client may not, of a contract with very many limits. */
static void write_bare(const struct rls_answer *found, struct text *out)
{
    static _Thread_local struct rls_answer bare;
    memcpy(&bare, found, offsetof(struct rls_answer, storage));
    bare.header_count = 0;
    bare.body = SLICE("");
    out->len = 0;
    out->is_cut = false;
    rls_write(&bare, out);
}

static void answer(struct turn *turn, const struct rls_answer *found)
{
    const struct grpc_call *call = turn->call;
    bool passes = found->overall == RLS_OK;
    if (!passes && is_cut(call) && ticker_now(call->conn->worker) - turn->now >= call->timeout) {
        fail(turn, GRPC_DEADLINE_EXCEEDED, 504, "the call's deadline passed before its turn came");
        return;
    }
    struct text *out = turn_begin(turn);
    rls_write(found, out);
    if (out->is_cut)
        write_bare(found, out);
    turn_end(turn, passes ? 200 : 429, out);
}

static void on_done(struct turn *turn, enum rls_end end, const char *why, const struct rls_answer *found)
{
    switch (end) {
    case RLS_ANSWERED:
        answer(turn, found);
        break;
    case RLS_INVALID:
        fail(turn, GRPC_INVALID_ARGUMENT, 400, why);
        break;
    case RLS_UNDECIDED:
        fail(turn, GRPC_UNAVAILABLE, 503, why);
        break;
    default:
        fail(turn, GRPC_INTERNAL, 500, why);
    }
}

static struct turn *join(struct grpc_call *call)
{
    struct turn *turn = line_join(call->conn);
    if (turn == NULL) {
        conn_break(call->conn);
        return NULL;
    }
    turn->now = stamp_of(call);
    turn->door = DOOR_GRPC_RATELIMIT;
    turn->keeps_alive = true;
    turn->call = call;
    call->turn = turn;
    return turn;
}

/* Read and ask; or answer why not. */
static void ask(struct turn *turn, struct slice message)
{
    struct worker *worker = turn->conn->worker;
    const struct grpc_call *call = turn->call;
    struct rls_call *room = rls_room(worker);
    const char *why = "out of memory";
    enum rls_fault fault = room == NULL ? RLS_TOO_MUCH : rls_read(message, room, &why);
    if (fault == RLS_BAD)
        fail(turn, GRPC_INVALID_ARGUMENT, 400, why);
    else if (fault != RLS_GOOD)
        fail(turn, GRPC_RESOURCE_EXHAUSTED, 413, why);
    else
        rls_start(turn, room, is_cut(call) ? call->timeout : call->wait, on_done);
}

void grpc_ratelimit(struct grpc_call *call, struct slice message)
{
    struct conn *conn = call->conn;
    pass_time(call);
    struct turn *turn = conn->is_gone ? NULL : join(call);
    if (turn == NULL)
        return;
    ask(turn, message);
    conn->is_handling = true; /* its reply was taken, so nothing is written: the turn's memory is used again */
    line_advance(conn);
    conn->is_handling = false;
}
