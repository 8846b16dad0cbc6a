// SPDX-License-Identifier: Apache-2.0
/*
 * attempts.h - `weir check --retry`: asks a server until it answers for good, as weir_retry.h says, and tells each attempt.
 */
#ifndef WEIR_CLI_ATTEMPTS_H
#define WEIR_CLI_ATTEMPTS_H

#include "cli/remote.h"

/* How long all attempts of one request may take where the caller did not say. */
#define ATTEMPTS_PATIENCE (10 * WEIR_MINUTE)

/*
 * As remote_ask(), again and again. Each attempt is a line on standard error, with when the next one comes or why there is
 * none.
 *
 *   patience  the last attempt begins at most so long from now, and request->wait is what is left of it where the server is to
 *             let the request wait; WEIR_NO_TIME: not stated, so the server does not, and ATTEMPTS_PATIENCE counts.
 */
enum remote_result attempts_ask(struct client *client, const char *fields, const struct weir_request *request,
                                weir_ns patience, struct verdict *out, struct slice *json);

#endif
