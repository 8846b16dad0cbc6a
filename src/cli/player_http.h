// SPDX-License-Identifier: Apache-2.0
/*
 * player_http.h - plays a timeline through the HTTP door of a server of its own: for the test build only.
 *
 * It runs this same program as `serve`, which in the test build reads each request's instant from `Weir-Now` and
 * its wall clock's beginning from WEIR_TEST_WALL.
 */
#ifndef WEIR_CLI_PLAYER_HTTP_H
#define WEIR_CLI_PLAYER_HTTP_H

#include <sys/types.h>

#include "cli/client.h"
#include "sim/player.h"

struct player_http {
    struct player player;
    struct client client;
    pid_t pid;       /* of the server; 0: none */
    int log;         /* what it says on standard error */
    char folder[32]; /* for its admin socket and an inline contract; "": none */
    char contract[64];
    char url[128];
};
void player_http_init(struct player_http *http);

#endif
