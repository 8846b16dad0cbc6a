// SPDX-License-Identifier: Apache-2.0
/* call.c - one table of members for each call; see call.h. */
#include "wire/call.h"

#include "wire/base64url.h"
#include "wire/body.h"

const char *call_outcome_name(enum call_outcome outcome)
{
    static const char *const names[] = {
        [CALL_OK] = "ok", [CALL_FAILED] = "failed", [CALL_DROPPED] = "dropped"
    };
    static_assert(sizeof names / sizeof *names == CALL_OUTCOME_COUNT, "every outcome has a name");
    return names[outcome];
}

/* ---- Members --------------------------------------------------------------------------------------------- */

static bool read_attributes(struct body *body, void *into)
{
    struct call_body *out = into;
    return body_attributes(body, "attributes", &out->ask);
}

static bool read_key(struct body *body, void *into)
{
    struct call_body *out = into;
    return body_attributes(body, "key", &out->ask);
}

static bool read_cost(struct body *body, void *into)
{
    struct call_body *out = into;
    return body_cost(body, &out->ask.cost);
}

static bool read_wait(struct body *body, void *into)
{
    struct call_body *out = into;
    return body_wait(body, &out->ask.wait);
}

static bool read_expires_after(struct body *body, void *into)
{
    struct call_body *out = into;
    return body_seconds(body, "expires_after", 1, CALL_EXPIRES_AFTER_MAX,
                        "send seconds as a number above 0 and up to 86400 with at most nine decimals",
                        &out->expires_after);
}

static bool read_limit(struct body *body, void *into)
{
    struct call_body *out = into;
    return body_string(body, "limit", WEIR_NAME_MAX, "send the name of a limit", &out->limit);
}

/*
 * The bytes of a text that an earlier call answered; `own_max`: of the part that is ours. They are fewer than the text: in
 * scratch they take its place where it had escapes, and else what its quotes in the body are the room for.
 */
static bool read_handle(struct body *body, struct call_body *out, const char *member, size_t own_max,
                        const char *cure)
{
    struct json *json = &body->json;
    enum json_token token = json_next(json);
    struct slice text = json->text;
    if (token != TOKEN_STRING)
        return body_refuse_type(body, token, member, body_none, cure);
    char *end = json->scratch + json->scratch_len;
    bool is_there = json->scratch_len >= text.len && text.at == end - text.len;
    char *at = is_there ? end - text.len : end;
    size_t room = (size_t)(json->scratch + json->scratch_cap - at), len;
    if (text.len == 0 || !base64url_decode(text, (unsigned char *)at, room < TOKEN_MAX ? room : TOKEN_MAX, &len)
        || !token_split((struct slice){ at, len }, own_max, &out->token))
        return body_refuse_string(body, member, body_none, cure);
    json->scratch_len = (size_t)(at - json->scratch) + len;
    out->handle = (struct slice){ at, len };
    return true;
}

static bool read_reservation(struct body *body, void *into)
{
    return read_handle(body, into, "reservation", WEIR_RESERVATION_MAX,
                       "send the text that /v1/reserve answered");
}

static bool read_permit(struct body *body, void *into)
{
    return read_handle(body, into, "permit", WEIR_PERMIT_MAX, "send the text that /v1/acquire answered");
}

static bool read_bind(struct body *body, void *into)
{
    static const char cure[] = "send \"connection\", or leave it out";
    struct call_body *out = into;
    enum json_token token = json_next(&body->json);
    if (token != TOKEN_STRING)
        return body_refuse_type(body, token, "bind", body_none, cure);
    out->is_bound = slice_equals(body->json.text, SLICE("connection"));
    return out->is_bound || body_refuse_string(body, "bind", body_none, cure);
}

static bool read_outcome(struct body *body, void *into)
{
    static const char cure[] = "send \"ok\", \"failed\" or \"dropped\"";
    struct call_body *out = into;
    enum json_token token = json_next(&body->json);
    if (token != TOKEN_STRING)
        return body_refuse_type(body, token, "outcome", body_none, cure);
    for (enum call_outcome i = 0; i < CALL_OUTCOME_COUNT; i++) {
        out->outcome = i;
        if (slice_equals(body->json.text, slice_of(call_outcome_name(i))))
            return true;
    }
    return body_refuse_string(body, "outcome", body_none, cure);
}

/* ---- Calls ----------------------------------------------------------------------------------------------- */

