// SPDX-License-Identifier: Apache-2.0
/* peers.c - counts connections by address; see peers.h. */
#include "net/peers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "base/siphash.h"

static_assert((PEERS_CHAINS & (PEERS_CHAINS - 1)) == 0, "a chain is chosen by the lowest bits of a hash");

bool peers_init(struct peers *peers, size_t most)
{
    *peers = (struct peers){ .most = most };
    if (!entropy_fill(peers->secret, sizeof peers->secret) || uv_mutex_init(&peers->lock) != 0)
        return false;
    peers->has_lock = true;
    peers->chains = calloc(PEERS_CHAINS, sizeof(struct peer_entry *));
    return peers->chains != NULL;
}

void peers_deinit(struct peers *peers)
{
    for (size_t i = 0; peers->chains != NULL && i < PEERS_CHAINS; i++) {
        while (peers->chains[i] != NULL) {
            struct peer_entry *entry = peers->chains[i];
            peers->chains[i] = entry->next;
            free(entry);
        }
    }
    free(peers->chains);
    if (peers->has_lock)
        uv_mutex_destroy(&peers->lock);
}

static void group(const uint8_t address[16], uint8_t out[16])
{
    static const uint8_t ipv4[12] = { [10] = 0xff, 0xff };
    memcpy(out, address, 16);
    if (memcmp(address, ipv4, sizeof ipv4) != 0)
        memset(out + 8, 0, 8);
}

/* Where the entry of an address hangs, or would. */
static struct peer_entry **find(struct peers *peers, const uint8_t address[16])
{
    struct siphash hash = siphash_begin(peers->secret);
    struct peer_entry **link = &peers->chains[siphash_end(hash, address, 16) & (PEERS_CHAINS - 1)];
    while (*link != NULL && memcmp((*link)->address, address, 16) != 0)
        link = &(*link)->next;
    return link;
}

struct peer_entry *peers_claim(struct peers *peers, const uint8_t address[16])
{
    uint8_t grouped[16];
    group(address, grouped);
    uv_mutex_lock(&peers->lock);
    struct peer_entry **link = find(peers, grouped);
    struct peer_entry *entry = *link;
    if (entry == NULL && peers->most > 0) {
        *link = entry = calloc(1, sizeof *entry);
        if (entry != NULL)
            memcpy(entry->address, grouped, sizeof grouped);
    }
    if (entry != NULL && entry->count == peers->most)
        entry = NULL;
    if (entry != NULL)
        entry->count++;
    uv_mutex_unlock(&peers->lock);
    return entry;
}

void peers_release(struct peers *peers, struct peer_entry *entry)
{
    if (entry == NULL)
        return;
    uv_mutex_lock(&peers->lock);
    if (--entry->count == 0) {
        *find(peers, entry->address) = entry->next;
        free(entry);
    }
    uv_mutex_unlock(&peers->lock);
}
