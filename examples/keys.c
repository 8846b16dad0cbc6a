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
    if (weir_new(&weir, &(struct weir_options){ .keys = 10000 }) != 0)
        return 1;
    int error = weir_limit_add(
        weir,
        &(struct weir_limit){
            .name = "per-user", .algorithm = WEIR_TOKEN_BUCKET, .rate = { 5, WEIR_SECOND }, .burst = 20 },
        &per_user);
    if (error != 0) {
        fprintf(stderr, "per-user: %s\n", weir_error_text(error));
        return 1;
    }

    weir_ns now = weir_now();
    const char *users[] = { "ada", "bob" };
    for (size_t i = 0; i < 2; i++) {
        int passed = 0;
        for (int request = 0; request < 21; request++) {
            struct weir_decision decision;
            if (weir_check(weir, per_user, users[i], strlen(users[i]), 1, now, &decision) == 0
                && decision.outcome == WEIR_ALLOW)
                passed += 1;
        }
        printf("%s: %d of 21\n", users[i], passed);
    }
    weir_free(weir);
    return 0;
}
