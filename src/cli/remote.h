// SPDX-License-Identifier: Apache-2.0
/*
 * remote.h - one question to a running server: attributes go out as JSON, a verdict comes back.
 */
#ifndef WEIR_CLI_REMOTE_H
#define WEIR_CLI_REMOTE_H

#include "cli/client.h"
#include "sim/verdict.h"
#include "wire/json.h"
#include "wire/text.h"

enum remote_result {
    REMOTE_DECIDED,
    REMOTE_FAULTY,      /* the server says that the question is at fault: client->error */
    REMOTE_UNREACHABLE, /* no decision: client->error */
};

/* How a question ended, for who may ask it again. */
struct remote_end {
    enum weir_reply reply;
    weir_ns retry_after; /* WEIR_NO_TIME: the server named no time */
};

/*
 * Ask; the reply is given request->wait longer than usual. `fields`: further field lines (a token), or "". `json` is the
 * decision's object as it came, in the client. `end` is written in any case.
 */
enum remote_result remote_ask(struct client *client, const char *fields, const struct weir_request *request,
                              struct verdict *out, struct slice *json, struct remote_end *end);

/* {"tenant": "acme"}, as in every body. */
void remote_write_attributes(struct text *out, const struct weir_attribute *attributes, size_t count);

/* Put `field: detail` of a problem document into client->error, or the status where there is none. Gives `field`. */
struct slice remote_tell_problem(struct client *client, const struct client_reply *reply);

/* Seconds as a number, to ns; null is WEIR_NO_TIME. */
bool remote_read_time(struct json *json, weir_ns *out);

/* Pass over one value of a document. */
bool remote_skip_value(struct json *json);

/* Read a decision's JSON object; false where it is none. */
bool remote_parse(struct slice json, struct verdict *out);

#endif
