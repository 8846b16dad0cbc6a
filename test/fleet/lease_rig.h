// SPDX-License-Identifier: Apache-2.0
/*
 * lease_rig.h - contracts of leased limits, and one request after the other: for the tests of fleets that lease.
 */
#ifndef WEIR_TEST_LEASE_RIG_H
#define WEIR_TEST_LEASE_RIG_H

#include "support/fleet_world.h"

static struct redis_server redis;
static struct world world;

static int start(void **state)
{
    (void)state;
    return redis_server_start(&redis);
}

static int stop(void **state)
{
    (void)state;
    return redis_server_stop(&redis);
}

#define MS WEIR_MILLISECOND
#define CONTRACT "weir: 1\nlimits:\n"
#define LIMIT(name, key, more) "  - { name: " name ", key: " key ", scope: fleet, " more " }\n"
#define LEASED(name, key, more) LIMIT(name, key, "when-store-fails: leased, " more)
#define OF_TENANT "[tenant]"
#define OF_PATH "[path]"

/* Next to nothing comes back within a test. */
#define SLOW "rate: 1/1h, burst: 100"
#define SLOW_LEASE SLOW ", lease: { most: 50, chunk: 10, for: 2s }"
static const char slow[] __attribute__((unused)) = CONTRACT LEASED("rate", OF_TENANT, SLOW_LEASE);

static inline struct fleet_counters counters(size_t process)
{
    struct fleet_counters out;
    process_count_up(&world.processes[process], &out);
    return out;
}

static inline uint64_t held(size_t process)
{
    return process_held(&world.processes[process]);
}

static inline uint64_t left(size_t process, const char *tenant, weir_limit_id limit)
{
    return asked_met(world_decide_as(&world, process, tenant, 1, &(struct fleet_decision){ .is_peek = true }),
                     limit)
        ->remaining;
}

static inline bool passes(size_t process, const char *tenant, uint64_t cost)
{
    return world_decide(&world, process, tenant, cost)->decision.passes;
}

/* Requests one after the other, a millisecond apart; how many tokens passed. */
static inline uint64_t spend(size_t process, const char *tenant, uint64_t cost, size_t times)
{
    uint64_t passed = 0;
    for (size_t i = 0; i < times; i++) {
        passed += passes(process, tenant, cost) ? cost : 0;
        world_run_for(&world, MS);
    }
    return passed;
}

/* Until the process has something in hand, and what is under way has come; gives what was spent for that. */
static inline uint64_t warm_up(size_t process, const char *tenant)
{
    uint64_t spent = 0;
    while (held(process) == 0 && spent < 20)
        spent += spend(process, tenant, 1, 1);
    assert_true(held(process) > 0);
    world_run_for(&world, 2 * MS);
    return spent;
}

#endif
