// SPDX-License-Identifier: Apache-2.0
/*
 * schema_override.c - sizes of their own for some keys.
 *
 * A key is written as attributes and read as a request's are, so that `path`, `host` and `ip` are brought into the
 * spelling that will be counted. Read behind the other fields of the limit: what an override leaves out is theirs.
 */
#include <stdarg.h>
#include <stdio.h>

#include "rule/key.h"
#include "rule/request.h"

struct override_reading {
    const struct node *key;
    struct rate rate;
    uint64_t burst, debt, at_most;
    bool is_unlimited;
};

static void parse_key_map(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct override_reading *reading = into;
    if (value->kind == NODE_MAP)
        reading->key = value;
    else if (value->kind != NODE_BAD)
        schema_error(load, field->name, value, field->sentence, "is %s, not a map of attributes",
                     node_what(value));
}

enum { KEY, RATE, BURST, DEBT, AT_MOST, UNLIMITED, OVERRIDE_FIELDS };

#define OVERRIDE(member) offsetof(struct override_reading, member)

static const struct field override_fields[OVERRIDE_FIELDS] = {
    [KEY] = { "key", parse_key_map, "map", 0, .is_required = true,
              .sentence = "say whose size it is: `key: { tenant: acme }`" },
    [RATE] = { "rate", parse_rate, "COUNT/[N]UNIT", OVERRIDE(rate), .fallback = "the limit's",
               .sentence = "say how fast: `rate: 50/s`" },
    [BURST] = { "burst", parse_integer, "integer", OVERRIDE(burst), .max = INT64_MAX, .fallback = "the limit's",
                .sentence = "say how many may pass at once: `burst: 200`" },
    [DEBT] = { "debt", parse_integer, "integer", OVERRIDE(debt), .max = INT64_MAX, .fallback = "the limit's",
               .sentence = "how far a settlement may overdraw" },
    [AT_MOST] = { "at-most", parse_integer, "integer", OVERRIDE(at_most), .min = 1, .max = WEIR_AT_MOST_MAX,
                  .fallback = "the limit's", .sentence = "say how many may run at once: `at-most: 20`" },
    [UNLIMITED] = { "unlimited", parse_boolean, "boolean", OVERRIDE(is_unlimited), .fallback = "false",
                    .sentence = "whether the key is not counted at all" },
};

/* ---- The key --------------------------------------------------------------------------------------------------- */

#define KEY_CURE "name every attribute of the limit's key once, with one value each"

/* "an override of limit 'a' PROBLEM", at the value. */
__attribute__((format(printf, 4, 5))) static void report(struct load *load, const struct node *node,
                                                         const char *cure, const char *problem, ...)
{
    char text[256];
    struct owner_text owner;
    va_list arguments;
    va_start(arguments, problem);
    (void)vsnprintf(text, sizeof text, problem, arguments); /* cut where a value is absurdly long */
    va_end(arguments);
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, node->place, cure, "%s: %s",
                    owner_text(&load->owner, "", &owner), text);
}

/* The attributes as a request would bring them. False: reported. */
static bool read_attributes(struct load *load, const struct node *map,
                            struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX],
                            const struct node *nodes[WEIR_ATTRIBUTES_MAX])
{
    size_t count = 0;
    for (const struct node *name = map->first; name != NULL; name = name->next->next) {
        const struct node *value = name->next;
        const char *problem = node_scalar_problem(value);
        if (problem == NULL && value->text.len == 0)
            problem = "is empty";
        if (name->kind == NODE_BAD || value->kind == NODE_BAD)
            return false;
        if (problem != NULL) {
            report(load, value, KEY_CURE, "the value of '%.40s' %s", name->text.at, problem);
            return false;
        }
        nodes[count] = value;
        attributes[count++] = (struct weir_attribute){ name->text.at, value->text.at, value->text.len };
    }
    return true;
}

static bool has_name(const struct node *map, struct slice name)
{
    for (const struct node *key = map->first; key != NULL; key = key->next->next)
        if (slice_equals(key->text, name))
            return true;
    return false;
}

