// SPDX-License-Identifier: Apache-2.0
/*
 * player_http.h - plays a timeline through a door of servers of its own, one for each replica: for the test build only.
 *
 * It runs this same program as `serve`, with the store that WEIR_STORE names, which in the test build reads each request's instant from `Weir-Now`, its wall
 * clock's beginning from WEIR_TEST_WALL, and when state was lost from WEIR_TEST_LOST_AT. The contract is a file of the
 * player's own, which a reload writes anew.
 *
 * Through the Redis door each step is a command, its instant said by WEIR.NOW, through the gRPC door a call with `weir-now`. What cannot
 * be said so (remote_resp_unsayable(), remote_grpc_unsayable()) is asked of the same server by HTTP, and counted.
 *
 * A request that may wait is asked over a connection of its own and parked there. What the player relies on: before a
 * request with `Weir-Now` the server ends everybody whose turn or deadline has come by then, each at its own instant, and
 * hands over their answers; and the gauge `weir_waiting` of /metrics says how many wait.
 */
#ifndef WEIR_CLI_PLAYER_HTTP_H
#define WEIR_CLI_PLAYER_HTTP_H

#include "cli/player_server.h"
#include "cli/remote_resp.h"

enum player_door { PLAYER_HTTP, PLAYER_RESP, PLAYER_GRPC, PLAYER_DOORS };

/* "http", as the options name it. */
const char *player_door_name(enum player_door door);

/* How many reasons there are for what is not said at a door. */
#define PLAYER_REASONS 10

struct http_slot;

struct player_http {
    struct player player;
    const struct timeline *timeline; /* between open() and close() */
    struct player_server servers[TIMELINE_REPLICAS_MAX];
    struct http_slot **slots; /* by handle; NULL: nothing yet */
    struct http_slot *parked; /* those that wait at a server, and those not collected yet */
    char folder[32];          /* for admin sockets and the contract; "": none */
    char contract[64];
    enum player_door door;
    char tokens[64]; /* a file of the player's own; "": none */
    uint64_t said;   /* steps that were asked through a door that is not HTTP */
    struct player_unsaid {
        const char *why;
        uint64_t count;
    } unsaid[PLAYER_REASONS + 1]; /* and those that were not; the rows behind the last have count 0 */
};
void player_http_init(struct player_http *http, enum player_door door);

#endif
