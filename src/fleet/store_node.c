// SPDX-License-Identifier: Apache-2.0
/*
 * store_node.c - one node: dialled, greeted, asked for its role and its incarnation, used; told of when that changes.
 *
 * The script that decides is brought along with the first words and not with the first decision, which would have to wait for
 * it to be compiled. Replies come in order, so it is there, or not to be had, when the node is ready.
 *
 *     claimed -> greeted -> (ROLE says master) -> (incarnation read, or not to be had) -> ready
 *
 * Whatever breaks the link begins anew; the link dials again by itself. A node that is no master is asked again after
 * ROLE_AGAIN_MS, and where it was named by a name, that is looked up again: names of managed stores move to the new master.
 */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/clock.h"
#include "fleet/name.h"
#include "fleet/script.h"
#include "fleet/store_inside.h"

/* A node without a reachable incarnation is asked again after so long. */
#define INCARNATION_AGAIN_MS 1000

/* The log hears of another reason for the same failure once in so long. */
#define WHY_QUIET_MS 10000

/* Numbers tried for an incarnation's key: of a node with a single slot one in 16,384 fits. */
#define INCARNATION_N_MAX 300000

/* Other numbers that are tried at once where the slot of one is on the move. */
#define ELSEWHERE_MAX 3

/* Replicas of a master that are shown. */
#define REPLICAS_SHOWN_MAX 64

static void ask_role(struct node *node);
static void go_ready(struct node *node);

/* ---- What is said of it ------------------------------------------------------------------------------------------- */

static void set_why(struct node *node, const char *why)
{
    size_t len = 0, blank = 0;
    for (; why[len] != '\0' && len < NODE_WHY_MAX - 1; len++)
        node->why[len] = why[len] >= ' ' && why[len] <= '~' && why[len] != '"' ? why[len] : '\'';
    for (size_t i = 0; why[len] != '\0' && i < len; i++)
        blank = node->why[i] == ' ' ? i : blank;
    node->why[blank > 0 ? blank : len] = '\0'; /* a longer one ends with a whole word */
}

/* Once per change, not per attempt: another reason for the same failure only now and then. */
static void tell_down(struct node *node, const char *why)
{
    uint64_t now = client_now(node->client);
    set_why(node, why);
    bool is_news =
        !node->was_told_down || (strcmp(node->why, node->why_told) != 0 && now - node->told_at >= WHY_QUIET_MS);
    if (!is_news || node->is_leaving)
        return;
    node->was_told_down = true;
    node->told_at = now;
    memcpy(node->why_told, node->why, sizeof node->why_told);
    client_log(node->client, "event=store-down node=%s why=\"%s\"", node->name, node->why);
}

static void tell_up(struct node *node)
{
    node->why[0] = '\0';
    node->was_told_down = false;
    client_log(node->client, "event=store-up node=%s", node->name);
}

/* ---- The script ------------------------------------------------------------------------------------------------------ */

/* Where it may not be loaded the first decision brings it: nothing is to be told. While the store reads its file: again. */
static void load_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct node *node = command->owner;
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    node->is_loading = false;
    node->avoids_load = result != CARRIER_REPLY; /* some proxies close on a command that they do not know */
    node->has_loaded =
        result == CARRIER_REPLY && resp_next(&reader, &value)
        && (value.type != RESP_ERROR || !slice_equals(resp_error_code(value.text), SLICE("LOADING")));
}

/* Not at who only looks; not twice. */
static void load_script(struct node *node)
{
    if (node->client->options.only_looks || node->has_loaded || node->is_loading)
        return;
    char *room = malloc(SCRIPT_COMMAND_MAX);
    if (room == NULL)
        return;
    struct text text = text_of(room, SCRIPT_COMMAND_MAX);
    node->load_command = (struct link_command){ .done = load_done, .owner = node };
    node->is_loading =
        script_put_load(&text) && link_send(node->link, text_slice(&text), 1, &node->load_command);
    free(room);
}

/* ---- Its incarnation ----------------------------------------------------------------------------------------------- */

/* Whether the slot of record `n` is this node's. */
static bool has_record(const struct node *node, uint64_t n)
{
    char key[INCARNATION_KEY_MAX];
    const struct client *client = node->client;
    if (client->topology->is_whole)
        return true;
    size_t len = incarnation_key(n, key);
    return client->topology->node_of(client, name_slot((struct slice){ key, len })) == node;
}

/* The number stays as long as its slot is the node's, so that a slot which comes does not change the record. `from`: not before. */
static bool choose_n(struct node *node, uint64_t from)
{
    if (node->has_n && node->n >= from && has_record(node, node->n))
        return true;
    node->has_n = false;
    for (uint64_t n = from; n < INCARNATION_N_MAX && !node->has_n; n++)
        if (has_record(node, n)) {
            node->n = n;
            node->has_n = true;
        }
    return node->has_n;
}

/* A node of a Cluster that serves no slot has none, and is not ready: only redirections lead there. */
static void ask_incarnation(struct node *node, uint64_t from)
{
    node->incarnation_at = 0;
    if (node->asker.link != NULL || (!node->client->topology->is_whole && node->slots == 0))
        return;
    load_script(node);
    if (choose_n(node, from))
        incarnation_ask(&node->asker, node->link, node->n);
    else
        go_ready(node);
}

