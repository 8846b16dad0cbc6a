// SPDX-License-Identifier: Apache-2.0
/* health.c - GET /healthz: the process answers; GET /readyz: it wants more work, which it does not while it drains. */
#include "net/worker.h"

void handle_healthz(struct request *request)
{
    turn_body(request->turn, 200, SLICE("text/plain"), SLICE("ok\n"));
}

void handle_readyz(struct request *request)
{
    bool is_draining = __atomic_load_n(&request->turn->conn->worker->server->is_draining, __ATOMIC_RELAXED);
    if (is_draining)
        turn_body(request->turn, 503, SLICE("text/plain"), SLICE("draining\n"));
    else
        turn_body(request->turn, 200, SLICE("text/plain"), SLICE("ready\n"));
}
