// SPDX-License-Identifier: Apache-2.0
/* explain.c - a contract in plain English. */
#include "rule/contract.h"

int weir_contract_explain(const struct weir_contract *contract, const struct weir_explain_options *options, FILE *out)
{
    (void)options;
    for (size_t i = 0; i < contract->limit_count; i++)
        fprintf(out, "%s\n", contract->limits[i].json);
    return ferror(out) != 0 ? WEIR_ERR_FILE : 0;
}
