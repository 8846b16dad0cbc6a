// SPDX-License-Identifier: Apache-2.0
/*
 * peers.h - how many connections each address has, so that none takes all there are.
 *
 * Idea: an address is an IPv4 address or a /64 of IPv6, since that is what one subscriber is given. There is an entry for each
 * address with a connection and for no other, so the table is as large as the connections are many. Addresses are hashed with a
 * secret: whoever chooses its own cannot make one chain long.
 *
 * Words      everything here, under the lock.
 * Progress   blocking, for a few steps at the beginning and the end of a connection.
 * Reuse      an entry is freed with its last connection, under the lock.
 */
#ifndef WEIR_NET_PEERS_H
#define WEIR_NET_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Chains, each a pointer: with as many addresses as there may be connections some four entries are looked at. */
#define PEERS_CHAINS 16384

struct peer_entry {
    struct peer_entry *next;
    uint8_t address[16]; /* grouped */
    size_t count;
};

struct peers {
    uv_mutex_t lock;
    bool has_lock;
    size_t most; /* connections of one address */
    uint8_t secret[16];
    struct peer_entry **chains;
};

/* False: out of memory, or there is no randomness. */
bool peers_init(struct peers *peers, size_t most);
void peers_deinit(struct peers *peers);

/* One more connection of the address (as struct peer has it). NULL: it has as many as it may, or memory is out. */
struct peer_entry *peers_claim(struct peers *peers, const uint8_t address[16]);

/* It ended. `entry` NULL: it was not counted. */
void peers_release(struct peers *peers, struct peer_entry *entry);

#endif
