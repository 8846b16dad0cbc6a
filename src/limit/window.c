// SPDX-License-Identifier: Apache-2.0
/*
 * window.c - fixed windows and the sliding-window counter.
 *
 * Both keep the number of the window they last counted in. A stamp from an earlier window than the stored one is
 * stale: it is counted in the stored window, from its beginning (the effective stamp, step.at), so time going back
 * reopens nothing.
 *
 * P15: a fixed window admits at most its count per window, 2 * count around an edge. P17: the sliding counter's
 * decision is the integer inequality (cur + c) * P + prev * (P - e) <= L * P, exactly; at most
 * L + floor(L * (d - 1) / P) in d ns.
 */
#include "limit/window.h"

#include "limit/calendar.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t low_bits(unsigned bits)
{
    return (UINT64_C(1) << bits) - 1;
}

int window_pack(struct shape *shape)
{
    struct window *window = &shape->window;
    unsigned index_bits = CALENDAR_INDEX_BITS;
    if (window->calendar == NULL)
        for (index_bits = 1; (u128)window->period << index_bits < (u128)2 * WEIR_HORIZON; index_bits++)
            ;
    unsigned counts = shape->algorithm == WEIR_SLIDING_WINDOW ? 2 : 1;
    if (index_bits + counts > 63)
        return WEIR_ERR_COUNT;
    window->count_bits = (63 - index_bits) / counts;
    return shape_count_max(shape) <= low_bits(window->count_bits) ? 0 : WEIR_ERR_COUNT;
}

static struct position locate(const struct window *window, weir_ns now)
{
    if (window->calendar != NULL)
        return calendar_locate(window->calendar, now);
    uint64_t index = (now + window->phase) / window->period;
    return (struct position){ index, (index + 1) * window->period - window->phase };
}

static weir_ns start_of(const struct window *window, uint64_t index)
{
    if (window->calendar != NULL)
        return calendar_start(window->calendar, index);
    weir_ns start = index * window->period;
    return start > window->phase ? start - window->phase : 0;
}

/* ---- Fixed windows ---------------------------------------------------------------------------------------- */

struct fixed {
    uint64_t index, count;
    weir_ns at;  /* the effective stamp */
    weir_ns end; /* of the window */
};

/* What a word means at a stamp: the counts of the window that the stamp falls into, or of the stored one if later. */
static struct fixed fixed_read(const struct window *window, uint64_t word, weir_ns now)
{
    struct position here = locate(window, now);
    uint64_t index = word >> window->count_bits;
    uint64_t count = word & low_bits(window->count_bits);

    if (index > here.index) {
        weir_ns start = start_of(window, index);
        weir_ns end = start_of(window, index + 1);
        return (struct fixed){ index, count, now > start ? now : start, end };
    }
    return (struct fixed){ here.index, index == here.index ? count : 0, now, here.end };
}

struct step fixed_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost)
{
    struct fixed seen = fixed_read(&shape->window, word, now);
    if (cost > shape->capacity)
        return (struct step){ WEIR_NEVER, word, seen.at };
    if (cost == 0)
        return (struct step){ WEIR_ALLOW, word, seen.at };
    bool passes = seen.count <= shape->capacity - cost;
    if (!passes && !shape->charges_refusals)
        return (struct step){ WEIR_DENY, word, seen.at };
    uint64_t next = seen.index << shape->window.count_bits | shape_count_add(shape, seen.count, cost);
    return (struct step){ passes ? WEIR_ALLOW : WEIR_DENY, next, seen.at };
}

struct report fixed_report(const struct shape *shape, const struct step *step, uint64_t cost)
{
    struct fixed seen = fixed_read(&shape->window, step->word, step->at);
    uint64_t left = seen.count < shape->capacity ? shape->capacity - seen.count : 0;
    uint64_t wanted = cost == 0 ? 1 : cost;
    bool passes = step->outcome == WEIR_ALLOW && (cost > 0 || left >= wanted);
    return (struct report){ left,
                            passes                     ? step->at
                            : wanted > shape->capacity ? WEIR_NO_TIME
                                                       : seen.end,
                            seen.count == 0 ? step->at : seen.end };
}

