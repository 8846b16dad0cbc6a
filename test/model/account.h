// SPDX-License-Identifier: Apache-2.0
/*
 * account.h - one key's budget under one limit, kept the obvious way: the rational bucket in 128 bits, the windows and
 * the log as lists of what was admitted. Slow, exact, and without a line in common with src/limit.
 */
#ifndef WEIR_TEST_ACCOUNT_H
#define WEIR_TEST_ACCOUNT_H

#include <assert.h>
#include <string.h>

#include "weir.h"

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

#define ACCOUNT_ENTRIES 128

struct entry {
    weir_ns at; /* effective stamp */
    uint64_t cost;
};

struct account {
    const struct weir_limit *limit;
    u128 full_at; /* bucket: in 1/period of a token; the clock runs at rate.count a ns */
    struct entry entries[ACCOUNT_ENTRIES];
    unsigned count;
    weir_ns newest, started;
};

static inline bool account_is_bucket(const struct account *account)
{
    return account->limit->algorithm <= WEIR_LEAKY_BUCKET;
}

static inline uint64_t account_capacity(const struct account *account)
{
    return account_is_bucket(account) ? account->limit->burst : account->limit->rate.count;
}

static inline bool account_is_first(const struct account *account)
{
    return account->limit->align == WEIR_ALIGN_FIRST_REQUEST;
}

/* The stamp that a decision at `now` holds for. */
static inline weir_ns account_effective(const struct account *account, weir_ns now)
{
    weir_ns period = account->limit->rate.period, earliest = 0;
    if (account_is_bucket(account) || account->count == 0)
        return now;
    if (account->limit->algorithm == WEIR_SLIDING_LOG)
        earliest = account->newest;
    else if (account_is_first(account))
        earliest = now < account->started + period ? account->started : 0;
    else
        earliest = account->newest / period * period;
    return now > earliest ? now : earliest;
}

/* What was admitted in [from, to). */
static inline i128 account_sum(const struct account *account, i128 from, i128 to)
{
    i128 sum = 0;
    for (unsigned i = 0; i < account->count; i++)
        if (from <= (i128)account->entries[i].at && (i128)account->entries[i].at < to)
            sum += account->entries[i].cost;
    return sum;
}

/* What is left at `now`, in 1/period of a token; may be negative. */
static inline i128 account_room(const struct account *account, weir_ns now)
{
    i128 period = account->limit->rate.period, full = account_capacity(account) * period;
    i128 at = account_effective(account, now), start = at / period * period;
    if (account_is_bucket(account)) {
        i128 clock = (i128)now * account->limit->rate.count, level = (i128)account->full_at - clock;
        return full - (level > 0 ? level : 0);
    }
    if (account->limit->algorithm == WEIR_SLIDING_LOG)
        return full - account_sum(account, at - period + 1, at + 1) * period;
    if (account->limit->algorithm == WEIR_SLIDING_WINDOW)
        return full - account_sum(account, start, start + period) * period
               - account_sum(account, start - period, start) * (start + period - at);
    if (!account_is_first(account))
        return full - account_sum(account, start, start + period) * period;
    bool is_open = account->count > 0 && at < (i128)account->started + period;
    return full - (is_open ? account_sum(account, account->started, account->started + period) * period : 0);
}

static inline bool account_admits(const struct account *account, weir_ns now, uint64_t cost)
{
    return cost == 0
           || (cost <= account_capacity(account)
               && (i128)cost * account->limit->rate.period <= account_room(account, now));
}

static inline uint64_t account_remaining(const struct account *account, weir_ns now)
{
    i128 room = account_room(account, now);
    return room > 0 ? (uint64_t)(room / (i128)account->limit->rate.period) : 0;
}

/* Entries two periods older than the newest count for nobody any more. */
static inline void account_prune(struct account *account)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < account->count; i++)
        if ((u128)account->entries[i].at + 2 * (u128)account->limit->rate.period > account->newest)
            account->entries[kept++] = account->entries[i];
    account->count = kept;
}

static inline void account_charge(struct account *account, weir_ns now, uint64_t cost)
{
    if (cost == 0)
        return;
    if (account_is_bucket(account)) {
        u128 clock = (u128)now * account->limit->rate.count;
        account->full_at =
            (account->full_at > clock ? account->full_at : clock) + (u128)cost * account->limit->rate.period;
        return;
    }
    weir_ns at = account_effective(account, now);
    if (account_is_first(account)
        && (account->count == 0 || at >= account->started + account->limit->rate.period))
        account->started = at; /* with a count below 8 the start is kept to the nanosecond (2.8) */
    account->newest = at > account->newest ? at : account->newest;
    account_prune(account);
    assert(account->count < ACCOUNT_ENTRIES);
    account->entries[account->count++] = (struct entry){ at, cost };
}

#endif
