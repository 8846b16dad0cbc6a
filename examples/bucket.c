// SPDX-License-Identifier: Apache-2.0
/*
 * bucket.c - one token bucket in a struct of eight bytes: a header, no library.
 *
 * Prints:
 *     20 of 21 pass at once
 *     the next one passes in 200000000 ns
 */
#include <stdio.h>

#include "weir_bucket.h"

int main(void)
{
    weir_ns now = 0; /* your monotonic clock, counted from an origin of your choice */
    int passed = 0;

    /* 5 a second, at most 20 at once; a rate that cannot be kept exactly does not compile. */
    static const weir_rate login = WEIR_RATE(5, WEIR_SECOND, 20);
    weir_bucket bucket = WEIR_BUCKET_FULL;

    for (int i = 0; i < 21; i++)
        if (weir_bucket_take(&bucket, &login, now, 1).outcome == WEIR_ALLOW)
            passed += 1;
    printf("%d of 21 pass at once\n", passed);

    weir_verdict verdict = weir_bucket_peek(&bucket, &login, now, 1);
    weir_ns retry_at = weir_rate_retry_at(&login, verdict.full_at, now, 1);
    printf("the next one passes in %llu ns\n", (unsigned long long)(retry_at - now));
    return 0;
}
