// SPDX-License-Identifier: Apache-2.0
/* agenda.c - the treap of agenda.h: a search tree by instant and ticket, a heap by priority. */
#include "agenda.h"

#include <stddef.h>

static bool goes_before(const struct agenda_entry *x, const struct agenda_entry *y)
{
    return x->at != y->at ? x->at < y->at : x->ticket < y->ticket;
}

/* splitmix64's finish: a bijection, so tickets that differ have priorities that do. */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Where the entry hangs: its parent's link to it, or the root. */
static struct agenda_entry **link_to(struct agenda *agenda, struct agenda_entry *entry)
{
    if (entry->up == NULL)
        return &agenda->root;
    return entry->up->left == entry ? &entry->up->left : &entry->up->right;
}

static void hang(struct agenda_entry **link, struct agenda_entry *up, struct agenda_entry *entry)
{
    *link = entry;
    if (entry != NULL)
        entry->up = up;
}

/* The entry takes its parent's place, which becomes its child. The order stays. */
static void rise(struct agenda *agenda, struct agenda_entry *entry)
{
    struct agenda_entry *parent = entry->up;
    struct agenda_entry **place = link_to(agenda, parent);
    bool was_left = parent->left == entry;
    hang(was_left ? &parent->left : &parent->right, parent, was_left ? entry->right : entry->left);
    hang(place, parent->up, entry);
    hang(was_left ? &entry->right : &entry->left, entry, parent);
}

void agenda_add(struct agenda *agenda, struct agenda_entry *entry)
{
    struct agenda_entry **link = &agenda->root, *up = NULL;
    entry->left = entry->right = NULL;
    entry->priority = scramble(entry->ticket ^ agenda->secret);
    while (*link != NULL) {
        up = *link;
        link = goes_before(entry, up) ? &up->left : &up->right;
    }
    hang(link, up, entry);
    while (entry->up != NULL && entry->up->priority < entry->priority)
        rise(agenda, entry);
}

void agenda_remove(struct agenda *agenda, struct agenda_entry *entry)
{
    while (entry->left != NULL && entry->right != NULL)
        rise(agenda, entry->left->priority > entry->right->priority ? entry->left : entry->right);
    hang(link_to(agenda, entry), entry->up, entry->left != NULL ? entry->left : entry->right);
}

struct agenda_entry *agenda_first(const struct agenda *agenda)
{
    struct agenda_entry *entry = agenda->root;
    while (entry != NULL && entry->left != NULL)
        entry = entry->left;
    return entry;
}
