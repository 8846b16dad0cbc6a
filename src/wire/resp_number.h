// SPDX-License-Identifier: Apache-2.0
/*
 * resp_number.h - the decimal that stands behind a type byte: a length, a count, an integer.
 *
 * Spelled in one way only, as Redis's string2ll() has it: a `+`, a leading zero, "-0" and an empty line are
 * refused, and so is what does not fit 64 bits. It is so short that one which is not complete is read again from
 * its front: twenty digits are the most.
 */
#ifndef WEIR_WIRE_RESP_NUMBER_H
#define WEIR_WIRE_RESP_NUMBER_H

#include "wire/resp.h"

#define RESP_DIGITS_MAX 19 /* of 2^63 */

/* The length of a short word, which nearly all are: one or two digits and CR LF. False: ask resp_number(). */
static inline bool resp_short_number(const char *at, size_t len, int64_t *value, size_t *used)
{
    unsigned first = len < 4 ? 10 : (unsigned)(at[0] - '0'), second = first > 9 ? 10 : (unsigned)(at[1] - '0');
    bool has_two = first >= 1 && first <= 9 && second <= 9;
    const char *end = at + 1 + has_two;
    if (first > 9 || (has_two && len < 5) || end[0] != '\r' || end[1] != '\n')
        return false;
    *value = has_two ? first * 10 + second : first;
    *used = (size_t)(end + 2 - at);
    return true;
}

/* The number at `at` and its CR LF; *used counts both. Gives the same verdict however the bytes were cut. */
static inline enum resp_result resp_number(const char *at, size_t len, int64_t *value, size_t *used)
{
    bool is_negative = len > 0 && at[0] == '-';
    size_t first = is_negative, i = first;
    uint64_t sum = 0; /* nineteen digits fit */
    for (; i < len && at[i] >= '0' && at[i] <= '9'; i++) {
        if (i - first == RESP_DIGITS_MAX || (i > first && at[first] == '0'))
            return RESP_BAD;
        sum = sum * 10 + (uint64_t)(at[i] - '0');
    }
    if (i == len)
        return RESP_MORE;
    if (at[i] != '\r' || i == first || (is_negative && sum == 0))
        return RESP_BAD;
    if (sum > (uint64_t)INT64_MAX + is_negative)
        return RESP_BAD;
    if (i + 1 == len)
        return RESP_MORE;
    if (at[i + 1] != '\n')
        return RESP_BAD;
    *value = is_negative ? (int64_t)(0 - sum) : (int64_t)sum;
    *used = i + 2;
    return RESP_DONE;
}

#endif
