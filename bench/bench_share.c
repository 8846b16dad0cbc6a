// SPDX-License-Identifier: Apache-2.0
/*
 * bench_share.c - how much of one budget a fleet admits when nearly all of the demand comes to one of its replicas.
 *
 * `bench_share PORT [FOLDER]`: a minute of 2, 4, 8 and 16 replicas that share 320/s and a burst of 320. Twice as much is asked, nine of
 * ten requests at the first replica and the rest at the others, at random instants (SEEDS of them). What can be had is the burst
 * and what is refilled; printed is what is admitted of it by leases, strictly, and by splitting the limit into equal parts. Then
 * what it costs that 5 requests a second meet one key.
 *
 * Replicas are the code of `weir serve` behind its door (fleet.h), each with what is of a process, the store is a Redis with the real
 * scripts. Time is virtual: a command takes WAY to the store and its reply as long, and the store's clock is ours. So a minute
 * takes seconds, and the same seed gives the same figures on any machine, however busy.
 *
 * Prints JSON lines as measure.c does; with FOLDER writes share.csv there, for bench/plot.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/fleet.h"
#include "measure.h"
#include "remote.h"

#define REPLICAS_MAX 16
#define SEEDS 3
#define RATE 320 /* a second, and the burst; all numbers of replicas divide it */
#define LENGTH (60 * WEIR_SECOND)
#define WAY (150 * WEIR_MICROSECOND)
#define START (1000 * WEIR_SECOND)
#define WALL INT64_C(1700000000000000000)
#define FLIGHTS 4096 /* under way at once: far more than there can be */

enum scheme { LEASED, STRICT, SPLIT, SCHEMES };

struct replica {
    struct carrier carrier;
    struct world *world;
    struct fleet_common *common;
    struct fleet *fleet;
    struct outage *outage;
};

/* A command and its reply. All take equally long, so what was sent first arrives first, and so with replies. */
struct flight {
    struct carrier_call *call; /* NULL: abandoned */
    weir_ns sent_at;
    char *bytes;
    size_t len;
};

struct world {
    struct remote *store;
    struct weir_contract *contract;
    struct replica replicas[REPLICAS_MAX];
    size_t count;
    weir_ns now;
    struct flight flights[FLIGHTS];
    size_t sent, executed, heard; /* flights, modulo FLIGHTS */
    uint64_t asked, admitted, commands;
    uint64_t random;
};

struct request {
    struct fleet_decision decision;
    struct weir_shared_met met[WEIR_ASKS_MAX];
    struct world *world;
};

static void stop(const char *why)
{
    (void)fprintf(stderr, "bench_share: %s\n", why);
    exit(1);
}

/* ---- The way to the store ------------------------------------------------------------------------------------------ */

static struct replica *replica_of(const struct carrier *carrier)
{
    return (struct replica *)(uintptr_t)carrier; /* its first member */
}

static void send_command(struct carrier *carrier, struct carrier_call *call)
{
    struct world *world = replica_of(carrier)->world;
    struct flight *flight = &world->flights[world->sent++ % FLIGHTS];
    if (world->sent - world->heard > FLIGHTS)
        stop("too much is under way");
    *flight = (struct flight){ call, world->now, malloc(call->command.len), call->command.len };
    if (flight->bytes == NULL)
        stop("out of memory");
    memcpy(flight->bytes, call->command.at, call->command.len);
    call->outage = replica_of(carrier)->outage;
    call->is_topology = false;
    call->held = flight;
    world->commands++;
}

static void abandon(struct carrier *carrier, struct carrier_call *call)
{
    (void)carrier;
    ((struct flight *)call->held)->call = NULL;
}

static struct outage *outage_there(struct carrier *carrier, unsigned slot)
{
    (void)slot;
    return replica_of(carrier)->outage;
}

static struct incarnation unknown(struct carrier *carrier, unsigned slot)
{
    (void)carrier;
    (void)slot;
    return (struct incarnation){ 0 };
}

static bool is_whole(const struct carrier *carrier)
{
    (void)carrier;
    return true;
}

