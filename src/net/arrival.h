// SPDX-License-Identifier: Apache-2.0
/*
 * arrival.h - who a connection comes from, before its first request: its peer, whom a PROXY header names, what its certificate says.
 *
 * Idea: from here on everybody asks conn->peer and nobody else: identity, roles, logs. At a door that has the PROXY protocol the
 * peers that the contract trusts (identity.proxies) must begin with a header, the others are never looked at for one: nobody
 * guesses. What the header names is the peer from then on, in everything, also in whether it is trusted itself. Where it names
 * nobody the peer stays, and is trusted in nothing: what it passes on is somebody's whom it does not tell.
 *
 * An address has so many connections and no more (peers.h). Unix peers and trusted ones are not counted, but those that a header
 * names are.
 */
#ifndef WEIR_NET_ARRIVAL_H
#define WEIR_NET_ARRIVAL_H

#include <stdbool.h>
#include <stddef.h>

struct conn;
struct weir_peer;

/* Seconds for a whole PROXY header. The protocol wants at least three, for one packet that is sent again. */
#define PROXY_HEADER_SECONDS 10

/* A connection came to its worker. False: it is refused, and that was counted. */
bool arrival_begin(struct conn *conn);

/* PHASE_PROXY: as protocol->step. What follows the header is left, or was given to TLS. */
size_t arrival_step(struct conn *conn, char *at, size_t len);

/* The time for the header has run out. */
void arrival_late(struct conn *conn);

/* The TLS handshake is over. False: out of memory. */
bool arrival_secured(struct conn *conn);

/* It is gone. */
void arrival_end(struct conn *conn);

/* The peer as the contract looks at it. */
void arrival_peer(const struct conn *conn, bool has_token, struct weir_peer *out);

#endif
