// SPDX-License-Identifier: Apache-2.0
/*
 * check.c - one pass over a check body: each member once, each by name.
 *
 * A request is at most three levels deep (batch, request, attributes), so each level has its function and
 * nothing recurses. Faults are rare, so their words are made with the text writer, not cheaply.
 */
#include "wire/check.h"

#include "wire/json.h"
#include "wire/text.h"

#define COST_MAX ((uint64_t)INT64_MAX)
#define NO_INDEX SIZE_MAX

struct parse {
    struct json json;
    const struct check_storage *storage;
    struct check_fault *fault;
    size_t index;           /* of the request in its batch; NO_INDEX: it stands alone */
    size_t request_count;   /* filled so far */
    size_t attribute_count; /* of all requests so far */
};

/* ---- Faults ---------------------------------------------------------------------------------------------- */

/* Text from outside, as much of it as helps: no control characters, and cut at a character. */
static void quote(struct text *text, struct slice from)
{
    enum { SHOWN_MAX = 40 };
    size_t shown = 0;
    while (shown < from.len) {
        size_t length = utf8_length(from.at + shown, from.len - shown);
        if (length == 0 || shown + length > SHOWN_MAX)
            break;
        unsigned char byte = (unsigned char)from.at[shown];
        text_bytes(text, byte < 0x20 || byte == 0x7f ? "?" : from.at + shown, length);
        shown += length;
    }
    if (shown < from.len)
        text_literal(text, "...");
}

/* End a buffer of `cap` + 1 bytes as a C string. */
static void terminate(struct text *text)
{
    text->at[text->len] = '\0';
}

static struct text message_of(struct check_fault *fault)
{
    return text_of(fault->message, sizeof fault->message - 1);
}

/* "requests[3].cost", "cost", "requests[3].attributes.tenant", "requests[3]". */
static void set_field(struct check_fault *fault, size_t index, const char *member, struct slice name)
{
    struct text field = text_of(fault->field, sizeof fault->field - 1);
    if (index != NO_INDEX) {
        text_literal(&field, "requests[");
        text_u64(&field, index);
        text_literal(&field, "]");
    }
    if (index != NO_INDEX && (*member != '\0' || name.len > 0))
        text_literal(&field, ".");
    text_string(&field, member);
    if (*member != '\0' && name.len > 0)
        text_literal(&field, ".");
    quote(&field, name);
    terminate(&field);
}

/* FIELD VALUE: CURE. Returns false, for callers that return it. */
static bool refuse(struct parse *parse, const char *member, struct slice name, const char *what,
                   struct slice value, const char *cure)
{
    struct text message = message_of(parse->fault);
    set_field(parse->fault, parse->index, member, name);
    text_string(&message, parse->fault->field[0] == '\0' ? "the body" : parse->fault->field);
    text_literal(&message, " ");
    text_string(&message, what);
    quote(&message, value);
    text_literal(&message, ": ");
    text_string(&message, cure);
    terminate(&message);
    return false;
}

static const struct slice none;

/* The text as a whole is no JSON. */
static bool refuse_syntax(struct parse *parse)
{
    struct text message = message_of(parse->fault);
    size_t line, column;
    json_position(&parse->json, &line, &column);
    parse->fault->field[0] = '\0';
    text_literal(&message, "the body is not valid JSON: line ");
    text_u64(&message, line);
    text_literal(&message, ", column ");
    text_u64(&message, column);
    text_literal(&message, ": ");
    text_string(&message, parse->json.error);
    terminate(&message);
    return false;
}

/* A token of the wrong type; an error of the reader goes first. */
static bool refuse_type(struct parse *parse, enum json_token token, const char *member, struct slice name,
                        const char *cure)
{
    bool has_text = token == TOKEN_NUMBER || token == TOKEN_TRUE || token == TOKEN_FALSE;
    if (token == TOKEN_ERROR)
        return refuse_syntax(parse);
    return refuse(parse, member, name, "is ", has_text ? parse->json.text : slice_of(json_token_name(token)),
                  cure);
}

