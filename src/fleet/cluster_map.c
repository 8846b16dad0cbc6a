// SPDX-License-Identifier: Apache-2.0
/*
 * cluster_map.c - replies about a Cluster become a map.
 */
#include "fleet/cluster_map.h"

#include "base/siphash.h"
#include "wire/resp.h"

/* Places of the hash of addresses: twice the nodes. */
#define PLACES 2048

/* Replicas of one range that are looked at; the rest are not needed by anyone. */
#define REPLICAS_MAX 16

struct reading {
    struct resp_reader reader;
    const char *asked;
    bool is_tls;
    uint8_t secret[16];
    uint16_t places[PLACES]; /* index of a node + 1; 0: free */
    struct cluster_map *map;
    const char *why;
};

static bool fail(struct reading *reading, const char *why)
{
    reading->why = why;
    return false;
}

/* ---- Nodes ----------------------------------------------------------------------------------------------------- */

/* The index of an address, claimed where it is new. CLUSTER_NOBODY: there are too many. */
static uint16_t claim_node(struct reading *reading, const struct store_address *at, bool is_replica)
{
    struct cluster_map *map = reading->map;
    struct siphash state = siphash_begin(reading->secret);
    uint64_t hash = siphash_end(state, at->host, strlen(at->host)) + at->port;
    size_t place = hash % PLACES;
    for (; reading->places[place] != 0; place = (place + 1) % PLACES) {
        uint16_t index = (uint16_t)(reading->places[place] - 1);
        if (store_address_equals(&map->nodes[index].at, at)) {
            map->nodes[index].is_replica = map->nodes[index].is_replica && is_replica;
            return index;
        }
    }
    if (map->node_count == CLUSTER_NODES_MAX)
        return CLUSTER_NOBODY;
    map->nodes[map->node_count].at = *at;
    map->nodes[map->node_count].is_replica = is_replica;
    reading->places[place] = (uint16_t)(map->node_count + 1);
    return (uint16_t)map->node_count++;
}

/* What is said of one node. */
struct mention {
    struct slice host, ip; /* ip: empty where it is not told apart */
    bool is_null;          /* the host is not told */
    uint64_t port;
};

/* Whether a mention is an address at all; a node without a port serves nobody of our kind. */
static bool resolve(const struct reading *reading, const struct mention *mention, struct store_address *out)
{
    struct slice host = mention->host;
    if (slice_equals(host, SLICE("?")))
        host = mention->ip;
    else if (mention->is_null || host.len == 0)
        host = slice_of(reading->asked);
    return mention->port != 0 && store_address_set(out, host, mention->port);
}

/* ---- Slots ----------------------------------------------------------------------------------------------------- */

static bool give_slots(struct reading *reading, int64_t from, int64_t to, uint16_t owner)
{
    if (from < 0 || to >= SLOT_COUNT || from > to)
        return fail(reading, "a range of slots that no Cluster has");
    for (int64_t slot = from; slot <= to; slot++) {
        if (reading->map->owner[slot] != CLUSTER_NOBODY)
            return fail(reading, "a slot that two nodes serve");
        reading->map->owner[slot] = owner;
    }
    if (owner != CLUSTER_NOBODY)
        reading->map->served += (unsigned)(to - from + 1);
    return true;
}

static bool next_of(struct reading *reading, enum resp_type type, struct resp_value *out)
{
    return resp_next(&reading->reader, out) && out->type == type;
}

static bool skip_values(struct reading *reading, uint32_t count)
{
    struct resp_value value;
    for (uint32_t i = 0; i < count; i++)
        if (!resp_next(&reading->reader, &value) || !resp_skip(&reading->reader, &value))
            return false;
    return true;
}

/* Pairs of texts behind a node of CLUSTER SLOTS: "ip", "127.0.0.1", "hostname", "". */
static bool read_metadata(struct reading *reading, uint32_t count, struct mention *mention)
{
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        struct resp_value name, value;
        if (!resp_next(&reading->reader, &name) || !resp_skip(&reading->reader, &name)
            || !resp_next(&reading->reader, &value) || !resp_skip(&reading->reader, &value))
            return false;
        if (resp_is_text(&name) && resp_is_text(&value) && slice_equals(name.text, SLICE("ip")))
            mention->ip = value.text;
    }
    return skip_values(reading, count % 2);
}

