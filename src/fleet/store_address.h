// SPDX-License-Identifier: Apache-2.0
/*
 * store_address.h - where a node is, as the store itself says it: bounded, printable, and the same text wherever it is shown.
 *
 * What a store announces is not to be trusted: a host with a control byte, or one that is longer than a name can be, is no
 * address.
 */
#ifndef WEIR_FLEET_STORE_ADDRESS_H
#define WEIR_FLEET_STORE_ADDRESS_H

#include "base/bytes.h"

/* A host with its zero: a name has at most 253 bytes; the path of a Unix socket at most 107. */
#define STORE_HOST_MAX 256

/* "[host]:65535" with its zero. */
#define STORE_ADDRESS_MAX (STORE_HOST_MAX + 8)

struct store_address {
    char host[STORE_HOST_MAX];
    uint16_t port; /* 0: the host is the path of a Unix socket */
};

/* False: not the host or port of a node. */
bool store_address_set(struct store_address *out, struct slice host, uint64_t port);

bool store_address_equals(const struct store_address *x, const struct store_address *y);

/* "127.0.0.1:6379", "[::1]:6379", "/run/valkey.sock". */
void store_address_show(const struct store_address *address, char out[STORE_ADDRESS_MAX]);

#endif
