// SPDX-License-Identifier: Apache-2.0
/* shared_store.c - from a URL to a fleet on each loop; see shared_store.h. */
#include "net/shared_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "fleet/script.h"
#include "fleet/store.h"
#include "io/tls.h"
#include "net/log.h"
#include "net/worker.h"

/* In virtual time replies are waited for as long as they take. */
#define VIRTUAL_DEADLINE (365 * WEIR_DAY)

/* ---- The process --------------------------------------------------------------------------------------------------- */

static uint64_t draw_seed(void)
{
    uint64_t seed;
    if (!entropy_fill(&seed, sizeof seed))
        seed = weir_now(); /* only pauses are drawn from it; names of permits have their own randomness */
    return seed;
}

static int complain(const char *what, const char *why)
{
    (void)fprintf(stderr, "weir serve: %s: %s\n", what, why); /* nowhere else to say it */
    return 2;
}

/* Who holds leases, for people: "web-3:1234". A long name of the host gives way to the rest. */
static void name_process(struct fleet_common *common)
{
    char host[UV_MAXHOSTNAMESIZE], label[SCRIPT_LABEL_MAX + 1], pid[16];
    size_t len = sizeof host;
    if (uv_os_gethostname(host, &len) != 0)
        (void)snprintf(host, sizeof host, "?");
    int pid_len = snprintf(pid, sizeof pid, ":%d", (int)uv_os_getpid());
    (void)snprintf(label, sizeof label, "%.*s%s", SCRIPT_LABEL_MAX - pid_len, host, pid);
    fleet_common_name(common, 0, label);
}

int shared_store_open(struct shared_store *store, const char *url, const struct weir_contract *contract)
{
    const struct weir_contract_store *said = weir_contract_store(contract);
    const char *where = url == NULL ? "store.url" : url == getenv("WEIR_STORE") ? "WEIR_STORE" : "--store";
    const char *text = url != NULL ? url : said->url;
    const char *why;
    char space[512];
    if (text == NULL)
        return 0;
    if (!url_parse(text, &store->url, &why))
        return complain(where, why);
    if (!url_tls_context(&store->url, &store->tls, space, sizeof space))
        return complain(where, space);
    store->shown[url_show(&store->url, store->shown, sizeof store->shown - 1)] = '\0';
    store->deadline = said->deadline;
    if (uv_mutex_init(&store->lock) != 0)
        return 3;
    store->is_there = true;
    if (fleet_common_new(&store->common, draw_seed()) != 0) {
        (void)complain(where, "out of memory");
        return 3;
    }
    name_process(store->common);
    if (!weir_contract_has_shared(contract))
        log_event(LOG_INFO, "store-unused", "store=%s limits=0", store->shown);
    return 0;
}

void shared_store_close(struct shared_store *store)
{
    fleet_common_free(store->common);
    tls_context_free(store->tls);
    if (store->is_there)
        uv_mutex_destroy(&store->lock);
}

/* ---- The log ------------------------------------------------------------------------------------------------------- */

/* The value behind ` name=` of a line; cut where it is longer. */
static void find_value(const char *line, const char *name, char out[SHARED_STORE_WORD_MAX])
{
    const char *at = strstr(line, name);
    at = at == NULL ? "" : at + strlen(name);
    size_t len = strcspn(at, " ");
    len = len < SHARED_STORE_WORD_MAX - 1 ? len : SHARED_STORE_WORD_MAX - 1;
    memcpy(out, at, len);
    out[len] = '\0';
}

/* Every worker meets the same outage: the first one tells. */
static bool is_news(struct shared_store *store, const char *event, const char *line)
{
    char node[SHARED_STORE_WORD_MAX];
    bool is_news = true;
    find_value(line, "node=", node);
    uv_mutex_lock(&store->lock);
    size_t i = 0;
    while (i < store->told_count && strcmp(store->told[i].node, node) != 0)
        i++;
    if (i < store->told_count)
        is_news = strcmp(store->told[i].event, event) != 0;
    else if (store->told_count < SHARED_STORE_TOLD_MAX)
        memcpy(store->told[store->told_count++].node, node, sizeof node);
    if (i < store->told_count)
        (void)snprintf(store->told[i].event, sizeof store->told[i].event, "%s", event);
    uv_mutex_unlock(&store->lock);
    return is_news;
}

