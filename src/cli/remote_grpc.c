// SPDX-License-Identifier: Apache-2.0
/*
 * remote_grpc.c - ShouldRateLimit from a client's side, on nghttp2.
 */
#include "cli/remote_grpc.h"

#ifdef WEIR_TEST_HOOKS

#include <inttypes.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/grpc.h"
#include "wire/protobuf.h"
#include "wire/rls.h"

/* Numbers of an answer have 32 bits. */
#define TOLD_MAX UINT32_MAX

/* ---- What can be said ------------------------------------------------------------------------------------ */

static bool expects_odd_outcome(const struct timeline_step *step)
{
    for (int i = 0; i < STEP_COUNTS; i++)
        if (step->counts[i] > 0 && i != WEIR_ALLOW && i != WEIR_DENY && i != WEIR_NEVER)
            return true;
    return step->last.value.outcome != WEIR_ALLOW && step->last.value.outcome != WEIR_DENY
           && step->last.value.outcome != WEIR_NEVER;
}

static bool expects_large_number(const struct timeline_step *step)
{
    const struct verdict_limit *value = &step->last.value;
    return (value->has_capacity && value->capacity >= TOLD_MAX)
           || (value->has_remaining && value->remaining >= TOLD_MAX);
}

const char *remote_grpc_unsayable(const struct timeline_step *step)
{
    if (step->kind != STEP_REQUEST)
        return "only checks have a call";
    if (step->may_wait)
        return "it may wait";
    if (step->request.is_peek || step->request.cost == 0)
        return "a look is for a cost of 0, of all limits";
    if (step->request.attribute_count > WEIR_ENTRIES_MAX)
        return "a descriptor has 24 entries at most";
    if (step->last.effect.error != NULL)
        return "what is no attribute is over its limit";
    if (expects_odd_outcome(step))
        return "who passes uncounted is told no more than OK";
    if (step->has_limits && step->counts[WEIR_ALLOW] > 0)
        return "of several limits one is told";
    if (expects_large_number(step))
        return "a number has more than 32 bits";
    return NULL;
}

/* ---- One call -------------------------------------------------------------------------------------------- */

