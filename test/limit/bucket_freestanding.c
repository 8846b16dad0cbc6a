// SPDX-License-Identifier: Apache-2.0
/* weir_bucket.h and weir_retry.h alone, in a program without libc: they need <stdint.h>, <stddef.h> and <stdbool.h>, which the
   compiler brings. */
#include "weir_bucket.h"
#include "weir_retry.h"

int door(weir_bucket *bucket, weir_ns now);
enum weir_retry_verdict again(struct weir_retry *retry, const char *value, size_t len, weir_ns now,
                              uint64_t random, weir_ns *at);

int door(weir_bucket *bucket, weir_ns now)
{
    static const weir_rate rate = WEIR_RATE(5, WEIR_SECOND, 20);
    return weir_bucket_take(bucket, &rate, now, 1).outcome == WEIR_ALLOW;
}

enum weir_retry_verdict again(struct weir_retry *retry, const char *value, size_t len, weir_ns now,
                              uint64_t random, weir_ns *at)
{
    return weir_retry_next(retry, WEIR_REPLY_DENIED, weir_retry_after(value, len, 0), now, random, at);
}
