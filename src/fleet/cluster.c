// SPDX-License-Identifier: Apache-2.0
/*
 * cluster.c - the carrier to a Cluster: which node serves a slot, as the last map and the last redirections say.
 *
 * Idea: all seeds are dialled at once, and the first that is greeted is asked for the map; so some may be dead. From then on any node
 * of the map is asked. A redirection is followed at once and changes the one slot; the whole map is read again behind it, one
 * request at a time for all, and not more often than every REFRESH_PAUSE_MS. While a node of the map is down, or a slot has
 * none, the map is read again every second, since nobody tells of a failover, nor of slots that are given out at last. A
 * map that is refused leaves the one before in force.
 *
 * The outage of the store as a whole is that of calls for slots that nobody is known to serve. It ends when each slot has its
 * node, not with any answer of some node: it would begin anew each second, and `when-store-fails: { open: 30s }` never end.
 *
 * Nodes that are no longer in the map, and seeds that never were, leave when nothing is under way; while no node answers
 * the seeds come back.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "fleet/cluster_map.h"
#include "fleet/store_inside.h"

/* Between two readings of the map, with jitter. */
#define REFRESH_PAUSE_MS 200
/* Where a node is down, a slot has none, or a reading failed. */
#define REFRESH_TROUBLE_MS 1000
/* Where all is well: new replicas, a new node without a redirection. */
#define REFRESH_QUIET_MS 60000

/* A node that does not answer for the map in this time is given up for another. */
#define MAP_PATIENCE_MS 1000

/* A node that only redirections lead to (it takes slots over) is kept so long after the last. */
#define GUEST_MS 30000

/* The log hears of slots that moved once in so long. */
#define MOVED_QUIET_MS 10000

struct cluster {
    struct node *owner[SLOT_COUNT]; /* NULL: nobody is known */
    bool has_map;

    struct link_command command; /* the question for the map */
    struct node *asked;          /* NULL: nobody is */
    uint64_t asked_at;
    size_t turn;       /* which node is asked next */
    bool uses_shards;  /* CLUSTER SLOTS is not known or not allowed */
    bool is_wanted;    /* once more behind the one under way */
    uint64_t last_at;  /* when the last reading began */
    uint64_t next_at;  /* when the next one is due */
    uint64_t seeds_at; /* when the seeds are dialled again, 0: some node is greeted */

    struct store_address *replicas;
    size_t replica_count;

    unsigned moved; /* slots, that the log has not heard of */
    uint64_t moved_told_at;
    bool is_refusal_told;
};

static struct cluster *cluster_of(const struct client *client)
{
    return client->held;
}

/* ---- When ------------------------------------------------------------------------------------------------------- */

static void refresh_at(struct client *client, uint64_t at)
{
    struct cluster *cluster = cluster_of(client);
    uint64_t least = cluster->last_at + client_jitter(client, REFRESH_PAUSE_MS);
    if (cluster->last_at != 0 && at < least)
        at = least;
    if (at < cluster->next_at)
        cluster->next_at = at;
    client_due(client, cluster->next_at);
}

/* Read the map soon: it is known to be old, or may be. Coalesced with what is under way. */
static void refresh_soon(struct client *client)
{
    struct cluster *cluster = cluster_of(client);
    if (cluster->asked != NULL)
        cluster->is_wanted = true;
    else
        refresh_at(client, client_now(client));
}

/* ---- A map is put in force ---------------------------------------------------------------------------------------- */

static void keep_replicas(struct cluster *cluster, const struct cluster_map *map)
{
    size_t count = 0;
    free(cluster->replicas);
    cluster->replicas = calloc(map->node_count, sizeof *cluster->replicas);
    for (size_t i = 0; i < map->node_count && cluster->replicas != NULL; i++)
        if (map->nodes[i].is_replica)
            cluster->replicas[count++] = map->nodes[i].at;
    cluster->replica_count = count;
}

