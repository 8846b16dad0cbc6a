// SPDX-License-Identifier: Apache-2.0
/*
 * proxy_header.h - the PROXY protocol, versions 1 and 2: who a connection comes from, in front of its first byte.
 *
 * Idea: a load balancer that passes bytes on, and does not look into them, writes one header first. The header is read in one
 * strict form and no other; what only resembles one ends the connection, since whoever wrote it is not who we were told of.
 * Whether a peer may send one at all is not decided here.
 *
 * Where it names no address (LOCAL: the balancer itself speaks; UNKNOWN, UNSPEC: it cannot say who does; a Unix socket at its
 * end) the connection comes from its peer. Of what follows the addresses the checksum is verified, the rest is skipped.
 */
#ifndef WEIR_IO_PROXY_HEADER_H
#define WEIR_IO_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of version 1, with its end. */
#define PROXY_LINE_MAX 107

/* A header of version 2: its length has 16 bits. */
#define PROXY_HEADER_MAX (16 + 65535)

enum proxy_result {
    PROXY_MORE, /* a good beginning: ask again with more */
    PROXY_DONE,
    PROXY_BAD, /* `why` says what is wrong; no more bytes can mend it */
};

struct proxy_header {
    bool has_source;
    uint8_t source[16]; /* IPv6, or IPv4 mapped into ::ffff:0:0/96 */
    uint16_t source_port;
    size_t len; /* of the header: what follows are the connection's own bytes */
    const char *why;
};

/* The header that these bytes begin with. *out is written with PROXY_DONE, `why` alone with PROXY_BAD. */
enum proxy_result proxy_header_decode(const void *bytes, size_t len, struct proxy_header *out);

#endif
