// SPDX-License-Identifier: Apache-2.0
/*
 * bytes.c - comparing and reading runs of bytes.
 */
#include "base/bytes.h"

bool slice_equals_fold(struct slice x, struct slice y)
{
    if (x.len != y.len)
        return false;
    for (size_t i = 0; i < x.len; i++)
        if (ascii_lower(x.at[i]) != ascii_lower(y.at[i]))
            return false;
    return true;
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
