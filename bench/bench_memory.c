// SPDX-License-Identifier: Apache-2.0
/*
 * bench_memory.c - bytes of a live key at the fill where fewer than one insertion in 10,000 finds no cell.
 *
 * Steady state in virtual time: new keys arrive at a constant rate, each lives for one period and the grace, and the
 * fill is what is live at once. Insertions that find no cell land on the overflow cell and are counted there.
 */
#include <stdio.h>
#include <string.h>

#include "measure.h"
#include "weir.h"

#define CELLS ((size_t)1 << 18)
#define PERIOD (100 * WEIR_SECOND)
#define GRACE WEIR_SECOND

struct outcome {
    double bytes_per_key, failed_share, fill;
};

/* Runs four lifetimes at this fill and looks at the last. */
static bool run_at_fill(double fill, struct outcome *out)
{
    static const struct weir_limit limit = { .name = "once", .rate = { 1, PERIOD }, .burst = 1 };
    struct weir *weir;
    weir_limit_id id;
    if (weir_new(&weir, &(struct weir_options){ .keys = CELLS / 5 * 3 }) != 0
        || weir_limit_add(weir, &limit, &id) != 0)
        return false;

    uint64_t per_life = (uint64_t)(fill * (double)CELLS);
    weir_ns step = (PERIOD + GRACE) / per_life;
    weir_ns now = WEIR_SECOND;
    uint64_t key = 0, before = 0, seed = 7;
    for (int life = 0; life < 4; life++) {
        before = weir_limit_overflows(weir, id);
        for (uint64_t i = 0; i < per_life; i++, now += step) {
            struct weir_decision decision;
            key = measure_random(&seed);
            if (weir_check(weir, id, &key, sizeof key, 1, now, &decision) != 0)
                return false;
        }
    }
    struct weir_stats stats;
    weir_stats(weir, now, &stats);
    out->failed_share = (double)(weir_limit_overflows(weir, id) - before) / (double)per_life;
    out->fill = (double)stats.cells_live / (double)stats.cells;
    out->bytes_per_key = (double)(stats.cells * 16) / ((double)stats.cells * fill);
    weir_free(weir);
    return stats.cells == CELLS;
}

/* Bytes that a new key of a sliding log of this count takes from the arena, beside its cell. */
static double log_bytes(uint64_t count)
{
    struct weir *weir;
    weir_limit_id id;
    struct weir_limit limit = { .name = "log", .algorithm = WEIR_SLIDING_LOG, .rate = { count, WEIR_MINUTE } };
    if (weir_new(&weir, &(struct weir_options){ .keys = 1000, .log_stamps = 1 << 20 }) != 0
        || weir_limit_add(weir, &limit, &id) != 0)
        return 0;
    struct weir_stats before, after;
    weir_stats(weir, WEIR_SECOND, &before);
    for (uint64_t key = 0; key < 64; key++) {
        struct weir_decision decision;
        if (weir_check(weir, id, &key, sizeof key, 1, WEIR_SECOND, &decision) != 0)
            return 0;
    }
    weir_stats(weir, WEIR_SECOND, &after);
    weir_free(weir);
    return 8.0 * (double)(before.log_stamps_free - after.log_stamps_free) / 64;
}

static void print_one(const char *name, const char *unit, double bar, double value)
{
    measure_print(name, unit, bar, false, &value, &(double){ 1 }, 1);
}

int main(void)
{
    static const double fills[] = { 0.50, 0.55, 0.58, 0.60, 0.65, 0.70 };
    struct outcome best = { 0, 0, 0 };
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        struct outcome outcome;
        if (!run_at_fill(fills[i], &outcome))
            return 1;
        fprintf(stderr, "memory: fill %.2f: failed insertions %.1e, %.1f bytes of cells per live key\n",
                fills[i], outcome.failed_share, outcome.bytes_per_key);
        if (outcome.failed_share < 1e-4)
            best = outcome;
    }
    print_one("memory: bytes of a live key where failed insertions < 1e-4", "bytes", 28, best.bytes_per_key);

    struct weir *weir;
    struct weir_stats stats;
    if (weir_new(&weir, &(struct weir_options){ .keys = 1000000, .log_stamps = 1 }) != 0)
        return 1;
    weir_stats(weir, 0, &stats);
    print_one("memory: everything reserved for 1,000,000 keys, without logs, a key", "bytes", 0,
              (double)stats.bytes / 1e6);
    weir_free(weir);

    print_one("memory: ring of a sliding log of 5, a key, beside its cell", "bytes", 0, log_bytes(5));
    print_one("memory: ring of a sliding log of 100, a key, beside its cell", "bytes", 0, log_bytes(100));
    print_one("memory: ring of a sliding log of 1000, a key, beside its cell", "bytes", 0, log_bytes(1000));
    return 0;
}
