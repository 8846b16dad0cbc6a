// SPDX-License-Identifier: Apache-2.0
/* link_ring.c - a ring that doubles up to its bound; see link_ring.h. */
#include "fleet/link_ring.h"

#include <stdlib.h>

#define CAP_FIRST 64

_Static_assert((LINK_COMMANDS_MAX & (LINK_COMMANDS_MAX - 1)) == 0, "doubling ends at the bound");

static struct ring_entry *at(const struct link_ring *ring, uint64_t place)
{
    return &ring->entries[place & (ring->cap - 1)];
}

static bool grow(struct link_ring *ring)
{
    struct link_ring next = *ring;
    next.cap = ring->cap == 0 ? CAP_FIRST : 2 * ring->cap;
    if (next.cap > LINK_COMMANDS_MAX)
        return false;
    next.entries = malloc(next.cap * sizeof *next.entries);
    if (next.entries == NULL)
        return false;
    for (uint64_t place = ring->head; place < ring->tail; place++)
        *at(&next, place) = *at(ring, place);
    free(ring->entries);
    *ring = next;
    return true;
}

bool ring_push(struct link_ring *ring, struct ring_entry entry)
{
    if (ring->tail - ring->head == ring->cap && !grow(ring))
        return false;
    if (entry.command != NULL)
        entry.command->place = ring->tail;
    *at(ring, ring->tail++) = entry;
    return true;
}

struct ring_entry *ring_head(struct link_ring *ring)
{
    return ring->head == ring->tail ? NULL : at(ring, ring->head);
}

void ring_pop(struct link_ring *ring)
{
    ring->head++;
}

void ring_abandon(struct link_ring *ring, const struct link_command *command)
{
    if (command->place < ring->head || command->place >= ring->tail)
        return;
    struct ring_entry *entry = at(ring, command->place);
    if (entry->command == command)
        entry->command = NULL;
}

void ring_free(struct link_ring *ring)
{
    free(ring->entries);
    *ring = (struct link_ring){ 0 };
}
