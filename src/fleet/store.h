// SPDX-License-Identifier: Apache-2.0
/*
 * store.h - the carrier over real connections: a single server, one that Sentinels watch, or a Cluster.
 *
 * Idea: the carrier owns a link for each node it knows and a map from slots to nodes; topology changes are replies or pushes
 * that change the map, never denials. See store.c for a single server and what all share, sentinel.c, cluster.c.
 */
#ifndef WEIR_FLEET_STORE_H
#define WEIR_FLEET_STORE_H

#include <uv.h>

#include "fleet/carrier.h"
#include "fleet/url.h"

struct tls_context;

struct store_client_options {
    uv_loop_t *loop;
    const struct url *url;         /* kept: lives as long */
    const struct tls_context *tls; /* for rediss://; NULL elsewhere */
    struct outages *outages;
    uint64_t seed;
    bool only_looks; /* decides nothing: no script is brought to the nodes */
    /* A line for the log: "event=store-up node=127.0.0.1:6379", without level and time. May be NULL. */
    void (*log)(void *context, const char *line);
    void *context;
    /* Where it was closed: after the carrier's close(), when all handles are gone. May be NULL. */
    void (*closed)(void *context);
};

/* Starts to connect at once, on the loop. 0, or WEIR_ERR_MEMORY. */
int store_client_new(struct carrier **out, const struct store_client_options *options);

/* For `weir fleet status` and metrics. Strings live until the loop turns. */
struct store_node {
    const char *address, *role; /* "master", "replica", "sentinel", or "" */
    bool is_up;
    const char *why; /* why it is not; "" */
    unsigned slots;
    struct outage *outage;
    struct incarnation incarnation;
};
size_t store_client_nodes(const struct carrier *carrier, struct store_node *out, size_t room);

/* Nodes that are known and do not decide: replicas, Sentinels (that one is up which is listened to). As above. */
size_t store_client_others(struct carrier *carrier, struct store_node *out, size_t room);

/* Send a command to one of the nodes that serve keys: for `weir fleet`. call->slot is ignored; node is an index of the above
   but one. */
void store_client_send_to(struct carrier *carrier, size_t node, struct carrier_call *call);

#endif
