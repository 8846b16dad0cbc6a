// SPDX-License-Identifier: Apache-2.0
/*
 * address.h - where a server listens, as people write it: HOST:PORT, [V6]:PORT, PORT, unix:PATH or fd:N.
 *
 * A bare port means loopback, because a limiter that is reachable by accident can be emptied by anyone.
 */
#ifndef WEIR_IO_ADDRESS_H
#define WEIR_IO_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum address_kind { ADDRESS_TCP, ADDRESS_UNIX, ADDRESS_FD };

struct address {
    enum address_kind kind;
    int fd; /* ADDRESS_FD only */
    socklen_t len;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
        struct sockaddr_storage room;
    } socket;
};

/* Longest text that address_format() writes: "unix:" and a path, or a bracketed IPv6 address with scope and port. */
#define ADDRESS_TEXT_MAX (sizeof(struct sockaddr_un) + 32)

/* Read `text`; names are resolved at once. False when it is no address: *why then says how to write one. */
bool address_parse(const char *text, struct address *out, const char **why);

/* The address as "127.0.0.1:8080", "[::1]:8080" or "unix:/path". */
void address_format(const struct address *address, char out[ADDRESS_TEXT_MAX]);

/* Whether only this machine can reach it: a loopback address or a Unix socket. */
bool address_is_local(const struct address *address);

#endif
