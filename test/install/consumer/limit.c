// SPDX-License-Identifier: Apache-2.0
/* limit.c - a program of somebody else: one limit of libweir, built against the installed files as C and as C++. */
#include <stdio.h>
#include <string.h>

#include <weir.h>

int main(void)
{
    struct weir *weir = NULL;
    struct weir_limit limit;
    struct weir_decision decision;
    weir_limit_id id;
    int allowed = 0;

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
    printf("%d of 21\n", allowed);
    return allowed == 20 ? 0 : 1;
}
