// SPDX-License-Identifier: Apache-2.0
/*
 * doors.h - the listeners of a server: opened at the start, each accepted socket handed to the least loaded worker.
 *
 * One loop accepts for all workers: with a socket per worker (SO_REUSEPORT) the kernel spreads few long-lived
 * connections of proxies unevenly, and a worker without any would idle beside one with all.
 */
#ifndef WEIR_NET_DOORS_H
#define WEIR_NET_DOORS_H

#include "io/listener.h"
#include "net/inherit.h"
#include "net/worker.h"

struct doors {
    struct server *server;
    struct listener http[SERVER_ADDRESSES_MAX];
    size_t http_count;
    struct listener resp[SERVER_ADDRESSES_MAX];
    size_t resp_count;
    struct listener grpc[SERVER_ADDRESSES_MAX];
    size_t grpc_count;
    uint64_t accepted; /* connections, which names them */
    struct listener admin;
    bool has_admin;
    struct inherited inherited; /* what a service manager opened for us, until doors_open() has shared it out */
};

/* Open every listener; says on standard error what is wrong. Returns 0, or the exit status. */
int doors_open(struct doors *doors, struct server *server);

/* Accept from now on, on this loop, and say `listening DOOR ADDR`. Returns 0, or the exit status. */
int doors_start(struct doors *doors, uv_loop_t *loop);

/* Stop accepting. */
void doors_stop(struct doors *doors);

/* Close what doors_open() opened, when doors_start() was not reached. */
void doors_close(struct doors *doors);

#endif
