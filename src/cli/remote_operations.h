// SPDX-License-Identifier: Apache-2.0
/*
 * remote_operations.h - what a server does beside deciding, asked as any client would: for the test build only.
 */
#ifndef WEIR_CLI_REMOTE_OPERATIONS_H
#define WEIR_CLI_REMOTE_OPERATIONS_H

#include "cli/remote.h"
#include "sim/timeline.h"

/* A reservation or a permit as a server writes it: text, with its final zero. */
#define REMOTE_HANDLE_MAX 16384

/*
 * Do what `step` says, but for leaving and restarting. A server that refuses is REMOTE_DECIDED, and out->effect.error says
 * why.
 *
 *   client  of the door that has the call: the admin door for reset and reload.
 *   fields  further field lines.
 *   handle  written by STEP_RESERVE and STEP_ACQUIRE ("" where nothing was given), read by what ends them.
 */
enum remote_result remote_operate(struct client *client, const char *fields, const struct timeline_step *step,
                                  char handle[REMOTE_HANDLE_MAX], struct verdict *out);

/* The same of a step that decides, in two halves: ask with step->request.wait, and take the answer when it has come. */
bool remote_begin(struct client *client, const char *fields, const struct timeline_step *step);
enum remote_result remote_finish(struct client *client, unsigned timeout_ms, const struct timeline_step *step,
                                 char handle[REMOTE_HANDLE_MAX], struct verdict *out);

/* The second half of that: what a reply says, by its status and its JSON. */
enum remote_result remote_judge(struct client *client, const struct timeline_step *step,
                                const struct client_reply *reply, char handle[REMOTE_HANDLE_MAX],
                                struct verdict *out);

#endif
