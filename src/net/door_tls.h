// SPDX-License-Identifier: Apache-2.0
/*
 * door_tls.h - TLS at the doors: what the server shows, whom it asks to prove who they are, and other files at a reload.
 *
 * Idea: with a certificate every TCP listener speaks TLS 1.2 or 1.3 and nothing else; Unix sockets stay plain, for the kernel says
 * who their peers are. With authorities for clients (mTLS) a peer without a certificate of theirs is refused in the handshake, so
 * whoever is served there is known. A reload reads the files again; files that do not fit leave the old ones in use.
 *
 * Words:     the context in use, under the lock; a connection borrows it while it begins, and keeps its own hold of what it needs.
 * Progress:  blocking, for as long as a session takes to be made.
 */
#ifndef WEIR_NET_DOOR_TLS_H
#define WEIR_NET_DOOR_TLS_H

#include <stdbool.h>
#include <uv.h>

struct conn;
struct server;
struct tls_context;

struct door_tls {
    uv_mutex_t lock;
    struct tls_context *context; /* NULL: the doors are plain */
    const char *cert, *key, *client_ca;
    bool has_lock;
};

/* What options and the contract say. 0, or the exit status, and it was said on standard error what is wrong. */
int door_tls_open(struct server *server);
void door_tls_close(struct door_tls *tls);

/* Read the files again. False: they do not fit, `why` says what is wrong, and the old ones stay. Any thread. */
bool door_tls_reload(struct server *server, char *why, size_t size);

/* Until when the certificate that is shown is valid, in Unix seconds; 0: there is none. Any thread. */
int64_t door_tls_expires_at(struct door_tls *tls);

/* Whether peers of TCP listeners have proved who they are. */
bool door_tls_knows_peers(const struct door_tls *tls);

#endif
