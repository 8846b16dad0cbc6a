// SPDX-License-Identifier: Apache-2.0
/*
 * rls_json.c - a call of Envoy's rate limit service as JSON, by protobuf's mapping; see rls.h.
 *
 * Each message is a table of members, which may be written in lowerCamelCase or as in the .proto file; null is as absent. Integers
 * may stand in quotes. What is in no table is refused, as the reference server does; 1.0 and 1e3 are no integers here.
 *
 * Elsewhere: what a call must have (rls_call.c), the answer (rls_json_write.c).
 */
#include "wire/json.h"
#include "wire/rls_call.h"

struct reading {
    struct json json;
    struct rls_call *out;
    enum rls_fault
        fault; /* what a reader that returned false has found; RLS_GOOD: its member's `want` says it */
    const char *why;
    uint64_t own; /* bit i: descriptor i has its own hits */
    uint64_t hits;
    size_t used; /* of out->entries */
};

struct member {
    struct slice name, proto_name;
    const char *want; /* the sentence where its value is of another type */
    bool (*read)(struct reading *reading, enum json_token token, void *into);
    size_t offset; /* of what it fills in `into` */
};

struct object {
    const struct member *members;
    size_t count; /* at most 32 */
    const char *unknown;
};

static bool refuse(struct reading *reading, enum rls_fault fault, const char *why)
{
    reading->fault = fault;
    reading->why = why;
    return false;
}

static const struct member *find(const struct object *object, struct slice name)
{
    for (size_t i = 0; i < object->count; i++)
        if (slice_equals(name, object->members[i].name) || slice_equals(name, object->members[i].proto_name))
            return &object->members[i];
    return NULL;
}

static bool read_member(struct reading *reading, const struct member *member, void *into)
{
    enum json_token token = json_next(&reading->json);
    if (token == TOKEN_NULL)
        return true;
    if (token == TOKEN_ERROR)
        return refuse(reading, RLS_BAD, reading->json.error);
    if (member->read(reading, token, (char *)into + member->offset))
        return true;
    return reading->fault != RLS_GOOD ? false : refuse(reading, RLS_BAD, member->want);
}

/* The members of an object, whose `{` is `token`. */
static bool read_object(struct reading *reading, enum json_token token, const struct object *object, void *into)
{
    unsigned seen = 0;
    if (token != TOKEN_OBJECT)
        return token != TOKEN_ERROR ? false : refuse(reading, RLS_BAD, reading->json.error);
    while ((token = json_next(&reading->json)) == TOKEN_NAME) {
        const struct member *member = find(object, reading->json.text);
        if (member == NULL)
            return refuse(reading, RLS_BAD, object->unknown);
        unsigned bit = 1u << (member - object->members);
        if ((seen & bit) != 0)
            return refuse(reading, RLS_BAD, "a field is given twice: give each once");
        seen |= bit;
        if (!read_member(reading, member, into))
            return false;
    }
    return token != TOKEN_ERROR || refuse(reading, RLS_BAD, reading->json.error);
}

/* ---- Values ---------------------------------------------------------------------------------------------- */

static bool read_text(struct reading *reading, enum json_token token, void *into)
{
    struct slice *out = into;
    *out = reading->json.text;
    return token == TOKEN_STRING;
}

static bool read_u64(struct reading *reading, enum json_token token, void *into)
{
    bool is_negative;
    return (token == TOKEN_NUMBER || token == TOKEN_STRING)
           && json_to_integer(reading->json.text, into, &is_negative) && !is_negative;
}

