// SPDX-License-Identifier: Apache-2.0
/*
 * reloaded.h - what POST /v1/reload answers: what became of the limits, or what is wrong with the file.
 *
 * Diagnostics are an array of objects {severity, line, column, message, cure}; the first RELOADED_SHOWN of
 * them, and `more` says how many are left out. `beside`, NULL or what a reload found wrong outside of the contract (with
 * files that it read again), stands in front of them as a warning.
 */
#ifndef WEIR_WIRE_RELOADED_H
#define WEIR_WIRE_RELOADED_H

#include "weir_contract.h"
#include "wire/text.h"

#define RELOADED_SHOWN 100

/*
 * {"version":...,"kept":...,"resized":...,"added":...,"restarted":...,"removed":...,"warnings":[...],"more":0}
 */
void reloaded_json(struct text *out, const char *version, const struct weir_reload *counts,
                   const struct weir_diagnostics *diagnostics, const struct weir_diagnostic *beside);

/* The problem document of a file that is not put in force: `detail` is its first error. */
void reloaded_problem_json(struct text *out, const char *detail, const struct weir_diagnostics *diagnostics,
                           const struct weir_diagnostic *beside);

/* FILE:LINE:COLUMN: MESSAGE of the first error, or `otherwise`; as long as there is room, with a final zero. */
void reloaded_first_error(char *out, size_t size, const char *file, const struct weir_diagnostics *diagnostics,
                          const char *otherwise);

#endif
