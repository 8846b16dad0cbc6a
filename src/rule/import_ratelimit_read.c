// SPDX-License-Identifier: Apache-2.0
/* import_ratelimit_read.c - YAML of envoyproxy/ratelimit into nodes, with the checks that the service makes itself. */
#include <stdio.h>
#include <stdlib.h>

#include "rule/entry.h"
#include "rule/glob.h"
#include "rule/import_ratelimit.h"
#include "rule/schema.h"

const struct ratelimit_unit ratelimit_units[] = {
    { "second", "s", NULL },
    { "minute", "m", NULL },
    { "hour", "h", NULL },
    { "day", "d", NULL },
    { "week", "w", "7 days counted from 1970, so it begins on Thursdays, as there" },
    { "month", "30d",
      "30 days counted from 1970, as there; a calendar's would be N/month, `align: calendar UTC`" },
    { "year", "365d",
      "365 days counted from 1970, as there; a calendar's would be N/year, `align: calendar UTC`" },
};
#define UNIT_COUNT_ (sizeof ratelimit_units / sizeof *ratelimit_units)

/* Names of one list of `replaces`. */
#define REPLACES_MAX 1000

/* ---- Fields --------------------------------------------------------------------------------------------------------- */

struct descriptor_reading {
    const struct node *key, *value, *rate_limit, *descriptors, *unused;
    bool is_shadow, is_quota, is_metric, is_value_metric, is_shared;
};

struct limit_reading {
    const struct node *unit, *replaces;
    uint64_t requests;
    bool is_unlimited;
    const char *name;
};

static void parse_node(struct load *load, const struct field *field, const struct node *value, void *into)
{
    (void)load;
    *(const struct node **)(void *)((char *)into + field->offset) = value;
}

#define FLAG(name, member) \
    { \
        name, parse_boolean, "boolean", offsetof(struct descriptor_reading, member), \
            .sentence = "write true or false" \
    }
#define NODE(name, type, member) \
    { \
        name, parse_node, "any", offsetof(struct type, member), \
            .sentence = "see the service's own documentation" \
    }

static const struct field descriptor_fields[] = {
    { "key", parse_node, "text", offsetof(struct descriptor_reading, key), .is_required = true,
      .sentence = "name the key of the entry" },
    NODE("value", descriptor_reading, value),
    NODE("rate_limit", descriptor_reading, rate_limit),
    NODE("descriptors", descriptor_reading, descriptors),
    NODE("metadata", descriptor_reading, unused),
    FLAG("shadow_mode", is_shadow),
    FLAG("quota_mode", is_quota),
    FLAG("detailed_metric", is_metric),
    FLAG("value_to_metric", is_value_metric),
    FLAG("share_threshold", is_shared),
};
#define DESCRIPTOR_FIELDS (sizeof descriptor_fields / sizeof *descriptor_fields)

static const struct field limit_fields[] = {
    NODE("unit", limit_reading, unit),
    { "requests_per_unit", parse_integer, "integer", offsetof(struct limit_reading, requests),
      .max = UINT32_MAX, .sentence = "write how many" },
    { "unlimited", parse_boolean, "boolean", offsetof(struct limit_reading, is_unlimited),
      .sentence = "write true or false" },
    { "name", parse_text, "text", offsetof(struct limit_reading, name), .sentence = "write a name" },
    NODE("replaces", limit_reading, replaces),
};
#define LIMIT_FIELDS (sizeof limit_fields / sizeof *limit_fields)

struct root_reading {
    const struct node *domain, *descriptors;
};
static const struct field root_fields[] = {
    { "domain", parse_node, "text", offsetof(struct root_reading, domain), .is_required = true,
      .sentence = "begin the file with `domain: NAME`" },
    NODE("descriptors", root_reading, descriptors),
};
#define ROOT_FIELDS (sizeof root_fields / sizeof *root_fields)

/* ---- Text ----------------------------------------------------------------------------------------------------------- */

