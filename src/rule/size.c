// SPDX-License-Identifier: Apache-2.0
/* size.c - sizes in the ticks of a store, and shares of them. */
#include "rule/size.h"

#include <assert.h>

static const weir_ns ticks[] = { WEIR_MICROSECOND, WEIR_MILLISECOND };
#define TICKS (sizeof ticks / sizeof *ticks)

static weir_u128_ gcd(weir_u128_ x, weir_u128_ y)
{
    while (y != 0) {
        weir_u128_ rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* How often the count of a window can be charged: refusals that are charged take it up to twice. */
static unsigned times(const struct rule *rule)
{
    return rule->refused == WEIR_REFUSAL_CHARGED ? 2 : 1;
}

/* Beyond the burst: debt, or refusals that are charged up to one burst. */
static weir_u128_ beyond(const struct rule *rule, const struct weir_size *size)
{
    bool is_charged = rule->refused == WEIR_REFUSAL_CHARGED && size->burst > size->debt;
    return is_charged ? size->burst : size->debt;
}

struct weir_size size_of(const struct rule *rule)
{
    return (struct weir_size){ .rate = rule->limit.rate,
                               .burst = rule->limit.burst,
                               .debt = rule->limit.debt,
                               .at_most = rule->limit.at_most };
}

/* ---- In ticks -------------------------------------------------------------------------------------------------------- */

/* `count` tokens in `period` ticks without a common factor. */
static void reduce(const struct weir_quota *rate, weir_ns tick, weir_u128_ *count, weir_u128_ *period)
{
    weir_u128_ in_ticks = (weir_u128_)rate->count * tick;
    weir_u128_ common = gcd(in_ticks, rate->period);
    *count = in_ticks / common;
    *period = rate->period / common;
}

static bool bucket_fits(const struct rule *rule, const struct weir_size *size, weir_ns tick,
                        struct weir_shared_size *out)
{
    weir_u128_ count, period, most = (weir_u128_)size->burst + beyond(rule, size);
    reduce(&size->rate, tick, &count, &period);
    if (most >= SIZE_BOUND || count >= SIZE_BOUND || period >= SIZE_BOUND
        || most * period + count + period >= SIZE_BOUND)
        return false;
    *out = (struct weir_shared_size){ .tick = tick,
                                      .capacity = size->burst,
                                      .debt = size->debt,
                                      .count = (uint64_t)count,
                                      .period = (uint64_t)period };
    return true;
}

/* A sliding window multiplies its counts by its length. */
static bool window_fits(const struct rule *rule, const struct weir_size *size, weir_ns tick,
                        struct weir_shared_size *out)
{
    weir_ns period = rule->is_calendar ? 0 : size->rate.period;
    weir_u128_ most = (weir_u128_)size->rate.count * times(rule);
    weir_u128_ factor = rule->algorithm == WEIR_SLIDING_WINDOW ? period / tick : 1;
    if (period % tick != 0 || most >= SIZE_BOUND || most * factor >= SIZE_BOUND)
        return false;
    *out = (struct weir_shared_size){ .tick = tick, .capacity = size->rate.count, .period = period / tick };
    return true;
}

static bool permits_fit(const struct rule *rule, const struct weir_size *size, weir_ns tick,
                        struct weir_shared_size *out)
{
    if (rule->limit.hold % tick != 0)
        return false;
    *out =
        (struct weir_shared_size){ .tick = tick, .capacity = size->at_most, .period = rule->limit.hold / tick };
    return true;
}

static bool fits(const struct rule *rule, const struct weir_size *size, weir_ns tick,
                 struct weir_shared_size *out)
{
    if (rule->algorithm == WEIR_CONCURRENCY)
        return permits_fit(rule, size, tick, out);
    return rule_is_bucket(rule) ? bucket_fits(rule, size, tick, out) : window_fits(rule, size, tick, out);
}

enum size_fault size_in_store(const struct rule *rule, const struct weir_size *size,
                              struct weir_shared_size *out)
{
    if (size->is_unlimited) {
        *out = (struct weir_shared_size){ .tick = WEIR_MICROSECOND, .is_unlimited = true };
        return SIZE_FITS;
    }
    for (size_t i = 0; i < TICKS; i++)
        if (fits(rule, size, ticks[i], out))
            return SIZE_FITS;
    weir_ns length = rule->algorithm == WEIR_CONCURRENCY ? rule->limit.hold : size->rate.period;
    bool is_fine = rule_is_bucket(rule) || rule->is_calendar || length % WEIR_MICROSECOND == 0;
    return is_fine ? SIZE_TOO_LARGE : SIZE_TOO_FINE;
}

uint64_t size_most(const struct rule *rule, const struct weir_size *size)
{
    weir_u128_ count, period;
    if (!rule_is_bucket(rule)) {
        weir_ns tick = size->rate.period % WEIR_MILLISECOND == 0 ? WEIR_MILLISECOND : WEIR_MICROSECOND;
        uint64_t length = rule->algorithm == WEIR_SLIDING_WINDOW ? size->rate.period / tick : 1;
        return (SIZE_BOUND - 1) / length / times(rule);
    }
    reduce(&size->rate, WEIR_MILLISECOND, &count, &period);
    return count + period >= SIZE_BOUND ? 0 : (uint64_t)((SIZE_BOUND - 1 - count - period) / period);
}

/* ---- Shares ---------------------------------------------------------------------------------------------------------- */

static uint64_t part_of(const struct store_policy *policy, uint64_t whole)
{
    return (uint64_t)((weir_u128_)whole * policy->share / policy->share_of);
}

bool size_share(const struct rule *rule, const struct weir_size *size, struct weir_size *out)
{
    const struct store_policy *policy = &rule->store_fails;
    assert(policy->share_of > 0);
    *out = (struct weir_size){ .is_unlimited = size->is_unlimited };
    if (!rule_is_bucket(rule)) {
        out->rate = (struct weir_quota){ part_of(policy, size->rate.count), size->rate.period };
        return true;
    }
    weir_u128_ count = (weir_u128_)size->rate.count * policy->share;
    weir_u128_ period = (weir_u128_)size->rate.period * policy->share_of;
    weir_u128_ common = gcd(count, period);
    count /= common;
    period /= common;
    out->rate = (struct weir_quota){ (uint64_t)count, (uint64_t)period };
    out->burst = part_of(policy, size->burst);
    return count <= UINT64_MAX && period <= UINT64_MAX;
}