/* ---- Members --------------------------------------------------------------------------------------------- */

static bool read_cost(struct parse *parse, struct check_request *request)
{
    static const char cure[] = "send an integer from 0 to 9223372036854775807";
    enum json_token token = json_next(&parse->json);
    if (token != TOKEN_NUMBER || !slice_to_u64(parse->json.text, COST_MAX, &request->ask.cost))
        return refuse_type(parse, token, "cost", none, cure);
    return true;
}

static bool read_mode(struct parse *parse, struct check_request *request)
{
    static const char cure[] = "send \"take\" or \"peek\"";
    enum json_token token = json_next(&parse->json);
    if (token != TOKEN_STRING)
        return refuse_type(parse, token, "mode", none, cure);
    request->ask.is_peek = slice_equals(parse->json.text, SLICE("peek"));
    if (!request->ask.is_peek && !slice_equals(parse->json.text, SLICE("take")))
        return refuse(parse, "mode", none, "is ", parse->json.text, cure);
    return true;
}

/* DIGITS or DIGITS.DIGITS, at most nine behind the point, as ns up to ten years. */
static bool seconds_to_ns(struct slice text, weir_ns *out)
{
    const char *point = memchr(text.at, '.', text.len);
    size_t whole_len = point == NULL ? text.len : (size_t)(point - text.at);
    uint64_t whole, part = 0;
    if (!slice_to_u64((struct slice){ text.at, whole_len }, WEIR_HORIZON / WEIR_SECOND, &whole))
        return false;
    size_t part_len = point == NULL ? 0 : text.len - whole_len - 1;
    if (part_len > 9)
        return false;
    for (size_t i = 0; i < 9; i++) {
        unsigned digit = i < part_len ? (unsigned char)point[1 + i] - (unsigned)'0' : 0;
        if (digit > 9)
            return false;
        part = part * 10 + digit;
    }
    *out = whole * WEIR_SECOND + part;
    return *out <= WEIR_HORIZON;
}

static bool read_wait(struct parse *parse, struct check_request *request)
{
    enum json_token token = json_next(&parse->json);
    if (token != TOKEN_NUMBER || !seconds_to_ns(parse->json.text, &request->wait))
        return refuse_type(parse, token, "wait", none,
                           "send seconds as a number from 0 to 315569520 with at most nine decimals");
    request->has_wait = true;
    return true;
}

/* ---- Attributes ------------------------------------------------------------------------------------------ */

