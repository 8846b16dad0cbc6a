// SPDX-License-Identifier: Apache-2.0
/*
 * log.c - the sliding log: exact, a stamp per admitted unit.
 *
 * A stamp t counts in (now - period, now]: exactly one period later it no longer does. Stamps are recorded at
 * max(now, newest), so they never decrease and the oldest is always at the head. P16: at most `count` in any
 * interval shorter than a period.
 */
#include "limit/log.h"

static weir_ns stamp_at(const struct log_view *log, uint32_t place)
{
    return log->stamps[(log->head + place) & log->mask];
}

/* How many of the oldest stamps have left the period at `at`. Stamps are sorted: halve. */
static uint32_t expired(const struct log_view *log, weir_ns period, weir_ns at)
{
    uint32_t low = 0, high = log->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (at >= period && stamp_at(log, middle) <= at - period)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static weir_ns log_retry_at(const struct shape *shape, const struct log_view *log, uint32_t gone, weir_ns at,
                            uint64_t cost)
{
    uint64_t live = log->count - gone;
    if (cost > shape->capacity)
        return WEIR_NO_TIME;
    if (live + cost <= shape->capacity)
        return at;
    uint64_t must_leave = live + cost - shape->capacity; /* at least 1, at most live */
    return stamp_at(log, gone + (uint32_t)must_leave - 1) + shape->period;
}

struct step log_decide(const struct shape *shape, struct log_view *log, weir_ns now, uint64_t cost,
                       bool is_peek, struct report *report)
{
    weir_ns newest = log->count > 0 ? stamp_at(log, log->count - 1) : 0;
    struct step step = { WEIR_ALLOW, 0, now > newest ? now : newest };
    uint32_t gone = expired(log, shape->period, step.at);
    uint64_t live = log->count - gone;

    if (cost > shape->capacity)
        step.outcome = WEIR_NEVER;
    else if (cost > 0 && live > shape->capacity - cost)
        step.outcome = WEIR_DENY;

    bool takes = step.outcome == WEIR_ALLOW && cost > 0;
    report->retry_at = takes ? step.at : log_retry_at(shape, log, gone, step.at, cost == 0 ? 1 : cost);
    if (takes && !is_peek) {
        log->head = (log->head + gone) & log->mask;
        log->count = (uint32_t)live;
        for (uint64_t i = 0; i < cost; i++)
            log->stamps[(log->head + log->count++) & log->mask] = step.at;
        live = log->count;
        newest = step.at;
    }
    report->remaining = live < shape->capacity ? shape->capacity - live : 0;
    report->reset_at = live > 0 ? newest + shape->period : step.at;
    return step;
}

bool log_is_dead(const struct shape *shape, const struct log_view *log, weir_ns now)
{
    return log->count == 0 || stamp_at(log, log->count - 1) + shape->period + SHAPE_GRACE_NS <= now;
}

void log_undo(struct log_view *log, weir_ns charged_at, uint64_t cost)
{
    uint32_t kept = log->count;
    while (kept > 0 && stamp_at(log, kept - 1) > charged_at)
        kept--;
    uint32_t first = kept;
    while (first > 0 && kept - first < cost && stamp_at(log, first - 1) == charged_at)
        first--;
    /* Close the gap [first, kept): what came later moves down. */
    uint32_t taken = kept - first;
    for (uint32_t i = kept; i < log->count; i++)
        log->stamps[(log->head + i - taken) & log->mask] = stamp_at(log, i);
    log->count -= taken;
}
