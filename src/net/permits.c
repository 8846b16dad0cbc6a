// SPDX-License-Identifier: Apache-2.0
/*
 * permits.c - POST /v1/acquire, renew and release, and the permits that end with their connection.
 *
 * Idea: a permit returns when it is released, at its expiry, or, if its holder asked for that, when the connection it
 * was given on ends, whichever comes first. HTTP connections are pooled and a holder's may be anybody's next, so this is
 * opt-in: `"bind": "connection"` is for who keeps one connection for as long as the work runs.
 *
 * What is bound is a bounded list of the connection. One leaves it when it is released or found lost there, and when
 * room is needed and it was not renewed there in time.
 */
#include <stdlib.h>

#include "net/calls.h"
#include "net/operate.h"
#include "net/worker.h"

/* ---- Bound to a connection --------------------------------------------------------------------------------------- */

struct bound {
    struct bound *next;
    weir_ns expires_at; /* as far as this connection knows */
    size_t len;
    char bytes[]; /* its token */
};

bool permits_bind(struct conn *conn, struct slice token, weir_ns expires_at)
{
    struct bound *bound = malloc(sizeof *bound + token.len);
    if (bound == NULL)
        return false;
    bound->expires_at = expires_at;
    bound->len = token.len;
    memcpy(bound->bytes, token.at, token.len);
    bound->next = conn->bound;
    conn->bound = bound;
    return true;
}

static void unbind(struct conn *conn, struct bound **link)
{
    struct bound *bound = *link;
    *link = bound->next;
    conn->bound_count--;
    free(bound);
}

/* Where the connection keeps a permit; NULL: it does not. */
static struct bound **find_bound(struct conn *conn, struct slice token)
{
    for (struct bound **link = &conn->bound; *link != NULL; link = &(*link)->next)
        if ((*link)->len == token.len && memcmp((*link)->bytes, token.at, token.len) == 0)
            return link;
    return NULL;
}

void permits_unbind(struct conn *conn, struct slice token)
{
    struct bound **bound = find_bound(conn, token);
    if (bound != NULL)
        unbind(conn, bound);
}

void permits_renewed(struct conn *conn, struct slice token, weir_ns expires_at)
{
    struct bound **bound = find_bound(conn, token);
    if (bound != NULL)
        (*bound)->expires_at = expires_at;
}

_Static_assert(BOUND_MAX == 128, "what a full connection is told says so");

/* Room for one more, after those that have expired were forgotten. */
static bool reserve_bound(struct conn *conn, weir_ns now)
{
    for (struct bound **link = &conn->bound; conn->bound_count >= BOUND_MAX && *link != NULL;) {
        if ((*link)->expires_at <= now)
            unbind(conn, link);
        else
            link = &(*link)->next;
    }
    if (conn->bound_count >= BOUND_MAX)
        return false;
    conn->bound_count++;
    return true;
}

void permits_give_back(struct worker *worker, struct slice token, weir_ns now)
{
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    struct token parts;
    bool was_held = false;
    if (!token_split(token, WEIR_PERMIT_MAX, &parts))
        return; /* it is ours */
    bool is_known =
        parts.own.len == 0 || weir_release(limiter, parts.own.at, parts.own.len, now, &was_held) == 0;
    if (parts.shared.len > 0)
        operate_give_back(worker, FLEET_RELEASE, parts.shared);
    if (is_known && (was_held || parts.shared.len > 0))
        counter_add(&worker->counters.permits[PERMIT_RETURNED], 1);
}

void permits_return(struct conn *conn)
{
    weir_ns now = conn->bound == NULL ? 0 : ticker_now(conn->worker);
    while (conn->bound != NULL) {
        const struct bound *bound = conn->bound;
        permits_give_back(conn->worker, (struct slice){ bound->bytes, bound->len }, now);
        unbind(conn, &conn->bound);
    }
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

void permits_acquire(struct turn *turn, const struct call_body *body)
{
    if (body->is_bound && !reserve_bound(turn->conn, turn->now)) {
        turn_error(turn, 400, "bind: this connection has 128 permits already: release some, or open another",
                   SLICE("bind"), SLICE(""));
        return;
    }
    turn->is_bound = body->is_bound;
    if (!turn_reserve(turn, 1, false)) {
        turn_busy(turn);
        return;
    }
    int code = turn_ask(turn, ASK_ACQUIRE, &body->ask, 0);
    if (code != 0)
        calls_answer_code(turn, CALL_ACQUIRE, body, code);
}

void permits_renew(struct turn *turn, const struct call_body *body)
{
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    weir_ns expires_at;
    if (body->token.shared.len > 0) {
        operate_renew(turn, body);
        return;
    }
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    int code = weir_renew(limiter, body->handle.at, body->handle.len, turn->now, &expires_at);
    if (code != 0) {
        calls_answer_code(turn, CALL_RENEW, body, code);
        return;
    }
    bool is_lost = expires_at == WEIR_NO_TIME;
    counter_add(&worker->counters.permits[is_lost ? PERMIT_LOST : PERMIT_RENEWED], 1);
    if (is_lost) {
        permits_unbind(conn, body->handle);
        turn_error(
            turn, 404,
            "the permit has expired or was released, and another may have its place: stop what it covered",
            SLICE("permit"), SLICE(""));
        return;
    }
    permits_renewed(conn, body->handle, expires_at);
    char space[128];
    struct text text = text_of(space, sizeof space);
    answer_renewed(&text, turn_form(turn), expires_at > turn->now ? expires_at - turn->now : 0);
    turn_body(turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
}

void permits_release(struct turn *turn, const struct call_body *body)
{
    struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    bool was_held;
    if (body->token.shared.len > 0) {
        operate_release(turn, body);
        return;
    }
    struct weir *limiter = weir_contract_limiter(worker->server->contract);
    int code = weir_release(limiter, body->handle.at, body->handle.len, turn->now, &was_held);
    if (code != 0) {
        calls_answer_code(turn, CALL_RELEASE, body, code);
        return;
    }
    permits_unbind(conn, body->handle);
    counter_add(&worker->counters.permits[was_held ? PERMIT_RELEASED : PERMIT_LOST], 1);
    counter_add(&worker->counters.releases[body->outcome], 1);
    char space[128];
    struct text text = text_of(space, sizeof space);
    answer_released(&text, turn_form(turn), was_held);
    turn_body(turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
}
