// SPDX-License-Identifier: Apache-2.0
/*
 * operate.h - calls that change what was counted in the shared store: settle, cancel, refund, renew, release, reset.
 *
 * Idea: what this process counted is changed at once, what the store counted when it has answered, and one reply says what came
 * of both. A call that the store could not be had for is 503, and the same call again completes it: settling twice counts
 * once, here and there. Where that is not so (refund) nothing is done here before the store has answered, and the reply says
 * what is not known.
 *
 * A token with a part of this process is good at the process that gave it alone, and is looked at there before the store is
 * asked; only a release elsewhere gives back what it can.
 *
 * Each of these answers the turn, now or later.
 */
#ifndef WEIR_NET_OPERATE_H
#define WEIR_NET_OPERATE_H

#include "fleet/fleet.h"
#include "net/conn.h"
#include "wire/call.h"

/* Operations under way of a worker for which nobody waits: permits of connections that ended. Beyond it they expire. */
#define OPERATE_ALONE_MAX 16384

/* With a token that has a shared part. */
void operate_settle(struct turn *turn, enum call call, const struct call_body *body);
void operate_renew(struct turn *turn, const struct call_body *body);
void operate_release(struct turn *turn, const struct call_body *body);

/* False: it concerns no shared limit, and the turn is not answered. */
bool operate_refund(struct turn *turn, const struct call_body *body);
bool operate_reset(struct turn *turn, const struct call_body *body);

/* Nobody has what the handle names: FLEET_RELEASE or FLEET_CANCEL. */
void operate_give_back(struct worker *worker, enum fleet_verb verb, struct slice handle);

#endif
