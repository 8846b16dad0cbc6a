// SPDX-License-Identifier: Apache-2.0
/* resp_json.c - commands to bodies, bodies to replies; see resp_json.h. */
#include "wire/resp_json.h"

#include <stdio.h>

#include "wire/json.h"

/* ---- Commands ------------------------------------------------------------------------------------------------------- */

enum { TAKES_COST = 1, TAKES_WAIT = 2, TAKES_PEEK = 4, TAKES_EXPIRES = 8, TAKES_BIND = 16 };

/* Calls that describe a request, and those that name something in their first words. */
struct shape {
    const char *usage;
    unsigned takes;             /* options in front of ATTR */
    const char *first, *second; /* members for the first words; NULL: none */
    bool needs_attributes;
};

static const struct shape shapes[] = {
    [RESP_CALL_CHECK] = { "WEIR.CHECK [COST n] [WAIT ms] [PEEK] ATTR name value [name value ...]",
                          TAKES_COST | TAKES_WAIT | TAKES_PEEK, NULL, NULL, true },
    [RESP_CALL_PEEK] = { "WEIR.PEEK [COST n] ATTR name value [name value ...]", TAKES_COST, NULL, NULL, true },
    [RESP_CALL_RESERVE] = { "WEIR.RESERVE [COST n] [EXPIRES ms] ATTR name value [name value ...]",
                            TAKES_COST | TAKES_EXPIRES, NULL, NULL, true },
    [RESP_CALL_ACQUIRE] = { "WEIR.ACQUIRE [COST n] [WAIT ms] [BIND] ATTR name value [name value ...]",
                            TAKES_COST | TAKES_WAIT | TAKES_BIND, NULL, NULL, true },
    [RESP_CALL_REFUND] = { "WEIR.REFUND [COST n] ATTR name value [name value ...]", TAKES_COST, NULL, NULL,
                           true },
    [RESP_CALL_SETTLE] = { "WEIR.SETTLE reservation cost", 0, "reservation", "cost", false },
    [RESP_CALL_CANCEL] = { "WEIR.CANCEL reservation", 0, "reservation", NULL, false },
    [RESP_CALL_RENEW] = { "WEIR.RENEW permit", 0, "permit", NULL, false },
    [RESP_CALL_RELEASE] = { "WEIR.RELEASE permit [OK|FAILED|DROPPED]", 0, "permit", "outcome", false },
    [RESP_CALL_RESET] = { "WEIR.RESET limit [ATTR name value ...]", 0, "limit", NULL, false },
};

const char *resp_call_usage(enum resp_call call)
{
    return shapes[call].usage;
}

/* What is read, and what was written of it. */
struct writing {
    const struct shape *shape;
    const struct slice *words;
    size_t count, at;
    struct text *out;
    unsigned members;
    unsigned given; /* options */
    char *why;
};

static bool refuse(const struct writing *writing, const char *what, struct slice word, const char *cure)
{
    int len = word.len > 60 ? 60 : (int)word.len;
    (void)snprintf(writing->why, RESP_CALL_WHY_MAX, "%s%s%.*s%s: %s", what, word.at == NULL ? "" : " '", len,
                   word.at == NULL ? "" : word.at, word.at == NULL ? "" : "'", cure);
    return false;
}

static bool is_utf8(struct slice text)
{
    for (size_t at = 0, step; at < text.len; at += step) {
        step = utf8_length(text.at + at, text.len - at);
        if (step == 0)
            return false;
    }
    return true;
}

static void put_name(struct writing *writing, const char *name)
{
    text_string(writing->out, writing->members++ == 0 ? "{\"" : ",\"");
    text_string(writing->out, name);
    text_literal(writing->out, "\":");
}

static bool put_text(struct writing *writing, struct slice word)
{
    if (!is_utf8(word))
        return refuse(writing, "a word is no UTF-8", (struct slice){ NULL, 0 }, "send text, or its hash");
    text_json(writing->out, word);
    return true;
}

/* A whole number, as it is in the body. */
static bool put_number(struct writing *writing, const char *name, struct slice word)
{
    uint64_t number;
    if (!slice_to_u64(word, UINT64_MAX, &number))
        return refuse(writing, name, word, "write a whole number of 0 or more, such as 1");
    put_name(writing, name);
    text_slice_add(writing->out, word);
    return true;
}

