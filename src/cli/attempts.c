// SPDX-License-Identifier: Apache-2.0
/*
 * attempts.c - the loop that weir_retry.h leaves to its users: a real clock, real random bits, real sleep.
 */
#include "cli/attempts.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"
#include "cli/cli.h"

static uint64_t random_bits(void)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        bits = clock_monotonic() * UINT64_C(0x9e3779b97f4a7c15); /* jitter needs no secret */
    return bits;
}

/* Whether doing the request twice is as good as once: it only looks, or its limits can tell a retry by the id. */
static bool is_repeatable(const struct weir_request *request)
{
    for (size_t i = 0; i < request->attribute_count; i++)
        if (strcmp(request->attributes[i].name, "request-id") == 0)
            return true;
    return request->cost == 0;
}

/* "deny tenant-requests retry=0.2s", or what stood in the way of a decision. */
static void describe(char out[CLIENT_ERROR_MAX + 64], enum remote_result result, const struct client *client,
                     const struct verdict *verdict, const struct remote_end *end)
{
    char time[VERDICT_TIME_MAX], what[CLIENT_ERROR_MAX];
    bool has_time = end->retry_after != WEIR_NO_TIME && end->reply != WEIR_REPLY_ALLOWED;
    if (result == REMOTE_DECIDED)
        (void)snprintf(what, sizeof what, "%s %s", weir_outcome_name(verdict->bound.outcome),
                       verdict->bound.name[0] == '\0' ? "(no limit)" : verdict->bound.name);
    else
        (void)snprintf(what, sizeof what, "%s", client->error);
    (void)snprintf(out, CLIENT_ERROR_MAX + 64, "%s%s%s", what, has_time ? " retry=" : "",
                   has_time ? verdict_time(end->retry_after, WEIR_MILLISECOND, time) : "");
}

/* Tell what an attempt came to; and where another follows, wait for it. */
static bool goes_on(struct weir_retry *retry, const struct remote_end *end, const char *text)
{
    char time[VERDICT_TIME_MAX];
    weir_ns now = weir_now();
    weir_ns at = 0;
    enum weir_retry_verdict verdict =
        weir_retry_next(retry, end->reply, end->retry_after, now, random_bits(), &at);
    if (verdict == WEIR_RETRY_AT)
        tell("attempt %u: %s; next in %s", retry->attempts, text,
             verdict_time(at - now, WEIR_MILLISECOND, time));
    else if (verdict == WEIR_RETRY_DONE)
        tell("attempt %u: %s", retry->attempts, text);
    else
        tell("attempt %u: %s; gave up: %s", retry->attempts, text, weir_retry_verdict_name(verdict));
    if (verdict == WEIR_RETRY_AT)
        cli_sleep_until(at);
    return verdict == WEIR_RETRY_AT;
}

enum remote_result attempts_ask(struct client *client, const char *fields, const struct weir_request *request,
                                weir_ns patience, struct verdict *out, struct slice *json)
{
    /* Of all requests of this run. Ten a second beside what is earned: it asks one at a time, and sleeps between. */
    static struct weir_retry_budget budget = { .max_tokens = 10, .ratio = 100, .per_second = 10 };
    const struct weir_retry_options options = { .is_repeatable = is_repeatable(request), .budget = &budget };
    bool waits = patience != WEIR_NO_TIME;
    weir_ns deadline = weir_now() + (waits ? patience : ATTEMPTS_PATIENCE);
    struct weir_request attempt = *request;
    struct weir_retry retry;
    enum remote_result result;
    struct remote_end end;
    char text[CLIENT_ERROR_MAX + 64];
    weir_retry_init(&retry, &options, deadline);
    do {
        weir_ns now = weir_now();
        attempt.wait = waits && now < deadline ? deadline - now : 0;
        result = remote_ask(client, fields, &attempt, out, json, &end);
        describe(text, result, client, out, &end);
    } while (goes_on(&retry, &end, text));
    return result;
}
