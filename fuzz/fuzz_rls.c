// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_rls.c - any bytes as a protobuf call of the rate limit service: it is read or refused with a sentence, and what was read lies
 * among the bytes and, written by hand, reads the same again. The same bytes as an answer's parts are written in
 * both codings, of which the JSON is JSON; and as a health check and a deadline.
 */
#include "rls_again.h"
#include "wire/grpc.h"
#include "wire/grpc_health.h"
#include "wire/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(const char *at, size_t len, struct slice message)
{
    return len == 0 || (at >= message.at && len <= message.len && at <= message.at + (message.len - len));
}

static void fuzz_call(struct slice message)
{
    static struct rls_call call;
    const char *why = NULL;
    if (rls_read(message, &call, &why) != RLS_GOOD) {
        require(why != NULL && strlen(why) > 10);
        return;
    }
    require(why == NULL && is_inside(call.domain.at, call.domain.len, message));
    for (size_t i = 0; i < call.count; i++)
        for (size_t k = 0; k < call.descriptors[i].entry_count; k++) {
            const struct weir_entry *entry = &call.descriptors[i].entries[k];
            require(is_inside(entry->key, entry->key_len, message)
                    && is_inside(entry->value, entry->value_len, message));
        }
    require_again(&call);
}

/* The next byte of the input, 0 behind it. */
static unsigned next(struct slice *from)
{
    if (from->len == 0)
        return 0;
    from->len--;
    return (unsigned char)*from->at++;
}

static struct slice next_text(struct slice *from)
{
    size_t len = next(from);
    len = len < from->len ? len : from->len;
    struct slice text = { from->at, len };
    *from = (struct slice){ from->at + len, from->len - len };
    return text;
}

static void require_json(const char *at, size_t len)
{
    static char scratch[RLS_ANSWER_MAX];
    struct json json;
    enum json_token token;
    json_init(&json, at, len, scratch, sizeof scratch);
    while ((token = json_next(&json)) != TOKEN_END)
        require(token != TOKEN_ERROR);
}

static void fuzz_answer(struct slice from)
{
    static char written[RLS_ANSWER_MAX];
    static struct rls_answer answer;
    answer.overall = next(&from) % 3;
    answer.count = next(&from) % 5;
    answer.header_count = next(&from) % (RLS_HEADERS_MAX + 1);
    for (size_t i = 0; i < answer.count; i++) {
        unsigned bits = next(&from);
        answer.statuses[i] = (struct rls_status){ .code = bits % 3,
                                                  .has_limit = (bits & 64) != 0,
                                                  .requests_per_unit = next(&from) << (bits & 24),
                                                  .unit_multiplier = next(&from),
                                                  .unit = (bits >> 3) % 8,
                                                  .name = next_text(&from),
                                                  .remaining = next(&from) << (bits & 24),
                                                  .has_reset = (bits & 128) != 0,
                                                  .reset_seconds = next(&from) << (bits & 24) };
    }
    for (size_t i = 0; i < answer.header_count; i++) {
        struct slice key = next_text(&from);
        answer.headers[i] = (struct rls_header){ key, next_text(&from) };
    }
    answer.body = next_text(&from);
    struct text text = text_of(written, sizeof written);
    rls_write(&answer, &text);
    require(!text.is_cut);
    size_t len = text.len;
    text = text_of(written, len); /* what it needs is what it takes */
    rls_write(&answer, &text);
    require(!text.is_cut && text.len == len);
    text = text_of(written, sizeof written);
    rls_json_write(&answer, &text);
    require(!text.is_cut);
    require_json(written, text.len);
}

static void fuzz_grpc(struct slice bytes)
{
    static char escaped[3 * RLS_CALL_MAX];
    struct slice service;
    weir_ns ns;
    struct text text = text_of(escaped, sizeof escaped);
    if (grpc_health_read(bytes, &service))
        require(utf8_is_valid(service) && is_inside(service.at, service.len, bytes));
    if (grpc_timeout_parse(bytes, &ns))
        require(bytes.len >= 2 && bytes.len <= 9);
    if (bytes.len > RLS_CALL_MAX)
        return;
    grpc_message_escape(bytes, &text);
    require(!text.is_cut && text.len >= bytes.len);
    for (size_t i = 0; i < text.len; i++)
        require(escaped[i] >= 0x20 && escaped[i] <= 0x7e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size); /* as long as its bytes, so that a look behind the end is seen */
    if (copy == NULL)
        exit(1);
    if (size > 0)
        memcpy(copy, data, size);
    struct slice bytes = { copy, size };
    fuzz_call(bytes);
    fuzz_answer(bytes);
    fuzz_grpc(bytes);
    free(copy);
    return 0;
}
