// SPDX-License-Identifier: Apache-2.0
/*
 * resp.h - the door that speaks the Redis protocol: what its files share.
 *
 * Idea: any Redis client is a client of weir. A command takes a turn in its connection's line like any request; decisions go
 * the way of the HTTP calls (wire/resp_words.h), and what clients say to a server about themselves (HELLO, AUTH, CLIENT, INFO) is
 * answered as Redis answers it, so that they connect. CL.THROTTLE brings its limit along.
 *
 * Files: resp.c reads and sends, resp_table.c knows the commands, resp_session.c speaks of the connection, resp_call.c and
 * resp_throttle.c decide.
 */
#ifndef WEIR_NET_RESP_H
#define WEIR_NET_RESP_H

#include "net/conn.h"
#include "wire/resp.h"
#include "wire/resp_words.h"

struct worker;

/* Who asks, and what; borrowed during the call. */
struct resp_request {
    struct turn *turn;
    const struct resp_row *row;
    const struct slice *words; /* the name first */
    size_t count;
};

/* One command of the door. */
struct resp_row {
    const char *name; /* in lower case */
    size_t name_len;
    int arity;       /* words with the name; below 0: at least so many */
    enum role needs; /* ROLE_NONE: also who has not said who it is */
    void (*handle)(struct resp_request *request);
    enum resp_call call; /* of the WEIR. ones */
    enum door door;
    const char *summary;
};
extern const struct resp_row resp_rows[];
extern const size_t resp_row_count;

/* NULL: there is no such command. */
const struct resp_row *resp_find(struct slice name);

/* ---- Replying ----------------------------------------------------------------------------------------------------- */

/* Where the turn's one reply goes; then resp_end(). */
struct text *resp_begin(struct resp_request *request);
void resp_end(struct resp_request *request, struct text *out);
static inline enum resp_version resp_version_of(const struct turn *turn)
{
    return turn->minor == 3 ? RESP3 : RESP2;
}

void resp_ok(struct resp_request *request);
/* As printf(), behind the code: "ERR syntax error". */
void resp_fail(struct resp_request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Handlers -------------------------------------------------------------------------------------------------------- */

void resp_ping(struct resp_request *request);
void resp_echo(struct resp_request *request);
void resp_hello(struct resp_request *request);
void resp_auth(struct resp_request *request);
void resp_client(struct resp_request *request);
void resp_select(struct resp_request *request);
void resp_info(struct resp_request *request);
void resp_config(struct resp_request *request);
void resp_quit(struct resp_request *request);
void resp_reset(struct resp_request *request);
void resp_commands(struct resp_request *request); /* COMMAND */
void resp_weir(struct resp_request *request);     /* WEIR.* */
void resp_throttle(struct resp_request *request); /* CL.THROTTLE */
#ifdef WEIR_TEST_HOOKS
void resp_now(struct resp_request *request); /* WEIR.NOW */
#endif

#endif
