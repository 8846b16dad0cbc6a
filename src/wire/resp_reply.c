// SPDX-License-Identifier: Apache-2.0
/*
 * resp_reply.c - replies of both versions: where one ends, and the values in it.
 *
 * Both walks read single values by the same function. The first keeps a count for each level that is open; it alone
 * bounds the depth. The second needs none: a value says how many come inside, and passing over it is one sum.
 *
 * Not read: RESP3's strings and arrays of unknown length (`$?`, `*?`), which no server sends.
 */
#include "wire/resp_number.h"

#define LENGTH_SENTENCE "a length must be a plain decimal number"
#define TOO_LONG_SENTENCE "a reply is longer than 16 MiB"
_Static_assert(RESP_REPLY_MAX == 16777216, "its number is in a sentence");
_Static_assert(RESP_VALUES_MAX <= UINT32_MAX, "a count of values fits resp_value.count");
_Static_assert(RESP_DEPTH_MAX <= 32, "a bit for each level");

/* What the bytes at the front are. An attribute is told apart: it is no value, but has values inside. */
struct item {
    struct resp_value value;
    bool is_attribute;
    size_t len; /* bytes up to the values inside it, or to its end */
    const char *sentence;
};

struct piece {
    const char *at; /* the type byte */
    size_t len;     /* bytes there are */
    size_t room;    /* bytes that the reply may still have */
    size_t scanned; /* of those there are: the line's end is not among them */
};

static enum resp_result bad(struct item *item, const char *sentence)
{
    item->sentence = sentence;
    return RESP_BAD;
}

static bool holds_values(const struct item *item)
{
    return item->is_attribute || item->value.type >= RESP_ARRAY;
}

/* ---- Lines --------------------------------------------------------------------------------------------------- */

/* The text up to CR LF. */
static enum resp_result read_line(struct piece *piece, struct item *item)
{
    const size_t most = 1 + RESP_LINE_MAX; /* the CR stands there at the latest */
    size_t seen = piece->len < most + 1 ? piece->len : most + 1;
    size_t from = piece->scanned < 1 ? 1 : piece->scanned;
    const char *cr = seen > from ? memchr(piece->at + from, '\r', seen - from) : NULL;
    size_t stop = cr == NULL ? seen : (size_t)(cr - piece->at);
    if (stop > from && memchr(piece->at + from, '\n', stop - from) != NULL)
        return bad(item, "a line ends in LF without CR");
    piece->scanned = stop;
    if (cr == NULL)
        return seen > most ? bad(item, "a line is longer than 64 KiB") : RESP_MORE;
    if (stop + 1 == piece->len)
        return RESP_MORE;
    if (cr[1] != '\n')
        return bad(item, "a CR stands without LF in a line");
    item->value.text = (struct slice){ piece->at + 1, stop - 1 };
    item->len = stop + 2;
    return RESP_DONE;
}

static size_t digits(struct slice text, size_t from)
{
    size_t at = from;
    while (at < text.len && text.at[at] >= '0' && text.at[at] <= '9')
        at++;
    return at - from;
}

static bool is_big_number(struct slice text)
{
    size_t sign = text.len > 0 && (text.at[0] == '-' || text.at[0] == '+');
    return text.len > sign && digits(text, sign) == text.len - sign;
}

/* "inf", and "nan" as C libraries spell it, which Redis before 7.2 passes on: "-nan", "NAN", "nan(0x1)". */
static bool is_no_number(struct slice text)
{
    if (text.len < 3)
        return false;
    struct slice word = { text.at, 3 };
    if (slice_equals_fold(word, SLICE("inf")))
        return text.len == 3;
    return slice_equals_fold(word, SLICE("nan"))
           && (text.len == 3 || (text.at[3] == '(' && text.at[text.len - 1] == ')'));
}

/* Digits, then perhaps a point with digits, then perhaps an exponent with digits. */
static bool is_double(struct slice text)
{
    size_t at = text.len > 0 && (text.at[0] == '-' || text.at[0] == '+'), run;
    if (is_no_number((struct slice){ text.at + at, text.len - at }))
        return true;
    run = digits(text, at);
    at += run;
    if (run > 0 && at < text.len && text.at[at] == '.') {
        run = digits(text, ++at);
        at += run;
    }
    if (run > 0 && at < text.len && ascii_lower(text.at[at]) == 'e') {
        at++;
        at += at < text.len && (text.at[at] == '-' || text.at[at] == '+');
        run = digits(text, at);
        at += run;
    }
    return run > 0 && at == text.len;
}

/* What its line must hold; NULL when it does. */
static const char *line_fault(struct item *item)
{
    struct slice text = item->value.text;
    switch (item->value.type) {
    case RESP_NULL:
        return text.len == 0 ? NULL : "a null has something behind its `_`";
    case RESP_BOOLEAN:
        item->value.integer = text.len == 1 && text.at[0] == 't';
        return text.len == 1 && (text.at[0] == 't' || text.at[0] == 'f') ? NULL : "a boolean must be t or f";
    case RESP_DOUBLE:
        return is_double(text) ? NULL : "a double must be a decimal number, inf or nan";
    case RESP_BIG_NUMBER:
        return is_big_number(text) ? NULL : "a big number must be a sign and digits";
    default:
        return NULL;
    }
}

