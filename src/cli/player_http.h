// SPDX-License-Identifier: Apache-2.0
/*
 * player_http.h - plays a timeline through the HTTP door of a server of its own: for the test build only.
 *
 * It runs this same program as `serve`, which in the test build reads each request's instant from `Weir-Now`, its wall
 * clock's beginning from WEIR_TEST_WALL, and when state was lost from WEIR_TEST_LOST_AT. The contract is a file of the
 * player's own, which a reload writes anew.
 */
#ifndef WEIR_CLI_PLAYER_HTTP_H
#define WEIR_CLI_PLAYER_HTTP_H

#include <sys/types.h>

#include "cli/remote_operations.h"
#include "sim/player.h"

struct player_http {
    struct player player;
    const struct timeline *timeline; /* between open() and close() */
    struct client client, admin;
    char (*reservations)[REMOTE_RESERVATION_MAX]; /* by handle; "": none */
    pid_t pid;                                    /* of the server; 0: none */
    int log;                                      /* what it says on standard error */
    char folder[32];                              /* for its admin socket and its contract; "": none */
    char contract[64];
    char url[128], admin_url[80];
};
void player_http_init(struct player_http *http);

#endif
