// SPDX-License-Identifier: Apache-2.0
/* operate.c - this process first, then the store, then the reply; see operate.h. */
#include "net/operate.h"

#include <stdlib.h>

#include "net/calls.h"
#include "net/request_copy.h"
#include "net/worker.h"

/* One operation under way. */
struct operating {
    struct fleet_operation operation; /* its owner is this */
    struct worker *worker;
    struct turn *turn; /* NULL: nobody is told */
    enum call call;
    enum call_outcome outcome;
    int code;                   /* what this process says of its part */
    struct weir_settlement own; /* limit WEIR_NO_LIMIT: it had none to settle */
    char own_limit[WEIR_NAME_MAX + 1];
    bool has_own, was_held;
    weir_ns expires_at;
    struct request_copy *copy; /* of a refund: for what this process counts */
    size_t token_len;
    char token[]; /* of a permit: as its connection knows it */
};

static const char *const away[CALL_COUNT] = {
    [CALL_SETTLE] =
        "the shared store could not be had, and whether it has settled is not known: send the same call "
        "again, it counts once",
    [CALL_CANCEL] =
        "the shared store could not be had, and whether it has cancelled is not known: send the same call "
        "again, it counts once",
    [CALL_REFUND] =
        "the shared store could not be had, and whether it has given back is not known: sent again it may "
        "give back twice",
    [CALL_RENEW] =
        "the shared store could not be had, and whether it holds the permit for longer is not known: renew "
        "again before it expires, or stop what it covers",
    [CALL_RELEASE] =
        "the shared store could not be had, and whether it has the permit back is not known: send the same "
        "call again, or let it expire",
    [CALL_RESET] = "the shared store could not be had, and whether it has forgotten is not known: send the "
                   "same call again",
};

static struct operating *operating_new(struct worker *worker, struct turn *turn, enum call call,
                                       struct slice token)
{
    struct operating *operating = malloc(sizeof *operating + token.len);
    if (operating == NULL)
        return NULL;
    *operating = (struct operating){ .worker = worker,
                                     .turn = turn,
                                     .call = call,
                                     .own = { .limit = WEIR_NO_LIMIT },
                                     .expires_at = WEIR_NO_TIME,
                                     .token_len = token.len };
    if (token.len > 0)
        memcpy(operating->token, token.at, token.len);
    return operating;
}

static void operating_free(struct operating *operating)
{
    free(operating->copy);
    free(operating);
}

/* ---- Replies ------------------------------------------------------------------------------------------------------- */

static struct slice field_of(enum call call)
{
    switch (call) {
    case CALL_SETTLE:
    case CALL_CANCEL:
        return SLICE("reservation");
    case CALL_RENEW:
    case CALL_RELEASE:
        return SLICE("permit");
    default:
        return SLICE("");
    }
}

static void reply_unknown(struct turn *turn, enum call call)
{
    bool is_permit = call == CALL_RENEW || call == CALL_RELEASE;
    turn_error(
        turn, 404,
        is_permit
            ? "the permit has expired or was released, and another may have its place: stop what it covered"
            : "the shared store knows no such reservation: it was never made, has expired, or was lost with "
              "the store's data",
        field_of(call), SLICE(""));
}

