// SPDX-License-Identifier: Apache-2.0
/*
 * calls.c - POST /v1/reserve, settle, cancel, refund, reset and reload; and by any door the calls that have a body.
 *
 * Idea: reserve is a check whose cost is settled later, and is asked like one. The others change what is
 * counted and are answered at once, or when the shared store has (operate.c); what they name that is not there (a
 * limit, a reservation) is 404 with its `field`, because the body was good.
 */
#include "net/calls.h"

#include <stdio.h>

#include "net/operate.h"
#include "net/worker.h"

/* ---- What they have in common ---------------------------------------------------------------------------- */

static void answer_fault(struct turn *turn, const struct check_fault *fault)
{
    turn_error(turn, 400, fault->message, slice_of(fault->field), SLICE(""));
}

static bool read_body(const struct request *request, enum call call, struct call_body *out)
{
    struct check_fault fault;
    const struct check_storage *storage = &request->turn->conn->worker->storage;
    if (call_parse(call, storage, request->body.at, request->body.len, out, &fault) == 0)
        return true;
    answer_fault(request->turn, &fault);
    return false;
}

/* A token that has a part of ours as well as one of the store's. */
static bool is_joint(const struct call_body *body)
{
    return body == NULL || body->token.shared.len > 0;
}

static void answer_stranger(struct turn *turn, enum call call, const struct call_body *body, int code)
{
    if (call == CALL_RELEASE && is_joint(body))
        turn_error(turn, 404,
                   "a part of the permit was given by another server or before a restart, which alone can have "
                   "it back: "
                   "what the shared store has of it is returned",
                   SLICE("permit"), SLICE(""));
    else if (is_joint(body))
        turn_error(turn, 404,
                   "a part of it was given by another server or before a restart, which alone can change it: "
                   "send it to "
                   "the server that answered it",
                   code == WEIR_ERR_PERMIT ? SLICE("permit") : SLICE("reservation"), SLICE(""));
    else if (code == WEIR_ERR_RESERVATION)
        turn_error(turn, 404, weir_error_text(code), SLICE("reservation"), SLICE(""));
    else
        turn_error(turn, 404,
                   "the permit was given by another server or before a restart, or is damaged: stop what it "
                   "covered, and acquire again",
                   SLICE("permit"), SLICE(""));
}

void calls_answer_code(struct turn *turn, enum call call, const struct call_body *body, int code)
{
    const struct weir_contract *contract = turn->conn->worker->server->contract;
    struct check_fault fault;
    struct weir_fault found;
    if (body != NULL && body->handle.len == 0 && weir_contract_validate(contract, &body->ask, &found) != 0) {
        call_fault_attribute(&fault, call, body, found.attribute, found.message);
        answer_fault(turn, &fault);
    } else if (code == WEIR_ERR_RESERVATION || code == WEIR_ERR_PERMIT) {
        answer_stranger(turn, call, body, code);
    } else if (code == WEIR_ERR_COST) {
        turn_error(turn, 400, weir_error_text(code), SLICE("cost"), SLICE(""));
    } else if (code == WEIR_ERR_FULL) {
        turn_error(turn, 503, weir_error_text(code), SLICE(""), SLICE("Retry-After: 1\r\n"));
    } else {
        turn_error(turn, 500, weir_error_text(code), SLICE(""), SLICE(""));
    }
}

/* ---- reserve --------------------------------------------------------------------------------------------- */

static void reserve(struct turn *turn, const struct call_body *body)
{
    if (!turn_reserve(turn, 1, false)) {
        turn_busy(turn);
        return;
    }
    int code = turn_ask(turn, ASK_RESERVE, &body->ask, body->expires_after);
    if (code != 0)
        calls_answer_code(turn, CALL_RESERVE, body, code);
}

/* ---- settle, cancel, refund ------------------------------------------------------------------------------ */

/*
 * The name of the limit with least left. Its id is one of the set that was in force at the call; where that may
 * have been either of two, because a reload came in between, no name is better than a wrong one.
 */
static void copy_name(struct worker *worker, const struct weir_set *before, weir_limit_id limit, char *out)
{
    const struct edition *edition = edition_in_force(worker);
    bool is_known = limit != WEIR_NO_LIMIT && edition->set == before && (size_t)limit < edition->limit_count;
    (void)snprintf(out, WEIR_NAME_MAX + 1, "%s", is_known ? edition->limits[limit].name : "");
}