void node_slots_changed(struct node *node)
{
    if (node->is_greeted && (!node->is_ready || !node->has_n || !has_record(node, node->n)))
        ask_incarnation(node, 0);
}

/* A store that forgot everything is told of where it was known before under this number. */
static void tell_of_state(struct node *node)
{
    uint64_t id = node->asker.known.id;
    if (node->told_id != 0 && node->told_id != id && node->told_n == node->n)
        client_log(node->client, "event=store-state-lost node=%s", node->name);
    node->told_id = id;
    node->told_n = node->n;
}

static void incarnation_settled(struct incarnation_asker *asker, enum incarnation_result result)
{
    struct node *node = asker->owner;
    struct client *client = node->client;
    if (!node->is_greeted)
        return; /* the link is breaking */
    if (result == INCARNATION_ELSEWHERE) {
        asker->known = (struct incarnation){ 0 };
        if (client->topology->refused != NULL)
            client->topology->refused(node, REFUSAL_MOVED);
        if (node->slots > 1 && node->elsewhere++ < ELSEWHERE_MAX) {
            ask_incarnation(node, node->n + 1);
            return;
        }
    }
    node->elsewhere = 0;
    if (result == INCARNATION_KNOWN)
        tell_of_state(node);
    if (result == INCARNATION_FORBIDDEN && !node->is_forbidden) {
        node->is_forbidden = true;
        client_log(
            client,
            "event=store-incarnation-forbidden node=%s cure=\"allow get, set, pexpire and time on weir:*\"",
            node->name);
    }
    if (result == INCARNATION_FORBIDDEN)
        asker->known = (struct incarnation){ 0 };
    bool is_final = result == INCARNATION_KNOWN || result == INCARNATION_FORBIDDEN;
    uint64_t again = is_final ? INCARNATION_PERIOD_MS : INCARNATION_AGAIN_MS;
    node->incarnation_at = client_now(client) + client_jitter(client, again);
    client_due(client, node->incarnation_at);
    go_ready(node);
}

/* ---- Its role -------------------------------------------------------------------------------------------------------- */

static void keep_replicas(struct node *node, struct slice reply)
{
    struct store_address replicas[REPLICAS_SHOWN_MAX];
    size_t count = role_read_replicas(reply, replicas, REPLICAS_SHOWN_MAX);
    free(node->replicas);
    node->replicas = count == 0 ? NULL : malloc(count * sizeof *replicas);
    node->replica_count = node->replicas == NULL ? 0 : count;
    if (node->replica_count > 0)
        memcpy(node->replicas, replicas, count * sizeof *replicas);
}

static const char *role_fault(enum node_role role)
{
    return role == ROLE_SENTINEL ? "it is a Sentinel: write redis+sentinel://HOST:PORT/NAME"
                                 : "it is a replica";
}

void node_demote(struct node *node, enum node_role role)
{
    struct client *client = node->client;
    node->role = role;
    node->is_ready = false;
    tell_down(node, role_fault(role));
    if (node->role_at == 0)
        node->role_at = client_now(client) + client_jitter(client, ROLE_AGAIN_MS);
    client_due(client, node->role_at);
    flights_release(node, false);
    if (client->topology->not_master != NULL)
        client->topology->not_master(node);
}

static void role_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct node *node = command->owner;
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    node->is_asking_role = false;
    if (result != CARRIER_REPLY || !resp_next(&reader, &value))
        return; /* the link is down */
    bool is_error = value.type == RESP_ERROR;
    if (is_error && !node->asks_info) {
        node->asks_info = true; /* not allowed, or a proxy that does not know it */
        ask_role(node);
        return;
    }
    enum node_role role = is_error ? ROLE_UNKNOWN : role_read(reply);
    node->role =
        role == ROLE_UNKNOWN ? ROLE_MASTER : role; /* who tells no role is tried: READONLY would say it */
    if (node->role != ROLE_MASTER) {
        node_demote(node, node->role);
        return;
    }
    keep_replicas(node, reply);
    if (!node->is_ready)
        ask_incarnation(node, 0);
}

static void ask_role(struct node *node)
{
    static const struct slice role = { "*1\r\n$4\r\nROLE\r\n", 14 };
    static const struct slice info = { "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n", 32 };
    node->role_at = 0;
    if (node->is_asking_role || !node->is_greeted)
        return;
    node->role_command = (struct link_command){ .done = role_done, .owner = node };
    node->is_asking_role = link_send(node->link, node->asks_info ? info : role, 1, &node->role_command);
}

/* Ask again who it is; by a new connection where a name may lead elsewhere now. */
static void look_again(struct node *node)
{
    unsigned char address[16];
    bool is_name = node->at.port != 0 && inet_pton(AF_INET, node->at.host, address) != 1
                   && inet_pton(AF_INET6, node->at.host, address) != 1;
    node->role_at = 0;
    if (is_name && node->role == ROLE_REPLICA)
        link_reset(node->link, role_fault(node->role));
    else
        ask_role(node);
}