/* The nodes of a map by their index: those that serve something are claimed. */
static void claim_owners(struct client *client, const struct cluster_map *map, struct node **found)
{
    bool is_claimed[CLUSTER_NODES_MAX] = { false };
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        uint16_t index = map->owner[slot];
        if (index == CLUSTER_NOBODY || is_claimed[index])
            continue;
        is_claimed[index] = true;
        found[index] = node_claim(client, &map->nodes[index].at);
    }
}

/* Give each slot to the node of its owner. Gives how many changed. */
static unsigned assign(struct client *client, const struct cluster_map *map)
{
    struct cluster *cluster = cluster_of(client);
    struct node *found[CLUSTER_NODES_MAX] = { NULL };
    unsigned changed = 0;
    claim_owners(client, map, found);
    for (size_t i = 0; i < client->node_count; i++)
        client->nodes[i]->slots = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        uint16_t index = map->owner[slot];
        struct node *node = index == CLUSTER_NOBODY ? NULL : found[index];
        changed += cluster->owner[slot] != node;
        cluster->owner[slot] = node;
        if (node == NULL)
            continue;
        node->slots++;
        node->role = ROLE_MASTER;
    }
    return changed;
}

static void tell_moved(struct client *client, unsigned changed)
{
    struct cluster *cluster = cluster_of(client);
    uint64_t now = client_now(client);
    cluster->moved += changed;
    if (cluster->moved == 0 || (cluster->moved_told_at != 0 && now - cluster->moved_told_at < MOVED_QUIET_MS))
        return;
    client_log(client, "event=store-moved slots=%u", cluster->moved);
    cluster->moved = 0;
    cluster->moved_told_at = now;
}

static bool has_all_slots(const struct client *client)
{
    unsigned slots = 0;
    for (size_t i = 0; i < client->node_count; i++)
        slots += client->nodes[i]->slots;
    return slots == SLOT_COUNT;
}

/* From here on each node has its own. */
static void end_whole(struct client *client)
{
    if (has_all_slots(client))
        outage_heard(client->whole, clock_monotonic());
}

static void put_in_force(struct client *client, const struct cluster_map *map)
{
    struct cluster *cluster = cluster_of(client);
    unsigned changed = assign(client, map);
    keep_replicas(cluster, map);
    if (cluster->has_map)
        tell_moved(client, changed);
    cluster->has_map = true;
    end_whole(client);
    cluster->is_refusal_told = false;
    for (size_t i = 0; i < client->node_count; i++) {
        struct node *node = client->nodes[i];
        if (!node->is_greeted && node->waiting_count == 0)
            node->guest_until = 0; /* a seed that nobody needs now */
        node_slots_changed(node);
    }
    client_due(client, client_now(client)); /* some may leave */
}

/* ---- A map is read -------------------------------------------------------------------------------------------------- */

static void tell_refusal(struct client *client, const struct node *node, const char *why, size_t len)
{
    struct cluster *cluster = cluster_of(client);
    char shown[NODE_WHY_MAX];
    size_t at = 0;
    if (cluster->is_refusal_told)
        return;
    cluster->is_refusal_told = true;
    for (; at < len && at < sizeof shown - 1; at++)
        shown[at] = why[at] >= ' ' && why[at] <= '~' && why[at] != '"' ? why[at] : '\'';
    shown[at] = '\0';
    client_log(client, "event=store-map-refused node=%s why=\"%s\"", node->name, shown);
}

/* Whether the reply is a map; it is in force then. */
static bool take_map(struct client *client, struct node *node, struct slice reply)
{
    struct cluster *cluster = cluster_of(client);
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    const char *why = "";
    if (resp_next(&reader, &value) && value.type == RESP_ERROR) {
        if (!cluster->uses_shards) /* servers to come may know only the newer one */
            cluster->uses_shards = cluster->is_wanted = true;
        else
            tell_refusal(client, node, value.text.at, value.text.len);
        return false;
    }
    struct cluster_map *map = malloc(sizeof *map);
    if (map == NULL)
        return false;
    bool is_map =
        cluster_map_read(reply, node->at.host, client->options.tls != NULL, client->random, map, &why);
    if (is_map)
        put_in_force(client, map);
    else
        tell_refusal(client, node, why, strlen(why));
    free(map);
    return is_map;
}

