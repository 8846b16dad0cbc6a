// SPDX-License-Identifier: Apache-2.0
/*
 * store_metrics.c - what the process knows of the shared store, as Prometheus text.
 *
 * A node's label is its address as configured or discovered, so the number of series is bounded by the store. Without a store
 * none of these families is there.
 */
#include <stdlib.h>

#include "fleet/store.h"
#include "net/worker.h"
#include "wire/prometheus.h"

static void write_one(struct text *out, const char *name, enum prometheus_kind kind, const char *help,
                      uint64_t value)
{
    prometheus_family(out, name, kind, help);
    prometheus_u64(out, name, "", NULL, 0, value);
}

static void write_failures(struct text *out, const struct fleet_counters *counters)
{
    const char *name = "weir_store_failures_total";
    const struct {
        struct slice kind;
        uint64_t value;
    } rows[] = {
        { SLICE("late"), counters->late },
        { SLICE("refused"), counters->refused },
        { SLICE("lost"), counters->lost },
        { SLICE("error"), counters->errors },
    };
    prometheus_family(
        out, name, PROMETHEUS_COUNTER,
        "Commands without a decision: late, refused by the store or for want of a connection, lost with their "
        "connection, or answered by an error.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prometheus_label label = { "kind", rows[i].kind };
        prometheus_u64(out, name, "", &label, 1, rows[i].value);
    }
}

static void write_times(struct text *out, const struct fleet_counters *counters)
{
    static const uint64_t bounds_us[] = FLEET_SECONDS_US;
    enum { BOUNDS = sizeof bounds_us / sizeof *bounds_us };
    uint64_t bounds[BOUNDS], counts[BOUNDS + 1], below = 0;
    for (size_t i = 0; i <= BOUNDS; i++) { /* theirs are cumulative, and may move while they are read */
        uint64_t up_to = i < BOUNDS ? counters->seconds_le[i] : counters->seconds_count;
        counts[i] = up_to > below ? up_to - below : 0;
        below += counts[i];
        if (i < BOUNDS)
            bounds[i] = bounds_us[i] * WEIR_MICROSECOND;
    }
    prometheus_family(out, "weir_store_seconds", PROMETHEUS_HISTOGRAM,
                      "From sending a command to its reply; those that came too late are not among them.");
    prometheus_histogram(out, "weir_store_seconds", NULL, 0, bounds, counts, BOUNDS, counters->seconds_sum_ns);
}

static void write_counters(struct text *out, const struct fleet_counters *counters)
{
    write_one(out, "weir_store_commands_total", PROMETHEUS_COUNTER, "Commands sent to the shared store.",
              counters->commands);
    write_times(out, counters);
    write_failures(out, counters);
    write_one(out, "weir_store_avoided_total", PROMETHEUS_COUNTER,
              "Decisions by policy without asking, because of an open breaker.", counters->avoided);
    write_one(out, "weir_store_known_refusals_total", PROMETHEUS_COUNTER,
              "Requests refused without asking, of keys known to be refused until then.", counters->known);
    write_one(out, "weir_store_damaged_keys_total", PROMETHEUS_COUNTER,
              "Keys of the store that could not be read and began afresh.", counters->damaged);
    write_one(out, "weir_store_scripts_total", PROMETHEUS_COUNTER,
              "Scripts sent whole, because the store did not know them.", counters->scripts);
    write_one(out, "weir_store_spent_kept", PROMETHEUS_GAUGE,
              "Tokens let through without the store, and still to be charged to it.", counters->spent_kept);
    write_one(out, "weir_store_spent_told_total", PROMETHEUS_COUNTER,
              "Tokens let through without the store, and charged to it on recovery.", counters->spent_told);
    write_one(out, "weir_store_spent_lost_total", PROMETHEUS_COUNTER,
              "Tokens let through without the store that were not remembered, for want of room.",
              counters->spent_lost);
}

/* What is in hand, counted anew when the last count is a second old: it walks all that is held. */
static void count_held(struct shared_store *store, weir_ns now, uint64_t *held, uint64_t *keys)
{
    uv_mutex_lock(&store->lock);
    if (store->held_at == 0 || now - store->held_at >= WEIR_SECOND) {
        fleet_count_held(store->common, &store->held, &store->held_keys);
        store->held_at = now;
    }
    *held = store->held;
    *keys = store->held_keys;
    uv_mutex_unlock(&store->lock);
}

