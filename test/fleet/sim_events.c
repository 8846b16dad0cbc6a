// SPDX-License-Identifier: Apache-2.0
/*
 * sim_events.c - what happens next: a request, time, or one of the faults, with what it may add to the bound.
 */
#include "fleet/script.h"
#include "fleet/sim_world.h"
#include "support/unit.h"

/* ---- Contracts ----------------------------------------------------------------------------------------------------------- */

#define LIMIT(name, more) "  - { name: " name ", key: [tenant], scope: fleet, " more " }\n"

static struct sim_contract contracts[] = {
    { .why = "a fast bucket, a third of it may be out",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 100/s, burst: 80, lease: { most: 30, chunk: 10, for: 2s }, when-store-fails: leased,"
                " when-state-lost: empty"),
      .loses_nothing = { true } },
    { .why = "the vector of algorithms 4.4, short portions",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 10/s, burst: 100, lease: { most: 50, chunk: 10, for: 200ms }, when-store-fails: closed"),
      .loses_nothing = { false } },
    { .why = "a slow one, of which all may be out",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 3/1m, burst: 12, lease: { most: 12, chunk: 6, for: 10s }, when-store-fails: leased,"
                " when-state-lost: empty"),
      .loses_nothing = { true } },
    { .why = "a rate with a remainder, chunks of the whole",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 7/3s, burst: 20, lease: { most: 20, chunk: 20, for: 1s }, when-store-fails: leased"),
      .loses_nothing = { false } },
    { .why = "portions of one token",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 5/s, burst: 5, lease: { most: 2, chunk: 1, for: 1s }, when-store-fails: closed,"
                " when-state-lost: empty"),
      .loses_nothing = { true } },
    { .why = "a burst that is back long before a portion ends",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 50/s, burst: 10, lease: { most: 8, chunk: 4, for: 3s }, when-store-fails: leased,"
                " when-state-lost: empty"),
      .loses_nothing = { true } },
    { .why = "windows",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "algorithm: fixed-window, rate: 40/5s, lease: { most: 20, chunk: 8, for: 2s },"
                " when-store-fails: leased, when-state-lost: empty"),
      .is_window = { true },
      .loses_nothing = { true } },
    { .why = "leased and strict, and one tenant has less",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 50/s, burst: 60, lease: { most: 40, chunk: 20, for: 1s }, when-store-fails: leased,"
                " when-state-lost: empty, overrides: [{ key: { tenant: b }, rate: 5/s, burst: 15 }]")
          LIMIT("l1", "rate: 20/s, burst: 100, when-store-fails: closed, when-state-lost: empty"),
      .loses_nothing = { true, true } },
    { .why = "strict alone",
      .text = "weir: 1\nlimits:\n" LIMIT(
          "l0", "rate: 20/s, burst: 30, when-store-fails: closed, when-state-lost: empty"),
      .loses_nothing = { true } },
    { .why = NULL },
};

struct sim_contract *sim_contracts(void)
{
    static const uint8_t secret[16] = "sixteen bytes ..";
    const struct weir_contract_options options = { .wall_offset = SIM_WALL,
                                                   .has_wall_offset = true,
                                                   .secret = secret,
                                                   .fleet = WEIR_FLEET_SHARED,
                                                   .has_store = true };
    for (struct sim_contract *one = contracts; one->why != NULL && one->contract == NULL; one++) {
        struct weir_diagnostics *diagnostics = NULL;
        struct weir_contract *contract = NULL;
        int code = weir_contract_parse(&contract, one->text, strlen(one->text), "sim", &options, &diagnostics);
        if (code != 0)
            weir_diagnostics_print(diagnostics, stderr, false);
        weir_diagnostics_free(diagnostics);
        assert_int_equal(code, 0);
        one->contract = contract;
    }
    return contracts;
}

/* ---- What faults add ------------------------------------------------------------------------------------------------------ */

static uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

/* For how long portions that the store has forgotten may still be spent: their time by a slow clock, and a decision under way. */
static weir_ns hands_last(const struct oracle *oracle)
{
    return oracle->lease.duration + oracle->lease.duration / 1000 + 10 * WEIR_MILLISECOND;
}

enum loss { LOSS_FORWARD, LOSS_WIPE, LOSS_ROLLBACK };

static uint64_t added(const struct sim_world *world, size_t limit, unsigned tenant, enum loss loss,
                      weir_ns length, uint64_t taken)
{
    const struct oracle *oracle = &world->oracles[limit][tenant];
    uint64_t refilled = oracle_refill(oracle, length);
    switch (loss) {
    case LOSS_FORWARD:
        return oracle->lease.most + least(oracle->burst, refilled);
    case LOSS_WIPE:
        return world->setup.contract->loses_nothing[limit] ? 0 : oracle->burst;
    case LOSS_ROLLBACK:
        /* What was taken since, and what is in hands: a portion that was prolonged since ends early there. */
        return least(oracle->burst + refilled, taken + oracle->lease.most);
    }
    return 0;
}

