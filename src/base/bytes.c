// SPDX-License-Identifier: Apache-2.0
/*
 * bytes.c - comparing and reading runs of bytes.
 */
#include "base/bytes.h"

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Eight bytes, A to Z in lower case. The low seven bits of each are added to what takes 'A', and what is behind 'Z', to the
 * eighth; no sum reaches the next byte.
 */
static uint64_t lower_eight(uint64_t bytes)
{
    uint64_t low = bytes & EACH(0x7f);
    uint64_t from_a = low + EACH(0x80 - 'A');
    uint64_t behind_z = low + EACH(0x80 - 'Z' - 1);
    uint64_t is_upper = (from_a ^ behind_z) & ~bytes & EACH(0x80);
    return bytes | is_upper >> 2;
}

static bool same_eight(uint64_t x, uint64_t y)
{
    return x == y || lower_eight(x) == lower_eight(y);
}

bool bytes_equal_fold(const char *x, const char *y, size_t len)
{
    for (; len >= 8; x += 8, y += 8, len -= 8)
        if (!same_eight(load_le64(x), load_le64(y)))
            return false;
    return same_eight(load_le_short(x, len), load_le_short(y, len));
}

/* Whether one of eight bytes is a control byte, or not ASCII. */
static bool is_worth_a_look(uint64_t bytes)
{
    uint64_t below = bytes - EACH(0x20);
    uint64_t del = (bytes ^ EACH(0x7f)) - EACH(1);
    return ((below | del | bytes) & EACH(0x80)) != 0;
}

size_t slice_find_control(struct slice text)
{
    size_t i = 0;
    while (i + 8 <= text.len && !is_worth_a_look(load_le64(text.at + i)))
        i += 8;
    while (i < text.len && (unsigned char)text.at[i] >= 0x20 && text.at[i] != 0x7f)
        i++;
    return i;
}

bool bytes_equal_constant_time(const void *x, const void *y, size_t len)
{
    const volatile unsigned char *p = x, *q = y;
    unsigned char difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= (unsigned char)(p[i] ^ q[i]);
    return difference == 0;
}

bool slice_to_u64(struct slice text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (text.len == 0 || text.len > 20 || (text.at[0] == '0' && text.len > 1))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned char)text.at[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value)
            || __builtin_add_overflow(value, digit, &value))
            return false;
    }
    if (value > max)
        return false;
    *out = value;
    return true;
}

bool slice_to_mode(struct slice text, unsigned *out)
{
    unsigned mode = 0;
    if (text.len < 3 || text.len > 4 || (text.len == 4 && text.at[0] != '0'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '7')
            return false;
        mode = mode * 8 + (unsigned)(text.at[i] - '0');
    }
    *out = mode;
    return mode != 0;
}
