// SPDX-License-Identifier: Apache-2.0
/*
 * check.c - POST /v1/check: one request described by its attributes, or up to a thousand.
 *
 * Idea: a batch is judged whole before any of it is decided, so a bad item charges nothing, neither itself nor its
 * neighbours. A single request is judged by deciding it, which looks at it once; only if that fails it is looked at
 * again, for the words.
 */
#include "net/worker.h"

static void answer_fault(struct turn *turn, const struct check_fault *fault)
{
    turn_error(turn, 400, fault->message, slice_of(fault->field), SLICE(""));
}

/* Whether the contract accepts every request of the body; else *fault names the first that it does not. */
static bool is_acceptable(const struct weir_contract *contract, const struct check_body *body,
                          struct check_fault *fault)
{
    for (size_t i = 0; i < body->count; i++) {
        struct weir_fault found;
        if (weir_contract_validate(contract, &body->requests[i].ask, &found) != 0) {
            check_fault_attribute(fault, body, i, found.attribute, found.message);
            return false;
        }
    }
    return true;
}

static void decide_one(struct turn *turn, const struct check_body *body)
{
    int code = turn_ask(turn, ASK_CHECK, &body->requests[0].ask, 0);
    struct check_fault fault;
    if (code == 0)
        return;
    if (!is_acceptable(turn->conn->worker->server->contract, body, &fault))
        answer_fault(turn, &fault);
    else
        turn_error(turn, 500, weir_error_text(code), SLICE(""), SLICE(""));
}

static void decide_batch(struct turn *turn, const struct check_body *body)
{
    for (size_t i = 0; i < body->count && !turn->conn->is_gone; i++)
        (void)turn_ask(turn, ASK_CHECK, &body->requests[i].ask, 0); /* each was found good */
}

void handle_check(struct request *request)
{
    struct turn *turn = request->turn;
    struct worker *worker = turn->conn->worker;
    struct check_body body;
    struct check_fault fault;
    if (check_parse(&worker->storage, request->body.at, request->body.len, &body, &fault) != 0
        || (body.is_batch && !is_acceptable(worker->server->contract, &body, &fault))) {
        answer_fault(turn, &fault);
        return;
    }
    if (body.count == 0) {
        turn_body(turn, 200, ANSWER_TYPE_JSON, SLICE("{\"results\":[]}"));
        return;
    }
    if (!turn_reserve(turn, body.count, body.is_batch)) {
        turn_busy(turn);
        return;
    }
    turn->is_always_200 = wants_200(request);
    if (body.is_batch)
        decide_batch(turn, &body);
    else
        decide_one(turn, &body);
}