static void map_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct client *client = command->owner;
    struct cluster *cluster = cluster_of(client);
    struct node *node = cluster->asked;
    cluster->asked = NULL;
    if (client->is_closing)
        return;
    bool is_taken = result == CARRIER_REPLY && take_map(client, node, reply) && has_all_slots(client);
    bool is_wanted = cluster->is_wanted;
    cluster->is_wanted = false;
    cluster->next_at = UINT64_MAX;
    uint64_t pause = is_wanted ? 0 : client_jitter(client, is_taken ? REFRESH_QUIET_MS : REFRESH_TROUBLE_MS);
    refresh_at(client, client_now(client) + pause);
}

/* One that is greeted, in turn. */
static struct node *next_to_ask(struct client *client)
{
    struct cluster *cluster = cluster_of(client);
    for (size_t i = 0; i < client->node_count; i++) {
        struct node *node = client->nodes[cluster->turn++ % client->node_count];
        if (node->is_greeted && !node->is_leaving)
            return node;
    }
    return NULL;
}

static void ask_map(struct client *client, uint64_t now)
{
    static const struct slice slots = { "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n", 28 };
    static const struct slice shards = { "*2\r\n$7\r\nCLUSTER\r\n$6\r\nSHARDS\r\n", 29 };
    struct cluster *cluster = cluster_of(client);
    struct node *node = next_to_ask(client);
    cluster->next_at = UINT64_MAX;
    if (node == NULL)
        return; /* the first that is greeted is asked */
    cluster->last_at = now;
    cluster->asked_at = now;
    cluster->command = (struct link_command){ .done = map_done, .owner = client };
    if (link_send(node->link, cluster->uses_shards ? shards : slots, 1, &cluster->command))
        cluster->asked = node;
    else
        refresh_at(client, now + REFRESH_TROUBLE_MS);
}

/* ---- What is due ------------------------------------------------------------------------------------------------------- */

/* A node that is not in the map and that nobody was sent to lately. */
static void dismiss(struct client *client, uint64_t now)
{
    const struct cluster *cluster = cluster_of(client);
    for (size_t i = 0; i < client->node_count && cluster->has_map; i++) {
        struct node *node = client->nodes[i];
        if (node->slots == 0 && !node->is_leaving && node != cluster->asked && node->guest_until <= now)
            node_leave(node);
    }
}

static bool claim_seeds(struct client *client)
{
    const struct url *url = client->options.url;
    bool is_any = false;
    for (unsigned i = 0; i < url->host_count; i++) {
        struct store_address at;
        struct node *node = NULL;
        if (store_address_set(&at, slice_of(url->hosts[i]), url->ports[i]))
            node = node_claim(client, &at);
        if (node != NULL && cluster_of(client)->has_map)
            node->guest_until = client_now(client) + GUEST_MS;
        is_any = is_any || node != NULL;
    }
    return is_any;
}

/* While no node answers, whoever is there now is to be found where it all began. */
static void recall_seeds(struct client *client, uint64_t now)
{
    struct cluster *cluster = cluster_of(client);
    for (size_t i = 0; i < client->node_count; i++)
        if (client->nodes[i]->is_greeted && !client->nodes[i]->is_leaving) {
            cluster->seeds_at = 0;
            return;
        }
    if (cluster->seeds_at != 0 && cluster->seeds_at <= now)
        (void)claim_seeds(client); /* else when it comes again */
    if (cluster->seeds_at <= now)
        cluster->seeds_at = now + client_jitter(client, REFRESH_TROUBLE_MS);
}

static bool is_all_up(const struct client *client)
{
    if (!has_all_slots(client))
        return false;
    for (size_t i = 0; i < client->node_count; i++)
        if (client->nodes[i]->slots > 0 && !client->nodes[i]->is_greeted)
            return false;
    return true;
}

