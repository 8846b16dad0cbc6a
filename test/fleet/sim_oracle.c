// SPDX-License-Identifier: Apache-2.0
/* sim_oracle.c - two buckets in whole numbers, and windows. */
#include "fleet/sim_oracle.h"

#include <string.h>

__extension__ typedef __int128 wide;

void oracle_init(struct oracle *oracle, const struct weir_shared_ask *ask, bool is_window)
{
    *oracle = (struct oracle){ .is_window = is_window,
                               .burst = ask->size.capacity,
                               .count = ask->size.count,
                               .period = ask->size.period,
                               .tick = ask->size.tick,
                               .lease = ask->lease };
}

static wide drained(const struct oracle *oracle, wide level, uint64_t ticks)
{
    wide back = (wide)(ticks - oracle->at) * oracle->count;
    return level > back ? level - back : 0;
}

static void advance(struct oracle *oracle, weir_ns now)
{
    uint64_t ticks = now / oracle->tick;
    oracle->level = drained(oracle, oracle->level, ticks);
    oracle->strict_level = drained(oracle, oracle->strict_level, ticks);
    if (oracle->level == 0)
        oracle->busy_since = ticks;
    oracle->at = ticks;
}

static uint64_t allowed(const struct oracle *oracle, weir_ns since)
{
    uint64_t tokens = 0;
    for (size_t i = 0; i < oracle->allowance_count; i++)
        if (oracle->allowances[i].to >= since)
            tokens += oracle->allowances[i].tokens;
    return tokens;
}

/* Those that no busy period meets any more. */
static void forget(struct oracle *oracle)
{
    size_t kept = 0;
    weir_ns since = oracle->busy_since * oracle->tick;
    for (size_t i = 0; i < oracle->allowance_count; i++)
        if (oracle->allowances[i].to >= since)
            oracle->allowances[kept++] = oracle->allowances[i];
    oracle->allowance_count = kept;
}

void oracle_pass(struct oracle *oracle, weir_ns now)
{
    if (!oracle->is_window)
        return;
    uint64_t window = now / oracle->tick / oracle->period;
    if (window
        > oracle
              ->window) /* by a clock that stepped back what was counted goes on in the window that it is in now */
        oracle->counted = 0;
    oracle->window = window;
}

static bool admit_window(struct oracle *oracle, uint64_t cost, weir_ns now)
{
    oracle_pass(oracle, now);
    oracle->counted += cost;
    return oracle->counted <= oracle->burst + allowed(oracle, oracle->window * oracle->period * oracle->tick);
}

bool oracle_admit(struct oracle *oracle, uint64_t cost, weir_ns now)
{
    oracle->admitted += cost;
    if (oracle->is_window)
        return admit_window(oracle, cost, now);
    advance(oracle, now);
    wide charge = (wide)cost * oracle->period, burst = (wide)oracle->burst * oracle->period;
    oracle->level += charge;
    oracle->strict_level = now > oracle->allowed_till ? oracle->strict_level + charge : 0;
    wide extra = (wide)allowed(oracle, oracle->busy_since * oracle->tick) * oracle->period;
    return oracle->level <= burst + extra && oracle->strict_level <= burst;
}

void oracle_allow(struct oracle *oracle, uint64_t tokens, weir_ns from, weir_ns to)
{
    if (tokens == 0)
        return;
    if (!oracle->is_window)
        advance(oracle, from);
    forget(oracle);
    if (oracle->allowance_count == ORACLE_ALLOWANCES) { /* into the last one: no less than both */
        oracle->allowances[ORACLE_ALLOWANCES - 1].tokens += tokens;
        if (to > oracle->allowances[ORACLE_ALLOWANCES - 1].to)
            oracle->allowances[ORACLE_ALLOWANCES - 1].to = to;
    } else {
        oracle->allowances[oracle->allowance_count++] = (struct allowance){ from, to, tokens };
    }
    if (to > oracle->allowed_till)
        oracle->allowed_till = to;
    oracle->strict_level = 0;
}

uint64_t oracle_left(const struct oracle *oracle, weir_ns now)
{
    if (oracle->is_window) {
        bool is_same = now / oracle->tick / oracle->period <= oracle->window;
        uint64_t counted = is_same ? oracle->counted : 0;
        return counted < oracle->burst ? oracle->burst - counted : 0;
    }
    wide level = drained(oracle, oracle->level, now / oracle->tick),
         burst = (wide)oracle->burst * oracle->period;
    return level < burst ? (uint64_t)((burst - level) / oracle->period) : 0;
}

weir_ns oracle_when(const struct oracle *oracle, uint64_t tokens, weir_ns now)
{
    uint64_t ticks = now / oracle->tick;
    if (oracle->is_window)
        return (ticks / oracle->period + 1) * oracle->period * oracle->tick;
    wide over = drained(oracle, oracle->level, ticks) - ((wide)oracle->burst - (wide)tokens) * oracle->period;
    if (over <= 0)
        return now;
    return (ticks + (uint64_t)((over + oracle->count - 1) / oracle->count)) * oracle->tick;
}

uint64_t oracle_refill(const struct oracle *oracle, weir_ns length)
{
    if (oracle->is_window)
        return 0;
    wide tokens = (wide)(length / oracle->tick + 1) * oracle->count;
    return (uint64_t)((tokens + oracle->period - 1) / oracle->period);
}