/* Whether the map names what the limit's key names. */
static bool check_names(struct load *load, const struct rule *rule, const struct node *map)
{
    const struct attribute_slot *slots = load->rules->attributes.slots;
    for (size_t i = 0; i < rule->key_count; i++)
        if (!has_name(map, slots[rule->key[i]].name)) {
            report(load, map, KEY_CURE, "its key lacks '%s', by which the limit counts",
                   slots[rule->key[i]].name.at);
            return false;
        }
    for (const struct node *key = map->first; key != NULL; key = key->next->next) {
        bool is_known = false;
        struct shown name;
        for (size_t i = 0; i < rule->key_count; i++)
            is_known = is_known || slice_equals(key->text, slots[rule->key[i]].name);
        if (!is_known) {
            report(load, key, KEY_CURE, "'%s' is no attribute of the limit's key", shown(key->text, &name));
            return false;
        }
    }
    return true;
}

/* The bytes under which the limit counts this key. False: reported. */
static bool read_key(struct load *load, const struct rule *rule, const struct node *map,
                     struct request_values *values, struct override *out)
{
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    const struct node *nodes[WEIR_ATTRIBUTES_MAX];
    unsigned char key[KEY_PLAIN_MAX];
    struct weir_fault fault;
    bool is_whole;
    if (!check_names(load, rule, map) || map->count != rule->key_count
        || !read_attributes(load, map, attributes, nodes))
        return false;
    struct weir_request request = { .attributes = attributes, .attribute_count = map->count, .cost = 1 };
    if (request_read(load->rules, &request, values, &fault) != 0) {
        report(load, nodes[fault.attribute], "write the value as a request would bring it", "%s",
               fault.message);
        return false;
    }
    struct slice bytes = { (const char *)key, request_key(load->rules, rule, values, key, &is_whole) };
    out->key = (const unsigned char *)region_copy(load->scratch, bytes).at;
    out->key_len = bytes.len;
    return out->key != NULL;
}

/* ---- The size -------------------------------------------------------------------------------------------------- */

/* The same windows in another number: a calendar has no other. */
static bool check_rate(struct load *load, struct rule *rule, const struct rate *rate, const struct node *node)
{
    if (!schema_check_period(load, rule, rate, node))
        return false;
    if (!rule->is_calendar || rate->unit == rule->rate.unit)
        return true;
    schema_error(load, "rate", node, "write it with the unit that the limit has",
                 "counts by another unit than the limit");
    return false;
}

/* Why the limit's algorithm has no such size, and what to do; NULL: it has. */
static const char *size_problem(const struct rule *rule, int size, const char **cure)
{
    bool is_concurrency = rule->algorithm == WEIR_CONCURRENCY;
    *cure =
        is_concurrency ? "write `at-most: 20`" : "remove it: the count of the rate is the most in one period";
    if (size == AT_MOST) {
        *cure = "remove it: give the key another rate";
        return is_concurrency ? NULL : "means nothing for a";
    }
    if (size == RATE)
        return is_concurrency ? "means nothing for a" : NULL;
    if (size == BURST && rule->algorithm == WEIR_LEAKY_QUEUE) {
        *cure = "remove it: give the key another rate";
        return "is always 1 for a";
    }
    return rule_is_bucket(rule) ? NULL : "means nothing for a";
}

