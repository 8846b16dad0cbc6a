// SPDX-License-Identifier: Apache-2.0
/*
 * service_metrics.c - what an operator watches beside decisions: see service_metrics.h.
 *
 * A certificate that is about to end and a reload that did not take the new one are the two faults of TLS that no request
 * shows before it is too late, so both are numbers here.
 */
#include "net/service_metrics.h"

#include "net/worker.h"
#include "wire/prometheus.h"

static void write_results(struct text *out, const char *name, uint64_t good, uint64_t bad)
{
    struct prometheus_label ok = { "result", SLICE("ok") }, failed = { "result", SLICE("failed") };
    prometheus_u64(out, name, "", &ok, 1, good);
    prometheus_u64(out, name, "", &failed, 1, bad);
}

static void write_tls(struct text *out, struct server *server)
{
    const struct reload *reload = &server->reload;
    int64_t expires_at = door_tls_expires_at(&server->tls);
    uint64_t broken = 0;
    if (server->tls.context == NULL)
        return;
    prometheus_family(out, "weir_tls_reload_total", PROMETHEUS_COUNTER,
                      "Reloads that took certificate and key of the files, and that left the old ones.");
    write_results(out, "weir_tls_reload_total", counter_read(&reload->tls_succeeded),
                  counter_read(&reload->tls_failed));
    prometheus_family(out, "weir_tls_certificate_expiry_timestamp_seconds", PROMETHEUS_GAUGE,
                      "When the certificate that is shown ends, in Unix time.");
    prometheus_u64(out, "weir_tls_certificate_expiry_timestamp_seconds", "", NULL, 0,
                   expires_at > 0 ? (uint64_t)expires_at : 0);
    for (unsigned i = 0; i < server->worker_count; i++)
        broken += counter_read(&server->workers[i].counters.handshakes_broken);
    prometheus_family(out, "weir_tls_handshakes_failed_total", PROMETHEUS_COUNTER,
                      "Connections to a TLS door that ended before their handshake was over.");
    prometheus_u64(out, "weir_tls_handshakes_failed_total", "", NULL, 0, broken);
}

static uint64_t sum_refusals(const struct server *server, enum refusal refusal)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        total += counter_read(&server->workers[i].counters.refusals[refusal]);
    return total;
}

static void write_refusals(struct text *out, const struct server *server)
{
    static const char *const words[] = {
        [REFUSAL_PEER_FULL] = "peer-full",
        [REFUSAL_PROXY_HEADER] = "proxy-header",
        [REFUSAL_SLOW] = "slow",
    };
    static_assert(sizeof words / sizeof *words == REFUSAL_COUNT, "every reason has a word");
    prometheus_family(out, "weir_connections_refused_total", PROMETHEUS_COUNTER,
                      "Connections that were not served, or no longer, by what was wrong with them.");
    for (enum refusal refusal = 0; refusal < REFUSAL_COUNT; refusal++) {
        struct prometheus_label reason = { "reason", slice_of(words[refusal]) };
        prometheus_u64(out, "weir_connections_refused_total", "", &reason, 1, sum_refusals(server, refusal));
    }
    prometheus_family(out, "weir_accept_pauses_total", PROMETHEUS_COUNTER,
                      "Times that nobody was accepted, since there were as many connections as there may be.");
    prometheus_u64(out, "weir_accept_pauses_total", "", NULL, 0, counter_read(&server->accept_pauses));
}

static uint64_t closed(const struct server *server, enum gate gate)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        total += counter_read(&server->workers[i].counters.closed[gate]);
    return total;
}

/* What was closed is read first, so that what is open is never less than nothing. */
static void write_connections(struct text *out, const struct server *server)
{
    uint64_t open[GATE_COUNT], accepted[GATE_COUNT];
    for (enum gate gate = 0; gate < GATE_COUNT; gate++) {
        uint64_t gone = closed(server, gate);
        accepted[gate] = counter_read(&server->accepted[gate]);
        open[gate] = accepted[gate] > gone ? accepted[gate] - gone : 0;
    }
    prometheus_family(out, "weir_connections", PROMETHEUS_GAUGE, "Connections that are open.");
    for (enum gate gate = 0; gate < GATE_COUNT; gate++)
        prometheus_u64(out, "weir_connections", "",
                       &(struct prometheus_label){ "door", slice_of(gate_name(gate)) }, 1, open[gate]);
    prometheus_family(out, "weir_connections_accepted_total", PROMETHEUS_COUNTER, "Connections that came.");
    for (enum gate gate = 0; gate < GATE_COUNT; gate++)
        prometheus_u64(out, "weir_connections_accepted_total", "",
                       &(struct prometheus_label){ "door", slice_of(gate_name(gate)) }, 1, accepted[gate]);
    prometheus_family(out, "weir_connections_max", PROMETHEUS_GAUGE,
                      "How many may be open at once; beyond it they wait in the kernel.");
    prometheus_u64(out, "weir_connections_max", "", NULL, 0, server->conns_max);
}

void service_metrics(struct text *out, struct server *server)
{
    write_connections(out, server);
    write_refusals(out, server);
    write_tls(out, server);
}
