// SPDX-License-Identifier: Apache-2.0
/*
 * answer.h - decisions as bytes: JSON, problem documents, reply fields, whole HTTP responses.
 *
 * Idea: the words and numbers that clients read are made in one place, so that every door, the library's JSON
 * and `weir check --json` say the same. Numbers are written from integers; published waits are rounded up,
 * remaining tokens down, so nobody is told to come too early or promised what is not there.
 *
 *   instants  become lengths from `now`, the stamp the decision was asked at. A decision that holds for a later
 *             stamp (decided_at: `now` was stale) therefore names the longer wait that is really ahead.
 *   null      where nothing is known or finite: no limit, an undecided limit's remaining, a budget that never
 *             refills, the retry time of `never`.
 *   retry_after  0 only for `allow`.
 *
 * Elsewhere: statuses of faulty requests (http1.c, check.c), routes (net/).
 */
#ifndef WEIR_WIRE_ANSWER_H
#define WEIR_WIRE_ANSWER_H

#include "base/bytes.h"
#include "weir_contract.h"
#include "wire/base64url.h"
#include "wire/text.h"
#include "wire/token.h"

/* A decision's JSON, one item of a batch with its comma, a problem document: never longer, but for the text of a token that has
   a part in the shared store. */
#define ANSWER_JSON_MAX ((size_t)32 << 10)

/* Any response that answer_decision() or answer_error() writes. */
#define ANSWER_MAX (((size_t)56 << 10) + BASE64URL_LEN(TOKEN_MAX))

enum answer_door { ANSWER_CHECK, ANSWER_AUTH, ANSWER_AUTH_NGINX, ANSWER_AUTH_ACCEL };

/* Why a request did not wait for limits that let callers wait and refused it, or waited in vain: for `detail`. */
enum answer_wait {
    ANSWER_WAIT_UNTOLD,    /* none let it wait */
    ANSWER_WAIT_UNASKED,   /* it did not say for how long it can */
    ANSWER_WAIT_NO_WISH,   /* the same, at a door that hears `Prefer` */
    ANSWER_WAIT_LOOKS,     /* for a permit, where none is given */
    ANSWER_WAIT_LATE,      /* its turn would come later than it can wait */
    ANSWER_WAIT_BEYOND,    /* later than a limit lets callers wait */
    ANSWER_WAIT_FULL,      /* a queue is */
    ANSWER_WAIT_CROWDED,   /* the server has no room for more that wait */
    ANSWER_WAIT_OVER,      /* it waited as long as it might */
    ANSWER_WAIT_RESTARTED, /* meanwhile a limit took the place of the one that it waited for */
};

/* What some answers say beside the decision; NULL, or a member that is zero, says nothing. */
struct answer_beside {
    const struct weir_reservation *ticket; /* POST /v1/reserve; len 0: nothing was reserved */
    const struct weir_permit *permit;      /* POST /v1/acquire; len 0: nothing is held */
    struct slice joint;    /* the bytes of either with its part in the shared store; empty: it has none */
    weir_ns expires_after; /* of either, from `now` */
    bool has_waited;       /* the request waited, for so long */
    weir_ns waited;
    enum answer_wait wait;
    uint64_t preferred; /* the seconds of a `Prefer: wait=` that was heard: the reply says how many counted */
};

/* How one HTTP reply is sent. */
struct answer_manner {
    struct slice date; /* text_http_date() of now, made once a second; empty: no Date */
    unsigned minor;    /* the request's version */
    bool keeps_alive;
    bool is_head; /* HEAD: the fields of the reply without its body */
};

/*
 * 200 for what passes; 429, or what the binding limit's `reply` says, for deny and never; 503 for refused. At
 * the nginx door 403 for any refusal (what could not be decided is none).
 */
unsigned answer_status(const struct weir_answer *answer, enum answer_door door);

/* "Too Many Requests"; "Unknown" for a status that weir never sends. */
const char *answer_reason(unsigned status);

