// SPDX-License-Identifier: Apache-2.0
/*
 * resp_call.c - WEIR.CHECK and its kin: the calls of the HTTP API, in the words of a command line (wire/resp_words.h).
 *
 * A reply waits for its turn like any other, so a command with WAIT holds up what is pipelined behind it on its connection, as
 * BLPOP does: clients that wait use a connection of their own.
 */
#include "net/calls.h"
#include "net/resp.h"
#include "net/worker.h"

static const enum call calls[RESP_CALL_COUNT] = {
    [RESP_CALL_CHECK] = CALL_COUNT,     [RESP_CALL_PEEK] = CALL_COUNT, /* neither has a body of its own */
    [RESP_CALL_RESERVE] = CALL_RESERVE, [RESP_CALL_ACQUIRE] = CALL_ACQUIRE, [RESP_CALL_REFUND] = CALL_REFUND,
    [RESP_CALL_SETTLE] = CALL_SETTLE,   [RESP_CALL_CANCEL] = CALL_CANCEL,   [RESP_CALL_RENEW] = CALL_RENEW,
    [RESP_CALL_RELEASE] = CALL_RELEASE, [RESP_CALL_RESET] = CALL_RESET,
};

static void check(struct turn *turn, const struct call_body *body)
{
    if (!turn_reserve(turn, 1, false)) {
        turn_busy(turn);
        return;
    }
    int code = turn_ask(turn, ASK_CHECK, &body->ask, 0);
    if (code != 0)
        calls_answer_code(turn, CALL_RESERVE, body, code); /* the same words */
}

void resp_weir(struct resp_request *request)
{
    struct turn *turn = request->turn;
    enum resp_call call = request->row->call;
    struct call_body body;
    char why[RESP_WORDS_WHY_MAX];
    if (!resp_words_read(call, request->words + 1, request->count - 1, &turn->conn->worker->storage, &body,
                         why))
        resp_fail(request, "ERR weir: %s", why);
    else if (calls[call] == CALL_COUNT)
        check(turn, &body);
    else
        calls_serve(turn, calls[call], &body);
}
