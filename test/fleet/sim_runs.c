// SPDX-License-Identifier: Apache-2.0
/* sim_runs.c - which contract and whether there are faults: by the seed. */
#include "fleet/sim_runs.h"

void sim_add(struct sim_tally *to, const struct sim_tally *from)
{
    to->runs += from->runs;
    to->events += from->events;
    to->decided += from->decided;
    to->passed += from->passed;
    to->from_hand += from->from_hand;
    for (int i = 0; i < SIM_FAULTS; i++)
        to->faulted[i] += from->faulted[i];
}

/* One run of so many knows no faults. */
#define CALM_ONE_IN 16

static bool is_deaf; /* a mutant of sim_find() */

bool sim_one(struct lua_store *store, uint64_t seed, FILE *log, struct sim_tally *tally,
             char violation[SIM_VIOLATION_MAX])
{
    static struct sim_world world;
    const struct sim_contract *contracts = sim_contracts();
    size_t count = 0;
    while (contracts[count].why != NULL)
        count++;
    struct random random = { seed * 3 + 1 };
    const struct sim_setup setup = { .seed = seed,
                                     .is_deaf_to_sleep = is_deaf,
                                     .contract = &contracts[random_below(&random, count)],
                                     .is_calm = seed % CALM_ONE_IN == 0,
                                     .log = log };
    sim_open(&world, store, &setup);
    while (world.events < SIM_EVENTS && world.violation[0] == '\0')
        sim_event(&world);
    struct sim_tally one = { 1, world.events, world.decided, world.passed, world.from_hand, { 0 } };
    for (int i = 0; i < SIM_FAULTS; i++)
        one.faulted[i] = world.faulted[i];
    sim_add(tally, &one);
    if (world.violation[0] == '\0')
        violation[0] = '\0';
    else
        (void)snprintf(violation, SIM_VIOLATION_MAX, "event %zu of '%s': %s", world.events, setup.contract->why,
                       world.violation);
    bool is_well = world.violation[0] == '\0';
    sim_close(&world);
    return is_well;
}

uint64_t sim_find(struct lua_store *store, uint64_t within, bool is_deaf_to_sleep,
                  char violation[SIM_VIOLATION_MAX])
{
    struct sim_tally tally = { 0 };
    for (uint64_t seed = 1; seed <= within; seed++) {
        if (seed % CALM_ONE_IN == 0) /* what is stranded there is another question */
            continue;
        is_deaf = is_deaf_to_sleep;
        bool is_well = sim_one(store, seed, NULL, &tally, violation);
        is_deaf = false;
        if (!is_well)
            return seed;
    }
    return 0;
}
