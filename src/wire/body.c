// SPDX-License-Identifier: Apache-2.0
/* body.c - one pass over a body, by its tables; see body.h. */
#include "wire/body.h"

/* ---- Faults ---------------------------------------------------------------------------------------------- */

const struct slice body_none;

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

void body_set_field(struct check_fault *fault, size_t index, const char *member, struct slice name)
{
    struct text field = text_of(fault->field, sizeof fault->field - 1);
    if (index != BODY_NO_INDEX) {
        text_literal(&field, "requests[");
        text_u64(&field, index);
        text_literal(&field, "]");
    }
    if (index != BODY_NO_INDEX && (*member != '\0' || name.len > 0))
        text_literal(&field, ".");
    text_string(&field, member);
    if (*member != '\0' && name.len > 0)
        text_literal(&field, ".");
    quote(&field, name);
    terminate(&field);
}

void body_set_message(struct check_fault *fault, const char *message)
{
    struct text text = message_of(fault);
    text_string(&text, message);
    terminate(&text);
}

static bool refuse(struct body *body, const char *member, struct slice name, const char *what,
                   struct slice value, const char *mark, const char *cure)
{
    struct text message = message_of(body->fault);
    body_set_field(body->fault, body->index, member, name);
    text_string(&message, body->fault->field[0] == '\0' ? "the body" : body->fault->field);
    text_literal(&message, " ");
    text_string(&message, what);
    text_string(&message, mark);
    quote(&message, value);
    text_string(&message, mark);
    text_literal(&message, ": ");
    text_string(&message, cure);
    terminate(&message);
    return false;
}

bool body_refuse(struct body *body, const char *member, struct slice name, const char *what, struct slice value,
                 const char *cure)
{
    return refuse(body, member, name, what, value, "", cure);
}

bool body_refuse_string(struct body *body, const char *member, struct slice name, const char *cure)
{
    return refuse(body, member, name, "is ", body->json.text, "\"", cure);
}

bool body_refuse_syntax(struct body *body)
{
    struct text message = message_of(body->fault);
    size_t line, column;
    json_position(&body->json, &line, &column);
    body->fault->field[0] = '\0';
    text_literal(&message, "the body is not valid JSON: line ");
    text_u64(&message, line);
    text_literal(&message, ", column ");
    text_u64(&message, column);
    text_literal(&message, ": ");
    text_string(&message, body->json.error);
    terminate(&message);
    return false;
}

bool body_refuse_type(struct body *body, enum json_token token, const char *member, struct slice name,
                      const char *cure)
{
    bool has_text = token == TOKEN_NUMBER || token == TOKEN_TRUE || token == TOKEN_FALSE;
    if (token == TOKEN_ERROR)
        return body_refuse_syntax(body);
    if (token == TOKEN_STRING)
        return body_refuse_string(body, member, name, cure);
    return body_refuse(body, member, name, "is ", has_text ? body->json.text : slice_of(json_token_name(token)),
                       cure);
}

/* ---- Objects --------------------------------------------------------------------------------------------- */

static size_t find_member(const struct body_object *object, struct slice name)
{
    size_t i = 0;
    while (i < object->count && !slice_equals(name, object->members[i].name))
        i++;
    return i;
}

bool body_members(struct body *body, const struct body_object *object, void *into, unsigned *seen)
{
    unsigned alone = 0;
    enum json_token token;
    *seen = 0;
    while ((token = json_next(&body->json)) == TOKEN_NAME) {
        struct slice name = body->json.text;
        size_t i = find_member(object, name);
        if (i == object->count)
            return body_refuse(body, "", name, object->noun, body_none, object->fields);
        if (*seen & 1u << i)
            return body_refuse(body, "", name, "is given twice", body_none, "give each field once");
        *seen |= 1u << i;
        alone |= object->members[i].is_alone ? 1u << i : 0;
        if (alone != 0 && *seen != alone)
            return body_refuse(body, "", name, "stands beside other fields", body_none,
                               "a batch has only requests, and each of them its own fields");
        if (!object->members[i].read(body, into))
            return false;
    }
    return token != TOKEN_ERROR || body_refuse_syntax(body);
}

bool body_begin(struct body *body, const char *at, size_t len, const char *example)
{
    json_init(&body->json, at, len, body->storage->scratch, body->storage->scratch_cap);
    enum json_token token = json_next(&body->json);
    return token == TOKEN_OBJECT || body_refuse_type(body, token, "", body_none, example);
}

bool body_end(struct body *body)
{
    return json_next(&body->json) == TOKEN_END || body_refuse_syntax(body);
}

/* ---- Values ---------------------------------------------------------------------------------------------- */

