// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_import_ratelimit.c - any bytes as a configuration of envoyproxy/ratelimit: a contract that loads, or why not,
 * never a crash.
 */
#include <stdlib.h>

#include "rule/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_diagnostics *diagnostics = NULL;
    struct weir_contract *contract = NULL;
    char *text = NULL, *printed = NULL;
    size_t text_len = 0, printed_len = 0;
    FILE *out = open_memstream(&text, &text_len);
    FILE *told = open_memstream(&printed, &printed_len);
    if (out == NULL || told == NULL)
        abort();
    int error =
        import_from_text(WEIR_FOREIGN_RATELIMIT, (struct slice){ (const char *)data, size }, out, &diagnostics);
    weir_diagnostics_print(diagnostics, told, size % 2 == 0);
    if (fclose(out) != 0 || fclose(told) != 0)
        abort();
    size_t errors = 0;
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++)
        errors += weir_diagnostics_at(diagnostics, i)->severity == WEIR_SEVERITY_ERROR;
    if ((error == WEIR_ERR_CONTRACT) != (errors > 0) || (error != 0 && text_len > 0))
        abort();

    /* What was written loads, and can be reviewed. */
    const struct weir_contract_options options = { .keys = 1, .has_wall_offset = true };
    weir_diagnostics_free(diagnostics);
    diagnostics = NULL;
    if (error == 0 && weir_contract_parse(&contract, text, text_len, "imported", &options, NULL) != 0)
        abort();
    if (error == 0 && weir_contract_lint(contract, 2, &diagnostics) != 0)
        abort();
    weir_diagnostics_free(diagnostics);
    weir_contract_free(contract);
    free(text);
    free(printed);
    return 0;
}
