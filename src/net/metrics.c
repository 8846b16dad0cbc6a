// SPDX-License-Identifier: Apache-2.0
/*
 * metrics.c - GET /metrics: all workers' counters added up, as Prometheus text.
 *
 * Every label is a name from the contract, a fixed word or a status, so the number of series is bounded by the
 * contract. Walking the table for weir_cells costs milliseconds, so it is done at most once a second however often
 * somebody scrapes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "net/worker.h"
#include "wire/prometheus.h"

/* The families' own lines and the requests' series; then what each limit may add. Doubled until it fits. */
#define TEXT_BASE ((size_t)64 << 10)
#define TEXT_PER_LIMIT ((size_t)512)

static uint64_t sum_decisions(const struct server *server, size_t row, enum weir_outcome outcome)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        total += counter_read(&server->workers[i].counters.decisions[row * WEIR_OUTCOME_COUNT + outcome]);
    return total;
}

/* The limit's name; the row behind the last limit is of requests that met none. */
static struct slice row_name(const struct server *server, size_t row)
{
    if (row == weir_contract_limit_count(server->contract))
        return SLICE("");
    return slice_of(weir_contract_limit(server->contract, (weir_limit_id)row)->name);
}

static void write_decisions(struct text *out, const struct server *server)
{
    const char *name = "weir_decisions_total";
    size_t limit_count = weir_contract_limit_count(server->contract);
    prometheus_family(out, name, PROMETHEUS_COUNTER, "Decisions by limit and outcome; no limit: met none.");
    for (size_t row = 0; row <= limit_count; row++) {
        for (enum weir_outcome outcome = 0; outcome < WEIR_OUTCOME_COUNT; outcome++) {
            uint64_t value = sum_decisions(server, row, outcome);
            bool is_common = row < limit_count && (outcome == WEIR_ALLOW || outcome == WEIR_DENY);
            if (value == 0 && !is_common)
                continue;
            struct prometheus_label labels[] = { { "limit", row_name(server, row) },
                                                 { "decision", slice_of(weir_outcome_name(outcome)) } };
            prometheus_u64(out, name, "", labels, 2, value);
        }
    }
}

static uint64_t sum_undecided(const struct server *server, size_t index)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        total += counter_read(&server->workers[i].counters.undecided[index]);
    return total;
}

static struct slice word(const char *name)
{
    return name == NULL ? SLICE("none") : slice_of(name);
}

static void write_undecided(struct text *out, const struct server *server)
{
    const char *name = "weir_undecided_total";
    size_t per_limit = (size_t)WEIR_POLICY_COUNT * WEIR_REASON_COUNT;
    size_t count = weir_contract_limit_count(server->contract) * per_limit;
    prometheus_family(out, name, PROMETHEUS_COUNTER,
                      "Requests that a policy answered, because no decision could.");
    for (size_t i = 0; i < count; i++) {
        uint64_t value = sum_undecided(server, i);
        if (value == 0)
            continue;
        enum weir_policy policy = (enum weir_policy)(i % per_limit / WEIR_REASON_COUNT);
        enum weir_reason reason = (enum weir_reason)(i % WEIR_REASON_COUNT);
        struct prometheus_label labels[] = { { "limit", row_name(server, i / per_limit) },
                                             { "policy", word(weir_policy_name(policy)) },
                                             { "reason", word(weir_reason_name(reason)) } };
        prometheus_u64(out, name, "", labels, 3, value);
    }
}

static struct weir_stats read_stats(struct server *server)
{
    uv_mutex_lock(&server->stats_lock);
    weir_ns now = weir_now();
    if (server->stats_at == 0 || now - server->stats_at >= WEIR_SECOND) {
        /* In virtual time nothing dies by itself. */
        weir_stats(weir_contract_limiter(server->contract), server->is_virtual ? 0 : now, &server->stats);
        server->stats_at = now;
    }
    struct weir_stats stats = server->stats;
    uv_mutex_unlock(&server->stats_lock);
    return stats;
}

