// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_json.c - any bytes as JSON and as a check body: tokens lie inside and nest, strings read back as
 * written, a body is read or refused with a named fault that is itself valid JSON text.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/answer.h"
#include "wire/check.h"
#include "wire/json.h"
#include "wire/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Whether the text is one JSON value; its strings, written again and read again, are the same. */
static bool is_json(const char *at, size_t len, bool is_rewritten)
{
    struct json json;
    enum json_token token;
    char *scratch = malloc(len == 0 ? 1 : len);
    unsigned depth = 0;
    if (scratch == NULL)
        exit(1);
    json_init(&json, at, len, scratch, len);
    while ((token = json_next(&json)) != TOKEN_END && token != TOKEN_ERROR) {
        depth += token == TOKEN_OBJECT || token == TOKEN_ARRAY;
        depth -= token == TOKEN_OBJECT_END || token == TOKEN_ARRAY_END;
        require(depth <= JSON_DEPTH_MAX && json.at >= at && json.at <= at + len);
        if (is_rewritten && (token == TOKEN_STRING || token == TOKEN_NAME) && json.text.len < 1000) {
            char written[6 * 1000 + 2], again[sizeof written];
            struct text text = text_of(written, sizeof written);
            struct json reader;
            text_json(&text, json.text);
            require(!text.is_cut);
            json_init(&reader, written, text.len, again, sizeof again);
            require(json_next(&reader) == TOKEN_STRING && slice_equals(reader.text, json.text));
            require(json_next(&reader) == TOKEN_END);
        }
    }
    size_t line, column;
    json_position(&json, &line, &column);
    require(line >= 1 && column >= 1 && column <= len + 1);
    require((token == TOKEN_ERROR) == (json.error != NULL) && (token == TOKEN_ERROR || depth == 0));
    free(scratch);
    return token == TOKEN_END;
}

static void check_request(const struct check_request *request)
{
    const struct weir_request *ask = &request->ask;
    require(ask->cost <= INT64_MAX && ask->attribute_count <= WEIR_ATTRIBUTES_MAX);
    require(request->ask.wait <= WEIR_HORIZON);
    for (size_t i = 0; i < ask->attribute_count; i++) {
        const struct weir_attribute *attribute = &ask->attributes[i];
        require(strlen(attribute->name) >= 1 && strlen(attribute->name) <= WEIR_ATTRIBUTE_NAME_MAX);
        require(attribute->len <= WEIR_ATTRIBUTE_MAX);
        for (size_t j = 0; j < attribute->len; j++)
            require((unsigned char)attribute->value[j] >= 0x20 && attribute->value[j] != 0x7f);
    }
}

/* Scratch of the body's size always suffices, and so does the storage: neither fault may be "no room". */
static void require_room(const struct check_fault *fault)
{
    static const char name[] = "attributes", words[] = " has no room",
                      last[] = " need more memory than there is";
    size_t len = strlen(fault->field);
    bool is_attributes = len >= sizeof name - 1 && strcmp(fault->field + len - (sizeof name - 1), name) == 0;
    require(!(is_attributes && strncmp(fault->message + len, words, sizeof words - 1) == 0));
    /* At the end: a message may quote what the body says, and a body may say this too. */
    size_t message_len = strlen(fault->message), last_len = sizeof last - 1;
    require(message_len < last_len || strcmp(fault->message + message_len - last_len, last) != 0);
}

static void fuzz_check(const char *at, size_t len, bool is_valid_json)
{
    static struct check_request requests[CHECK_REQUESTS_MAX];
    static struct weir_attribute attributes[CHECK_ATTRIBUTES_MAX];
    struct check_body body;
    struct check_fault fault;
    char *scratch = malloc(len == 0 ? 1 : len);
    if (scratch == NULL)
        exit(1);
    const struct check_storage storage = { requests,   CHECK_REQUESTS_MAX,
                                           attributes, CHECK_ATTRIBUTES_MAX,
                                           scratch,    len };
    if (check_parse(&storage, at, len, &body, &fault) == 0) {
        require(is_valid_json && body.count <= CHECK_REQUESTS_MAX && (body.is_batch || body.count == 1));
        for (size_t i = 0; i < body.count; i++)
            check_request(&body.requests[i]);
    } else {
        char written[4096];
        struct text text = text_of(written, sizeof written);
        require(strlen(fault.message) > 0);
        require_room(&fault);
        answer_error_json(&text, 400, fault.message, slice_of(fault.field));
        require(!text.is_cut && is_json(written, text.len, false));
    }
    free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size); /* as long as its bytes, so that a look behind the end is seen */
    if (copy == NULL)
        exit(1);
    if (size > 0)
        memcpy(copy, data, size);
    fuzz_check(copy, size, is_json(copy, size, true));
    free(copy);
    return 0;
}
