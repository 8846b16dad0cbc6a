// SPDX-License-Identifier: Apache-2.0
/*
 * bytes.h - a run of bytes with a length, and the few things done to it everywhere.
 *
 * A slice borrows: it is valid as long as what it points into. A zero byte is an ordinary byte.
 */
#ifndef WEIR_BASE_BYTES_H
#define WEIR_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *at;
    size_t len;
};

/* A slice of a string literal, and of a C string. */
#define SLICE(literal) ((struct slice){ "" literal, sizeof(literal) - 1 })

static inline struct slice slice_of(const char *text)
{
    return (struct slice){ text, text == NULL ? 0 : strlen(text) };
}

static inline bool slice_equals(struct slice x, struct slice y)
{
    return x.len == y.len && (x.len == 0 || memcmp(x.at, y.at, x.len) == 0);
}

/* Whether two runs of `len` bytes are the same but for the case of ASCII letters. */
bool bytes_equal_fold(const char *x, const char *y, size_t len);

/* The same of slices; most that are compared differ in length. */
static inline bool slice_equals_fold(struct slice x, struct slice y)
{
    return x.len == y.len && bytes_equal_fold(x.at, y.at, x.len);
}

/* The index of the first control byte (below 0x20, or 0x7f), or the length. */
size_t slice_find_control(struct slice text);

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Whether x and y hold the same bytes, in a time that depends on their lengths only. */
bool bytes_equal_constant_time(const void *x, const void *y, size_t len);

/* Parse a plain decimal integer, `0|[1-9][0-9]*`, up to `max`; false when it is not one or larger. */
bool slice_to_u64(struct slice text, uint64_t max, uint64_t *out);

/* A mode of a file: three octal digits, or four that begin with 0; not all 0. False otherwise; *out is then untouched. */
bool slice_to_mode(struct slice text, unsigned *out);

/* Least 64-bit little-endian load, any alignment. */
static inline uint64_t load_le64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* Up to 7 bytes, the first lowest: as load_le64() of them with zeros behind, and no byte beyond is read. */
static inline uint64_t load_le_short(const void *from, size_t len)
{
    const unsigned char *at = from;
    if (len >= 4) {
        uint64_t first = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        const unsigned char *last = at + len - 4; /* some of them twice */
        uint64_t rest = last[0] | (uint32_t)last[1] << 8 | (uint32_t)last[2] << 16 | (uint32_t)last[3] << 24;
        return first | rest << (8 * (len - 4));
    }
    if (len == 0)
        return 0;
    size_t middle = len / 2, last = len - 1;
    return at[0] | (uint64_t)at[middle] << (8 * middle) | (uint64_t)at[last] << (8 * last);
}

#endif
