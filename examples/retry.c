// SPDX-License-Identifier: Apache-2.0
/*
 * retry.c - a client that asks again as weir_retry.h says: a header, no library (the limit here is only there to answer).
 *
 * Prints:
 *     attempt 1 at 0 ms: denied, wait 200 ms
 *     attempt 2 at 263 ms: denied, wait 137 ms
 *     attempt 3 at 463 ms: passed
 */
#include <stdio.h>

#include "weir_retry.h"

#define MS WEIR_MILLISECOND

/* Somebody else's limit: 5 a second, and by the time of the second attempt another client has taken what there was. */
static const weir_rate rate = WEIR_RATE(5, WEIR_SECOND, 1);
static weir_bucket bucket = WEIR_BUCKET_FULL;

static enum weir_reply send_request(weir_ns now, weir_ns *retry_after)
{
    weir_verdict verdict = weir_bucket_take(&bucket, &rate, now, 1);
    *retry_after = weir_rate_retry_at(&rate, verdict.full_at, now, 1) - now;
    return weir_reply_from_outcome(verdict.outcome);
}

int main(void)
{
    static struct weir_retry_budget budget = WEIR_RETRY_BUDGET_FULL; /* of all requests to this service */
    static const struct weir_retry_options options = { .budget = &budget };
    const uint64_t bits[] = { UINT64_MAX / 100 * 63, UINT64_MAX / 200 * 63 }; /* from your generator */
    enum weir_retry_verdict verdict;
    struct weir_retry retry;
    weir_ns now = 0; /* your monotonic clock */

    weir_bucket_take(&bucket, &rate, now, 1);
    weir_retry_init(&retry, &options, now + 5 * WEIR_SECOND);
    do {
        weir_ns retry_after;
        weir_ns at = now;
        enum weir_reply reply = send_request(now, &retry_after);
        verdict = weir_retry_next(&retry, reply, retry_after, now, bits[retry.attempts % 2], &at);
        if (verdict == WEIR_RETRY_AT)
            printf("attempt %u at %u ms: denied, wait %u ms\n", retry.attempts, (unsigned)(now / MS),
                   (unsigned)(retry_after / MS));
        else
            printf("attempt %u at %u ms: passed\n", retry.attempts, (unsigned)(now / MS));
        if (retry.attempts == 1)
            weir_bucket_take(&bucket, &rate, now + 200 * MS, 1); /* the other client */
        now = at;                                                /* sleep until then */
    } while (verdict == WEIR_RETRY_AT);
    return verdict == WEIR_RETRY_DONE ? 0 : 1;
}
