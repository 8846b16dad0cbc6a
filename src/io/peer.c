// SPDX-License-Identifier: Apache-2.0
/* peer.c - the peer's address, or the user behind a Unix socket; see peer.h. */
#include "io/peer.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static uint32_t uid_of(int fd)
{
    struct ucred credentials;
    socklen_t len = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) != 0)
        return UINT32_MAX;
    return credentials.uid;
}

void peer_format(const struct peer *peer, char out[PEER_TEXT_MAX])
{
    static const uint8_t ipv4[12] = { [10] = 0xff, 0xff };
    bool is_ipv4 = memcmp(peer->address, ipv4, sizeof ipv4) == 0;
    if (peer->is_unix)
        (void)snprintf(out, PEER_TEXT_MAX, "unix:%" PRIu32, peer->uid);
    else
        (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? peer->address + 12 : peer->address, out,
                        PEER_TEXT_MAX);
}

bool peer_of(int fd, struct peer *out)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } socket;
    socklen_t len = sizeof socket;
    if (getpeername(fd, &socket.any, &len) != 0)
        return false;

    *out = (struct peer){ .uid = UINT32_MAX };
    switch (socket.any.sa_family) {
    case AF_INET:
        out->address[10] = 0xff;
        out->address[11] = 0xff;
        memcpy(out->address + 12, &socket.v4.sin_addr, 4);
        return true;
    case AF_INET6:
        memcpy(out->address, &socket.v6.sin6_addr, 16);
        return true;
    case AF_UNIX:
        out->is_unix = true;
        out->uid = uid_of(fd);
        return true;
    default:
        return false;
    }
}
