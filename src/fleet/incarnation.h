// SPDX-License-Identifier: Apache-2.0
/*
 * incarnation.h - what a node of the store keeps to say that its state is the same as before: `when-state-lost: empty`.
 *
 * Idea: one key for each node, weir:1:{N}:incarnation, holds "ID BEGAN_US": a random name, and the node's time when it was written.
 * Whoever finds none writes one (SET NX, so that of several one wins and all read the same). A store that lost everything has lost
 * the record too, and the next one is younger, so keys that are absent then are taken for empty since that time. The same
 * holds for a record that is damaged. Errors make decisions stricter, never laxer.
 *
 * In a Cluster N is the smallest number whose slot the node serves. The record outlives us by INCARNATION_EXPIRY_MS, and is
 * looked at again now and then, so that a store that was flushed under our connection is noticed within
 * INCARNATION_PERIOD_MS.
 */
#ifndef WEIR_FLEET_INCARNATION_H
#define WEIR_FLEET_INCARNATION_H

#include "fleet/link.h"

/* More than a year: the slowest limits that people write are by the year. */
#define INCARNATION_EXPIRY_MS (UINT64_C(400) * 86400 * 1000)
#define INCARNATION_PERIOD_MS 10000
/* Every how many looks its expiry begins anew: about once an hour. */
#define INCARNATION_KEEP_EVERY 360

#define INCARNATION_KEY_MAX 48
#define INCARNATION_TEXT_MAX 40

/* Gives the length. */
size_t incarnation_key(uint64_t n, char out[INCARNATION_KEY_MAX]);
size_t incarnation_write(struct incarnation incarnation, char out[INCARNATION_TEXT_MAX]);

/* False: it is damaged. */
bool incarnation_read(struct slice text, struct incarnation *out);

enum incarnation_result {
    INCARNATION_KNOWN,
    INCARNATION_FORBIDDEN, /* the node does not let us: NOPERM */
    INCARNATION_ELSEWHERE, /* its key is not this node's now: choose another N */
    INCARNATION_FAILED,    /* no connection, or no reply that is one: again later */
};

/* Asks one node over its link. Memory of the owner; zeroed but for `settled` and `owner`. */
struct incarnation_asker {
    struct link_command command;
    struct link *link; /* while it asks; else NULL */
    int step;
    unsigned tries, looks;
    char key[INCARNATION_KEY_MAX];
    size_t key_len;
    bool is_damaged;             /* what stands there is to be replaced */
    struct incarnation proposed; /* ours, where there is none */
    struct incarnation known;    /* of the last time that it was; id 0: never */
    /* Once for each incarnation_ask(), unless it was stopped. */
    void (*settled)(struct incarnation_asker *asker, enum incarnation_result result);
    void *owner;
};

/* Read or create the record of number `n`. Nothing where it asks already. */
void incarnation_ask(struct incarnation_asker *asker, struct link *link, uint64_t n);
/* settled() does not come. */
void incarnation_stop(struct incarnation_asker *asker);

#endif
