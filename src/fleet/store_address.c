// SPDX-License-Identifier: Apache-2.0
/*
 * store_address.c - addresses of nodes: taken with care, compared, shown.
 */
#include "fleet/store_address.h"

#include <stdio.h>

bool store_address_set(struct store_address *out, struct slice host, uint64_t port)
{
    if (host.len == 0 || host.len >= STORE_HOST_MAX || port > UINT16_MAX)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        unsigned char byte = (unsigned char)host.at[i];
        bool is_blank = byte == ' ' && port != 0; /* a path may have one */
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || is_blank)
            return false;
    }
    memcpy(out->host, host.at, host.len);
    out->host[host.len] = '\0';
    out->port = (uint16_t)port;
    return true;
}

bool store_address_equals(const struct store_address *x, const struct store_address *y)
{
    return x->port == y->port && strcmp(x->host, y->host) == 0;
}

void store_address_show(const struct store_address *address, char out[STORE_ADDRESS_MAX])
{
    bool is_v6 = strchr(address->host, ':') != NULL;
    if (address->port == 0)
        (void)snprintf(out, STORE_ADDRESS_MAX, "%s", address->host);
    else
        (void)snprintf(out, STORE_ADDRESS_MAX, is_v6 ? "[%s]:%u" : "%s:%u", address->host,
                       (unsigned)address->port);
}
