// SPDX-License-Identifier: Apache-2.0
/* prefer.c - one pass over each `Prefer` line; see prefer.h. */
#include "wire/prefer.h"

/* A field's value while it is read. */
struct reader {
    const char *at, *end;
};

static bool is_token_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t'))
        reader->at++;
}

/* Whether the next byte is `c`, which is then read. */
static bool accept(struct reader *reader, char c)
{
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

static bool read_token(struct reader *reader, struct slice *out)
{
    const char *start = reader->at;
    while (reader->at < reader->end && is_token_byte(*reader->at))
        reader->at++;
    *out = (struct slice){ start, (size_t)(reader->at - start) };
    return out->len > 0;
}

/* What stands between the quotes, escapes left as they are: no number has one. */
static bool read_quoted(struct reader *reader, struct slice *out)
{
    const char *start = reader->at;
    for (; reader->at < reader->end; reader->at++) {
        if (*reader->at == '"') {
            *out = (struct slice){ start, (size_t)(reader->at++ - start) };
            return true;
        }
        if (*reader->at == '\\' && ++reader->at == reader->end)
            return false;
    }
    return false;
}

/* NAME or NAME=WORD; without a word *word is empty. */
static bool read_pair(struct reader *reader, struct slice *name, struct slice *word)
{
    *word = (struct slice){ reader->at, 0 };
    if (!read_token(reader, name))
        return false;
    skip_blanks(reader);
    if (!accept(reader, '='))
        return true;
    skip_blanks(reader);
    return accept(reader, '"') ? read_quoted(reader, word) : read_token(reader, word);
}

/* The seconds of a word of digits, 0 of any other. */
static uint64_t seconds_of(struct slice word)
{
    uint64_t seconds = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] < '0' || word.at[i] > '9')
            return 0;
        seconds = seconds * 10 + (uint64_t)(word.at[i] - '0');
        if (seconds > PREFER_SECONDS_MAX)
            seconds = PREFER_SECONDS_MAX;
    }
    return seconds;
}

/* One preference with its parameters, which say nothing about a wait. */
static bool read_preference(struct reader *reader, struct slice *name, struct slice *word)
{
    if (!read_pair(reader, name, word))
        return false;
    for (skip_blanks(reader); accept(reader, ';'); skip_blanks(reader)) {
        struct slice parameter, value;
        skip_blanks(reader);
        bool is_empty = reader->at == reader->end || *reader->at == ';' || *reader->at == ',';
        if (!is_empty && !read_pair(reader, &parameter, &value))
            return false;
    }
    return true;
}

/* Whether one line is well-formed; *has_wait and *seconds are those of its first `wait`. */
static bool read_line(const struct weir_field *field, bool *has_wait, uint64_t *seconds)
{
    struct reader reader = { field->value, field->value + field->value_len };
    *has_wait = false;
    for (;;) {
        struct slice name, word;
        skip_blanks(&reader);
        if (reader.at == reader.end)
            return true;
        if (accept(&reader, ',')) /* an empty element of the list */
            continue;
        if (!read_preference(&reader, &name, &word))
            return false;
        if (reader.at < reader.end && *reader.at != ',')
            return false;
        if (*has_wait || !slice_equals_fold(name, SLICE("wait")))
            continue;
        *has_wait = true;
        *seconds = seconds_of(word);
    }
}

uint64_t prefer_wait(const struct weir_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool has_wait;
        uint64_t seconds = 0;
        struct slice name = { fields[i].name, fields[i].name_len };
        if (slice_equals_fold(name, SLICE("prefer")) && read_line(&fields[i], &has_wait, &seconds) && has_wait)
            return seconds;
    }
    return 0;
}
