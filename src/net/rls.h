// SPDX-License-Identifier: Apache-2.0
/*
 * rls.h - a call of Envoy's rate limit service, asked; and its answer, now or later.
 *
 * Idea: the gRPC door and `/json` read a call in their own coding and write its answer in it. What lies between is here, once: the
 * requests that the descriptors are, one ask for all of them (all pass or nothing is charged), or, where the server was told to do
 * as envoyproxy/ratelimit does, one for each.
 *
 *     struct rls_call *call = rls_room(worker);
 *     if (rls_read(message, call, &why) == RLS_GOOD)
 *         rls_start(turn, call, wait, done);     -> done(turn, RLS_ANSWERED, NULL, &answer)
 */
#ifndef WEIR_NET_RLS_H
#define WEIR_NET_RLS_H

#include "net/conn.h"
#include "wire/rls.h"

/* How a call ended. Denied is an answer; the others mean that we could not decide, and then nothing was charged. */
enum rls_end {
    RLS_ANSWERED,
    RLS_INVALID,   /* INVALID_ARGUMENT: it asks for what this server does not do; `why` names it */
    RLS_UNDECIDED, /* UNAVAILABLE: the store, a full table, too much under way, the end of the server */
    RLS_FAILED,    /* INTERNAL: our fault, or the contract's */
};

/*
 * Tells the door, once for each start unless the caller is gone or has taken the call back (turn->is_dropped): it writes the
 * reply with turn_begin() and turn_end(), or what is made of them. `why`: a sentence, unless RLS_ANSWERED; `answer` only then. Both
 * are lent for the time of the call.
 */
typedef void rls_done(struct turn *turn, enum rls_end end, const char *why, const struct rls_answer *answer);

/* Where a worker reads a call: it is good until the worker reads another. NULL: out of memory. */
struct rls_call *rls_room(struct worker *worker);

/* RLS_ANSWER_MAX bytes beside it, for what its text becomes, or its answer. NULL: out of memory. */
char *rls_text_room(struct worker *worker);

/*
 * Ask. `call` is read during this alone, with the bytes that it points into. `wait`: how long the caller can wait, 0: not at all.
 * May be done when this returns.
 */
void rls_start(struct turn *turn, const struct rls_call *call, weir_ns wait, rls_done *done);

/* Nobody wants the answer any more: end what still waits. The door has set turn->is_dropped. */
void rls_cancel(struct turn *turn);

/* What the worker keeps for calls. */
struct rls_desk;
void rls_desk_free(struct rls_desk *desk);

#endif
