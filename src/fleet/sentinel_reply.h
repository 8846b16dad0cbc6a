// SPDX-License-Identifier: Apache-2.0
/*
 * sentinel_reply.h - what Sentinels and the nodes they watch say: addresses, other Sentinels, switches, roles.
 *
 * Pure: replies in, values out. What is not understood is no answer.
 */
#ifndef WEIR_FLEET_SENTINEL_REPLY_H
#define WEIR_FLEET_SENTINEL_REPLY_H

#include "fleet/store_address.h"

/* Most sentinels of one master that are remembered: people run three or five. */
#define SENTINELS_MAX 64

struct sentinels {
    struct store_address at[SENTINELS_MAX];
    size_t count;
};

/* Remember one, if it is new and there is room. */
void sentinels_add(struct sentinels *sentinels, const struct store_address *at);

/* SENTINEL GET-MASTER-ADDR-BY-NAME. False: it does not know the master. */
bool sentinel_read_master(struct slice reply, struct store_address *out);

/* SENTINEL SENTINELS: add the others to those known. */
void sentinel_read_others(struct slice reply, struct sentinels *into);

/* A message of the channel +switch-master about the master of this name: where it is now. */
bool sentinel_read_switch(struct slice push, const char *name, struct store_address *out);

enum node_role { ROLE_UNKNOWN, ROLE_MASTER, ROLE_REPLICA, ROLE_SENTINEL };

/* ROLE, or INFO replication for those who do not answer it. */
enum node_role role_read(struct slice reply);

/* Of the reply to ROLE of a master: its replicas, at most `room`. */
size_t role_read_replicas(struct slice reply, struct store_address *out, size_t room);

#endif
