// SPDX-License-Identifier: Apache-2.0
/* weir_bucket.h alone, in a program without libc: it needs <stdint.h> and <stdbool.h>, which the compiler brings. */
#include "weir_bucket.h"

int door(weir_bucket *bucket, weir_ns now);

int door(weir_bucket *bucket, weir_ns now)
{
    static const weir_rate rate = WEIR_RATE(5, WEIR_SECOND, 20);
    return weir_bucket_take(bucket, &rate, now, 1).outcome == WEIR_ALLOW;
}
