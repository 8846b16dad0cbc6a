// SPDX-License-Identifier: Apache-2.0
/*
 * call.h - the bodies of the calls beside a check: reserve, settle, cancel, refund, reset.
 *
 *     reserve  {"attributes": {...}, "cost": 500, "expires_after": 600}
 *     settle   {"reservation": "q1d...", "cost": 321}
 *     cancel   {"reservation": "q1d..."}
 *     refund   {"attributes": {...}, "cost": 100}
 *     reset    {"limit": "tenant-requests", "key": {"tenant": "acme"}}
 *
 * A reservation is the base64url of its bytes. Whether it is one of ours only the limiter can say.
 */
#ifndef WEIR_WIRE_CALL_H
#define WEIR_WIRE_CALL_H

#include "wire/check.h"

enum call { CALL_RESERVE, CALL_SETTLE, CALL_CANCEL, CALL_REFUND, CALL_RESET, CALL_COUNT };

/*
 * How long a reservation is good for unless the call says: longer than the slowest thing people wait for. And
 * at most: what is settled is remembered until the reservation expires.
 */
#define CALL_EXPIRES_AFTER (600 * WEIR_SECOND)
#define CALL_EXPIRES_AFTER_MAX (86400 * WEIR_SECOND)

struct call_body {
    struct weir_request ask; /* attributes (of reset: the key) and cost */
    weir_ns wait;            /* reserve; not yet used by any limit */
    weir_ns expires_after;   /* reserve */
    const char *limit;       /* reset */
    size_t reservation_len;  /* settle, cancel */
    unsigned char reservation[WEIR_RESERVATION_MAX];
};

/* As check_parse(). Strings of *out are in the body or in the storage. */
int call_parse(enum call call, const struct check_storage *storage, const char *at, size_t len,
               struct call_body *out, struct check_fault *fault);

/* The field path of an attribute, for faults that the contract finds. */
void call_fault_attribute(struct check_fault *fault, enum call call, const struct call_body *body,
                          size_t attribute, const char *message);

#endif