/* The members that a call must have stand first. */
static const struct body_member reserve_members[] = {
    { { "attributes", 10 }, read_attributes, false },
    { { "cost", 4 }, read_cost, false },
    { { "expires_after", 13 }, read_expires_after, false },
    { { "wait", 4 }, read_wait, false },
};
static const struct body_member settle_members[] = {
    { { "reservation", 11 }, read_reservation, false },
    { { "cost", 4 }, read_cost, false },
};
static const struct body_member refund_members[] = {
    { { "attributes", 10 }, read_attributes, false },
    { { "cost", 4 }, read_cost, false },
};
static const struct body_member reset_members[] = {
    { { "limit", 5 }, read_limit, false },
    { { "key", 3 }, read_key, false },
};
static const struct body_member acquire_members[] = {
    { { "attributes", 10 }, read_attributes, false },
    { { "cost", 4 }, read_cost, false },
    { { "wait", 4 }, read_wait, false },
    { { "bind", 4 }, read_bind, false },
};
static const struct body_member release_members[] = {
    { { "permit", 6 }, read_permit, false },
    { { "outcome", 7 }, read_outcome, false },
};

static const struct {
    struct body_object object;
    size_t required; /* so many members in front */
    const char *example;
} calls[CALL_COUNT] = {
    [CALL_RESERVE] = { { reserve_members, 4, "is no field of a reserve",
                         "the fields are attributes, cost, expires_after and wait" },
                       1,
                       "send an object: {\"attributes\": {...}, \"cost\": 500}" },
    [CALL_SETTLE] = { { settle_members, 2, "is no field of a settle", "the fields are reservation and cost" },
                      2,
                      "send an object: {\"reservation\": \"...\", \"cost\": 321}" },
    [CALL_CANCEL] = { { settle_members, 1, "is no field of a cancel", "the only field is reservation" },
                      1,
                      "send an object: {\"reservation\": \"...\"}" },
    [CALL_REFUND] = { { refund_members, 2, "is no field of a refund", "the fields are attributes and cost" },
                      2,
                      "send an object: {\"attributes\": {...}, \"cost\": 100}" },
    [CALL_RESET] = { { reset_members, 2, "is no field of a reset", "the fields are limit and key" },
                     2,
                     "send an object: {\"limit\": \"...\", \"key\": {...}}" },
    [CALL_ACQUIRE] = { { acquire_members, 4, "is no field of an acquire",
                         "the fields are attributes, cost, wait and bind" },
                       1,
                       "send an object: {\"attributes\": {...}}" },
    [CALL_RENEW] = { { release_members, 1, "is no field of a renew", "the only field is permit" },
                     1,
                     "send an object: {\"permit\": \"...\"}" },
    [CALL_RELEASE] = { { release_members, 2, "is no field of a release", "the fields are permit and outcome" },
                       1,
                       "send an object: {\"permit\": \"...\"}" },
};

/* Whether every member that must be there was seen. */
static bool is_complete(struct body *body, enum call call, unsigned seen)
{
    for (size_t i = 0; i < calls[call].required; i++)
        if (!(seen & 1u << i)) {
            /* The names of our tables end in a zero. */
            const char *name = calls[call].object.members[i].name.at;
            return body_refuse(body, name, body_none, "is missing", body_none, calls[call].example);
        }
    return true;
}

void call_body_init(struct call_body *out)
{
    out->ask = (struct weir_request){ .cost = 1 };
    out->expires_after = CALL_EXPIRES_AFTER;
    out->limit = NULL;
    out->is_bound = false;
    out->outcome = CALL_OK;
    out->handle = SLICE("");
    out->token = (struct token){ .own = { NULL, 0 } };
}

int call_parse(enum call call, const struct check_storage *storage, const char *at, size_t len,
               struct call_body *out, struct check_fault *fault)
{
    struct body body = { .storage = storage, .fault = fault, .index = BODY_NO_INDEX };
    unsigned seen;
    call_body_init(out);
    bool is_good = body_begin(&body, at, len, calls[call].example)
                   && body_members(&body, &calls[call].object, out, &seen) && is_complete(&body, call, seen)
                   && body_end(&body);
    return is_good ? 0 : -1;
}

void call_fault_attribute(struct check_fault *fault, enum call call, const struct call_body *body,
                          size_t attribute, const char *message)
{
    const struct weir_request *ask = &body->ask;
    const char *member = call == CALL_RESET ? "key" : "attributes";
    bool has_attribute = attribute < ask->attribute_count;
    body_set_field(fault, BODY_NO_INDEX, has_attribute || call == CALL_RESET ? member : "",
                   has_attribute ? slice_of(ask->attributes[attribute].name) : body_none);
    body_set_message(fault, message);
}
