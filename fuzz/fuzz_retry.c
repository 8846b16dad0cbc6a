// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_retry.c - any bytes as a Retry-After value, and any options, replies and stamps as a request under way: what is read is
 * none or what a second look at the digits gives; what is scheduled keeps P41.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "weir_retry.h"

__extension__ typedef unsigned __int128 wide;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static uint64_t take(const uint8_t **data, size_t *size)
{
    uint64_t value = 0;
    size_t len = *size < sizeof value ? *size : sizeof value;
    memcpy(&value, *data, len);
    *data += len;
    *size -= len;
    return value;
}

static void read_value(const char *value, size_t len, uint64_t now)
{
    bool is_number = len > 0;
    wide seconds = 0;
    for (size_t i = 0; i < len; i++) {
        is_number = is_number && isdigit((unsigned char)value[i]);
        if (is_number && seconds < UINT64_MAX)
            seconds = seconds * 10 + (unsigned)(value[i] - '0');
    }
    weir_ns after = weir_retry_after(value, len, now);
    if (is_number) {
        wide ns = seconds * WEIR_SECOND;
        require(after == (ns < WEIR_NO_TIME ? (weir_ns)ns : WEIR_NO_TIME - 1));
    } else if (after != WEIR_NO_TIME && len > 0 && value[0] != ' ' && value[0] != '\t' && value[len - 1] != ' '
               && value[len - 1] != '\t') {
        require(now != 0 && len >= 24 && isalpha((unsigned char)value[0])); /* the shortest date */
    }
}

static void run_request(const uint8_t *data, size_t size)
{
    struct weir_retry_budget budget = { .max_tokens = 1 + (uint32_t)take(&data, &size) % 1000,
                                        .ratio = (uint32_t)take(&data, &size) % 1001,
                                        .per_second = (uint32_t)take(&data, &size) % 1001 };
    struct weir_retry_options options = { .attempts = (uint32_t)take(&data, &size) % 100,
                                          .jitter = (enum weir_jitter)(take(&data, &size) % 2),
                                          .base = take(&data, &size),
                                          .cap = take(&data, &size),
                                          .spread = take(&data, &size),
                                          .is_repeatable = take(&data, &size) % 2 == 0,
                                          .budget = take(&data, &size) % 2 == 0 ? &budget : NULL };
    weir_ns deadline = take(&data, &size);
    struct weir_retry retry;
    weir_retry_init(&retry, &options, deadline);
    for (uint32_t attempt = 1; size > 0; attempt++) {
        enum weir_reply reply = (enum weir_reply)(take(&data, &size) % WEIR_REPLY_COUNT);
        weir_ns retry_after = take(&data, &size);
        weir_ns now = take(&data, &size);
        weir_ns at = 0;
        enum weir_retry_verdict verdict =
            weir_retry_next(&retry, reply, retry_after, now, take(&data, &size), &at);
        require(verdict < WEIR_RETRY_VERDICT_COUNT);
        require(weir_retry_budget_left(&budget, now) <= UINT64_C(1000) * budget.max_tokens);
        if (verdict != WEIR_RETRY_AT)
            continue;
        require(attempt < (options.attempts == 0 ? 3 : options.attempts));
        require(at >= now && at <= deadline && at != WEIR_NO_TIME);
        require(retry_after == WEIR_NO_TIME || at - now >= retry_after);
        require(reply == WEIR_REPLY_DENIED || reply == WEIR_REPLY_UNDECIDED
                || (reply == WEIR_REPLY_LOST && options.is_repeatable));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t instants[] = { 0, UINT64_C(784111777) * WEIR_SECOND, WEIR_NO_TIME };
    if (size == 0)
        return 0;
    read_value((const char *)data + 1, size - 1, instants[data[0] % 3]);
    run_request(data, size);
    return 0;
}
