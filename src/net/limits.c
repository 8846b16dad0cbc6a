// SPDX-License-Identifier: Apache-2.0
/* limits.c - GET /v1/limits: the contract as loaded, with its version and what each limit has decided. */
#include <stdlib.h>

#include "net/worker.h"

/* A row beside its JSON: seven counters of up to 20 digits and their names. */
#define ROW_MAX 512

/* Decisions of one limit, of all workers. */
static uint64_t sum(const struct server *server, size_t limit, enum weir_outcome outcome)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        total += counter_read(&server->workers[i].counters.decisions[limit * WEIR_OUTCOME_COUNT + outcome]);
    return total;
}

static void write_counters(struct text *out, const struct server *server, weir_limit_id limit)
{
    static const enum weir_outcome shown[] = { WEIR_ALLOW, WEIR_DENY, WEIR_NEVER, WEIR_UNMETERED,
                                               WEIR_REFUSED };
    text_literal(out, "{");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        text_json(out, slice_of(weir_outcome_name(shown[i])));
        text_literal(out, ":");
        text_u64(out, sum(server, (size_t)limit, shown[i]));
        text_literal(out, ",");
    }
    text_literal(out, "\"overflow\":");
    text_u64(out, weir_limit_overflows(weir_contract_limiter(server->contract), limit));
    text_literal(out, "}");
}

/* The limit's own object with one member more. */
static void write_limit(struct text *out, const struct server *server, weir_limit_id limit)
{
    struct slice json = slice_of(weir_contract_limit(server->contract, limit)->json);
    text_slice_add(out, (struct slice){ json.at, json.len - 1 });
    text_string(out, json.len > 2 ? ",\"counters\":" : "\"counters\":");
    write_counters(out, server, limit);
    text_literal(out, "}");
}

void handle_limits(struct request *request)
{
    const struct server *server = request->turn->conn->worker->server;
    size_t count = weir_contract_limit_count(server->contract);
    size_t size = ROW_MAX;
    for (size_t i = 0; i < count; i++)
        size += strlen(weir_contract_limit(server->contract, (weir_limit_id)i)->json) + ROW_MAX;
    char *space = malloc(size);
    if (space == NULL) {
        turn_error(request->turn, 503, "out of memory", SLICE(""), SLICE(""));
        return;
    }
    struct text out = text_of(space, size);
    text_literal(&out, "{\"version\":");
    text_json(&out, slice_of(weir_contract_version(server->contract)));
    text_literal(&out, ",\"limits\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            text_literal(&out, ",");
        write_limit(&out, server, (weir_limit_id)i);
    }
    text_literal(&out, "]}\n");
    turn_body(request->turn, 200, ANSWER_TYPE_JSON, text_slice(&out));
    free(space);
}
