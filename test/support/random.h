// SPDX-License-Identifier: Apache-2.0
/* random.h - splitmix64: seeded numbers for property tests; a failing test prints its seed. */
#ifndef WEIR_TEST_RANDOM_H
#define WEIR_TEST_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

uint64_t random_u64(struct random *random);

/* 0 .. bound - 1; bound at least 1. */
uint64_t random_below(struct random *random, uint64_t bound);

/* The seed of a test: WEIR_SEED from the environment, else `fallback`. Printed, so that a failure can be replayed. */
uint64_t random_seed(uint64_t fallback);

#endif
