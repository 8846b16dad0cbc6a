// SPDX-License-Identifier: Apache-2.0
/* calls.h - what the handlers of calls with a body have in common: reading it, and the words for what is wrong. */
#ifndef WEIR_NET_CALLS_H
#define WEIR_NET_CALLS_H

#include "net/conn.h"
#include "wire/call.h"

/* Read the body; else the turn is answered. */
bool calls_read(const struct request *request, enum call call, struct call_body *out);

/* The contract could not do what the body says: find the words for it. */
void calls_answer_code(struct turn *turn, enum call call, const struct call_body *body, int code);

#endif
