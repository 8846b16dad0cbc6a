// SPDX-License-Identifier: Apache-2.0
/* imports.h - import a text in a test, load what came of it, and ask it. */
#ifndef WEIR_TEST_IMPORTS_H
#define WEIR_TEST_IMPORTS_H

#include "rule/import.h"
#include "support/contracts.h"

/* The imported text ("" where it was refused), its findings as printed, and what the text loads to. */
struct imported {
    int error;
    char *text, *findings;
    size_t text_len;
    struct loaded loaded; /* nothing where the import was refused */
};

/* Import `text`; with a contract, that loads without errors and explains itself, or fails the test. */
struct imported import_of(int kind, const char *text);
void imported_free(struct imported *imported);

/* "LINE:COLUMN message" of each error, joined by " | "; "" when the import was fine. */
void import_errors(int kind, const char *text, char *out, size_t size);

#endif
