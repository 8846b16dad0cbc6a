// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_http1.c - any bytes as a request head and a chunked body: whole and in pieces they must read the same,
 * slices must lie inside, and a body decoded in place never grows.
 *
 * The first byte says how the rest is cut into pieces. Copies are as long as their bytes, so that a look behind
 * the end is seen.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/chunked.h"
#include "wire/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* A copy that ends where its bytes do. */
static char *copy_of(const char *at, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    if (copy == NULL)
        exit(1);
    if (len > 0)
        memcpy(copy, at, len);
    return copy;
}

static void require_inside(struct slice slice, const char *at, size_t len)
{
    require(slice.len == 0
            || (slice.at >= at && slice.len <= len && (size_t)(slice.at - at) <= len - slice.len));
}

static void check_head(const struct http1_head *head, const char *at, size_t len)
{
    require(head->len <= len && head->len <= HTTP1_HEAD_MAX && memcmp(at + head->len - 4, "\r\n\r\n", 4) == 0);
    require(head->field_count <= HTTP1_FIELDS_MAX && head->method.len > 0 && head->target.len > 0);
    require(!(head->is_chunked && head->has_length) && (head->minor == 1 || !head->is_chunked));
    require_inside(head->method, at, head->len);
    require_inside(head->target, at, head->len);
    require_inside(head->authority, at, head->len);
    require_inside(head->origin, at, head->len);
    require_inside(head->path, at, head->len);
    require_inside(head->query, at, head->len);
    require_inside(head->host, at, head->len);
    for (size_t i = 0; i < head->field_count; i++) {
        const struct weir_field *field = &head->fields[i];
        require(field->name_len > 0);
        require_inside((struct slice){ field->name, field->name_len }, at, head->len);
        require_inside((struct slice){ field->value, field->value_len }, at, head->len);
        require(memchr(field->value, '\n', field->value_len) == NULL);
    }
    struct slice value;
    if (http1_query(head->query, SLICE("status"), &value))
        require_inside(value, at, head->len);
    (void)http1_field(head, SLICE("host"), NULL);
}

static void fuzz_head(const char *at, size_t len, size_t step)
{
    static struct http1_head whole, pieces;
    struct http1_parser parser = HTTP1_START;
    char *copy = copy_of(at, len);
    enum http1_result expected = http1_parse(&parser, copy, len, &whole), got = HTTP1_MORE;
    if (expected == HTTP1_DONE)
        check_head(&whole, copy, len);
    parser = HTTP1_START;
    for (size_t part_len = 0; got == HTTP1_MORE; part_len += step) {
        size_t given = part_len < len ? part_len : len;
        char *part = copy_of(at, given);
        got = http1_parse(&parser, part, given, &pieces);
        if (got == HTTP1_DONE) {
            check_head(&pieces, part, given);
            require(pieces.len == whole.len && pieces.field_count == whole.field_count);
        }
        free(part);
        if (given == len)
            break;
    }
    /* A fault in a head whose end has not come may still wait for that end when it came in pieces. */
    require(got == expected || (got == HTTP1_MORE && expected == HTTP1_BAD));
    require(got != HTTP1_BAD || (pieces.status == whole.status && pieces.sentence == whole.sentence));
    free(copy);
}

static void fuzz_body(const char *at, size_t len, size_t step)
{
    struct chunked whole, pieces;
    size_t body_len, used, offset = 0, body_offset = 0;
    char *copy = copy_of(at, len);
    chunked_init(&whole, 1 << 16);
    enum chunked_result expected = chunked_decode(&whole, copy, len, &body_len, &used), got = CHUNKED_MORE;
    require(body_len <= used && used <= len && memcmp(copy + used, at + used, len - used) == 0);
    chunked_init(&pieces, 1 << 16);
    while (got == CHUNKED_MORE && offset < len) {
        size_t given = step < len - offset ? step : len - offset, part_body, part_used;
        char *part = copy_of(at + offset, given);
        got = chunked_decode(&pieces, part, given, &part_body, &part_used);
        require(part_body <= part_used && part_used <= given && body_offset + part_body <= body_len);
        require(memcmp(part, copy + body_offset, part_body) == 0);
        body_offset += part_body;
        offset += part_used;
        free(part);
    }
    require(got == expected && offset == used && body_offset == body_len);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    /* Pieces are at least a 64th of the bytes, so that a long input is not copied a thousand times. */
    size_t step = 1 + data[0] % 64 + size / 64;
    fuzz_head((const char *)data + 1, size - 1, step);
    fuzz_body((const char *)data + 1, size - 1, step);
    return 0;
}
