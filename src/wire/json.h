// SPDX-License-Identifier: Apache-2.0
/*
 * json.h - a strict pull reader of JSON (RFC 8259): one token per call, no tree, no allocation, no recursion.
 *
 * Idea: the caller knows which members it accepts, so it asks for the next token and decides; what it does not
 * know it refuses by name. Text must be valid UTF-8, escapes must not make lone surrogates, nesting stops at
 * JSON_DEPTH_MAX, and a number keeps its raw text, so that nobody mistakes 1e3 or 0.5 for an integer.
 *
 * Elsewhere: which members a body has, and duplicates (check.c).
 */
#ifndef WEIR_WIRE_JSON_H
#define WEIR_WIRE_JSON_H

#include "base/bytes.h"

#define JSON_DEPTH_MAX 16

enum json_token {
    TOKEN_ERROR, /* json->error and json->at say what and where; so does every later call */
    TOKEN_END,   /* the one value is complete and only blanks follow */
    TOKEN_OBJECT,
    TOKEN_OBJECT_END,
    TOKEN_ARRAY,
    TOKEN_ARRAY_END,
    TOKEN_NAME, /* a member's name; its value is the next token. Text as for TOKEN_STRING */
    TOKEN_STRING,
    TOKEN_NUMBER,
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
};

struct json {
    const char *start, *at, *end;
    char *scratch; /* where escaped strings are written, one behind the other */
    size_t scratch_len, scratch_cap;
    unsigned depth;
    uint32_t objects; /* bit d: level d is an object */
    unsigned state;
    struct slice text; /* of a name or string: unescaped, in the input or in scratch. Of a number: as written */
    const char *error; /* what is wrong, a static sentence */
};

/*
 * Begin. `text` and `scratch` are borrowed while tokens are used; scratch of `len` bytes always suffices
 * (without escapes none is used).
 */
void json_init(struct json *json, const char *text, size_t len, char *scratch, size_t scratch_cap);

enum json_token json_next(struct json *json);

/* Line and column of json->at, from 1; columns count bytes. */
void json_position(const struct json *json, size_t *line, size_t *column);

/* A number without fraction or exponent, exactly: magnitude up to 2^64 - 1 and sign (-0 is 0). Else false. */
bool json_to_integer(struct slice number, uint64_t *magnitude, bool *is_negative);

/* What a token is called in messages: "a string". */
const char *json_token_name(enum json_token token);

#endif
