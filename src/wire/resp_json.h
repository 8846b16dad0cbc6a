// SPDX-License-Identifier: Apache-2.0
/*
 * resp_json.h - the calls of the Redis protocol as the bodies of the HTTP API, and its bodies as replies.
 *
 * Idea: one path, many doors. WEIR.CHECK and its kin say what the JSON calls say, in the words of a command line; so a command
 * becomes the body of that call, and the answer's object becomes a map with the same names. What is wrong is found, and said, in one
 * place for both.
 *
 *     WEIR.CHECK   [COST n] [WAIT ms] [PEEK] ATTR name value [name value ...]
 *     WEIR.RESERVE [COST n] [EXPIRES ms] ATTR ...        WEIR.SETTLE reservation cost     WEIR.CANCEL reservation
 *     WEIR.ACQUIRE [COST n] [WAIT ms] [BIND] ATTR ...    WEIR.RENEW permit                WEIR.RELEASE permit [OK|FAILED|DROPPED]
 *     WEIR.REFUND  [COST n] ATTR ...                     WEIR.RESET limit [ATTR ...]
 */
#ifndef WEIR_WIRE_RESP_JSON_H
#define WEIR_WIRE_RESP_JSON_H

#include "wire/resp.h"

enum resp_call {
    RESP_CALL_CHECK,
    RESP_CALL_PEEK, /* as check, with PEEK understood */
    RESP_CALL_RESERVE,
    RESP_CALL_ACQUIRE,
    RESP_CALL_REFUND,
    RESP_CALL_SETTLE,
    RESP_CALL_CANCEL,
    RESP_CALL_RENEW,
    RESP_CALL_RELEASE,
    RESP_CALL_RESET,
};

/* How a call is written, for messages: "WEIR.SETTLE reservation cost". */
const char *resp_call_usage(enum resp_call call);

/* Room for why a command is none. */
#define RESP_CALL_WHY_MAX 320

/*
 * Append the body that says what the words behind the command's name do. A command of RESP_COMMAND_MAX bytes gives at most
 * RESP_CALL_BODY_MAX (every byte escaped). False, with the reason and its cure in `why`: they are no such call.
 */
#define RESP_CALL_BODY_MAX (6 * RESP_COMMAND_MAX + 256)
bool resp_call_body(enum resp_call call, const struct slice *words, size_t count, struct text *out,
                    char why[RESP_CALL_WHY_MAX]);

/*
 * Append one of our own JSON values: objects as maps, integers as integers, times (retry_after and its kin: seconds with
 * decimals) as strings even where they are whole, null as null. `scratch`: room for as many bytes as the text has escapes.
 * False: it is no JSON, or the text is cut.
 */
bool resp_put_json(struct text *out, enum resp_version version, struct slice json, struct text *scratch);

#endif