static enum resp_result read_line_of(struct piece *piece, struct item *item, enum resp_type type)
{
    item->value.type = type;
    enum resp_result result = read_line(piece, item);
    if (result != RESP_DONE)
        return result;
    const char *fault = line_fault(item);
    return fault == NULL ? RESP_DONE : bad(item, fault);
}

/* ---- Numbers, and what they announce ------------------------------------------------------------------------- */

/* Here alone the protocol allows a `+`. */
static enum resp_result read_integer(struct piece *piece, struct item *item)
{
    size_t front = 1 + (piece->len > 1 && piece->at[1] == '+'), used = 0;
    enum resp_result result = RESP_BAD;
    if (!(front == 2 && piece->len > 2 && piece->at[2] == '-'))
        result = resp_number(piece->at + front, piece->len - front, &item->value.integer, &used);
    if (result == RESP_BAD)
        return bad(item, "an integer must be a decimal number of 64 bits");
    item->value.type = RESP_INTEGER;
    item->value.text = (struct slice){ piece->at + 1, result == RESP_DONE ? front + used - 3 : 0 };
    item->len = front + used;
    return result;
}

/* A length or count; with RESP_DONE item->len is behind it, and -1 is given only where null may stand. */
static enum resp_result read_length(struct piece *piece, struct item *item, bool may_be_null, int64_t *length)
{
    size_t used = 0;
    enum resp_result result = resp_number(piece->at + 1, piece->len - 1, length, &used);
    item->len = 1 + used;
    if (result == RESP_BAD || (result == RESP_DONE && *length < (may_be_null ? -1 : 0)))
        return bad(item, LENGTH_SENTENCE);
    if (result == RESP_DONE && *length == -1)
        item->value.type = RESP_NULL;
    return result;
}

/* Bytes of a length given before them. */
static enum resp_result read_blob(struct piece *piece, struct item *item, enum resp_type type)
{
    int64_t length = 0;
    item->value.type = type;
    enum resp_result result = read_length(piece, item, type == RESP_BULK, &length);
    if (result != RESP_DONE || length == -1)
        return result;
    if ((uint64_t)length > RESP_REPLY_MAX || item->len + (size_t)length + 2 > piece->room)
        return bad(item, TOO_LONG_SENTENCE);
    const char *at = piece->at + item->len;
    size_t len = (size_t)length;
    if (piece->len - item->len < len + 2)
        return RESP_MORE;
    if (at[len] != '\r' || at[len + 1] != '\n')
        return bad(item, "a string does not end in CR LF where its length says");
    item->len += len + 2;
    if (type == RESP_VERBATIM) {
        if (len < 4 || at[3] != ':')
            return bad(item, "a verbatim string must begin with its format, three bytes and a colon");
        at += 4;
        len -= 4;
    }
    item->value.text = (struct slice){ at, len };
    return RESP_DONE;
}

/* What has values inside: `each` for one that is counted. */
static enum resp_result read_values(struct piece *piece, struct item *item, enum resp_type type, unsigned each)
{
    int64_t count = 0;
    item->value.type = type;
    enum resp_result result = read_length(piece, item, type == RESP_ARRAY, &count);
    if (result != RESP_DONE || count == -1)
        return result;
    if ((uint64_t)count > RESP_VALUES_MAX / each)
        return bad(item, TOO_LONG_SENTENCE);
    item->value.count = (uint32_t)count * each;
    return RESP_DONE;
}

static enum resp_result read_item(struct piece *piece, struct item *item)
{
    *item = (struct item){ 0 };
    if (piece->len == 0)
        return RESP_MORE;
    switch (*piece->at) {
    case '+':
        return read_line_of(piece, item, RESP_SIMPLE);
    case '-':
        return read_line_of(piece, item, RESP_ERROR);
    case ':':
        return read_integer(piece, item);
    case '$':
        return read_blob(piece, item, RESP_BULK);
    case '*':
        return read_values(piece, item, RESP_ARRAY, 1);
    case '_':
        return read_line_of(piece, item, RESP_NULL);
    case '#':
        return read_line_of(piece, item, RESP_BOOLEAN);
    case ',':
        return read_line_of(piece, item, RESP_DOUBLE);
    case '(':
        return read_line_of(piece, item, RESP_BIG_NUMBER);
    case '!':
        return read_blob(piece, item, RESP_ERROR);
    case '=':
        return read_blob(piece, item, RESP_VERBATIM);
    case '%':
        return read_values(piece, item, RESP_MAP, 2);
    case '~':
        return read_values(piece, item, RESP_SET, 1);
    case '>':
        return read_values(piece, item, RESP_PUSH, 1);
    case '|':
        item->is_attribute = true;
        return read_values(piece, item, RESP_MAP, 2);
    default:
        return bad(item, "a value begins with a byte that names no type");
    }
}