bool body_cost(struct body *body, uint64_t *out)
{
    static const char cure[] = "send an integer from 0 to 9223372036854775807";
    enum json_token token = json_next(&body->json);
    if (token != TOKEN_NUMBER || !slice_to_u64(body->json.text, BODY_COST_MAX, out))
        return body_refuse_type(body, token, "cost", body_none, cure);
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

bool body_seconds(struct body *body, const char *member, weir_ns least, weir_ns most, const char *cure,
                  weir_ns *out)
{
    weir_ns value;
    enum json_token token = json_next(&body->json);
    if (token != TOKEN_NUMBER || !seconds_to_ns(body->json.text, &value) || value < least || value > most)
        return body_refuse_type(body, token, member, body_none, cure);
    *out = value;
    return true;
}

/* How long the caller can wait. More than its limit allows is no mistake: the smaller counts. */
bool body_wait(struct body *body, weir_ns *out)
{
    return body_seconds(body, "wait", 0, WEIR_WAIT_MAX,
                        "send seconds as a number, such as 1.5, from 0 to 86400 and with at most nine decimals",
                        out);
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
    return slice_find_control(text) < text.len;
}

static bool read_attribute_value(struct body *body, const char *member, struct weir_attribute *attribute,
                                 struct slice name)
{
    static const char cure[] = "send a string, an integer or a boolean";
    enum json_token token = json_next(&body->json);
    struct slice value = body->json.text;
    uint64_t magnitude;
    bool is_negative;
    if (token == TOKEN_NUMBER) {
        if (!json_to_integer(value, &magnitude, &is_negative) || (is_negative && magnitude > (uint64_t)1 << 63))
            return body_refuse(body, member, name, "is ", value, "send an integer of 64 bits, or a string");
        if (magnitude == 0)
            value = SLICE("0"); /* -0 is the same number, so it must be the same key */
    } else if (token != TOKEN_STRING && token != TOKEN_TRUE && token != TOKEN_FALSE) {
        return body_refuse_type(body, token, member, name, cure);
    }
    if (value.len > WEIR_ATTRIBUTE_MAX)
        return body_refuse_string(body, member, name, "a value has at most 1024 bytes");
    if (has_control(value))
        return body_refuse_string(body, member, name, "a value must not hold control characters");
    attribute->value = value.len == 0 ? "" : value.at;
    attribute->len = value.len;
    return true;
}

/* The attribute named json.text, if that may be one, is added without its value. */
static bool add_attribute(struct body *body, const char *member, struct weir_request *request,
                          struct slice name)
{
    struct weir_attribute *attributes = body->storage->attributes + body->attribute_count;
    size_t count = request->attribute_count;
    if (!is_attribute_name(name))
        return body_refuse(body, member, name, "is no attribute name", body_none,
                           "use 1 to 32 of a-z, 0-9 and `-`, a letter first");
    for (size_t i = 0; i < count; i++)
        if (strlen(attributes[i].name) == name.len && memcmp(attributes[i].name, name.at, name.len) == 0)
            return body_refuse(body, member, name, "is given twice", body_none, "give each attribute once");
    if (count == WEIR_ATTRIBUTES_MAX)
        return body_refuse(body, member, body_none, "has more than 32 members", body_none,
                           "send those that limits read");
    const char *kept = keep_name(&body->json, name);
    if (kept == NULL || body->attribute_count + count == body->storage->attribute_cap)
        return body_refuse(body, member, body_none, "has no room", body_none, "send a smaller batch");
    attributes[count].name = kept;
    request->attribute_count = count + 1;
    return true;
}

bool body_attributes(struct body *body, const char *member, struct weir_request *request)
{
    enum json_token token = json_next(&body->json);
    if (token != TOKEN_OBJECT)
        return body_refuse_type(body, token, member, body_none, "send an object: {\"tenant\": \"acme\"}");
    struct weir_attribute *attributes = body->storage->attributes + body->attribute_count;
    while ((token = json_next(&body->json)) == TOKEN_NAME) {
        struct slice name = body->json.text;
        if (!add_attribute(body, member, request, name)
            || !read_attribute_value(body, member, &attributes[request->attribute_count - 1], name))
            return false;
    }
    if (token == TOKEN_ERROR)
        return body_refuse_syntax(body);
    request->attributes = attributes;
    body->attribute_count += request->attribute_count;
    return true;
}

bool body_string(struct body *body, const char *member, size_t max, const char *cure, const char **out)
{
    enum json_token token = json_next(&body->json);
    struct slice text = body->json.text;
    if (token != TOKEN_STRING)
        return body_refuse_type(body, token, member, body_none, cure);
    if (text.len == 0 || text.len > max || has_control(text))
        return body_refuse_string(body, member, body_none, cure);
    *out = keep_name(&body->json, text);
    return *out != NULL || body_refuse(body, member, body_none, "has no room", body_none, cure);
}
