// SPDX-License-Identifier: Apache-2.0
/*
 * instant.c - durations and instants, exactly, from integers.
 */
#include "sim/instant.h"

static size_t count_digits(struct slice text, size_t at)
{
    size_t count = 0;
    while (at + count < text.len && text.at[at + count] >= '0' && text.at[at + count] <= '9')
        count++;
    return count;
}

/* The unit at the front of `text`: its length in ns, and in letters. 0: there is none. */
static weir_ns unit_at(struct slice text, size_t *letters)
{
    static const struct {
        const char *name;
        weir_ns length;
    } units[] = { /* longer names first: `ms` is not `m` */
                  { "ns", 1 },          { "us", WEIR_MICROSECOND }, { "ms", WEIR_MILLISECOND },
                  { "s", WEIR_SECOND }, { "m", WEIR_MINUTE },       { "h", WEIR_HOUR },
                  { "d", WEIR_DAY },    { "w", WEIR_WEEK }
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *letters = strlen(units[i].name);
        if (text.len >= *letters && memcmp(text.at, units[i].name, *letters) == 0)
            return units[i].length;
    }
    return 0;
}

bool duration_parse(struct slice text, weir_ns *out)
{
    weir_ns sum = 0;
    size_t at = 0;
    do {
        size_t digits = count_digits(text, at);
        size_t letters;
        uint64_t count;
        if (!slice_to_u64((struct slice){ text.at + at, digits }, UINT64_MAX, &count))
            return false;
        at += digits;
        weir_ns unit = unit_at((struct slice){ text.at + at, text.len - at }, &letters);
        if (unit == 0 || __builtin_mul_overflow(count, unit, &count)
            || __builtin_add_overflow(sum, count, &sum))
            return false;
        at += letters;
    } while (at < text.len);
    if (sum == WEIR_NO_TIME)
        return false;
    *out = sum;
    return true;
}

/* ---- Instants -------------------------------------------------------------------------------------------- */

/* Exactly `digits` digits at *at, from `least` to `most`; moves on. */
static bool take_number(struct slice text, size_t *at, size_t digits, unsigned least, unsigned most,
                        unsigned *out)
{
    unsigned value = 0;
    if (text.len - *at < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        unsigned digit = (unsigned char)text.at[*at + i] - (unsigned)'0';
        if (digit > 9)
            return false;
        value = 10 * value + digit;
    }
    *at += digits;
    *out = value;
    return value >= least && value <= most;
}

static bool take_letter(struct slice text, size_t *at, char letter)
{
    if (*at >= text.len || text.at[*at] != letter)
        return false;
    (*at)++;
    return true;
}

/* Days from 1970-01-01 to this date of the Gregorian calendar. */
static int64_t days_to(unsigned year, unsigned month, unsigned day)
{
    static const unsigned before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    unsigned last = year - 1; /* leap days of the years before this one */
    int64_t leap_days = (int64_t)(last / 4 - last / 100 + last / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
    return 365 * ((int64_t)year - 1970) + leap_days + before[month - 1] + (month > 2 && is_leap) + day - 1;
}

static unsigned days_in(unsigned year, unsigned month)
{
    return (unsigned)(month == 12 ? 31 : days_to(year, month + 1, 1) - days_to(year, month, 1));
}

/* ".5": up to nine decimals, as ns. */
static bool take_fraction(struct slice text, size_t *at, int64_t *out)
{
    *out = 0;
    if (!take_letter(text, at, '.'))
        return true;
    size_t digits = count_digits(text, *at);
    int64_t place = (int64_t)WEIR_SECOND;
    for (size_t i = 0; i < digits && i < 9; i++) {
        place /= 10;
        *out += (text.at[*at + i] - '0') * place;
    }
    *at += digits;
    return digits >= 1 && digits <= 9;
}

/* "Z", or "+01:00" as seconds. */
static bool take_offset(struct slice text, size_t *at, int64_t *out)
{
    unsigned hours, minutes;
    *out = 0;
    if (take_letter(text, at, 'Z'))
        return true;
    bool is_east = take_letter(text, at, '+');
    if ((!is_east && !take_letter(text, at, '-')) || !take_number(text, at, 2, 0, 23, &hours)
        || !take_letter(text, at, ':') || !take_number(text, at, 2, 0, 59, &minutes))
        return false;
    *out = (int64_t)(60 * hours + minutes) * (is_east ? 60 : -60);
    return true;
}

bool instant_parse(struct slice text, int64_t *out)
{
    size_t at = 0;
    unsigned year, month, day, hour, minute, second;
    int64_t fraction, offset;
    if (!take_number(text, &at, 4, 1970, 2199, &year) || !take_letter(text, &at, '-')
        || !take_number(text, &at, 2, 1, 12, &month) || !take_letter(text, &at, '-')
        || !take_number(text, &at, 2, 1, days_in(year, month), &day) || !take_letter(text, &at, 'T')
        || !take_number(text, &at, 2, 0, 23, &hour) || !take_letter(text, &at, ':')
        || !take_number(text, &at, 2, 0, 59, &minute) || !take_letter(text, &at, ':')
        || !take_number(text, &at, 2, 0, 59, &second) || !take_fraction(text, &at, &fraction)
        || !take_offset(text, &at, &offset) || at != text.len)
        return false;
    int64_t seconds = 86400 * days_to(year, month, day) + 3600 * (int64_t)hour + 60 * (int64_t)minute + second;
    *out = (seconds - offset) * (int64_t)WEIR_SECOND + fraction;
    return true;
}
