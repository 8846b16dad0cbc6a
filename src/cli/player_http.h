// SPDX-License-Identifier: Apache-2.0
/*
 * player_http.h - plays a timeline through the HTTP door of a server of its own: for the test build only.
 *
 * It runs this same program as `serve`, which in the test build reads each request's instant from `Weir-Now`, its wall
 * clock's beginning from WEIR_TEST_WALL, and when state was lost from WEIR_TEST_LOST_AT. The contract is a file of the
 * player's own, which a reload writes anew.
 *
 * A request that may wait is asked over a connection of its own and parked there. What the player relies on: before a
 * request with `Weir-Now` the server ends everybody whose turn or deadline has come by then, each at its own instant, and
 * hands over their answers; and the gauge `weir_waiting` of /metrics says how many wait.
 */
#ifndef WEIR_CLI_PLAYER_HTTP_H
#define WEIR_CLI_PLAYER_HTTP_H

#include <sys/types.h>

#include "cli/remote_operations.h"
#include "sim/player.h"

struct http_slot;

struct player_http {
    struct player player;
    const struct timeline *timeline; /* between open() and close() */
    struct client client, admin;
    struct http_slot **slots; /* by handle; NULL: nothing yet */
    struct http_slot *parked; /* those that wait at the server, and those not collected yet */
    pid_t pid;                /* of the server; 0: none */
    int log;                  /* what it says on standard error */
    char folder[32];          /* for its admin socket and its contract; "": none */
    char contract[64];
    char url[128], admin_url[80];
};
void player_http_init(struct player_http *http);

#endif
