// SPDX-License-Identifier: Apache-2.0
/*
 * store_flight.c - a call on its way: to a node, to another one where the first said so, and back.
 *
 * A call goes out again only when a node has said that it did not execute it and who will (MOVED, ASK). Everything else ends it.
 * What was abandoned is still read when its reply comes: that the node answers is heard, and what it refuses is an event.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "fleet/store_inside.h"

static void flight_done(struct link_command *command, enum carrier_result result, struct slice reply);

static struct flight *flight_new(struct client *client)
{
    struct flight *flight = client->spare;
    if (flight != NULL)
        client->spare = flight->next;
    else
        flight = malloc(sizeof *flight);
    if (flight != NULL)
        *flight = (struct flight){ .command = { .done = flight_done, .owner = flight } };
    return flight;
}

static void flight_spare(struct client *client, struct flight *flight)
{
    flight->next = client->spare;
    client->spare = flight;
}

/* The end of a call. Nothing is touched behind it: its owner may do anything. */
static void finish(struct client *client, struct flight *flight, enum carrier_result result, struct slice reply)
{
    struct carrier_call *call = flight->call;
    flight_spare(client, flight);
    if (call == NULL)
        return;
    call->held = NULL;
    call->done(call, result, reply);
}

/* ---- Out --------------------------------------------------------------------------------------------------------- */

/* ASKING and the command in one piece; both are answered. */
static bool send_asking(struct flight *flight)
{
    static const struct slice asking = { "*1\r\n$6\r\nASKING\r\n", 16 };
    struct slice command = flight->call->command;
    char *both = malloc(asking.len + command.len);
    if (both == NULL)
        return false;
    memcpy(both, asking.at, asking.len);
    memcpy(both + asking.len, command.at, command.len);
    bool is_sent =
        link_send(flight->node->link, (struct slice){ both, asking.len + command.len }, 2, &flight->command);
    free(both);
    return is_sent;
}

static bool put(struct flight *flight)
{
    struct node *node = flight->node;
    bool is_sent = flight->is_asking ? send_asking(flight)
                                     : link_send(node->link, flight->call->command, 1, &flight->command);
    node->flying += is_sent;
    return is_sent;
}

/* Until the node can be used, or cannot. */
static bool await(struct flight *flight)
{
    struct node *node = flight->node;
    if (node->waiting_count == NODE_WAITING_MAX)
        return false;
    flight->is_waiting = true;
    flight->next = node->waiting;
    node->waiting = flight;
    node->waiting_count++;
    return true;
}

void flight_start(struct client *client, struct node *node, struct carrier_call *call)
{
    call->held = NULL;
    call->redirects = 0;
    call->is_topology = false;
    call->outage = node == NULL ? client->whole : node->outage;
    bool is_usable = node != NULL && (node->is_ready || node_is_rising(node));
    struct flight *flight = is_usable ? flight_new(client) : NULL;
    if (flight == NULL) {
        call->done(call, CARRIER_REFUSED, (struct slice){ 0 });
        return;
    }
    flight->call = call;
    flight->node = node;
    call->held = flight;
    if (node->is_ready ? !put(flight) : !await(flight))
        finish(client, flight, CARRIER_REFUSED, (struct slice){ 0 });
}

void flight_redirect(struct flight *flight, struct node *node, bool is_asking)
{
    flight->node = node;
    flight->is_asking = is_asking;
    flight->call->outage = node->outage;
    if (node->is_greeted ? !put(flight) : !await(flight))
        finish(node->client, flight, CARRIER_REFUSED, (struct slice){ 0 });
}

void flights_release(struct node *node, bool is_up)
{
    struct client *client = node->client;
    while (node->waiting != NULL) { /* one by one: what ends may abandon others */
        struct flight *flight = node->waiting;
        node->waiting = flight->next;
        node->waiting_count--;
        flight->is_waiting = false;
        if (!is_up || !node->is_greeted || !put(flight))
            finish(client, flight, CARRIER_REFUSED, (struct slice){ 0 });
    }
}

/* ---- Back -------------------------------------------------------------------------------------------------------- */

/* A refusal is an event of the topology; true: the call goes on elsewhere. */
static bool refuse(struct flight *flight, enum refusal refusal, struct slice error)
{
    struct node *node = flight->node;
    const struct topology *topology = node->client->topology;
    if (refusal == REFUSAL_STRANGER)
        link_reset(node->link, "NOAUTH: it wants to be greeted again");
    else if (refusal == REFUSAL_ROLE && topology->asks_role)
        node_demote(node, ROLE_REPLICA);
    else if (topology->refused != NULL)
        topology->refused(node, refusal);
    struct carrier_call *call = flight->call; /* read here: others that end in these may abandon this one */
    if (call == NULL)
        return false;
    bool is_elsewhere = topology->redirect != NULL && (refusal == REFUSAL_MOVED || refusal == REFUSAL_ASK);
    if (is_elsewhere && call->redirects < REDIRECTS_MAX) {
        call->redirects++;
        if (topology->redirect(flight, error))
            return true;
    }
    call->is_topology = is_elsewhere || refusal == REFUSAL_MOVING;
    return false;
}

static void flight_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct flight *flight = command->owner;
    struct node *node = flight->node;
    struct client *client = node->client;
    node->flying--;
    if (result == CARRIER_REPLY) {
        struct slice error = { 0 };
        enum refusal refusal = refusal_read(reply, &error);
        bool is_late = flight->call == NULL; /* of those in time their owner tells */
        if (refusal_is_healthy(refusal) && (is_late || refusal != REFUSAL_NONE))
            outage_alive(node->outage, clock_monotonic());
        if (refusal != REFUSAL_NONE) {
            if (refuse(flight, refusal, error))
                return;
            result = CARRIER_REFUSED;
        }
    }
    finish(client, flight, result, reply);
}

/* ---- The end ------------------------------------------------------------------------------------------------------ */

/* Take a flight out of those that wait for its node. */
static void stop_waiting(struct flight *flight)
{
    struct flight **at = &flight->node->waiting;
    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    flight->node->waiting_count--;
}

void flight_abandon(struct client *client, struct carrier_call *call)
{
    struct flight *flight = call->held;
    if (flight == NULL)
        return;
    call->held = NULL;
    flight->call = NULL;
    if (!flight->is_waiting)
        return; /* its reply is read all the same */
    stop_waiting(flight);
    flight_spare(client, flight);
}

void flights_free(struct client *client)
{
    while (client->spare != NULL) {
        struct flight *next = client->spare->next;
        free(client->spare);
        client->spare = next;
    }
}
