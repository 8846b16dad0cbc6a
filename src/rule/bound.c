// SPDX-License-Identifier: Apache-2.0
/* bound.c - worst cases: token bucket 1.1, fixed window 1.4, log 1.5, sliding counter 1.6 of the algorithm reference. */
#include "rule/bound.h"

const struct span_row spans[SPAN_COUNT] = {
    [SPAN_ONCE] = { 1, "at once", "at_once" },
    [SPAN_SECOND] = { WEIR_SECOND, "in any second", "second" },
    [SPAN_MINUTE] = { WEIR_MINUTE, "in any minute", "minute" },
    [SPAN_HOUR] = { WEIR_HOUR, "in any hour", "hour" },
    [SPAN_DAY] = { WEIR_DAY, "in any day", "day" },
};

/* The shortest that a calendar window can be: clocks change by up to two hours in the zones of this century. */
static weir_ns shortest_window(const struct rule *rule)
{
    static const weir_ns days[] = { [WEIR_CALENDAR_DAY] = WEIR_DAY,
                                    [WEIR_CALENDAR_WEEK] = WEIR_WEEK,
                                    [WEIR_CALENDAR_MONTH] = 28 * WEIR_DAY,
                                    [WEIR_CALENDAR_YEAR] = 365 * WEIR_DAY };
    if (!rule->is_calendar)
        return rule->rate.period;
    bool is_utc = strcmp(rule->limit.zone, "UTC") == 0;
    return days[rule->limit.calendar] - (is_utc ? 0 : 2 * WEIR_HOUR);
}

static uint64_t saturate(weir_u128_ value)
{
    return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

uint64_t bound_in(const struct rule *rule, weir_ns length)
{
    weir_u128_ count = rule->rate.count;
    weir_ns period = shortest_window(rule);
    switch (rule->limit.algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_LEAKY_QUEUE:
        if (rule->burst == 0)
            return 0;
        /* In no time at all nothing comes back: "at once" is the burst alone. */
        return saturate(rule->burst + (length <= 1 ? 0 : count * length / period));
    case WEIR_FIXED_WINDOW:
        return saturate(count * (1 + (length + (weir_u128_)period - 1) / period));
    case WEIR_SLIDING_WINDOW:
        return saturate(count + count * (length - 1) / period);
    case WEIR_SLIDING_LOG:
        return saturate(count * (1 + length / period));
    case WEIR_CONCURRENCY:
        return length <= 1 ? rule->limit.at_most : UINT64_MAX;
    default:
        return UINT64_MAX;
    }
}

uint64_t bound_times(uint64_t bound, uint64_t replicas)
{
    return saturate((weir_u128_)bound * replicas);
}

/* ---- Turns --------------------------------------------------------------------------------------------------------- */

static weir_u128_ divide_up(weir_u128_ number, weir_u128_ by)
{
    return (number + by - 1) / by;
}

/* Whether nothing but the edge of a period brings tokens, all of them together: of a log, those that were taken together. */
static bool comes_by_periods(const struct rule *rule)
{
    return rule->limit.algorithm == WEIR_SLIDING_LOG
           || (rule->limit.algorithm == WEIR_FIXED_WINDOW && !rule->is_calendar);
}

/*
 * Whoever waits found nothing left. Behind that instant a bucket gets its k-th token no earlier than k - 1 intervals later
 * (the first may be nearly there), and a half-open time of one period sees one edge of a window at most.
 */
uint64_t bound_turns(const struct rule *rule)
{
    weir_ns up_to = rule->limit.wait.up_to;
    if (rule->limit.algorithm == WEIR_CONCURRENCY)
        return UINT64_MAX;
    if (rule_capacity(rule) == 0 || rule->rate.count == 0)
        return 0;
    if (rule_is_bucket(rule))
        return saturate(divide_up((weir_u128_)up_to * rule->rate.count, rule->rate.period));
    if (comes_by_periods(rule))
        return saturate(divide_up(up_to, rule->rate.period) * rule->rate.count);
    return bound_in(rule, up_to);
}

uint64_t bound_waiting(const struct rule *rule)
{
    uint64_t turns = bound_turns(rule);
    return turns < rule->limit.wait.queue ? turns : rule->limit.wait.queue;
}

weir_ns bound_longest_wait(const struct rule *rule)
{
    weir_ns up_to = rule->limit.wait.up_to;
    weir_u128_ last = up_to; /* when the last of a full queue has its turn */
    if (bound_turns(rule) == 0)
        return 0;
    if (rule_is_bucket(rule))
        last = divide_up((weir_u128_)rule->limit.wait.queue * rule->rate.period, rule->rate.count);
    else if (comes_by_periods(rule))
        last = divide_up(rule->limit.wait.queue, rule->rate.count) * rule->rate.period;
    return last < up_to ? (weir_ns)last : up_to;
}