/* Whether what was charged at an effective stamp was counted in a window. A calendar's own window has moved on by now. */
static bool counted_in(const struct window *window, uint64_t index, weir_ns charged_at)
{
    return charged_at >= start_of(window, index) && charged_at < start_of(window, index + 1);
}

uint64_t fixed_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, uint64_t cost)
{
    unsigned bits = shape->window.count_bits;
    uint64_t count = word & low_bits(bits);
    if (!counted_in(&shape->window, word >> bits, charged_at))
        return word;
    return word - (cost < count ? cost : count);
}

/* ---- The sliding-window counter ---------------------------------------------------------------------------- */

struct sliding {
    uint64_t index, previous, current;
    uint64_t elapsed; /* ns of the current window */
    weir_ns at;
};

static struct sliding sliding_read(const struct window *window, uint64_t word, weir_ns now)
{
    unsigned bits = window->count_bits;
    struct sliding seen = { word >> (2 * bits), word >> bits & low_bits(bits), word & low_bits(bits), 0, now };
    uint64_t index = (now + window->phase) / window->period;

    if (index < seen.index) {
        seen.at = start_of(window, seen.index);
        return seen;
    }
    if (index > seen.index) {
        seen.previous = index == seen.index + 1 ? seen.current : 0;
        seen.current = 0;
        seen.index = index;
    }
    seen.elapsed = now + window->phase - index * window->period;
    return seen;
}

static uint64_t sliding_word(const struct window *window, const struct sliding *seen)
{
    unsigned bits = window->count_bits;
    return seen->index << (2 * bits) | seen->previous << bits | seen->current;
}

/* The weighted count, times the period. */
static u128 sliding_level(const struct window *window, const struct sliding *seen)
{
    return (u128)seen->current * window->period + (u128)seen->previous * (window->period - seen->elapsed);
}

struct step sliding_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost)
{
    const struct window *window = &shape->window;
    struct sliding seen = sliding_read(window, word, now);
    if (cost > shape->capacity)
        return (struct step){ WEIR_NEVER, word, seen.at };
    if (cost == 0)
        return (struct step){ WEIR_ALLOW, word, seen.at };
    bool passes =
        sliding_level(window, &seen) + (u128)cost * window->period <= (u128)shape->capacity * window->period;
    if (!passes && !shape->charges_refusals)
        return (struct step){ WEIR_DENY, word, seen.at };
    seen.current = shape_count_add(shape, seen.current, cost);
    return (struct step){ passes ? WEIR_ALLOW : WEIR_DENY, sliding_word(window, &seen), seen.at };
}

/* Elapsed ns of a window from which `room` more requests than it counts fit beside `weighted` fading ones. */
static uint64_t fades_at(weir_ns period, uint64_t room, uint64_t weighted)
{
    if (weighted == 0)
        return 0;
    u128 may_overlap = (u128)room * period / weighted;
    return may_overlap >= period ? 0 : period - (uint64_t)may_overlap;
}

/*
 * The first instant at which `cost` passes if nobody else calls (P18). Within this window `current` stays and
 * `previous` fades; in the next one `current` fades.
 */
static weir_ns sliding_retry_at(const struct shape *shape, const struct sliding *seen, uint64_t cost)
{
    weir_ns period = shape->window.period;
    uint64_t window = seen->index, elapsed;
    if (cost > shape->capacity)
        return WEIR_NO_TIME;
    if (seen->current + cost <= shape->capacity) {
        elapsed = fades_at(period, shape->capacity - seen->current - cost, seen->previous);
    } else {
        window += 1;
        elapsed = fades_at(period, shape->capacity - cost, seen->current);
    }
    u128 instant = (u128)window * period + elapsed;
    weir_ns retry_at = (weir_ns)(instant > shape->window.phase ? instant - shape->window.phase : 0);
    return retry_at > seen->at ? retry_at : seen->at;
}

struct report sliding_report(const struct shape *shape, const struct step *step, uint64_t cost)
{
    const struct window *window = &shape->window;
    struct sliding seen = sliding_read(window, step->word, step->at);
    u128 full = (u128)shape->capacity * window->period;
    u128 level = sliding_level(window, &seen);
    bool charged = step->outcome == WEIR_ALLOW && cost > 0;