struct remote_grpc_call {
    nghttp2_session *session;
    struct slice request; /* what of it is not sent yet */
    bool is_over;
    uint64_t code;
    char message[256]; /* what grpc-message says */
    struct text answer;
    char request_bytes[RLS_CALL_MAX + GRPC_PREFIX_LEN], answer_bytes[RLS_ANSWER_MAX + GRPC_PREFIX_LEN];
};

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user_data)
{
    struct remote_grpc_call *call = user_data;
    struct slice field = { (const char *)name, name_len }, said = { (const char *)value, value_len };
    (void)session;
    (void)frame;
    (void)flags;
    if (slice_equals(field, SLICE("grpc-status")) && !slice_to_u64(said, GRPC_CODE_COUNT, &call->code))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (slice_equals(field, SLICE("grpc-message")))
        (void)snprintf(call->message, sizeof call->message, "%.*s", (int)value_len, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t len,
                   void *user_data)
{
    struct remote_grpc_call *call = user_data;
    (void)session;
    (void)flags;
    (void)stream;
    text_bytes(&call->answer, (const char *)data, len);
    return call->answer.is_cut ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user_data)
{
    struct remote_grpc_call *call = user_data;
    (void)session;
    (void)stream;
    (void)error; /* without a status the call has failed, whatever ended it */
    call->is_over = true;
    return 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                            nghttp2_data_source *source, void *user_data)
{
    struct remote_grpc_call *call = user_data;
    size_t len = call->request.len < room ? call->request.len : room;
    (void)session;
    (void)stream;
    (void)source;
    memcpy(to, call->request.at, len);
    call->request.at += len;
    call->request.len -= len;
    if (call->request.len == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

static bool fail(struct remote_grpc *grpc, const char *what)
{
    (void)snprintf(grpc->client.error, sizeof grpc->client.error, "%.100s: %.200s", grpc->client.url, what);
    return false;
}

static bool open_call(struct remote_grpc *grpc)
{
    nghttp2_session_callbacks *callbacks = NULL;
    struct remote_grpc_call *call = calloc(1, sizeof *call);
    bool is_open = call != NULL && nghttp2_session_callbacks_new(&callbacks) == 0;
    if (is_open) {
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        is_open = nghttp2_session_client_new(&call->session, callbacks, call) == 0
                  && nghttp2_submit_settings(call->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0;
        nghttp2_session_callbacks_del(callbacks);
    }
    grpc->call = call;
    return is_open || fail(grpc, "out of memory");
}

void remote_grpc_close(struct remote_grpc *grpc)
{
    client_close(&grpc->client);
    if (grpc->call != NULL)
        nghttp2_session_del(grpc->call->session);
    free(grpc->call);
    grpc->call = NULL;
}

static bool connect_where_needed(struct remote_grpc *grpc)
{
    bool is_new;
    if (grpc->call != NULL && grpc->client.fd < 0)
        remote_grpc_close(grpc);
    return client_connect(&grpc->client, &is_new) && (!is_new || open_call(grpc));
}

/* ---- The question ---------------------------------------------------------------------------------------- */

static size_t value_len(const struct weir_attribute *attribute)
{
    return attribute->len > 0 || attribute->value == NULL ? attribute->len : strlen(attribute->value);
}

static size_t entry_len(const struct weir_attribute *attribute)
{
    return protobuf_bytes_len(strlen(attribute->name)) + protobuf_bytes_len(value_len(attribute));
}

/* RateLimitRequest { 1 domain, 2 descriptors { 1 entries { 1 key, 2 value }, 3 hits_addend { 1 value } } }; false: too long. */
static bool write_request(struct remote_grpc_call *call, const struct weir_request *request)
{
    static const struct slice domain = { "conformance", 11 };
    size_t hits_len = protobuf_number_len(request->cost), descriptor_len = protobuf_message_len(hits_len);
    for (size_t i = 0; i < request->attribute_count; i++)
        descriptor_len += protobuf_message_len(entry_len(&request->attributes[i]));
    size_t len = protobuf_bytes_len(domain.len) + protobuf_message_len(descriptor_len);
    if (len > RLS_CALL_MAX)
        return false;

    grpc_prefix_write(call->request_bytes, (uint32_t)len);
    char *to = protobuf_put_bytes(call->request_bytes + GRPC_PREFIX_LEN, 1, domain);
    to = protobuf_put_message(to, 2, descriptor_len);
    for (size_t i = 0; i < request->attribute_count; i++) {
        const struct weir_attribute *attribute = &request->attributes[i];
        to = protobuf_put_message(to, 1, entry_len(attribute));
        to = protobuf_put_bytes(to, 1, slice_of(attribute->name));
        to = protobuf_put_bytes(to, 2, (struct slice){ attribute->value, value_len(attribute) });
    }
    (void)protobuf_put_number(protobuf_put_message(to, 3, hits_len), 1, request->cost);
    call->request = (struct slice){ call->request_bytes, GRPC_PREFIX_LEN + len };
    return true;
}

static bool submit(struct remote_grpc_call *call, weir_ns now)
{
    char now_text[24];
    const nghttp2_data_provider body = { .read_callback = read_request };
#define FIELD(name, value) \
    { (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), 0 }
    (void)snprintf(now_text, sizeof now_text, "%" PRIu64, now);
    const nghttp2_nv fields[] = {
        FIELD(":method", "POST"),
        FIELD(":scheme", "http"),
        FIELD(":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
        FIELD(":authority", "localhost"),
        FIELD("content-type", "application/grpc"),
        FIELD("te", "trailers"),
        FIELD("weir-now", now_text),
    };
#undef FIELD
    call->is_over = false;
    call->code = GRPC_CODE_COUNT; /* none */
    call->message[0] = '\0';
    call->answer = text_of(call->answer_bytes, sizeof call->answer_bytes);
    return nghttp2_submit_request(call->session, NULL, fields, sizeof fields / sizeof *fields, &body, NULL) > 0;
}

/* Send and receive until the call is over. */
static bool carry(struct remote_grpc *grpc)
{
    struct remote_grpc_call *call = grpc->call;
    while (!call->is_over) {
        const uint8_t *bytes;
        ssize_t len;
        struct slice came;
        while ((len = nghttp2_session_mem_send(call->session, &bytes)) > 0)
            if (!client_send_bytes(&grpc->client, (struct slice){ (const char *)bytes, (size_t)len },
                                   SLICE("")))
                return false;
        if (len < 0)
            return fail(grpc, nghttp2_strerror((int)len));
        if (!client_receive_some(&grpc->client, CLIENT_TIMEOUT_MS, &came))
            return false;
        len = nghttp2_session_mem_recv(call->session, (const uint8_t *)came.at, came.len);
        if (len < 0)
            return fail(grpc, nghttp2_strerror((int)len));
    }
    return true;
}

/* ---- The answer ------------------------------------------------------------------------------------------ */

/* What an answer says, of its only descriptor. */
struct told {
    uint64_t overall, code, requests, remaining, reset_seconds;
    bool has_limit, has_reset;
    struct slice name, body;
};

/* RateLimit { 1 requests_per_unit, 3 name } */
static bool read_limit(struct slice message, struct told *out)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    out->has_limit = true;
    while (protobuf_next(&from, &field)) {
        if (field.number == 1)
            out->requests = field.value;
        else if (field.number == 3)
            out->name = field.bytes;
    }
    return !from.is_bad;
}

/* Duration { 1 seconds } */
static bool read_reset(struct slice message, struct told *out)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    out->has_reset = true;
    while (protobuf_next(&from, &field))
        if (field.number == 1)
            out->reset_seconds = field.value;
    return !from.is_bad;
}

/* DescriptorStatus { 1 code, 2 current_limit, 3 limit_remaining, 4 duration_until_reset } */
static bool read_status(struct slice message, struct told *out)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    bool is_good = true;
    while (is_good && protobuf_next(&from, &field)) {
        if (field.number == 1)
            out->code = field.value;
        else if (field.number == 2)
            is_good = read_limit(field.bytes, out);
        else if (field.number == 3)
            out->remaining = field.value;
        else if (field.number == 4)
            is_good = read_reset(field.bytes, out);
    }
    return is_good && !from.is_bad;
}

/* RateLimitResponse { 1 overall_code, 2 statuses, 5 raw_body } */
static bool read_answer(struct slice message, struct told *out)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    unsigned statuses = 0;
    bool is_good = true;
    *out = (struct told){ .overall = 0 };
    while (is_good && protobuf_next(&from, &field)) {
        if (field.number == 1)
            out->overall = field.value;
        else if (field.number == 2)
            is_good = statuses++ == 0 && read_status(field.bytes, out);
        else if (field.number == 5)
            out->body = field.bytes;
    }
    return is_good && !from.is_bad && statuses == 1 && out->code == out->overall;
}

/* What passes: the status has all that is told. */
static void judge_allowed(const struct told *told, struct verdict *out)
{
    struct verdict_limit *bound = &out->bound;
    out->decided_at = WEIR_NO_TIME;
    out->expires_after = WEIR_NO_TIME;
    out->grain = WEIR_SECOND;
    bound->outcome = WEIR_ALLOW;
    bound->retry_after = 0;
    bound->reset_after = told->has_reset ? told->reset_seconds * WEIR_SECOND : WEIR_NO_TIME;
    bound->has_capacity = bound->has_remaining = told->has_limit;
    bound->capacity = told->requests;
    bound->remaining = told->remaining;
    (void)snprintf(bound->name, sizeof bound->name, "%.*s", (int)told->name.len, told->name.at);
}

/* The rounded numbers of a refusal must be those of its body. */
static bool agrees(const struct told *told, const struct verdict_limit *bound)
{
    bool has_numbers = bound->has_remaining && bound->remaining < TOLD_MAX && told->has_limit;
    weir_ns retry = bound->retry_after;
    if (has_numbers
        && (told->remaining != bound->remaining || !slice_equals(told->name, slice_of(bound->name))))
        return false;
    if (retry == WEIR_NO_TIME)
        return !told->has_reset;
    return !told->has_reset || told->reset_seconds == (retry + WEIR_SECOND - 1) / WEIR_SECOND
           || told->reset_seconds == INT32_MAX; /* as much as a client keeps */
}

static enum remote_result judge(struct remote_grpc *grpc, struct verdict *out)
{
    const struct remote_grpc_call *call = grpc->call;
    struct slice answer = text_slice(&call->answer);
    struct told told;
    if (call->code != GRPC_OK) {
        (void)fail(grpc, call->message[0] == '\0' ? "the call ended without an answer" : call->message);
        return call->code == GRPC_INVALID_ARGUMENT ? REMOTE_FAULTY : REMOTE_UNREACHABLE;
    }
    bool is_good =
        answer.len >= GRPC_PREFIX_LEN && grpc_prefix_len(answer.at) == answer.len - GRPC_PREFIX_LEN
        && read_answer((struct slice){ answer.at + GRPC_PREFIX_LEN, answer.len - GRPC_PREFIX_LEN }, &told);
    *out = (struct verdict){ .decided_at = WEIR_NO_TIME };
    if (is_good && told.overall == RLS_OK)
        judge_allowed(&told, out);
    else
        is_good = is_good && told.overall == RLS_OVER_LIMIT && remote_parse(told.body, out)
                  && agrees(&told, &out->bound);
    if (!is_good)
        (void)fail(grpc, "the answer is not as agreed");
    return is_good ? REMOTE_DECIDED : REMOTE_UNREACHABLE;
}

enum remote_result remote_grpc_operate(struct remote_grpc *grpc, weir_ns now, const struct timeline_step *step,
                                       struct verdict *out)
{
    if (!connect_where_needed(grpc))
        return REMOTE_UNREACHABLE;
    if (!write_request(grpc->call, &step->request)) {
        (void)fail(grpc, "the call is too long");
        return REMOTE_FAULTY;
    }
    if (!submit(grpc->call, now)) {
        (void)fail(grpc, "no more calls on this connection");
        return REMOTE_UNREACHABLE;
    }
    return carry(grpc) ? judge(grpc, out) : REMOTE_UNREACHABLE;
}

#else

/* An empty file is not C. */
typedef int remote_grpc_is_for_tests;

#endif
