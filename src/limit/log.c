// SPDX-License-Identifier: Apache-2.0
/*
 * log.c - the sliding log: exact, a stamp per admitted unit.
 *
 * A stamp t counts in (now - period, now]: exactly one period later it no longer does. Stamps are recorded at
 * max(now, newest), so they never decrease and the oldest is always at the head. P16: at most `count` in any
 * interval shorter than a period.
 */
#include "limit/log.h"

__extension__ typedef unsigned __int128 u128;

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

uint32_t log_room(const struct shape *shape)
{
    uint64_t most = shape_count_max(shape);
    return (uint32_t)(most < WEIR_LOG_MAX ? most : WEIR_LOG_MAX);
}

/* A log without a ring has room for all. */
static uint64_t room_of(const struct log_view *log)
{
    return log->stamps == NULL ? UINT64_MAX : (uint64_t)log->mask + 1 + log->spare;
}

static uint64_t capacity_in(const struct shape *shape, const struct log_view *log)
{
    return shape->capacity < room_of(log) ? shape->capacity : room_of(log);
}

static weir_ns log_retry_at(const struct shape *shape, const struct log_view *log, uint32_t gone, weir_ns at,
                            uint64_t cost)
{
    uint64_t live = log->count - gone, capacity = capacity_in(shape, log);
    if (cost > capacity)
        return WEIR_NO_TIME;
    if (live + cost <= capacity)
        return at;
    uint64_t must_leave = live + cost - capacity; /* at least 1, at most live */
    return stamp_at(log, gone + (uint32_t)must_leave - 1) + shape->period;
}

/* Drop the oldest, add `amount` at `at`. There is room. */
static void append(struct log_view *log, uint32_t gone, weir_ns at, uint64_t amount)
{
    log->head = (log->head + gone) & log->mask;
    log->count -= gone;
    for (uint64_t i = 0; i < amount; i++)
        log->stamps[(log->head + log->count++) & log->mask] = at;
}

/* How many of `amount` stamps fit under `most` beside the live ones, and into the ring. */
static uint64_t fitting(const struct log_view *log, uint64_t live, uint64_t most, uint64_t amount)
{
    if (most > room_of(log))
        most = room_of(log);
    uint64_t room = live < most ? most - live : 0;
    return amount < room ? amount : room;
}

struct step log_decide(const struct shape *shape, struct log_view *log, weir_ns now, uint64_t cost,
                       bool is_peek, struct report *report)
{
    weir_ns newest = log->count > 0 ? stamp_at(log, log->count - 1) : 0;
    struct step step = { WEIR_ALLOW, 0, now > newest ? now : newest };
    uint32_t gone = expired(log, shape->period, step.at);
    uint64_t live = log->count - gone, capacity = capacity_in(shape, log), charged = cost;

    if (cost > shape->capacity) {
        step.outcome = WEIR_NEVER;
        charged = 0;
    } else if (cost > 0 && (cost > capacity || live > capacity - cost)) {
        step.outcome = WEIR_DENY;
        charged = shape->charges_refusals ? fitting(log, live, log_room(shape), cost) : 0;
    }
    step.word = charged > 0;
    if (charged > 0 && !is_peek) {
        append(log, gone, step.at, charged);
        gone = 0;
        live = log->count;
        newest = step.at;
    }
    report->retry_at = step.outcome == WEIR_ALLOW && cost > 0
                           ? step.at
                           : log_retry_at(shape, log, gone, step.at, cost == 0 ? 1 : cost);
    report->remaining = live < capacity ? capacity - live : 0;
    report->reset_at = live > 0 ? newest + shape->period : step.at;
    return step;
}

bool log_starts_empty(const struct shape *shape, weir_ns now, uint64_t cost, struct step *step,
                      struct report *report)
{
    weir_ns until = shape_lost_at(shape) + shape->period;
    if (!shape->starts_empty || now >= until)
        return false;
    *step = (struct step){ cost > shape->capacity ? WEIR_NEVER : cost > 0 ? WEIR_DENY : WEIR_ALLOW, 0, now };
    *report = (struct report){ 0, (cost == 0 ? 1 : cost) > shape->capacity ? WEIR_NO_TIME : until, until };
    return true;
}

/*
 * Unit after unit takes what leaves the period, oldest first: at first the stamps that are there, then those of the units
 * before it. So each passes one period after the one that is as many before it as the log counts.
 */
weir_ns log_foresee(const struct shape *shape, const struct log_view *log, weir_ns now, uint64_t ahead,
                    uint64_t cost)
{
    weir_ns newest = log->count > 0 ? stamp_at(log, log->count - 1) : 0, at = now > newest ? now : newest;
    uint32_t gone = expired(log, shape->period, at);
    uint64_t live = log->count - gone, capacity = capacity_in(shape, log);
    if (cost > capacity || ahead > UINT64_MAX - cost)
        return WEIR_NO_TIME;
    uint64_t unit = ahead + cost - 1, room = live < capacity ? capacity - live : 0;
    uint64_t rounds = unit / capacity, place = unit % capacity;
    if (rounds == 0 && place < room)
        return now;
    u128 instant = at;
    if (place >= room)
        instant = (u128)stamp_at(log, gone + (uint32_t)(live + place - capacity)) + shape->period;
    instant += (u128)rounds * shape->period;
    return instant > WEIR_HORIZON ? WEIR_NO_TIME : (weir_ns)instant;
}

uint64_t log_record(const struct shape *shape, struct log_view *log, weir_ns now, uint64_t amount)
{
    weir_ns newest = log->count > 0 ? stamp_at(log, log->count - 1) : 0, at = now > newest ? now : newest;
    uint32_t gone = expired(log, shape->period, at);
    uint64_t done = fitting(log, log->count - gone, shape->capacity, amount);
    if (done > 0)
        append(log, gone, at, done);
    return done;
}

bool log_is_dead(const struct shape *shape, const struct log_view *log, weir_ns now)
{
    return log->count == 0 || stamp_at(log, log->count - 1) + shape->period + SHAPE_GRACE_NS <= now;
}

/* Close the gap [first, kept): what came later moves down. */
static void close_gap(struct log_view *log, uint32_t first, uint32_t kept)
{
    uint32_t taken = kept - first;
    for (uint32_t i = kept; i < log->count; i++)
        log->stamps[(log->head + i - taken) & log->mask] = stamp_at(log, i);
    log->count -= taken;
}

/* How many stamps are not later than `at`. */
static uint32_t not_later(const struct log_view *log, weir_ns at)
{
    uint32_t kept = log->count;
    while (kept > 0 && stamp_at(log, kept - 1) > at)
        kept--;
    return kept;
}

void log_undo(struct log_view *log, weir_ns charged_at, uint64_t cost)
{
    uint32_t kept = not_later(log, charged_at);
    uint32_t first = kept;
    while (first > 0 && kept - first < cost && stamp_at(log, first - 1) == charged_at)
        first--;
    close_gap(log, first, kept);
}

uint64_t log_refund(const struct shape *shape, struct log_view *log, weir_ns charged_at, weir_ns now,
                    uint64_t amount)
{
    uint32_t gone = expired(log, shape->period, now);
    uint32_t kept = not_later(log, charged_at);
    uint32_t room = kept > gone ? kept - gone : 0;
    uint32_t back = amount < room ? (uint32_t)amount : room;
    close_gap(log, kept - back, kept);
    return back;
}
