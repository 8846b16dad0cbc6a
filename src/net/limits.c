// SPDX-License-Identifier: Apache-2.0
/* limits.c - GET /v1/limits: the contract as loaded, with its version and what each limit has decided. */
#include <stdlib.h>

#include "net/worker.h"

/* A row beside its JSON: twice seven counters of up to 20 digits and their names. */
#define ROW_MAX 1024

static const enum weir_outcome shown[] = { WEIR_ALLOW,     WEIR_DENY,      WEIR_NEVER,
                                           WEIR_DUPLICATE, WEIR_UNMETERED, WEIR_REFUSED };

/* What a limit said, of all workers. */
static struct counter_row sum(const struct server *server, const struct edition *edition, size_t limit)
{
    struct counter_row total = { .decisions = { 0 } };
    for (unsigned i = 0; edition->rows != NULL && i < server->worker_count; i++) {
        const struct counter_row *row = counters_row(&server->workers[i].counters, edition->rows[limit]);
        for (size_t j = 0; row != NULL && j < WEIR_OUTCOME_COUNT; j++) {
            total.decisions[j] += counter_read(&row->decisions[j]);
            total.watched[j] += counter_read(&row->watched[j]);
        }
    }
    return total;
}

/* "allow":1,"deny":0,... */
static void write_outcomes(struct text *out, const uint64_t *counts)
{
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        if (i > 0)
            text_literal(out, ",");
        text_json(out, slice_of(weir_outcome_name(shown[i])));
        text_literal(out, ":");
        text_u64(out, counts[shown[i]]);
    }
}

static void write_counters(struct text *out, const struct server *server, const struct edition *edition,
                           size_t limit)
{
    struct counter_row total = sum(server, edition, limit);
    text_literal(out, "{");
    write_outcomes(out, total.decisions);
    text_literal(out, ",\"overflow\":");
    text_u64(out, weir_limit_overflows(weir_contract_limiter(server->contract), (weir_limit_id)limit));
    if (edition->limits[limit].enforce != WEIR_ENFORCE_ALWAYS) {
        text_literal(out, ",\"shadow\":{");
        write_outcomes(out, total.watched);
        text_literal(out, "}");
    }
    text_literal(out, "}");
}

/* The limit's own object with one member more, or two. */
static void write_limit(struct text *out, const struct server *server, const struct edition *edition,
                        const uint64_t *waiting, size_t limit)
{
    struct slice json = slice_of(edition->limits[limit].json);
    text_slice_add(out, (struct slice){ json.at, json.len - 1 });
    text_string(out, json.len > 2 ? ",\"counters\":" : "\"counters\":");
    write_counters(out, server, edition, limit);
    if (edition->limits[limit].wait.up_to > 0) {
        text_literal(out, ",\"waiting\":");
        text_u64(out, waiting[limit]);
    }
    text_literal(out, "}");
}

static void write_all(struct text *out, const struct server *server, const struct edition *edition,
                      const uint64_t *waiting)
{
    text_literal(out, "{\"version\":");
    text_json(out, slice_of(edition->version));
    text_literal(out, ",\"limits\":[");
    for (size_t i = 0; i < edition->limit_count; i++) {
        if (i > 0)
            text_literal(out, ",");
        write_limit(out, server, edition, waiting, i);
    }
    text_literal(out, "]}\n");
}

static size_t size_of(const struct edition *edition)
{
    size_t size = ROW_MAX;
    for (size_t i = 0; i < edition->limit_count; i++)
        size += strlen(edition->limits[i].json) + ROW_MAX;
    return size;
}

void handle_limits(struct request *request)
{
    struct worker *worker = request->turn->conn->worker;
    const struct weir *limiter = weir_contract_limiter(worker->server->contract);
    const struct edition *edition;
    do { /* ids of limits are read by: a reload in between makes it start over */
        edition = edition_in_force(worker);
        size_t size = size_of(edition);
        char *space = malloc(size);
        uint64_t *waiting = malloc((edition->limit_count + 1) * sizeof *waiting);
        if (space == NULL || waiting == NULL) {
            free(space);
            free(waiting);
            turn_error(request->turn, 503, "out of memory", SLICE(""), SLICE(""));
            return;
        }
        struct text out = text_of(space, size);
        weir_set_waiting(edition->set, waiting, edition->limit_count);
        write_all(&out, worker->server, edition, waiting);
        if (weir_set_current(limiter) == edition->set)
            turn_body(request->turn, 200, ANSWER_TYPE_JSON, text_slice(&out));
        free(space);
        free(waiting);
    } while (!request->turn->is_done && !request->turn->conn->is_gone);
}
