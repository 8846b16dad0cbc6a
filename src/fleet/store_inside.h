// SPDX-License-Identifier: Apache-2.0
/*
 * store_inside.h - what the files of the carrier share: its nodes, the calls under way, and what a topology decides.
 *
 * store.c has the carrier's life and a single server, store_node.c a node's (up, role, incarnation, ready, down), store_flight.c
 * the calls, sentinel.c and cluster.c where the nodes are and which of them serves a slot.
 *
 * A node is used when it is ready: greeted, of the right role, its incarnation read. What is not ready refuses at once.
 * Nodes and links go only in client_tick(), never from within an event of a link.
 */
#ifndef WEIR_FLEET_STORE_INSIDE_H
#define WEIR_FLEET_STORE_INSIDE_H

#include "fleet/incarnation.h"
#include "fleet/link.h"
#include "fleet/sentinel_reply.h"
#include "fleet/store.h"
#include "fleet/store_address.h"
#include "fleet/store_refusal.h"

/* Nodes with a link at once: a Cluster's and the seeds. */
#define STORE_NODES_MAX (1024 + URL_HOSTS_MAX)

/* Calls that were redirected to a node whose link is not up yet, and wait for it. */
#define NODE_WAITING_MAX 1024

/* Longest text of why a node is not up. */
#define NODE_WHY_MAX 256

/* How often a call goes to another node because the one before said so. */
#define REDIRECTS_MAX 4

/* A node that is no master is asked again after so long, with jitter. */
#define ROLE_AGAIN_MS 500

struct client;
struct node;

/* One call on its way. */
struct flight {
    struct link_command command;
    struct carrier_call *call; /* NULL: abandoned */
    struct node *node;
    struct flight *next; /* of those that wait for the node, or of the spare ones */
    bool is_waiting, is_asking;
};

struct node {
    struct client *client;
    struct store_address at;
    char name[STORE_ADDRESS_MAX];
    struct link_target target;
    struct link *link;
    struct outage *outage;
    enum node_role role;
    bool is_greeted, is_ready;
    bool is_leaving; /* not found any more; goes when nothing is under way */
    bool is_closed;  /* its link is closing */

    /* Cluster */
    unsigned slots;       /* that it serves */
    uint64_t guest_until; /* ms: not in the map, and kept so long */
    uint64_t n;           /* of its incarnation's key, when has_n */
    bool has_n;

    size_t flying; /* on its link */
    struct flight *waiting;
    size_t waiting_count;

    struct link_command role_command;
    bool is_asking_role, asks_info;
    uint64_t role_at;               /* ms: ask its role again; 0: no */
    struct store_address *replicas; /* a master's, for people: replica_count */
    size_t replica_count;

    struct link_command load_command;
    bool is_loading, has_loaded; /* the script; on this connection, or in vain */
    bool avoids_load;            /* the last connection ended while it was brought */

    struct incarnation_asker asker;
    uint64_t told_id, told_n; /* of the record that was known last; 0: none was */
    unsigned elsewhere;       /* numbers in a row whose slots were not the node's */
    uint64_t incarnation_at;  /* ms: look at it again; 0: no */
    bool is_forbidden;        /* that it may not be read was told */
    bool is_told;             /* that it is not what the URL says was told */

    char why[NODE_WHY_MAX];
    bool was_told_down; /* the log knows that it is down, and why_told */
    char why_told[NODE_WHY_MAX];
    uint64_t told_at;
};