static uint64_t taken_now(const struct sim_world *world, size_t limit, unsigned tenant)
{
    return world->charged[limit][tenant] + world->granted[limit][tenant];
}

static void allow(struct sim_world *world, enum loss loss, weir_ns length, const struct sim_snapshot *before)
{
    for (size_t i = 0; i < SIM_LIMITS; i++)
        for (unsigned j = 0; j < SIM_TENANTS; j++) {
            if (!world->is_met[i][j])
                continue;
            uint64_t taken = before == NULL ? 0 : taken_now(world, i, j) - before->taken[i][j];
            uint64_t tokens = added(world, i, j, loss, length, taken);
            struct oracle *oracle = &world->oracles[i][j];
            weir_ns now = sim_instant(world, oracle);
            oracle_allow(oracle, tokens, now, now + hands_last(oracle));
        }
}

/* ---- Faults ---------------------------------------------------------------------------------------------------------------- */

/* Half of the time the one that holds most. */
static struct sim_replica *any_replica(struct sim_world *world)
{
    if (sim_below(world, 2) > 0)
        return &world->replicas[world->hot];
    return &world->replicas[sim_below(world, world->replica_count)];
}

static int number(const struct sim_replica *replica)
{
    return (int)(replica - replica->world->replicas);
}

static weir_ns some_time(struct sim_world *world)
{
    static const weir_ns lengths[] = { WEIR_MILLISECOND, 100 * WEIR_MILLISECOND, WEIR_SECOND, 5 * WEIR_SECOND,
                                       30 * WEIR_SECOND };
    return 1 + sim_below(world, lengths[sim_below(world, COUNT_OF(lengths))]);
}

static void crash(struct sim_world *world)
{
    struct sim_replica *replica = any_replica(world);
    sim_log(world, "%d: crashes", number(replica));
    sim_crash(replica);
    sim_start(replica);
}

static void suspend(struct sim_world *world)
{
    struct sim_replica *replica = any_replica(world);
    if (!sim_is_up(replica))
        return;
    sim_wake(replica);
    replica->stale_local = sim_local(replica, world->now);
    replica->paused_till = world->now + some_time(world);
    memset(replica->stale_spent, 0, sizeof replica->stale_spent);
    replica->stale_cost = 1 + sim_below(world, 4);
    replica->stale_tenant = (unsigned)sim_below(world, SIM_TENANTS);
    sim_log(world, "%d: stands still for %.3f s", number(replica),
            (double)(replica->paused_till - world->now) / 1e9);
}

static void fall_asleep(struct sim_world *world)
{
    struct sim_replica *replica = any_replica(world);
    if (!sim_is_up(replica))
        return;
    sim_wake(replica);
    weir_ns length = some_time(world);
    memset(replica->stale_spent, 0, sizeof replica->stale_spent);
    replica->asleep_since = world->now;
    replica->paused_till = world->now + length;
    sim_log(world, "%d: its machine sleeps for %.3f s", number(replica), (double)length / 1e9);
}

static void step_date(struct sim_world *world)
{
    struct sim_replica *replica = any_replica(world);
    replica->wall_error = (int64_t)some_time(world) * (sim_below(world, 2) == 0 ? 1 : -1);
    sim_log(world, "%d: its date is off by %.3f s", number(replica), (double)replica->wall_error / 1e9);
}

static void tell_clock(struct sim_world *world)
{
    for (size_t i = 0; i < SIM_LIMITS; i++)
        for (unsigned j = 0; j < SIM_TENANTS; j++)
            if (world->is_met[i][j])
                oracle_pass(&world->oracles[i][j], sim_instant(world, &world->oracles[i][j]));
}

static void step_store(struct sim_world *world, int64_t by)
{
    tell_clock(world);
    world->store_step += by;
    tell_clock(world);
}

static void step_store_forward(struct sim_world *world)
{
    weir_ns length = (1 + some_time(world) / WEIR_MILLISECOND) * WEIR_MILLISECOND;
    step_store(world, (int64_t)length);
    world->has_stepped = true;
    sim_log(world, "store: its clock steps forward by %.3f s", (double)length / 1e9);
    allow(world, LOSS_FORWARD, length, NULL);
}

