// SPDX-License-Identifier: Apache-2.0
/*
 * check.h - the body of POST /v1/check: one request, or up to 1000.
 *
 *     {"attributes": {"tenant": "acme", "path": "/v1/items"}, "cost": 1, "mode": "take", "wait": 0.5}
 *     {"requests": [ ..., ... ]}
 *
 * Idea: a batch is read whole before any of it is decided, so a mistake in its last item charges nothing. Each
 * fault names the field by its path, `requests[3].cost`, what was found and what to send instead. A batch is
 * answered whole, so one item that waits would make all of them wait: `wait` is for a request that stands alone.
 *
 * Attributes are strings, integers or booleans; the last two count as their text. An empty string is as good as
 * absent. What only the contract can judge (a bad escape in `path`) is weir_contract_validate()'s.
 */
#ifndef WEIR_WIRE_CHECK_H
#define WEIR_WIRE_CHECK_H

#include "base/bytes.h"
#include "weir_contract.h"

/* Largest body, and most requests and attributes in it (interface, "HTTP" and the table of calls). */
#define CHECK_BODY_MAX ((size_t)1 << 20)
#define CHECK_REQUESTS_MAX 1000
#define CHECK_ATTRIBUTES_MAX (CHECK_REQUESTS_MAX * WEIR_ATTRIBUTES_MAX)

struct check_request {
    struct weir_request ask; /* cost 1 and a take unless the body says otherwise */
};

/* Where requests are put: one per worker, used by one body at a time. Borrowed. */
struct check_storage {
    struct check_request *requests; /* room for CHECK_REQUESTS_MAX */
    size_t request_cap;
    struct weir_attribute *attributes; /* room for CHECK_ATTRIBUTES_MAX */
    size_t attribute_cap;
    char *scratch; /* room for as many bytes as the body has: escaped strings are unescaped into it */
    size_t scratch_cap;
};

struct check_body {
    bool is_batch;
    size_t count;
    const struct check_request *requests; /* in the storage; strings in the body or in scratch */
};

/* Why a body is refused with 400. */
struct check_fault {
    char field[160];   /* "requests[3].cost"; "" when the body as a whole is meant */
    char message[256]; /* what is wrong and the cure, printable UTF-8 */
};

/* Returns 0, or -1 with *fault. Nothing of `out` is written on a fault. */
int check_parse(const struct check_storage *storage, const char *body, size_t len, struct check_body *out,
                struct check_fault *fault);

/* The field path of an attribute of request `index`, for faults that the contract finds. */
void check_fault_attribute(struct check_fault *fault, const struct check_body *body, size_t index,
                           size_t attribute, const char *message);

#endif
