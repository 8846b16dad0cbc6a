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
    default:
        return UINT64_MAX;
    }
}

uint64_t bound_times(uint64_t bound, uint64_t replicas)
{
    return saturate((weir_u128_)bound * replicas);
}