static void step_store_back(struct sim_world *world)
{
    weir_ns length = (1 + some_time(world) / WEIR_MILLISECOND) * WEIR_MILLISECOND;
    step_store(world, -(int64_t)length);
    if (!world->setup.contract->is_window[0])
        return;
    /* By a clock more than a window back what was counted goes on in the window that it is in now, what is out as lost; it may end
       before the portions do, which know of the one of before. */
    world->has_stepped = true;
    allow(world, LOSS_FORWARD, 0, NULL);
}

static void break_all(struct sim_world *world)
{
    for (size_t i = 0; i < world->replica_count; i++)
        sim_break(world, &world->replicas[i]);
}

static void lose_everything(struct sim_world *world)
{
    sim_log(world, "store: restarts with nothing");
    allow(world, LOSS_WIPE, 0, NULL);
    lua_store_wipe(world->store);
    world->has_lost = true;
    world->incarnation.id++;
    world->incarnation.began_at_us = (uint64_t)(SIM_WALL + (int64_t)world->now + world->store_step) / 1000;
    for (size_t i = 0; i < SIM_SNAPSHOTS; i++)
        world->snapshots[i].is_there = false;
    break_all(world);
}

static void take_snapshot(struct sim_world *world)
{
    struct sim_snapshot *snapshot = &world->snapshots[world->snapshot_next++ % SIM_SNAPSHOTS];
    data_copy(&snapshot->data, lua_store_data(world->store));
    snapshot->at = world->now;
    snapshot->is_there = true;
    for (size_t i = 0; i < SIM_LIMITS; i++)
        for (unsigned j = 0; j < SIM_TENANTS; j++)
            snapshot->taken[i][j] = taken_now(world, i, j);
}

/* To a state of before; later ones never were. Connections are to another node now. */
static void go_back(struct sim_world *world)
{
    struct sim_snapshot *snapshot = &world->snapshots[sim_below(world, SIM_SNAPSHOTS)];
    if (!snapshot->is_there)
        return;
    sim_log(world, "store: goes back by %.3f s", (double)(world->now - snapshot->at) / 1e9);
    allow(world, LOSS_ROLLBACK, world->now - snapshot->at, snapshot);
    data_copy(lua_store_data(world->store), &snapshot->data);
    world->has_lost = true;
    weir_ns at = snapshot->at;
    for (size_t i = 0; i < SIM_SNAPSHOTS; i++)
        world->snapshots[i].is_there &= world->snapshots[i].at <= at;
    break_all(world);
}

static void forget_scripts(struct sim_world *world)
{
    sim_log(world, "store: forgets the scripts");
    lua_store_forget_scripts(world->store);
}

static void cut(struct sim_world *world)
{
    struct sim_replica *replica = any_replica(world);
    replica->cut_till = world->now + some_time(world);
    replica->is_cut_silent = sim_below(world, 2) == 0;
    sim_log(world, "%d: does not reach the store for %.3f s", number(replica),
            (double)(replica->cut_till - world->now) / 1e9);
    if (sim_below(world, 2) == 0)
        sim_break(world, replica);
}

static void hand_back(struct sim_world *world)
{
    struct sim_replica *replica = any_replica(world);
    if (!sim_is_up(replica) || replica->leaves_at > 0)
        return;
    sim_log(world, "%d: hands back", number(replica));
    sim_wake(replica);
    fleet_hand_back(replica->fleet, sim_local(replica, world->now));
    replica->leaves_at = world->now + 500 * WEIR_MILLISECOND;
}

static void leave_if_done(struct sim_world *world)
{
    for (size_t i = 0; i < world->replica_count; i++) {
        struct sim_replica *replica = &world->replicas[i];
        if (replica->leaves_at == 0 || !sim_is_up(replica)
            || (fleet_holds(replica->common) && world->now < replica->leaves_at))
            continue;
        sim_log(world, "%d: ends", (int)i);
        sim_crash(replica);
        sim_start(replica);
    }
}

/* Those of the network happen to commands on their way. */
static void (*const faults[SIM_FAULTS])(struct sim_world *world) = {
    [SIM_CRASH] = crash,
    [SIM_PAUSE] = suspend,
    [SIM_SLEEP] = fall_asleep,
    [SIM_WALL_STEP] = step_date,
    [SIM_STORE_FORWARD] = step_store_forward,
    [SIM_STORE_BACK] = step_store_back,
    [SIM_WIPE] = lose_everything,
    [SIM_ROLLBACK] = go_back,
    [SIM_FORGET] = forget_scripts,
    [SIM_PARTITION] = cut,
    [SIM_HAND_BACK] = hand_back,
};

/* ---- Time ------------------------------------------------------------------------------------------------------------------- */

