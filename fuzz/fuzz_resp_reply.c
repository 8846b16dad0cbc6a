// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_resp_reply.c - any bytes as a reply: whole and in pieces it ends at the same place or has the same fault, its
 * values lie inside and fill it, and what was read, written in RESP3, reads the same again.
 *
 * The first byte says how the rest is cut into pieces. Copies are as long as their bytes, so that a look behind the end
 * is seen.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static char *copy_of(const char *at, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    if (copy == NULL)
        exit(1);
    if (len > 0)
        memcpy(copy, at, len);
    return copy;
}

static void put_again(struct text *text, const struct resp_value *value)
{
    switch (value->type) {
    case RESP_SIMPLE:
        resp_put_simple(text, value->text);
        break;
    case RESP_ERROR:
        resp_put_error(text, value->text);
        break;
    case RESP_INTEGER:
        resp_put_integer(text, value->integer);
        break;
    case RESP_BULK:
        resp_put_bulk(text, value->text);
        break;
    case RESP_VERBATIM:
        resp_put_verbatim(text, RESP3, "txt", value->text);
        break;
    case RESP_NULL:
        resp_put_null(text, RESP3);
        break;
    case RESP_BOOLEAN:
        resp_put_boolean(text, RESP3, value->integer);
        break;
    case RESP_DOUBLE:
        resp_put_double(text, RESP3, value->text);
        break;
    case RESP_BIG_NUMBER:
        resp_put_big_number(text, RESP3, value->text);
        break;
    case RESP_ARRAY:
        resp_put_array(text, value->count);
        break;
    case RESP_MAP:
        resp_put_map(text, RESP3, value->count / 2);
        break;
    case RESP_SET:
        resp_put_set(text, RESP3, value->count);
        break;
    case RESP_PUSH:
        resp_put_push(text, RESP3, value->count);
        break;
    default:
        abort();
    }
}

static bool same_value(const struct resp_value *x, const struct resp_value *y)
{
    bool is_spelled = x->type != RESP_ERROR && x->type != RESP_INTEGER; /* CR in a blob error; "+5" */
    return x->type == y->type && x->count == y->count && x->integer == y->integer
           && (!is_spelled || slice_equals(x->text, y->text));
}

/* Walk over the whole reply, by values and by one skip, and write it into `out`. */
static void walk(const char *at, size_t len, struct text *out)
{
    struct resp_reader reader = resp_reader_of(at, len), skipper = reader;
    struct resp_value value, outermost;
    require(resp_next(&skipper, &outermost) && resp_skip(&skipper, &outermost) && skipper.at == skipper.end);
    while (resp_next(&reader, &value)) {
        require(value.type < RESP_TYPE_COUNT && (value.type >= RESP_ARRAY || value.count == 0));
        require(value.type != RESP_MAP || value.count % 2 == 0);
        require(value.text.len == 0 || (value.text.at >= at && value.text.at + value.text.len <= reader.at));
        put_again(out, &value);
    }
    require(reader.at == at + len && !out->is_cut);
}

static void write_again(const char *at, size_t len)
{
    size_t cap = len; /* nothing is longer in the writer's spelling */
    char *room = malloc(cap), *twice_room = malloc(cap);
    if (room == NULL || twice_room == NULL)
        exit(1);
    struct text text = text_of(room, cap), twice = text_of(twice_room, cap);
    struct resp_reply_parser parser = RESP_REPLY_START;
    struct resp_value x, y;
    size_t reply_len = 0;
    walk(at, len, &text);
    /* A blob error may be longer than a line. */
    if (resp_reply_parse(&parser, room, text.len, &reply_len) == RESP_DONE) {
        require(reply_len == text.len);
        walk(room, reply_len, &twice);
        require(slice_equals(text_slice(&text), text_slice(&twice)));
        struct resp_reader old = resp_reader_of(at, len), new = resp_reader_of(room, reply_len);
        while (resp_next(&old, &x))
            require(resp_next(&new, &y) && same_value(&x, &y));
        require(new.at == new.end);
    } else {
        require(len > RESP_LINE_MAX);
    }
    free(room);
    free(twice_room);
}

/* One reply at the front; returns its length, 0 when there is none. */
static size_t fuzz_reply(const char *at, size_t len, size_t step)
{
    struct resp_reply_parser whole = RESP_REPLY_START, pieces = RESP_REPLY_START;
    char *copy = copy_of(at, len);
    size_t whole_len = 0, pieces_len = 0;
    enum resp_result expected = resp_reply_parse(&whole, copy, len, &whole_len), got = RESP_MORE;
    require(whole.depth <= RESP_DEPTH_MAX);
    if (expected == RESP_DONE) {
        require(whole_len > 0 && whole_len <= len);
        write_again(copy, whole_len);
    }
    for (size_t given = 0; got == RESP_MORE; given = step < len - given ? given + step : len) {
        char *part = copy_of(at, given);
        got = resp_reply_parse(&pieces, part, given, &pieces_len);
        free(part);
        require(got == RESP_MORE || got == expected);
        if (given == len)
            break;
    }
    require(got == expected && pieces_len == whole_len && pieces.sentence == whole.sentence);
    free(copy);
    return whole_len;
}

/* Bytes that are no reply may be walked as well: it ends, inside. */
static void walk_anything(const char *at, size_t len)
{
    char *copy = copy_of(at, len);
    struct resp_reader reader = resp_reader_of(copy, len);
    struct resp_value value;
    while (resp_next(&reader, &value)) {
        struct resp_reader skipper = reader;
        (void)resp_skip(&skipper, &value);
        require(skipper.at <= skipper.end);
        reader = len < 4096 ? reader : skipper;
    }
    require(reader.at <= reader.end);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *at = (const char *)data + 1;
    size_t left = size - 1, step = 1 + data[0] % 64 + size / 64, used;
    walk_anything(at, left);
    for (int replies = 0; left > 0 && replies < 64; replies++) {
        used = fuzz_reply(at, left, step);
        if (used == 0)
            break;
        at += used;
        left -= used;
    }
    return 0;
}