/* The command becomes its reply. */
static void execute(struct world *world, struct flight *flight)
{
    struct slice reply = remote_ask(world->store, (struct slice){ flight->bytes, flight->len });
    free(flight->bytes);
    flight->bytes = malloc(reply.len);
    if (flight->bytes == NULL)
        stop("out of memory");
    memcpy(flight->bytes, reply.at, reply.len);
    flight->len = reply.len;
}

static void hear(struct flight *flight)
{
    struct carrier_call *call = flight->call;
    char *bytes = flight->bytes;
    flight->call = NULL;
    flight->bytes = NULL;
    if (call != NULL)
        call->done(call, CARRIER_REPLY, (struct slice){ bytes, flight->len });
    free(bytes);
}

/* ---- Time ---------------------------------------------------------------------------------------------------------- */

static weir_ns next_instant(const struct world *world)
{
    weir_ns at = WEIR_NO_TIME;
    if (world->executed < world->sent)
        at = world->flights[world->executed % FLIGHTS].sent_at + WAY;
    if (world->heard < world->executed) {
        weir_ns heard_at = world->flights[world->heard % FLIGHTS].sent_at + 2 * WAY;
        at = heard_at < at ? heard_at : at;
    }
    for (size_t i = 0; i < world->count; i++) {
        weir_ns next = fleet_next(world->replicas[i].fleet);
        at = next < at ? next : at;
    }
    return at < world->now ? world->now : at;
}

static void turn(struct world *world)
{
    if (world->heard < world->executed
        && world->flights[world->heard % FLIGHTS].sent_at + 2 * WAY <= world->now)
        hear(&world->flights[world->heard++ % FLIGHTS]);
    else if (world->executed < world->sent
             && world->flights[world->executed % FLIGHTS].sent_at + WAY <= world->now)
        execute(world, &world->flights[world->executed++ % FLIGHTS]);
    for (size_t i = 0; i < world->count; i++) {
        fleet_now_set(world->replicas[i].fleet, world->now);
        if (fleet_next(world->replicas[i].fleet) <= world->now)
            fleet_tick(world->replicas[i].fleet, world->now);
    }
}

static void run_until(struct world *world, weir_ns at)
{
    for (weir_ns next = next_instant(world); next <= at; next = next_instant(world)) {
        world->now = next;
        turn(world);
    }
    world->now = at;
    for (size_t i = 0; i < world->count; i++)
        fleet_now_set(world->replicas[i].fleet, at);
}

/* ---- Requests ------------------------------------------------------------------------------------------------------- */

static void on_decided(struct fleet_decision *decision)
{
    struct request *request = decision->owner;
    request->world->admitted += decision->passes;
    free(request);
}

static void ask(struct world *world, size_t replica, const char *tenant)
{
    static struct weir_shared shared;
    struct request *request = calloc(1, sizeof *request);
    const struct weir_attribute attribute = { "tenant", tenant, 0 };
    const struct weir_request what = { .attributes = &attribute, .attribute_count = 1, .cost = 1 };
    if (request == NULL || weir_contract_shared(world->contract, &what, &shared) != 0)
        stop("a request cannot be asked");
    request->world = world;
    request->decision = (struct fleet_decision){
        .met = request->met, .done = on_decided, .owner = request, .now = world->now, .is_final = true
    };
    world->asked++;
    fleet_decide(world->replicas[replica].fleet, &shared, &request->decision);
}

/* Until the next request of `rate` a second, as chance has it. */
static weir_ns draw_pause(uint64_t *random, double rate)
{
    double uniform = (double)(measure_random(random) >> 11) * 0x1p-53;
    return (weir_ns)(-log(1 - uniform) / rate * 1e9);
}

/* Nine of ten at the first, the others in turn. */
static size_t draw_replica(uint64_t *random, size_t count)
{
    if (measure_random(random) % 10 != 0 || count == 1)
        return 0;
    return 1 + measure_random(random) % (count - 1);
}

/* ---- Runs ----------------------------------------------------------------------------------------------------------- */

