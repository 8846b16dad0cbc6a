// SPDX-License-Identifier: Apache-2.0
/* limit.c - a program of somebody else: one limit of libweir and a client of it, built against the installed files as C and as
   C++. */
#include <stdio.h>
#include <string.h>

#include <weir.h>
#include <weir_retry.h>

int main(void)
{
    struct weir *weir = NULL;
    struct weir_limit limit;
    struct weir_decision decision;
    weir_limit_id id;
    int allowed = 0;
    struct weir_retry_options options;
    struct weir_retry retry;
    weir_ns at = 0;

    memset(&limit, 0, sizeof limit);
    limit.name = "per-user";
    limit.rate.count = 5;
    limit.rate.period = WEIR_SECOND;
    limit.burst = 20;
    if (weir_new(&weir, NULL) != 0 || weir_limit_add(weir, &limit, &id) != 0)
        return 2;
    for (int i = 0; i < 21; i++)
        if (weir_check(weir, id, "ada", 3, 1, WEIR_SECOND, &decision) == 0 && decision.outcome == WEIR_ALLOW)
            allowed += 1;
    weir_free(weir);

    memset(&options, 0, sizeof options);
    weir_retry_init(&retry, &options, WEIR_NO_TIME);
    if (weir_retry_next(&retry, weir_reply_from_outcome(decision.outcome), decision.retry_at - WEIR_SECOND,
                        WEIR_SECOND, 0, &at)
            != WEIR_RETRY_AT
        || at != decision.retry_at)
        return 3;
    printf("%d of 21\n", allowed);
    return allowed == 20 ? 0 : 1;
}
