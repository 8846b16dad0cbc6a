// SPDX-License-Identifier: Apache-2.0
/*
 * metrics.c - GET /metrics: all workers' counters added up, as Prometheus text.
 *
 * Every label is a name from the contract, a fixed word or a status, so the number of series is bounded by the
 * contract. Walking the table for weir_cells costs milliseconds, so it is done at most once a second however
 * often somebody scrapes.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/service_metrics.h"
#include "net/worker.h"
#include "wire/prometheus.h"

/* The families' own lines and the requests' series; then what each limit may add. Doubled until it fits. */
#define TEXT_BASE ((size_t)64 << 10)
#define TEXT_PER_LIMIT ((size_t)512)

/* What a scrape reads: every worker's counters by the rows of one edition. */
struct scrape {
    struct server *server;
    const struct worker *worker; /* that answers */
    const struct edition *edition;
    uint64_t *waiting; /* in the queues of each limit */
};

/* The limit's name; the one behind the last stands for requests that none bound. */
static struct slice name_of(const struct scrape *scrape, size_t limit)
{
    return limit < scrape->edition->limit_count ? slice_of(scrape->edition->limits[limit].name) : SLICE("");
}

/* One worker's row of the limit; NULL: it is not counted. */
static const struct counter_row *row_of(const struct scrape *scrape, unsigned worker, size_t limit)
{
    return counters_row_of(&scrape->server->workers[worker].counters, scrape->edition->rows,
                           (weir_limit_id)limit);
}

static uint64_t sum_decisions(const struct scrape *scrape, size_t limit, enum weir_outcome outcome)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < scrape->server->worker_count; i++) {
        const struct counters *counters = &scrape->server->workers[i].counters;
        bool is_none = limit == scrape->edition->limit_count;
        const struct counter_row *row = is_none ? NULL : row_of(scrape, i, limit);
        if (is_none)
            total += counter_read(&counters->none[outcome]);
        else if (row != NULL)
            total += counter_read(&row->decisions[outcome]);
    }
    return total;
}

static uint64_t sum_watched(const struct scrape *scrape, size_t limit, enum weir_outcome outcome)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < scrape->server->worker_count; i++) {
        const struct counter_row *row = row_of(scrape, i, limit);
        total += row == NULL ? 0 : counter_read(&row->watched[outcome]);
    }
    return total;
}

static uint64_t sum_looks(const struct scrape *scrape, size_t limit, enum weir_outcome outcome)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < scrape->server->worker_count; i++) {
        const struct counter_row *row = row_of(scrape, i, limit);
        total += row == NULL ? 0 : counter_read(&row->looks[outcome]);
    }
    return total;
}

static uint64_t sum_ends(const struct scrape *scrape, size_t limit, enum wait_end end)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < scrape->server->worker_count; i++) {
        const struct counter_row *row = row_of(scrape, i, limit);
        total += row == NULL ? 0 : counter_read(&row->waits[end]);
    }
    return total;
}

static uint64_t sum_undecided(const struct scrape *scrape, size_t limit, enum weir_policy policy,
                              enum weir_reason reason)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < scrape->server->worker_count; i++) {
        const struct counter_row *row = row_of(scrape, i, limit);
        total += row == NULL ? 0 : counter_read(&row->undecided[policy][reason]);
    }
    return total;
}

static void write_outcome(struct text *out, const char *name, struct slice limit, enum weir_outcome outcome,
                          uint64_t value)
{
    struct prometheus_label labels[] = { { "limit", limit },
                                         { "decision", slice_of(weir_outcome_name(outcome)) } };
    prometheus_u64(out, name, "", labels, 2, value);
}

static void write_decisions(struct text *out, const struct scrape *scrape)
{
    const char *name = "weir_decisions_total";
    size_t count = scrape->edition->limit_count;
    prometheus_family(out, name, PROMETHEUS_COUNTER, "Decisions by limit and outcome; no limit: met none.");
    for (size_t limit = 0; limit <= count; limit++) {
        for (enum weir_outcome outcome = 0; outcome < WEIR_OUTCOME_COUNT; outcome++) {
            uint64_t value = sum_decisions(scrape, limit, outcome);
            bool is_common = limit < count && (outcome == WEIR_ALLOW || outcome == WEIR_DENY);
            if (value != 0 || is_common)
                write_outcome(out, name, name_of(scrape, limit), outcome, value);
        }
    }
}

static void write_watched(struct text *out, const struct scrape *scrape)
{
    const char *name = "weir_shadow_total";
    prometheus_family(out, name, PROMETHEUS_COUNTER, "What limits that do not enforce would have decided.");
    for (size_t limit = 0; limit < scrape->edition->limit_count; limit++) {
        for (enum weir_outcome outcome = 0; outcome < WEIR_OUTCOME_COUNT; outcome++) {
            uint64_t value = sum_watched(scrape, limit, outcome);
            if (value != 0)
                write_outcome(out, name, name_of(scrape, limit), outcome, value);
        }
    }
}