/* ---- JSON ------------------------------------------------------------------------------------------------ */

/* How the members of an answer are written: as an object of JSON, or as a map of the Redis protocol. */
enum answer_form { ANSWER_JSON, ANSWER_RESP2, ANSWER_RESP3 };

/*
 * The decision as one object, on one line, without a line end; as one reply. Of `limits`, what was only watched says
 * `"enforced":false`. `beside` may be NULL.
 */
void answer_write(struct text *out, enum answer_form form, const struct weir_answer *answer,
                  const struct answer_beside *beside, weir_ns now);

/* In JSON: also what `weir check --json` prints. */
static inline void answer_json(struct text *out, const struct weir_answer *answer,
                               const struct answer_beside *beside, weir_ns now)
{
    answer_write(out, ANSWER_JSON, answer, beside, now);
}

/* What a settlement did. `limit`: the name of settlement->limit, or NULL. This and the next in JSON with a line end. */
void answer_settlement(struct text *out, enum answer_form form, const struct weir_settlement *settlement,
                       const char *limit, bool has_charge);

/* A permit that was renewed, and one that was given back. */
void answer_renewed(struct text *out, enum answer_form form, weir_ns expires_after);
void answer_released(struct text *out, enum answer_form form, bool was_held);

/*
 * {"results":[ ... ]}: open, one item per request in order, close. An item is the decision's object with
 * `status` in front. Before each item see that ANSWER_JSON_MAX bytes are free.
 */
void answer_batch_open(struct text *out);
void answer_batch_item(struct text *out, const struct weir_answer *answer, weir_ns now, bool is_first);
void answer_batch_close(struct text *out);

/* The problem document (RFC 9457) of a refusal that is sent with `status`; ends in a line end. */
void answer_problem_json(struct text *out, const struct weir_answer *answer, const struct answer_beside *beside,
                         weir_ns now, unsigned status);

/* The problem document of a faulty request; `field` may be empty. Ends in a line end. */
void answer_error_json(struct text *out, unsigned status, const char *detail, struct slice field);

/* ---- HTTP ------------------------------------------------------------------------------------------------ */

/*
 * Retry-After, the RateLimit fields of every form, Weir-Degraded; Cache-Control on a refusal. Field lines with
 * their line ends.
 */
void answer_fields(struct text *out, enum weir_headers headers, const struct weir_answer *answer, weir_ns now);

/*
 * A whole response to one decision: check bodies for ANSWER_CHECK, no body where an auth door allows, a problem
 * document on a refusal. `is_always_200` is `?status=200`: the plain decision, whatever it is.
 */
void answer_decision(struct text *out, enum weir_headers headers, const struct answer_manner *manner,
                     enum answer_door door, bool is_always_200, const struct weir_answer *answer,
                     const struct answer_beside *beside, weir_ns now);

/*
 * A whole response to a faulty request. `extra`: more field lines with their ends ("Allow: GET\r\n"), or empty.
 */
void answer_error(struct text *out, const struct answer_manner *manner, unsigned status, const char *detail,
                  struct slice field, struct slice extra);

/*
 * Any other response: status line, Content-Type (empty: none), `extra` lines, Content-Length, Connection, the
 * empty line; then the body unless manner->is_head. A body that is elsewhere is announced by answer_head()
 * alone.
 */
void answer_head(struct text *out, const struct answer_manner *manner, unsigned status,
                 struct slice content_type, struct slice extra, uint64_t body_len);
void answer_body(struct text *out, const struct answer_manner *manner, unsigned status,
                 struct slice content_type, struct slice extra, struct slice body);

#define ANSWER_TYPE_JSON SLICE("application/json")
#define ANSWER_TYPE_PROBLEM SLICE("application/problem+json")

/* Sent before the body of a request that expects it. */
#define ANSWER_CONTINUE SLICE("HTTP/1.1 100 Continue\r\n\r\n")

#endif