static bool is_attribute_name(struct slice name)
{
    if (name.len == 0 || name.len > WEIR_ATTRIBUTE_NAME_MAX || name.at[0] < 'a' || name.at[0] > 'z')
        return false;
    for (size_t i = 1; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return true;
}

/*
 * A name as the C string that struct weir_attribute wants, in scratch. One with escapes was unescaped to its
 * end already; for a plain one, the quotes around it in the body are the room that its copy and the zero take.
 */
static const char *keep_name(struct json *json, struct slice name)
{
    char *end = json->scratch + json->scratch_len;
    bool is_there = json->scratch_len >= name.len && name.at == end - name.len;
    size_t need = is_there ? 1 : name.len + 1;
    if (need > json->scratch_cap - json->scratch_len)
        return NULL;
    if (!is_there)
        memcpy(end, name.at, name.len);
    end[need - 1] = '\0';
    json->scratch_len += need;
    return end + need - 1 - name.len;
}

static bool has_control(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            return true;
    return false;
}

static bool read_attribute_value(struct parse *parse, struct weir_attribute *attribute, struct slice name)
{
    static const char cure[] = "send a string, an integer or a boolean";
    enum json_token token = json_next(&parse->json);
    struct slice value = parse->json.text;
    uint64_t magnitude;
    bool is_negative;
    if (token == TOKEN_NUMBER) {
        if (!json_to_integer(value, &magnitude, &is_negative) || (is_negative && magnitude > (uint64_t)1 << 63))
            return refuse(parse, "attributes", name, "is ", value, "send an integer of 64 bits, or a string");
        if (magnitude == 0)
            value = SLICE("0"); /* -0 is the same number, so it must be the same key */
    } else if (token != TOKEN_STRING && token != TOKEN_TRUE && token != TOKEN_FALSE) {
        return refuse_type(parse, token, "attributes", name, cure);
    }
    if (value.len > WEIR_ATTRIBUTE_MAX)
        return refuse(parse, "attributes", name, "is ", value, "a value has at most 1024 bytes");
    if (has_control(value))
        return refuse(parse, "attributes", name, "is ", value, "a value must not hold control characters");
    attribute->value = value.len == 0 ? "" : value.at;
    attribute->len = value.len;
    return true;
}

/* The attribute named json.text, if that may be one, is added without its value. */
static bool add_attribute(struct parse *parse, struct check_request *request, struct slice name)
{
    struct weir_attribute *attributes = parse->storage->attributes + parse->attribute_count;
    size_t count = request->ask.attribute_count;
    if (!is_attribute_name(name))
        return refuse(parse, "attributes", name, "is no attribute name", none,
                      "use 1 to 32 of a-z, 0-9 and `-`, a letter first");
    for (size_t i = 0; i < count; i++)
        if (strlen(attributes[i].name) == name.len && memcmp(attributes[i].name, name.at, name.len) == 0)
            return refuse(parse, "attributes", name, "is given twice", none, "give each attribute once");
    if (count == WEIR_ATTRIBUTES_MAX)
        return refuse(parse, "attributes", none, "has more than 32 members", none,
                      "send those that limits read");
    const char *kept = keep_name(&parse->json, name);
    if (kept == NULL || parse->attribute_count + count == parse->storage->attribute_cap)
        return refuse(parse, "attributes", none, "has no room", none, "send a smaller batch");
    attributes[count].name = kept;
    request->ask.attribute_count = count + 1;
    return true;
}

static bool read_attributes(struct parse *parse, struct check_request *request)
{
    enum json_token token = json_next(&parse->json);
    if (token != TOKEN_OBJECT)
        return refuse_type(parse, token, "attributes", none, "send an object: {\"tenant\": \"acme\"}");
    struct weir_attribute *attributes = parse->storage->attributes + parse->attribute_count;
    while ((token = json_next(&parse->json)) == TOKEN_NAME) {
        struct slice name = parse->json.text;
        if (!add_attribute(parse, request, name)
            || !read_attribute_value(parse, &attributes[request->ask.attribute_count - 1], name))
            return false;
    }
    if (token == TOKEN_ERROR)
        return refuse_syntax(parse);
    request->ask.attributes = attributes;
    parse->attribute_count += request->ask.attribute_count;
    return true;
}

/* ---- Requests -------------------------------------------------------------------------------------------- */

static bool read_requests(struct parse *parse, struct check_request *request);

static const struct member {
    struct slice name;
    bool (*read)(struct parse *parse, struct check_request *request);
} members[] = {
    { { "attributes", 10 }, read_attributes }, /* first: a request without it is refused */
    { { "cost", 4 }, read_cost },
    { { "mode", 4 }, read_mode },
    { { "wait", 4 }, read_wait },
    { { "requests", 8 }, read_requests }, /* last: only in the outermost object, and alone there */
};
#define MEMBER_COUNT (sizeof members / sizeof *members)
#define SEEN_ATTRIBUTES 1u
#define SEEN_REQUESTS (1u << (MEMBER_COUNT - 1))

/*
 * The members of an object whose `{` is read. `is_outer`: it may be a batch, *is_batch then says so.
 */
static bool read_members(struct parse *parse, struct check_request *request, bool is_outer, bool *is_batch)
{
    unsigned seen = 0;
    enum json_token token;
    *request = (struct check_request){ .ask = { .cost = 1 } };
    while ((token = json_next(&parse->json)) == TOKEN_NAME) {
        struct slice name = parse->json.text;
        size_t m = 0, count = is_outer ? MEMBER_COUNT : MEMBER_COUNT - 1;
        while (m < count && !slice_equals(name, members[m].name))
            m++;
        if (m == count)
            return refuse(parse, "", name, "is no field of a check", none,
                          "the fields are attributes, cost, mode, wait, or requests for a batch");
        if (seen & 1u << m)
            return refuse(parse, "", name, "is given twice", none, "give each field once");
        seen |= 1u << m;
        if ((seen & SEEN_REQUESTS) && seen != SEEN_REQUESTS)
            return refuse(parse, "", name, "stands beside other fields", none,
                          "a batch has only requests, and each of them its own fields");
        if (!members[m].read(parse, request))
            return false;
    }
    if (token == TOKEN_ERROR)
        return refuse_syntax(parse);
    if (!(seen & (SEEN_ATTRIBUTES | SEEN_REQUESTS)))
        return refuse(parse, "attributes", none, "is missing", none,
                      "send an object, {} for a request without any");
    *is_batch = (seen & SEEN_REQUESTS) != 0;
    return true;
}

/* One request of a batch, or the only one. */
static bool read_request(struct parse *parse, enum json_token token)
{
    bool is_batch;
    if (token != TOKEN_OBJECT)
        return refuse_type(parse, token, "", none, "send an object: {\"attributes\": {...}}");
    return read_members(parse, &parse->storage->requests[parse->request_count++], false, &is_batch);
}

static bool read_requests(struct parse *parse, struct check_request *request)
{
    enum json_token token = json_next(&parse->json);
    (void)request; /* the outermost object is no request itself; its place is the first item's */
    if (token != TOKEN_ARRAY)
        return refuse_type(parse, token, "requests", none, "send an array of up to 1000 requests");
    parse->request_count = 0;
    while ((token = json_next(&parse->json)) != TOKEN_ARRAY_END) {
        if (token == TOKEN_ERROR)
            return refuse_syntax(parse);
        if (parse->request_count == CHECK_REQUESTS_MAX || parse->request_count == parse->storage->request_cap)
            return refuse(parse, "requests", none, "has more than 1000 items", none, "send several batches");
        parse->index = parse->request_count;
        if (!read_request(parse, token))
            return false;
        parse->index = NO_INDEX;
    }
    return true;
}

int check_parse(const struct check_storage *storage, const char *body, size_t len, struct check_body *out,
                struct check_fault *fault)
{
    struct parse parse = { .storage = storage, .fault = fault, .index = NO_INDEX, .request_count = 1 };
    bool is_batch = false;
    json_init(&parse.json, body, len, storage->scratch, storage->scratch_cap);
    enum json_token token = json_next(&parse.json);
    if (token != TOKEN_OBJECT) {
        (void)refuse_type(&parse, token, "", none, "send an object: {\"attributes\": {...}}");
        return -1;
    }
    if (!read_members(&parse, &storage->requests[0], true, &is_batch))
        return -1;
    if (json_next(&parse.json) != TOKEN_END) {
        (void)refuse_syntax(&parse);
        return -1;
    }
    *out = (struct check_body){ .is_batch = is_batch,
                                .count = parse.request_count,
                                .requests = storage->requests };
    return 0;
}

void check_fault_attribute(struct check_fault *fault, const struct check_body *body, size_t index,
                           size_t attribute, const char *text)
{
    const struct weir_request *ask = &body->requests[index].ask;
    bool has_attribute = attribute < ask->attribute_count;
    struct text message = message_of(fault);
    set_field(fault, body->is_batch ? index : NO_INDEX, has_attribute ? "attributes" : "",
              has_attribute ? slice_of(ask->attributes[attribute].name) : none);
    text_string(&message, text);
    terminate(&message);
}