/* [host, port, id, [metadata]] */
static bool read_slots_node(struct reading *reading, struct mention *mention)
{
    struct resp_value node, host, port, id, more;
    *mention = (struct mention){ 0 };
    if (!next_of(reading, RESP_ARRAY, &node) || node.count < 2 || !resp_next(&reading->reader, &host)
        || !(resp_is_text(&host) || host.type == RESP_NULL) || !next_of(reading, RESP_INTEGER, &port))
        return fail(reading, "a node that is none");
    mention->is_null = host.type == RESP_NULL;
    mention->host = host.text;
    mention->port = port.integer < 0 || port.integer > UINT16_MAX ? 0 : (uint64_t)port.integer;
    if (node.count == 2)
        return true;
    if (!resp_next(&reading->reader, &id) || !resp_skip(&reading->reader, &id))
        return false;
    if (node.count == 3)
        return true;
    if (!resp_next(&reading->reader, &more))
        return false;
    bool is_pairs = more.type == RESP_ARRAY || more.type == RESP_MAP;
    if (is_pairs ? !read_metadata(reading, more.count, mention) : !resp_skip(&reading->reader, &more))
        return false;
    return skip_values(reading, node.count - 4);
}

/* [from, to, master, replica...] */
static bool read_slots_range(struct reading *reading, const struct resp_value *range)
{
    struct resp_value from, to;
    uint16_t owner = CLUSTER_NOBODY;
    if (range->count < 3 || !next_of(reading, RESP_INTEGER, &from) || !next_of(reading, RESP_INTEGER, &to))
        return fail(reading, "a range of slots without numbers or a node");
    for (uint32_t i = 0; i < range->count - 2 && i <= REPLICAS_MAX; i++) {
        struct mention mention;
        struct store_address at;
        if (!read_slots_node(reading, &mention))
            return false;
        if (!resolve(reading, &mention, &at))
            continue;
        uint16_t index = claim_node(reading, &at, i > 0);
        if (index == CLUSTER_NOBODY)
            return fail(reading, "more nodes than any Cluster has");
        if (i == 0)
            owner = index;
    }
    return (range->count - 2 <= REPLICAS_MAX + 1 || skip_values(reading, range->count - 3 - REPLICAS_MAX))
           && give_slots(reading, from.integer, to.integer, owner);
}

/* ---- Shards ---------------------------------------------------------------------------------------------------- */

struct shard_node {
    struct mention mention;
    bool is_replica, is_failed;
};

/* Of the fields of a node in CLUSTER SHARDS those that are read. Its endpoint is what clients are to use. */
static void take_field(const struct reading *reading, struct slice name, const struct resp_value *value,
                       struct shard_node *node, bool *has_tls_port)
{
    bool is_port = value->type == RESP_INTEGER && value->integer > 0 && value->integer <= UINT16_MAX;
    if (slice_equals(name, SLICE("endpoint"))) {
        node->mention.is_null = value->type == RESP_NULL;
        node->mention.host = value->text;
    } else if (slice_equals(name, SLICE("ip"))) {
        node->mention.ip = value->text;
    } else if (slice_equals(name, SLICE("role"))) {
        node->is_replica = !slice_equals(value->text, SLICE("master"));
    } else if (slice_equals(name, SLICE("health"))) {
        node->is_failed =
            slice_equals(value->text, SLICE("fail")) || slice_equals(value->text, SLICE("failed"));
    } else if (is_port && reading->is_tls && slice_equals(name, SLICE("tls-port"))) {
        node->mention.port = (uint64_t)value->integer;
        *has_tls_port = true;
    } else if (is_port && !*has_tls_port && slice_equals(name, SLICE("port"))) {
        node->mention.port = (uint64_t)value->integer;
    }
}

static bool read_shard_node(struct reading *reading, struct shard_node *out)
{
    struct resp_value node;
    bool has_tls_port = false;
    *out = (struct shard_node){ .is_replica = true };
    if (!resp_next(&reading->reader, &node) || (node.type != RESP_MAP && node.type != RESP_ARRAY)
        || node.count % 2 != 0)
        return fail(reading, "a node that is none");
    for (uint32_t i = 0; i < node.count; i += 2) {
        struct resp_value name, value;
        if (!resp_next(&reading->reader, &name) || !resp_is_text(&name) || !resp_next(&reading->reader, &value))
            return fail(reading, "a node that is none");
        take_field(reading, name.text, &value, out, &has_tls_port);
        if (!resp_skip(&reading->reader, &value))
            return false;
    }
    return true;
}

/* The nodes of one shard; gives the index of its master. */
static bool read_shard_nodes(struct reading *reading, uint16_t *owner)
{
    struct resp_value nodes;
    if (!next_of(reading, RESP_ARRAY, &nodes))
        return fail(reading, "a shard without nodes");
    for (uint32_t i = 0; i < nodes.count; i++) {
        struct shard_node node;
        struct store_address at;
        if (!read_shard_node(reading, &node))
            return false;
        if (!resolve(reading, &node.mention, &at))
            continue;
        uint16_t index = claim_node(reading, &at, node.is_replica);
        if (index == CLUSTER_NOBODY)
            return fail(reading, "more nodes than any Cluster has");
        if (!node.is_replica && (!node.is_failed || *owner == CLUSTER_NOBODY))
            *owner = index;
    }
    return true;
}

