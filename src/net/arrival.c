// SPDX-License-Identifier: Apache-2.0
/* arrival.c - a connection until its first request; see arrival.h. */
#include "net/arrival.h"

#include <assert.h>
#include <stdlib.h>

#include "io/proxy_header.h"
#include "io/tls.h"
#include "net/log.h"
#include "net/peers.h"
#include "net/worker.h"

void arrival_peer(const struct conn *conn, bool has_token, struct weir_peer *out)
{
    bool is_certified = conn->has_tls && door_tls_knows_peers(&conn->worker->server->tls);
    *out = (struct weir_peer){ .is_unix = conn->peer.is_unix,
                               .uid = conn->peer.uid,
                               .has_credentials = has_token || is_certified,
                               .is_stranger = conn->is_stranger,
                               .subject = conn->subject,
                               .subject_len = conn->subject_len };
    memcpy(out->address, conn->peer.address, sizeof out->address);
}

/* Whether the peer is one of identity.proxies. */
static bool is_trusted(const struct conn *conn)
{
    struct weir_peer peer;
    arrival_peer(conn, false, &peer);
    return weir_contract_trusts_peer(conn->worker->server->contract, &peer);
}

static void refuse(struct conn *conn, enum refusal refusal, const char *event, const char *why)
{
    char peer[PEER_TEXT_MAX], quoted[LOG_QUOTED_MAX];
    counter_add(&conn->worker->counters.refusals[refusal], 1);
    peer_format(&conn->peer, peer);
    log_event(LOG_WARN, event, "peer=%s reason=%s", peer, log_quote(why, quoted));
}

/* Take a place among the connections of its address. */
static bool claim_place(struct conn *conn)
{
    assert(conn->place == NULL);
    conn->place = peers_claim(&conn->worker->server->peers, conn->peer.address);
    if (conn->place == NULL)
        refuse(conn, REFUSAL_PEER_FULL, "peer_full",
               "it has as many connections as connections-per-peer allows");
    return conn->place != NULL;
}

bool arrival_begin(struct conn *conn)
{
    bool is_proxy = is_trusted(conn);
    if (is_proxy && conn->has_proxy_door)
        conn->phase = PHASE_PROXY;
    return is_proxy || conn->peer.is_unix || claim_place(conn);
}

/* ---- The PROXY header ------------------------------------------------------------------------------------------------ */

static void refuse_header(struct conn *conn, const char *why)
{
    refuse(conn, REFUSAL_PROXY_HEADER, "proxy_header_refused", why);
    conn_break(conn);
}

/* Whom the header names is the peer now, and may what a peer may that nobody knows. False: it was refused. */
static bool become(struct conn *conn, const struct proxy_header *header)
{
    const struct server *server = conn->worker->server;
    bool is_certified = conn->has_tls && door_tls_knows_peers(&server->tls);
    conn->first_role = server->tokens == NULL || is_certified ? ROLE_CHECK : ROLE_NONE;
    conn->role = conn->first_role;
    conn->is_stranger = !header->has_source;
    if (!header->has_source)
        return true;
    conn->peer = (struct peer){ .uid = UINT32_MAX };
    memcpy(conn->peer.address, header->source, sizeof conn->peer.address);
    if (is_trusted(conn) || claim_place(conn))
        return true;
    conn_break(conn);
    return false;
}

size_t arrival_step(struct conn *conn, char *at, size_t len)
{
    struct proxy_header header;
    switch (proxy_header_decode(at, len, &header)) {
    case PROXY_MORE:
        return 0;
    case PROXY_BAD:
        refuse_header(conn, header.why);
        return len;
    case PROXY_DONE:
        break;
    }
    conn->phase = PHASE_HEAD;
    conn->since = conn->worker->second;
    if (!become(conn, &header))
        return len;
    if (!conn->has_tls)
        return header.len;
    if (conn_secure(conn, (struct slice){ at + header.len, len - header.len }) != 0)
        conn_break(conn);
    return len;
}

void arrival_late(struct conn *conn)
{
    refuse_header(conn, "the header did not arrive in time");
}

/* ---- TLS ------------------------------------------------------------------------------------------------------------- */

/* One byte more than a value may have shows that it is too long. */
#define SUBJECT_ROOM (WEIR_ATTRIBUTE_MAX + 1)
static_assert(SUBJECT_ROOM <= UINT16_MAX, "a connection keeps the length in 16 bits");

bool arrival_secured(struct conn *conn)
{
    char subject[SUBJECT_ROOM];
    size_t len = stream_subject(&conn->stream, subject, sizeof subject);
    if (len == 0)
        return true;
    conn->subject = malloc(len);
    if (conn->subject == NULL)
        return false; /* who is known must not become somebody unknown */
    memcpy(conn->subject, subject, len);
    conn->subject_len = (uint16_t)len;
    return true;
}

/* ---- The end --------------------------------------------------------------------------------------------------------- */

void arrival_end(struct conn *conn)
{
    peers_release(&conn->worker->server->peers, conn->place);
    free(conn->subject);
    free(conn->name);
}
