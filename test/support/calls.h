// SPDX-License-Identifier: Apache-2.0
/*
 * calls.h - calls of Envoy's rate limit service, written as text: "DOMAIN | key=value, key=value | key=value".
 *
 * A descriptor that begins with "N*" has N hits. Blanks around separators do not count; a value ends at a comma or a bar.
 */
#ifndef WEIR_TEST_CALLS_H
#define WEIR_TEST_CALLS_H

#include "weir_contract.h"

struct call_text {
    char text[4096];
    const char *domain;
    size_t count;
    struct weir_descriptor descriptors[WEIR_DESCRIPTORS_MAX];
    struct weir_entry entries[WEIR_DESCRIPTORS_MAX][WEIR_ENTRIES_MAX + 1];
    struct weir_identity said[WEIR_DESCRIPTORS_MAX];    /* by call_describe() */
    struct weir_request requests[WEIR_DESCRIPTORS_MAX]; /* chained */
};

/* Read the text; fails the test where it is too long. Hits are 1, or as said. */
void call_read(struct call_text *call, const char *text);

/* Describe every descriptor under the contract and chain the requests. NULL, or the attribute that one was refused for. */
const char *call_describe(const struct weir_contract *contract, struct call_text *call);

#endif
