// SPDX-License-Identifier: Apache-2.0
/*
 * contract_source.c - a contract as a test file gives it: the path of one, or its fields in place.
 */
#include "sim/fields.h"

/* A path relative to the test file's folder. */
static bool resolve_path(struct tree *tree, const struct tree_node *node, const char *test_file,
                         struct timeline_contract *out)
{
    const char *slash = strrchr(test_file, '/');
    size_t folder = slash == NULL || node->text.at[0] == '/' ? 0 : (size_t)(slash - test_file) + 1;
    char *path = tree_allocate(tree, 1, folder + node->text.len + 1);
    if (path == NULL)
        return false;
    memcpy(path, test_file, folder);
    memcpy(path + folder, node->text.at, node->text.len + 1);
    out->path = path;
    return true;
}

/*
 * Cut an inline contract out of the file. It keeps its lines and columns, with nothing but line ends and blanks
 * before it, so that the contract's own diagnostics point into the test file.
 */
static bool cut_contract(struct tree *tree, const struct tree_node *node, struct timeline_contract *out)
{
    struct slice source = tree_source(tree, node);
    size_t before = node->line - 1 + node->column - 1;
    char *text = tree_allocate(tree, 1, before + source.len + 1);
    if (text == NULL)
        return false;
    memset(text, '\n', node->line - 1);
    memset(text + node->line - 1, ' ', node->column - 1);
    memcpy(text + before, source.at, source.len);
    out->text = (struct slice){ text, before + source.len };
    return true;
}

bool contract_source_read(struct fields *fields, const struct tree_node *node, const char *test_file,
                          struct timeline_contract *out)
{
    bool is_done = true;
    if (node->kind == TREE_MAP)
        is_done = cut_contract(fields->tree, node, out);
    else if (node->kind == TREE_SCALAR && node->text.len > 0
             && memchr(node->text.at, '\0', node->text.len) == NULL)
        is_done = resolve_path(fields->tree, node, test_file, out);
    else
        return field_fault(fields, node, "give a path, or the contract's fields", "is no contract");
    if (!is_done)
        tree_fault(fields->tree, NULL, "split the file", "out of memory");
    return is_done;
}
