// SPDX-License-Identifier: Apache-2.0
/*
 * player_http.h - plays a timeline through the HTTP or the Redis doors of servers of its own, one for each replica: for the test build only.
 *
 * It runs this same program as `serve`, with the store that WEIR_STORE names, which in the test build reads each request's instant from `Weir-Now`, its wall
 * clock's beginning from WEIR_TEST_WALL, and when state was lost from WEIR_TEST_LOST_AT. The contract is a file of the
 * player's own, which a reload writes anew.
 *
 * Through the Redis door each step is a command, its instant said by WEIR.NOW. What cannot be said so (remote_resp_unsayable()) is asked
 * of the same server by HTTP, and counted.
 *
 * A request that may wait is asked over a connection of its own and parked there. What the player relies on: before a
 * request with `Weir-Now` the server ends everybody whose turn or deadline has come by then, each at its own instant, and
 * hands over their answers; and the gauge `weir_waiting` of /metrics says how many wait.
 */
#ifndef WEIR_CLI_PLAYER_HTTP_H
#define WEIR_CLI_PLAYER_HTTP_H

#include "cli/player_server.h"
#include "cli/remote_resp.h"

struct http_slot;

struct player_http {
    struct player player;
    const struct timeline *timeline; /* between open() and close() */
    struct player_server servers[TIMELINE_REPLICAS_MAX];
    struct http_slot **slots; /* by handle; NULL: nothing yet */
    struct http_slot *parked; /* those that wait at a server, and those not collected yet */
    char folder[32];          /* for admin sockets and the contract; "": none */
    char contract[64];
    bool speaks_resp;
    char tokens[64];   /* a file of the player's own; "": none */
    uint64_t commands; /* steps that were said in commands */
    struct player_unsaid {
        const char *why; /* one of remote_resp_unsayable() */
        uint64_t count;
    } unsaid[REMOTE_RESP_REASONS]; /* and those that were not; the rows behind the last have count 0 */
};
void player_http_init(struct player_http *http, bool speaks_resp);

#endif