static uint64_t earliest(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

static uint64_t cluster_tick(struct client *client, uint64_t now)
{
    struct cluster *cluster = cluster_of(client);
    if (cluster->asked != NULL && now - cluster->asked_at >= MAP_PATIENCE_MS) {
        link_abandon(cluster->asked->link, &cluster->command);
        cluster->asked = NULL;
        cluster->next_at = now;
    }
    recall_seeds(client, now);
    dismiss(client, now);
    if (cluster->asked == NULL && cluster->next_at <= now)
        ask_map(client, now);
    else if (cluster->asked == NULL && !is_all_up(client))
        refresh_at(client, now + client_jitter(client, REFRESH_TROUBLE_MS));
    uint64_t next = earliest(cluster->next_at, cluster->seeds_at == 0 ? UINT64_MAX : cluster->seeds_at);
    if (cluster->asked != NULL)
        next = earliest(next, cluster->asked_at + MAP_PATIENCE_MS);
    return earliest(next, now + GUEST_MS);
}

/* ---- Events ------------------------------------------------------------------------------------------------------------- */

static int cluster_begin(struct client *client)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL)
        return WEIR_ERR_MEMORY;
    cluster->next_at = UINT64_MAX;
    client->held = cluster;
    return claim_seeds(client) ? 0 : WEIR_ERR_MEMORY;
}

static void cluster_end(struct client *client)
{
    struct cluster *cluster = cluster_of(client);
    if (cluster == NULL)
        return;
    free(cluster->replicas);
    cluster->replicas = NULL;
    cluster->replica_count = 0;
}

static struct node *cluster_node_of(const struct client *client, unsigned slot)
{
    return cluster_of(client)->owner[slot % SLOT_COUNT];
}

static void cluster_greeted(struct node *node)
{
    struct cluster *cluster = cluster_of(node->client);
    if (!cluster->has_map || node->slots == 0)
        refresh_soon(node->client);
}

/* Nobody is known to serve the slot of a call. */
static void cluster_missed(struct client *client)
{
    if (cluster_of(client)->has_map)
        refresh_soon(client); /* else the first that is greeted is asked anyway */
}

static void cluster_down(struct node *node)
{
    refresh_at(node->client, client_now(node->client) + client_jitter(node->client, REFRESH_PAUSE_MS));
}

static void cluster_refused(struct node *node, enum refusal refusal)
{
    if (refusal == REFUSAL_MOVED || refusal == REFUSAL_DOWN || refusal == REFUSAL_ROLE)
        refresh_soon(node->client);
}

/* One slot has another owner. */
static void move_slot(struct cluster *cluster, unsigned slot, struct node *to)
{
    struct node *from = cluster->owner[slot];
    if (from == to)
        return;
    if (from != NULL)
        from->slots--;
    cluster->owner[slot] = to;
    to->slots++;
    to->role = ROLE_MASTER;
    cluster->moved++;
    end_whole(to->client);
    node_slots_changed(to);
}

static bool cluster_redirect(struct flight *flight, struct slice error)
{
    struct node *from = flight->node;
    struct client *client = from->client;
    struct redirection redirection;
    if (!redirection_read(error, from->at.host, &redirection))
        return false;
    struct node *to = node_claim(client, &redirection.to);
    if (to == NULL || to == from)
        return false;
    to->guest_until = client_now(client) + GUEST_MS;
    if (!redirection.is_ask)
        move_slot(cluster_of(client), redirection.slot, to);
    flight_redirect(flight, to, redirection.is_ask);
    return true;
}

static bool cluster_lacks_map(const struct client *client)
{
    return !cluster_of(client)->has_map;
}

static void cluster_others(struct client *client)
{
    const struct cluster *cluster = cluster_of(client);
    for (size_t i = 0; i < cluster->replica_count; i++)
        client_show(client, &cluster->replicas[i], ROLE_REPLICA, "not connected to");
}

const struct topology topology_cluster = { .has_outages = true,
                                           .begin = cluster_begin,
                                           .end = cluster_end,
                                           .node_of = cluster_node_of,
                                           .missed = cluster_missed,
                                           .lacks_map = cluster_lacks_map,
                                           .greeted = cluster_greeted,
                                           .down = cluster_down,
                                           .refused = cluster_refused,
                                           .redirect = cluster_redirect,
                                           .tick = cluster_tick,
                                           .others = cluster_others };
