// SPDX-License-Identifier: Apache-2.0
/*
 * resp_write.c - values in either version, appended to a bounded text.
 *
 * Whether a version has a type is asked here alone: callers say what a value is.
 */
#include "wire/resp.h"

/* A type byte, a number and CR LF, with room for as many bytes and those that come behind them: where it ended; NULL: cut. */
static char *put_long_head(struct text *text, char type, uint64_t number, bool is_negative, size_t behind)
{
    char head[24]; /* type, sign, twenty digits, CR LF */
    char *end = head + sizeof head, *at = end - 2;
    memcpy(at, "\r\n", 2);
    at = text_digits(at, number);
    if (is_negative)
        *--at = '-';
    *--at = type;
    size_t len = (size_t)(end - at);
    char *to = text_claim(text, len + behind);
    return to == NULL ? NULL : (char *)memcpy(to, at, len) + len;
}

/* The same; most numbers of a reply have one or two digits. */
static inline char *begin_head(struct text *text, char type, uint64_t number, size_t behind)
{
    if (number >= 100)
        return put_long_head(text, type, number, false, behind);
    char *to = text_claim(text, (number < 10 ? 4 : 5) + behind);
    if (to == NULL)
        return NULL;
    *to++ = type;
    if (number >= 10)
        *to++ = (char)('0' + number / 10);
    *to++ = (char)('0' + number % 10);
    memcpy(to, "\r\n", 2);
    return to + 2;
}

/* Count what was written up to `end`, if it was. */
static inline void end_at(struct text *text, const char *end)
{
    if (end != NULL)
        text->len = (size_t)(end - text->at);
}

static void put_head(struct text *text, char type, uint64_t number)
{
    end_at(text, begin_head(text, type, number, 0));
}

/* Bytes behind a head that says how many there are. */
static void put_string(struct text *text, char type, struct slice bytes)
{
    char *to = begin_head(text, type, bytes.len, bytes.len + 2);
    if (to == NULL)
        return;
    if (bytes.len > 0) /* an empty slice may have no address */
        memcpy(to, bytes.at, bytes.len);
    memcpy(to + bytes.len, "\r\n", 2);
    end_at(text, to + bytes.len + 2);
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* ---- With values inside -------------------------------------------------------------------------------------- */

void resp_put_array(struct text *text, uint32_t count)
{
    put_head(text, '*', count);
}

void resp_put_map(struct text *text, enum resp_version version, uint32_t pairs)
{
    if (version == RESP3)
        put_head(text, '%', pairs);
    else
        put_head(text, '*', (uint64_t)pairs * 2);
}

void resp_put_set(struct text *text, enum resp_version version, uint32_t count)
{
    put_head(text, version == RESP3 ? '~' : '*', count);
}

void resp_put_push(struct text *text, enum resp_version version, uint32_t count)
{
    put_head(text, version == RESP3 ? '>' : '*', count);
}

/* ---- Strings and integers ------------------------------------------------------------------------------------ */

void resp_put_bulk_head(struct text *text, uint64_t len)
{
    put_head(text, '$', len);
}

void resp_put_bulk(struct text *text, struct slice bytes)
{
    put_string(text, '$', bytes);
}

void resp_put_bulk_i64(struct text *text, int64_t value)
{
    char room[24]; /* type, sign, nineteen digits, CR LF */
    struct text line = text_of(room, sizeof room);
    end_at(&line, put_long_head(&line, ':', magnitude(value), value < 0, 0));
    resp_put_bulk(text, (struct slice){ room + 1, line.len - 3 });
}

void resp_put_integer(struct text *text, int64_t value)
{
    if (value >= 0)
        put_head(text, ':', (uint64_t)value);
    else
        end_at(text, put_long_head(text, ':', magnitude(value), true, 0));
}

void resp_put_u64(struct text *text, enum resp_version version, uint64_t value)
{
    if (value <= INT64_MAX) {
        put_head(text, ':', value);
        return;
    }
    char room[20]; /* 2^64 - 1 has as many */
    struct text digits = text_of(room, sizeof room);
    text_u64(&digits, value);
    resp_put_big_number(text, version, text_slice(&digits));
}

/* A line must not end early: that would begin a reply of the sender's choice. */
static void put_line(struct text *text, char type, struct slice line)
{
    text_bytes(text, &type, 1);
    char *to = text_claim(text, line.len);
    if (to != NULL) {
        for (size_t i = 0; i < line.len; i++)
            to[i] = line.at[i] == '\r' || line.at[i] == '\n' ? ' ' : line.at[i];
        text->len += line.len;
    }
    text_literal(text, "\r\n");
}

void resp_put_simple(struct text *text, struct slice line)
{
    put_line(text, '+', line);
}

void resp_put_error(struct text *text, struct slice line)
{
    put_line(text, '-', line);
}

/* ---- Types that RESP3 has ------------------------------------------------------------------------------------ */

void resp_put_null(struct text *text, enum resp_version version)
{
    text_string(text, version == RESP3 ? "_\r\n" : "$-1\r\n");
}

void resp_put_null_array(struct text *text, enum resp_version version)
{
    text_string(text, version == RESP3 ? "_\r\n" : "*-1\r\n");
}

void resp_put_boolean(struct text *text, enum resp_version version, bool value)
{
    if (version == RESP3)
        text_string(text, value ? "#t\r\n" : "#f\r\n");
    else
        resp_put_integer(text, value);
}

void resp_put_double(struct text *text, enum resp_version version, struct slice number)
{
    if (version == RESP3)
        put_line(text, ',', number);
    else
        resp_put_bulk(text, number);
}

void resp_put_big_number(struct text *text, enum resp_version version, struct slice number)
{
    if (version == RESP3)
        put_line(text, '(', number);
    else
        resp_put_bulk(text, number);
}

void resp_put_verbatim(struct text *text, enum resp_version version, const char format[3], struct slice bytes)
{
    if (version != RESP3) {
        resp_put_bulk(text, bytes);
        return;
    }
    put_head(text, '=', (uint64_t)bytes.len + 4);
    text_bytes(text, format, 3);
    text_literal(text, ":");
    text_slice_add(text, bytes);
    text_literal(text, "\r\n");
}

/* ---- Refusals ------------------------------------------------------------------------------------------------ */

void resp_put_protocol_error(struct text *text, const struct resp_command *bad)
{
    text_literal(text, "-ERR Protocol error: ");
    text_string(text, bad->sentence);
    if (bad->got != 0) {
        text_literal(text, " '");
        text_bytes(text, &bad->got, 1);
        text_literal(text, "'");
    }
    text_literal(text, "\r\n");
}
