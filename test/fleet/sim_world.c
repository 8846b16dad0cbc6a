// SPDX-License-Identifier: Apache-2.0
/*
 * sim_world.c - time, clocks, the network, replicas.
 */
#include "fleet/sim_world.h"

#include <stdarg.h>

#include "fleet/script.h"
#include "support/unit.h"

#define DEADLINE (5 * WEIR_MILLISECOND)

const char *const sim_fault_names[SIM_FAULTS] = {
    [SIM_LOSE_COMMAND] = "command lost",
    [SIM_LOSE_REPLY] = "reply lost",
    [SIM_DELAY] = "delayed",
    [SIM_OVERTAKE] = "overtaken",
    [SIM_DOUBLE] = "doubled",
    [SIM_CRASH] = "crash",
    [SIM_PAUSE] = "pause",
    [SIM_SLEEP] = "sleep",
    [SIM_WALL_STEP] = "date stepped",
    [SIM_STORE_FORWARD] = "store's clock forward",
    [SIM_STORE_BACK] = "store's clock back",
    [SIM_WIPE] = "store lost all",
    [SIM_ROLLBACK] = "store went back",
    [SIM_FORGET] = "scripts forgotten",
    [SIM_PARTITION] = "partition",
    [SIM_HAND_BACK] = "handed back",
};

struct sim_flight {
    struct sim_flight *next;
    struct carrier_call *call; /* NULL: nobody waits */
    struct sim_replica *replica;
    weir_ns sent_at, at;
    bool is_executed, loses_reply, is_over;
    bool is_broken;              /* its replica hears that the connection broke, when it goes on */
    struct slice command, reply; /* ours */
    struct sim_charges charges;
};

/* ---- Randomness ------------------------------------------------------------------------------------------------------ */

