// SPDX-License-Identifier: Apache-2.0
/*
 * listener.h - one socket that accepts: opened before any thread starts, then polled by one loop, which hands each
 * accepted socket on.
 *
 * When descriptors run out, accepting pauses for a moment instead of spinning on a socket that stays readable;
 * callers wait in the kernel's queue meanwhile.
 */
#ifndef WEIR_IO_LISTENER_H
#define WEIR_IO_LISTENER_H

#include <sys/types.h>
#include <uv.h>

#include "io/endpoint.h"

struct listener;

/* Takes the accepted socket: non-blocking, closed on exec. */
typedef void listener_accepted(struct listener *listener, int fd);

/* Whether another connection may be accepted now. */
typedef bool listener_has_room(const struct listener *listener);

struct listener {
    struct endpoint address; /* as bound: the port that 0 picked */
    char name[ENDPOINT_TEXT_MAX];
    int fd;
    bool owns_path; /* a Unix socket that this process made, and removes */
    listener_accepted *accepted;
    listener_has_room *has_room;
    void *context;
    uv_poll_t poll;
    uv_timer_t pause;
};

/*
 * Bind and listen. A Unix socket that nobody answers on any more is replaced; `mode` 0 leaves its permissions to the
 * umask. Returns 0 or a negative errno; *why then says more than errno does, or is NULL.
 */
int listener_open(struct listener *listener, const char *text, mode_t mode, const char **why);

/* Accept on this loop from now on. Returns 0 or a libuv error. */
int listener_start(struct listener *listener, uv_loop_t *loop, listener_accepted *accepted,
                   listener_has_room *has_room, void *context);

/*
 * Stop accepting and close the socket; the handles are closed with the loop's next turn. It is not shut down: whoever passed it may
 * still listen at it.
 */
void listener_stop(struct listener *listener);

/* Close a listener that was opened and never started. */
void listener_close(struct listener *listener);

#endif
