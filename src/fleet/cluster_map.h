// SPDX-License-Identifier: Apache-2.0
/*
 * cluster_map.h - which node of a Cluster serves which slot, as one node says: CLUSTER SLOTS, CLUSTER SHARDS, redirections.
 *
 * Idea: a map is read whole and checked before anything of it is used. One that is absurd (a slot twice, bounds outside of the
 * Cluster, more nodes than anyone has) is refused, and the one before stays. Pure: no connections.
 *
 * A host that is announced as empty or unknown is the one that was asked ("" of old servers, null of
 * `cluster-preferred-endpoint-type unknown-endpoint`); a host name that is not set ("?") is replaced by the address beside it.
 */
#ifndef WEIR_FLEET_CLUSTER_MAP_H
#define WEIR_FLEET_CLUSTER_MAP_H

#include "fleet/carrier.h"
#include "fleet/store_address.h"

/* Most nodes, replicas too: Redis's documentation goes up to 1,000. */
#define CLUSTER_NODES_MAX 1024

/* A slot that nobody serves. */
#define CLUSTER_NOBODY UINT16_MAX

/* Some 290 KB. */
struct cluster_map {
    size_t node_count;
    unsigned served;            /* slots that somebody serves: at least one */
    uint16_t owner[SLOT_COUNT]; /* index of a node, or CLUSTER_NOBODY */
    struct cluster_map_node {
        struct store_address at;
        bool is_replica;
    } nodes[CLUSTER_NODES_MAX]; /* no address twice */
};

/*
 * Read the reply to CLUSTER SLOTS or to CLUSTER SHARDS, of either version.
 *
 *   asked   the host that answered.
 *   is_tls  which port to take where there are two.
 *   seed    of a hash, so that nobody makes looking up slow.
 *
 * False: *why says what is wrong, and `out` is not to be used. A node without a usable address serves nothing: its slots are
 * nobody's.
 */
bool cluster_map_read(struct slice reply, const char *asked, bool is_tls, uint64_t seed,
                      struct cluster_map *out, const char **why);

/* MOVED and ASK. */
struct redirection {
    bool is_ask;
    unsigned slot;
    struct store_address to;
};

/* Read the text of an error. False: it is neither, or says nothing usable. */
bool redirection_read(struct slice error, const char *asked, struct redirection *out);

#endif
