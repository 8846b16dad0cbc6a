// SPDX-License-Identifier: Apache-2.0
/*
 * rls.c - calls and answers of Envoy's rate limit service as protobuf; see rls.h.
 *
 * Numbers and types of the fields are those of envoy/service/ratelimit/v3/rls.proto and
 * envoy/extensions/common/ratelimit/v3/ratelimit.proto; test/wire/proto has them as far as they are used here. Fields that weir does
 * not know are skipped. A known field of another type, which some readers skip as well, makes the message none. Text is valid UTF-8
 * wherever it stands.
 *
 * Elsewhere: the encoding (protobuf.h), what a call must have (rls_call.c).
 */
#include "wire/rls.h"

#include "wire/protobuf.h"
#include "wire/rls_call.h"

/* ---- Calls ----------------------------------------------------------------------------------------------- */

/* A call while it is read. */
struct reading {
    struct rls_call *call;
    size_t used;   /* of call->entries */
    uint64_t own;  /* bit i: descriptor i says its hits */
    uint32_t hits; /* the call's */
    const char **why;
};

static enum rls_fault no_call(const struct reading *reading)
{
    return rls_fault_of(RLS_BAD,
                        "the message is no RateLimitRequest: it ends too early, or a field has another type; "
                        "see envoy/service/ratelimit/v3/rls.proto",
                        reading->why);
}

/* What a message is when its last field was read. */
static enum rls_fault ended(const struct reading *reading, const struct protobuf *from)
{
    return from->is_bad ? no_call(reading) : RLS_GOOD;
}

/* google.protobuf.UInt64Value or UInt32Value { 1 value }; what it does not say stays. */
static enum rls_fault read_value(const struct reading *reading, struct slice message, uint64_t *value)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    while (protobuf_next(&from, &field)) {
        if (field.number != 1)
            continue;
        if (field.type != PROTOBUF_NUMBER)
            return no_call(reading);
        *value = field.value;
    }
    return ended(reading, &from);
}

/* RateLimitOverride { 1 requests_per_unit, 2 unit, 3 unit_multiplier } */
static enum rls_fault read_limit(const struct reading *reading, struct slice message, struct rls_asked *asked)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    uint64_t units = asked->unit_multiplier;
    enum rls_fault fault = RLS_GOOD;
    asked->has_limit = true;
    while (fault == RLS_GOOD && protobuf_next(&from, &field)) {
        if (field.number > 3)
            continue;
        if (field.type != (field.number == 3 ? PROTOBUF_BYTES : PROTOBUF_NUMBER))
            return no_call(reading);
        if (field.number == 1)
            asked->requests_per_unit = (uint32_t)field.value;
        else if (field.number == 2)
            asked->unit = rls_call_unit((int32_t)(uint32_t)field.value);
        else
            fault = read_value(reading, field.bytes, &units);
    }
    asked->unit_multiplier = (uint32_t)units;
    return fault == RLS_GOOD ? ended(reading, &from) : fault;
}

/* Entry { 1 key, 2 value } */
static enum rls_fault read_entry(const struct reading *reading, struct slice message, struct weir_entry *entry)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    *entry = (struct weir_entry){ NULL, NULL, 0, 0 };
    while (protobuf_next(&from, &field)) {
        if (field.number > 2)
            continue;
        if (field.type != PROTOBUF_BYTES)
            return no_call(reading);
        if (!utf8_is_valid(field.bytes))
            return rls_fault_of(RLS_BAD,
                                "rate limit descriptor entry is not valid UTF-8: send text, or bytes as hex",
                                reading->why);
        if (field.number == 1) {
            entry->key = field.bytes.at;
            entry->key_len = field.bytes.len;
        } else {
            entry->value = field.bytes.at;
            entry->value_len = field.bytes.len;
        }
    }
    return ended(reading, &from);
}

static enum rls_fault add_entry(struct reading *reading, struct slice message,
                                struct weir_descriptor *descriptor)
{
    if (descriptor->entry_count == WEIR_ENTRIES_MAX)
        return rls_fault_of(RLS_TOO_MUCH, RLS_WHY_ENTRIES, reading->why);
    descriptor->entry_count++;
    return read_entry(reading, message, &reading->call->entries[reading->used++]);
}

/* RateLimitDescriptor { 1 entries, 2 limit, 3 hits_addend, 4 is_negative_hits } */
static enum rls_fault read_descriptor(struct reading *reading, struct slice message,
                                      struct weir_descriptor *descriptor, struct rls_asked *asked)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    enum rls_fault fault = RLS_GOOD;
    while (fault == RLS_GOOD && protobuf_next(&from, &field)) {
        if (field.number > 4)
            continue;
        if (field.type != (field.number == 4 ? PROTOBUF_NUMBER : PROTOBUF_BYTES))
            return no_call(reading);
        if (field.number == 1) {
            fault = add_entry(reading, field.bytes, descriptor);
        } else if (field.number == 2) {
            fault = read_limit(reading, field.bytes, asked);
        } else if (field.number == 3) {
            reading->own |= UINT64_C(1) << (reading->call->count - 1);
            fault = read_value(reading, field.bytes, &asked->hits);
        } else {
            asked->is_refund = field.value != 0;
        }
    }
    return fault == RLS_GOOD ? ended(reading, &from) : fault;
}

