// SPDX-License-Identifier: Apache-2.0
/*
 * store.c - the life of a carrier over real connections, and the topology of a single server.
 *
 * One timer serves all that is due in a client: whoever wants something later says when, and all are asked.
 */
#include "fleet/store.h"

#include <stdarg.h>
#include <stdlib.h>

#include "fleet/store_inside.h"

/* Longest line for the log. */
#define LINE_MAX_LEN 640

/* ---- Time, chance, words --------------------------------------------------------------------------------------- */

uint64_t client_jitter(struct client *client, uint64_t ms)
{
    uint64_t z = client->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return ms / 2 + (z ^ z >> 31) % (ms + 1);
}

void client_log(struct client *client, const char *format, ...)
{
    char line[LINE_MAX_LEN];
    va_list arguments;
    if (client->options.log == NULL)
        return;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments); /* a longer one is cut */
    va_end(arguments);
    client->options.log(client->options.context, line);
}

static void client_tick(uv_timer_t *timer)
{
    struct client *client = timer->data;
    uint64_t now = client_now(client), next = UINT64_MAX;
    client->due = UINT64_MAX;
    for (size_t i = 0; i < client->node_count; i++) {
        uint64_t due = node_tick(client->nodes[i], now);
        next = due < next ? due : next;
    }
    if (client->topology->tick != NULL) {
        uint64_t due = client->topology->tick(client, now);
        next = due < next ? due : next;
    }
    if (next != UINT64_MAX)
        client_due(client, next > now ? next : now + 1);
}

void client_due(struct client *client, uint64_t at)
{
    uint64_t now = client_now(client);
    if (at >= client->due || client->is_closing)
        return;
    client->due = at;
    (void)uv_timer_start(&client->timer, client_tick, at > now ? at - now : 0, 0); /* fails for NULL only */
}

/* ---- The carrier ----------------------------------------------------------------------------------------------------- */

static struct node *node_of(const struct client *client, unsigned slot)
{
    return client->topology->node_of(client, slot);
}

static void carrier_send(struct carrier *carrier, struct carrier_call *call)
{
    struct client *client = client_of(carrier);
    struct node *node = node_of(client, call->slot);
    if (node == NULL && client->topology->missed != NULL)
        client->topology->missed(client);
    flight_start(client, node, call);
}

static void carrier_abandon(struct carrier *carrier, struct carrier_call *call)
{
    flight_abandon(client_of(carrier), call);
}

static struct outage *carrier_outage(struct carrier *carrier, unsigned slot)
{
    struct client *client = client_of(carrier);
    struct node *node = node_of(client, slot);
    return node == NULL ? client->whole : node->outage;
}

static struct incarnation carrier_incarnation(struct carrier *carrier, unsigned slot)
{
    const struct node *node = node_of(client_of(carrier), slot);
    return node == NULL ? (struct incarnation){ 0 } : node->asker.known;
}

static bool carrier_is_whole(const struct carrier *carrier)
{
    return client_of(carrier)->topology->is_whole;
}

/* ---- Its life ---------------------------------------------------------------------------------------------------------- */

void client_let_go(struct client *client)
{
    if (--client->handles > 0)
        return;
    void (*closed)(void *) = client->options.closed;
    void *context = client->options.context;
    flights_free(client);
    free(client->nodes);
    free(client->others);
    free(client->held);
    free(client);
    if (closed != NULL)
        closed(context);
}

static void on_timer_closed(uv_handle_t *handle)
{
    client_let_go(handle->data);
}

static void carrier_close(struct carrier *carrier)
{
    struct client *client = client_of(carrier);
    if (client->is_closing)
        return;
    client->is_closing = true;
    if (client->topology->end != NULL)
        client->topology->end(client);
    for (size_t i = 0; i < client->node_count; i++)
        node_close(client->nodes[i]);
    uv_close((uv_handle_t *)&client->timer, on_timer_closed);
}

static const struct topology *topology_of(enum url_kind kind)
{
    switch (kind) {
    case URL_ONE:
        return &topology_one;
    case URL_SENTINEL:
        return &topology_sentinel;
    case URL_CLUSTER:
        return &topology_cluster;
    }
    return &topology_one;
}

/* The store as a whole: the one server by its address, others by their URL without secrets. */
static struct outage *whole_of(struct client *client)
{
    const struct url *url = client->options.url;
    struct store_address at;
    char name[STORE_ADDRESS_MAX];
    (void)url_show(url, client->shown, sizeof client->shown);
    if (url->kind != URL_ONE
        || !store_address_set(&at, slice_of(url->hosts[0]), url->is_unix ? 0 : url->ports[0]))
        return outage_of(client->options.outages, client->shown);
    store_address_show(&at, name);
    return outage_of(client->options.outages, name);
}

