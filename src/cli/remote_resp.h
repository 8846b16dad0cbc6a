// SPDX-License-Identifier: Apache-2.0
/*
 * remote_resp.h - a timeline's steps asked through the Redis door: for the test build only.
 *
 * Idea: a step becomes a command and its reply, a map, becomes the JSON that the HTTP door would have sent, so that one reader judges both
 * (remote_operations.h). The instant is said by WEIR.NOW in front.
 */
#ifndef WEIR_CLI_REMOTE_RESP_H
#define WEIR_CLI_REMOTE_RESP_H

#include "cli/remote_operations.h"

/* The token that says who asks; it may reset. */
#define REMOTE_RESP_TOKEN "played-through-the-door"

/* Why a step cannot be said in commands, for people; NULL: it can. */
const char *remote_resp_unsayable(const struct timeline_step *step);

/* Connect where that is needed (with HELLO 3 and the token), say the instant, and send the step's command. `handle`: of what it
   ends. False with client->error. */
bool remote_resp_begin(struct client *client, weir_ns now, const struct timeline_step *step,
                       const char *handle);

/* As remote_finish(), and begin and finish as remote_operate(). */
enum remote_result remote_resp_finish(struct client *client, unsigned timeout_ms,
                                      const struct timeline_step *step, char handle[REMOTE_HANDLE_MAX],
                                      struct verdict *out);
enum remote_result remote_resp_operate(struct client *client, weir_ns now, const struct timeline_step *step,
                                       char handle[REMOTE_HANDLE_MAX], struct verdict *out);

#endif
