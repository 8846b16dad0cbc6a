// SPDX-License-Identifier: Apache-2.0
/* text.c - append, format, and the few JSON values that a contract needs. */
#include "rule/text.h"

#include <stdarg.h>
#include <stdio.h>

/* Room for `more` bytes and a zero. */
static bool reserve(struct text *text, size_t more)
{
    if (more < text->capacity - text->len)
        return true;
    size_t capacity = 2 * text->capacity + more + 256;
    char *at = REGION_NEW(text->region, char, capacity);
    if (at == NULL)
        return false;
    if (text->len > 0)
        memcpy(at, text->at, text->len);
    text->at = at;
    text->capacity = capacity;
    return true;
}

void text_clear(struct text *text)
{
    text->len = 0;
}

void text_add(struct text *text, struct slice more)
{
    if (more.len == 0 || !reserve(text, more.len))
        return;
    memcpy(text->at + text->len, more.at, more.len);
    text->len += more.len;
    text->at[text->len] = '\0';
}

void text_put(struct text *text, const char *more)
{
    text_add(text, slice_of(more));
}

void text_format(struct text *text, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (len > 0)
        text_add(text, (struct slice){ line, (size_t)len < sizeof line ? (size_t)len : sizeof line - 1 });
}

void text_number(struct text *text, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    text_add(text, (struct slice){ digits + at, sizeof digits - at });
}

/* Bytes of the UTF-8 character at the front, or 0 where there is none. */
static size_t utf8_length(struct slice rest)
{
    const unsigned char *at = (const unsigned char *)rest.at;
    size_t len = at[0] < 0x80   ? 1
                 : at[0] < 0xc2 ? 0
                 : at[0] < 0xe0 ? 2
                 : at[0] < 0xf0 ? 3
                 : at[0] < 0xf5 ? 4
                                : 0;
    if (len > rest.len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_outside = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
    return is_overlong || is_outside ? 0 : len;
}

void text_add_json(struct text *text, struct slice string)
{
    text_put(text, "\"");
    size_t plain = 0; /* bytes since the last one that had to be written otherwise */
    for (size_t i = 0; i < string.len;) {
        unsigned char c = (unsigned char)string.at[i];
        size_t len = c < 0x80 ? 1 : utf8_length((struct slice){ string.at + i, string.len - i });
        if (len > 0 && c >= 0x20 && c != '"' && c != '\\') {
            i += len;
            continue;
        }
        text_add(text, (struct slice){ string.at + plain, i - plain });
        if (c == '"' || c == '\\')
            text_format(text, "\\%c", c);
        else if (len > 0)
            text_format(text, "\\u%04x", c);
        else
            text_put(text, "\\ufffd");
        plain = ++i;
    }
    text_add(text, (struct slice){ string.at + plain, string.len - plain });
    text_put(text, "\"");
}

void text_json_or_null(struct text *text, const char *string)
{
    if (string == NULL)
        text_put(text, "null");
    else
        text_add_json(text, slice_of(string));
}

void text_add_seconds(struct text *text, weir_ns length)
{
    if (length == WEIR_NO_TIME) {
        text_put(text, "null");
        return;
    }
    text_number(text, length / WEIR_SECOND);
    char decimals[10] = ".";
    uint64_t rest = length % WEIR_SECOND;
    for (size_t i = 9; i >= 1; i--, rest /= 10)
        decimals[i] = (char)('0' + rest % 10);
    size_t len = sizeof decimals;
    while (len > 1 && decimals[len - 1] == '0')
        len--;
    text_add(text, (struct slice){ decimals, len > 1 ? len : 0 });
}
