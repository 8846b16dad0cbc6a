// SPDX-License-Identifier: Apache-2.0
/*
 * call.h - the bodies of the calls beside a check: reserve, settle, cancel, refund, reset; acquire, renew, release.
 *
 *     reserve  {"attributes": {...}, "cost": 500, "expires_after": 600}
 *     settle   {"reservation": "q1d...", "cost": 321}
 *     cancel   {"reservation": "q1d..."}
 *     refund   {"attributes": {...}, "cost": 100}
 *     reset    {"limit": "tenant-requests", "key": {"tenant": "acme"}}
 *     acquire  {"attributes": {...}, "cost": 1, "wait": 5, "bind": "connection"}
 *     renew    {"permit": "AQIA..."}
 *     release  {"permit": "AQIA...", "outcome": "ok"}
 *
 * A reservation or a permit is the base64url of its bytes (token.h). Whether it is one of ours only who gave it can say.
 */
#ifndef WEIR_WIRE_CALL_H
#define WEIR_WIRE_CALL_H

#include <assert.h>

#include "wire/check.h"
#include "wire/token.h"

enum call {
    CALL_RESERVE,
    CALL_SETTLE,
    CALL_CANCEL,
    CALL_REFUND,
    CALL_RESET,
    CALL_ACQUIRE,
    CALL_RENEW,
    CALL_RELEASE,
    CALL_COUNT
};

/* How the work that a permit covered ended, as its holder says. */
enum call_outcome { CALL_OK, CALL_FAILED, CALL_DROPPED, CALL_OUTCOME_COUNT };

/* "ok", "failed", "dropped". */
const char *call_outcome_name(enum call_outcome outcome);

/*
 * How long a reservation is good for unless the call says: longer than the slowest thing people wait for. And
 * at most: what is settled is remembered until the reservation expires.
 */
#define CALL_EXPIRES_AFTER (600 * WEIR_SECOND)
#define CALL_EXPIRES_AFTER_MAX (86400 * WEIR_SECOND)

struct call_body {
    struct weir_request
        ask; /* attributes (of reset: the key), cost; reserve, acquire: wait; of a command also is_peek */
    weir_ns expires_after;     /* reserve */
    const char *limit;         /* reset */
    bool is_bound;             /* acquire: the permit ends with the connection */
    enum call_outcome outcome; /* release */
    struct slice handle;       /* settle, cancel: a reservation; renew, release: a permit; in the storage */
    struct token token;        /* its parts */
};

/* What a call says that says nothing: one token is asked for, a reservation is good for CALL_EXPIRES_AFTER, the work went well. */
void call_body_init(struct call_body *out);

/* As check_parse(). Strings of *out are in the body or in the storage. */
int call_parse(enum call call, const struct check_storage *storage, const char *at, size_t len,
               struct call_body *out, struct check_fault *fault);

/* The field path of an attribute, for faults that the contract finds. */
void call_fault_attribute(struct check_fault *fault, enum call call, const struct call_body *body,
                          size_t attribute, const char *message);

static_assert(WEIR_PERMIT_MAX <= TOKEN_OWN_MAX, "a token holds either");

#endif
