// SPDX-License-Identifier: Apache-2.0
/*
 * lint_lease.c - leases that save nothing, or less than they look like: a replica asks the store for whatever its portions do not
 * carry, so nothing is refused wrongly; but then the round trips are there again, and without the store nothing passes.
 */
#include <stdio.h>

#include "rule/explain.h"
#include "rule/lint.h"

/* Grants are at most half of what is left for each replica: of a small pool they are single tokens. Where nobody says how many
   replicas there are it is one. */
static bool lint_single(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    uint64_t replicas = lint->replicas == 0 ? 1 : lint->replicas;
    uint64_t capacity = rule_capacity(rule), half = capacity / bound_times(2, replicas);
    const char *what = rule_is_bucket(rule) ? "burst" : "count";
    char cure[120];
    if (rule->lease.chunk == 1) {
        lint_warn(lint, index, "lease", "raise chunk, or remove the lease",
                  "takes portions of one token: each request costs a message all the same");
        return true;
    }
    if (half > 1)
        return false;
    (void)snprintf(cure, sizeof cure, "remove the lease, or raise the %s to %llu", what,
                   (unsigned long long)bound_times(4, replicas));
    lint_warn(
        lint, index, "lease", cure,
        "takes portions of one token: a portion is at most half of what is left for each of %llu replica%s, "
        "and its %s is %llu",
        (unsigned long long)replicas, replicas == 1 ? "" : "s", what, (unsigned long long)capacity);
    return true;
}

/* "48 %", "less than 1 %". Rounded down. */
static const char *percent_of(weir_u128_ part, weir_u128_ whole, char out[32])
{
    unsigned percent = (unsigned)(part * 100 / whole);
    (void)snprintf(out, 32, percent == 0 ? "less than 1 %%" : "%u %%", percent);
    return out;
}

/* As a contract has it, in whole milliseconds, rounded down. */
static void write_length(weir_ns length, char out[48])
{
    bool is_seconds = length % WEIR_SECOND == 0;
    (void)snprintf(out, 48, "%llu%s",
                   (unsigned long long)(length / (is_seconds ? WEIR_SECOND : WEIR_MILLISECOND)),
                   is_seconds ? "s" : "ms");
}

/* What comes back while a portion may go unreported is more than may be out: the rest is asked for one by one. */
static void lint_pace(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    weir_ns period = rule->is_calendar ? rule_window(rule) : rule->rate.period, refresh = explain_refresh(rule);
    weir_u128_ needed = (weir_u128_)rule->rate.count * refresh, has = (weir_u128_)rule->lease.most * period;
    char cure[160], time[48], time_of_cure[48], percent[32];
    if (has >= needed)
        return;
    weir_u128_ most = (needed + period - 1) / period;
    weir_ns shorter = (weir_ns)(has / rule->rate.count / WEIR_MILLISECOND) * 2 * WEIR_MILLISECOND;
    duration_format(refresh, time);
    size_t len = 0;
    if (most <= rule_capacity(rule))
        len = (size_t)snprintf(cure, sizeof cure, "raise most to %llu", (unsigned long long)most);
    else
        len = (size_t)snprintf(cure, sizeof cure, "raise the burst and most to %llu", (unsigned long long)most);
    if (shorter >= 200 * WEIR_MILLISECOND) {
        write_length(shorter, time_of_cure);
        (void)snprintf(cure + len, sizeof cure - len, ", or lower for to %s", time_of_cure);
    }
    lint_warn(
        lint, index, "lease", cure,
        "may have %llu out, and %llu come back in the %s after which a portion is reported at the latest: "
        "portions surely carry %s of the rate, and for the rest each request may ask the store",
        (unsigned long long)rule->lease.most, (unsigned long long)most, time, percent_of(has, needed, percent));
}

/* Right where one replica may be hotter than the others; worth knowing where all are alike. */
static void lint_chunks(struct lint *lint, size_t index)
{
    const struct weir_lease *lease = &lint->rules->list[index].lease;
    char cure[120];
    if (lint->replicas == 0 || bound_times(lease->chunk, lint->replicas) <= lease->most)
        return;
    uint64_t fair = lease->most / lint->replicas, all = bound_times(lease->chunk, lint->replicas);
    uint64_t capacity = rule_capacity(&lint->rules->list[index]);
    if (fair > 1)
        (void)snprintf(cure, sizeof cure,
                       "write `chunk: %llu` if all replicas are as busy, or leave it for one that is hot",
                       (unsigned long long)fair);
    else if (lease->most < capacity)
        (void)snprintf(cure, sizeof cure, "raise most to %llu, or leave it for one that is hot",
                       (unsigned long long)(all < capacity ? all : capacity));
    else
        (void)snprintf(cure, sizeof cure, "leave it for one that is hot; if all are as busy, remove the lease");
    lint_note(
        lint, index, "lease", cure,
        "lets %llu replicas hold %llu each and all of them %llu: who comes when that is out gets none till "
        "others report",
        (unsigned long long)lint->replicas, (unsigned long long)lease->chunk, (unsigned long long)lease->most);
}

/* A request takes what is in hand before it asks for the rest, and may be told late that it passes. */
static void lint_deadline(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->list[index];
    weir_ns deadline = lint->load->store->deadline, slack = explain_slack(rule);
    char cure[160], waits[48], ends[48], less[48], more[48];
    if (deadline <= slack)
        return;
    /* margin and grace are 3 % and a ms */
    weir_ns longer = ((deadline - WEIR_MILLISECOND) * 100 + 3 * WEIR_MILLISECOND - 1) / (3 * WEIR_MILLISECOND);
    duration_format(deadline, waits);
    duration_format(slack, ends);
    write_length(slack, less);
    write_length(longer * WEIR_MILLISECOND, more);
    (void)snprintf(cure, sizeof cure, "lower the deadline of store to %s, or raise for to %s", less, more);
    lint_warn(
        lint, index, "lease", cure,
        "lets a request wait %s for the store with a part of its cost out of the hand, and the store forgets a "
        "portion %s after its end: each replica may then spend up to %llu too late",
        waits, ends, (unsigned long long)rule->lease.chunk);
}

void lint_lease(struct lint *lint, size_t index)
{
    lint_deadline(lint, index);
    if (lint_single(lint, index))
        return;
    lint_pace(lint, index);
    lint_chunks(lint, index);
}
