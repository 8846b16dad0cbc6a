// SPDX-License-Identifier: Apache-2.0
/* reloaded.c - diagnostics as JSON; see reloaded.h. */
#include "wire/reloaded.h"

#include <stdio.h>

static size_t count_of(const struct weir_diagnostics *diagnostics)
{
    return diagnostics == NULL ? 0 : weir_diagnostics_count(diagnostics);
}

static void write_diagnostic(struct text *out, const struct weir_diagnostic *diagnostic)
{
    text_string(out, diagnostic->severity == WEIR_SEVERITY_ERROR ? "{\"severity\":\"error\",\"line\":"
                                                                 : "{\"severity\":\"warning\",\"line\":");
    text_u64(out, diagnostic->line);
    text_literal(out, ",\"column\":");
    text_u64(out, diagnostic->column);
    text_literal(out, ",\"message\":");
    text_json(out, slice_of(diagnostic->message));
    text_literal(out, ",\"cure\":");
    text_json(out, slice_of(diagnostic->cure));
    text_literal(out, "}");
}

/* [...],"more":N */
static void write_diagnostics(struct text *out, const struct weir_diagnostics *diagnostics,
                              const struct weir_diagnostic *beside)
{
    size_t count = count_of(diagnostics), shown = count < RELOADED_SHOWN ? count : RELOADED_SHOWN;
    text_literal(out, "[");
    if (beside != NULL)
        write_diagnostic(out, beside);
    for (size_t i = 0; i < shown; i++) {
        if (i > 0 || beside != NULL)
            text_literal(out, ",");
        write_diagnostic(out, weir_diagnostics_at(diagnostics, i));
    }
    text_literal(out, "],\"more\":");
    text_u64(out, count - shown);
}

void reloaded_json(struct text *out, const char *version, const struct weir_reload *counts,
                   const struct weir_diagnostics *diagnostics, const struct weir_diagnostic *beside)
{
    const struct {
        const char *name;
        size_t count;
    } rows[] = {
        { ",\"kept\":", counts->kept },       { ",\"resized\":", counts->resized },
        { ",\"added\":", counts->added },     { ",\"restarted\":", counts->restarted },
        { ",\"removed\":", counts->removed },
    };
    text_literal(out, "{\"version\":");
    text_json(out, slice_of(version));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_string(out, rows[i].name);
        text_u64(out, rows[i].count);
    }
    text_literal(out, ",\"warnings\":");
    write_diagnostics(out, diagnostics, beside);
    text_literal(out, "}\n");
}

void reloaded_problem_json(struct text *out, const char *detail, const struct weir_diagnostics *diagnostics,
                           const struct weir_diagnostic *beside)
{
    text_literal(out,
                 "{\"type\":\"about:blank\",\"title\":\"Unprocessable Content\",\"status\":422,\"detail\":");
    text_json(out, slice_of(detail));
    text_literal(out, ",\"diagnostics\":");
    write_diagnostics(out, diagnostics, beside);
    text_literal(out, "}\n");
}

void reloaded_first_error(char *out, size_t size, const char *file, const struct weir_diagnostics *diagnostics,
                          const char *otherwise)
{
    for (size_t i = 0; i < count_of(diagnostics); i++) {
        const struct weir_diagnostic *found = weir_diagnostics_at(diagnostics, i);
        if (found->severity != WEIR_SEVERITY_ERROR)
            continue;
        if (found->file != NULL)
            file = found->file; /* in a folder of them */
        if (found->line == 0)
            (void)snprintf(out, size, "%s: %s", file, found->message); /* cut where it is too long */
        else
            (void)snprintf(out, size, "%s:%u:%u: %s", file, found->line, found->column, found->message);
        return;
    }
    (void)snprintf(out, size, "%s: %s", file, otherwise);
}