/* An instant of interest: a portion's end, a refill, the end of a window, the next beat; or one beside it. */
static weir_ns edge(struct sim_world *world)
{
    weir_ns at = WEIR_NO_TIME;
    const struct oracle *oracle = &world->oracles[0][sim_below(world, SIM_TENANTS)];
    if (sim_below(world, 2) == 0)
        at = world->edges[sim_below(world, COUNT_OF(world->edges))];
    else if (oracle->burst > 0)
        at = oracle_when(oracle, 1 + sim_below(world, oracle->burst), world->now);
    if (at < world->now || at > world->now + 60 * WEIR_SECOND)
        return world->now;
    static const int64_t beside[] = { -300000, -30000, -1000, -1, 0, 0, 1, 1000, 100000 };
    return at + (weir_ns)beside[sim_below(world, COUNT_OF(beside))];
}

static void pass_time(struct sim_world *world)
{
    weir_ns duration = world->oracles[0][0].lease.duration, to = world->now;
    duration = duration > 0 ? duration : WEIR_SECOND;
    if (sim_below(world, world->pace) > 0) {
        sim_run(world, to + sim_below(world, duration / 30));
        return;
    }
    switch (sim_below(world, 8)) {
    case 0:
    case 1:
        to = edge(world);
        break;
    case 2:
        to += sim_below(world, 3 * duration);
        break;
    case 3:
        to += sim_below(world, duration);
        break;
    case 4:
    case 5:
        to += sim_below(world, duration / 10);
        break;
    default:
        to += sim_below(world, 2 * WEIR_MILLISECOND);
    }
    sim_run(world, to > world->now ? to : world->now);
}

/* A portion ends while a request that took out of it is asked of the store for the rest. */
static void ask_across_an_end(struct sim_world *world)
{
    struct sim_replica *replica = &world->replicas[world->hot];
    unsigned tenant = (unsigned)sim_below(world, SIM_TENANTS);
    weir_ns before = sim_below(world, 2 * world->way), ends = replica->hand_ends[tenant];
    if (ends < world->now + before || ends > world->now + 60 * WEIR_SECOND)
        return;
    sim_run(world, ends - before);
    sim_ask(world, replica, tenant, world->oracles[0][tenant].burst, SIM_CHECK);
    sim_run(world, world->now + 4 * world->way);
}

/* ---- Requests ---------------------------------------------------------------------------------------------------------------- */

static void request(struct sim_world *world)
{
    const struct oracle *oracle = &world->oracles[0][0];
    uint64_t burst = oracle->burst > 0 ? oracle->burst : 10, chunk = oracle->lease.chunk + 1;
    /* Most replicas meet demand in turns: what is hot at one is idle at another. */
    struct sim_replica *replica =
        &world->replicas[sim_below(world, 3) > 0 ? world->hot : sim_below(world, world->replica_count)];
    uint64_t costs[] = { 1, 1, 1, 1, 1, 2, 3, 1 + sim_below(world, chunk), 1 + sim_below(world, burst), burst };
    uint64_t cost = costs[sim_below(world, COUNT_OF(costs) - (sim_below(world, 4) > 0 ? 2 : 0))];
    enum sim_manner manner = sim_below(world, 30) > 0 ? SIM_CHECK : SIM_PEEK;
    if (manner == SIM_PEEK && !world->setup.is_calm && sim_below(world, 2) > 0)
        manner = SIM_UNDO;
    unsigned tenant = sim_below(world, 5) > 0 ? 0 : 1;
    size_t times = sim_below(world, 6) > 0 ? 1 : 1 + sim_below(world, 12);
    if (sim_below(world, 40) == 0)
        world->hot = sim_below(world, world->replica_count);
    for (size_t i = 0; i < times && world->violation[0] == '\0'; i++) {
        sim_ask(world, replica, tenant, cost, manner);
        sim_run(world, world->now);
    }
}

void sim_event(struct sim_world *world)
{
    uint64_t draw = sim_below(world, 1000);
    world->events++;
    for (int i = 0; i < SIM_FAULTS; i++) {
        if (!world->faults[i] || faults[i] == NULL)
            continue;
        if (draw < 38) {
            world->faulted[i]++;
            faults[i](world);
            draw = 0;
            break;
        }
        draw -= 38;
    }
    if (draw == 0) {
        sim_run(world, world->now);
    } else if (draw % 32 == 31) {
        ask_across_an_end(world);
    } else if (draw % 16 < 9) {
        request(world);
    } else {
        pass_time(world);
    }
    if (world->faults[SIM_ROLLBACK] && sim_below(world, 8) == 0)
        take_snapshot(world);
    leave_if_done(world);
    sim_check_books(world);
}
