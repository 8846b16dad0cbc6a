// SPDX-License-Identifier: Apache-2.0
/*
 * rls_json_write.c - an answer of Envoy's rate limit service as JSON, by protobuf's mapping; see rls.h.
 *
 * Names in lowerCamelCase, enums by name, what is zero left out, lengths of time as "42s", bytes in base64 (RFC 4648 section 4).
 */
#include "wire/rls.h"

/* A comma in front of every member of an object but the first. */
static void put_name(struct text *out, bool *is_first, const char *name)
{
    text_string(out, *is_first ? "\"" : ",\"");
    text_string(out, name);
    text_literal(out, "\":");
    *is_first = false;
}

static void put_number(struct text *out, bool *is_first, const char *name, uint64_t value)
{
    if (value == 0)
        return;
    put_name(out, is_first, name);
    text_u64(out, value);
}

static void put_text(struct text *out, bool *is_first, const char *name, struct slice value)
{
    if (value.len == 0)
        return;
    put_name(out, is_first, name);
    text_json(out, value);
}

static void put_code(struct text *out, bool *is_first, const char *name, enum rls_code code)
{
    static const struct slice names[] = {
        [RLS_UNKNOWN] = { "", 0 }, [RLS_OK] = { "OK", 2 }, [RLS_OVER_LIMIT] = { "OVER_LIMIT", 10 }
    };
    put_text(out, is_first, name, names[code]);
}

static void put_unit(struct text *out, bool *is_first, enum rls_unit unit)
{
    static const struct slice names[] = {
        [RLS_UNKNOWN_UNIT] = { "", 0 }, [RLS_SECOND] = { "SECOND", 6 }, [RLS_MINUTE] = { "MINUTE", 6 },
        [RLS_HOUR] = { "HOUR", 4 },     [RLS_DAY] = { "DAY", 3 },       [RLS_MONTH] = { "MONTH", 5 },
        [RLS_YEAR] = { "YEAR", 4 },     [RLS_WEEK] = { "WEEK", 4 },
    };
    put_text(out, is_first, "unit", names[unit]);
}

static void put_base64(struct text *out, struct slice bytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    text_literal(out, "\"");
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        const unsigned char *at = (const unsigned char *)bytes.at + i;
        uint32_t group = (uint32_t)at[0] << 16 | (left > 1 ? (uint32_t)at[1] << 8 : 0) | (left > 2 ? at[2] : 0);
        char four[] = { letters[group >> 18], letters[group >> 12 & 63], letters[group >> 6 & 63],
                        letters[group & 63] };
        four[2] = left > 1 ? four[2] : '=';
        four[3] = left > 2 ? four[3] : '=';
        text_bytes(out, four, sizeof four);
    }
    text_literal(out, "\"");
}

static void put_limit(struct text *out, const struct rls_status *status)
{
    bool is_first = true;
    text_literal(out, "{");
    put_number(out, &is_first, "requestsPerUnit", status->requests_per_unit);
    put_unit(out, &is_first, status->unit);
    put_text(out, &is_first, "name", status->name);
    put_number(out, &is_first, "unitMultiplier", status->unit_multiplier > 1 ? status->unit_multiplier : 0);
    text_literal(out, "}");
}

static void put_status(struct text *out, const struct rls_status *status)
{
    bool is_first = true;
    text_literal(out, "{");
    put_code(out, &is_first, "code", status->code);
    if (status->has_limit) {
        put_name(out, &is_first, "currentLimit");
        put_limit(out, status);
    }
    put_number(out, &is_first, "limitRemaining", status->remaining);
    if (status->has_reset) {
        put_name(out, &is_first, "durationUntilReset");
        text_literal(out, "\"");
        text_u64(out, status->reset_seconds);
        text_literal(out, "s\"");
    }
    text_literal(out, "}");
}

static void put_header(struct text *out, const struct rls_header *header)
{
    bool is_first = true;
    text_literal(out, "{");
    put_text(out, &is_first, "key", header->key);
    put_text(out, &is_first, "value", header->value);
    text_literal(out, "}");
}

void rls_json_write(const struct rls_answer *answer, struct text *out)
{
    bool is_first = true;
    text_literal(out, "{");
    put_code(out, &is_first, "overallCode", answer->overall);
    for (size_t i = 0; i < answer->count; i++) {
        if (i == 0)
            put_name(out, &is_first, "statuses");
        text_string(out, i == 0 ? "[" : ",");
        put_status(out, &answer->statuses[i]);
    }
    text_string(out, answer->count > 0 ? "]" : "");
    for (size_t i = 0; i < answer->header_count; i++) {
        if (i == 0)
            put_name(out, &is_first, "responseHeadersToAdd");
        text_string(out, i == 0 ? "[" : ",");
        put_header(out, &answer->headers[i]);
    }
    text_string(out, answer->header_count > 0 ? "]" : "");
    if (answer->body.len > 0) {
        put_name(out, &is_first, "rawBody");
        put_base64(out, answer->body);
    }
    text_literal(out, "}");
}
