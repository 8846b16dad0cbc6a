// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_cluster_slots.c - any bytes as what a Cluster or a Sentinel says: maps stay within their bounds, what is read is an address,
 * and nothing behind the end is looked at.
 *
 * Only whole replies come to the readers, as from a link. The first byte says which port is taken.
 */
#include <stdlib.h>
#include <string.h>

#include "fleet/cluster_map.h"
#include "fleet/incarnation.h"
#include "fleet/sentinel_reply.h"
#include "fleet/store_refusal.h"
#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cluster_map map;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_address(const struct store_address *at)
{
    char shown[STORE_ADDRESS_MAX];
    size_t len = strnlen(at->host, sizeof at->host);
    require(len > 0 && len < sizeof at->host && at->port != 0);
    for (size_t i = 0; i < len; i++)
        require(at->host[i] > ' ' && at->host[i] < 0x7f && at->host[i] != '"');
    store_address_show(at, shown);
    require(strnlen(shown, sizeof shown) < sizeof shown);
}

static void check_map(void)
{
    unsigned served = 0;
    require(map.node_count > 0 && map.node_count <= CLUSTER_NODES_MAX);
    for (size_t i = 0; i < map.node_count; i++)
        check_address(&map.nodes[i].at);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        require(map.owner[slot] == CLUSTER_NOBODY || map.owner[slot] < map.node_count);
        served += map.owner[slot] != CLUSTER_NOBODY;
    }
    require(served > 0 && served == map.served);
}

static void check_sentinels(struct slice reply)
{
    static struct sentinels sentinels;
    struct store_address at, replicas[8];
    sentinels.count = 0;
    sentinel_read_others(reply, &sentinels);
    require(sentinels.count <= SENTINELS_MAX);
    for (size_t i = 0; i < sentinels.count; i++)
        check_address(&sentinels.at[i]);
    if (sentinel_read_master(reply, &at))
        check_address(&at);
    if (sentinel_read_switch(reply, "m", &at))
        check_address(&at);
    size_t count = role_read_replicas(reply, replicas, 8);
    require(count <= 8 && (count == 0 || role_read(reply) == ROLE_MASTER));
    for (size_t i = 0; i < count; i++)
        check_address(&replicas[i]);
}

static void check_error(struct slice reply)
{
    struct slice error;
    struct redirection redirection;
    if (refusal_read(reply, &error) == REFUSAL_NONE || !redirection_read(error, "host", &redirection))
        return;
    require(redirection.slot < SLOT_COUNT);
    check_address(&redirection.to);
}

/* Whatever reads as an incarnation is written the same again. */
static void check_incarnation(struct slice text)
{
    struct incarnation incarnation;
    char again[INCARNATION_TEXT_MAX];
    if (!incarnation_read(text, &incarnation))
        return;
    size_t len = incarnation_write(incarnation, again);
    require(incarnation.id != 0 && slice_equals(text, (struct slice){ again, len }));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    const char *why = NULL;
    size_t len;
    if (size < 2)
        return 0;
    char *copy = malloc(size - 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, data + 1, size - 1);
    check_incarnation((struct slice){ copy, size - 1 });
    if (resp_reply_parse(&parser, copy, size - 1, &len) == RESP_DONE) {
        char *reply = malloc(len); /* as long as it is */
        require(reply != NULL);
        memcpy(reply, copy, len);
        struct slice whole = { reply, len };
        if (cluster_map_read(whole, "host", data[0] & 1, data[0], &map, &why))
            check_map();
        else
            require(why != NULL);
        check_sentinels(whole);
        check_error(whole);
        free(reply);
    }
    free(copy);
    return 0;
}
