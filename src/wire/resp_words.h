// SPDX-License-Identifier: Apache-2.0
/*
 * resp_words.h - the words of a command as a call: what the JSON calls say (call.h), as a command line.
 *
 *     WEIR.CHECK   [COST n] [WAIT ms] [PEEK] ATTR name value [name value ...]
 *     WEIR.PEEK    [COST n] ATTR ...
 *     WEIR.RESERVE [COST n] [EXPIRES ms] ATTR ...        WEIR.SETTLE reservation cost     WEIR.CANCEL reservation
 *     WEIR.ACQUIRE [COST n] [WAIT ms] [BIND] ATTR ...    WEIR.RENEW permit                WEIR.RELEASE permit [OK|FAILED|DROPPED]
 *     WEIR.REFUND  [COST n] ATTR ...                     WEIR.RESET limit [ATTR ...]
 *
 * Idea: a command is a call as soon as its words are looked at once: values stay where they came in, and what only the contract can
 * judge (names of attributes, lengths, a path) is left to it. What is wrong here is said in the words that were typed, with the
 * usage that helps.
 *
 * Elsewhere: how an answer is written (answer.h).
 */
#ifndef WEIR_WIRE_RESP_WORDS_H
#define WEIR_WIRE_RESP_WORDS_H

#include "wire/call.h"
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
    RESP_CALL_COUNT
};

/* How a call is written, for messages: "WEIR.SETTLE reservation cost". */
const char *resp_words_usage(enum resp_call call);

/* Room for why a command is none. */
#define RESP_WORDS_WHY_MAX 320

/*
 * Read the words behind the command's name. Attributes are put into the storage; strings of *out are among the words or in its
 * scratch, which has CHECK_BODY_MAX bytes. False, with the reason and its cure in `why`: they are no such call.
 */
bool resp_words_read(enum resp_call call, const struct slice *words, size_t count,
                     const struct check_storage *storage, struct call_body *out, char why[RESP_WORDS_WHY_MAX]);

#endif