/* ---- Where a reply ends -------------------------------------------------------------------------------------- */

/* Go into what the item holds; NULL when that is allowed. */
static const char *open_level(struct resp_reply_parser *parser, const struct item *item)
{
    if (item->value.type == RESP_PUSH && (parser->depth > 0 || item->value.count == 0))
        return "a push must be outermost and name its kind";
    if (parser->depth == RESP_DEPTH_MAX)
        return "a reply is nested more than 16 deep";
    if (item->value.count == 0)
        return NULL;
    uint32_t bit = UINT32_C(1) << parser->depth;
    parser->attributes = item->is_attribute ? parser->attributes | bit : parser->attributes & ~bit;
    parser->left[parser->depth++] = item->value.count;
    return NULL;
}

/* One value is complete; true when it was the outermost. */
static bool close_levels(struct resp_reply_parser *parser)
{
    while (parser->depth > 0) {
        if (--parser->left[parser->depth - 1] > 0)
            return false;
        parser->depth--;
        if (parser->attributes >> parser->depth & 1)
            return false; /* the value that it describes is still to come */
    }
    return true;
}

/* One item further. RESP_DONE: over it; *is_end: it was the last. */
static enum resp_result step(struct resp_reply_parser *parser, const char *at, size_t seen, bool *is_end)
{
    struct piece piece = { at + parser->at, seen - parser->at, RESP_REPLY_MAX - parser->at,
                           parser->scanned - parser->at };
    struct item item;
    enum resp_result result = read_item(&piece, &item);
    parser->scanned = parser->at + piece.scanned;
    const char *fault = item.sentence;
    if (result == RESP_DONE) {
        parser->at += item.len;
        parser->scanned = parser->at;
        if (holds_values(&item))
            fault = open_level(parser, &item);
        *is_end = fault == NULL && !(holds_values(&item) && item.value.count > 0) && !item.is_attribute
                  && close_levels(parser);
    }
    if (fault == NULL)
        return result;
    parser->sentence = fault;
    return RESP_BAD;
}

enum resp_result resp_reply_parse(struct resp_reply_parser *parser, const char *at, size_t len,
                                  size_t *reply_len)
{
    size_t seen = len < RESP_REPLY_MAX ? len : RESP_REPLY_MAX;
    enum resp_result result = RESP_DONE;
    bool is_end = false;
    while (result == RESP_DONE && !is_end)
        result = step(parser, at, seen, &is_end);
    if (result == RESP_MORE && seen == RESP_REPLY_MAX) {
        parser->sentence = TOO_LONG_SENTENCE;
        return RESP_BAD;
    }
    if (result == RESP_DONE)
        *reply_len = parser->at;
    return result;
}

/* ---- The values ---------------------------------------------------------------------------------------------- */

static bool take(struct resp_reader *reader, struct item *item)
{
    struct piece piece = { reader->at, (size_t)(reader->end - reader->at), RESP_REPLY_MAX, 0 };
    if (read_item(&piece, item) != RESP_DONE)
        return false;
    reader->at += item->len;
    return true;
}

/* Over `count` values and what is inside them. The sum fits: fewer than 2^24 items add fewer than 2^24 each. */
static bool pass_over(struct resp_reader *reader, uint64_t count)
{
    struct item item;
    while (count > 0) {
        if (!take(reader, &item))
            return false;
        count += item.value.count;
        count -= !item.is_attribute;
    }
    return true;
}

bool resp_next(struct resp_reader *reader, struct resp_value *out)
{
    struct item item;
    do {
        if (!take(reader, &item))
            return false;
        if (item.is_attribute && !pass_over(reader, item.value.count))
            return false;
    } while (item.is_attribute);
    *out = item.value;
    return true;
}

bool resp_skip(struct resp_reader *reader, const struct resp_value *value)
{
    return pass_over(reader, value->count);
}

struct slice resp_error_code(struct slice error)
{
    const char *blank = error.len == 0 ? NULL : memchr(error.at, ' ', error.len);
    return (struct slice){ error.at, blank == NULL ? error.len : (size_t)(blank - error.at) };
}

bool resp_to_i64(struct slice text, int64_t *out)
{
    char line[RESP_DIGITS_MAX + 3]; /* sign, digits, CR LF */
    int64_t value = 0;
    size_t used = 0;
    if (text.len == 0 || text.len > RESP_DIGITS_MAX + 1)
        return false;
    memcpy(line, text.at, text.len);
    memcpy(line + text.len, "\r\n", 2);
    if (resp_number(line, text.len + 2, &value, &used) != RESP_DONE || used != text.len + 2)
        return false;
    *out = value;
    return true;
}
