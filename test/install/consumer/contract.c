// SPDX-License-Identifier: Apache-2.0
/* contract.c - a program of somebody else: a contract of libweir-contract, as C and as C++. */
#include <stdio.h>
#include <string.h>

#include <weir_contract.h>

static const char text[] = "weir: 1\n"
                           "limits:\n"
                           "  - name: tenant-requests\n"
                           "    key: [tenant]\n"
                           "    rate: 5/s\n"
                           "    burst: 20\n";

int main(void)
{
    struct weir_contract *contract = NULL;
    struct weir_diagnostics *diagnostics = NULL;
    struct weir_decision decision;
    const struct weir_attribute attributes[] = { { "tenant", "acme", 0 } };
    int allowed = 0;

    if (weir_contract_parse(&contract, text, strlen(text), "text", NULL, &diagnostics) != 0) {
        weir_diagnostics_print(diagnostics, stderr, false);
        return 2;
    }
    weir_diagnostics_free(diagnostics);
    for (int i = 0; i < 21; i++)
        if (weir_contract_admit(contract, attributes, 1, WEIR_SECOND, &decision) == 0
            && decision.outcome == WEIR_ALLOW)
            allowed += 1;
    weir_contract_free(contract);
    printf("%d of 21\n", allowed);
    return allowed == 20 ? 0 : 1;
}
