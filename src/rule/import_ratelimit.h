// SPDX-License-Identifier: Apache-2.0
/*
 * import_ratelimit.h - a configuration of envoyproxy/ratelimit as a flat list of nodes, each below its parent.
 *
 * There a domain is a tree: an entry (key, value) of a descriptor goes down to the child with that key and value, else to
 * the first child with that key whose wildcard matches, else to the child with that key alone. Where the last entry
 * arrives, the node's limit holds.
 */
#ifndef WEIR_RULE_IMPORT_RATELIMIT_H
#define WEIR_RULE_IMPORT_RATELIMIT_H

#include "rule/import.h"
#include "rule/yaml.h"

#define RATELIMIT_NONE UINT32_MAX

/* Levels that a document can nest descriptors to: each takes a list and a map. */
#define RATELIMIT_DEPTH_MAX (WEIR_CONTRACT_DEPTH_MAX / 2)

/* What is dropped from a limit's `when` because another rule of the same request replaces it. */
struct replacement {
    struct replacement *next;
    struct slice attribute, pattern; /* no pattern: any value */
};

struct ratelimit_node {
    uint32_t parent;                   /* RATELIMIT_NONE: the domain */
    uint32_t first, count;             /* its children, one behind the other */
    uint32_t level_first, level_count; /* its siblings, itself included */
    unsigned depth;                    /* from 1 */
    struct slice key, value;           /* no value: any */
    struct slice pattern;              /* the value as a pattern */
    struct slice attribute;            /* what the entry is called here */
    const struct node *yaml, *descriptors, *rate_limit, *replaces;
    const char *name; /* of the limit; NULL: none was given */
    bool is_wild, is_shared, is_shadow, is_quota, is_metric_only, is_unlimited, has_limit;
    uint64_t requests;
    int unit;               /* row of the units' table */
    struct slice condition; /* `attribute: ...` in YAML; .at NULL: not made yet, len 0: none is needed */
    struct replacement *replacements;
};

/* One domain, from one text. */
struct ratelimit_domain {
    const struct import_file *file;
    struct slice name;
    struct node *root;
    struct ratelimit_node *nodes;
    size_t count, capacity;
};

struct ratelimit_unit {
    const char *word, *rate; /* "minute" is N/m */
    const char *comment;     /* where it may surprise */
};
extern const struct ratelimit_unit ratelimit_units[];

/* Read one text. False: it has no tree to go on with (reported). */
bool ratelimit_read(struct import *import, const struct import_file *file, struct ratelimit_domain *out);

/* "domain.key_value.key", as that service writes it in its own messages. */
struct slice ratelimit_path(struct import *import, const struct ratelimit_domain *domain, uint32_t node);

#endif