    struct report report;
    report.remaining = level < full ? (uint64_t)((full - level) / window->period) : 0;
    report.retry_at = charged ? step->at : sliding_retry_at(shape, &seen, cost == 0 ? 1 : cost);
    report.reset_at = seen.current > 0    ? start_of(window, seen.index + 2)
                      : seen.previous > 0 ? start_of(window, seen.index + 1)
                                          : step->at;
    return report;
}

uint64_t sliding_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, uint64_t cost)
{
    unsigned bits = shape->window.count_bits;
    uint64_t stored = word >> (2 * bits);
    uint64_t charged = locate(&shape->window, charged_at).index;
    uint64_t current = word & low_bits(bits), previous = word >> bits & low_bits(bits);
    if (stored == charged)
        return word - (cost < current ? cost : current);
    if (stored == charged + 1)
        return word - ((cost < previous ? cost : previous) << bits);
    return word;
}

/* ---- Settling, converting, starting empty ------------------------------------------------------------------ */

/* Of `amount`, what a count below the capacity has room for. */
static struct settled room_for(const struct shape *shape, uint64_t count, uint64_t amount)
{
    uint64_t room = count < shape->capacity ? shape->capacity - count : 0;
    uint64_t done = amount < room ? amount : room;
    return (struct settled){ 0, done, amount - done };
}

struct settled fixed_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount)
{
    struct fixed seen = fixed_read(&shape->window, word, now);
    struct settled settled = room_for(shape, seen.count, amount);
    settled.word =
        settled.done == 0 ? word : seen.index << shape->window.count_bits | (seen.count + settled.done);
    return settled;
}

struct settled fixed_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                            uint64_t amount)
{
    unsigned bits = shape->window.count_bits;
    uint64_t index = word >> bits, count = word & low_bits(bits);
    if (!counted_in(&shape->window, index, charged_at) || index != fixed_read(&shape->window, word, now).index)
        return (struct settled){ word, 0, 0 };
    uint64_t done = amount < count ? amount : count;
    return (struct settled){ word - done, done, 0 };
}

/* The whole count enters the window that contains the change, or the stored one if that begins later. */
uint64_t fixed_convert(const struct shape *old, const struct shape *next, uint64_t word)
{
    struct fixed seen = fixed_read(&old->window, word, next->since);
    uint64_t most = low_bits(next->window.count_bits);
    uint64_t index = next->window.calendar != NULL ? seen.index : locate(&next->window, seen.at).index;
    return seen.count == 0 ? 0 : index << next->window.count_bits | (seen.count < most ? seen.count : most);
}

uint64_t fixed_absent(const struct shape *shape)
{
    return locate(&shape->window, shape_lost_at(shape)).index << shape->window.count_bits | shape->capacity;
}

struct settled sliding_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount)
{
    struct sliding seen = sliding_read(&shape->window, word, now);
    struct settled settled = room_for(shape, seen.current, amount);
    seen.current += settled.done;
    settled.word = settled.done == 0 ? word : sliding_word(&shape->window, &seen);
    return settled;
}

struct settled sliding_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                              uint64_t amount)
{
    struct sliding seen = sliding_read(&shape->window, word, now);
    uint64_t charged = locate(&shape->window, charged_at).index;
    uint64_t *count = charged == seen.index ? &seen.current : charged + 1 == seen.index ? &seen.previous : NULL;
    if (count == NULL)
        return (struct settled){ word, 0, 0 };
    uint64_t done = amount < *count ? amount : *count;
    *count -= done;
    return (struct settled){ done == 0 ? word : sliding_word(&shape->window, &seen), done, 0 };
}

/*
 * The same period keeps both counts. Another one takes what they weigh at the change, rounded up, into the window that
 * contains it: the level stays what it was, and what had faded stays faded.
 */
uint64_t sliding_convert(const struct shape *old, const struct shape *next, uint64_t word)
{
    struct sliding seen = sliding_read(&old->window, word, next->since);
    uint64_t most = low_bits(next->window.count_bits);
    if (old->window.period != next->window.period) {
        u128 fading = (u128)seen.previous * (old->window.period - seen.elapsed) + (old->window.period - 1);
        seen.current += (uint64_t)(fading / old->window.period);
        seen.previous = 0;
        seen.index = locate(&next->window, seen.at).index;
    }
    seen.previous = seen.previous < most ? seen.previous : most;
    seen.current = seen.current < most ? seen.current : most;
    return seen.previous + seen.current == 0 ? 0 : sliding_word(&next->window, &seen);
}

