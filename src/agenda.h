// SPDX-License-Identifier: Apache-2.0
/*
 * agenda.h - who is next: entries in the order of their instants, first come first served among equal ones.
 *
 * Idea: a treap (Seidel and Aragon 1996) whose nodes are the entries' own, so that an entry costs no memory but its caller's
 * and may come, go or move by itself. An entry's priority is its ticket under a secret, so nobody can choose tickets or
 * instants that make the tree deep: some 2 ln n steps each, expected, and never a walk of all.
 *
 * Not for threads: the room's lock is held.
 */
#ifndef WEIR_AGENDA_H
#define WEIR_AGENDA_H

#include <stdbool.h>

#include "weir.h"

struct agenda_entry {
    struct agenda_entry *left, *right, *up;
    weir_ns at;
    uint64_t ticket; /* no two entries have the same */
    uint64_t priority;
};

struct agenda {
    struct agenda_entry *root;
    uint64_t secret;
};

/* Put the entry in; its `at` and `ticket` are set. Kept until it is removed. */
void agenda_add(struct agenda *agenda, struct agenda_entry *entry);
void agenda_remove(struct agenda *agenda, struct agenda_entry *entry);

/* The earliest, or NULL. */
struct agenda_entry *agenda_first(const struct agenda *agenda);

#endif
