// SPDX-License-Identifier: Apache-2.0
/* door_tls.c - certificates at the doors; see door_tls.h. */
#include "net/door_tls.h"

#include <stdio.h>

#include "io/tls.h"
#include "net/log.h"
#include "net/worker.h"

#define EXIT_WRONG 2
#define EXIT_UNABLE 3

/* Room for what is wrong with a file. */
#define WHY_MAX 400

static bool make_context(const struct door_tls *tls, struct tls_context **out, char *why, size_t size)
{
    const struct tls_options options = { .ca = tls->client_ca, .cert = tls->cert, .key = tls->key };
    return tls_context_new(out, TLS_SERVER, &options, why, size);
}

/* One source for all three: a certificate of an option is not shown with the contract's key. */
static void choose_files(const struct server *server, struct door_tls *tls)
{
    const struct server_options *options = server->options;
    const struct weir_contract_server *settings = server->settings;
    bool by_options = options->tls_cert != NULL || options->tls_key != NULL || options->tls_client_ca != NULL;
    tls->cert = by_options ? options->tls_cert : settings->tls_cert;
    tls->key = by_options ? options->tls_key : settings->tls_key;
    tls->client_ca = by_options ? options->tls_client_ca : settings->tls_client_ca;
}

int door_tls_open(struct server *server)
{
    struct door_tls *tls = &server->tls;
    char why[WHY_MAX];
    choose_files(server, tls);
    if (tls->cert == NULL && tls->key == NULL && tls->client_ca == NULL)
        return 0;
    if (tls->cert == NULL || tls->key == NULL) {
        (void)fprintf(stderr,
                      "weir: TLS needs a certificate and its key: give --tls-cert FILE and --tls-key FILE, or "
                      "`server: { tls: { cert, key } }`\n"); /* nowhere else to say it */
        return EXIT_WRONG;
    }
    if (uv_mutex_init(&tls->lock) != 0) {
        (void)fprintf(stderr, "weir: out of memory\n");
        return EXIT_UNABLE;
    }
    tls->has_lock = true;
    if (make_context(tls, &tls->context, why, sizeof why))
        return 0;
    (void)fprintf(stderr, "weir: TLS: %s\n", why);
    return EXIT_WRONG;
}

void door_tls_close(struct door_tls *tls)
{
    tls_context_free(tls->context);
    if (tls->has_lock)
        uv_mutex_destroy(&tls->lock);
}

bool door_tls_reload(struct server *server, char *why, size_t size)
{
    struct door_tls *tls = &server->tls;
    struct tls_context *next, *old;
    char quoted[LOG_QUOTED_MAX];
    if (tls->context == NULL)
        return true;
    if (!make_context(tls, &next, why, size)) {
        log_event(LOG_ERROR, "tls_kept", "reason=%s", log_quote(why, quoted));
        return false;
    }
    why[0] = '\0';
    uv_mutex_lock(&tls->lock);
    old = tls->context;
    tls->context = next;
    uv_mutex_unlock(&tls->lock);
    tls_context_free(old);
    log_event(LOG_INFO, "tls_reloaded", "cert=%s", log_quote(tls->cert, quoted));
    return true;
}

int64_t door_tls_expires_at(struct door_tls *tls)
{
    if (!tls->has_lock)
        return 0;
    uv_mutex_lock(&tls->lock);
    int64_t at = tls->context == NULL ? 0 : tls_context_expires_at(tls->context);
    uv_mutex_unlock(&tls->lock);
    return at;
}

bool door_tls_knows_peers(const struct door_tls *tls)
{
    return tls->client_ca != NULL && tls->context != NULL;
}

/* Milliseconds for a handshake, as a head has them. */
static unsigned handshake_ms(const struct conn *conn)
{
    return HEAD_SECONDS * (unsigned)conn->worker->server->second_ms;
}

int conn_open_stream(struct conn *conn, const struct stream_events *events)
{
    struct worker *worker = conn->worker;
    struct door_tls *tls = &worker->server->tls;
    if (!conn->has_tls || conn->phase == PHASE_PROXY)
        return stream_open(&conn->stream, &worker->loop, conn->fd, conn->peer.is_unix, events);
    uv_mutex_lock(&tls->lock);
    int result = stream_open_tls(&conn->stream, &worker->loop, conn->fd, conn->peer.is_unix, events,
                                 tls->context, NULL, handshake_ms(conn));
    uv_mutex_unlock(&tls->lock);
    if (result == 0 && conn->protocol->alpn != NULL)
        stream_speaks(&conn->stream, conn->protocol->alpn);
    return result;
}

int conn_secure(struct conn *conn, struct slice came)
{
    struct door_tls *tls = &conn->worker->server->tls;
    uv_mutex_lock(&tls->lock);
    int result = stream_secure(&conn->stream, tls->context, conn->protocol->alpn, came, handshake_ms(conn));
    uv_mutex_unlock(&tls->lock);
    return result;
}