static struct weir_contract *contract_of(unsigned rate, unsigned burst, const char *more)
{
    static const struct weir_contract_options options = {
        .fleet = WEIR_FLEET_SHARED, .has_store = true, .has_wall_offset = true, .wall_offset = WALL
    };
    struct weir_contract *contract;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "weir: 1\nlimits:\n  - { name: api, key: [tenant], rate: %u/s, burst: %u%s }\n", rate, burst,
                   more);
    if (weir_contract_parse(&contract, text, strlen(text), "bench", &options, NULL) != 0)
        stop(text);
    return contract;
}

static void open_world(struct world *world, struct remote *store, struct weir_contract *contract, size_t count)
{
    *world = (struct world){ .store = store, .contract = contract, .count = count, .now = START };
    for (size_t i = 0; i < count; i++) {
        struct replica *replica = &world->replicas[i];
        replica->carrier = (struct carrier){ send_command, abandon, outage_there, unknown, is_whole, NULL };
        replica->world = world;
        if (fleet_common_new(&replica->common, i + 1) != 0)
            stop("out of memory");
        replica->outage = outage_of(fleet_common_outages(replica->common), "store");
        const struct fleet_options options = { .common = replica->common,
                                               .carrier = &replica->carrier,
                                               .contract = contract,
                                               .deadline = 5 * WEIR_MILLISECOND,
                                               .injects_time = true,
                                               .wall_offset = WALL };
        if (fleet_new(&replica->fleet, &options) != 0)
            stop("out of memory");
    }
}

static void close_world(struct world *world)
{
    run_until(world, world->now + WEIR_SECOND);
    for (size_t i = 0; i < world->count; i++) {
        fleet_drain(world->replicas[i].fleet, world->now);
        fleet_free(world->replicas[i].fleet);
        fleet_common_free(world->replicas[i].common);
    }
    for (size_t i = world->heard; i < world->sent; i++)
        free(world->flights[i % FLIGHTS].bytes);
    weir_contract_free(world->contract);
}

/* Admitted by parts of the limit, each replica its own. */
static uint64_t run_split(size_t count, uint64_t seed)
{
    struct weir_contract *parts[REPLICAS_MAX] = { NULL };
    uint64_t admitted = 0;
    for (size_t i = 0; i < count; i++)
        parts[i] = contract_of(RATE / (unsigned)count, RATE / (unsigned)count, "");
    const struct weir_attribute attribute = { "tenant", "acme", 0 };
    for (weir_ns now = START + draw_pause(&seed, 2 * RATE); now < START + LENGTH;
         now += draw_pause(&seed, 2 * RATE)) {
        struct weir_decision decision;
        if (weir_contract_admit(parts[draw_replica(&seed, count)], &attribute, 1, now, &decision) != 0)
            stop("a request cannot be decided");
        admitted += decision.outcome == WEIR_ALLOW;
    }
    for (size_t i = 0; i < count; i++)
        weir_contract_free(parts[i]);
    return admitted;
}

/* Admitted; *commands are those of the replicas for a request. */
static uint64_t run_shared(struct remote *store, enum scheme scheme, size_t count, uint64_t seed,
                           double *commands)
{
    static struct world world;
    char tenant[64];
    open_world(
        &world, store,
        contract_of(RATE, RATE,
                    scheme == LEASED
                        ? ", scope: fleet, when-store-fails: leased, lease: { most: 320, chunk: 160, for: 2s }"
                        : ", scope: fleet, when-store-fails: closed"),
        count);
    (void)snprintf(tenant, sizeof tenant, "%d-%zu-%llu-%d", (int)scheme, count, (unsigned long long)seed,
                   (int)getpid());
    for (weir_ns at = START + draw_pause(&seed, 2 * RATE); at < START + LENGTH;
         at += draw_pause(&seed, 2 * RATE)) {
        run_until(&world, at);
        ask(&world, draw_replica(&seed, count), tenant);
    }
    *commands = (double)world.commands / (double)world.asked;
    close_world(&world);
    if (world.admitted > RATE + RATE * (LENGTH / WEIR_SECOND))
        stop("more is admitted than the limit says");
    return world.admitted;
}

