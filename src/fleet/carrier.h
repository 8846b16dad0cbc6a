// SPDX-License-Identifier: Apache-2.0
/*
 * carrier.h - the seam between decisions and connections: one command to the node that serves a slot, one reply.
 *
 * Idea: who decides knows keys, scripts and deadlines, and nothing of sockets, Sentinel or Cluster; who carries knows these and
 * nothing of limits. A carrier looks at no clock on behalf of a call: who has waited long enough abandons it. So decisions
 * are tested in virtual time against a carrier that loses, delays and doubles.
 *
 * Commands of one turn of the loop leave together. A carrier sends a command again only where the store has said that it did
 * not execute it (MOVED, ASK); never after it may have been executed (B37).
 */
#ifndef WEIR_FLEET_CARRIER_H
#define WEIR_FLEET_CARRIER_H

#include "base/bytes.h"
#include "fleet/outage.h"

/* Slots of a Cluster; everywhere else all are one node's. */
#define SLOT_COUNT 16384

enum carrier_result {
    CARRIER_REPLY, /* here it is; it may be an error of the command's own: NOSCRIPT, NOPERM, WRONGTYPE */
    CARRIER_REFUSED, /* it was not executed: no connection, or a store that cannot serve it now (LOADING, READONLY, MASTERDOWN,
                        CLUSTERDOWN, TRYAGAIN, MOVED again and again) */
    CARRIER_LOST, /* the connection broke when it had been sent: it may have been executed */
};

struct carrier_call {
    struct slice command; /* its bytes, borrowed until done() or carrier->abandon() */
    unsigned slot;
    /* Once, unless it is abandoned: also within send(). `reply` is one whole reply, borrowed during the call. */
    void (*done)(struct carrier_call *call, enum carrier_result result, struct slice reply);
    void *owner;
    /* The carrier's. */
    void *held;
    unsigned redirects;
    /* What is known of the node that it went to last; written by send(), valid in done(). */
    struct outage *outage;
    /* REFUSED though every node that was asked serves: a slot is on the move, or the caller's map was old. No failure of the
       node. Written by send(), valid in done(). */
    bool is_topology;
};

/* What the store's node keeps to say that its state is the same as before: see when-state-lost. */
struct incarnation {
    uint64_t id;          /* 0: not known */
    uint64_t began_at_us; /* Unix time by the node's clock */
};

struct carrier {
    void (*send)(struct carrier *carrier, struct carrier_call *call);
    /* done() will not come. A reply that comes later is read and dropped; that it came is told (outage_alive()). */
    void (*abandon)(struct carrier *carrier, struct carrier_call *call);
    /* The breaker of the node that serves a slot; where none is known, that of the store as a whole. */
    struct outage *(*outage)(struct carrier *carrier, unsigned slot);
    struct incarnation (*incarnation)(struct carrier *carrier, unsigned slot);
    /* Whether keys of different slots may go into one command: anything but a Cluster. */
    bool (*is_whole)(const struct carrier *carrier);
    void (*close)(struct carrier *carrier); /* every call is done or abandoned; closes handles on the loop */
};

#endif