/* What differs between a single server, Sentinels and a Cluster. NULL: nothing to do. */
struct topology {
    bool is_whole;    /* one node serves all slots */
    bool asks_role;   /* a node is used when ROLE says master */
    bool has_outages; /* a breaker for each node, not for the store as a whole */
    int (*begin)(struct client *client);
    void (*end)(struct client *client); /* close what it has on the loop */
    /* Which node serves a slot; NULL: not known. */
    struct node *(*node_of)(const struct client *client, unsigned slot);
    void (*missed)(struct client *client);          /* a call came for a slot of which it is not */
    bool (*lacks_map)(const struct client *client); /* nodes are greeted, and none is known to serve anything */
    void (*greeted)(struct node *node);             /* a link is up */
    void (*ready)(struct node *node);
    void (*down)(struct node *node);
    void (*not_master)(struct node *node); /* it said so, by ROLE or READONLY */
    void (*refused)(struct node *node, enum refusal refusal);
    /* MOVED or ASK: true: the flight goes elsewhere. */
    bool (*redirect)(struct flight *flight, struct slice error);
    /* Do what is due; gives the ms at which to come again, or UINT64_MAX. */
    uint64_t (*tick)(struct client *client, uint64_t now);
    /* Its own nodes that are not among the client's, for people: client_show() each. */
    void (*others)(struct client *client);
};

extern const struct topology topology_one, topology_sentinel, topology_cluster;

struct client {
    struct carrier carrier; /* first: a carrier is its client */
    struct store_client_options options;
    const struct topology *topology;
    void *held; /* the topology's own */
    char shown[URL_MAX];
    struct outage *whole; /* where no node is known */
    uint64_t random;

    struct node **nodes; /* in the order in which they came */
    size_t node_count, node_room;
    struct flight *spare;

    struct shown_node {
        char name[STORE_ADDRESS_MAX];
        struct store_node node;
    } * others; /* of the last store_client_others() */
    size_t other_count, other_room;

    uv_timer_t timer;
    uint64_t due;   /* ms of the loop's clock; UINT64_MAX: off */
    size_t handles; /* that are not closed yet: links and the timer */
    bool is_closing;
};

/* ---- store.c ---------------------------------------------------------------------------------------------------- */

static inline struct client *client_of(const struct carrier *carrier)
{
    return (struct client *)carrier;
}

/* Come to client_tick() no later than `at`. */
void client_due(struct client *client, uint64_t at);

static inline uint64_t client_now(const struct client *client)
{
    return uv_now(client->options.loop);
}

/* From half of `ms` to one and a half. */
uint64_t client_jitter(struct client *client, uint64_t ms);

__attribute__((format(printf, 2, 3))) void client_log(struct client *client, const char *format, ...);

/* One of store_client_others(); `why` is a static text. */
void client_show(struct client *client, const struct store_address *at, enum node_role role, const char *why);

/* A handle has gone: the last one ends the client. */
void client_let_go(struct client *client);

/* ---- store_node.c ------------------------------------------------------------------------------------------------ */

/* The node of an address, made where there is none, and dialled; NULL: memory is out, or there are too many. */
struct node *node_claim(struct client *client, const struct store_address *at);
struct node *node_find(const struct client *client, const struct store_address *at);

/* It is not found any more, and goes when nothing is under way. */
void node_leave(struct node *node);

/* What is due: its role, its incarnation, its end. Gives the ms at which to come again. */
uint64_t node_tick(struct node *node, uint64_t now);

/* Whether it will be known in a moment if it can be used: what is sent to it waits. */
bool node_is_rising(const struct node *node);

/* In a Cluster: the slots that it serves are others now. */
void node_slots_changed(struct node *node);

/* It said that it is no master. */
void node_demote(struct node *node, enum node_role role);

/* Close its link; it is freed when that is done. */
void node_close(struct node *node);

/* ---- store_flight.c ---------------------------------------------------------------------------------------------- */

/* Send a call to a node; done() comes also from within. */
void flight_start(struct client *client, struct node *node, struct carrier_call *call);

/* Send a flight that another node refused. It waits where the link is not up yet, or is refused. */
void flight_redirect(struct flight *flight, struct node *node, bool is_asking);

/* The link of a node is up, or is not to be waited for. */
void flights_release(struct node *node, bool is_up);

void flight_abandon(struct client *client, struct carrier_call *call);
void flights_free(struct client *client);

#endif
