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

static void sum_holdings(const struct fleet_common *common, struct holdings_counts *sum)
{
    weir_ns now = atomic_load_explicit(&common->lease_now, memory_order_relaxed);
    *sum = (struct holdings_counts){ 0 };
    holdings_sum(common->holdings, now, sum);
}

static void count_tokens(const struct fleet_common *common, struct fleet_counters *out)
{
    struct holdings_counts sum;
    holdings_totals(common->holdings, &sum);
    out->lease_granted = sum.granted;
    out->lease_returned = sum.returned;
    out->lease_spent = sum.spent;
    out->lease_lost = sum.lost;
}

void fleet_count_held(const struct fleet_common *common, uint64_t *held, uint64_t *keys)
{
    struct holdings_counts sum;
    sum_holdings(common, &sum);
    *held = sum.held;
    *keys = sum.keys;
}

bool fleet_holds(const struct fleet_common *common)
{
    struct holdings_counts sum;
    if (holdings_count(common->holdings) == 0)
        return false;
    sum_holdings(common, &sum);
    return sum.held + sum.untold > 0 || sum.under_way > 0;
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
        .lease_commands = counted(common, COUNT_LEASE_COMMANDS),
        .lease_messages = counted(common, COUNT_LEASE_MESSAGES),
        .spent_kept = journal_tokens(common->journal),
        .spent_told = counted(common, COUNT_SPENT_TOLD),
        .spent_lost = counted(common, COUNT_SPENT_LOST),
        .seconds_sum_ns = atomic_load_explicit(&common->seconds_sum_ns, memory_order_relaxed),
        .seconds_count = atomic_load_explicit(&common->seconds_count, memory_order_relaxed),
    };
    for (size_t i = 0; i < FLEET_LINES; i++)
        out->lease_decisions += atomic_load_explicit(&common->lines[i].lease_decisions, memory_order_relaxed);
    count_tokens(common, out);
    for (size_t i = 0; i < sizeof bounds_us / sizeof *bounds_us; i++)
        out->seconds_le[i] = atomic_load_explicit(&common->seconds_le[i], memory_order_relaxed);
}
