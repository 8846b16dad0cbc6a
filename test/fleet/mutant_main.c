// SPDX-License-Identifier: Apache-2.0
/* mutant_main.c - the simulator in a program whose lease.c has one mistake (mutate.py): it must find it within MUTANT_RUNS runs. */
#include "fleet/sim_runs.h"

#define MUTANT_RUNS 6000

int main(void)
{
    char violation[SIM_VIOLATION_MAX];
    struct lua_store *store = lua_store_new(NULL, 0);
    uint64_t seed = sim_find(store, MUTANT_RUNS, false, violation);
    if (seed == 0)
        (void)printf("the mistake was not found in %d runs\n", MUTANT_RUNS);
    else
        (void)printf("run %llu: %s\n", (unsigned long long)seed, violation);
    lua_store_free(store);
    return seed == 0;
}
