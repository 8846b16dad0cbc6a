// SPDX-License-Identifier: Apache-2.0
/*
 * resp_call.c - WEIR.CHECK and its kin: the calls of the HTTP API, in the words of a command line (wire/resp_json.h).
 *
 * A reply waits for its turn like any other, so a command with WAIT holds up what is pipelined behind it on its connection, as
 * BLPOP does: clients that wait use a connection of their own.
 */
#include "net/resp.h"
#include "net/worker.h"

static void (*const handlers[])(struct request *) = {
    [RESP_CALL_CHECK] = handle_check,     [RESP_CALL_PEEK] = handle_check,
    [RESP_CALL_RESERVE] = handle_reserve, [RESP_CALL_ACQUIRE] = handle_acquire,
    [RESP_CALL_REFUND] = handle_refund,   [RESP_CALL_SETTLE] = handle_settle,
    [RESP_CALL_CANCEL] = handle_cancel,   [RESP_CALL_RENEW] = handle_renew,
    [RESP_CALL_RELEASE] = handle_release, [RESP_CALL_RESET] = handle_reset,
};

void resp_weir(struct resp_request *request)
{
    struct worker *worker = request->turn->conn->worker;
    enum resp_call call = request->row->call;
    char why[RESP_CALL_WHY_MAX];
    struct text body = text_of(worker->call_body, RESP_CALL_BODY_MAX);
    if (!resp_call_body(call, request->words + 1, request->count - 1, &body, why)) {
        resp_fail(request, "ERR weir: %s", why);
        return;
    }
    struct request http = { .turn = request->turn, .body = text_slice(&body) };
    handlers[call](&http);
}
