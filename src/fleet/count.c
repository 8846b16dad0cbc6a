// SPDX-License-Identifier: Apache-2.0
/*
 * count.c - counters of the process. Relaxed throughout: they are counted, and nothing follows from them.
 */
#include "fleet/work.h"

static const uint64_t bounds_us[] = FLEET_SECONDS_US;

void count_add(struct fleet_common *common, enum count which, uint64_t by)
{
    (void)atomic_fetch_add_explicit(&common->counts[which], by, memory_order_relaxed);
}

void count_round_trip(struct fleet_common *common, weir_ns length)
{
    for (size_t i = sizeof bounds_us / sizeof *bounds_us; i-- > 0 && length <= bounds_us[i] * WEIR_MICROSECOND;)
        (void)atomic_fetch_add_explicit(&common->seconds_le[i], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&common->seconds_sum_ns, length, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&common->seconds_count, 1, memory_order_relaxed);
}

static uint64_t counted(const struct fleet_common *common, enum count which)
{
    return atomic_load_explicit(&common->counts[which], memory_order_relaxed);
}

void fleet_count(const struct fleet_common *common, struct fleet_counters *out)
{
    *out = (struct fleet_counters){
        .commands = counted(common, COUNT_COMMANDS),
        .late = counted(common, COUNT_LATE),
        .refused = counted(common, COUNT_REFUSED),
        .lost = counted(common, COUNT_LOST),
        .avoided = counted(common, COUNT_AVOIDED),
        .known = counted(common, COUNT_KNOWN),
        .damaged = counted(common, COUNT_DAMAGED),
        .scripts = counted(common, COUNT_SCRIPTS),
        .errors = counted(common, COUNT_ERRORS),
        .spent_kept = journal_tokens(common->journal),
        .spent_told = counted(common, COUNT_SPENT_TOLD),
        .spent_lost = counted(common, COUNT_SPENT_LOST),
        .seconds_sum_ns = atomic_load_explicit(&common->seconds_sum_ns, memory_order_relaxed),
        .seconds_count = atomic_load_explicit(&common->seconds_count, memory_order_relaxed),
    };
    for (size_t i = 0; i < sizeof bounds_us / sizeof *bounds_us; i++)
        out->seconds_le[i] = atomic_load_explicit(&common->seconds_le[i], memory_order_relaxed);
}
