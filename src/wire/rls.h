// SPDX-License-Identifier: Apache-2.0
/*
 * rls.h - calls of Envoy's rate limit service (envoy.service.ratelimit.v3) and their answers, as protobuf and as JSON.
 *
 * Idea: both codings fill and write the same plain structs, so the gRPC door and `/json` are one door in two codings. What is read
 * points into the bytes that it was read from, or of JSON into the caller's room; nothing here allocates.
 *
 * Files: rls.c protobuf, rls_json.c and rls_json_write.c JSON, rls_call.c what a call must have in either, rls_answer.c what weir
 * decided in the service's words.
 */
#ifndef WEIR_WIRE_RLS_H
#define WEIR_WIRE_RLS_H

#include "base/bytes.h"
#include "weir_contract.h"
#include "wire/text.h"

/* Largest call, as a message. Envoy's have some hundred bytes. */
#define RLS_CALL_MAX ((size_t)64 << 10)

/* envoy.type.v3.RateLimitUnit; an answer's unit has WEEK beside it. */
enum rls_unit {
    RLS_UNKNOWN_UNIT,
    RLS_SECOND,
    RLS_MINUTE,
    RLS_HOUR,
    RLS_DAY,
    RLS_MONTH,
    RLS_YEAR,
    RLS_WEEK,
};

/* What a descriptor says beside its entries. */
struct rls_asked {
    uint64_t hits;  /* 0: only looks. Its own, or where it has none the call's, at least 1; at most INT64_MAX */
    bool is_refund; /* is_negative_hits: give them back */
    bool has_limit; /* it brings its own limit, whatever the contract says */
    uint32_t requests_per_unit, unit_multiplier; /* the latter at least 1 */
    enum rls_unit unit;                          /* a known one */
};

/* Its descriptors point into its entries, so it stays where it is. */
struct rls_call {
    struct slice domain;
    size_t count; /* of descriptors, at least 1 */
    struct weir_descriptor descriptors[WEIR_DESCRIPTORS_MAX];
    struct rls_asked asked[WEIR_DESCRIPTORS_MAX];
    struct weir_entry entries[WEIR_DESCRIPTORS_MAX * WEIR_ENTRIES_MAX]; /* room of the descriptors */
};

enum rls_code { RLS_UNKNOWN, RLS_OK, RLS_OVER_LIMIT };

struct rls_status {
    enum rls_code code;
    bool has_limit;                              /* a limit was met */
    uint32_t requests_per_unit, unit_multiplier; /* the latter 0 as 1 */
    enum rls_unit unit;
    struct slice name;
    uint32_t remaining;
    bool has_reset;
    uint64_t reset_seconds;
};

struct rls_header {
    struct slice key, value;
};

/* Most headers of an answer, and room for them and its body. */
#define RLS_HEADERS_MAX 8
#define RLS_STORAGE ((size_t)56 << 10)

/* Any answer, written. */
#define RLS_ANSWER_MAX ((size_t)128 << 10)

struct rls_answer {
    enum rls_code overall;
    size_t count; /* of statuses: one for each descriptor, in their order */
    struct rls_status statuses[WEIR_DESCRIPTORS_MAX];
    size_t header_count;
    struct rls_header headers[RLS_HEADERS_MAX];
    struct slice body;         /* of the reply to a request that is refused */
    char storage[RLS_STORAGE]; /* of headers and body */
};

/* Why a call cannot be read. */
enum rls_fault {
    RLS_GOOD,
    RLS_BAD,      /* INVALID_ARGUMENT: not such a message, no domain, no descriptor, a key without a name */
    RLS_TOO_MUCH, /* RESOURCE_EXHAUSTED: too many descriptors or entries */
};

/*
 * Read a call. What was read points into the message, of JSON into `room` as well, where texts with escapes are written: as much as the
 * body has suffices. *why: a sentence that names what is wrong, a literal; written unless RLS_GOOD.
 */
enum rls_fault rls_read(struct slice message, struct rls_call *out, const char **why);
enum rls_fault rls_json_read(struct slice body, void *room, size_t room_len, struct rls_call *out,
                             const char **why);

/* Write an answer. */
void rls_write(const struct rls_answer *answer, struct text *out);
void rls_json_write(const struct rls_answer *answer, struct text *out);

/*
 * What was decided for a call whose descriptors were one weir_request each, chained by `also` in their order, without those that
 * are a refund: the statuses of these are left as they are, and count for out->overall as they are. An answer that could not be
 * decided (WEIR_REFUSED) has no words here: it is an error.
 *
 *   now      as in struct verdict.
 *   asked    of the call's descriptors, `count` of them.
 *   headers  those that a client is to see, Retry-After apart. Names are in lower case, as HTTP/2 wants them.
 */
void rls_answer_make(const struct weir_answer *answer, weir_ns now, const struct rls_asked *asked, size_t count,
                     enum weir_headers headers, struct rls_answer *out);

#endif
