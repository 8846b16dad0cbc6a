// SPDX-License-Identifier: Apache-2.0
/*
 * bench_rls.c - what a call of Envoy's rate limit service costs to read, and its answer to write: beside the least that does it for
 * this one call, the words of the answer (statuses, headers), and all of it as JSON.
 *
 * The call is Envoy's usual one, a descriptor of one entry; the answer allows it under one limit.
 */
#include <stdio.h>

#include "measure.h"
#include "wire/rls.h"

struct place {
    struct slice message, json;
    struct weir_answer decided;
    struct rls_call call;
    struct rls_answer answer;
    char room[RLS_CALL_MAX], written[RLS_ANSWER_MAX];
};

static const unsigned char bytes[] = {
    0x0a, 0x04, 't', 'e', 's', 't', 0x12, 0x1d, 0x0a, 0x1b, 0x0a, 0x0e, 'r', 'e', 'm', 'o', 't', 'e',  '_', 'a',
    'd',  'd',  'r', 'e', 's', 's', 0x12, 0x09, '1',  '9',  '2',  '.',  '0', '.', '2', '.', '7', 0x18, 0x01
};
static const char json[] =
    "{\"domain\":\"test\",\"descriptors\":[{\"entries\":[{\"key\":\"remote_address\",\"value\":"
    "\"192.0.2.7\"}]}],\"hitsAddend\":1}";
static const struct weir_contract_limit per_ip = {
    .name = "per-ip", .algorithm = WEIR_FIXED_WINDOW, .capacity = 10, .window = WEIR_SECOND
};

static uint64_t in_full(void *context, uint64_t count)
{
    struct place *place = context;
    const char *why;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct text out = text_of(place->written, sizeof place->written);
        if (rls_read(place->message, &place->call, &why) != RLS_GOOD)
            return 0;
        place->answer.statuses[0].remaining = (uint32_t)i & 7;
        rls_write(&place->answer, &out);
        sum += out.len + place->call.asked[0].hits;
    }
    return sum;
}

/* ---- The least: no merging, no limit of its own, lengths below 128 ----------------------------------------- */

static bool varint(struct slice *from, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; from->len > 0 && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*from->at++;
        from->len--;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* One field: its number, and its number or bytes as `value` or `part`. Skips what it cannot be asked for. */
static bool field(struct slice *from, unsigned *tag, uint64_t *value, struct slice *part)
{
    static const uint8_t fixed[] = { [1] = 8, [5] = 4 };
    uint64_t head;
    if (!varint(from, &head))
        return false;
    *tag = (unsigned)(head >> 3);
    unsigned type = head & 7;
    if (type == 0)
        return varint(from, value);
    if (type == 2 ? !varint(from, value) : type != 1 && type != 5)
        return false;
    size_t len = type == 2 ? *value : fixed[type];
    if (len > from->len)
        return false;
    *part = (struct slice){ from->at, len };
    *from = (struct slice){ from->at + len, from->len - len };
    return true;
}

static bool entry_at_least(struct slice from, struct weir_entry *out)
{
    unsigned tag;
    uint64_t value;
    struct slice part = { NULL, 0 };
    *out = (struct weir_entry){ NULL, NULL, 0, 0 };
    while (from.len > 0) {
        if (!field(&from, &tag, &value, &part) || !utf8_is_valid(part))
            return false;
        if (tag == 1)
            *out = (struct weir_entry){ part.at, out->value, part.len, out->value_len };
        else if (tag == 2)
            *out = (struct weir_entry){ out->key, part.at, out->key_len, part.len };
    }
    return out->key_len > 0;
}

static bool descriptor_at_least(struct slice from, struct rls_call *call, size_t *used)
{
    unsigned tag;
    uint64_t value;
    struct slice part = { NULL, 0 };
    struct weir_descriptor *descriptor = &call->descriptors[call->count];
    *descriptor = (struct weir_descriptor){ call->entries + *used, 0 };
    call->asked[call->count++] = (struct rls_asked){ .hits = 1 };
    while (from.len > 0)
        if (!field(&from, &tag, &value, &part)
            || (tag == 1
                && (descriptor->entry_count++ == WEIR_ENTRIES_MAX
                    || !entry_at_least(part, &call->entries[(*used)++]))))
            return false;
    return true;
}

static bool read_at_least(struct slice from, struct rls_call *call)
{
    unsigned tag;
    uint64_t value, hits = 1;
    size_t used = 0;
    struct slice part = { NULL, 0 };
    call->count = 0;
    while (from.len > 0) {
        if (!field(&from, &tag, &value, &part))
            return false;
        if (tag == 1)
            call->domain = part;
        else if (tag == 3)
            hits = value;
        else if (tag == 2 && (call->count == WEIR_DESCRIPTORS_MAX || !descriptor_at_least(part, call, &used)))
            return false;
    }
    for (size_t i = 0; i < call->count; i++)
        call->asked[i].hits = hits;
    return call->count > 0 && utf8_is_valid(call->domain);
}

static unsigned char *put(unsigned char *to, unsigned tag, uint64_t value)
{
    *to++ = (unsigned char)(tag << 3);
    for (; value > 127; value >>= 7)
        *to++ = (unsigned char)(value | 128);
    *to++ = (unsigned char)value;
    return to;
}

/* Of lengths below 128, which this one's are. */
static size_t write_at_least(const struct rls_answer *answer, unsigned char *at)
{
    const struct rls_status *status = &answer->statuses[0];
    unsigned char *to = put(at, 1, answer->overall), *inside, *limit;
    *to++ = 2 << 3 | 2;
    inside = ++to;
    to = put(to, 1, status->code);
    *to++ = 2 << 3 | 2;
    limit = ++to;
    to = put(put(to, 1, status->requests_per_unit), 2, status->unit);
    *to++ = 3 << 3 | 2;
    *to++ = (unsigned char)status->name.len;
    memcpy(to, status->name.at, status->name.len);
    to += status->name.len;
    limit[-1] = (unsigned char)(to - limit);
    if (status->remaining != 0)
        to = put(to, 3, status->remaining);
    *to++ = 4 << 3 | 2;
    limit = ++to;
    to = put(to, 1, status->reset_seconds);
    limit[-1] = (unsigned char)(to - limit);
    inside[-1] = (unsigned char)(to - inside);
    return (size_t)(to - at);
}

static uint64_t at_least(void *context, uint64_t count)
{
    struct place *place = context;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!read_at_least(place->message, &place->call))
            return 0;
        place->answer.statuses[0].remaining = (uint32_t)i & 7;
        sum += write_at_least(&place->answer, (unsigned char *)place->written) + place->call.asked[0].hits;
    }
    return sum;
}

