// SPDX-License-Identifier: Apache-2.0
/*
 * json.c - RFC 8259, strictly, a token at a time.
 *
 * What may come next is one of six states; which kind of bracket is open is one bit per level.
 */
#include "wire/json.h"
#include "wire/text.h"

enum state {
    VALUE,        /* a value must come */
    FIRST_ITEM,   /* behind `[`: a value or `]` */
    FIRST_MEMBER, /* behind `{`: a name or `}` */
    MEMBER,       /* behind `,` in an object: a name */
    BEHIND,       /* behind a value: `,` or the bracket's end, or the text's */
    FAILED,
};

static enum json_token fail(struct json *json, const char *at, const char *error)
{
    json->at = at;
    json->error = error;
    json->state = FAILED;
    return TOKEN_ERROR;
}

void json_init(struct json *json, const char *text, size_t len, char *scratch, size_t scratch_cap)
{
    *json = (struct json){
        .start = text, .at = text, .end = text + len, .scratch = scratch, .scratch_cap = scratch_cap
    };
}

static void skip_blanks(struct json *json)
{
    while (json->at < json->end
           && (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
        json->at++;
}

static bool is_digit(const struct json *json, const char *at)
{
    return at < json->end && *at >= '0' && *at <= '9';
}

/* ---- Strings --------------------------------------------------------------------------------------------- */

/* Four hex digits at `at`, or -1. */
static int32_t hex4(const struct json *json, const char *at)
{
    int32_t value = 0;
    if (json->end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = ascii_lower(at[i]);
        if (c >= '0' && c <= '9')
            value = value << 4 | (c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (c - 'a' + 10);
        else
            return -1;
    }
    return value;
}

static size_t utf8_encode(char *to, uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 63));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xe0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 63));
        to[2] = (char)(0x80 | (point & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | point >> 18);
    to[1] = (char)(0x80 | (point >> 12 & 63));
    to[2] = (char)(0x80 | (point >> 6 & 63));
    to[3] = (char)(0x80 | (point & 63));
    return 4;
}

/*
 * One escape; json->at is on its backslash and is moved behind it. Writes 1 to 4 bytes, fewer than the escape
 * has. Returns how many, 0 on an error that is set.
 */
static size_t escape(struct json *json, char *to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *at = json->at + 1;
    const char *letter = at < json->end && *at != '\0' ? strchr(letters, *at) : NULL;
    if (letter != NULL) {
        json->at = at + 1;
        *to = meanings[letter - letters];
        return 1;
    }
    if (at == json->end || *at != 'u') {
        (void)fail(json, json->at, "an escape must be one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
        return 0;
    }
    int32_t unit = hex4(json, at + 1), low = -1;
    if (unit < 0) {
        (void)fail(json, json->at, "\\u needs four hex digits");
        return 0;
    }
    at += 5;
    if (unit >= 0xd800 && unit < 0xdc00 && json->end - at >= 2 && at[0] == '\\' && at[1] == 'u')
        low = hex4(json, at + 2);
    bool is_pair = low >= 0xdc00 && low < 0xe000;
    if (unit >= 0xd800 && unit < 0xe000 && !is_pair) {
        (void)fail(json, json->at, "\\u names half of a surrogate pair");
        return 0;
    }
    json->at = is_pair ? at + 6 : at;
    return utf8_encode(to, is_pair ? 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00)
                                   : (uint32_t)unit);
}

/* Move over plain bytes; false on an error that is set. Stops at a quote, a backslash or the end. */
static bool plain(struct json *json)
{
    while (json->at < json->end && *json->at != '"' && *json->at != '\\') {
        unsigned char byte = (unsigned char)*json->at;
        if (byte < 0x20) {
            (void)fail(json, json->at, "a control byte stands in a string: escape it");
            return false;
        }
        size_t length = byte < 0x80 ? 1 : utf8_length(json->at, (size_t)(json->end - json->at));
        if (length == 0) {
            (void)fail(json, json->at, "the text is not valid UTF-8");
            return false;
        }
        json->at += length;
    }
    return true;
}

/* Append to the string that is being unescaped; false on an error that is set. */
static bool copy(struct json *json, const char *from, size_t len)
{
    if (len > json->scratch_cap - json->scratch_len) {
        (void)fail(json, json->at, "the strings of this text need more memory than there is");
        return false;
    }
    if (len > 0)
        memcpy(json->scratch + json->scratch_len, from, len);
    json->scratch_len += len;
    return true;
}

/* json->at is behind the opening quote. A string without escapes stays where it is. */
static enum json_token string(struct json *json, enum json_token token)
{
    const char *start = json->at;
    size_t copy_start = json->scratch_len;
    bool is_copied = false;
    for (;;) {
        const char *run = json->at;
        if (!plain(json))
            return TOKEN_ERROR;
        if (json->at == json->end)
            return fail(json, start - 1, "a string does not end");
        bool is_end = *json->at == '"';
        if (is_end && !is_copied)
            break;
        is_copied = true;
        if (!copy(json, run, (size_t)(json->at - run)))
            return TOKEN_ERROR;
        if (is_end)
            break;
        char point[4];
        size_t len = escape(json, point);
        if (len == 0 || !copy(json, point, len))
            return TOKEN_ERROR;
    }
    json->text = is_copied ? (struct slice){ json->scratch + copy_start, json->scratch_len - copy_start }
                           : (struct slice){ start, (size_t)(json->at - start) };
    json->at++;
    return token;
}

/* ---- Other values ---------------------------------------------------------------------------------------- */

