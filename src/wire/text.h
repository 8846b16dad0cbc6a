// SPDX-License-Identifier: Apache-2.0
/*
 * text.h - appending to a buffer that cannot grow.
 *
 * Idea: what does not fit is dropped whole and remembered, so that a writer needs no check per append: it looks
 * at `is_cut` once, at the end. Nothing is ever written past `cap`, and no zero byte ends the text.
 *
 * Elsewhere: what the bytes mean (answer.c, prometheus.c).
 */
#ifndef WEIR_WIRE_TEXT_H
#define WEIR_WIRE_TEXT_H

#include "base/bytes.h"

struct text {
    char *at; /* borrowed */
    size_t len, cap;
    bool is_cut; /* something did not fit: from there on nothing more is appended */
};

static inline struct text text_of(char *at, size_t cap)
{
    return (struct text){ .at = at, .cap = cap };
}

static inline struct slice text_slice(const struct text *text)
{
    return (struct slice){ text->at, text->len };
}

/* Room for `len` more bytes, or NULL and the text is cut. The caller adds what it wrote to text->len. */
static inline char *text_claim(struct text *text, size_t len)
{
    if (text->is_cut || len > text->cap - text->len) {
        text->is_cut = true;
        return NULL;
    }
    return text->at + text->len;
}

static inline void text_bytes(struct text *text, const char *at, size_t len)
{
    char *to = text_claim(text, len);
    if (to != NULL && at != NULL) { /* an empty slice may have no address */
        memcpy(to, at, len);
        text->len += len;
    }
}

static inline void text_slice_add(struct text *text, struct slice slice)
{
    text_bytes(text, slice.at, slice.len);
}

/* A string literal: its length is known to the compiler. */
#define text_literal(text, literal) text_bytes((text), "" literal, sizeof(literal) - 1)

static inline void text_string(struct text *text, const char *string)
{
    text_bytes(text, string, strlen(string));
}

void text_u64(struct text *text, uint64_t value);

/* Write the digits so that the last stands before `end`, which has room for twenty; returns where the first stands. */
char *text_digits(char *end, uint64_t value);

/* A length in ns as seconds: exact, up to nine decimals, no trailing zeros: 0, 0.2, 4, 1.000000001. */
void text_seconds(struct text *text, uint64_t ns);

/*
 * The bytes as a JSON string with its quotes. Quote, backslash and control bytes are escaped; a byte that is
 * not part of valid UTF-8 becomes U+FFFD, so that the result is always valid JSON.
 */
void text_json(struct text *text, struct slice bytes);

/* Unix seconds as an HTTP date (IMF-fixdate), `Sun, 06 Nov 1994 08:49:37 GMT`: 29 bytes. From 1970 to 9999. */
void text_http_date(struct text *text, uint64_t unix_seconds);

/* Length of the valid UTF-8 character at the front, 1..4, or 0 when there is none (len 0 as well). */
size_t utf8_length(const char *at, size_t len);

/* Whether all of it is valid UTF-8; nothing is. */
bool utf8_is_valid(struct slice text);

#endif