int store_client_new(struct carrier **out, const struct store_client_options *options)
{
    struct client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return WEIR_ERR_MEMORY;
    client->carrier = (struct carrier){ .send = carrier_send,
                                        .abandon = carrier_abandon,
                                        .outage = carrier_outage,
                                        .incarnation = carrier_incarnation,
                                        .is_whole = carrier_is_whole,
                                        .close = carrier_close };
    client->options = *options;
    client->topology = topology_of(options->url->kind);
    client->random = options->seed;
    client->due = UINT64_MAX;
    client->whole = whole_of(client);
    client->handles = 1;
    client->timer.data = client;
    (void)uv_timer_init(options->loop, &client->timer); /* always 0 */
    int error = client->topology->begin(client);
    if (error == 0) {
        *out = &client->carrier;
        return 0;
    }
    client->options.closed = NULL; /* nobody was given it */
    carrier_close(&client->carrier);
    return error;
}

/* ---- For people ---------------------------------------------------------------------------------------------------------- */

static const char *role_name(enum node_role role)
{
    static const char *const names[] = {
        [ROLE_UNKNOWN] = "", [ROLE_MASTER] = "master", [ROLE_REPLICA] = "replica", [ROLE_SENTINEL] = "sentinel"
    };
    return names[role];
}

static bool lacks_map(const struct node *node)
{
    const struct topology *topology = node->client->topology;
    return topology->lacks_map != NULL && topology->lacks_map(node->client);
}

/* Without slots it is not asked for decisions: being greeted is all that is wanted of it, where others have them. */
static bool is_up(const struct node *node)
{
    return node->is_ready
           || (node->is_greeted && !node->client->topology->is_whole && node->slots == 0 && !lacks_map(node));
}

static const char *why_of(const struct node *node)
{
    if (is_up(node))
        return "";
    if (node->is_greeted && lacks_map(node))
        return "it tells no map of the Cluster that names who serves which slots";
    return node->why[0] != '\0' ? node->why : "it has not answered yet";
}

size_t store_client_nodes(const struct carrier *carrier, struct store_node *out, size_t room)
{
    const struct client *client = client_of(carrier);
    size_t count = 0;
    for (size_t i = 0; i < client->node_count && count < room; i++) {
        const struct node *node = client->nodes[i];
        if (!node->is_leaving)
            out[count++] = (struct store_node){ .address = node->name,
                                                .role = role_name(node->role),
                                                .is_up = is_up(node),
                                                .why = why_of(node),
                                                .slots = client->topology->is_whole ? SLOT_COUNT : node->slots,
                                                .outage = node->outage,
                                                .incarnation = node->asker.known };
    }
    return count;
}

void client_show(struct client *client, const struct store_address *at, enum node_role role, const char *why)
{
    if (client->other_count == client->other_room) {
        size_t room = client->other_room == 0 ? 16 : 2 * client->other_room;
        struct shown_node *larger = realloc(client->others, room * sizeof *larger);
        if (larger == NULL)
            return;
        client->others = larger;
        client->other_room = room;
    }
    struct shown_node *shown = &client->others[client->other_count++];
    store_address_show(at, shown->name);
    shown->node = (struct store_node){ .role = role_name(role), .is_up = why[0] == '\0', .why = why };
}

size_t store_client_others(struct carrier *carrier, struct store_node *out, size_t room)
{
    struct client *client = client_of(carrier);
    client->other_count = 0;
    for (size_t i = 0; i < client->node_count; i++)
        for (size_t j = 0; j < client->nodes[i]->replica_count && !client->nodes[i]->is_leaving; j++)
            client_show(client, &client->nodes[i]->replicas[j], ROLE_REPLICA, "not connected to");
    if (client->topology->others != NULL)
        client->topology->others(client);
    size_t count = client->other_count < room ? client->other_count : room;
    for (size_t i = 0; i < count; i++) {
        client->others[i].node.address = client->others[i].name;
        out[i] = client->others[i].node;
    }
    return count;
}

void store_client_send_to(struct carrier *carrier, size_t index, struct carrier_call *call)
{
    struct client *client = client_of(carrier);
    struct node *found = NULL;
    for (size_t i = 0; i < client->node_count && found == NULL; i++)
        if (!client->nodes[i]->is_leaving && index-- == 0)
            found = client->nodes[i];
    flight_start(client, found, call);
}

/* ---- A single server -------------------------------------------------------------------------------------------------------- */

static int one_begin(struct client *client)
{
    const struct url *url = client->options.url;
    struct store_address at;
    if (!store_address_set(&at, slice_of(url->hosts[0]), url->is_unix ? 0 : url->ports[0]))
        return WEIR_ERR_OPTION;
    return node_claim(client, &at) == NULL ? WEIR_ERR_MEMORY : 0;
}

/* The only node, which never leaves. */
static struct node *one_node_of(const struct client *client, unsigned slot)
{
    (void)slot;
    return client->node_count == 0 ? NULL : client->nodes[0];
}

/* It sends us elsewhere: it belongs to a Cluster, which one address is not enough for. */
static void one_refused(struct node *node, enum refusal refusal)
{
    if ((refusal != REFUSAL_MOVED && refusal != REFUSAL_DOWN) || node->is_told)
        return;
    node->is_told = true;
    client_log(node->client, "event=store-is-cluster node=%s cure=\"write redis+cluster://%s\"", node->name,
               node->name);
}

const struct topology topology_one = { .is_whole = true,
                                       .asks_role = true,
                                       .has_outages = true,
                                       .begin = one_begin,
                                       .node_of = one_node_of,
                                       .refused = one_refused };