/* weir_lease_commands_total is part of weir_store_commands_total, and decisions that took from a hand and from the store are none
   of weir_lease_decisions_total: so commands per decision are the one, over all decisions. */
static void write_leases(const struct worker *worker, struct text *out, const struct fleet_counters *counters)
{
    uint64_t held, keys;
    count_held(&worker->server->store, weir_now(), &held, &keys);
    write_one(out, "weir_lease_granted_total", PROMETHEUS_COUNTER,
              "Tokens of leases that the store granted to this server.", counters->lease_granted);
    write_one(out, "weir_lease_spent_total", PROMETHEUS_COUNTER,
              "Tokens of leases that were spent, as far as the store has been told.", counters->lease_spent);
    write_one(out, "weir_lease_returned_total", PROMETHEUS_COUNTER,
              "Tokens of leases that were handed back unspent.", counters->lease_returned);
    write_one(out, "weir_lease_lost_total", PROMETHEUS_COUNTER,
              "Tokens of leases whose time was over before they were spent, reported or handed back.",
              counters->lease_lost);
    write_one(out, "weir_lease_held", PROMETHEUS_GAUGE,
              "Tokens in hand now, that no other server can spend meanwhile.", held);
    write_one(out, "weir_lease_keys", PROMETHEUS_GAUGE, "Keys of which there are tokens in hand.", keys);
    write_one(out, "weir_lease_decisions_total", PROMETHEUS_COUNTER,
              "Decisions out of tokens in hand alone, without a command.", counters->lease_decisions);
    write_one(out, "weir_lease_commands_total", PROMETHEUS_COUNTER,
              "Commands of weir_store_commands_total that were about leases.", counters->lease_commands);
    write_one(out, "weir_lease_messages_total", PROMETHEUS_COUNTER,
              "Messages about leases in them: reports, wishes, returns.", counters->lease_messages);
}

/* As the worker that answers sees them: another one's connections may be in another state for a moment. */
static void write_nodes(struct text *out, const struct worker *worker)
{
    struct store_node *nodes = malloc(SHARED_STORE_NODES_MAX * sizeof *nodes);
    size_t count = nodes == NULL ? 0 : store_client_nodes(worker->store.carrier, nodes, SHARED_STORE_NODES_MAX);
    prometheus_family(out, "weir_store_up", PROMETHEUS_GAUGE,
                      "Whether a node of the store is connected and answers in time.");
    for (size_t i = 0; i < count && i < SHARED_STORE_NODES_MAX; i++) {
        struct prometheus_label label = { "node", slice_of(nodes[i].address) };
        bool is_away = nodes[i].outage != NULL && outage_now(nodes[i].outage).began_at != WEIR_NO_TIME;
        prometheus_u64(out, "weir_store_up", "", &label, 1, nodes[i].is_up && !is_away);
    }
    free(nodes);
}

static void write_breakers(struct text *out, const struct outages *outages)
{
    static const char *const states[] = {
        [OUTAGE_CLOSED] = "closed", [OUTAGE_OPEN] = "open", [OUTAGE_HALF_OPEN] = "half-open"
    };
    const char *name = "weir_store_breaker";
    size_t count = outages_count(outages);
    struct outage_view view;
    prometheus_family(out, name, PROMETHEUS_GAUGE, "The state that the breaker of a node is in is 1.");
    for (size_t i = 0; i < count; i++) {
        outages_view(outages, i, &view);
        for (size_t state = 0; state < sizeof states / sizeof *states; state++) {
            struct prometheus_label labels[] = { { "node", slice_of(view.address) },
                                                 { "state", slice_of(states[state]) } };
            prometheus_u64(out, name, "", labels, 2, (size_t)view.state == state);
        }
    }
    prometheus_family(out, "weir_store_breaker_opened_total", PROMETHEUS_COUNTER,
                      "Times that the breaker of a node opened.");
    for (size_t i = 0; i < count; i++) {
        outages_view(outages, i, &view);
        struct prometheus_label label = { "node", slice_of(view.address) };
        prometheus_u64(out, "weir_store_breaker_opened_total", "", &label, 1, view.opened);
    }
}

void store_end_metrics(const struct worker *worker, struct text *out)
{
    const struct shared_store *store = &worker->server->store;
    struct fleet_counters counters;
    if (worker->store.fleet == NULL)
        return;
    fleet_count(store->common, &counters);
    write_nodes(out, worker);
    write_breakers(out, fleet_common_outages(store->common));
    write_counters(out, &counters);
    write_leases(worker, out, &counters);
}
