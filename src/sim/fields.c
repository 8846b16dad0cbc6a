// SPDX-License-Identifier: Apache-2.0
/*
 * fields.c - maps by table, and the few kinds of values.
 */
#include "sim/fields.h"

#include <inttypes.h>

#include "sim/instant.h"

/* Most pairs of a map: the widest has 32 attributes. Keeps the search for duplicates short. */
#define PAIRS_MAX 64

bool field_fault(struct fields *fields, const struct tree_node *node, const char *cure, const char *problem)
{
    char shown[48];
    tree_fault(fields->tree, node, cure, "%s: '%s' %s", fields->field->name, tree_shown(node, shown), problem);
    return false;
}

static bool is_repeated(const struct tree_node *map, const struct tree_node *key)
{
    for (const struct tree_node *earlier = map->first; earlier != key; earlier = earlier->next->next)
        if (slice_equals(earlier->text, key->text))
            return true;
    return false;
}

static const struct field *field_find(const struct field *table, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equals(slice_of(table[i].name), name))
            return &table[i];
    return NULL;
}

/* "known fields: at, request, ..." */
static const char *known_fields(const struct field *table, size_t count, char *out, size_t cap)
{
    size_t len = (size_t)snprintf(out, cap, "known fields:");
    for (size_t i = 0; i < count && len < cap; i++)
        len += (size_t)snprintf(out + len, cap - len, " %s", table[i].name);
    return out;
}

static bool read_pair(struct fields *fields, const struct tree_node *key, const char *what,
                      const struct field *table, size_t count, void *into)
{
    char shown[48];
    char cure[512];
    fields->field = field_find(table, count, key->text);
    if (is_repeated(fields->map, key)) {
        tree_fault(fields->tree, key, "keep one of the two", "'%s' is given twice", tree_shown(key, shown));
        return false;
    }
    if (fields->field == NULL) {
        tree_fault(fields->tree, key, known_fields(table, count, cure, sizeof cure), "%s has no field '%s'",
                   what, tree_shown(key, shown));
        return false;
    }
    return fields->field->read(fields, key->next, into);
}

bool fields_read(struct tree *tree, const struct tree_node *node, const char *what, const struct field *table,
                 size_t count, void *into)
{
    struct fields fields = { tree, node, NULL };
    bool is_good = true;
    char shown[48];
    if (node->kind != TREE_MAP || node->count > PAIRS_MAX) {
        tree_fault(tree, node, "write it as `name: value` pairs", "%s is %s", what,
                   node->kind == TREE_MAP ? "too large" : tree_shown(node, shown));
        return false;
    }
    for (const struct tree_node *key = node->first; key != NULL; key = key->next->next)
        is_good &= read_pair(&fields, key, what, table, count, into);
    for (size_t i = 0; i < count; i++) {
        bool is_given = false;
        for (const struct tree_node *key = node->first; key != NULL; key = key->next->next)
            is_given |= slice_equals(key->text, slice_of(table[i].name));
        if (table[i].need == FIELD_REQUIRED && !is_given) {
            tree_fault(tree, node, "add it", "%s lacks `%s`", what, table[i].name);
            is_good = false;
        }
    }
    return is_good;
}

/* ---- Values ---------------------------------------------------------------------------------------------- */

bool field_integer(struct fields *fields, const struct tree_node *node, uint64_t least, uint64_t most,
                   uint64_t *out)
{
    char cure[96];
    if (node->kind == TREE_SCALAR && node->is_plain && slice_to_u64(node->text, most, out) && *out >= least)
        return true;
    (void)snprintf(cure, sizeof cure, "write an integer from %" PRIu64 " to %" PRIu64 " without quotes", least,
                   most);
    return field_fault(fields, node, cure, "is not that");
}

bool field_duration(struct fields *fields, const struct tree_node *node, weir_ns *out)
{
    return (node->kind == TREE_SCALAR && duration_parse(node->text, out))
           || field_fault(fields, node, "write an integer with ns, us, ms, s, m, h, d or w, or a sum: 1m30s",
                          "is no duration");
}

bool field_boolean(struct fields *fields, const struct tree_node *node, bool *out)
{
    *out = node->kind == TREE_SCALAR && slice_equals(node->text, SLICE("true"));
    return (node->kind == TREE_SCALAR && node->is_plain && (*out || slice_equals(node->text, SLICE("false"))))
           || field_fault(fields, node, "write true or false", "is neither");
}

bool field_is_null(const struct tree_node *node)
{
    return node->kind == TREE_SCALAR && node->is_plain
           && (slice_equals(node->text, SLICE("null")) || slice_equals(node->text, SLICE("~"))
               || node->text.len == 0);
}

bool field_read_about(struct fields *fields, const struct tree_node *node, void *into)
{
    (void)into; /* it is for the reader of the file */
    return node->kind == TREE_SCALAR || field_fault(fields, node, "write a sentence", "is no text");
}
