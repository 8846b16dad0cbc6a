// SPDX-License-Identifier: Apache-2.0
/* endpoint.c - reads and prints socket addresses; see endpoint.h. */
#include "io/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

/* Longest host name in bytes (RFC 1035), without the final zero. */
#define HOST_MAX 253

/* Most descriptors a process is started with; a larger number is a typing error. */
#define FD_MAX 65535

static const char *const how =
    "write HOST:PORT, [V6]:PORT, PORT (on loopback), unix:PATH or fd:N, with a port from 0 to 65535";

static bool parse_port(struct slice text, uint16_t *out)
{
    uint64_t port;
    if (!slice_to_u64(text, UINT16_MAX, &port))
        return false;
    *out = (uint16_t)port;
    return true;
}

static bool parse_unix(struct slice path, struct endpoint *out, const char **why)
{
    if (path.len == 0 || path.len >= sizeof out->socket.local.sun_path) {
        *why = "a socket's path has 1 to 107 bytes";
        return false;
    }
    out->kind = ENDPOINT_UNIX;
    out->socket.local.sun_family = AF_UNIX;
    memcpy(out->socket.local.sun_path, path.at, path.len);
    out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.len + 1);
    return true;
}

static bool parse_fd(struct slice number, struct endpoint *out)
{
    uint64_t fd;
    if (!slice_to_u64(number, FD_MAX, &fd))
        return false;
    out->kind = ENDPOINT_FD;
    out->fd = (int)fd;
    return true;
}

static bool resolve(struct slice host, uint16_t port, bool is_v6, struct endpoint *out, const char **why)
{
    char name[HOST_MAX + 1];
    if (host.len == 0 || host.len > HOST_MAX)
        return false;
    memcpy(name, host.at, host.len);
    name[host.len] = '\0';

    struct addrinfo hints = { .ai_family = is_v6 ? AF_INET6 : AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = is_v6 ? AI_NUMERICHOST : AI_PASSIVE };
    struct addrinfo *found;
    int error = getaddrinfo(name, NULL, &hints, &found);
    if (error != 0) {
        *why = gai_strerror(error);
        return false;
    }
    memcpy(&out->socket, found->ai_addr, found->ai_addrlen);
    out->len = found->ai_addrlen;
    out->kind = ENDPOINT_TCP;
    if (out->socket.any.sa_family == AF_INET6)
        out->socket.v6.sin6_port = htons(port);
    else
        out->socket.v4.sin_port = htons(port);
    freeaddrinfo(found);
    return true;
}

bool endpoint_parse(const char *text, struct endpoint *out, const char **why)
{
    memset(out, 0, sizeof *out);
    *why = how;
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(slice_of(text + 5), out, why);
    if (strncmp(text, "fd:", 3) == 0)
        return parse_fd(slice_of(text + 3), out);

    uint16_t port;
    if (parse_port(slice_of(text), &port))
        return resolve(SLICE("127.0.0.1"), port, false, out, why);
    if (text[0] == '[') {
        const char *end = strstr(text, "]:");
        return end != NULL && parse_port(slice_of(end + 2), &port)
               && resolve((struct slice){ text + 1, (size_t)(end - text - 1) }, port, true, out, why);
    }
    /* One colon only: a bare IPv6 address does not say where it ends and the port begins. */
    const char *colon = strchr(text, ':');
    return colon != NULL && strchr(colon + 1, ':') == NULL && parse_port(slice_of(colon + 1), &port)
           && resolve((struct slice){ text, (size_t)(colon - text) }, port, false, out, why);
}

void endpoint_format(const struct endpoint *endpoint, char out[ENDPOINT_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN];
    switch (endpoint->socket.any.sa_family) {
    case AF_UNIX:
        (void)snprintf(out, ENDPOINT_TEXT_MAX, "unix:%s%.107s",
                       endpoint->socket.local.sun_path[0] == '\0' ? "@" : "",
                       endpoint->socket.local.sun_path + (endpoint->socket.local.sun_path[0] == '\0'));
        break;
    case AF_INET:
        (void)inet_ntop(AF_INET, &endpoint->socket.v4.sin_addr, host, sizeof host);
        (void)snprintf(out, ENDPOINT_TEXT_MAX, "%s:%u", host, ntohs(endpoint->socket.v4.sin_port));
        break;
    case AF_INET6:
        (void)inet_ntop(AF_INET6, &endpoint->socket.v6.sin6_addr, host, sizeof host);
        (void)snprintf(out, ENDPOINT_TEXT_MAX, "[%s]:%u", host, ntohs(endpoint->socket.v6.sin6_port));
        break;
    default:
        (void)snprintf(out, ENDPOINT_TEXT_MAX, "fd:%d", endpoint->fd);
    }
}

bool endpoint_is_local(const struct endpoint *endpoint)
{
    const struct in6_addr *v6 = &endpoint->socket.v6.sin6_addr;
    switch (endpoint->socket.any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return (ntohl(endpoint->socket.v4.sin_addr.s_addr) >> 24) == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    default:
        return false;
    }
}
