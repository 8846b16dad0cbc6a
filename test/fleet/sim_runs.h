// SPDX-License-Identifier: Apache-2.0
/* sim_runs.h - one run out of its seed, and what many of them counted. */
#ifndef WEIR_TEST_SIM_RUNS_H
#define WEIR_TEST_SIM_RUNS_H

#include "fleet/sim_world.h"

#define SIM_EVENTS 200
#define SIM_VIOLATION_MAX 768

struct sim_tally {
    uint64_t runs, events, decided, passed, from_hand, faulted[SIM_FAULTS];
};
void sim_add(struct sim_tally *to, const struct sim_tally *from);

/* The run of a seed, on a store that is emptied. False: `violation` says what was found, and where. */
bool sim_one(struct lua_store *store, uint64_t seed, FILE *log, struct sim_tally *tally,
             char violation[SIM_VIOLATION_MAX]);

/* For mutants: the first seed whose run finds that a bound is broken; 0: none of so many does. `is_deaf_to_sleep`: replicas do not
   know that their machine slept. */
uint64_t sim_find(struct lua_store *store, uint64_t within, bool is_deaf_to_sleep,
                  char violation[SIM_VIOLATION_MAX]);

#endif