uint64_t sim_below(struct sim_world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

static bool draws(struct sim_world *world, enum sim_fault fault)
{
    if (!world->faults[fault] || !world->may_fault_commands || sim_below(world, 1000) >= world->command_faults)
        return false;
    world->faulted[fault]++;
    return true;
}

/* ---- What is told ---------------------------------------------------------------------------------------------------- */

void sim_log(struct sim_world *world, const char *format, ...)
{
    va_list words;
    if (world->setup.log == NULL)
        return;
    va_start(words, format);
    (void)fprintf(world->setup.log, "%12.6f  ", (double)(world->now - SIM_START) / 1e9);
    (void)vfprintf(world->setup.log, format, words);
    (void)fputc('\n', world->setup.log);
    (void)fflush(world->setup.log);
    va_end(words);
}

void sim_violate(struct sim_world *world, const char *format, ...)
{
    va_list words;
    if (world->violation[0] != '\0')
        return;
    va_start(words, format);
    (void)vsnprintf(world->violation, sizeof world->violation, format, words);
    va_end(words);
    sim_log(world, "VIOLATION: %s", world->violation);
}

static int number_of(const struct sim_replica *replica)
{
    return (int)(replica - replica->world->replicas);
}

/* ---- Clocks ---------------------------------------------------------------------------------------------------------- */

weir_ns sim_local(const struct sim_replica *replica, weir_ns now)
{
    int64_t passed = (int64_t)(now - replica->began);
    return replica->boot + (weir_ns)(passed + passed * replica->ppm / 1000000) - replica->asleep;
}

weir_ns sim_true(const struct sim_replica *replica, weir_ns local)
{
    weir_ns now = replica->world->now, reads = sim_local(replica, now);
    if (reads >= local)
        return now;
    if (local >= WEIR_NO_TIME / 2)
        return WEIR_NO_TIME;
    int64_t ahead = (int64_t)(local - reads);
    weir_ns at =
        now
        + (weir_ns)(ahead - ahead / 1000000 * replica->ppm); /* about; a little later or earlier than that */
    while (sim_local(replica, at) < local)
        at += local - sim_local(replica, at);
    while (sim_local(replica, at - 1) >= local)
        at -= sim_local(replica, at - 1) - local > 2 ? (sim_local(replica, at - 1) - local) / 2 : 1;
    return at;
}

static void wind(struct sim_replica *replica)
{
    weir_ns now = replica->world->now, local = sim_local(replica, now);
    fleet_now_set(replica->fleet, local);
    fleet_wall_set(replica->fleet, SIM_WALL + (int64_t)now - (int64_t)local + replica->wall_error);
}

void sim_store_clock(struct sim_world *world)
{
    lua_store_now_set(world->store, (SIM_WALL + (int64_t)world->now + world->store_step) / 1000);
}

weir_ns sim_instant(const struct sim_world *world, const struct oracle *oracle)
{
    return oracle->is_window ? (weir_ns)((int64_t)world->now + world->store_step) : world->now;
}

static weir_ns read_clock(void *context)
{
    const struct sim_replica *replica = context;
    return sim_local(replica, replica->world->now);
}

static weir_ns read_asleep(void *context)
{
    const struct sim_replica *replica = context;
    return replica->asleep;
}

/* ---- The carrier ------------------------------------------------------------------------------------------------------- */

static struct sim_replica *replica_of(const struct carrier *carrier)
{
    return (struct sim_replica *)((char *)(uintptr_t)carrier - offsetof(struct sim_replica, carrier));
}

static struct slice copy_of(struct slice from)
{
    char *to = malloc(from.len + 1);
    assert_non_null(to);
    memcpy(to, from.at, from.len);
    return (struct slice){ to, from.len };
}

static struct outage *sim_outage(struct carrier *carrier, unsigned slot)
{
    (void)slot;
    return outage_of(fleet_common_outages(replica_of(carrier)->common), "store");
}

static weir_ns way_of(struct sim_world *world)
{
    static const weir_ns lengths[] = { 4 * WEIR_MILLISECOND, 300 * WEIR_MILLISECOND, 5 * WEIR_SECOND };
    weir_ns way = world->way + sim_below(world, world->way);
    if (draws(world, SIM_DELAY))
        way += sim_below(world, lengths[sim_below(world, 3)]);
    return way;
}

static void launch(struct sim_replica *replica, struct carrier_call *call, struct slice command)
{
    struct sim_world *world = replica->world;
    struct sim_flight *flight = malloc(sizeof *flight);
    assert_non_null(flight);
    *flight = (struct sim_flight){ .next = world->flights,
                                   .call = call,
                                   .replica = replica,
                                   .sent_at = world->now,
                                   .at = world->now + way_of(world),
                                   .command = copy_of(command) };
    if (call == NULL) { /* the second of a doubled one */
        flight->at += sim_below(world, 3 * WEIR_SECOND);
        flight->loses_reply = true;
    } else {
        call->held = flight;
        flight->is_over = draws(world, SIM_LOSE_COMMAND);
        flight->loses_reply = draws(world, SIM_LOSE_REPLY);
    }
    world->flights = flight;
}

static void sim_send(struct carrier *carrier, struct carrier_call *call)
{
    struct sim_replica *replica = replica_of(carrier);
    struct sim_world *world = replica->world;
    call->outage = sim_outage(carrier, 0);
    call->is_topology = false;
    call->held = NULL;
    bool is_cut = replica->cut_till > world->now;
    if (replica->is_ending || (is_cut && !replica->is_cut_silent)) {
        call->done(call, CARRIER_REFUSED, (struct slice){ 0 });
        return;
    }
    launch(replica, call, call->command);
    if (is_cut)
        world->flights->is_over = true;
    else if (draws(world, SIM_DOUBLE))
        launch(replica, NULL, call->command);
}

static void sim_abandon(struct carrier *carrier, struct carrier_call *call)
{
    (void)carrier;
    struct sim_flight *flight = call->held;
    flight->call = NULL;
}

static struct incarnation sim_incarnation(struct carrier *carrier, unsigned slot)
{
    (void)slot;
    return replica_of(carrier)->world->incarnation;
}

static bool sim_is_whole(const struct carrier *carrier)
{
    (void)carrier;
    return true;
}

static void sim_close_carrier(struct carrier *carrier)
{
    (void)carrier;
}

/* ---- What falls due --------------------------------------------------------------------------------------------------- */

static void end_call(struct sim_flight *flight, enum carrier_result result, struct slice reply)
{
    struct carrier_call *call = flight->call;
    flight->call = NULL;
    if (call == NULL)
        return;
    call->held = NULL;
    call->done(call, result, reply);
}

void sim_break(struct sim_world *world, struct sim_replica *replica)
{
    for (struct sim_flight *flight = world->flights; flight != NULL; flight = flight->next) {
        if (flight->replica != replica || flight->is_over)
            continue;
        flight->is_executed = flight->is_broken = true;
        flight->at = world->now;
    }
}

static void execute(struct sim_world *world, struct sim_flight *flight)
{
    for (const struct sim_flight *other = world->flights; other != NULL; other = other->next)
        if (other->replica == flight->replica && !other->is_executed && !other->is_over
            && other->sent_at < flight->sent_at && world->faults[SIM_DELAY]) {
            world->faulted[SIM_OVERTAKE]++;
            break;
        }
    sim_store_clock(world);
    struct slice reply = lua_store_ask(world->store, flight->command);
    world->executed = flight;
    flight->charges = sim_note_executed(world, flight->command, reply);
    world->executed = NULL;
    flight->is_executed = true;
    flight->is_over = flight->loses_reply || flight->call == NULL;
    if (!flight->is_over)
        flight->reply = copy_of(reply);
    flight->at = world->now + way_of(world);
}

weir_ns sim_hand_ends(struct sim_world *world, unsigned tenant, weir_ns length)
{
    const struct sim_flight *flight = world->executed;
    if (flight->replica->fleet == NULL || flight->sent_at < flight->replica->began)
        return 0;
    weir_ns ends = sim_true(flight->replica, sim_local(flight->replica, flight->sent_at) + length);
    if (ends > flight->replica->hand_ends[tenant])
        flight->replica->hand_ends[tenant] = ends;
    return ends;
}

static void happen(struct sim_world *world, struct sim_flight *flight)
{
    struct sim_replica *replica = flight->replica;
    if (!flight->is_executed) {
        execute(world, flight);
    } else if (replica->paused_till > world->now) {
        flight->at = replica->paused_till;
    } else {
        flight->is_over = true;
        sim_wake(replica);
        if (flight->is_broken)
            end_call(flight, CARRIER_LOST, (struct slice){ 0 });
        else if (flight->call == NULL)
            outage_alive(sim_outage(&replica->carrier, 0), sim_local(replica, world->now));
        else {
            world->heard = &flight->charges;
            end_call(flight, CARRIER_REPLY, flight->reply);
            world->heard = NULL;
        }
    }
}

static struct sim_flight *next_flight(struct sim_world *world)
{
    struct sim_flight *next = NULL, **at = &world->flights;
    while (*at != NULL) {
        struct sim_flight *flight = *at;
        if (flight->is_over && flight->call == NULL) {
            *at = flight->next;
            free((void *)(uintptr_t)flight->command.at);
            free((void *)(uintptr_t)flight->reply.at);
            free(flight);
            continue;
        }
        if (!flight->is_over && (next == NULL || flight->at < next->at))
            next = flight;
        at = &flight->next;
    }
    return next;
}

static struct sim_replica *next_replica(struct sim_world *world, weir_ns *at)
{
    struct sim_replica *next = NULL;
    *at = WEIR_NO_TIME;
    for (size_t i = 0; i < world->replica_count; i++) {
        struct sim_replica *replica = &world->replicas[i];
        if (replica->fleet == NULL)
            continue;
        weir_ns due = fleet_next(replica->fleet);
        if (due == WEIR_NO_TIME)
            continue;
        due = sim_true(replica, due);
        if (due < replica->paused_till)
            due = replica->paused_till;
        if (due < *at) {
            *at = due;
            next = replica;
        }
    }
    return next;
}

void sim_run(struct sim_world *world, weir_ns till)
{
    for (unsigned turns = 0; world->violation[0] == '\0'; turns++) {
        weir_ns due;
        struct sim_replica *replica = next_replica(world, &due);
        struct sim_flight *flight = next_flight(world);
        bool is_flight = flight != NULL && flight->at <= due;
        weir_ns at = is_flight ? flight->at : due;
        if (at > till)
            break;
        if (turns == 200000)
            sim_violate(world, "does not come to rest");
        if (at > world->now)
            world->now = at;
        if (is_flight) {
            happen(world, flight);
        } else {
            sim_wake(replica);
            fleet_tick(replica->fleet, sim_local(replica, world->now));
        }
    }
    if (till > world->now)
        world->now = till;
}

/* ---- Replicas ---------------------------------------------------------------------------------------------------------- */

void sim_wake(struct sim_replica *replica)
{
    weir_ns stale = replica->stale_local;
    if (replica->paused_till > 0
        && replica->asleep_since > 0) /* a clock that stood still goes on: never the same reading */
        replica->asleep +=
            sim_local(replica, replica->paused_till) - sim_local(replica, replica->asleep_since) - 1;
    bool was_asleep = replica->asleep_since > 0;
    if (replica->paused_till > 0)
        replica->woke_at = replica->world->now;
    replica->asleep_since = replica->paused_till = replica->stale_local = 0;
    if (stale > 0)
        sim_ask_at(replica, replica->stale_tenant, replica->stale_cost, SIM_CHECK, stale, true);
    wind(replica);
    if (!was_asleep)
        return;
    /* Requests wait already for a machine that wakes. */
    for (uint64_t i = sim_below(replica->world, 8); i > 0; i--)
        sim_ask_at(replica, 0, 1, SIM_CHECK, sim_local(replica, replica->world->now), false);
    sim_check_books(replica->world);
}

bool sim_is_up(const struct sim_replica *replica)
{
    return replica->fleet != NULL && replica->paused_till <= replica->world->now;
}

void sim_start(struct sim_replica *replica)
{
    struct sim_world *world = replica->world;
    *replica = (struct sim_replica){ .carrier = { sim_send, sim_abandon, sim_outage, sim_incarnation,
                                                  sim_is_whole, sim_close_carrier },
                                     .world = world,
                                     .began = world->now,
                                     .boot = WEIR_SECOND + sim_below(world, 1000000 * WEIR_SECOND),
                                     .ppm = (int64_t)sim_below(world, 1001) - 500,
                                     .cut_till = replica->cut_till,
                                     .is_cut_silent = replica->is_cut_silent };
    assert_int_equal(fleet_common_new_seeded(&replica->common, random_u64(&world->random)), 0);
    char name[SCRIPT_LABEL_MAX];
    (void)snprintf(name, sizeof name, "replica-%08d",
                   number_of(replica)); /* as long as a run's: see the mutants */
    fleet_common_name(replica->common, random_u64(&world->random) | 1, name);
    const struct fleet_options options = { .common = replica->common,
                                           .carrier = &replica->carrier,
                                           .contract = world->setup.contract->contract,
                                           .deadline = DEADLINE,
                                           .seed = random_u64(&world->random),
                                           .has_seed = true,
                                           .now = read_clock,
                                           .asleep = world->setup.is_deaf_to_sleep ? NULL : read_asleep,
                                           .context = replica };
    assert_int_equal(fleet_new(&replica->fleet, &options), 0);
    wind(replica);
}

void sim_crash(struct sim_replica *replica)
{
    struct sim_world *world = replica->world;
    replica->is_ending = true;
    fleet_drain(replica->fleet, sim_local(replica, world->now));
    fleet_free(replica->fleet);
    fleet_common_free(replica->common);
    replica->fleet = NULL;
    replica->common = NULL;
    for (struct sim_flight *flight = world->flights; flight != NULL; flight = flight->next)
        if (flight->replica == replica) { /* what was sent arrives all the same; nobody hears of it */
            assert_null(flight->call);
            flight->is_over |= flight->is_executed;
            flight->loses_reply = true;
        }
}

/* ---- A run ------------------------------------------------------------------------------------------------------------ */

void sim_open(struct sim_world *world, struct lua_store *store, const struct sim_setup *setup)
{
    *world = (struct sim_world){ .setup = *setup, .random = { setup->seed }, .store = store, .now = SIM_START };
    lua_store_wipe(store);
    sim_store_clock(world);
    world->incarnation = (struct incarnation){ 1, (uint64_t)SIM_WALL / 1000 - UINT64_C(1000000000000) };
    world->way = 20 * WEIR_MICROSECOND + sim_below(world, 400 * WEIR_MICROSECOND);
    world->replica_count = setup->replicas > 0 ? setup->replicas : 2 + sim_below(world, SIM_REPLICAS - 1);
    for (int i = 0; i < SIM_FAULTS && !setup->is_calm; i++)
        world->faults[i] = sim_below(world, 3) == 0;
    world->command_faults = 20 + (unsigned)sim_below(world, 200);
    world->may_fault_commands = true;
    world->pace = UINT64_C(1) << 2 * sim_below(world, 3);
    for (size_t i = 0; i < world->replica_count; i++) {
        world->replicas[i].world = world;
        sim_start(&world->replicas[i]);
    }
}

void sim_close(struct sim_world *world)
{
    for (size_t i = 0; i < world->replica_count; i++)
        if (world->replicas[i].fleet != NULL)
            sim_crash(&world->replicas[i]);
    for (struct sim_flight *flight = world->flights; flight != NULL; flight = flight->next)
        flight->is_over = true;
    (void)next_flight(world);
    assert_null(world->flights);
    for (size_t i = 0; i < SIM_SNAPSHOTS; i++)
        data_clear(&world->snapshots[i].data);
}