/* This process, and the store, as one; of this process alone where the store has none to settle. */
static void reply_settlement(struct operating *operating)
{
    const struct weir_settlement *own = &operating->own;
    struct weir_settlement both = operating->operation.settlement;
    const char *limit = operating->operation.limit[0] == '\0' ? NULL : operating->operation.limit;
    both.limit = WEIR_NO_LIMIT;
    if (own->charged > both.charged)
        both.charged = own->charged;
    if (own->returned > both.returned)
        both.returned = own->returned;
    if (own->dropped > both.dropped)
        both.dropped = own->dropped;
    if (own->limit != WEIR_NO_LIMIT && (limit == NULL || own->remaining < both.remaining)) {
        both.remaining = own->remaining;
        limit = operating->own_limit[0] == '\0' ? NULL : operating->own_limit;
    }
    both.is_repeated = both.is_repeated && (!operating->has_own || own->is_repeated);
    counter_add(&operating->worker->counters.dropped, both.dropped);
    char space[512];
    struct text text = text_of(space, sizeof space);
    answer_settlement(&text, turn_form(operating->turn), &both, limit, operating->call == CALL_SETTLE);
    turn_body(operating->turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
}

static weir_ns now_of(const struct operating *operating)
{
    struct worker *worker = operating->worker;
    return worker->server->is_virtual ? operating->turn->now : worker_now(worker);
}

static void reply_renewed(struct operating *operating)
{
    struct counters *counters = &operating->worker->counters;
    struct conn *conn = operating->turn->conn;
    const struct fleet_operation *operation = &operating->operation;
    struct slice token = { operating->token, operating->token_len };
    weir_ns until =
        operation->expires_at < operating->expires_at ? operation->expires_at : operating->expires_at;
    bool is_lost = operation->fault == FLEET_UNKNOWN || !operation->was_held;
    counter_add(&counters->permits[is_lost ? PERMIT_LOST : PERMIT_RENEWED], 1);
    if (is_lost) {
        permits_unbind(conn, token);
        reply_unknown(operating->turn, CALL_RENEW);
        return;
    }
    permits_renewed(conn, token, until);
    weir_ns now = now_of(operating);
    char space[128];
    struct text text = text_of(space, sizeof space);
    answer_renewed(&text, turn_form(operating->turn), until > now ? until - now : 0);
    turn_body(operating->turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
}

static void reply_released(struct operating *operating)
{
    struct counters *counters = &operating->worker->counters;
    const struct fleet_operation *operation = &operating->operation;
    bool was_held = operating->was_held || (operation->fault == FLEET_OK && operation->was_held);
    permits_unbind(operating->turn->conn, (struct slice){ operating->token, operating->token_len });
    if (operating->code != 0) {
        calls_answer_code(operating->turn, CALL_RELEASE, NULL, operating->code);
        return;
    }
    counter_add(&counters->permits[was_held ? PERMIT_RELEASED : PERMIT_LOST], 1);
    counter_add(&counters->releases[operating->outcome], 1);
    char space[128];
    struct text text = text_of(space, sizeof space);
    answer_released(&text, turn_form(operating->turn), was_held);
    turn_body(operating->turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
}

/* The store has given back: now this process does. */
static void reply_refund(struct operating *operating)
{
    struct worker *worker = operating->worker;
    operating->has_own = true;
    int code = calls_refund(worker, &operating->copy->request, operating->turn->now, &operating->own,
                            operating->own_limit);
    if (code != 0)
        turn_error(operating->turn, 500, weir_error_text(code), SLICE(""), SLICE(""));
    else
        reply_settlement(operating);
}

static void reply_done(struct operating *operating)
{
    switch (operating->call) {
    case CALL_RENEW:
        reply_renewed(operating);
        break;
    case CALL_RELEASE:
        reply_released(operating);
        break;
    case CALL_REFUND:
        reply_refund(operating);
        break;
    case CALL_RESET:
        turn_body(operating->turn, 204, SLICE(""), SLICE(""));
        break;
    default:
        reply_settlement(operating);
    }
}

static void reply(struct operating *operating)
{
    struct turn *turn = operating->turn;
    enum call call = operating->call;
    bool is_permit = call == CALL_RENEW || call == CALL_RELEASE;
    switch (operating->operation.fault) {
    case FLEET_AWAY:
        turn_error(turn, 503, away[call], SLICE(""), SLICE("Retry-After: 1\r\n"));
        break;
    case FLEET_BAD:
        turn_error(turn, 404, "its part in the shared store is damaged, or of another version", field_of(call),
                   SLICE(""));
        break;
    case FLEET_UNKNOWN:
        if (!is_permit) {
            reply_unknown(turn, call);
            break;
        }
        reply_done(operating);
        break;
    default:
        reply_done(operating);
    }
}

/* ---- Under way ----------------------------------------------------------------------------------------------------- */

static void on_done(struct fleet_operation *operation)
{
    struct operating *operating = operation->owner;
    struct worker *worker = operating->worker;
    struct turn *turn = operating->turn;
    if (turn == NULL) {
        worker->operations_alone--;
        operating_free(operating);
        return;
    }
    struct conn *conn = turn->conn;
    conn->asks_pending--;
    if (conn->is_gone) {
        turn->is_done = true;
    } else {
        bool has_entered = turn_enter(turn);
        reply(operating);
        if (has_entered)
            turn_leave(conn);
    }
    if (!conn->is_active)
        worker_mark(worker, conn);
    operating_free(operating);
}

/* The store is asked. `handle` and `shared`: as the verb needs them. */
static void start(struct operating *operating, enum fleet_verb verb, weir_ns now, uint64_t cost,
                  struct slice handle, const struct weir_shared *shared)
{
    operating->operation = (struct fleet_operation){ .verb = verb,
                                                     .now = now,
                                                     .cost = cost,
                                                     .handle = (const unsigned char *)handle.at,
                                                     .handle_len = handle.len,
                                                     .shared = shared,
                                                     .done = on_done,
                                                     .owner = operating };
    if (operating->turn != NULL)
        operating->turn->conn->asks_pending++;
    else
        operating->worker->operations_alone++;
    fleet_operate(operating->worker->store.fleet, &operating->operation);
}

/* Room for one more operation whose turn is told. NULL: the turn is answered. */
static struct operating *begin(struct turn *turn, enum call call, struct slice token)
{
    struct worker *worker = turn->conn->worker;
    if (worker->store.fleet == NULL) {
        turn_error(turn, 404, "it has a part in a shared store, and this server has none: see --store",
                   field_of(call), SLICE(""));
        return NULL;
    }
    struct operating *operating =
        turn_reserve(turn, 1, false) ? operating_new(worker, turn, call, token) : NULL;
    if (operating == NULL)
        turn_busy(turn);
    return operating;
}

/* ---- Calls --------------------------------------------------------------------------------------------------------- */

void operate_settle(struct turn *turn, enum call call, const struct call_body *body)
{
    struct operating *operating = begin(turn, call, SLICE(""));
    if (operating == NULL)
        return;
    operating->has_own = body->token.own.len > 0;
    if (operating->has_own) {
        int code =
            calls_settle(turn->conn->worker, call, body, turn->now, &operating->own, operating->own_limit);
        if (code != 0) {
            operating_free(operating);
            calls_answer_code(turn, call, body, code);
            return;
        }
    }
    start(operating, call == CALL_SETTLE ? FLEET_SETTLE : FLEET_CANCEL, turn->now, body->ask.cost,
          body->token.shared, NULL);
}

void operate_renew(struct turn *turn, const struct call_body *body)
{
    struct worker *worker = turn->conn->worker;
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    struct slice own = body->token.own;
    struct operating *operating = begin(turn, CALL_RENEW, body->handle);
    if (operating == NULL)
        return;
    int code = own.len == 0 ? 0 : weir_renew(limiter, own.at, own.len, turn->now, &operating->expires_at);
    bool is_lost = own.len > 0 && code == 0 && operating->expires_at == WEIR_NO_TIME;
    if (code == 0 && !is_lost) {
        start(operating, FLEET_RENEW, turn->now, 0, body->token.shared, NULL);
        return;
    }
    operating_free(operating);
    if (code != 0) {
        calls_answer_code(turn, CALL_RENEW, body, code);
        return;
    }
    counter_add(&worker->counters.permits[PERMIT_LOST], 1);
    permits_unbind(turn->conn, body->handle);
    reply_unknown(turn, CALL_RENEW); /* its other part is not held for longer */
}

void operate_release(struct turn *turn, const struct call_body *body)
{
    struct worker *worker = turn->conn->worker;
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    struct slice own = body->token.own;
    struct operating *operating = begin(turn, CALL_RELEASE, body->handle);
    if (operating == NULL)
        return;
    operating->outcome = body->outcome;
    if (own.len > 0)
        operating->code = weir_release(limiter, own.at, own.len, turn->now, &operating->was_held);
    start(operating, FLEET_RELEASE, turn->now, 0, body->token.shared, NULL);
}

/* Leave the questions whose cost a settlement would change. */
static void keep_estimates(struct weir_shared *shared)
{
    size_t kept = 0;
    for (size_t i = 0; i < shared->count; i++)
        if (shared->asks[i].is_estimate)
            shared->asks[kept++] = shared->asks[i];
    shared->count = kept;
}

bool operate_refund(struct turn *turn, const struct call_body *body)
{
    struct worker *worker = turn->conn->worker;
    const struct weir_contract *contract = worker->server->contract;
    struct weir_shared *shared = &worker->shared;
    if (worker->store.fleet == NULL || !weir_contract_has_shared(contract)
        || weir_contract_shared(contract, &body->ask, shared)
               != 0) /* what is wrong is told by who decides it alone */
        return false;
    keep_estimates(shared);
    if (shared->count == 0)
        return false;
    struct operating *operating = begin(turn, CALL_REFUND, SLICE(""));
    if (operating == NULL)
        return true;
    operating->copy = request_copy_new(&body->ask);
    if (operating->copy == NULL) {
        operating_free(operating);
        turn_busy(turn);
        return true;
    }
    start(operating, FLEET_REFUND, turn->now, body->ask.cost, SLICE(""), shared);
    return true;
}

bool operate_reset(struct turn *turn, const struct call_body *body)
{
    struct worker *worker = turn->conn->worker;
    const struct weir_contract *contract = worker->server->contract;
    struct weir_fault found;
    if (worker->store.fleet == NULL || !weir_contract_has_shared(contract)
        || weir_contract_shared_key(contract, body->limit, body->ask.attributes, body->ask.attribute_count,
                                    &worker->shared, &found)
               != 0
        || worker->shared.count == 0)
        return false;
    /* Also what it was given here while the store was away. */
    if (weir_contract_reset(contract, body->limit, body->ask.attributes, body->ask.attribute_count, &found)
        != 0)
        return false; /* a reload came in between: it is told by who resets alone */
    struct operating *operating = begin(turn, CALL_RESET, SLICE(""));
    if (operating != NULL)
        start(operating, FLEET_RESET, turn->now, 0, SLICE(""), &worker->shared);
    return true;
}

void operate_give_back(struct worker *worker, enum fleet_verb verb, struct slice handle)
{
    if (worker->store.fleet == NULL || worker->operations_alone >= OPERATE_ALONE_MAX)
        return;
    struct operating *operating = operating_new(worker, NULL, CALL_RELEASE, SLICE(""));
    if (operating != NULL)
        start(operating, verb, ticker_now(worker), 0, handle, NULL);
}
