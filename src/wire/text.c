// SPDX-License-Identifier: Apache-2.0
/*
 * text.c - numbers, JSON strings and dates into a bounded buffer.
 */
#include "wire/text.h"

#include "base/civil.h"

static const char digit_pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";
_Static_assert(sizeof digit_pairs == 201, "a pair for each of 0..99");

char *text_digits(char *end, uint64_t value)
{
    while (value >= 100) {
        end -= 2;
        memcpy(end, digit_pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        end -= 2;
        memcpy(end, digit_pairs + 2 * value, 2);
    } else {
        *--end = (char)('0' + value);
    }
    return end;
}

void text_u64(struct text *text, uint64_t value)
{
    char digits[20]; /* 2^64 - 1 has as many */
    const char *first = text_digits(digits + sizeof digits, value);
    text_bytes(text, first, (size_t)(digits + sizeof digits - first));
}

void text_seconds(struct text *text, uint64_t ns)
{
    char digits[30];
    char *end = digits + sizeof digits, *last = end;
    uint64_t whole = ns / 1000000000, part = ns % 1000000000;
    if (part != 0) {
        uint32_t decimals = (uint32_t)part; /* below 10^9, so that dividing is cheap */
        *--end = (char)('0' + decimals % 10);
        decimals /= 10;
        for (int i = 0; i < 4; i++, decimals /= 100) {
            end -= 2;
            memcpy(end, digit_pairs + 2 * (size_t)(decimals % 100), 2);
        }
        *--end = '.';
        while (last[-1] == '0')
            last--;
    }
    end = text_digits(end, whole);
    text_bytes(text, end, (size_t)(last - end));
}

size_t utf8_length(const char *at, size_t len)
{
    const unsigned char *b = (const unsigned char *)at;
    if (len == 0)
        return 0;
    if (b[0] < 0x80)
        return 1;
    size_t need = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || len < need)
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and what lies beyond U+10FFFF: told by the second byte. */
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) || (b[0] == 0xf0 && b[1] < 0x90)
        || (b[0] == 0xf4 && b[1] > 0x8f))
        return 0;
    return need;
}

bool utf8_is_valid(struct slice text)
{
    size_t at = 0;
    while (at < text.len) {
        size_t left = text.len - at;
        uint64_t bytes = left >= 8 ? load_le64(text.at + at) : load_le_short(text.at + at, left);
        size_t length = left < 8 ? left : 8;
        if ((bytes & UINT64_C(0x8080808080808080)) != 0) /* not all ASCII, as nearly all of it is */
            length = utf8_length(text.at + at, left);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

/* One byte that cannot stand for itself in a JSON string. */
static void json_escape(struct text *text, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    char escape[6] = { '\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15] };
    switch (byte) {
    case '"':
    case '\\':
        escape[1] = (char)byte;
        text_bytes(text, escape, 2);
        break;
    case '\n':
        text_literal(text, "\\n");
        break;
    case '\t':
        text_literal(text, "\\t");
        break;
    case '\r':
        text_literal(text, "\\r");
        break;
    default:
        text_bytes(text, escape, sizeof escape);
    }
}

void text_json(struct text *text, struct slice bytes)
{
    size_t plain = 0; /* start of the run that needs no escape */
    text_literal(text, "\"");
    for (size_t i = 0; i < bytes.len;) {
        unsigned char byte = (unsigned char)bytes.at[i];
        size_t length = byte < 0x80 ? 1 : utf8_length(bytes.at + i, bytes.len - i);
        if (length != 0 && byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f) {
            i += length;
            continue;
        }
        text_bytes(text, bytes.at + plain, i - plain);
        if (length == 0)
            text_literal(text, "\xef\xbf\xbd");
        else
            json_escape(text, byte);
        plain = ++i;
    }
    if (bytes.len > plain)
        text_bytes(text, bytes.at + plain, bytes.len - plain);
    text_literal(text, "\"");
}

static void put_pair(char *at, unsigned value)
{
    memcpy(at, digit_pairs + 2 * (value % 100), 2);
}

void text_http_date(struct text *text, uint64_t unix_seconds)
{
    static const char weekdays[] = "ThuFriSatSunMonTueWed"; /* 1970-01-01 was a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char date[] = "Thu, 01 Jan 1970 00:00:00 GMT";
    uint64_t days = unix_seconds / 86400;
    unsigned second = (unsigned)(unix_seconds % 86400);
    struct civil civil = civil_from_days((int64_t)days);
    unsigned year = (unsigned)civil.year;

    memcpy(date, weekdays + 3 * (days % 7), 3);
    put_pair(date + 5, civil.day);
    memcpy(date + 8, months + (size_t)3 * (civil.month - 1), 3);
    put_pair(date + 12, year / 100);
    put_pair(date + 14, year);
    put_pair(date + 17, second / 3600);
    put_pair(date + 20, second / 60 % 60);
    put_pair(date + 23, second % 60);
    text_bytes(text, date, sizeof date - 1);
}
