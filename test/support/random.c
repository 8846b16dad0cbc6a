// SPDX-License-Identifier: Apache-2.0
/* random.c - splitmix64 (Steele, Lea, Flood 2014). */
#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t random_u64(struct random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)random_u64(random) * bound) >> 64);
}

uint64_t random_seed(uint64_t fallback)
{
    const char *given = getenv("WEIR_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : fallback;
    printf("seed %llu (WEIR_SEED replays it)\n", (unsigned long long)seed);
    return seed;
}