/* A key, value or domain: what an attribute can hold. Empty where it is reported, or where it says nothing. */
static struct slice read_text(struct load *load, const char *field, const struct node *node)
{
    const struct slice none = { "", 0 };
    bool is_nothing = node == NULL || node->kind == NODE_BAD
                      || (node->is_plain
                          && (slice_equals(node->text, SLICE("null")) || slice_equals(node->text, SLICE("~"))));
    if (is_nothing)
        return none;
    const char *problem = NULL;
    if (node->kind != NODE_SCALAR)
        problem = "is not text";
    else if (node->text.len > WEIR_ATTRIBUTE_MAX)
        problem = "is longer than 1024 bytes, the longest value here";
    for (size_t i = 0; problem == NULL && i < node->text.len; i++)
        if ((unsigned char)node->text.at[i] < 0x20 || node->text.at[i] == 0x7f)
            problem = "has a control character, which no request here can carry";
    if (problem == NULL)
        return node->text;
    schema_error(load, field, node, "write plain text", "%s", problem);
    return none;
}

/* ---- Limits --------------------------------------------------------------------------------------------------------- */

static bool read_unit(struct load *load, const struct node *node, int *out)
{
    for (size_t i = 0; node->kind == NODE_SCALAR && i < UNIT_COUNT_; i++)
        if (slice_equals_fold(node->text, slice_of(ratelimit_units[i].word))) {
            *out = (int)i;
            return true;
        }
    if (node->kind != NODE_BAD)
        schema_error(load, "unit", node, "write second, minute, hour, day, week, month or year",
                     node->kind == NODE_SCALAR && node->text.len == 0 ? "is empty" : "is no unit");
    return false;
}

static void check_replaces(struct load *load, const struct node *list, const char *own_name)
{
    if (!schema_is_list(load, "replaces", list, "write a list such as `- name: base`"))
        return;
    if (list->count > REPLACES_MAX)
        schema_error(load, "replaces", list, "split the rule", "has more than %d members", REPLACES_MAX);
    for (const struct node *member = list->first; member != NULL; member = member->next) {
        const struct node *name = node_value(member, "name");
        bool is_name = name != NULL && name->kind == NODE_SCALAR && name->text.len > 0 && member->count == 1;
        if (!is_name && member->kind != NODE_BAD)
            schema_error(load, "replaces", member, "write `- name: NAME` for each limit that is replaced",
                         "has a member that is not just a name");
        else if (is_name && own_name != NULL && slice_equals(name->text, slice_of(own_name)))
            schema_error(load, "replaces", name, "name another limit, or remove it", "names the limit itself");
    }
}

static void read_rate_limit(struct load *load, struct ratelimit_node *node)
{
    const struct node *given[LIMIT_FIELDS];
    struct limit_reading reading = { .requests = UINT64_MAX };
    if (!schema_read(load, node->rate_limit, "rate_limit", limit_fields, LIMIT_FIELDS, &reading, given))
        return;
    node->is_unlimited = reading.is_unlimited;
    node->name = reading.name;
    node->replaces = reading.replaces;
    if (reading.replaces != NULL)
        check_replaces(load, reading.replaces, reading.name);
    if (reading.is_unlimited) {
        if (reading.unit != NULL)
            schema_error(load, "unit", reading.unit, "keep one of the two", "stands beside `unlimited: true`");
        return;
    }
    if (reading.unit == NULL)
        schema_error(load, "rate_limit", node->rate_limit,
                     "write second, minute, hour, day, week, month or year", "has no unit");
    if (given[1] == NULL)
        schema_error(load, "rate_limit", node->rate_limit,
                     "write how many; the service takes 0, which refuses everything",
                     "has no requests_per_unit");
    node->has_limit =
        reading.unit != NULL && read_unit(load, reading.unit, &node->unit) && reading.requests != UINT64_MAX;
    node->requests = reading.requests;
}

/* ---- Nodes ---------------------------------------------------------------------------------------------------------- */

struct slice ratelimit_path(struct import *import, const struct ratelimit_domain *domain, uint32_t node)
{
    uint32_t way[RATELIMIT_DEPTH_MAX];
    unsigned depth = 0;
    for (; node != RATELIMIT_NONE && depth < RATELIMIT_DEPTH_MAX; node = domain->nodes[node].parent)
        way[depth++] = node;
    struct text text = { .region = import->region };
    text_add(&text, domain->name);
    while (depth-- > 0) {
        const struct ratelimit_node *step = &domain->nodes[way[depth]];
        text_put(&text, ".");
        text_add(&text, step->key);
        text_put(&text, step->value.len > 0 ? "_" : "");
        text_add(&text, step->value);
    }
    return (struct slice){ text.at == NULL ? "" : text.at, text.len };
}

