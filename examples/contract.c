// SPDX-License-Identifier: Apache-2.0
/*
 * contract.c - a contract decides: requests are attributes, limits and keys come from weir.yaml.
 *
 * Usage: contract [FILE], default examples/weir.yaml.
 *
 * Prints:
 *     20 of 21 pass; tenant-requests says retry in 200 ms
 */
#include <stdio.h>
#include <stdlib.h>

#include "weir_contract.h"

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/weir.yaml";
    struct weir_contract *contract;
    struct weir_diagnostics *diagnostics;
    if (weir_contract_load(&contract, path, NULL, &diagnostics) != 0) {
        weir_diagnostics_print(diagnostics, stderr, false);
        weir_diagnostics_free(diagnostics);
        return 2;
    }
    weir_diagnostics_free(diagnostics); /* warnings */

    weir_ns now = weir_now();
    struct weir_decision decision;
    int passed = 0;
    for (int i = 0; i < 21; i++) {
        struct weir_attribute attributes[] = { { .name = "tenant", .value = "acme" },
                                               { .name = "path", .value = "/v1/items" } };
        int error = weir_contract_admit(contract, attributes, 2, now, &decision);
        if (error != 0)
            return 1;
        if (decision.outcome == WEIR_ALLOW)
            passed += 1;
    }
    printf("%d of 21 pass; %s says retry in %d ms\n", passed,
           weir_contract_limit(contract, decision.limit)->name,
           (int)((decision.retry_at - now) / WEIR_MILLISECOND));
    weir_contract_free(contract);
    return 0;
}
