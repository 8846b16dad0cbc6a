// SPDX-License-Identifier: Apache-2.0
/*
 * rls.c - calls and answers of Envoy's rate limit service as protobuf; see rls.h.
 *
 * protobuf-c reads into the caller's room and nowhere else, so what a sender can make it allocate ends there; its messages nest
 * three deep and never in themselves, and so does its reading. Fields that weir does not know are skipped. A known field of
 * another wire type, which some readers skip as well, makes the message none.
 *
 * Elsewhere: what a call must have (rls_call.c), the messages (proto/).
 */
#include "wire/rls.h"

#include "wire/grpc_arena.h"
#include "wire/proto/rls_answer.pb-c.h"
#include "wire/proto/rls_call.pb-c.h"
#include "wire/rls_call.h"

/* ---- Calls ----------------------------------------------------------------------------------------------- */

static struct slice slice_from(const ProtobufCBinaryData *bytes)
{
    return (struct slice){ (const char *)bytes->data, bytes->len };
}

static struct rls_asked asked_of(const Rls__Descriptor *descriptor)
{
    const Rls__Override *limit = descriptor->limit;
    struct rls_asked asked = { .hits = descriptor->hits_addend == NULL ? 0 : descriptor->hits_addend->value,
                               .is_refund = descriptor->is_negative_hits != 0,
                               .has_limit = limit != NULL };
    if (limit != NULL) {
        asked.requests_per_unit = limit->requests_per_unit;
        asked.unit = rls_call_unit(limit->unit);
        asked.unit_multiplier = limit->unit_multiplier == NULL ? 1 : limit->unit_multiplier->value;
    }
    return asked;
}

/* The entries of a descriptor at `to`; false: one is no text. */
static bool read_entries(const Rls__Descriptor *descriptor, struct weir_entry *to)
{
    for (size_t i = 0; i < descriptor->n_entries; i++) {
        struct slice key = slice_from(&descriptor->entries[i]->key),
                     value = slice_from(&descriptor->entries[i]->value);
        if (!utf8_is_valid(key) || !utf8_is_valid(value))
            return false;
        to[i] = (struct weir_entry){ key.at, value.at, key.len, value.len };
    }
    return true;
}

static enum rls_fault read_call(const Rls__Call *message, struct rls_call *out, const char **why)
{
    uint64_t own = 0;
    size_t used = 0;
    out->domain = slice_from(&message->domain);
    out->count = message->n_descriptors;
    if (out->count > WEIR_DESCRIPTORS_MAX)
        return rls_fault_of(RLS_TOO_MUCH, RLS_WHY_DESCRIPTORS, why);
    if (!utf8_is_valid(out->domain))
        return rls_fault_of(RLS_BAD, "rate limit domain is not valid UTF-8: send text", why);
    for (size_t i = 0; i < out->count; i++) {
        const Rls__Descriptor *descriptor = message->descriptors[i];
        if (descriptor->n_entries > WEIR_ENTRIES_MAX)
            return rls_fault_of(RLS_TOO_MUCH, RLS_WHY_ENTRIES, why);
        if (!read_entries(descriptor, out->entries + used))
            return rls_fault_of(
                RLS_BAD, "rate limit descriptor entry is not valid UTF-8: send text, or bytes as hex", why);
        out->descriptors[i] = (struct weir_descriptor){ out->entries + used, descriptor->n_entries };
        out->asked[i] = asked_of(descriptor);
        own |= (uint64_t)(descriptor->hits_addend != NULL) << i;
        used += descriptor->n_entries;
    }
    return rls_call_finish(out, own, message->hits_addend, why);
}

enum rls_fault rls_read(struct slice message, void *room, size_t room_len, struct rls_call *out,
                        const char **why)
{
    struct grpc_arena arena = grpc_arena_of(room, room_len);
    ProtobufCAllocator allocator = grpc_arena_allocator(&arena);
    if (message.len > RLS_CALL_MAX)
        return rls_fault_of(RLS_TOO_MUCH, RLS_WHY_LARGE, why);
    const Rls__Call *call = rls__call__unpack(&allocator, message.len, (const uint8_t *)message.at);
    if (call == NULL && arena.is_full)
        return rls_fault_of(
            RLS_TOO_MUCH,
            "rate limit call has more parts than are read: ask for at most 64 descriptors of 24 entries", why);
    if (call == NULL)
        return rls_fault_of(
            RLS_BAD,
            "the message is no RateLimitRequest: it ends too early, or a field has another type; "
            "see envoy/service/ratelimit/v3/rls.proto",
            why);
    return read_call(call, out, why);
}

/* ---- Answers --------------------------------------------------------------------------------------------- */

/* One status and its parts, which it points to. */
struct written {
    Rls__Status status;
    Rls__Limit limit;
    Rls__Multiplier multiplier;
    Rls__Span reset;
};

/* protobuf-c does not write through what it is to write, but its type says nothing of it. */
static ProtobufCBinaryData bytes_of(struct slice slice)
{
    return (ProtobufCBinaryData){ slice.len, (uint8_t *)slice.at };
}

static void write_status(const struct rls_status *from, struct written *to)
{
    rls__status__init(&to->status);
    to->status.code = (int32_t)from->code;
    to->status.limit_remaining = from->remaining;
    if (from->has_limit) {
        rls__limit__init(&to->limit);
        to->limit.requests_per_unit = from->requests_per_unit;
        to->limit.unit = (int32_t)from->unit;
        to->limit.name = bytes_of(from->name);
        to->status.current_limit = &to->limit;
    }
    if (from->has_limit && from->unit_multiplier > 1) {
        rls__multiplier__init(&to->multiplier);
        to->multiplier.value = from->unit_multiplier;
        to->limit.unit_multiplier = &to->multiplier;
    }
    if (from->has_reset) {
        rls__span__init(&to->reset);
        to->reset.seconds = (int64_t)from->reset_seconds;
        to->status.duration_until_reset = &to->reset;
    }
}

void rls_write(const struct rls_answer *answer, struct text *out)
{
    struct written written[WEIR_DESCRIPTORS_MAX];
    Rls__Status *statuses[WEIR_DESCRIPTORS_MAX];
    Rls__Header headers[RLS_HEADERS_MAX], *header_pointers[RLS_HEADERS_MAX];
    Rls__Answer message = RLS__ANSWER__INIT;
    for (size_t i = 0; i < answer->count; i++) {
        write_status(&answer->statuses[i], &written[i]);
        statuses[i] = &written[i].status;
    }
    for (size_t i = 0; i < answer->header_count; i++) {
        rls__header__init(&headers[i]);
        headers[i].key = bytes_of(answer->headers[i].key);
        headers[i].value = bytes_of(answer->headers[i].value);
        header_pointers[i] = &headers[i];
    }
    message.overall_code = (int32_t)answer->overall;
    message.n_statuses = answer->count;
    message.statuses = statuses;
    message.n_response_headers_to_add = answer->header_count;
    message.response_headers_to_add = header_pointers;
    message.raw_body = bytes_of(answer->body);
    char *to = text_claim(out, rls__answer__get_packed_size(&message));
    if (to != NULL)
        out->len += rls__answer__pack(&message, (uint8_t *)to);
}
