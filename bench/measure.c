// SPDX-License-Identifier: Apache-2.0
/* measure.c - the clock, the rounds and the JSON lines of measure.h. */
#include "measure.h"

#include <stdio.h>
#include <time.h>

/* Whatever a loop returned ends here, so that no compiler can leave the loop out. */
static volatile uint64_t sink;

uint64_t measure_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static double sample(const struct side *side, uint64_t count)
{
    uint64_t from = measure_now();
    sink += side->run(side->context, count);
    return (double)(measure_now() - from) / (double)count;
}

static void print_samples(const char *name, const double *samples, size_t count)
{
    printf("\"%s\": [", name);
    for (size_t i = 0; i < count; i++)
        printf("%s%.3f", i == 0 ? "" : ", ", samples[i]);
    printf("]");
}

void measure_print(const char *name, const char *unit, double bar, bool is_least, const double *ours,
                   const double *floor, size_t count)
{
    printf("{\"row\": \"%s\", \"unit\": \"%s\", \"bar\": %.3f, \"least\": %s, ", name, unit, bar,
           is_least ? "true" : "false");
    print_samples("ours", ours, count);
    printf(", ");
    print_samples("floor", floor, count);
    printf("}\n");
    fflush(stdout);
}

void measure_row(const struct row *row)
{
    double ours[ROUNDS], floor[ROUNDS];
    (void)sample(&row->ours, row->count); /* warm */
    (void)sample(&row->floor, row->count);
    for (size_t i = 0; i < ROUNDS; i++) {
        ours[i] = sample(&row->ours, row->count);
        floor[i] = sample(&row->floor, row->count);
    }
    measure_print(row->name, "ns", row->bar, false, ours, floor, ROUNDS);
}
