// SPDX-License-Identifier: Apache-2.0
/*
 * tree.h - a test file's YAML as a tree whose every node knows where it stands, and the telling of what is wrong.
 *
 * The same strict subset as contracts: one UTF-8 document, bounded in bytes, depth and values, without tags,
 * anchors, aliases and `<<`. Faults are told as they are found, in the form of a contract's diagnostics.
 */
#ifndef WEIR_SIM_TREE_H
#define WEIR_SIM_TREE_H

#include <stdio.h>

#include "base/bytes.h"

/* Largest test file: as a contract, which it may contain. */
#define TREE_BYTES_MAX ((size_t)16 << 20)

/* Most values of a file: some fifty thousand steps. Bounds memory, of which a value takes about a hundred bytes. */
#define TREE_NODES_MAX (1u << 20)

enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP };

struct tree_node {
    enum tree_kind kind;
    bool is_plain;                  /* a scalar without quotes */
    unsigned line, column, width;   /* from 1 */
    size_t begin, end;              /* of its source, in characters */
    unsigned count;                 /* members of a list, pairs of a map */
    struct slice text;              /* of a scalar, with a zero behind it */
    struct tree_node *first, *next; /* members; in a map key, value, key, value, ... Keys are scalars */
};

struct tree_block;

struct tree {
    const char *name;  /* of the file, for faults; borrowed */
    struct slice text; /* borrowed until tree_deinit() */
    FILE *err;         /* where faults are told; NULL: nowhere */
    bool is_coloured;
    unsigned faults; /* told so far */
    struct tree_node *root;
    struct tree_block *blocks; /* all memory of the tree, and tree_allocate()'s */
    size_t used;
};

/* Read `text`. False after telling a fault; tree_deinit() is needed either way. */
bool tree_init(struct tree *tree, struct slice text, const char *name, FILE *err, bool is_coloured);
void tree_deinit(struct tree *tree);

/* Zeroed memory that lives as long as the tree; NULL: out of memory, or the sizes overflow. */
void *tree_allocate(struct tree *tree, size_t count, size_t size);

/* Tell that `node` (NULL: the whole file) is at fault, and what to do about it. */
void tree_fault(struct tree *tree, const struct tree_node *node, const char *cure, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The source of a node, from its first character to behind its last. */
struct slice tree_source(const struct tree *tree, const struct tree_node *node);

/* A scalar as it may be shown in a message: control bytes as '?', cut after 40 bytes. */
const char *tree_shown(const struct tree_node *node, char out[48]);

#endif
