// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_lint.c - `weir lint`: the library finds, this prints. What is found is the answer, so it goes to standard output.
 */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "wire/text.h"

static const char about[] = "Warn about what CONTRACT allows and its author probably did not mean, with the\n"
                            "reason and the way out. Exit status 1 when there is a warning; notes are none.\n";

static const char *severity_word(const struct weir_diagnostic *item)
{
    static const char *const words[] = {
        [WEIR_SEVERITY_ERROR] = "error", [WEIR_SEVERITY_WARNING] = "warning", [WEIR_SEVERITY_NOTE] = "note"
    };
    return words[item->severity];
}

/* One finding, with some hundred bytes of each text at most. */
static void print_finding(const struct weir_diagnostic *item)
{
    char json[16384];
    struct text text = text_of(json, sizeof json);
    text_literal(&text, "{\"file\": ");
    text_json(&text, slice_of(item->file));
    text_literal(&text, ", \"line\": ");
    text_u64(&text, item->line);
    text_literal(&text, ", \"column\": ");
    text_u64(&text, item->column);
    text_literal(&text, ", \"severity\": ");
    text_json(&text, slice_of(severity_word(item)));
    text_literal(&text, ", \"message\": ");
    text_json(&text, slice_of(item->message));
    text_literal(&text, ", \"cure\": ");
    text_json(&text, slice_of(item->cure));
    text_literal(&text, "}");
    (void)fwrite(text.at, 1, text.len, stdout); /* main() asks whether all arrived */
}

static void print_json(const struct weir_diagnostics *diagnostics)
{
    printf("{\"findings\": [");
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++) {
        printf("%s", i == 0 ? "" : ", ");
        print_finding(weir_diagnostics_at(diagnostics, i));
    }
    printf("]}\n");
}

/* Notes are no faults. */
static bool has_faults(const struct weir_diagnostics *diagnostics)
{
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++)
        if (weir_diagnostics_at(diagnostics, i)->severity != WEIR_SEVERITY_NOTE)
            return true;
    return false;
}

static int lint(const char *path, unsigned replicas, bool is_json)
{
    struct weir_diagnostics *diagnostics = NULL;
    struct weir_contract *contract = contract_open("lint", path, false);
    if (contract == NULL)
        return EXIT_WRONG;
    int error = weir_contract_lint(contract, replicas, &diagnostics);
    int status = has_faults(diagnostics) ? EXIT_NO : EXIT_YES;
    if (error != 0) {
        complain("lint", "%s", weir_error_text(error));
        status = EXIT_WRONG;
    } else if (is_json) {
        print_json(diagnostics);
    } else {
        weir_diagnostics_print(diagnostics, stdout, wants_colour(stdout));
    }
    weir_diagnostics_free(diagnostics);
    weir_contract_free(contract);
    return status;
}

int cmd_lint(int argc, char **argv)
{
    uint64_t replicas = 0;
    bool is_json = false;
    const struct option options[] = {
        { OPTION_NUMBER, "replicas", "N", "processes that hold this contract", &replicas, 1, 1000000 },
        { OPTION_FLAG, "json", NULL, "one JSON object", &is_json, 0, 0 },
    };
    const struct usage usage = { "lint", "[CONTRACT]", about, options, sizeof options / sizeof *options };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;
    if (operands > 1) {
        complain("lint", "%.80s: one contract at a time", argv[2]);
        return EXIT_WRONG;
    }
    return lint(operands == 1 ? argv[1] : NULL, (unsigned)replicas, is_json);
}