static void share_rows(struct remote *store, FILE *csv)
{
    static const char *const names[] = { "leased", "strict", "split" };
    const double ones[SEEDS] = { 1, 1, 1 };
    const double ideal[SEEDS] = { RATE + 60 * RATE, RATE + 60 * RATE, RATE + 60 * RATE };
    if (csv != NULL)
        (void)fprintf(csv, "replicas,leases,strict,each its part\n");
    for (size_t count = 2; count <= REPLICAS_MAX; count *= 2) {
        if (csv != NULL)
            (void)fprintf(csv, "%zu", count);
        for (enum scheme scheme = LEASED; scheme < SCHEMES; scheme++) {
            double admitted[SEEDS], commands[SEEDS] = { 0 }, least = 2;
            char name[96];
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                admitted[seed] =
                    (double)(scheme == SPLIT ? run_split(count, seed)
                                             : run_shared(store, scheme, count, seed, &commands[seed]));
                least = fmin(least, admitted[seed] / ideal[seed]);
            }
            (void)snprintf(name, sizeof name, "fleet share: admitted of what can be had, %zu replicas, %s",
                           count, names[scheme]);
            measure_print(name, "", scheme == LEASED ? 0.98 : 0, true, admitted, ideal, SEEDS);
            if (csv != NULL)
                (void)fprintf(csv, ",%.4f", least);
            if (scheme == SPLIT)
                continue;
            (void)snprintf(name, sizeof name, "fleet share: commands a decision meanwhile, %zu replicas, %s",
                           count, names[scheme]);
            measure_print(name, "", 0, false, commands, ones, SEEDS);
        }
        if (csv != NULL)
            (void)fprintf(csv, "\n");
    }
}

/* Five requests a second of one key for a minute, at one of eight replicas or all over them. */
static void few_rows(struct remote *store, size_t spread)
{
    static struct world world;
    double commands[SEEDS], decisions[SEEDS], seconds[SEEDS];
    char tenant[64], name[96];
    for (uint64_t i = 0; i < SEEDS; i++) {
        uint64_t seed = i;
        open_world(
            &world, store,
            contract_of(100, 100,
                        ", scope: fleet, when-store-fails: leased, lease: { most: 100, chunk: 50, for: 2s }"),
            8);
        (void)snprintf(tenant, sizeof tenant, "few-%zu-%llu-%d", spread, (unsigned long long)seed,
                       (int)getpid());
        for (weir_ns at = START + draw_pause(&seed, 5); at < START + LENGTH; at += draw_pause(&seed, 5)) {
            run_until(&world, at);
            ask(&world, measure_random(&seed) % spread, tenant);
        }
        commands[i] = (double)world.commands;
        decisions[i] = (double)world.asked;
        seconds[i] = 60;
        close_world(&world);
    }
    const char *where = spread == 1 ? "at one replica" : "at eight replicas";
    (void)snprintf(name, sizeof name, "fleet leased: commands a second, 5/s of one key %s", where);
    measure_print(name, "", 0, false, commands, seconds, SEEDS);
    (void)snprintf(name, sizeof name, "fleet leased: commands a decision, 5/s of one key %s", where);
    measure_print(name, "", 0, false, commands, decisions, SEEDS);
}

int main(int argc, char **argv)
{
    struct remote store;
    if (argc < 2 || argc > 3 || !remote_open(&store, argv[1])) {
        (void)fprintf(stderr, "usage: bench_share PORT [FOLDER]\n");
        return 2;
    }
    FILE *csv = NULL;
    if (argc == 3) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/share.csv", argv[2]);
        csv = fopen(path, "w");
        if (csv == NULL)
            stop(path);
    }
    share_rows(&store, csv);
    few_rows(&store, 1);
    few_rows(&store, 8);
    remote_close(&store);
    return csv != NULL && fclose(csv) != 0;
}