/* ---- More ------------------------------------------------------------------------------------------------- */

static void say(struct place *place, uint64_t i)
{
    place->decided.each[0].remaining = i & 7;
    place->decided.decision.remaining = i & 7;
    rls_answer_make(&place->decided, 0, place->call.asked, place->call.count, WEIR_HEADERS_TRIO,
                    &place->answer);
}

static uint64_t with_words(void *context, uint64_t count)
{
    struct place *place = context;
    const char *why;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct text out = text_of(place->written, sizeof place->written);
        if (rls_read(place->message, &place->call, &why) != RLS_GOOD)
            return 0;
        say(place, i);
        rls_write(&place->answer, &out);
        sum += out.len;
    }
    return sum;
}

static uint64_t as_json(void *context, uint64_t count)
{
    struct place *place = context;
    const char *why;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct text out = text_of(place->written, sizeof place->written);
        if (rls_json_read(place->json, place->room, sizeof place->room, &place->call, &why) != RLS_GOOD)
            return 0;
        say(place, i);
        rls_json_write(&place->answer, &out);
        sum += out.len;
    }
    return sum;
}

int main(void)
{
    static struct place places[4];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct place *place = &places[i];
        place->message = (struct slice){ (const char *)bytes, sizeof bytes };
        place->json = (struct slice){ json, sizeof json - 1 };
        place->decided.limits = &per_ip;
        place->decided.count = 1;
        place->decided.each[0] =
            (struct weir_decision){ .outcome = WEIR_ALLOW, .capacity = 10, .reset_at = WEIR_SECOND };
        place->decided.decision = place->decided.each[0];
        if (in_full(place, 1) == 0)
            return 1;
        say(place, 1);
        place->answer.header_count = 0;
    }
    if (in_full(&places[0], 8) != at_least(&places[1], 8)) { /* they write the same */
        fprintf(stderr, "bench_rls: the two sides differ\n");
        return 1;
    }
    measure_row(&(struct row){ "rls: read a call, write its answer / the least",
                               0,
                               { "in full", in_full, &places[0] },
                               { "at least", at_least, &places[1] },
                               2000 });
    measure_row(&(struct row){ "rls: the same with statuses and headers of a decision / without",
                               0,
                               { "with", with_words, &places[2] },
                               { "without", in_full, &places[0] },
                               2000 });
    measure_row(&(struct row){ "rls: as JSON / as protobuf",
                               0,
                               { "JSON", as_json, &places[3] },
                               { "protobuf", with_words, &places[2] },
                               2000 });
    return 0;
}
