// SPDX-License-Identifier: Apache-2.0
/*
 * health.c - GET /healthz: the process answers, and which contract or certificate it could not put in force; GET /readyz: it
 * wants more work, which it does not while it drains.
 *
 * A file that is not in force makes nobody unhealthy, since a restart would make it worse: the old contract
 * goes on. Nor does a store that is away: readyz stays 200 and lists its nodes.
 */
#include <stdlib.h>

#include "net/worker.h"

void handle_healthz(struct request *request)
{
    char failure[RELOAD_FAILURE_MAX + 32], space[2 * sizeof failure + 128];
    struct text text = text_of(space, sizeof space);
    struct reload *reload = &request->turn->conn->worker->server->reload;
    text_literal(&text, "ok");
    if (reload_failure(reload, failure, sizeof failure)) {
        text_literal(&text, "; contract: last reload failed at ");
        text_string(&text, failure);
    }
    if (reload_tls_failure(reload, failure, sizeof failure)) {
        text_literal(&text, "; tls: last reload failed at ");
        text_string(&text, failure);
    }
    text_literal(&text, "\n");
    turn_body(request->turn, 200, SLICE("text/plain"), text_slice(&text));
}

/* Longest answer of readyz: nodes beyond it are left out. */
#define READY_MAX ((size_t)16 << 10)

/* Not to be taken out of service: its limits answer by their policies, as those of every other replica do. */
static void answer_degraded(struct request *request, struct slice nodes)
{
    char *space = malloc(nodes.len + 64);
    if (space == NULL) {
        turn_body(request->turn, 200, ANSWER_TYPE_JSON, SLICE("{\"ready\":true,\"degraded\":[]}\n"));
        return;
    }
    struct text text = text_of(space, nodes.len + 64);
    text_literal(&text, "{\"ready\":true,\"degraded\":[");
    text_slice_add(&text, nodes);
    text_literal(&text, "]}\n");
    turn_body(request->turn, 200, ANSWER_TYPE_JSON, text_slice(&text));
    free(space);
}

void handle_readyz(struct request *request)
{
    const struct worker *worker = request->turn->conn->worker;
    char space[READY_MAX];
    struct text nodes = text_of(space, sizeof space);
    if (__atomic_load_n(&worker->server->is_draining, __ATOMIC_RELAXED))
        turn_body(request->turn, 503, SLICE("text/plain"), SLICE("draining\n"));
    else if (store_end_degraded(worker, &nodes))
        answer_degraded(request, text_slice(&nodes));
    else
        turn_body(request->turn, 200, SLICE("text/plain"), SLICE("ready\n"));
}