/* Give the slots of a shard, which may stand before or behind its nodes: `slots` is a reader at their first number. */
static bool give_shard(struct reading *reading, struct resp_reader slots, uint32_t count, uint16_t owner)
{
    struct resp_value from, to;
    if (count % 2 != 0)
        return fail(reading, "a range of slots without an end");
    for (uint32_t i = 0; i < count; i += 2) {
        if (!resp_next(&slots, &from) || !resp_next(&slots, &to) || from.type != RESP_INTEGER
            || to.type != RESP_INTEGER)
            return fail(reading, "a range of slots without numbers or a node");
        if (!give_slots(reading, from.integer, to.integer, owner))
            return false;
    }
    return true;
}

/* { slots: [from, to, ...], nodes: [...] } */
static bool read_shard(struct reading *reading, const struct resp_value *shard)
{
    struct resp_reader slots = { 0 };
    struct resp_value name, value;
    uint32_t slot_count = 0;
    uint16_t owner = CLUSTER_NOBODY;
    if (shard->count % 2 != 0)
        return fail(reading, "a shard that is none");
    for (uint32_t i = 0; i < shard->count; i += 2) {
        if (!resp_next(&reading->reader, &name) || !resp_is_text(&name))
            return fail(reading, "a shard that is none");
        if (slice_equals(name.text, SLICE("nodes"))) {
            if (!read_shard_nodes(reading, &owner))
                return false;
            continue;
        }
        if (!resp_next(&reading->reader, &value))
            return false;
        if (slice_equals(name.text, SLICE("slots")) && value.type == RESP_ARRAY) {
            slots = reading->reader;
            slot_count = value.count;
        }
        if (!resp_skip(&reading->reader, &value))
            return false;
    }
    return give_shard(reading, slots, slot_count, owner);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

/* Whether the one that begins here is of CLUSTER SHARDS: pairs, of which the first name is a text. */
static bool is_shard(const struct reading *reading, const struct resp_value *item)
{
    struct resp_reader ahead = reading->reader;
    struct resp_value first;
    return item->type == RESP_MAP
           || (item->type == RESP_ARRAY && item->count > 0 && resp_next(&ahead, &first)
               && resp_is_text(&first));
}

static bool read_items(struct reading *reading)
{
    struct resp_value all, item;
    if (!next_of(reading, RESP_ARRAY, &all))
        return fail(reading, "no list of slots");
    for (uint32_t i = 0; i < all.count; i++) {
        if (!resp_next(&reading->reader, &item) || (item.type != RESP_ARRAY && item.type != RESP_MAP))
            return fail(reading, "no list of slots");
        if (is_shard(reading, &item) ? !read_shard(reading, &item) : !read_slots_range(reading, &item))
            return false;
    }
    return reading->map->served > 0 || fail(reading, "no slot is served by anybody");
}

bool cluster_map_read(struct slice reply, const char *asked, bool is_tls, uint64_t seed,
                      struct cluster_map *out, const char **why)
{
    struct reading reading = {
        .reader = resp_reader_of(reply.at, reply.len), .asked = asked, .is_tls = is_tls, .map = out
    };
    memcpy(reading.secret, &seed, sizeof seed);
    out->node_count = 0;
    out->served = 0;
    memset(out->owner, 0xff, sizeof out->owner);
    if (read_items(&reading))
        return true;
    *why = reading.why == NULL ? "a reply that is cut" : reading.why;
    return false;
}

bool redirection_read(struct slice error, const char *asked, struct redirection *out)
{
    struct slice code = resp_error_code(error);
    uint64_t slot, port;
    out->is_ask = slice_equals(code, SLICE("ASK"));
    if (!out->is_ask && !slice_equals(code, SLICE("MOVED")))
        return false;
    const char *at = error.at + code.len, *end = error.at + error.len;
    if (at == end || *at != ' ')
        return false;
    at++;
    const char *blank = memchr(at, ' ', (size_t)(end - at));
    if (blank == NULL || !slice_to_u64((struct slice){ at, (size_t)(blank - at) }, SLOT_COUNT - 1, &slot))
        return false;
    struct slice host = { blank + 1, (size_t)(end - blank - 1) };
    const char *colon = memrchr(host.at, ':', host.len); /* an IPv6 address has more */
    if (colon == NULL
        || !slice_to_u64((struct slice){ colon + 1, (size_t)(end - colon - 1) }, UINT16_MAX, &port))
        return false;
    host.len = (size_t)(colon - host.at);
    out->slot = (unsigned)slot;
    return port != 0 && !slice_equals(host, SLICE("?"))
           && store_address_set(&out->to, host.len == 0 ? slice_of(asked) : host, port);
}
