// SPDX-License-Identifier: Apache-2.0
/*
 * bench_lease.c - eight replicas that decide at a given rate with a real store: the load of bench/fleet_lease.py.
 *
 * `bench_lease PORT leased|strict RATE KEYS INTERVALS MS`: each replica is the code of `weir serve` behind its door, with what is of a
 * process and a connection of its own; one loop drives all of them. RATE decisions a second are asked of keys and replicas in a
 * random order; 0: as many as go, AHEAD of them under way. After a warm-up prints for each of INTERVALS of MS ms a JSON line of sums
 * since the start.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "fleet/fleet.h"
#include "fleet/store.h"
#include "measure.h"

#define REPLICAS 8
#define AHEAD 64
#define BATCH 64 /* decisions in a turn of the loop */
/* Each key's first requests are decided strictly, at each replica: the store could not bear it at 100,000/s. */
#define RISE (12 * WEIR_SECOND)
#define WARM_UP WEIR_SECOND

struct replica {
    struct fleet_common *common;
    struct carrier *carrier;
    struct fleet *fleet;
};

struct request {
    struct fleet_decision decision;
    struct weir_shared_met met[WEIR_ASKS_MAX];
    struct request *next;
};

static struct replica replicas[REPLICAS];
static struct weir_contract *contract;
static uv_loop_t loop;
static struct request *spare;
static uint64_t asked, passed, under_way, seed = 1;
static uint64_t key_count;
static weir_ns now;

static void stop(const char *why)
{
    (void)fprintf(stderr, "bench_lease: %s\n", why);
    exit(1);
}

static weir_ns read_clock(void *context)
{
    (void)context;
    return weir_now();
}

static void on_line(void *context, const char *line)
{
    (void)context;
    (void)fprintf(stderr, "bench_lease: %s\n", line);
}

static void on_decided(struct fleet_decision *decision)
{
    struct request *request = decision->owner;
    passed += decision->passes;
    under_way--;
    request->next = spare;
    spare = request;
}

static void ask(void)
{
    static struct weir_shared shared;
    char tenant[24];
    uint64_t random = measure_random(&seed);
    (void)snprintf(tenant, sizeof tenant, "tenant-%06u", (unsigned)(random % key_count));
    const struct weir_attribute attribute = { "tenant", tenant, 0 };
    const struct weir_request what = { .attributes = &attribute, .attribute_count = 1, .cost = 1 };
    struct request *request = spare != NULL ? spare : malloc(sizeof *request);
    if (request == NULL || weir_contract_shared(contract, &what, &shared) != 0)
        stop("a request cannot be asked");
    if (request == spare)
        spare = spare->next;
    request->decision = (struct fleet_decision){
        .met = request->met, .done = on_decided, .owner = request, .now = now, .is_final = true
    };
    asked++;
    under_way++;
    fleet_decide(replicas[(random >> 32) % REPLICAS].fleet, &shared, &request->decision);
}

static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    now = weir_now();
    for (size_t i = 0; i < REPLICAS; i++) {
        fleet_now_set(replicas[i].fleet, now);
        if (fleet_next(replicas[i].fleet) <= now)
            fleet_tick(replicas[i].fleet, now);
    }
}

/* At `rate` for so long; where it `rises`, from nothing to there. */
static void drive(uint64_t rate, weir_ns length, bool rises)
{
    const uint64_t before = asked;
    const weir_ns from = now;
    do {
        turn();
        double passed_s = (double)(now - from) / 1e9,
               share = rises ? (double)(now - from) / (double)length / 2 : 1;
        uint64_t due = (uint64_t)((double)rate * passed_s * share);
        for (int i = 0; i < BATCH && (rate == 0 ? under_way < AHEAD : asked - before < due); i++)
            ask();
    } while (now - from < length);
}