/* Milliseconds in the command, seconds in the body. */
static bool put_milliseconds(struct writing *writing, const char *option, const char *name, struct slice word)
{
    uint64_t ms;
    if (!slice_to_u64(word, UINT64_MAX / 1000000, &ms))
        return refuse(writing, option, word, "write milliseconds as a whole number, such as 500");
    put_name(writing, name);
    text_seconds(writing->out, ms * 1000000);
    return true;
}

struct option {
    const char *word;
    unsigned bit;
    bool has_value;
};

static const struct option options[] = {
    { "COST", TAKES_COST, true },       { "WAIT", TAKES_WAIT, true },  { "PEEK", TAKES_PEEK, false },
    { "EXPIRES", TAKES_EXPIRES, true }, { "BIND", TAKES_BIND, false },
};

static bool put_option(struct writing *writing, const struct option *option, struct slice value)
{
    switch (option->bit) {
    case TAKES_COST:
        return put_number(writing, "cost", value);
    case TAKES_WAIT:
        return put_milliseconds(writing, "WAIT", "wait", value);
    case TAKES_EXPIRES:
        return put_milliseconds(writing, "EXPIRES", "expires_after", value);
    case TAKES_PEEK:
        put_name(writing, "mode");
        text_literal(writing->out, "\"peek\"");
        return true;
    default:
        put_name(writing, "bind");
        text_literal(writing->out, "\"connection\"");
        return true;
    }
}

static bool read_option(struct writing *writing)
{
    const struct shape *shape = writing->shape;
    struct slice word = writing->words[writing->at];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct option *option = &options[i];
        if ((shape->takes & option->bit) == 0 || !slice_equals_fold(word, slice_of(option->word)))
            continue;
        if ((writing->given & option->bit) != 0)
            return refuse(writing, "an option stands twice:", word, "say it once");
        if (option->has_value && writing->at + 1 == writing->count)
            return refuse(writing, "there is nothing behind", word, shape->usage);
        writing->given |= option->bit;
        writing->at += option->has_value ? 2 : 1;
        return put_option(writing, option, writing->words[writing->at - 1]);
    }
    return refuse(writing, "there is no option", word, shape->usage);
}

/* ATTR and pairs up to the end. */
static bool read_attributes(struct writing *writing, const char *member)
{
    size_t left = writing->count - writing->at;
    put_name(writing, member);
    text_literal(writing->out, "{");
    if (left % 2 != 0)
        return refuse(writing, "an attribute has no value:", writing->words[writing->count - 1],
                      writing->shape->usage);
    for (size_t i = 0; i < left; i += 2) {
        if (i > 0)
            text_literal(writing->out, ",");
        if (!put_text(writing, writing->words[writing->at + i]))
            return false;
        text_literal(writing->out, ":");
        if (!put_text(writing, writing->words[writing->at + i + 1]))
            return false;
    }
    writing->at = writing->count;
    text_literal(writing->out, "}");
    return true;
}

static bool is_attr(const struct writing *writing)
{
    return writing->at < writing->count && slice_equals_fold(writing->words[writing->at], SLICE("ATTR"));
}

static bool read_request(struct writing *writing)
{
    while (writing->at < writing->count && !is_attr(writing))
        if (!read_option(writing))
            return false;
    if (writing->at + 2 >= writing->count)
        return refuse(writing, "attributes are missing", (struct slice){ NULL, 0 }, writing->shape->usage);
    writing->at++;
    return read_attributes(writing, "attributes");
}

/* "OK" as the body says it. */
static bool put_outcome(struct writing *writing, struct slice word)
{
    char lower[16];
    if (word.len >= sizeof lower)
        return refuse(writing, "there is no outcome", word, writing->shape->usage);
    for (size_t i = 0; i < word.len; i++)
        lower[i] = ascii_lower(word.at[i]);
    put_name(writing, "outcome");
    return put_text(writing, (struct slice){ lower, word.len });
}

