// SPDX-License-Identifier: Apache-2.0
/*
 * first.c - a fixed window that begins at a key's first request.
 *
 * Word: [0][start][count]. Start is kept in the smallest power of two of ns that the horizon allows beside the
 * count, rounded up: a window begins up to one unit after its first request, which counts in it all the same. Count
 * 0 is "no window": what was counted has been given back. Its start then still says how late it has been, so that a
 * stale stamp cannot begin a window beside one that is forgotten.
 */
#include "limit/window.h"

__extension__ typedef unsigned __int128 u128;

/* Give the count so many bits and the start the others. A start that is rounded by more than a thousandth of the period
   would be another contract: false, and nothing is changed. */
static bool first_divide(struct first_window *window, unsigned count_bits)
{
    unsigned start_bits = 63 - count_bits, unit_bits = 0;
    while ((u128)1 << (start_bits + unit_bits) < (u128)2 * WEIR_HORIZON)
        unit_bits++;
    if (UINT64_C(1) << unit_bits > 1 + window->period / 1000)
        return false;
    window->count_bits = count_bits;
    window->unit_bits = unit_bits;
    return true;
}

int first_pack(struct shape *shape)
{
    unsigned count_bits = 1;
    while (count_bits < 62 && shape_count_max(shape) >> count_bits != 0)
        count_bits++;
    return first_divide(&shape->first, count_bits) ? 0 : WEIR_ERR_COUNT;
}

void first_widen(struct shape *shape, const struct shape *old)
{
    unsigned wanted = old->first.count_bits;
    while (wanted > shape->first.count_bits && !first_divide(&shape->first, wanted))
        wanted--;
}

struct seen {
    uint64_t count;
    weir_ns start, at;
};

/* A window that is over, or none, counts 0 and would begin at `now`, rounded up, but not before the one stored. */
static struct seen first_read(const struct first_window *window, uint64_t word, weir_ns now)
{
    uint64_t count = word & ((UINT64_C(1) << window->count_bits) - 1);
    weir_ns start = word >> window->count_bits << window->unit_bits;
    if (count == 0 || now >= start + window->period) {
        weir_ns unit = UINT64_C(1) << window->unit_bits;
        weir_ns rounded = (now + unit - 1) & ~(unit - 1);
        start = rounded > start ? rounded : start;
        count = 0;
    }
    return (struct seen){ count, start, now > start ? now : start };
}

static uint64_t first_word(const struct first_window *window, weir_ns start, uint64_t count)
{
    return start >> window->unit_bits << window->count_bits | count;
}

struct step first_decide(const struct shape *shape, uint64_t word, weir_ns now, uint64_t cost)
{
    const struct first_window *window = &shape->first;
    struct seen seen = first_read(window, word, now);
    weir_ns stored = word >> window->count_bits << window->unit_bits;
    weir_ns looked_at = now > stored ? now : stored;
    if (cost > shape->capacity)
        return (struct step){ WEIR_NEVER, word, looked_at };
    if (cost == 0)
        return (struct step){ WEIR_ALLOW, word, looked_at };
    bool passes = seen.count <= shape->capacity - cost;
    if (!passes && !shape->charges_refusals)
        return (struct step){ WEIR_DENY, word, seen.at };
    uint64_t next = first_word(window, seen.start, shape_count_add(shape, seen.count, cost));
    return (struct step){ passes ? WEIR_ALLOW : WEIR_DENY, next, seen.at };
}

struct report first_report(const struct shape *shape, const struct step *step, uint64_t cost)
{
    struct seen seen = first_read(&shape->first, step->word, step->at);
    uint64_t left = seen.count < shape->capacity ? shape->capacity - seen.count : 0;
    uint64_t wanted = cost == 0 ? 1 : cost;
    bool passes = step->outcome == WEIR_ALLOW && (cost > 0 || left >= wanted);
    weir_ns end = seen.start + shape->first.period;
    return (struct report){ left,
                            passes                     ? step->at
                            : wanted > shape->capacity ? WEIR_NO_TIME
                                                       : end,
                            seen.count == 0 ? step->at : end };
}