/* "event=store-down node=... why=...": of the node's side up and down are one event each, anything else is news. */
static void on_line(void *context, const char *line)
{
    struct worker *worker = context;
    worker->store.has_news = true;
    char event[SHARED_STORE_WORD_MAX];
    find_value(line, "event=", event);
    const char *rest = strchr(line, ' ');
    bool is_up = strcmp(event, "store-up") == 0, is_down = strcmp(event, "store-down") == 0;
    if ((is_up || is_down) && !is_news(&worker->server->store, event, line))
        return;
    bool is_good = is_up || strcmp(event, "store-back") == 0;
    log_foreign(is_good ? LOG_INFO : LOG_WARN, event, rest == NULL ? "" : rest + 1);
}

/* ---- A worker's end ------------------------------------------------------------------------------------------------ */

static void tick(struct store_end *end, weir_ns now)
{
    fleet_now_set(end->fleet, now);
    fleet_tick(end->fleet, now);
}

static void on_ring(struct alarm *alarm)
{
    struct store_end *end = (struct store_end *)((char *)alarm - offsetof(struct store_end, alarm));
    end->set_to = WEIR_NO_TIME;
    if (end->fleet == NULL)
        return;
    tick(end, weir_now());
    store_end_look(end->worker);
}

/* Where the store said nothing of why. */
static const char undecided[] = "it makes no decisions in time";

static size_t list_nodes(const struct worker *worker, struct store_node *out)
{
    size_t count = store_client_nodes(worker->store.carrier, out, SHARED_STORE_NODES_MAX);
    return count < SHARED_STORE_NODES_MAX ? count : SHARED_STORE_NODES_MAX;
}

static void look_at_nodes(struct store_end *end)
{
    struct store_node nodes[SHARED_STORE_NODES_MAX];
    size_t count = list_nodes(end->worker, nodes), up = 0;
    for (size_t i = 0; i < count; i++)
        up += nodes[i].is_up;
    __atomic_store_n(&end->is_connected, count > 0 && up == count, __ATOMIC_RELAXED);
    end->has_news = false;
}

void store_end_look(struct worker *worker)
{
    struct store_end *end = &worker->store;
    if (end->fleet == NULL)
        return;
    if (end->has_news)
        look_at_nodes(end);
    weir_ns next = fleet_next(end->fleet);
    if (end->returns_until > 0 && end->returns_until < next)
        next = end->returns_until;
    if (worker->server->is_virtual) {
        weir_ns now = ticker_now(worker);
        if (next <= now)
            tick(end, now);
        return;
    }
    if (next >= end->set_to)
        return;
    end->set_to = next;
    alarm_set(&end->alarm, next);
}

void store_end_second(struct worker *worker)
{
    if (worker->store.fleet == NULL)
        return;
    look_at_nodes(&worker->store);
    if (!worker->server->is_virtual)
        fleet_wall_set(worker->store.fleet, weir_wall_offset());
}

/* The clock of this turn of the loop; it is read behind the poll, by the first who needs it. */
static weir_ns on_clock(void *context)
{
    return ticker_now(context);
}

static weir_ns on_asleep(void *context)
{
    (void)context;
    return clock_asleep();
}

static int make_fleet(struct worker *worker)
{
    struct server *server = worker->server;
    const struct shared_store *store = &server->store;
    const struct fleet_options options = {
        .common = store->common,
        .carrier = worker->store.carrier,
        .contract = server->contract,
        .deadline = server->is_virtual ? VIRTUAL_DEADLINE : store->deadline,
        .injects_time = server->is_virtual,
        .wall_offset = server->is_virtual ? server->wall_offset : weir_wall_offset(),
        .now = on_clock,
        .asleep = server->is_virtual ? NULL : on_asleep,
        .log = on_line,
        .context = worker,
    };
    return fleet_new(&worker->store.fleet, &options);
}

int store_end_open(struct worker *worker)
{
    struct shared_store *store = &worker->server->store;
    struct store_end *end = &worker->store;
    *end = (struct store_end){ .worker = worker, .set_to = WEIR_NO_TIME };
    if (!store->is_there)
        return 0;
    const struct store_client_options options = {
        .loop = &worker->loop,
        .url = &store->url,
        .tls = store->tls,
        .outages = fleet_common_outages(store->common),
        .seed = draw_seed(),
        .log = on_line,
        .context = worker,
    };
    int result = store_client_new(&end->carrier, &options);
    if (result == 0)
        result = alarm_open(&end->alarm, &worker->loop, on_ring);
    if (result == 0)
        result = make_fleet(worker);
    return result; /* on an error the process ends */
}

void store_end_close(struct worker *worker)
{
    struct store_end *end = &worker->store;
    if (end->fleet == NULL)
        return;
    fleet_drain(end->fleet, ticker_now(worker));
    fleet_free(end->fleet);
    end->fleet = NULL;
    end->carrier->close(end->carrier);
    alarm_close(&end->alarm);
}

