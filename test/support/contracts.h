// SPDX-License-Identifier: Apache-2.0
/* contracts.h - load a contract from text in a test, and what was said about it. */
#ifndef WEIR_TEST_CONTRACTS_H
#define WEIR_TEST_CONTRACTS_H

#include "weir_contract.h"

/* A load: code, contract or NULL, diagnostics or NULL, and these as printed without colour ("" when none). */
struct loaded {
    int error;
    struct weir_contract *contract;
    struct weir_diagnostics *diagnostics;
    char *printed;
};

/* From `text`, called `t.yaml`, in virtual time: stamp 0 is Unix time `wall`, ns. Free with loaded_free(). */
struct loaded contract_from(const char *text, int64_t wall);

/* The same with options of one's own. */
struct loaded contract_with(const char *text, size_t len, const struct weir_contract_options *options);

void loaded_free(struct loaded *loaded);

/* "name=value name=value" as attributes; the text is cut in place. Returns how many. */
size_t attributes_of(char *text, struct weir_attribute out[WEIR_ATTRIBUTES_MAX]);

/* Decide one request, written the same way; fails the test when there is no decision. */
struct weir_answer ask(const struct weir_contract *contract, const char *request, uint64_t cost, weir_ns now);

#endif
