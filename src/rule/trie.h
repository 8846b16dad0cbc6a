// SPDX-License-Identifier: Apache-2.0
/*
 * trie.h - many glob patterns against one value at once.
 *
 * The tokens of all patterns form a tree in which equal beginnings are shared, wildcards included; a value walks all
 * its branches at the same time. A branch that only one pattern is left on ends in a leaf, and that pattern's rest
 * is matched alone (glob.h).
 */
#ifndef WEIR_RULE_TRIE_H
#define WEIR_RULE_TRIE_H

#include "rule/glob.h"

struct trie_pattern {
    const glob_token *tokens;
    uint32_t count;
    uint32_t
        number; /* the caller's, given to trie_found; kept here so that a match touches one line of memory less */
};

struct trie_node;

struct trie {
    const struct trie_pattern *patterns;
    size_t pattern_count;
    struct trie_node *nodes;
    uint32_t *children;
    uint8_t *keys;
};

/* The order that trie_init() wants: token by token, a pattern after its beginnings. As strcmp(). */
int trie_compare(const struct trie_pattern *x, const struct trie_pattern *y);

/*
 * Build from sorted patterns without duplicates, fewer than 2^31 of them; kept until trie_deinit().
 * False: out of memory.
 */
bool trie_init(struct trie *trie, const struct trie_pattern *patterns, size_t count);
void trie_deinit(struct trie *trie);

/* Called once for each pattern that matches, in any order; false ends the walk. */
typedef bool trie_found(void *context, uint32_t number);

/* Find the patterns that match the value, at most 1024 bytes. False when `found` ended it. Cost: see trie.c. */
bool trie_find(const struct trie *trie, struct slice value, trie_found *found, void *context);

#endif