/* ---- What is held, at the end --------------------------------------------------------------------------------------- */

/* Of what the store granted, all that it has not been told the end of. */
static uint64_t unsettled(const struct fleet_counters *counters)
{
    uint64_t settled = counters->lease_returned + counters->lease_spent + counters->lease_lost;
    return counters->lease_granted > settled ? counters->lease_granted - settled : 0;
}

static void log_returned(const struct store_end *end)
{
    struct fleet_counters counters;
    fleet_count(end->worker->server->store.common, &counters);
    uint64_t left = unsettled(&counters), returned = counters.lease_returned - end->returned;
    if (left > 0)
        log_event(LOG_WARN, "leases-returned", "tokens=%" PRIu64 " left=%" PRIu64, returned, left);
    else
        log_event(LOG_INFO, "leases-returned", "tokens=%" PRIu64, returned);
}

bool store_end_returned(struct worker *worker)
{
    struct store_end *end = &worker->store;
    struct fleet_common *common = worker->server->store.common;
    if (end->fleet == NULL || (end->returns_until == 0 && !fleet_holds(common)))
        return true;
    if (end->returns_until == 0) {
        struct fleet_counters counters;
        fleet_count(common, &counters);
        end->returned = counters.lease_returned;
        end->returns_until = weir_now() + SHARED_STORE_RETURN_NS;
        fleet_hand_back(end->fleet, ticker_now(worker));
        store_end_look(worker);
    }
    if (weir_now() < end->returns_until && fleet_holds(common))
        return false;
    log_returned(end);
    return true;
}

/* ---- How it is ------------------------------------------------------------------------------------------------------ */

/* A node that does not fit is left out whole. */
static void write_node(struct text *out, bool is_first, const char *address, const char *why)
{
    if (out->cap - out->len < 6 * (strlen(address) + strlen(why)) + 64)
        return;
    text_string(out, is_first ? "{\"node\":" : ",{\"node\":");
    text_json(out, slice_of(address));
    text_literal(out, ",\"why\":");
    text_json(out, slice_of(why));
    text_literal(out, "}");
}

/* Another worker has connections of its own. */
static bool are_all_connected(const struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++)
        if (!__atomic_load_n(&server->workers[i].store.is_connected, __ATOMIC_RELAXED))
            return false;
    return true;
}

static bool is_listed(const struct store_node *nodes, size_t count, const char *address)
{
    size_t i = 0;
    while (i < count && strcmp(nodes[i].address, address) != 0)
        i++;
    return i < count;
}

/* What is away and no node of the list: the store as a whole, where none is known that serves. Gives is_first. */
static bool write_outages(const struct worker *worker, const struct store_node *nodes, size_t count,
                          struct text *out, bool is_first)
{
    const struct outages *outages = fleet_common_outages(worker->server->store.common);
    size_t known = outages_count(outages);
    for (size_t i = 0; i < known; i++) {
        struct outage_view view;
        outages_view(outages, i, &view);
        if (view.outage.began_at == WEIR_NO_TIME || is_listed(nodes, count, view.address))
            continue;
        write_node(out, is_first, view.address, view.why[0] == '\0' ? undecided : view.why);
        is_first = false;
    }
    return is_first;
}

bool store_end_degraded(const struct worker *worker, struct text *out)
{
    static const char unconnected[] = "it is not connected yet";
    struct store_node nodes[SHARED_STORE_NODES_MAX];
    bool is_first = true;
    if (worker->store.fleet == NULL)
        return false;
    size_t count = list_nodes(worker, nodes);
    for (size_t i = 0; i < count; i++) {
        bool is_away = nodes[i].outage != NULL && outage_now(nodes[i].outage).began_at != WEIR_NO_TIME;
        if (nodes[i].is_up && !is_away)
            continue;
        char said[OUTAGE_WHY_MAX] = "";
        if (is_away)
            outage_why(nodes[i].outage, said);
        const char *why = nodes[i].is_up ? said : nodes[i].why;
        if (why[0] == '\0')
            why = nodes[i].is_up ? undecided : unconnected;
        write_node(out, is_first, nodes[i].address, why);
        is_first = false;
    }
    is_first = write_outages(worker, nodes, count, out, is_first);
    if (is_first && !are_all_connected(worker->server)) {
        write_node(out, true, worker->server->store.shown,
                   count == 0 ? unconnected : "not every worker is connected");
        is_first = false;
    }
    return !is_first;
}
