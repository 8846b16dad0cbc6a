// SPDX-License-Identifier: Apache-2.0
/* imports.c - every import that succeeds is loaded and explained. */
#include "support/imports.h"

#include "support/unit.h"

static void explain(const struct weir_contract *contract)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct weir_explain_options options = { .is_json = false };
    assert_non_null(out);
    assert_int_equal(weir_contract_explain(contract, &options, out), 0);
    assert_int_equal(fclose(out), 0);
    assert_true(len > 0);
    free(text);
}

struct imported import_of(int kind, const char *text)
{
    struct imported imported = { 0 };
    struct weir_diagnostics *diagnostics = NULL;
    size_t findings_len = 0;
    FILE *out = open_memstream(&imported.text, &imported.text_len);
    FILE *findings = open_memstream(&imported.findings, &findings_len);
    assert_non_null(out);
    assert_non_null(findings);
    imported.error = import_from_text(kind, slice_of(text), out, &diagnostics);
    weir_diagnostics_print(diagnostics, findings, false);
    weir_diagnostics_free(diagnostics);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(fclose(findings), 0);
    if (imported.error != 0) {
        assert_int_equal(imported.text_len, 0); /* whole or nothing */
        return imported;
    }
    imported.loaded = contract_from(imported.text, 0);
    if (imported.loaded.error != 0)
        fail_msg("%s\ndoes not load: %s", imported.text, imported.loaded.printed);
    explain(imported.loaded.contract);
    return imported;
}

void imported_free(struct imported *imported)
{
    free(imported->text);
    free(imported->findings);
    loaded_free(&imported->loaded);
}

void import_errors(int kind, const char *text, char *out, size_t size)
{
    struct weir_diagnostics *diagnostics = NULL;
    char *ignored = NULL;
    size_t ignored_len = 0, len = 0;
    FILE *stream = open_memstream(&ignored, &ignored_len);
    assert_non_null(stream);
    int error = import_from_text(kind, slice_of(text), stream, &diagnostics);
    assert_int_equal(fclose(stream), 0);
    free(ignored);
    out[0] = '\0';
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++) {
        const struct weir_diagnostic *item = weir_diagnostics_at(diagnostics, i);
        assert_true(strlen(item->cure) > 0);
        len += (size_t)snprintf(out + len, size - len, "%s%u:%u %s", len == 0 ? "" : " | ", item->line,
                                item->column, item->message);
        assert_true(len < size);
    }
    assert_int_equal(error, len == 0 ? 0 : WEIR_ERR_CONTRACT);
    weir_diagnostics_free(diagnostics);
}