static bool read_u32(struct reading *reading, enum json_token token, void *into)
{
    uint64_t value;
    uint32_t *out = into;
    if (!read_u64(reading, token, &value) || value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool read_bool(struct reading *reading, enum json_token token, void *into)
{
    bool *out = into;
    (void)reading;
    *out = token == TOKEN_TRUE;
    return token == TOKEN_TRUE || token == TOKEN_FALSE;
}

static bool read_unit(struct reading *reading, enum json_token token, void *into)
{
    static const struct slice names[] = {
        [RLS_UNKNOWN_UNIT] = { "UNKNOWN", 7 },
        [RLS_SECOND] = { "SECOND", 6 },
        [RLS_MINUTE] = { "MINUTE", 6 },
        [RLS_HOUR] = { "HOUR", 4 },
        [RLS_DAY] = { "DAY", 3 },
        [RLS_MONTH] = { "MONTH", 5 },
        [RLS_YEAR] = { "YEAR", 4 },
    };
    enum rls_unit *out = into;
    uint64_t number;
    bool is_negative;
    if (token == TOKEN_NUMBER && json_to_integer(reading->json.text, &number, &is_negative)
        && number <= INT32_MAX) {
        *out = is_negative ? RLS_UNKNOWN_UNIT : rls_call_unit((int64_t)number);
        return true;
    }
    for (size_t i = 0; token == TOKEN_STRING && i < sizeof names / sizeof *names; i++) {
        if (slice_equals(reading->json.text, names[i])) {
            *out = (enum rls_unit)i;
            return true;
        }
    }
    return false;
}

/* ---- Messages -------------------------------------------------------------------------------------------- */

static bool read_limit(struct reading *reading, enum json_token token, void *into)
{
    static const struct member members[] = {
        { { "requestsPerUnit", 15 },
          { "requests_per_unit", 17 },
          "requestsPerUnit must be an integer from 0 to 4294967295",
          read_u32,
          offsetof(struct rls_asked, requests_per_unit) },
        { { "unit", 4 },
          { "unit", 4 },
          "unit must be SECOND, MINUTE, HOUR, DAY, MONTH or YEAR",
          read_unit,
          offsetof(struct rls_asked, unit) },
        { { "unitMultiplier", 14 },
          { "unit_multiplier", 15 },
          "unitMultiplier must be an integer from 1 to 4294967295",
          read_u32,
          offsetof(struct rls_asked, unit_multiplier) },
    };
    static const struct object object = { members, sizeof members / sizeof *members,
                                          "a field of a limit is not known: it has requestsPerUnit, unit and "
                                          "unitMultiplier" };
    struct rls_asked *asked = into;
    asked->has_limit = true;
    return read_object(reading, token, &object, into);
}

struct entry {
    struct slice key, value;
};

static bool read_entry(struct reading *reading, enum json_token token, struct weir_entry *out)
{
    static const struct member members[] = {
        { { "key", 3 }, { "key", 3 }, "key must be a string", read_text, offsetof(struct entry, key) },
        { { "value", 5 }, { "value", 5 }, "value must be a string", read_text, offsetof(struct entry, value) },
    };
    static const struct object object = { members, sizeof members / sizeof *members,
                                          "a field of an entry is not known: it has key and value" };
    struct entry entry = { { NULL, 0 }, { NULL, 0 } };
    if (!read_object(reading, token, &object, &entry))
        return false;
    *out = (struct weir_entry){ entry.key.at, entry.value.at, entry.key.len, entry.value.len };
    return true;
}

/* Of the descriptor that is being read, which is the last; `into` is not used. */
static bool read_entries(struct reading *reading, enum json_token token, void *into)
{
    struct weir_descriptor *descriptor = &reading->out->descriptors[reading->out->count - 1];
    (void)into;
    if (token != TOKEN_ARRAY)
        return false;
    while ((token = json_next(&reading->json)) != TOKEN_ARRAY_END) {
        if (descriptor->entry_count == WEIR_ENTRIES_MAX)
            return refuse(reading, RLS_TOO_MUCH, RLS_WHY_ENTRIES);
        if (!read_entry(reading, token, &reading->out->entries[reading->used]))
            return false;
        reading->used++;
        descriptor->entry_count++;
    }
    return true;
}

static bool read_hits(struct reading *reading, enum json_token token, void *into)
{
    struct rls_asked *asked = into;
    reading->own |= UINT64_C(1) << (reading->out->count - 1);
    return read_u64(reading, token, &asked->hits);
}

static bool read_descriptor(struct reading *reading, enum json_token token)
{
    static const struct member members[] = {
        { { "entries", 7 },
          { "entries", 7 },
          "entries must be a list of objects with key and value",
          read_entries,
          0 },
        { { "limit", 5 },
          { "limit", 5 },
          "limit must be an object with requestsPerUnit and unit",
          read_limit,
          0 },
        { { "hitsAddend", 10 },
          { "hits_addend", 11 },
          "hitsAddend must be an integer of 0 or more",
          read_hits,
          0 },
        { { "isNegativeHits", 14 },
          { "is_negative_hits", 16 },
          "isNegativeHits must be true or false",
          read_bool,
          offsetof(struct rls_asked, is_refund) },
    };
    static const struct object object = {
        members, sizeof members / sizeof *members,
        "a field of a descriptor is not known: it has entries, limit, hitsAddend "
        "and isNegativeHits"
    };
    struct rls_call *call = reading->out;
    call->descriptors[call->count] = (struct weir_descriptor){ call->entries + reading->used, 0 };
    call->asked[call->count] = (struct rls_asked){ .hits = 0 };
    call->count++;
    return read_object(reading, token, &object, &call->asked[call->count - 1]);
}

static bool read_descriptors(struct reading *reading, enum json_token token, void *into)
{
    (void)into;
    if (token != TOKEN_ARRAY)
        return false;
    while ((token = json_next(&reading->json)) != TOKEN_ARRAY_END) {
        if (reading->out->count == WEIR_DESCRIPTORS_MAX)
            return refuse(reading, RLS_TOO_MUCH, RLS_WHY_DESCRIPTORS);
        if (!read_descriptor(reading, token))
            return false;
    }
    return true;
}

static bool read_call_hits(struct reading *reading, enum json_token token, void *into)
{
    (void)into;
    return read_u64(reading, token, &reading->hits) && reading->hits <= UINT32_MAX;
}

static bool read_call(struct reading *reading)
{
    static const struct member members[] = {
        { { "domain", 6 },
          { "domain", 6 },
          "domain must be a string",
          read_text,
          offsetof(struct rls_call, domain) },
        { { "descriptors", 11 },
          { "descriptors", 11 },
          "descriptors must be a list of objects with entries",
          read_descriptors,
          0 },
        { { "hitsAddend", 10 },
          { "hits_addend", 11 },
          "hitsAddend must be an integer from 0 to 4294967295",
          read_call_hits,
          0 },
    };
    static const struct object object = { members, sizeof members / sizeof *members,
                                          "a field of a call is not known: it has domain, descriptors and "
                                          "hitsAddend" };
    if (!read_object(reading, json_next(&reading->json), &object, reading->out))
        return reading->fault != RLS_GOOD
                   ? false
                   : refuse(reading, RLS_BAD, "the body must be an object with domain and descriptors");
    return json_next(&reading->json) == TOKEN_END || refuse(reading, RLS_BAD, reading->json.error);
}

enum rls_fault rls_json_read(struct slice body, void *room, size_t room_len, struct rls_call *out,
                             const char **why)
{
    struct reading reading = { .out = out, .fault = RLS_GOOD };
    if (body.len > RLS_CALL_MAX)
        return rls_fault_of(RLS_TOO_MUCH, RLS_WHY_LARGE, why);
    out->domain = (struct slice){ NULL, 0 };
    out->count = 0;
    json_init(&reading.json, body.at, body.len, room, room_len);
    if (!read_call(&reading))
        return rls_fault_of(reading.fault, reading.why, why);
    return rls_call_finish(out, reading.own, (uint32_t)reading.hits, why);
}
