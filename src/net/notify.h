// SPDX-License-Identifier: Apache-2.0
/*
 * notify.h - what a service manager is told (sd_notify(3)): that we are ready, read our files again, end, and are alive.
 *
 * Idea: a datagram of a few words to the socket that NOTIFY_SOCKET names; without it nothing is said. The sign of life comes from
 * the main loop, and only when every worker has answered the question before: a process whose main thread runs on while a worker
 * hangs is not alive for those whose connections that worker has.
 *
 * Main thread only.
 */
#ifndef WEIR_NET_NOTIFY_H
#define WEIR_NET_NOTIFY_H

#include <stdbool.h>
#include <uv.h>

struct server;

/* Longest list of doors in the status. */
#define NOTIFY_DOORS_MAX 256

struct notify {
    struct server *server;
    int fd;               /* -1: there is nobody to tell */
    uint64_t watchdog_ms; /* between two looks; 0: no sign of life is wanted */
    uint64_t asked;       /* the last question to the workers */
    uv_timer_t timer;
    bool has_timer, was_stuck;
    char doors[NOTIFY_DOORS_MAX];
};

/* By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are unset. What is malformed is ignored, with a line in the log. */
void notify_open(struct notify *notify, struct server *server);

/* Give signs of life on this loop, if they are wanted. 0 or a libuv error. */
int notify_start(struct notify *notify, uv_loop_t *loop);

/* A door accepts: it is named in the status, as far as there is room. */
void notify_door(struct notify *notify, const char *door, const char *address);

/* All doors accept, or the files were read again: what we serve becomes the status. */
void notify_ready(struct notify *notify);
void notify_reloading(struct notify *notify);

/* The drain begins; no sign of life is due any more, and none is given. */
void notify_stopping(struct notify *notify);
void notify_close(struct notify *notify);

#endif
