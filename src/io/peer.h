// SPDX-License-Identifier: Apache-2.0
/* peer.h - who is at the other end of a connection, as the kernel says; asked once, when it is accepted. */
#ifndef WEIR_IO_PEER_H
#define WEIR_IO_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct peer {
    bool is_unix;
    uint32_t uid;        /* Unix sockets; UINT32_MAX when the kernel does not say */
    uint8_t address[16]; /* others: IPv6, or IPv4 mapped into ::ffff:0:0/96 */
};

/* "192.0.2.7", "2001:db8::7", or "unix:1000" by the uid. */
#define PEER_TEXT_MAX 48
void peer_format(const struct peer *peer, char out[PEER_TEXT_MAX]);

/* False when the connection is gone already. */
bool peer_of(int fd, struct peer *out);

#endif
