// SPDX-License-Identifier: Apache-2.0
/*
 * netset.c - many networks against one address at once.
 */
#include "rule/netset.h"

#include <stdlib.h>

/* The networks come from the contract, so nobody else can choose what collides, and no secret is needed. */
static size_t hash(const struct address *address, unsigned length)
{
    uint64_t x = load_le64((const char *)address->bytes) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x = (x + load_le64((const char *)address->bytes + 8) + length) * UINT64_C(0xbf58476d1ce4e5b9);
    return (size_t)(x ^ (x >> 32));
}

static void note_length(struct netset *set, const struct network *network)
{
    bool is_ipv4 = address_is_ipv4(&network->address);
    for (unsigned i = 0; i < set->length_count; i++)
        if (set->lengths[i].length == network->length && set->lengths[i].is_ipv4 == is_ipv4)
            return;
    set->lengths[set->length_count].length = (uint8_t)network->length;
    set->lengths[set->length_count++].is_ipv4 = is_ipv4;
}

bool netset_init(struct netset *set, const struct network *networks, size_t count)
{
    size_t slot_count = 4;
    while (slot_count < 2 * count)
        slot_count *= 2;
    *set = (struct netset){ .networks = networks, .slot_count = slot_count };
    set->slots = calloc(slot_count, sizeof *set->slots);
    if (set->slots == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t slot = hash(&networks[i].address, networks[i].length) & (slot_count - 1);
        while (set->slots[slot] != 0)
            slot = (slot + 1) & (slot_count - 1);
        set->slots[slot] = (uint32_t)i + 1;
        note_length(set, networks + i);
    }
    return true;
}

void netset_deinit(struct netset *set)
{
    free(set->slots);
    *set = (struct netset){ 0 };
}

bool netset_find(const struct netset *set, const struct address *address, netset_found *found, void *context)
{
    bool is_ipv4 = address_is_ipv4(address);
    for (unsigned i = 0; i < set->length_count; i++) {
        if (set->lengths[i].is_ipv4 != is_ipv4)
            continue;
        struct network wanted = network_of(address, set->lengths[i].length);
        size_t slot = hash(&wanted.address, wanted.length) & (set->slot_count - 1);
        for (; set->slots[slot] != 0; slot = (slot + 1) & (set->slot_count - 1)) {
            const struct network *network = set->networks + set->slots[slot] - 1;
            if (network->length != wanted.length
                || memcmp(&network->address, &wanted.address, sizeof wanted.address) != 0)
                continue;
            if (!found(context, set->slots[slot] - 1))
                return false;
            break;
        }
    }
    return true;
}
