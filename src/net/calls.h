// SPDX-License-Identifier: Apache-2.0
/* calls.h - the calls that have a body, once it is read; and the words for what is wrong with it. */
#ifndef WEIR_NET_CALLS_H
#define WEIR_NET_CALLS_H

#include "net/conn.h"
#include "wire/call.h"

struct worker;

/* Serve a call: the turn is answered, now or later. The body is borrowed. */
void calls_serve(struct turn *turn, enum call call, const struct call_body *body);

/* Those of permits (permits.c). */
void permits_acquire(struct turn *turn, const struct call_body *body);
void permits_renew(struct turn *turn, const struct call_body *body);
void permits_release(struct turn *turn, const struct call_body *body);

/* The contract could not do what the body says: find the words for it. `body`: NULL where only the code matters. */
void calls_answer_code(struct turn *turn, enum call call, const struct call_body *body, int code);

/* Settle or cancel what this process gave, or give back to what a request is counted under here. `limit` (of WEIR_NAME_MAX + 1
   bytes) names the one with least left, or is "". Returns a code of weir.h. */
int calls_settle(struct worker *worker, enum call call, const struct call_body *body, weir_ns now,
                 struct weir_settlement *out, char *limit);
int calls_refund(struct worker *worker, const struct weir_request *request, weir_ns now,
                 struct weir_settlement *out, char *limit);

#endif