static bool check_fields(struct load *load, const struct rule *rule, const struct node *node,
                         const struct override_reading *reading, const struct node *const *given)
{
    static const int sizes[] = { RATE, BURST, DEBT, AT_MOST };
    bool is_fine = true, has_size = false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct field *field = &override_fields[sizes[i]];
        const struct node *value = given[sizes[i]];
        const char *cure, *problem = size_problem(rule, sizes[i], &cure);
        if (value == NULL)
            continue;
        has_size = true;
        if (reading->is_unlimited)
            schema_error(load, field->name, value, "remove it, or `unlimited`",
                         "means nothing beside `unlimited: true`");
        else if (problem != NULL)
            schema_error(load, field->name, value, cure, "%s %s", problem, schema_algorithm(rule));
        else if (sizes[i] == DEBT && reading->debt > 0 && rule_is_leased(rule))
            schema_error(load, field->name, value, "remove it, or remove the lease", LEASED_DEBT);
        else
            continue;
        is_fine = false;
    }
    if (!has_size && !reading->is_unlimited) {
        report(load, node,
               rule->algorithm == WEIR_CONCURRENCY ? "give it an at-most, or `unlimited: true`"
                                                   : "give it a rate or a burst, or `unlimited: true`",
               "it changes nothing");
        is_fine = false;
    }
    return is_fine;
}

static void add_facts(struct rule *rule, const struct override_reading *reading, const struct weir_size *size)
{
    struct override_facts *facts = &rule->overrides;
    uint64_t capacity = rule->algorithm == WEIR_CONCURRENCY ? size->at_most
                        : rule_is_bucket(rule)              ? size->burst
                                                            : size->rate.count;
    facts->count++;
    facts->unlimited += size->is_unlimited;
    if (size->is_unlimited)
        return;
    if (facts->least > facts->most || capacity > facts->most) {
        facts->most = capacity;
        facts->most_rate = reading->rate;
    }
    if (capacity < facts->least)
        facts->least = capacity;
}

/* ---- The list -------------------------------------------------------------------------------------------------- */

/* Reads one override into *out. False: reported. */
static bool read_override(struct load *load, struct rule *rule, const struct node *node,
                          struct request_values *values, struct override *out)
{
    const struct node *given[OVERRIDE_FIELDS];
    struct override_reading reading = {
        .rate = rule->rate, .burst = rule->burst, .debt = rule->debt, .at_most = rule->limit.at_most
    };
    size_t errors = diagnostics_errors(load->diagnostics);
    if (!schema_read(load, node, "a member of overrides", override_fields, OVERRIDE_FIELDS, &reading, given)
        || reading.key == NULL || diagnostics_errors(load->diagnostics) > errors)
        return false;
    bool is_fine = check_fields(load, rule, node, &reading, given);
    if (rule->algorithm != WEIR_CONCURRENCY && given[RATE] != NULL
        && !check_rate(load, rule, &reading.rate, given[RATE]))
        is_fine = false;
    if (!read_key(load, rule, reading.key, values, out) || !is_fine)
        return false;
    out->node = node;
    out->size = (struct weir_size){ .rate = { reading.rate.count, reading.rate.period },
                                    .burst = rule_is_bucket(rule) ? reading.burst : 0,
                                    .debt = reading.debt,
                                    .at_most = reading.at_most,
                                    .is_unlimited = reading.is_unlimited };
    struct weir_shared_size shared;
    if (rule_is_shared(rule) && rule->is_countable && !schema_check_size(load, rule, &out->size, node, &shared))
        return false;
    add_facts(rule, &reading, &out->size);
    return true;
}

void schema_read_overrides(struct load *load, struct rule *rule, const struct node *list)
{
    if (!schema_is_list(load, "overrides", list,
                        "write a list: `- { key: { tenant: acme }, rate: 50/s, burst: 200 }`"))
        return;
    if (rule->key_count == 0 && list->count > 0) {
        schema_error(load, "overrides", list, "remove them, or give the limit a key",
                     "mean nothing for a limit with one budget for everybody");
        return;
    }
    struct override *overrides = REGION_NEW(load->scratch, struct override, list->count + 1);
    struct request_values *values = REGION_NEW(load->scratch, struct request_values, 1);
    struct owner owner = load->owner;
    load->owner.what = "an override of limit";
    rule->overrides = (struct override_facts){ .least = UINT64_MAX };
    for (const struct node *node = list->first; overrides != NULL && values != NULL && node != NULL;
         node = node->next)
        if (node->kind != NODE_BAD)
            (void)read_override(load, rule, node, values, &overrides[rule->overrides.count]);
    load->owner = owner;
    rule->override_list = overrides;
}
