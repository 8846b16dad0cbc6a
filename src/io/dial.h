// SPDX-License-Identifier: Apache-2.0
/*
 * dial.h - an outgoing connection: from a name and a port, or a path, to a connected socket.
 *
 * Idea: the dial owns its own memory and handles, so whoever wants the connection holds one pointer, which is gone when
 * done() comes or dial_cancel() was called. All addresses of a name are tried in turn, each with its part of what is left
 * of the time, so that one that swallows packets does not hide the next. A numeric address is never looked up.
 *
 * What comes out is a non-blocking socket, closed on exec, as an accepted one: stream.h takes it, with TLS or without.
 */
#ifndef WEIR_IO_DIAL_H
#define WEIR_IO_DIAL_H

#include <stdint.h>
#include <uv.h>

struct dial;

/* Most addresses of one name that are tried. */
#define DIAL_ADDRESSES_MAX 16

/* `fd`: a connected socket, now the owner's, or a negative libuv error. Comes from the loop, never within dial_open(). */
typedef void dial_done(void *owner, int fd);

/*
 * Connect to `host`, a name, an address or (port 0) the path of a Unix socket, within `timeout_ms`, looking up included.
 * `host` is borrowed until done() or dial_cancel(). NULL when memory is out.
 */
struct dial *dial_open(uv_loop_t *loop, const char *host, uint16_t port, unsigned timeout_ms, dial_done *done,
                       void *owner);

/* done() does not come. A look-up that is under way keeps the loop busy until the system's resolver has answered. */
void dial_cancel(struct dial *dial);

#endif
