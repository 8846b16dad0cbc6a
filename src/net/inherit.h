// SPDX-License-Identifier: Apache-2.0
/*
 * inherit.h - sockets that a service manager opened for us, by the names that it gave them (sd_listen_fds(3)).
 *
 * Idea: a name is a door. A socket called http, resp, grpc or admin is used where no address of that door is given, and
 * `fd:NAME` names one in an address. The order of sockets is not to be relied on, names are. A socket that is passed and not
 * used is a mistake that would show as connections that nobody ever answers, so it is refused at the start.
 *
 * They are ours to accept from and to close, never to shut down: the manager goes on listening at them between two of us.
 */
#ifndef WEIR_NET_INHERIT_H
#define WEIR_NET_INHERIT_H

#include <stdbool.h>
#include <stddef.h>

#include "net/server.h"

/* Those of three doors and the admin socket. */
#define INHERITED_MAX (3 * SERVER_ADDRESSES_MAX + 1)

struct inherited {
    struct inherited_socket {
        int fd;
        const char *name; /* in `names` */
        bool is_used;
    } at[INHERITED_MAX];
    size_t count;
    char *names;
};

/* Addresses without names: "fd:3". */
struct inherited_addresses {
    const char *at[SERVER_ADDRESSES_MAX];
    size_t count;
    char texts[SERVER_ADDRESSES_MAX][16];
};

/*
 * Take what LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES say, and unset them: a child of ours would take it for its own. 0, or the exit
 * status, and it was said on standard error what is wrong.
 */
int inherit_take(struct inherited *inherited);
void inherit_free(struct inherited *inherited);

/* Whether a socket has this name. */
bool inherit_has(const struct inherited *inherited, const char *name);

/*
 * What a door listens on: its addresses, with `fd:NAME` as the descriptors of that name; without addresses those that are named like the
 * door. 0, or the exit status, and it was said what is wrong. `out` refers to `addresses`.
 */
int inherit_addresses(struct inherited *inherited, const char *door, const char *const *addresses, size_t count,
                      struct inherited_addresses *out);

/* When every door has its addresses: whether no socket is left over. 0, or the exit status. */
int inherit_check_used(const struct inherited *inherited);

#endif