static void tell(weir_ns from)
{
    uint64_t commands = 0, lease_commands = 0, messages = 0, in_hand = 0;
    for (size_t i = 0; i < REPLICAS; i++) {
        struct fleet_counters counters;
        fleet_count(replicas[i].common, &counters);
        commands += counters.commands;
        lease_commands += counters.lease_commands;
        messages += counters.lease_messages;
        in_hand += counters.lease_decisions;
    }
    printf("{\"ns\": %" PRIu64 ", \"asked\": %" PRIu64 ", \"passed\": %" PRIu64 ", \"commands\": %" PRIu64
           ", \"lease_commands\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"in_hand\": %" PRIu64 "}\n",
           now - from, asked, passed, commands, lease_commands, messages, in_hand);
    (void)fflush(stdout);
}

static void open_all(const char *port, bool is_leased)
{
    static struct url url;
    static const struct weir_contract_options options = { .fleet = WEIR_FLEET_SHARED, .has_store = true };
    char text[512], address[64];
    const char *why;
    (void)snprintf(text, sizeof text,
                   "weir: 1\nlimits:\n  - { name: %s, key: [tenant], rate: 1000/s, burst: 2000, scope: fleet, "
                   "when-store-fails: "
                   "closed%s }\n",
                   is_leased ? "leased" : "strict",
                   is_leased ? ", lease: { most: 1000, chunk: 100, for: 2s }" : "");
    (void)snprintf(address, sizeof address, "redis://127.0.0.1:%s", port);
    if (!url_parse(address, &url, &why) || uv_loop_init(&loop) != 0
        || weir_contract_parse(&contract, text, strlen(text), "bench", &options, NULL) != 0)
        stop("the contract or the address is not read");
    for (size_t i = 0; i < REPLICAS; i++) {
        struct replica *replica = &replicas[i];
        if (fleet_common_new(&replica->common, i + 1) != 0)
            stop("out of memory");
        const struct store_client_options client = { .loop = &loop,
                                                     .url = &url,
                                                     .outages = fleet_common_outages(replica->common),
                                                     .seed = i + 1,
                                                     .log = on_line };
        if (store_client_new(&replica->carrier, &client) != 0)
            stop("out of memory");
        const struct fleet_options fleet = { .common = replica->common,
                                             .carrier = replica->carrier,
                                             .contract = contract,
                                             .deadline = is_leased ? 20 * WEIR_MILLISECOND : WEIR_SECOND,
                                             .wall_offset = weir_wall_offset(),
                                             .now = read_clock,
                                             .log = on_line };
        if (fleet_new(&replica->fleet, &fleet) != 0)
            stop("out of memory");
    }
}

static void close_all(void)
{
    for (size_t i = 0; i < REPLICAS; i++) {
        fleet_drain(replicas[i].fleet, now);
        fleet_free(replicas[i].fleet);
        replicas[i].carrier->close(replicas[i].carrier);
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    for (size_t i = 0; i < REPLICAS; i++)
        fleet_common_free(replicas[i].common);
    while (spare != NULL) {
        struct request *next = spare->next;
        free(spare);
        spare = next;
    }
    weir_contract_free(contract);
}

int main(int argc, char **argv)
{
    if (argc != 7 || (strcmp(argv[2], "leased") != 0 && strcmp(argv[2], "strict") != 0)) {
        (void)fprintf(stderr, "usage: bench_lease PORT leased|strict RATE KEYS INTERVALS MS\n");
        return 2;
    }
    uint64_t rate = strtoull(argv[3], NULL, 10), intervals = strtoull(argv[5], NULL, 10);
    weir_ns length = strtoull(argv[6], NULL, 10) * WEIR_MILLISECOND, from;
    key_count = strtoull(argv[4], NULL, 10);
    open_all(argv[1], strcmp(argv[2], "leased") == 0);
    turn();
    drive(1000, WEIR_SECOND, false); /* connections are made */
    drive(rate, RISE, true);
    drive(rate, WARM_UP, false);
    from = now;
    tell(from);
    for (uint64_t i = 1; i <= intervals; i++) {
        drive(rate, length, false);
        tell(from);
    }
    close_all();
    return 0;
}
