// SPDX-License-Identifier: Apache-2.0
/*
 * check.c - one pass over a check body: a request, or a batch of them.
 *
 * A batch is read whole before any of it counts. Elsewhere: members, values and faults (body.c).
 */
#include "wire/body.h"

/* ---- Members --------------------------------------------------------------------------------------------- */

static bool read_attributes(struct body *body, void *into)
{
    struct check_request *request = into;
    return body_attributes(body, "attributes", &request->ask);
}

static bool read_cost(struct body *body, void *into)
{
    struct check_request *request = into;
    return body_cost(body, &request->ask.cost);
}

static bool read_mode(struct body *body, void *into)
{
    static const char cure[] = "send \"take\" or \"peek\"";
    struct check_request *request = into;
    enum json_token token = json_next(&body->json);
    if (token != TOKEN_STRING)
        return body_refuse_type(body, token, "mode", body_none, cure);
    request->ask.is_peek = slice_equals(body->json.text, SLICE("peek"));
    if (!request->ask.is_peek && !slice_equals(body->json.text, SLICE("take")))
        return body_refuse_string(body, "mode", body_none, cure);
    return true;
}

static bool read_wait(struct body *body, void *into)
{
    struct check_request *request = into;
    if (body->index != BODY_NO_INDEX)
        return body_refuse(body, "wait", body_none, "is for a request that stands alone", body_none,
                           "a batch is answered whole; send this one by itself");
    return body_wait(body, &request->ask.wait);
}

static bool read_requests(struct body *body, void *into);

/* ---- Requests -------------------------------------------------------------------------------------------- */

static const struct body_member members[] = {
    { { "attributes", 10 }, read_attributes, false }, /* first: a request without it is refused */
    { { "cost", 4 }, read_cost, false },
    { { "mode", 4 }, read_mode, false },
    { { "wait", 4 }, read_wait, false },
    { { "requests", 8 }, read_requests, true }, /* last: only in the outermost object */
};
#define MEMBER_COUNT (sizeof members / sizeof *members)
#define SEEN_ATTRIBUTES 1u
#define SEEN_REQUESTS (1u << (MEMBER_COUNT - 1))

/*
 * The members of an object whose `{` is read. `is_outer`: it may be a batch, *is_batch then says so.
 */
static bool read_members(struct body *body, struct check_request *request, bool is_outer, bool *is_batch)
{
    const struct body_object object = {
        members, is_outer ? MEMBER_COUNT : MEMBER_COUNT - 1, "is no field of a check",
        "the fields are attributes, cost, mode, wait, or requests for a batch"
    };
    unsigned seen;
    *request = (struct check_request){ .ask = { .cost = 1 } };
    if (!body_members(body, &object, request, &seen))
        return false;
    if (!(seen & (SEEN_ATTRIBUTES | SEEN_REQUESTS)))
        return body_refuse(body, "attributes", body_none, "is missing", body_none,
                           "send an object, {} for a request without any");
    if (request->ask.is_peek && request->ask.wait > 0)
        return body_refuse(body, "wait", body_none, "stands beside \"mode\": \"peek\"", body_none,
                           "a look is answered at once; leave one of them out");
    *is_batch = (seen & SEEN_REQUESTS) != 0;
    return true;
}

static const char example[] = "send an object: {\"attributes\": {...}}";

/* One request of a batch. */
static bool read_request(struct body *body, enum json_token token)
{
    bool is_batch;
    if (token != TOKEN_OBJECT)
        return body_refuse_type(body, token, "", body_none, example);
    return read_members(body, &body->storage->requests[body->request_count++], false, &is_batch);
}

static bool read_requests(struct body *body, void *into)
{
    enum json_token token = json_next(&body->json);
    (void)into; /* the outermost object is no request itself; its place is the first item's */
    if (token != TOKEN_ARRAY)
        return body_refuse_type(body, token, "requests", body_none, "send an array of up to 1000 requests");
    body->request_count = 0;
    while ((token = json_next(&body->json)) != TOKEN_ARRAY_END) {
        if (token == TOKEN_ERROR)
            return body_refuse_syntax(body);
        if (body->request_count == CHECK_REQUESTS_MAX || body->request_count == body->storage->request_cap)
            return body_refuse(body, "requests", body_none, "has more than 1000 items", body_none,
                               "send several batches");
        body->index = body->request_count;
        if (!read_request(body, token))
            return false;
        body->index = BODY_NO_INDEX;
    }
    return true;
}

int check_parse(const struct check_storage *storage, const char *at, size_t len, struct check_body *out,
                struct check_fault *fault)
{
    struct body body = { .storage = storage, .fault = fault, .index = BODY_NO_INDEX, .request_count = 1 };
    bool is_batch = false;
    if (!body_begin(&body, at, len, example) || !read_members(&body, &storage->requests[0], true, &is_batch)
        || !body_end(&body))
        return -1;
    *out =
        (struct check_body){ .is_batch = is_batch, .count = body.request_count, .requests = storage->requests };
    return 0;
}

void check_fault_attribute(struct check_fault *fault, const struct check_body *body, size_t index,
                           size_t attribute, const char *message)
{
    const struct weir_request *ask = &body->requests[index].ask;
    bool has_attribute = attribute < ask->attribute_count;
    body_set_field(fault, body->is_batch ? index : BODY_NO_INDEX, has_attribute ? "attributes" : "",
                   has_attribute ? slice_of(ask->attributes[attribute].name) : body_none);
    body_set_message(fault, message);
}
