// SPDX-License-Identifier: Apache-2.0
/*
 * imported.h - what holds of both importers: any bytes give a contract that loads and can be reviewed, or say why not, and
 * never crash.
 */
#ifndef WEIR_FUZZ_IMPORTED_H
#define WEIR_FUZZ_IMPORTED_H

#include <stdlib.h>

#include "rule/import.h"

/* What was written loads. */
static inline void imported_loads(const char *text, size_t len)
{
    const struct weir_contract_options options = { .keys = 1, .has_wall_offset = true };
    struct weir_diagnostics *diagnostics = NULL;
    struct weir_contract *contract = NULL;
    if (weir_contract_parse(&contract, text, len, "imported", &options, NULL) != 0)
        abort();
    if (weir_contract_lint(contract, 2, &diagnostics) != 0)
        abort();
    weir_diagnostics_free(diagnostics);
    weir_contract_free(contract);
}

static inline void imported_check(enum weir_foreign kind, const uint8_t *data, size_t size)
{
    struct weir_diagnostics *diagnostics = NULL;
    char *text = NULL, *printed = NULL;
    size_t text_len = 0, printed_len = 0;
    FILE *out = open_memstream(&text, &text_len);
    FILE *told = open_memstream(&printed, &printed_len);
    if (out == NULL || told == NULL)
        abort();
    int error = import_from_text((int)kind, (struct slice){ (const char *)data, size }, out, &diagnostics);
    weir_diagnostics_print(diagnostics, told, size % 2 == 0);
    if (fclose(out) != 0 || fclose(told) != 0)
        abort();
    size_t errors = 0;
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++)
        errors += weir_diagnostics_at(diagnostics, i)->severity == WEIR_SEVERITY_ERROR;
    if ((error == WEIR_ERR_CONTRACT) != (errors > 0) || (error != 0 && text_len > 0))
        abort();
    if (error == 0)
        imported_loads(text, text_len);
    weir_diagnostics_free(diagnostics);
    free(text);
    free(printed);
}

#endif
