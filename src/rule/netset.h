// SPDX-License-Identifier: Apache-2.0
/*
 * netset.h - many networks against one address at once.
 *
 * One hash table of all networks, and the list of the prefix lengths that occur: an address is looked up once for each
 * of those (usually one to three, never more than 162), however many networks there are.
 */
#ifndef WEIR_RULE_NETSET_H
#define WEIR_RULE_NETSET_H

#include "rule/address.h"

struct netset {
    const struct network *networks;
    uint32_t *slots; /* number of a network + 1; 0: empty */
    size_t slot_count;
    unsigned length_count;
    struct {
        uint8_t length;
        bool is_ipv4;
    } lengths[33 + 129];
};

/* Build from networks without duplicates, kept until netset_deinit(). False: out of memory. */
bool netset_init(struct netset *set, const struct network *networks, size_t count);
void netset_deinit(struct netset *set);

/* Called once for each network that holds the address; false ends the search. */
typedef bool netset_found(void *context, uint32_t network);

/* False when `found` ended it. */
bool netset_find(const struct netset *set, const struct address *address, netset_found *found, void *context);

#endif