static void write_cells(struct text *out, const struct weir_stats *stats)
{
    const char *name = "weir_cells";
    uint64_t used = stats->cells_live + stats->cells_dead + stats->cells_tentative;
    const struct {
        struct slice state;
        uint64_t value;
    } rows[] = {
        { SLICE("live"), stats->cells_live },
        { SLICE("dead"), stats->cells_dead },
        { SLICE("tentative"), stats->cells_tentative },
        { SLICE("empty"), stats->cells > used ? stats->cells - used : 0 },
    };
    prometheus_family(out, name, PROMETHEUS_GAUGE, "Cells of the table by state.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prometheus_label label = { "state", rows[i].state };
        prometheus_u64(out, name, "", &label, 1, rows[i].value);
    }
}

static void write_table(struct text *out, struct server *server)
{
    struct weir_stats stats = read_stats(server);
    write_cells(out, &stats);
    prometheus_family(out, "weir_reclaims_total", PROMETHEUS_COUNTER,
                      "Cells of dead keys given to other keys.");
    prometheus_u64(out, "weir_reclaims_total", "", NULL, 0, stats.reclaims);

    prometheus_family(out, "weir_overflow_total", PROMETHEUS_COUNTER,
                      "Decisions made on the cell that a limit's keys share when the table is full.");
    size_t count = weir_contract_limit_count(server->contract);
    for (size_t i = 0; i < count; i++) {
        struct prometheus_label label = { "limit", row_name(server, i) };
        prometheus_u64(out, "weir_overflow_total", "", &label, 1,
                       weir_limit_overflows(weir_contract_limiter(server->contract), (weir_limit_id)i));
    }
}

static void write_requests(struct text *out, const struct server *server)
{
    const char *name = "weir_requests_total";
    prometheus_family(out, name, PROMETHEUS_COUNTER, "HTTP requests by door and status.");
    for (enum door door = 0; door < DOOR_COUNT; door++) {
        for (unsigned status = 0; status < COUNTERS_STATUS_MAX; status++) {
            uint64_t total = 0;
            for (unsigned i = 0; i < server->worker_count; i++)
                total += counter_read(&server->workers[i].counters.requests[door][status]);
            if (total == 0)
                continue;
            char code[8];
            int len = snprintf(code, sizeof code, "%u", status);
            struct prometheus_label labels[] = { { "door", slice_of(door_name(door)) },
                                                 { "code", { code, (size_t)len } } };
            prometheus_u64(out, name, "", labels, 2, total);
        }
    }
}

static void write_times(struct text *out, const struct server *server)
{
    uint64_t counts[COUNTERS_TIMES + 1] = { 0 };
    uint64_t sum_ns = 0;
    for (unsigned i = 0; i < server->worker_count; i++) {
        const struct counters *counters = &server->workers[i].counters;
        for (size_t j = 0; j <= COUNTERS_TIMES; j++)
            counts[j] += counter_read(&counters->times[j]);
        sum_ns += counter_read(&counters->time_sum_ns);
    }
    prometheus_family(
        out, "weir_decision_seconds", PROMETHEUS_HISTOGRAM,
        "From reading a request to having its answer; requests read together share their time evenly.");
    prometheus_histogram(out, "weir_decision_seconds", counters_time_bounds, counts, COUNTERS_TIMES, sum_ns);
}

static void write_all(struct text *out, struct server *server)
{
    prometheus_family(out, "weir_contract_info", PROMETHEUS_GAUGE, "The contract in force.");
    struct prometheus_label version = { "version", slice_of(weir_contract_version(server->contract)) };
    prometheus_u64(out, "weir_contract_info", "", &version, 1, 1);
    write_decisions(out, server);
    write_undecided(out, server);
    write_table(out, server);
    write_requests(out, server);
    write_times(out, server);
}

void handle_metrics(struct request *request)
{
    struct server *server = request->turn->conn->worker->server;
    size_t size = TEXT_BASE + weir_contract_limit_count(server->contract) * TEXT_PER_LIMIT;
    for (;; size *= 2) {
        char *space = malloc(size);
        if (space == NULL) {
            turn_error(request->turn, 503, "out of memory", SLICE(""), SLICE(""));
            return;
        }
        struct text out = text_of(space, size);
        write_all(&out, server);
        if (!out.is_cut)
            turn_body(request->turn, 200, PROMETHEUS_TYPE, text_slice(&out));
        free(space);
        if (!out.is_cut)
            return;
    }
}
