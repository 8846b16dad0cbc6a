// SPDX-License-Identifier: Apache-2.0
/*
 * several.c - one request under three limits, all or nothing: what one of them refuses is charged to none.
 *
 * Prints:
 *     10 of 12 pass; per-tenant refuses the others
 *     per-user has 10 of 20 left: the refused requests took nothing
 */
#include <stdio.h>

#include "weir.h"

static weir_limit_id add(struct weir *weir, const char *name, uint64_t per_second, uint64_t burst)
{
    weir_limit_id id = WEIR_NO_LIMIT;
    struct weir_limit limit = { .name = name, .rate = { per_second, WEIR_SECOND }, .burst = burst };
    int error = weir_limit_add(weir, &limit, &id);
    if (error != 0)
        fprintf(stderr, "%s: %s\n", name, weir_error_text(error));
    return id;
}

int main(void)
{
    struct weir *weir;
    if (weir_new(&weir, NULL) != 0)
        return 1;
    weir_limit_id per_user = add(weir, "per-user", 5, 20);
    weir_limit_id per_tenant = add(weir, "per-tenant", 5, 10);
    weir_limit_id global = add(weir, "global", 1000, 1000);

    weir_ns now = weir_now();
    struct weir_decision decision, binding = { .limit = WEIR_NO_LIMIT };
    int passed = 0;
    for (int i = 0; i < 12; i++) {
        struct weir_ask asks[] = { { per_user, "ada", 3, 1 },
                                   { per_tenant, "acme", 4, 1 },
                                   { global, NULL, 0, 1 } };
        int error = weir_admit(weir, asks, 3, now, NULL, &decision);
        if (error != 0)
            return 1;
        if (decision.outcome == WEIR_ALLOW)
            passed += 1;
        else
            binding = decision;
    }
    printf("%d of 12 pass; %s refuses the others\n", passed, weir_limit_name(weir, binding.limit));

    if (weir_peek(weir, per_user, "ada", 3, 1, now, &decision) != 0)
        return 1;
    printf("per-user has %d of 20 left: the refused requests took nothing\n", (int)decision.remaining);
    weir_free(weir);
    return 0;
}
