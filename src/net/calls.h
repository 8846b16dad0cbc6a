// SPDX-License-Identifier: Apache-2.0
/* calls.h - what the handlers of calls with a body have in common: reading it, and the words for what is wrong. */
#ifndef WEIR_NET_CALLS_H
#define WEIR_NET_CALLS_H

#include "net/conn.h"
#include "wire/call.h"

struct worker;

/* Read the body; else the turn is answered. */
bool calls_read(const struct request *request, enum call call, struct call_body *out);

/* The contract could not do what the body says: find the words for it. `body`: NULL where only the code matters. */
void calls_answer_code(struct turn *turn, enum call call, const struct call_body *body, int code);

/* Settle or cancel what this process gave, or give back to what a request is counted under here. `limit` (of WEIR_NAME_MAX + 1
   bytes) names the one with least left, or is "". Returns a code of weir.h. */
int calls_settle(struct worker *worker, enum call call, const struct call_body *body, weir_ns now,
                 struct weir_settlement *out, char *limit);
int calls_refund(struct worker *worker, const struct weir_request *request, weir_ns now,
                 struct weir_settlement *out, char *limit);

#endif