uint64_t sliding_absent(const struct shape *shape)
{
    struct sliding spent = { .index = locate(&shape->window, shape_lost_at(shape)).index,
                             .current = shape->capacity };
    return sliding_word(&shape->window, &spent);
}

bool window_is_dead(const struct shape *shape, uint64_t word, weir_ns now)
{
    bool is_sliding = shape->algorithm == WEIR_SLIDING_WINDOW;
    uint64_t index = word >> (shape->window.count_bits * (is_sliding ? 2 : 1));
    return now >= SHAPE_GRACE_NS
           && locate(&shape->window, now - SHAPE_GRACE_NS).index > index + (is_sliding ? 1 : 0);
}

/* ---- Behind others ---------------------------------------------------------------------------------------- */

uint64_t fixed_dated(const struct shape *shape, uint64_t word, weir_ns now)
{
    struct fixed seen = fixed_read(&shape->window, word, now);
    return seen.index << shape->window.count_bits | seen.count;
}

/* A calendar is asked where later windows begin, and not moved on to them. */
weir_ns fixed_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost)
{
    const struct window *window = &shape->window;
    struct fixed seen = fixed_read(window, word, now);
    uint64_t left = seen.count < shape->capacity ? shape->capacity - seen.count : 0;
    if (ahead <= left && cost <= left - ahead)
        return now;
    uint64_t later = windows_ahead(shape, ahead > left ? ahead - left : 0, cost);
    if (window->calendar != NULL && later > low_bits(CALENDAR_INDEX_BITS) - seen.index)
        return WEIR_NO_TIME;
    u128 instant = window->calendar == NULL ? (u128)seen.end + (u128)later * window->period
                   : later == 0             ? seen.end
                                            : calendar_start(window->calendar, seen.index + 1 + later);
    return instant > WEIR_HORIZON ? WEIR_NO_TIME : (weir_ns)instant;
}

uint64_t sliding_dated(const struct shape *shape, uint64_t word, weir_ns now)
{
    struct sliding seen = sliding_read(&shape->window, word, now);
    return sliding_word(&shape->window, &seen);
}

/* What a window has counted when it ends, while there are always others that ask. */
static uint64_t counted_at_end(const struct shape *shape, uint64_t previous, uint64_t current)
{
    weir_ns period = shape->window.period;
    uint64_t fading = previous / period + (previous % period != 0); /* at its last instant */
    uint64_t most = fading < shape->capacity ? shape->capacity - fading : 0;
    return current > most ? current : most;
}

/*
 * Window after window: each counts as many as fit beside the fading ones of the last. What they count repeats after a few,
 * every second one the same, and then as many pairs as are ahead are passed over at once.
 */
weir_ns sliding_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost)
{
    struct sliding seen = sliding_read(&shape->window, word, now);
    weir_ns period = shape->window.period;
    uint64_t here = seen.index;
    for (;;) {
        u128 all = (u128)seen.current + ahead + cost;
        uint64_t elapsed =
            all > shape->capacity ? period : fades_at(period, shape->capacity - (uint64_t)all, seen.previous);
        if (seen.index == here && elapsed <= seen.elapsed)
            return now; /* which may be stale, and then says nothing about that window */
        u128 instant = (u128)seen.index * period + elapsed;
        instant = instant > shape->window.phase ? instant - shape->window.phase : 0;
        if (instant > WEIR_HORIZON)
            return WEIR_NO_TIME;
        if (elapsed < period)
            return (weir_ns)instant;

        uint64_t end = counted_at_end(shape, seen.previous, seen.current);
        uint64_t gone = end - seen.current < ahead ? end - seen.current : ahead;
        ahead -= gone;
        uint64_t pair = seen.previous + end, pairs = pair == 0 ? 0 : ahead / pair;
        if (pairs > 1 && seen.current == 0 && counted_at_end(shape, end, 0) == seen.previous) {
            if (pairs > WEIR_HORIZON)
                return WEIR_NO_TIME;
            seen.index += 2 * (pairs - 1);
            ahead -= (pairs - 1) * pair;
        }
        seen.previous = seen.current + gone;
        seen.current = 0;
        seen.index++;
    }
}
