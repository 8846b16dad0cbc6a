// SPDX-License-Identifier: Apache-2.0
/*
 * player_server.h - one server of the test build, run and asked by player_http.c: this same program as `serve`.
 */
#ifndef WEIR_CLI_PLAYER_SERVER_H
#define WEIR_CLI_PLAYER_SERVER_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/remote_grpc.h"
#include "sim/player.h"

struct player_server {
    struct client client, admin;
    struct client resp; /* where it has that door, or the next */
    struct remote_grpc grpc;
    pid_t pid; /* 0: none */
    int log;   /* what it says on standard error; -1: none */
    char url[128], admin_url[80], resp_url[128], grpc_url[128];
    char error[400]; /* why one of the calls below is not PLAYER_OK */
};

/* What it is started with. */
struct player_server_options {
    const char *contract; /* path */
    const char *folder;   /* for its admin socket */
    unsigned number;      /* of the server: its socket's name */
    int64_t wall;         /* Unix time in ns at instant 0 */
    weir_ns lost_at;
    const char *tokens; /* path; NULL: none */
    const char *door;   /* "--resp" or "--grpc": which door it has too; NULL: none */
    bool has_store;     /* wait until that can be asked, or a policy would answer */
};

void player_server_init(struct player_server *server);

/* Start it and wait until it listens. What a server says that does not begin goes to `err` (NULL: nowhere). */
enum player_result player_server_start(struct player_server *server,
                                       const struct player_server_options *options, FILE *err);

/* Ask it to drain, and wait for its end. After a failed start too. */
void player_server_stop(struct player_server *server);

/* What it logs is of no interest, but a full pipe would stop it. */
void player_server_drain_log(const struct player_server *server);

#endif
