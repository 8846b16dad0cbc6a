// SPDX-License-Identifier: Apache-2.0
/*
 * keys.c - one limit, any number of keys, in memory that is reserved at the start.
 *
 * Prints:
 *     ada: 20 of 21
 *     bob: 20 of 21
 */
#include <stdio.h>
#include <string.h>

#include "weir.h"

int main(void)
{
    struct weir *weir;
    weir_limit_id per_user;
    struct weir_limit limit = { .name = "per-user", .rate = { 5, WEIR_SECOND }, .burst = 20 };

    if (weir_new(&weir, &(struct weir_options){ .keys = 10000 }) != 0)
        return 1;
    int error = weir_limit_add(weir, &limit, &per_user);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", limit.name, weir_error_text(error));
        return 1;
    }

    weir_ns now = weir_now();
    const char *users[] = { "ada", "bob" };
    for (size_t i = 0; i < 2; i++) {
        const char *user = users[i];
        int passed = 0;
        for (int request = 0; request < 21; request++) {
            struct weir_decision decision;
            error = weir_check(weir, per_user, user, strlen(user), 1, now, &decision);
            if (error == 0 && decision.outcome == WEIR_ALLOW)
                passed += 1;
        }
        printf("%s: %d of 21\n", user, passed);
    }
    weir_free(weir);
    return 0;
}
