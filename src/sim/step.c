// SPDX-License-Identifier: Apache-2.0
/*
 * step.c - one step of a timeline: when, what, how often.
 *
 * Attribute names and values are judged by the contract when the step is played, as at any door.
 */
#include "sim/fields.h"

static bool read_at(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    return field_duration(fields, node, &step->at);
}

static bool read_times(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    return field_integer(fields, node, 1, TIMELINE_TIMES_MAX, &step->times);
}

static bool read_cost(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    return field_integer(fields, node, 0, INT64_MAX, &step->request.cost);
}

static bool read_peek(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    step->request.is_peek = node->kind == TREE_SCALAR && slice_equals(node->text, SLICE("true"));
    return (node->kind == TREE_SCALAR && node->is_plain
            && (step->request.is_peek || slice_equals(node->text, SLICE("false"))))
           || field_fault(fields, node, "write true or false", "is neither");
}

static bool read_attribute(struct fields *fields, const struct tree_node *key, struct weir_attribute *out)
{
    const struct tree_node *value = key->next;
    char shown[48];
    *out = (struct weir_attribute){ key->text.at, value->text.at, value->text.len };
    if (value->kind != TREE_SCALAR) {
        tree_fault(fields->tree, value, "write it as text", "attribute '%s' is %s", tree_shown(key, shown),
                   value->kind == TREE_LIST ? "a list" : "a map");
        return false;
    }
    if (memchr(key->text.at, '\0', key->text.len) != NULL) {
        tree_fault(fields->tree, key, "use a-z, 0-9 and '-'", "attribute '%s' has a zero byte in its name",
                   tree_shown(key, shown));
        return false;
    }
    return true;
}

static bool read_request(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    bool is_good = true;
    if (node->kind != TREE_MAP)
        return field_fault(fields, node, "write it as { tenant: acme, path: /v1/items }", "is no request");
    if (node->count > WEIR_ATTRIBUTES_MAX)
        return field_fault(fields, node, "give at most 32 attributes", "has too many attributes");
    struct weir_attribute *attributes =
        tree_allocate(fields->tree, node->count == 0 ? 1 : node->count, sizeof *attributes);
    if (attributes == NULL)
        return field_fault(fields, node, "split the file", "does not fit this machine's memory");
    step->request.attributes = attributes;
    for (const struct tree_node *key = node->first; key != NULL; key = key->next->next)
        is_good &= read_attribute(fields, key, &attributes[step->request.attribute_count++]);
    return is_good;
}

static const struct field table[] = {
    { "at", FIELD_OPTIONAL, read_at },
    { "request", FIELD_REQUIRED, read_request },
    { "times", FIELD_OPTIONAL, read_times },
    { "cost", FIELD_OPTIONAL, read_cost },
    { "peek", FIELD_OPTIONAL, read_peek },
    { "expect", FIELD_OPTIONAL, expect_read },
    { "about", FIELD_OPTIONAL, field_read_about },
    { "as", FIELD_LATER, NULL },
    { "reserve", FIELD_LATER, NULL },
    { "settle", FIELD_LATER, NULL },
    { "cancel", FIELD_LATER, NULL },
    { "refund", FIELD_LATER, NULL },
    { "acquire", FIELD_LATER, NULL },
    { "renew", FIELD_LATER, NULL },
    { "release", FIELD_LATER, NULL },
    { "wait", FIELD_LATER, NULL },
    { "reload", FIELD_LATER, NULL },
    { "restart", FIELD_LATER, NULL },
    { "store", FIELD_LATER, NULL },
};

/* Counts that cannot come out, whatever the contract says, are a slip of the pen. */
static bool check_counts(struct tree *tree, const struct timeline_step *step)
{
    uint64_t sum = 0;
    for (int i = 0; i < WEIR_OUTCOME_COUNT; i++)
        sum += step->counts[i];
    if (!step->has_counts || sum == step->times)
        return true;
    tree_fault(tree, step->node, "make them equal: outcomes that are not named are expected 0 times",
               "the step expects %llu decisions and makes %llu", (unsigned long long)sum,
               (unsigned long long)step->times);
    return false;
}

bool step_read(struct tree *tree, const struct tree_node *node, struct timeline_step *out)
{
    out->node = node;
    out->times = 1;
    out->request.cost = 1;
    return fields_read(tree, node, "the step", table, sizeof table / sizeof *table, out)
           && check_counts(tree, out);
}