static bool is_taken(const struct ratelimit_domain *domain, uint32_t up, struct slice name)
{
    for (; up != RATELIMIT_NONE; up = domain->nodes[up].parent)
        if (slice_equals(domain->nodes[up].attribute, name))
            return true;
    return false;
}

/* The name of the entry's attribute, as entry.h says. */
static struct slice name_attribute(struct import *import, const struct ratelimit_domain *domain,
                                   const struct ratelimit_node *node)
{
    char text[WEIR_ATTRIBUTE_NAME_MAX];
    struct slice name = { text, 0 };
    unsigned number = 1;
    do
        name.len = entry_name(node->key, number++, text);
    while (is_taken(domain, node->parent, name));
    return region_copy(import->region, name);
}

static struct ratelimit_node *claim_node(struct import *import, struct ratelimit_domain *domain)
{
    if (domain->count == domain->capacity) {
        size_t capacity = domain->capacity == 0 ? 64 : 2 * domain->capacity;
        struct ratelimit_node *nodes = REGION_NEW(import->region, struct ratelimit_node, capacity);
        if (nodes == NULL)
            return NULL;
        if (domain->count > 0)
            memcpy(nodes, domain->nodes, domain->count * sizeof *nodes);
        domain->nodes = nodes;
        domain->capacity = capacity;
    }
    return &domain->nodes[domain->count++];
}

static void read_descriptor(struct load *load, struct import *import, struct ratelimit_domain *domain,
                            struct ratelimit_node *node)
{
    const struct node *given[DESCRIPTOR_FIELDS];
    struct descriptor_reading reading = { .key = NULL };
    if (!schema_read(load, node->yaml, "a descriptor", descriptor_fields, DESCRIPTOR_FIELDS, &reading, given))
        return;
    node->key = read_text(load, "key", reading.key);
    node->value = read_text(load, "value", reading.value);
    if (reading.key != NULL && reading.key->kind == NODE_SCALAR && reading.key->text.len == 0)
        schema_error(load, "key", reading.key, "name the key of the entry", "is empty");
    if (node->key.len > 0 && memchr(node->key.at, ',', node->key.len) != NULL)
        schema_error(load, "key", reading.key, "rename the key here and where descriptors are made",
                     "has a comma, which here stands between the keys of a descriptor");
    node->is_wild = node->value.len > 0 && memchr(node->value.at, '*', node->value.len) != NULL;
    node->pattern = import_pattern(import, node->value, true);
    node->attribute = name_attribute(import, domain, node);
    node->is_shadow = reading.is_shadow;
    node->is_quota = reading.is_quota;
    node->is_metric_only = reading.is_metric || reading.is_value_metric;
    node->is_shared = reading.is_shared;
    node->descriptors = reading.descriptors;
    node->rate_limit = reading.rate_limit;
    if (node->pattern.len > GLOB_MAX)
        schema_error(load, "value", reading.value, "shorten it", "is too long for a pattern");
    if (node->is_shared && !node->is_wild)
        schema_error(load, "share_threshold", given[DESCRIPTOR_FIELDS - 1],
                     "remove it, or write a value with `*`", "stands beside a value without a wildcard");
    struct owner owner = load->owner;
    load->owner = (struct owner){ .what = "descriptor",
                                  .name = ratelimit_path(import, domain, (uint32_t)(node - domain->nodes)) };
    if (node->rate_limit != NULL)
        read_rate_limit(load, node);
    load->owner = owner;
}

/* ---- Twins ---------------------------------------------------------------------------------------------------------- */

struct joined {
    struct slice text; /* key_value, as the service keeps it */
    uint32_t node;
};

static int compare_joined(const void *x, const void *y)
{
    const struct joined *a = x, *b = y;
    size_t len = a->text.len < b->text.len ? a->text.len : b->text.len;
    int order = len == 0 ? 0 : memcmp(a->text.at, b->text.at, len);
    if (order == 0)
        order = (a->text.len > b->text.len) - (a->text.len < b->text.len);
    return order != 0 ? order : (a->node > b->node) - (a->node < b->node);
}

