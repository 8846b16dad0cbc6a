// SPDX-License-Identifier: Apache-2.0
/* resp_told.c - the telling walks by counts; the random writer notes for each value what it wrote. */
#include "support/resp_told.h"

/* ---- Telling --------------------------------------------------------------------------------------------- */

static const char *const open_marks[RESP_TYPE_COUNT] = {
    [RESP_ARRAY] = "[", [RESP_MAP] = "{", [RESP_SET] = "~[", [RESP_PUSH] = ">["
};
static const char *const marks[RESP_TYPE_COUNT] = {
    [RESP_SIMPLE] = "+",   [RESP_ERROR] = "-",   [RESP_INTEGER] = ":", [RESP_BULK] = "",
    [RESP_VERBATIM] = "=", [RESP_BOOLEAN] = "#", [RESP_DOUBLE] = ",",  [RESP_BIG_NUMBER] = "("
};

static void tell_i64(struct text *out, int64_t value)
{
    if (value < 0)
        text_literal(out, "-");
    text_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void tell_scalar(struct text *out, const struct resp_value *value)
{
    if (value->type == RESP_NULL) {
        text_literal(out, "null");
        return;
    }
    text_string(out, marks[value->type]);
    if (value->type == RESP_INTEGER)
        tell_i64(out, value->integer);
    else if (value->type == RESP_BOOLEAN)
        text_string(out, value->integer ? "t" : "f");
    else if (value->type == RESP_BULK || value->type == RESP_VERBATIM)
        text_json(out, value->text);
    else
        text_slice_add(out, value->text);
}

static bool holds_values(const struct resp_value *value)
{
    return value->type >= RESP_ARRAY;
}

bool resp_tell(struct text *out, const char *at, size_t len)
{
    struct resp_reader reader = resp_reader_of(at, len);
    struct {
        uint32_t left;
        const char *end;
    } open[RESP_DEPTH_MAX];
    unsigned depth = 0;
    bool is_first = true, is_complete;
    do {
        struct resp_value value;
        if (!resp_next(&reader, &value))
            return false;
        if (!is_first)
            text_literal(out, " ");
        is_complete = !holds_values(&value) || value.count == 0;
        is_first = !is_complete;
        const char *end = value.type == RESP_MAP ? "}" : "]";
        if (!holds_values(&value))
            tell_scalar(out, &value);
        else
            text_string(out, open_marks[value.type]);
        if (is_complete && holds_values(&value))
            text_string(out, end);
        if (!is_complete && depth == RESP_DEPTH_MAX)
            return false;
        if (!is_complete) {
            open[depth].left = value.count;
            open[depth++].end = end;
        }
        while (is_complete && depth > 0 && --open[depth - 1].left == 0)
            text_string(out, open[--depth].end);
    } while (depth > 0);
    return reader.at == reader.end;
}

void resp_tell_command(struct text *out, const struct resp_command *command)
{
    text_literal(out, "[");
    for (size_t i = 0; i < command->count; i++) {
        if (i > 0)
            text_literal(out, " ");
        text_json(out, command->words[i]);
    }
    text_literal(out, "]");
}

/* ---- Random replies -------------------------------------------------------------------------------------- */

struct writer {
    struct random *random;
    enum resp_version version;
    bool has_attributes;
    struct text *reply, *told;
};

static void random_value(struct writer *writer, unsigned depth);

/* Up to 39 bytes; any, or such as a line may hold. */
static struct slice random_bytes(struct random *random, char room[40], bool is_line)
{
    size_t len = random_below(random, 3) == 0 ? 0 : random_below(random, 40);
    for (size_t i = 0; i < len; i++)
        room[i] = (char)(is_line ? ' ' + random_below(random, 95) : random_u64(random));
    return (struct slice){ room, len };
}

static int64_t random_i64(struct random *random)
{
    static const int64_t edges[] = { 0, -1, 1, 9, 10, 99, 100, INT32_MAX, INT64_MAX, INT64_MIN, INT64_MIN + 1 };
    if (random_below(random, 2) == 0)
        return edges[random_below(random, sizeof edges / sizeof *edges)];
    return (int64_t)(random_u64(random) >> random_below(random, 64));
}

static void random_number_text(struct writer *writer, bool is_big)
{
    static const char *const doubles[] = { "0",
                                           "-0",
                                           "1.5",
                                           "-2.25",
                                           "1e+20",
                                           "1.0000000000000001E-05",
                                           "inf",
                                           "-inf",
                                           "nan",
                                           "10",
                                           "3.1415926535897931" };
    static const char *const bigs[] = { "0", "-1", "3492890328409238509324850943850943825024385",
                                        "-18446744073709551616" };
    const char *number =
        is_big ? bigs[random_below(writer->random, 4)] : doubles[random_below(writer->random, 11)];
    if (is_big)
        resp_put_big_number(writer->reply, writer->version, slice_of(number));
    else
        resp_put_double(writer->reply, writer->version, slice_of(number));
    if (writer->version == RESP2) { /* there it is a bulk string */
        text_json(writer->told, slice_of(number));
        return;
    }
    text_string(writer->told, is_big ? "(" : ",");
    text_string(writer->told, number);
}

static void random_scalar(struct writer *writer)
{
    char room[40];
    struct text *told = writer->told;
    bool is_new = writer->version == RESP3;
    unsigned kind = (unsigned)random_below(writer->random, 10);
    struct slice bytes = random_bytes(writer->random, room, kind <= 1);
    int64_t number = random_i64(writer->random);
    switch (kind) {
    case 0:
    case 1:
        (kind == 0 ? resp_put_simple : resp_put_error)(writer->reply, bytes);
        text_string(told, kind == 0 ? "+" : "-");
        text_slice_add(told, bytes);
        break;
    case 2:
        resp_put_integer(writer->reply, number);
        text_literal(told, ":");
        tell_i64(told, number);
        break;
    case 3:
        resp_put_bulk(writer->reply, bytes);
        text_json(told, bytes);
        break;
    case 4:
        resp_put_bulk_i64(writer->reply, number);
        text_literal(told, "\"");
        tell_i64(told, number);
        text_literal(told, "\"");
        break;
    case 5:
        (number % 2 == 0 ? resp_put_null : resp_put_null_array)(writer->reply, writer->version);
        text_literal(told, "null");
        break;
    case 6:
        resp_put_boolean(writer->reply, writer->version, number % 2 == 0);
        text_string(told, is_new ? (number % 2 == 0 ? "#t" : "#f") : number % 2 == 0 ? ":1" : ":0");
        break;
    case 7:
        resp_put_verbatim(writer->reply, writer->version, "txt", bytes);
        text_string(told, is_new ? "=" : "");
        text_json(told, bytes);
        break;
    default:
        random_number_text(writer, kind == 8);
    }
}

static void random_values(struct writer *writer, unsigned depth)
{
    static const char *const marks3[] = { "[", "{", "~[", ">[" };
    struct text *told = writer->told;
    unsigned kind = (unsigned)random_below(writer->random, depth == 0 ? 4 : 3);
    uint32_t count = (uint32_t)random_below(writer->random, 4), inside = kind == 1 ? count * 2 : count;
    if (kind == 3)
        inside = ++count; /* a push names its kind */
    switch (kind) {
    case 0:
        resp_put_array(writer->reply, count);
        break;
    case 1:
        resp_put_map(writer->reply, writer->version, count);
        break;
    case 2:
        resp_put_set(writer->reply, writer->version, count);
        break;
    default:
        resp_put_push(writer->reply, writer->version, count);
    }
    text_string(told, writer->version == RESP3 ? marks3[kind] : "[");
    for (uint32_t i = 0; i < inside; i++) {
        if (i > 0)
            text_literal(told, " ");
        random_value(writer, depth + 1);
    }
    text_string(told, writer->version == RESP3 && kind == 1 ? "}" : "]");
}

/* What describes the value behind it, written by hand: weir sends none. */
static void random_attribute(struct writer *writer, unsigned depth)
{
    char unread[256];
    struct text nowhere = text_of(unread, 0);
    struct writer inside = { writer->random, writer->version, false, writer->reply, &nowhere };
    unsigned pairs = (unsigned)random_below(writer->random, 3);
    text_literal(writer->reply, "|");
    text_u64(writer->reply, pairs);
    text_literal(writer->reply, "\r\n");
    for (unsigned i = 0; i < 2 * pairs; i++)
        random_value(&inside, depth + 1);
}

static void random_value(struct writer *writer, unsigned depth)
{
    if (writer->has_attributes && writer->version == RESP3 && random_below(writer->random, 4) == 0)
        random_attribute(writer, depth);
    if (depth < 4 && random_below(writer->random, 3) == 0)
        random_values(writer, depth);
    else
        random_scalar(writer);
}

void resp_random(struct random *random, enum resp_version version, bool has_attributes, struct text *reply,
                 struct text *told)
{
    struct writer writer = { random, version, has_attributes, reply, told };
    random_value(&writer, 0);
}