static void write_looks(struct text *out, const struct scrape *scrape)
{
    const char *name = "weir_looks_total";
    prometheus_family(out, name, PROMETHEUS_COUNTER,
                      "What concurrency limits said at doors that give no permits.");
    for (size_t limit = 0; limit < scrape->edition->limit_count; limit++) {
        for (enum weir_outcome outcome = 0; outcome < WEIR_OUTCOME_COUNT; outcome++) {
            uint64_t value = sum_looks(scrape, limit, outcome);
            if (value != 0)
                write_outcome(out, name, name_of(scrape, limit), outcome, value);
        }
    }
}

static struct slice word(const char *name)
{
    return name == NULL ? SLICE("none") : slice_of(name);
}

static void write_undecided(struct text *out, const struct scrape *scrape)
{
    const char *name = "weir_undecided_total";
    size_t per_limit = (size_t)WEIR_POLICY_COUNT * WEIR_REASON_COUNT;
    size_t count = scrape->edition->limit_count * per_limit;
    prometheus_family(out, name, PROMETHEUS_COUNTER,
                      "Requests that a policy answered, because no decision could; local: out of a share.");
    for (size_t i = 0; i < count; i++) {
        enum weir_policy policy = (enum weir_policy)(i % per_limit / WEIR_REASON_COUNT);
        enum weir_reason reason = (enum weir_reason)(i % WEIR_REASON_COUNT);
        uint64_t value = sum_undecided(scrape, i / per_limit, policy, reason);
        if (value == 0)
            continue;
        struct prometheus_label labels[] = { { "limit", name_of(scrape, i / per_limit) },
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

/* Permits of the pool: those that have expired and were not looked at since count as held. Held ones may be reserved ones. */
static void write_pool(struct text *out, const struct weir_stats *stats)
{
    const char *name = "weir_permit_pool";
    struct prometheus_label held = { "state", SLICE("held") }, free_ = { "state", SLICE("free") };
    prometheus_family(out, name, PROMETHEUS_GAUGE, "Permits of the pool by state.");
    prometheus_u64(out, name, "", &held, 1, stats->permits_held);
    prometheus_u64(out, name, "", &free_, 1, stats->permits_free);
}

static void write_table(struct text *out, const struct scrape *scrape)
{
    struct weir_stats stats = read_stats(scrape->server);
    write_cells(out, &stats);
    write_pool(out, &stats);
    prometheus_family(out, "weir_reclaims_total", PROMETHEUS_COUNTER,
                      "Cells of dead keys given to other keys.");
    prometheus_u64(out, "weir_reclaims_total", "", NULL, 0, stats.reclaims);

    const struct weir *limiter = weir_contract_limiter(scrape->server->contract);
    prometheus_family(out, "weir_overflow_total", PROMETHEUS_COUNTER,
                      "Decisions made on the cell that a limit's keys share when the table is full.");
    for (size_t i = 0; i < scrape->edition->limit_count; i++) {
        struct prometheus_label label = { "limit", name_of(scrape, i) };
        prometheus_u64(out, "weir_overflow_total", "", &label, 1,
                       weir_limit_overflows(limiter, (weir_limit_id)i));
    }
}

static void write_requests(struct text *out, const struct server *server)
{
    const char *name = "weir_requests_total";
    prometheus_family(out, name, PROMETHEUS_COUNTER,
                      "Requests by door and status; the other protocols' in the statuses of HTTP.");
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

/* One door's decisions of all workers. False: there were none. */
static bool sum_times(const struct server *server, enum door door, uint64_t counts[COUNTERS_TIMES + 1],
                      uint64_t *sum_ns)
{
    uint64_t total = 0;
    memset(counts, 0, (COUNTERS_TIMES + 1) * sizeof *counts);
    *sum_ns = 0;
    for (unsigned i = 0; i < server->worker_count; i++) {
        const struct counters *counters = &server->workers[i].counters;
        for (size_t j = 0; j <= COUNTERS_TIMES; j++)
            total += counts[j] += counter_read(&counters->times[door][j]);
        *sum_ns += counter_read(&counters->time_sum_ns[door]);
    }
    return total > 0;
}

static void write_times(struct text *out, const struct server *server)
{
    prometheus_family(
        out, "weir_decision_seconds", PROMETHEUS_HISTOGRAM,
        "From reading a request to having its answer; requests read together share their time evenly.");
    for (enum door door = 0; door < DOOR_COUNT; door++) {
        uint64_t counts[COUNTERS_TIMES + 1], sum_ns;
        struct prometheus_label label = { "door", slice_of(door_name(door)) };
        if (sum_times(server, door, counts, &sum_ns))
            prometheus_histogram(out, "weir_decision_seconds", &label, 1, counters_time_bounds, counts,
                                 COUNTERS_TIMES, sum_ns);
    }
}

/* ---- Waiting and permits --------------------------------------------------------------------------------- */

/* One counter of every worker, `offset` bytes into its counters. */
static uint64_t sum_at(const struct server *server, size_t offset)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++) {
        const char *counters = (const char *)&server->workers[i].counters;
        total += counter_read((const uint64_t *)(const void *)(counters + offset));
    }
    return total;
}

/* A family whose series differ in one fixed word; `offset` is of the first of `count` counters in a row. */
static void write_words(struct text *out, const struct server *server, const char *name, const char *help,
                        const char *label_name, const char *const *words, size_t count, size_t offset)
{
    prometheus_family(out, name, PROMETHEUS_COUNTER, help);
    for (size_t i = 0; i < count; i++) {
        struct prometheus_label label = { label_name, slice_of(words[i]) };
        prometheus_u64(out, name, "", &label, 1, sum_at(server, offset + i * sizeof(uint64_t)));
    }
}

static void write_wait_times(struct text *out, const struct server *server)
{
    uint64_t counts[COUNTERS_WAITS + 1];
    for (size_t i = 0; i <= COUNTERS_WAITS; i++)
        counts[i] = sum_at(server, offsetof(struct counters, wait_times) + i * sizeof *counts);
    prometheus_family(out, "weir_wait_seconds", PROMETHEUS_HISTOGRAM,
                      "How long requests waited that were served in the end.");
    prometheus_histogram(out, "weir_wait_seconds", NULL, 0, counters_wait_bounds, counts, COUNTERS_WAITS,
                         sum_at(server, offsetof(struct counters, wait_sum_ns)));
}

/* Those that get an answer count by the limit that bound it, the others by none. What is usual is there from the start. */
static void write_ends(struct text *out, const struct scrape *scrape, const char *name)
{
    static const char *const ends[] = {
        [WAIT_SERVED] = "served", [WAIT_REFUSED] = "refused", [WAIT_TIMEOUT] = "timeout",
        [WAIT_LEFT] = "left",     [WAIT_DRAINED] = "drained",
    };
    static_assert(sizeof ends / sizeof *ends == WAIT_END_COUNT, "every end has a word");
    size_t limits = scrape->edition->limit_count;
    for (size_t i = 0; i < (limits + 1) * WAIT_END_COUNT; i++) {
        size_t limit = i / WAIT_END_COUNT;
        enum wait_end end = (enum wait_end)(i % WAIT_END_COUNT);
        uint64_t value = limit < limits ? sum_ends(scrape, limit, end)
                                        : sum_at(scrape->server,
                                                 offsetof(struct counters, waits[0]) + end * sizeof(uint64_t));
        bool is_usual = limit == limits ? end >= WAIT_LEFT
                                        : end < WAIT_LEFT && scrape->edition->limits[limit].wait.up_to > 0;
        if (value == 0 && !is_usual)
            continue;
        struct prometheus_label labels[] = { { "limit", name_of(scrape, limit) },
                                             { "end", slice_of(ends[end]) } };
        prometheus_u64(out, name, "", labels, 2, value);
    }
}

static void write_queues(struct text *out, const struct scrape *scrape)
{
    prometheus_family(out, "weir_queued", PROMETHEUS_GAUGE,
                      "Places taken in the queues of a limit; who waits for two limits stands in both.");
    for (size_t i = 0; i < scrape->edition->limit_count; i++) {
        struct prometheus_label label = { "limit", name_of(scrape, i) };
        if (scrape->edition->limits[i].wait.up_to > 0)
            prometheus_u64(out, "weir_queued", "", &label, 1, scrape->waiting[i]);
    }
}

static void write_waiting(struct text *out, const struct scrape *scrape)
{
    const struct server *server = scrape->server;
    prometheus_family(out, "weir_waiting", PROMETHEUS_GAUGE, "Requests that wait for their turn.");
    prometheus_u64(out, "weir_waiting", "", NULL, 0, __atomic_load_n(&server->parked_count, __ATOMIC_RELAXED));
    write_queues(out, scrape);
    prometheus_family(
        out, "weir_waits_total", PROMETHEUS_COUNTER,
        "Requests that had to wait and said how long they could, by the limit that bound the answer.");
    write_ends(out, scrape, "weir_waits_total");
    write_wait_times(out, server);
}

static void write_permits(struct text *out, const struct server *server)
{
    static const char *const events[] = {
        [PERMIT_ACQUIRED] = "acquired", [PERMIT_RENEWED] = "renewed", [PERMIT_RELEASED] = "released",
        [PERMIT_RETURNED] = "returned", [PERMIT_LOST] = "lost",
    };
    const char *outcomes[CALL_OUTCOME_COUNT];
    static_assert(sizeof events / sizeof *events == PERMIT_EVENT_COUNT, "every event has a word");
    for (enum call_outcome i = 0; i < CALL_OUTCOME_COUNT; i++)
        outcomes[i] = call_outcome_name(i);
    write_words(
        out, server, "weir_permits_total",
        "Permits given, renewed, given back by their holders or by the end of a connection, and found lost.",
        "event", events, PERMIT_EVENT_COUNT, offsetof(struct counters, permits));
    write_words(out, server, "weir_releases_total", "How the work that permits covered ended.", "outcome",
                outcomes, CALL_OUTCOME_COUNT, offsetof(struct counters, releases));
}

static void write_contract(struct text *out, const struct scrape *scrape)
{
    const struct reload *reload = &scrape->server->reload;
    struct prometheus_label version = { "version", slice_of(scrape->edition->version) };
    struct prometheus_label good = { "result", SLICE("ok") }, bad = { "result", SLICE("failed") };
    prometheus_family(out, "weir_contract_info", PROMETHEUS_GAUGE, "The contract in force.");
    prometheus_u64(out, "weir_contract_info", "", &version, 1, 1);
    prometheus_family(out, "weir_reload_total", PROMETHEUS_COUNTER,
                      "Reloads that put a contract in force, and that left the old one.");
    prometheus_u64(out, "weir_reload_total", "", &good, 1, counter_read(&reload->succeeded));
    prometheus_u64(out, "weir_reload_total", "", &bad, 1, counter_read(&reload->failed));
}

static void write_dropped(struct text *out, const struct server *server)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        total += counter_read(&server->workers[i].counters.dropped);
    prometheus_family(out, "weir_debt_lost_total", PROMETHEUS_COUNTER,
                      "Tokens of settlements that fitted under no debt and were charged to nobody.");
    prometheus_u64(out, "weir_debt_lost_total", "", NULL, 0, total);
}

static void write_all(struct text *out, const struct scrape *scrape)
{
    write_contract(out, scrape);
    write_decisions(out, scrape);
    write_watched(out, scrape);
    write_looks(out, scrape);
    write_undecided(out, scrape);
    write_dropped(out, scrape->server);
    write_table(out, scrape);
    write_requests(out, scrape->server);
    write_times(out, scrape->server);
    write_waiting(out, scrape);
    write_permits(out, scrape->server);
    store_end_metrics(scrape->worker, out);
    service_metrics(out, scrape->server);
}

/* Ids of limits are read by: a reload in between makes it start over. */
static bool is_current(const struct scrape *scrape)
{
    return weir_set_current(weir_contract_limiter(scrape->server->contract)) == scrape->edition->set;
}

/* Whether the scraper says that it reads OpenMetrics; Prometheus does, and prefers it. */
static bool wants_open(const struct request *request)
{
    const struct slice open = SLICE("application/openmetrics-text");
    const struct weir_field *accept =
        request->head == NULL ? NULL : http1_field(request->head, SLICE("accept"), NULL);
    return accept != NULL && memmem(accept->value, accept->value_len, open.at, open.len) != NULL;
}

static void answer(struct request *request, struct slice classic)
{
    size_t size = classic.len + classic.len / 8 + 64; /* more than escapes and the last line take */
    char *space = wants_open(request) ? malloc(size) : NULL;
    if (space == NULL) {
        turn_body(request->turn, 200, PROMETHEUS_TYPE, classic);
        return;
    }
    struct text open = text_of(space, size);
    prometheus_open(&open, classic);
    assert(!open.is_cut);
    turn_body(request->turn, 200, PROMETHEUS_OPEN_TYPE, text_slice(&open));
    free(space);
}

void handle_metrics(struct request *request)
{
    struct worker *worker = request->turn->conn->worker;
    size_t size = TEXT_BASE + edition_in_force(worker)->limit_count * TEXT_PER_LIMIT;
    for (bool is_done = false; !is_done;) {
        struct scrape scrape = { worker->server, worker, edition_in_force(worker), NULL };
        size_t limits = scrape.edition->limit_count;
        char *space = malloc(size);
        scrape.waiting = malloc((limits + 1) * sizeof *scrape.waiting);
        if (space == NULL || scrape.waiting == NULL) {
            free(space);
            free(scrape.waiting);
            turn_error(request->turn, 503, "out of memory", SLICE(""), SLICE(""));
            return;
        }
        struct text out = text_of(space, size);
        weir_set_waiting(scrape.edition->set, scrape.waiting, limits);
        write_all(&out, &scrape);
        is_done = !out.is_cut && is_current(&scrape);
        if (is_done)
            answer(request, text_slice(&out));
        else if (out.is_cut)
            size *= 2;
        free(space);
        free(scrape.waiting);
    }
}
