// SPDX-License-Identifier: Apache-2.0
/*
 * auth.c - ANY /v1/auth and its siblings: a proxy asks whether its client's request may pass.
 *
 * Idea: the head is the request. The contract's `identity` says which of its fields are believed, and from whom
 * (weir_contract_identify); the answer's status is what each kind of proxy can act on (wire/answer.h).
 *
 * It waits only where the contract's `server: { auth-wait: true }` allows it and the proxy sends `Prefer: wait=`, which
 * it must set or delete itself: what a client sends would be passed on.
 */
#include "net/arrival.h"
#include "net/worker.h"
#include "wire/prefer.h"

static const enum weir_auth_door auth_doors[DOOR_COUNT] = {
    [DOOR_AUTH] = WEIR_AUTH,
    [DOOR_AUTH_NGINX] = WEIR_AUTH_NGINX,
    [DOOR_AUTH_ACCEL] = WEIR_AUTH_ACCEL,
};

/* Whether the proxy sent a token we know. One that we do not know says nothing: it may be the client's. */
static bool has_token(const struct server *server, const struct http1_head *head)
{
    if (server->tokens == NULL)
        return false;
    size_t count;
    const struct weir_field *field = http1_field(head, SLICE("weir-token"), &count);
    return count == 1
           && tokens_role(server->tokens, (struct slice){ field->value, field->value_len }) != ROLE_NONE;
}

void handle_auth(struct request *request)
{
    struct turn *turn = request->turn;
    const struct conn *conn = turn->conn;
    struct worker *worker = conn->worker;
    const struct http1_head *head = request->head;
    struct weir_head weir_head = {
        .door = auth_doors[turn->door],
        .method = head->method.at,
        .method_len = head->method.len,
        .target = request->rest.at,
        .target_len = request->rest.len,
        .fields = head->fields,
        .field_count = head->field_count,
    };
    arrival_peer(conn, has_token(worker->server, head), &weir_head.peer);

    if (!turn_reserve(turn, 1, false)) {
        turn_busy(turn);
        return;
    }
    struct weir_identity *identity = &worker->identity;
    weir_contract_identify(worker->server->contract, &weir_head, identity);
    if (identity->refused != NULL) {
        turn_refuse(turn);
        return;
    }
    struct weir_request ask = { .attributes = identity->attributes,
                                .attribute_count = identity->count,
                                .cost = 1 };
    if (worker->server->settings->auth_wait) {
        turn->preferred = (uint32_t)prefer_wait(head->fields, head->field_count);
        ask.wait = turn->preferred * WEIR_SECOND;
    }
    int code = turn_ask(turn, ASK_CHECK, &ask, 0);
    if (code != 0)
        turn_undecided(turn, code);
}
