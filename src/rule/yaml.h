// SPDX-License-Identifier: Apache-2.0
/*
 * yaml.h - one YAML document as a tree whose every node knows its line and column.
 *
 * A strict subset: one UTF-8 document of at most WEIR_CONTRACT_BYTES_MAX bytes and WEIR_CONTRACT_DEPTH_MAX levels,
 * without tags, anchors, aliases and `<<`, and no key twice in a map: each of them can make a file mean something
 * other than what its reader sees. Depth is checked on libyaml's events, before anything is built, because its own
 * scanner needs quadratic time for deep nesting.
 */
#ifndef WEIR_RULE_YAML_H
#define WEIR_RULE_YAML_H

#include "rule/diagnostics.h"

enum node_kind {
    NODE_BAD, /* already reported: say nothing more about it */
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
};

struct node {
    unsigned char kind; /* enum node_kind */
    bool is_plain;      /* a scalar without quotes */
    unsigned count;     /* members of a list, pairs of a map */
    struct place place;
    struct slice text;  /* of a scalar, with a zero behind it */
    struct node *first; /* members; in a map key, value, key, value, ... */
    struct node *next;
};

/*
 * Read `text`. Nodes and their texts live in `region`. Findings go to `diagnostics`.
 *
 * Returns 0 and the root, or NULL where no tree could be made (then there are errors); or WEIR_ERR_MEMORY.
 */
int yaml_read(struct region *region, struct slice text, struct weir_diagnostics *diagnostics,
              struct node **out);

/* The value under a key of a map; NULL where there is none, or `map` is no map. */
const struct node *node_value(const struct node *map, const char *key);

#endif