/* ---- Events of its link ------------------------------------------------------------------------------------------------ */

static void go_ready(struct node *node)
{
    struct client *client = node->client;
    if (node->is_ready || !node->is_greeted)
        return;
    node->is_ready = true;
    tell_up(node);
    outage_alive(node->outage, clock_monotonic());
    flights_release(node, true);
    if (client->topology->ready != NULL)
        client->topology->ready(node);
}

bool node_is_rising(const struct node *node)
{
    return node->is_greeted && !node->is_ready && node->role_at == 0
           && (node->is_asking_role || node->asker.link != NULL);
}

static void on_up(struct link *link)
{
    struct node *node = link_owner(link);
    struct client *client = node->client;
    node->is_greeted = true;
    node->asks_info = false;
    node->has_loaded = node->avoids_load;
    node->avoids_load = false;
    load_script(
        node); /* before whatever waits for this node, and at a replica, which may be the master tomorrow */
    outage_alive(node->outage, clock_monotonic());
    flights_release(node, true);
    if (client->topology->greeted != NULL)
        client->topology->greeted(node);
    if (client->topology->asks_role)
        ask_role(node);
    else
        ask_incarnation(node, 0);
}

static void on_down(struct link *link, const char *why)
{
    struct node *node = link_owner(link);
    struct client *client = node->client;
    node->is_greeted = node->is_ready = false;
    node->role_at = node->incarnation_at = 0;
    tell_down(node, why);
    flights_release(node, false);
    if (client->topology->down != NULL && !client->is_closing)
        client->topology->down(node);
}

static void on_closed(struct link *link)
{
    struct node *node = link_owner(link);
    struct client *client = node->client;
    size_t at = 0;
    while (client->nodes[at] != node)
        at++;
    memmove(&client->nodes[at], &client->nodes[at + 1], (client->node_count - at - 1) * sizeof(struct node *));
    client->node_count--;
    free(node->replicas);
    free(node);
    client_let_go(client);
}

static const struct link_events link_events = { .up = on_up, .down = on_down, .closed = on_closed };

/* ---- Its life ------------------------------------------------------------------------------------------------------------ */

struct node *node_find(const struct client *client, const struct store_address *at)
{
    for (size_t i = 0; i < client->node_count; i++)
        if (!client->nodes[i]->is_leaving && store_address_equals(&client->nodes[i]->at, at))
            return client->nodes[i];
    return NULL;
}

static struct node *node_new(struct client *client, const struct store_address *at)
{
    const struct store_client_options *options = &client->options;
    struct node *node = calloc(1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->client = client;
    node->at = *at;
    store_address_show(at, node->name);
    node->target = (struct link_target){ .host = node->at.host,
                                         .port = at->port,
                                         .tls = options->tls,
                                         .user = options->url->user,
                                         .password = options->url->password,
                                         .db = options->url->db };
    node->outage = client->topology->has_outages ? outage_of(options->outages, node->name) : client->whole;
    node->asker.settled = incarnation_settled;
    node->asker.owner = node;
    (void)client_jitter(client, 1); /* another seed for each */
    if (link_open(&node->link, options->loop, &node->target, &link_events, node, client->random) == 0)
        return node;
    free(node);
    return NULL;
}

struct node *node_claim(struct client *client, const struct store_address *at)
{
    struct node *node = node_find(client, at);
    if (node != NULL || client->node_count >= STORE_NODES_MAX || client->is_closing)
        return node;
    if (client->node_count == client->node_room) {
        size_t room = client->node_room == 0 ? 8 : 2 * client->node_room;
        struct node **larger = realloc(client->nodes, room * sizeof *larger);
        if (larger == NULL)
            return NULL;
        client->nodes = larger;
        client->node_room = room;
    }
    node = node_new(client, at);
    if (node == NULL)
        return NULL;
    client->nodes[client->node_count++] = node;
    client->handles++;
    return node;
}

void node_leave(struct node *node)
{
    node->is_leaving = true;
    client_due(node->client, client_now(node->client));
}

void node_close(struct node *node)
{
    if (node->is_closed)
        return;
    node->is_leaving = node->is_closed = true;
    node->is_greeted = node->is_ready = false;
    incarnation_stop(&node->asker);
    link_close(node->link);
    flights_release(node, false);
    if (node->client->topology->has_outages && !node->client->is_closing)
        outage_left(node->outage); /* nobody asks there any more */
}

static uint64_t earlier(uint64_t x, uint64_t y)
{
    return y != 0 && y < x ? y : x;
}

uint64_t node_tick(struct node *node, uint64_t now)
{
    if (node->is_leaving) {
        if (node->flying == 0 && node->waiting_count == 0)
            node_close(node);
        return node->is_closed ? UINT64_MAX : now + ROLE_AGAIN_MS;
    }
    if (node->role_at != 0 && node->role_at <= now && node->is_greeted)
        look_again(node);
    if (node->incarnation_at != 0 && node->incarnation_at <= now && node->is_ready)
        ask_incarnation(node, 0);
    return earlier(earlier(UINT64_MAX, node->role_at), node->incarnation_at);
}