static bool read_names(struct writing *writing, enum resp_call call)
{
    const struct shape *shape = writing->shape;
    if (writing->count == 0)
        return refuse(writing, "too few words", (struct slice){ NULL, 0 }, shape->usage);
    put_name(writing, shape->first);
    if (!put_text(writing, writing->words[writing->at++]))
        return false;
    if (call == RESP_CALL_RESET) {
        bool has_key = is_attr(writing);
        writing->at += has_key;
        if (writing->at < writing->count && !has_key)
            return refuse(writing, "there is no option", writing->words[writing->at], shape->usage);
        return read_attributes(writing, "key");
    }
    if (call == RESP_CALL_SETTLE && writing->at == writing->count)
        return refuse(writing, "the cost is missing", (struct slice){ NULL, 0 }, shape->usage);
    if (shape->second == NULL || writing->at == writing->count)
        return true;
    struct slice second = writing->words[writing->at++];
    return call == RESP_CALL_SETTLE ? put_number(writing, "cost", second) : put_outcome(writing, second);
}

bool resp_call_body(enum resp_call call, const struct slice *words, size_t count, struct text *out,
                    char why[RESP_CALL_WHY_MAX])
{
    struct writing writing = { .shape = &shapes[call], .words = words, .count = count, .out = out, .why = why };
    if (call == RESP_CALL_PEEK)
        (void)put_option(&writing, &(struct option){ .bit = TAKES_PEEK }, (struct slice){ NULL, 0 });
    if (!(shapes[call].needs_attributes ? read_request(&writing) : read_names(&writing, call)))
        return false;
    if (writing.at < count)
        return refuse(&writing, "one word too many:", words[writing.at], shapes[call].usage);
    text_literal(out, "}");
    if (out->is_cut)
        return refuse(&writing, "the command is too long", (struct slice){ NULL, 0 }, "send fewer attributes");
    return true;
}

/* ---- Replies --------------------------------------------------------------------------------------------------------- */

/* Members whose value is a length of time in seconds. */
static bool is_time(struct slice name)
{
    static const char *const times[] = { "retry_after", "reset_after", "expires_after", "waited" };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (slice_equals(name, slice_of(times[i])))
            return true;
    return false;
}

/* How many values stand in the object or array that was just opened: members count once. */
static uint32_t count_inside(const struct json *opened)
{
    struct json json = *opened; /* reading ahead writes into the scratch what will be written there again */
    unsigned depth = json.depth;
    uint32_t count = 0;
    for (;;) {
        bool is_direct = json.depth == depth;
        bool is_object = (json.objects >> (depth - 1) & 1) != 0;
        enum json_token token = json_next(&json);
        if (token == TOKEN_ERROR || token == TOKEN_END || json.depth < depth)
            return count;
        if (is_direct && (is_object ? token == TOKEN_NAME : true))
            count++;
    }
}

static void put_json_number(struct text *out, enum resp_version version, struct slice number, bool is_length)
{
    uint64_t magnitude;
    bool is_negative;
    if (is_length || !json_to_integer(number, &magnitude, &is_negative))
        resp_put_bulk(out, number);
    else if (magnitude > INT64_MAX)
        resp_put_big_number(out, version, number);
    else
        resp_put_integer(out, is_negative ? -(int64_t)magnitude : (int64_t)magnitude);
}

bool resp_put_json(struct text *out, enum resp_version version, struct slice text, struct text *scratch)
{
    struct json json;
    bool is_length = false;
    json_init(&json, text.at, text.len, scratch->at, scratch->cap);
    for (;;) {
        enum json_token token = json_next(&json);
        bool was_length = is_length;
        is_length = false;
        switch (token) {
        case TOKEN_END:
            return !out->is_cut;
        case TOKEN_OBJECT:
            resp_put_map(out, version, count_inside(&json));
            break;
        case TOKEN_ARRAY:
            resp_put_array(out, count_inside(&json));
            break;
        case TOKEN_NAME:
            is_length = is_time(json.text);
            resp_put_bulk(out, json.text);
            break;
        case TOKEN_STRING:
            resp_put_bulk(out, json.text);
            break;
        case TOKEN_NUMBER:
            put_json_number(out, version, json.text, was_length);
            break;
        case TOKEN_TRUE:
        case TOKEN_FALSE:
            resp_put_boolean(out, version, token == TOKEN_TRUE);
            break;
        case TOKEN_NULL:
            resp_put_null(out, version);
            break;
        case TOKEN_OBJECT_END:
        case TOKEN_ARRAY_END:
            break;
        default:
            return false;
        }
    }
}
