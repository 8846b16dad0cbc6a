// SPDX-License-Identifier: Apache-2.0
/*
 * measure.h - two loops timed in turn, so that whatever the machine does hits both.
 *
 * A side runs its operation `count` times and returns something that depends on each of them. A row times ours, then
 * the floor, ROUNDS times over, and prints one JSON line of samples; bench/run turns lines into the table. A floor is
 * the least that the job needs, written as well as ours: nothing in it is there to be slow.
 */
#ifndef WEIR_BENCH_MEASURE_H
#define WEIR_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUNDS 15

struct side {
    const char *name;
    uint64_t (*run)(void *context, uint64_t count);
    void *context;
};

/* One row of the table: `ours` may take at most `bar` times the floor's time; bar 0: no bar, only told. */
struct row {
    const char *name;
    double bar;
    struct side ours, floor;
    uint64_t count; /* operations of one sample: some milliseconds' worth */
};

void measure_row(const struct row *row);

/* A row of values that were measured elsewhere, `count` of each. `is_least` turns the bar round: at least. */
void measure_print(const char *name, const char *unit, double bar, bool is_least, const double *ours,
                   const double *floor, size_t count);

/* ns of a monotonic clock that is not slewed. */
uint64_t measure_now(void);

/* A stream of 64-bit numbers from a seed (splitmix64). */
static inline uint64_t measure_random(uint64_t *seed)
{
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
