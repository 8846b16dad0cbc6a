// SPDX-License-Identifier: Apache-2.0
/*
 * url.h - where the store is, as people write it.
 *
 *     redis://[user:pass@]host:port[/db]       rediss://... (TLS)         redis+unix:///path[?db=N]
 *     redis+sentinel://h1:p,h2:p/name[/db]     rediss+sentinel://...
 *     redis+cluster://h1:p,h2:p                rediss+cluster://...
 *
 * `valkey` in place of `redis` is the same. A port may be left out: 6379, sentinels 26379. With TLS, behind a `?` and with `&`
 * between them: ca=FILE, cert=FILE and key=FILE (of a client certificate), servername=NAME. Bytes that would end a piece
 * are written %XX. Secrets may stand in the URL of a file or of the environment; what url_show() writes is without them,
 * for logs, and so is every fault.
 */
#ifndef WEIR_FLEET_URL_H
#define WEIR_FLEET_URL_H

#include "base/bytes.h"

#define URL_MAX 2048
#define URL_HOSTS_MAX 32

enum url_kind { URL_ONE, URL_SENTINEL, URL_CLUSTER };

struct url {
    enum url_kind kind;
    bool is_tls, is_unix;
    char text[URL_MAX];               /* what the pointers below point into, zero-terminated each */
    const char *user, *password;      /* NULL: none; percent-decoded */
    const char *hosts[URL_HOSTS_MAX]; /* "127.0.0.1", "::1"; a path for Unix sockets */
    uint16_t ports[URL_HOSTS_MAX];
    unsigned host_count;
    const char *master; /* URL_SENTINEL: the name it is monitored under */
    unsigned db;
    /* Of TLS, NULL where not given: whom to trust (else the system's authorities), what to show, and the name that every
       server must prove in place of the host that was dialled. */
    const char *ca, *cert, *key, *servername;
};

struct tls_context;

/* False: *why, a static text, says what is wrong and how to write it. */
bool url_parse(const char *text, struct url *out, const char **why);

/* The same without user and password, zero-terminated. Gives its length, which may be more than fits. */
size_t url_show(const struct url *url, char *out, size_t cap);

/* The context for its connections, freed by tls_context_free(); *out is NULL where it is plain. False: `why` is written. */
bool url_tls_context(const struct url *url, struct tls_context **out, char *why, size_t cap);

#endif