static enum rls_fault add_descriptor(struct reading *reading, struct slice message)
{
    struct rls_call *call = reading->call;
    size_t at = call->count;
    if (at == WEIR_DESCRIPTORS_MAX)
        return rls_fault_of(RLS_TOO_MUCH, RLS_WHY_DESCRIPTORS, reading->why);
    call->count++;
    call->descriptors[at] = (struct weir_descriptor){ call->entries + reading->used, 0 };
    call->asked[at] = (struct rls_asked){ 0 };
    return read_descriptor(reading, message, &call->descriptors[at], &call->asked[at]);
}

/* RateLimitRequest { 1 domain, 2 descriptors, 3 hits_addend } */
static enum rls_fault read_call(struct reading *reading, struct slice message)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    enum rls_fault fault = RLS_GOOD;
    while (fault == RLS_GOOD && protobuf_next(&from, &field)) {
        if (field.number > 3)
            continue;
        if (field.type != (field.number == 3 ? PROTOBUF_NUMBER : PROTOBUF_BYTES))
            return no_call(reading);
        if (field.number == 1 && !utf8_is_valid(field.bytes))
            return rls_fault_of(RLS_BAD, "rate limit domain is not valid UTF-8: send text", reading->why);
        if (field.number == 1)
            reading->call->domain = field.bytes;
        else if (field.number == 2)
            fault = add_descriptor(reading, field.bytes);
        else
            reading->hits = (uint32_t)field.value;
    }
    return fault == RLS_GOOD ? ended(reading, &from) : fault;
}

enum rls_fault rls_read(struct slice message, struct rls_call *out, const char **why)
{
    struct reading reading = { .call = out, .why = why };
    if (message.len > RLS_CALL_MAX)
        return rls_fault_of(RLS_TOO_MUCH, RLS_WHY_LARGE, why);
    out->domain = (struct slice){ NULL, 0 };
    out->count = 0;
    enum rls_fault fault = read_call(&reading, message);
    return fault == RLS_GOOD ? rls_call_finish(out, reading.own, reading.hits, why) : fault;
}

/* ---- Answers --------------------------------------------------------------------------------------------- */

/* UInt32Value, which is there where it says more than one. */
static size_t multiplier_len(const struct rls_status *status)
{
    return status->unit_multiplier > 1 ? protobuf_number_len(status->unit_multiplier) : 0;
}

/* RateLimit { 1 requests_per_unit, 2 unit, 3 name, 4 unit_multiplier } */
static size_t limit_len(const struct rls_status *status)
{
    return protobuf_number_len(status->requests_per_unit) + protobuf_number_len(status->unit)
           + protobuf_bytes_len(status->name.len) + protobuf_bytes_len(multiplier_len(status));
}

static char *put_limit(char *to, const struct rls_status *status)
{
    to = protobuf_put_number(to, 1, status->requests_per_unit);
    to = protobuf_put_number(to, 2, status->unit);
    to = protobuf_put_bytes(to, 3, status->name);
    if (status->unit_multiplier <= 1)
        return to;
    to = protobuf_put_message(to, 4, multiplier_len(status));
    return protobuf_put_number(to, 1, status->unit_multiplier);
}

/* DescriptorStatus { 1 code, 2 current_limit, 3 limit_remaining, 4 duration_until_reset: Duration { 1 seconds } } */
static size_t status_len(const struct rls_status *status)
{
    return protobuf_number_len(status->code) + (status->has_limit ? protobuf_message_len(limit_len(status)) : 0)
           + protobuf_number_len(status->remaining)
           + (status->has_reset ? protobuf_message_len(protobuf_number_len(status->reset_seconds)) : 0);
}

static char *put_status(char *to, const struct rls_status *status)
{
    to = protobuf_put_number(to, 1, status->code);
    if (status->has_limit)
        to = put_limit(protobuf_put_message(to, 2, limit_len(status)), status);
    to = protobuf_put_number(to, 3, status->remaining);
    if (!status->has_reset)
        return to;
    to = protobuf_put_message(to, 4, protobuf_number_len(status->reset_seconds));
    return protobuf_put_number(to, 1, status->reset_seconds);
}

/* HeaderValue { 1 key, 2 value } */
static size_t header_len(const struct rls_header *header)
{
    return protobuf_bytes_len(header->key.len) + protobuf_bytes_len(header->value.len);
}

/* RateLimitResponse { 1 overall_code, 2 statuses, 3 response_headers_to_add, 5 raw_body } */
static size_t answer_len(const struct rls_answer *answer)
{
    size_t len = protobuf_number_len(answer->overall) + protobuf_bytes_len(answer->body.len);
    for (size_t i = 0; i < answer->count; i++)
        len += protobuf_message_len(status_len(&answer->statuses[i]));
    for (size_t i = 0; i < answer->header_count; i++)
        len += protobuf_message_len(header_len(&answer->headers[i]));
    return len;
}

void rls_write(const struct rls_answer *answer, struct text *out)
{
    size_t len = answer_len(answer);
    char *to = text_claim(out, len);
    if (to == NULL)
        return;
    to = protobuf_put_number(to, 1, answer->overall);
    for (size_t i = 0; i < answer->count; i++) {
        const struct rls_status *status = &answer->statuses[i];
        to = put_status(protobuf_put_message(to, 2, status_len(status)), status);
    }
    for (size_t i = 0; i < answer->header_count; i++) {
        const struct rls_header *header = &answer->headers[i];
        to = protobuf_put_message(to, 3, header_len(header));
        to = protobuf_put_bytes(to, 1, header->key);
        to = protobuf_put_bytes(to, 2, header->value);
    }
    (void)protobuf_put_bytes(to, 5, answer->body);
    out->len += len;
}
