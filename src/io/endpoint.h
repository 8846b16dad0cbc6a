// SPDX-License-Identifier: Apache-2.0
/*
 * endpoint.h - where a server listens, as people write it: HOST:PORT, [V6]:PORT, PORT, unix:PATH or fd:N.
 *
 * A bare port means loopback, because a limiter that is reachable by accident can be emptied by anyone.
 */
#ifndef WEIR_IO_ENDPOINT_H
#define WEIR_IO_ENDPOINT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum endpoint_kind { ENDPOINT_TCP, ENDPOINT_UNIX, ENDPOINT_FD };

struct endpoint {
    enum endpoint_kind kind;
    int fd; /* ENDPOINT_FD only */
    socklen_t len;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
        struct sockaddr_storage room;
    } socket;
};

/* Longest text that endpoint_format() writes: "unix:" and a path, or a bracketed IPv6 address with scope and port. */
#define ENDPOINT_TEXT_MAX (sizeof(struct sockaddr_un) + 32)

/* Read `text`; names are resolved at once. False when it is no address: *why then says how to write one. */
bool endpoint_parse(const char *text, struct endpoint *out, const char **why);

/* The address as "127.0.0.1:8080", "[::1]:8080" or "unix:/path". */
void endpoint_format(const struct endpoint *endpoint, char out[ENDPOINT_TEXT_MAX]);

/* Whether only this machine can reach it: a loopback address or a Unix socket. */
bool endpoint_is_local(const struct endpoint *endpoint);

#endif