int calls_settle(struct worker *worker, enum call call, const struct call_body *body, weir_ns now,
                 struct weir_settlement *out, char *limit)
{
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    const struct weir_set *before = weir_set_current(limiter);
    struct slice own = body->token.own;
    int code = call == CALL_SETTLE ? weir_settle(limiter, own.at, own.len, body->ask.cost, now, out)
                                   : weir_cancel(limiter, own.at, own.len, now, out);
    if (code == 0)
        copy_name(worker, before, out->limit, limit);
    return code;
}

int calls_refund(struct worker *worker, const struct weir_request *request, weir_ns now,
                 struct weir_settlement *out, char *limit)
{
    const struct weir_contract *contract = worker->server->contract;
    const struct weir_set *before = weir_set_current(weir_contract_limiter(contract));
    int code = weir_contract_refund(contract, request, now, out);
    if (code == 0)
        copy_name(worker, before, out->limit, limit);
    return code;
}

static void settle(struct turn *turn, enum call call, const struct call_body *body)
{
    struct worker *worker = turn->conn->worker;
    struct weir_settlement done;
    char limit[WEIR_NAME_MAX + 1];
    if (body->token.shared.len > 0) {
        operate_settle(turn, call, body);
        return;
    }
    if (call == CALL_REFUND && operate_refund(turn, body))
        return;
    int code = call == CALL_REFUND ? calls_refund(worker, &body->ask, turn->now, &done, limit)
                                   : calls_settle(worker, call, body, turn->now, &done, limit);
    if (code != 0) {
        calls_answer_code(turn, call, body, code);
        return;
    }
    counter_add(&worker->counters.dropped, done.dropped);
    char space[512];
    struct text text = text_of(space, sizeof space);
    answer_settlement(&text, turn_form(turn), &done, limit[0] == '\0' ? NULL : limit, call == CALL_SETTLE);
    turn_body(turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
}

/* ---- For operators --------------------------------------------------------------------------------------- */

static void reset(struct turn *turn, const struct call_body *body)
{
    const struct weir_contract *contract = turn->conn->worker->server->contract;
    const struct weir_request *ask = &body->ask;
    struct check_fault fault;
    struct weir_fault found;
    if (operate_reset(turn, body))
        return;
    int code = weir_contract_reset(contract, body->limit, ask->attributes, ask->attribute_count, &found);
    if (code == 0) {
        turn_body(turn, 204, SLICE(""), SLICE(""));
    } else if (code == WEIR_ERR_LIMIT) {
        turn_error(turn, 404, weir_error_text(code), SLICE("limit"), SLICE(""));
    } else if (code == WEIR_ERR_ATTRIBUTE) {
        call_fault_attribute(&fault, CALL_RESET, body, found.attribute, found.message);
        answer_fault(turn, &fault);
    } else {
        turn_error(turn, 500, weir_error_text(code), SLICE(""), SLICE(""));
    }
}

/* ---- All of them ----------------------------------------------------------------------------------------- */

void calls_serve(struct turn *turn, enum call call, const struct call_body *body)
{
    switch (call) {
    case CALL_RESERVE:
        reserve(turn, body);
        break;
    case CALL_ACQUIRE:
        permits_acquire(turn, body);
        break;
    case CALL_RENEW:
        permits_renew(turn, body);
        break;
    case CALL_RELEASE:
        permits_release(turn, body);
        break;
    case CALL_RESET:
        reset(turn, body);
        break;
    default:
        settle(turn, call, body);
    }
}

static void serve(struct request *request, enum call call)
{
    struct call_body body;
    if (!read_body(request, call, &body))
        return;
    request->turn->is_always_200 = wants_200(request);
    calls_serve(request->turn, call, &body);
}

void handle_reserve(struct request *request)
{
    serve(request, CALL_RESERVE);
}

void handle_settle(struct request *request)
{
    serve(request, CALL_SETTLE);
}

void handle_cancel(struct request *request)
{
    serve(request, CALL_CANCEL);
}

void handle_refund(struct request *request)
{
    serve(request, CALL_REFUND);
}

void handle_acquire(struct request *request)
{
    serve(request, CALL_ACQUIRE);
}

void handle_renew(struct request *request)
{
    serve(request, CALL_RENEW);
}

void handle_release(struct request *request)
{
    serve(request, CALL_RELEASE);
}

void handle_reset(struct request *request)
{
    serve(request, CALL_RESET);
}

void handle_reload(struct request *request)
{
    struct turn *turn = request->turn;
    if (!reload_ask(&turn->conn->worker->server->reload, turn))
        turn_error(turn, 503, RELOAD_CLOSED, SLICE(""), SLICE("Retry-After: 1\r\n"));
}
