// SPDX-License-Identifier: Apache-2.0
/*
 * calls.c - POST /v1/reserve, settle, cancel, refund, reset and reload.
 *
 * Idea: reserve is a check whose cost is settled later, and is asked like one. The others change what is
 * counted and are answered at once; what they name that is not there (a limit, a reservation) is 404 with its
 * `field`, because the body was good.
 */
#include "net/calls.h"

#include "net/worker.h"

/* ---- What they have in common ---------------------------------------------------------------------------- */

static void answer_fault(struct turn *turn, const struct check_fault *fault)
{
    turn_error(turn, 400, fault->message, slice_of(fault->field), SLICE(""));
}

bool calls_read(const struct request *request, enum call call, struct call_body *out)
{
    struct check_fault fault;
    const struct check_storage *storage = &request->turn->conn->worker->storage;
    if (call_parse(call, storage, request->body.at, request->body.len, out, &fault) == 0)
        return true;
    answer_fault(request->turn, &fault);
    return false;
}

void calls_answer_code(struct turn *turn, enum call call, const struct call_body *body, int code)
{
    const struct weir_contract *contract = turn->conn->worker->server->contract;
    struct check_fault fault;
    struct weir_fault found;
    if (body->handle_len == 0 && weir_contract_validate(contract, &body->ask, &found) != 0) {
        call_fault_attribute(&fault, call, body, found.attribute, found.message);
        answer_fault(turn, &fault);
    } else if (code == WEIR_ERR_RESERVATION) {
        turn_error(turn, 404, weir_error_text(code), SLICE("reservation"), SLICE(""));
    } else if (code == WEIR_ERR_PERMIT) {
        turn_error(turn, 404,
                   "the permit was given by another server or before a restart, or is damaged: stop what it "
                   "covered, and acquire again",
                   SLICE("permit"), SLICE(""));
    } else if (code == WEIR_ERR_COST) {
        turn_error(turn, 400, weir_error_text(code), SLICE("cost"), SLICE(""));
    } else if (code == WEIR_ERR_FULL) {
        turn_error(turn, 503, weir_error_text(code), SLICE(""), SLICE("Retry-After: 1\r\n"));
    } else {
        turn_error(turn, 500, weir_error_text(code), SLICE(""), SLICE(""));
    }
}

/* ---- reserve --------------------------------------------------------------------------------------------- */

void handle_reserve(struct request *request)
{
    struct turn *turn = request->turn;
    struct call_body body;
    if (!calls_read(request, CALL_RESERVE, &body))
        return;
    if (!turn_reserve(turn, 1, false)) {
        turn_busy(turn);
        return;
    }
    turn->is_always_200 = wants_200(request);
    int code = turn_ask(turn, ASK_RESERVE, &body.ask, body.expires_after);
    if (code != 0)
        calls_answer_code(turn, CALL_RESERVE, &body, code);
}

/* ---- settle, cancel, refund ------------------------------------------------------------------------------ */

static int change(const struct server *server, enum call call, const struct call_body *body, weir_ns now,
                  struct weir_settlement *out)
{
    struct weir *limiter = weir_contract_limiter(server->contract);
    switch (call) {
    case CALL_SETTLE:
        return weir_settle(limiter, body->handle, body->handle_len, body->ask.cost, now, out);
    case CALL_CANCEL:
        return weir_cancel(limiter, body->handle, body->handle_len, now, out);
    default:
        return weir_contract_refund(server->contract, &body->ask, now, out);
    }
}

/*
 * The name of the limit with least left. Its id is one of the set that was in force at the call; where that may
 * have been either of two, because a reload came in between, no name is better than a wrong one.
 */
static const char *name_of(struct worker *worker, const struct weir_set *before, weir_limit_id limit)
{
    const struct edition *edition = edition_in_force(worker);
    bool is_known = limit != WEIR_NO_LIMIT && edition->set == before && (size_t)limit < edition->limit_count;
    return is_known ? edition->limits[limit].name : NULL;
}

static void settle(struct request *request, enum call call)
{
    struct turn *turn = request->turn;
    struct worker *worker = turn->conn->worker;
    struct weir_settlement done;
    struct call_body body;
    if (!calls_read(request, call, &body))
        return;
    const struct weir_set *before = weir_set_current(weir_contract_limiter(worker->server->contract));
    int code = change(worker->server, call, &body, turn->now, &done);
    if (code != 0) {
        calls_answer_code(turn, call, &body, code);
        return;
    }
    counter_add(&worker->counters.dropped, done.dropped);
    char space[512];
    struct text text = text_of(space, sizeof space);
    answer_settlement_json(&text, &done, name_of(worker, before, done.limit), call == CALL_SETTLE);
    turn_body(turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
}

void handle_settle(struct request *request)
{
    settle(request, CALL_SETTLE);
}

void handle_cancel(struct request *request)
{
    settle(request, CALL_CANCEL);
}

void handle_refund(struct request *request)
{
    settle(request, CALL_REFUND);
}

/* ---- For operators --------------------------------------------------------------------------------------- */

void handle_reset(struct request *request)
{
    struct turn *turn = request->turn;
    const struct weir_contract *contract = turn->conn->worker->server->contract;
    struct call_body body;
    struct check_fault fault;
    struct weir_fault found;
    if (!calls_read(request, CALL_RESET, &body))
        return;
    int code = weir_contract_reset(contract, body.limit, body.ask.attributes, body.ask.attribute_count, &found);
    if (code == 0) {
        turn_body(turn, 204, SLICE(""), SLICE(""));
    } else if (code == WEIR_ERR_LIMIT) {
        turn_error(turn, 404, weir_error_text(code), SLICE("limit"), SLICE(""));
    } else if (code == WEIR_ERR_ATTRIBUTE) {
        call_fault_attribute(&fault, CALL_RESET, &body, found.attribute, found.message);
        answer_fault(turn, &fault);
    } else {
        turn_error(turn, 500, weir_error_text(code), SLICE(""), SLICE(""));
    }
}

void handle_reload(struct request *request)
{
    struct turn *turn = request->turn;
    if (!reload_ask(&turn->conn->worker->server->reload, turn))
        turn_error(turn, 503, RELOAD_CLOSED, SLICE(""), SLICE("Retry-After: 1\r\n"));
}
