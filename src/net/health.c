// SPDX-License-Identifier: Apache-2.0
/*
 * health.c - GET /healthz: the process answers, and which contract it could not put in force; GET /readyz: it
 * wants more work, which it does not while it drains.
 *
 * A file that is not in force makes nobody unhealthy, since a restart would make it worse: the old contract
 * goes on.
 */
#include "net/worker.h"

void handle_healthz(struct request *request)
{
    char failure[RELOAD_FAILURE_MAX + 32], space[sizeof failure + 64];
    struct text text = text_of(space, sizeof space);
    text_literal(&text, "ok");
    if (reload_failure(&request->turn->conn->worker->server->reload, failure, sizeof failure)) {
        text_literal(&text, "; contract: last reload failed at ");
        text_string(&text, failure);
    }
    text_literal(&text, "\n");
    turn_body(request->turn, 200, SLICE("text/plain"), text_slice(&text));
}

void handle_readyz(struct request *request)
{
    bool is_draining = __atomic_load_n(&request->turn->conn->worker->server->is_draining, __ATOMIC_RELAXED);
    if (is_draining)
        turn_body(request->turn, 503, SLICE("text/plain"), SLICE("draining\n"));
    else
        turn_body(request->turn, 200, SLICE("text/plain"), SLICE("ready\n"));
}