static void find_twins(struct import *import, const struct ratelimit_domain *domain, uint32_t first,
                       size_t count)
{
    struct joined *all = REGION_NEW(import->region, struct joined, count + 1);
    for (size_t i = 0; all != NULL && i < count; i++) {
        const struct ratelimit_node *node = &domain->nodes[first + i];
        struct text text = { .region = import->region };
        text_add(&text, node->key);
        text_put(&text, node->value.len > 0 ? "_" : "");
        text_add(&text, node->value);
        all[i] = (struct joined){ { text.at == NULL ? "" : text.at, text.len }, first + (uint32_t)i };
    }
    if (all == NULL)
        return;
    qsort(all, count, sizeof *all, compare_joined);
    for (size_t i = 1; i < count; i++) {
        const struct ratelimit_node *node = &domain->nodes[all[i].node];
        struct shown path;
        if (all[i].text.len > 0 && slice_equals(all[i].text, all[i - 1].text))
            IMPORT_ERROR(import, node->yaml->place, "keep one of the two",
                         "%s is there twice; first in line %u",
                         shown(ratelimit_path(import, domain, all[i].node), &path),
                         domain->nodes[all[i - 1].node].yaml->place.line);
    }
}

/* ---- The tree --------------------------------------------------------------------------------------------------------- */

/* Read the children of `parent` behind the nodes that there are. */
static void read_level(struct load *load, struct import *import, struct ratelimit_domain *domain,
                       uint32_t parent, const struct node *list)
{
    uint32_t first = (uint32_t)domain->count;
    unsigned depth = parent == RATELIMIT_NONE ? 1 : domain->nodes[parent].depth + 1;
    bool is_nothing = list == NULL || (list->kind == NODE_SCALAR && list->is_plain && list->text.len == 0);
    if (is_nothing || !schema_is_list(load, "descriptors", list, "write a list: `- key: ...` for each"))
        return;
    for (const struct node *yaml = list->first; yaml != NULL; yaml = yaml->next) {
        struct ratelimit_node *node = claim_node(import, domain);
        if (node == NULL)
            return;
        *node = (struct ratelimit_node){ .parent = parent,
                                         .depth = depth,
                                         .yaml = yaml,
                                         .unit = -1,
                                         .level_first = first,
                                         .level_count = list->count };
        read_descriptor(load, import, domain, node);
    }
    if (parent != RATELIMIT_NONE) {
        domain->nodes[parent].first = first;
        domain->nodes[parent].count = list->count;
    }
    find_twins(import, domain, first, list->count);
}

/* Blanks and comments alone. */
static bool is_empty(struct slice text)
{
    bool is_comment = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        is_comment = c == '\n' ? false : is_comment || c == '#';
        if (!is_comment && c != ' ' && c != '\t' && c != '\r' && c != '\n')
            return false;
    }
    return true;
}

bool ratelimit_read(struct import *import, const struct import_file *file, struct ratelimit_domain *out)
{
    const struct node *given[ROOT_FIELDS];
    struct root_reading reading = { NULL, NULL };
    struct load load = { .region = import->region,
                         .scratch = import->region,
                         .diagnostics = import->diagnostics };

    *out = (struct ratelimit_domain){ .file = file };
    diagnostics_use(import->diagnostics, file->source);
    if (is_empty(file->text)) {
        IMPORT_ERROR(import, ((struct place){ 0, 0, 0 }), "begin it with `domain: NAME`", "the file is empty");
        return false;
    }
    if (yaml_read(import->region, file->text, import->diagnostics, &out->root) != 0 || out->root == NULL)
        return false;
    if (!schema_read(&load, out->root, "the file", root_fields, ROOT_FIELDS, &reading, given))
        return false;
    out->name = read_text(&load, "domain", reading.domain);
    if (reading.domain != NULL && reading.domain->kind == NODE_SCALAR && reading.domain->text.len == 0)
        schema_error(&load, "domain", reading.domain, "name the domain", "is empty");
    read_level(&load, import, out, RATELIMIT_NONE, reading.descriptors);
    for (uint32_t i = 0; i < out->count; i++) /* grows while it goes: each level behind the last */
        if (out->nodes[i].descriptors != NULL)
            read_level(&load, import, out, i, out->nodes[i].descriptors);
    return !import->region->has_failed;
}
