// SPDX-License-Identifier: Apache-2.0
/*
 * link_ring.h - the commands of a connection that wait for their replies, in order.
 *
 * Idea: a command's place is its number since the link began, never used twice, so that one which was done long ago can
 * still be abandoned without harm. A hole (an abandoned command) keeps its place until its reply has come.
 */
#ifndef WEIR_FLEET_LINK_RING_H
#define WEIR_FLEET_LINK_RING_H

#include "fleet/link.h"

enum ring_kind { RING_COMMAND, RING_SUBSCRIBE, RING_PING };

struct ring_entry {
    struct link_command *command; /* NULL: a hole */
    uint32_t replies;             /* to come */
    enum ring_kind kind;
};

struct link_ring {
    struct ring_entry *entries; /* entry of place p: [p & (cap - 1)] */
    uint64_t head, tail;        /* places of the oldest that waits, and of the next one */
    uint64_t left_before;       /* those before this place have left, or may have */
    uint32_t cap;               /* power of two, 0 at first */
};

/* False: LINK_COMMANDS_MAX wait, or memory is out. */
bool ring_push(struct link_ring *ring, struct ring_entry entry);

/* The oldest, or NULL. */
struct ring_entry *ring_head(struct link_ring *ring);

/* Take the oldest away. */
void ring_pop(struct link_ring *ring);

/* Make a hole of it, where it waits. */
void ring_abandon(struct link_ring *ring, const struct link_command *command);

void ring_free(struct link_ring *ring);

#endif
