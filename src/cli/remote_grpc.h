// SPDX-License-Identifier: Apache-2.0
/*
 * remote_grpc.h - a timeline's requests asked through the gRPC door: for the test build only.
 *
 * Idea: a request becomes a call of one descriptor, an entry for each attribute. Of a refusal the answer's body is the problem document
 * of the HTTP door, so all of it is compared; of what passes the door tells the limit that binds, in whole seconds, which the verdict
 * says (grain). What has no call, or is told in words of fewer kinds than a timeline has, is asked by HTTP.
 */
#ifndef WEIR_CLI_REMOTE_GRPC_H
#define WEIR_CLI_REMOTE_GRPC_H

#include "cli/remote.h"
#include "sim/timeline.h"

/* One connection, and the call on it. */
struct remote_grpc {
    struct client client;
    struct remote_grpc_call *call; /* NULL: not connected */
};

/* Why a step cannot be said in a call, for people; NULL: it can. */
const char *remote_grpc_unsayable(const struct timeline_step *step);

enum remote_result remote_grpc_operate(struct remote_grpc *grpc, weir_ns now, const struct timeline_step *step,
                                       struct verdict *out);

/* The client is closed as well. */
void remote_grpc_close(struct remote_grpc *grpc);

#endif
