// SPDX-License-Identifier: Apache-2.0
/*
 * remote_operations.h - what a server does beside deciding, asked as any client would: for the test build only.
 */
#ifndef WEIR_CLI_REMOTE_OPERATIONS_H
#define WEIR_CLI_REMOTE_OPERATIONS_H

#include "cli/remote.h"
#include "sim/timeline.h"

/* A reservation as a server writes it: text, with its final zero. */
#define REMOTE_RESERVATION_MAX 3072

/*
 * Do what `step` says, but for restarting. A server that refuses is REMOTE_DECIDED, and out->effect.error says why.
 *
 *   client       of the door that has the call: the admin door for reset and reload.
 *   fields       further field lines.
 *   reservation  written by STEP_RESERVE ("" where it was not allowed), read by STEP_SETTLE and STEP_CANCEL.
 */
enum remote_result remote_operate(struct client *client, const char *fields, const struct timeline_step *step,
                                  char reservation[REMOTE_RESERVATION_MAX], struct verdict *out);

#endif
