// SPDX-License-Identifier: Apache-2.0
/* rate.c - parse and print COUNT/[N]UNIT. */
#include "rule/rate.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *word;
    weir_ns length; /* 0: varies */
    const char *calendar;
    enum weir_calendar as_calendar;
} units[] = {
    [UNIT_MS] = { "ms", WEIR_MILLISECOND, NULL, 0 },
    [UNIT_S] = { "s", WEIR_SECOND, NULL, 0 },
    [UNIT_M] = { "m", WEIR_MINUTE, NULL, 0 },
    [UNIT_H] = { "h", WEIR_HOUR, NULL, 0 },
    [UNIT_D] = { "d", WEIR_DAY, "day", WEIR_CALENDAR_DAY },
    [UNIT_W] = { "w", WEIR_WEEK, "week", WEIR_CALENDAR_WEEK },
    [UNIT_MONTH] = { "month", 0, "month", WEIR_CALENDAR_MONTH },
    [UNIT_YEAR] = { "year", 0, "year", WEIR_CALENDAR_YEAR },
};
_Static_assert(sizeof units / sizeof *units == UNIT_COUNT, "a unit lacks its row");

static const char *find_unit(struct slice word, enum unit *out)
{
    for (size_t i = 0; i < UNIT_COUNT; i++)
        if (slice_equals(word, slice_of(units[i].word))) {
            *out = (enum unit)i;
            return NULL;
        }
    if (word.len == 0)
        return "has no unit";
    if (slice_equals(word, SLICE("M")))
        return "has the unit M, which could be minutes (m) or months (month)";
    return "has no such unit";
}

/* The digits at the start of `text`. */
static struct slice digits_of(struct slice text)
{
    size_t len = 0;
    while (len < text.len && text.at[len] >= '0' && text.at[len] <= '9')
        len++;
    return (struct slice){ text.at, len };
}

const char *rate_parse(struct slice text, struct rate *out)
{
    struct rate rate = { .multiple = 1 };
    const char *slash = text.len == 0 ? NULL : memchr(text.at, '/', text.len);
    if (slash == NULL)
        return "is not a count per time";

    struct slice count = { text.at, (size_t)(slash - text.at) };
    if (!slice_to_u64(count, INT64_MAX, &rate.count))
        return "has a count that is not a plain integer";

    struct slice rest = { slash + 1, text.len - count.len - 1 };
    struct slice multiple = digits_of(rest);
    struct slice word = { rest.at + multiple.len, rest.len - multiple.len };
    if (multiple.len > 0 && !slice_to_u64(multiple, INT64_MAX, &rate.multiple))
        return multiple.at[0] == '0' ? "has a leading zero in its time" : "has a period above ten years";
    const char *problem = find_unit(word, &rate.unit);
    if (problem != NULL)
        return problem;
    if (rate.multiple == 0)
        return "has a period of zero";
    if (rate.multiple > WEIR_HORIZON / (units[rate.unit].length == 0 ? WEIR_DAY : units[rate.unit].length))
        return "has a period above ten years";
    rate.period = rate.multiple * units[rate.unit].length;
    *out = rate;
    return NULL;
}

void rate_format(const struct rate *rate, struct text *out)
{
    text_number(out, rate->count);
    text_put(out, "/");
    if (rate->multiple != 1)
        text_number(out, rate->multiple);
    text_put(out, units[rate->unit].word);
}

const char *rate_parse_duration(struct slice text, weir_ns *out)
{
    static const struct {
        const char *word;
        weir_ns length;
    } steps[] = {
        { "d", WEIR_DAY },          { "h", WEIR_HOUR },         { "m", WEIR_MINUTE }, { "s", WEIR_SECOND },
        { "ms", WEIR_MILLISECOND }, { "us", WEIR_MICROSECOND }, { "ns", 1 },
    };
    const size_t count = sizeof steps / sizeof *steps;
    weir_ns whole = 0;
    size_t next = 0; /* the largest unit that may follow */
    do {
        uint64_t number;
        struct slice digits = digits_of(text);
        if (digits.len == 0 || !slice_to_u64(digits, INT64_MAX, &number))
            return "is not a length of time";
        text = (struct slice){ text.at + digits.len, text.len - digits.len };
        size_t len = 0, step = next;
        while (len < text.len && (text.at[len] < '0' || text.at[len] > '9'))
            len++;
        while (step < count && !slice_equals((struct slice){ text.at, len }, slice_of(steps[step].word)))
            step++;
        if (len == 0)
            return "has no unit: a bare number is no length of time";
        if (step == count)
            return "is not a length of time";
        weir_ns length;
        if (__builtin_mul_overflow(number, steps[step].length, &length)
            || __builtin_add_overflow(whole, length, &whole))
            return "is too long";
        next = step + 1;
        text = (struct slice){ text.at + len, text.len - len };
    } while (text.len > 0);
    *out = whole;
    return NULL;
}

void duration_format(weir_ns length, char out[48])
{
    static const struct {
        weir_ns length;
        const char *one, *many;
    } steps[] = {
        { WEIR_WEEK, "week", "weeks" },       { WEIR_DAY, "day", "days" }, { WEIR_HOUR, "hour", "hours" },
        { WEIR_MINUTE, "minute", "minutes" }, { WEIR_SECOND, "s", "s" },   { WEIR_MILLISECOND, "ms", "ms" },
        { WEIR_MICROSECOND, "us", "us" },     { 1, "ns", "ns" },
    };
    if (length == WEIR_HORIZON) { /* leap days and all: no unit above a minute divides it */
        (void)snprintf(out, 48, "10 years");
        return;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t whole = length / steps[i].length;
        if (whole == 0 || whole * steps[i].length != length)
            continue;
        (void)snprintf(out, 48, "%" PRIu64 " %s", whole, whole == 1 ? steps[i].one : steps[i].many);
        return;
    }
    (void)snprintf(out, 48, "0 s");
}

const char *unit_calendar(enum unit unit, enum weir_calendar *out)
{
    if (units[unit].calendar != NULL)
        *out = units[unit].as_calendar;
    return units[unit].calendar;
}
