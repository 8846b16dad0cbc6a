// SPDX-License-Identifier: Apache-2.0
/*
 * tls.h - TLS 1.2 and 1.3 between two pieces of memory: what a socket brought goes in, what it should send comes out.
 *
 * Idea: OpenSSL never sees the socket. A session borrows the bytes that came, keeps what it did not need yet, and collects
 * what must leave; stream.h moves both. So all sockets are read and written in one way, and the session can be tested
 * without any.
 *
 * Both ends prove who they are with certificates: a server always, and its name must be the one that was asked for; a client
 * where the server has authorities for clients. Refused, not negotiated: versions before 1.2, renegotiation, compression,
 * session tickets (each connection shakes hands anew; links and doors live long).
 *
 * Words:     a context may be used by any number of threads, a session by one at a time.
 */
#ifndef WEIR_IO_TLS_H
#define WEIR_IO_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct tls_context; /* what a process shows, and whom it trusts */
struct tls_session; /* one connection */

enum tls_side { TLS_CLIENT, TLS_SERVER };

/* PEM files; NULL: none. Read once, by tls_context_new(). */
struct tls_options {
    const char
        *ca; /* whom to trust. Client: NULL is the system's authorities. Server: whoever shows no certificate of
                         these is refused; NULL asks nobody */
    const char *cert; /* what to show, with the certificates between it and the authority; a server must */
    const char *key;
    const char
        *name; /* client: the name, or address, that every server must prove; NULL: the one that was dialled */
};

/* False: `why` says which file and what is wrong with it. */
bool tls_context_new(struct tls_context **out, enum tls_side side, const struct tls_options *options, char *why,
                     size_t cap);
void tls_context_free(struct tls_context *context);

/* Until when the certificate that is shown is valid, in Unix seconds; 0: none is shown. */
int64_t tls_context_expires_at(const struct tls_context *context);

/* `host`, of a client: the name or address that was dialled. NULL when memory is out. */
struct tls_session *tls_session_new(const struct tls_context *context, const char *host);
void tls_session_free(struct tls_session *session);

/* Of a server, before anything was given: what is spoken (ALPN; a literal). A client that names protocols and not this one is
   refused in the handshake; one that names none is believed to know. */
void tls_session_speaks(struct tls_session *session, const char *protocol);

enum tls_result {
    TLS_DONE,
    TLS_WAITS,  /* for more bytes of the peer */
    TLS_ENDED,  /* the peer said that it sends no more */
    TLS_BROKEN, /* tls_why() says what; what must leave may be an alert */
};

/* Bytes that came: borrowed until they are used up or tls_keep() was called, and not before the last ones are. None: those
   that are left are not wanted. */
void tls_give(struct tls_session *session, struct slice bytes);
/* Copy those that are not used up. False: memory is out. */
bool tls_keep(struct tls_session *session);
/* Whether bytes were given that are not used up, or were decrypted and not read. */
bool tls_has_more(const struct tls_session *session);

/* Shake hands, as far as what came allows. TLS_ENDED does not come. */
enum tls_result tls_shake(struct tls_session *session);
/* Plain bytes of the peer; *len is written with TLS_DONE, at least one. */
enum tls_result tls_read(struct tls_session *session, char *at, size_t size, size_t *len);
/* Encrypt bytes for the peer, after the handshake: all of them, or the session is broken. */
bool tls_write(struct tls_session *session, const void *at, size_t len);
/* Say that no more will come. */
void tls_finish(struct tls_session *session);

/*
 * The subject of the certificate that the peer has shown and that was verified, as RFC 2253 writes it: "CN=billing,O=Acme". Returns
 * its length; of one that does not fit into `cap` bytes as many as do are written. 0: it has shown none, or one without a subject.
 */
size_t tls_peer_subject(const struct tls_session *session, char *out, size_t cap);

/* What must leave now, borrowed until the next call; then say so. */
struct slice tls_outgoing(const struct tls_session *session);
void tls_left(struct tls_session *session);

/* Why it broke, for people: "the peer's certificate: self-signed certificate". */
const char *tls_why(const struct tls_session *session);

#endif