uint64_t first_undo(const struct shape *shape, uint64_t word, weir_ns charged_at, uint64_t cost)
{
    const struct first_window *window = &shape->first;
    uint64_t count = word & ((UINT64_C(1) << window->count_bits) - 1);
    weir_ns start = word >> window->count_bits << window->unit_bits;
    if (charged_at < start || charged_at - start >= window->period)
        return word;
    return word - (cost < count ? cost : count);
}

struct settled first_charge(const struct shape *shape, uint64_t word, weir_ns now, uint64_t amount)
{
    struct seen seen = first_read(&shape->first, word, now);
    uint64_t room = seen.count < shape->capacity ? shape->capacity - seen.count : 0;
    uint64_t done = amount < room ? amount : room;
    uint64_t next = done == 0 ? word : first_word(&shape->first, seen.start, seen.count + done);
    return (struct settled){ next, done, amount - done };
}

struct settled first_refund(const struct shape *shape, uint64_t word, weir_ns charged_at, weir_ns now,
                            uint64_t amount)
{
    struct seen seen = first_read(&shape->first, word, now);
    bool is_same = charged_at >= seen.start && charged_at - seen.start < shape->first.period;
    uint64_t done = !is_same ? 0 : amount < seen.count ? amount : seen.count;
    return (struct settled){ word - done, done, 0 };
}

/* The same period goes on; another one begins at the change, with what was counted. */
uint64_t first_convert(const struct shape *old, const struct shape *next, uint64_t word)
{
    struct seen seen = first_read(&old->first, word, next->since);
    uint64_t most = (UINT64_C(1) << next->first.count_bits) - 1;
    weir_ns unit = UINT64_C(1) << next->first.unit_bits;
    weir_ns start = old->first.period == next->first.period ? seen.start : seen.at;
    if (seen.count == 0)
        return 0;
    return first_word(&next->first, (start + unit - 1) & ~(unit - 1), seen.count < most ? seen.count : most);
}

uint64_t first_absent(const struct shape *shape)
{
    weir_ns unit = UINT64_C(1) << shape->first.unit_bits;
    return first_word(&shape->first, (shape_lost_at(shape) + unit - 1) & ~(unit - 1), shape->capacity);
}

bool first_is_dead(const struct shape *shape, uint64_t word, weir_ns now)
{
    const struct first_window *window = &shape->first;
    uint64_t count = word & ((UINT64_C(1) << window->count_bits) - 1);
    weir_ns start = word >> window->count_bits << window->unit_bits;
    return start + (count == 0 ? 0 : window->period) + SHAPE_GRACE_NS <= now;
}

uint64_t first_dated(const struct shape *shape, uint64_t word, weir_ns now)
{
    struct seen seen = first_read(&shape->first, word, now);
    return first_word(&shape->first, seen.start, seen.count);
}

/* The first of those who wait opens the next window as this one ends; its start is rounded up, as any. */
weir_ns first_foresee(const struct shape *shape, uint64_t word, weir_ns now, uint64_t ahead, uint64_t cost)
{
    struct seen seen = first_read(&shape->first, word, now);
    uint64_t left = seen.count < shape->capacity ? shape->capacity - seen.count : 0;
    if (ahead <= left && cost <= left - ahead)
        return now;
    weir_ns unit = UINT64_C(1) << shape->first.unit_bits;
    weir_ns stride = (shape->first.period + unit - 1) & ~(unit - 1);
    u128 end = (u128)seen.start + shape->first.period;
    end += (u128)windows_ahead(shape, ahead > left ? ahead - left : 0, cost) * stride;
    return end > WEIR_HORIZON ? WEIR_NO_TIME : (weir_ns)end;
}
