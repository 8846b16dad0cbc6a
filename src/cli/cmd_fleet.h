// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_fleet.h - what the `weir fleet` commands share: the store that is meant, and a loop that is turned until something came.
 *
 * Idea: a command asks one thing after the other, so each question is a call that returns with its answer or after
 * FLEET_PATIENCE_MS. The connections are the server's own (fleet/store.h), so what works here works there.
 */
#ifndef WEIR_CLI_CMD_FLEET_H
#define WEIR_CLI_CMD_FLEET_H

#include <uv.h>

#include "cli/cli.h"
#include "fleet/store.h"
#include "wire/text.h"

/* How long a person waits for one answer, and for the nodes to be found. */
#define FLEET_PATIENCE_MS 3000

/* Most nodes that are shown. */
#define FLEET_NODES_MAX 1200

struct fleet_session {
    const char *command;
    uv_loop_t loop;
    uv_timer_t timer;
    struct url url;
    char shown[URL_MAX]; /* without secrets */
    struct tls_context *tls;
    struct outages *outages;
    struct carrier *carrier;
    char news[512];    /* what the carrier said of the store as a whole: why no node is known; "" */
    char refusal[200]; /* with what a node refused a question the last time; "" */
    bool is_late, is_closed, is_hopeless;
    bool is_of_cluster; /* a single server was named, and it is a Cluster's */
};

/*
 * Begin to connect to the store of `store_url`, else of the contract (which may be NULL). Gives EXIT_YES, or the exit status
 * of what was complained about. The session's memory is the caller's, zeroed.
 */
int fleet_session_open(struct fleet_session *session, const char *command, const char *store_url,
                       const struct weir_contract *contract);
void fleet_session_close(struct fleet_session *session);

/* Turn the loop until holds() does, at most FLEET_PATIENCE_MS: then false. */
bool fleet_session_wait(struct fleet_session *session, bool (*holds)(void *context), void *context);

/* Wait until every node is up: false where it did not come to that in time, or cannot. */
bool fleet_session_ready(struct fleet_session *session);

/* Why the store could not be had just now, for people: what a node said, or why none is there. Lives until the next call. */
const char *fleet_session_why(struct fleet_session *session);

/* One call and its answer. */
struct fleet_ask {
    struct fleet_session *session;
    struct carrier_call call;
    bool is_done;
    enum carrier_result result;
    char *reply; /* of CARRIER_REPLY; freed by fleet_ask_end() */
    size_t reply_len;
};
/* To the node of a slot, or (node not SIZE_MAX) to that one of store_client_nodes(). `command` lives until fleet_ask_end(). */
void fleet_ask_begin(struct fleet_session *session, struct fleet_ask *ask, size_t node, unsigned slot,
                     struct slice command);
/* Wait for `count` of them. False: not all came as replies. */
bool fleet_ask_wait(struct fleet_session *session, struct fleet_ask *asks, size_t count);
void fleet_ask_end(struct fleet_session *session, struct fleet_ask *ask);

/* "it is a node of a Cluster: ...", for a single server that is one. */
extern const char fleet_is_of_cluster[];

int cmd_fleet_status(int argc, char **argv);
int cmd_fleet_keys(int argc, char **argv);
int cmd_fleet_leases(int argc, char **argv);

#endif