static enum json_token number(struct json *json)
{
    const char *start = json->at, *at = start + (*start == '-');
    if (!is_digit(json, at))
        return fail(json, start, "a number needs a digit");
    if (*at == '0' && is_digit(json, at + 1))
        return fail(json, start, "a number must not begin with 0 and another digit");
    while (is_digit(json, at))
        at++;
    if (at < json->end && *at == '.') {
        if (!is_digit(json, ++at))
            return fail(json, start, "a number needs a digit behind its point");
        while (is_digit(json, at))
            at++;
    }
    if (at < json->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < json->end && (*at == '+' || *at == '-');
        if (!is_digit(json, at))
            return fail(json, start, "a number needs a digit in its exponent");
        while (is_digit(json, at))
            at++;
    }
    json->text = (struct slice){ start, (size_t)(at - start) };
    json->at = at;
    return TOKEN_NUMBER;
}

static enum json_token word(struct json *json)
{
    static const struct {
        struct slice text;
        enum json_token token;
    } words[] = { { { "true", 4 }, TOKEN_TRUE },
                  { { "false", 5 }, TOKEN_FALSE },
                  { { "null", 4 }, TOKEN_NULL } };
    size_t left = (size_t)(json->end - json->at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct slice text = words[i].text;
        if (left < text.len || memcmp(json->at, text.at, text.len) != 0)
            continue;
        json->text = (struct slice){ json->at, text.len };
        json->at += text.len;
        return words[i].token;
    }
    return fail(json, json->at, "a value must be an object, an array, a string, a number, true, false or null");
}

static enum json_token open_bracket(struct json *json, bool is_object)
{
    if (json->depth == JSON_DEPTH_MAX)
        return fail(json, json->at, "the text is nested more than 16 deep");
    json->at++;
    json->objects = (json->objects & ~(1u << json->depth)) | (uint32_t)is_object << json->depth;
    json->depth++;
    json->state = is_object ? FIRST_MEMBER : FIRST_ITEM;
    return is_object ? TOKEN_OBJECT : TOKEN_ARRAY;
}

static enum json_token close_bracket(struct json *json)
{
    bool is_object = json->objects >> (json->depth - 1) & 1;
    json->at++;
    json->depth--;
    json->state = BEHIND;
    return is_object ? TOKEN_OBJECT_END : TOKEN_ARRAY_END;
}

static enum json_token value(struct json *json)
{
    if (*json->at == '{' || *json->at == '[')
        return open_bracket(json, *json->at == '{');
    json->state = BEHIND;
    if (*json->at == '"') {
        json->at++;
        return string(json, TOKEN_STRING);
    }
    if (*json->at == '-' || is_digit(json, json->at))
        return number(json);
    return word(json);
}

static enum json_token name(struct json *json)
{
    if (*json->at != '"')
        return fail(json, json->at, "a member must begin with its name in double quotes");
    json->at++;
    if (string(json, TOKEN_NAME) == TOKEN_ERROR)
        return TOKEN_ERROR;
    skip_blanks(json);
    if (json->at == json->end || *json->at != ':')
        return fail(json, json->at, "a colon must stand behind a member's name");
    json->at++;
    json->state = VALUE;
    return TOKEN_NAME;
}

enum json_token json_next(struct json *json)
{
    if (json->state == FAILED)
        return TOKEN_ERROR;
    skip_blanks(json);
    bool is_behind = json->state == BEHIND;
    if (json->at == json->end)
        return is_behind && json->depth == 0 ? TOKEN_END : fail(json, json->at, "the text ends too early");
    if (is_behind && json->depth == 0)
        return fail(json, json->at, "something stands behind the value");
    bool is_object = json->depth > 0 && (json->objects >> (json->depth - 1) & 1);
    bool may_close = is_behind || json->state == FIRST_ITEM || json->state == FIRST_MEMBER;
    if (may_close && *json->at == (is_object ? '}' : ']'))
        return close_bracket(json);
    if (is_behind) {
        if (*json->at != ',')
            return fail(json, json->at,
                        is_object ? "`,` or `}` must stand here" : "`,` or `]` must stand here");
        json->at++;
        json->state = is_object ? MEMBER : VALUE;
        skip_blanks(json);
        if (json->at == json->end)
            return fail(json, json->at, "the text ends too early");
    }
    return json->state == FIRST_MEMBER || json->state == MEMBER ? name(json) : value(json);
}

/* ---- Helpers --------------------------------------------------------------------------------------------- */

void json_position(const struct json *json, size_t *line, size_t *column)
{
    const char *line_start = json->start;
    *line = 1;
    for (const char *at = json->start; at < json->at; at++) {
        if (*at == '\n') {
            ++*line;
            line_start = at + 1;
        }
    }
    *column = (size_t)(json->at - line_start) + 1;
}

bool json_to_integer(struct slice number_text, uint64_t *magnitude, bool *is_negative)
{
    bool has_minus = number_text.len > 0 && number_text.at[0] == '-';
    struct slice digits = { number_text.at + has_minus, number_text.len - has_minus };
    if (!slice_to_u64(digits, UINT64_MAX, magnitude))
        return false;
    *is_negative = has_minus && *magnitude != 0;
    return true;
}

const char *json_token_name(enum json_token token)
{
    switch (token) {
    case TOKEN_OBJECT:
        return "an object";
    case TOKEN_ARRAY:
        return "an array";
    case TOKEN_STRING:
        return "a string";
    case TOKEN_NUMBER:
        return "a number";
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        return "a boolean";
    case TOKEN_NULL:
        return "null";
    default:
        return "something else";
    }
}
