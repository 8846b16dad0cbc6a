// SPDX-License-Identifier: Apache-2.0
/* schema_when.c - a limit's `when`: attribute names with patterns, networks, or the words present and absent. */
#include <stdio.h>

#include "rule/contract.h"
#include "rule/host.h"
#include "rule/path.h"

/* A request has at most this many attributes, so more conditions could not all hold for a reason. */
#define CONDITIONS_MAX WEIR_ATTRIBUTES_MAX

#define WHEN_FORMS \
    "write a pattern, a list of patterns, `present`, `absent`, `{ is: TEXT }`, `{ not: PATTERN-or-list }` or " \
    "`{ in: PATTERN-or-list, not: PATTERN-or-list }`"
#define NETWORK_FORMS \
    "write an address or a network, such as 10.0.0.0/8 or \"2001:db8::/32\", or a list of them"

unsigned schema_attribute(struct load *load, const char *field, const struct node *name)
{
    const char *cure = "a name is 1 to 32 of a-z, 0-9 and '-', and begins with a letter";
    if (name->kind == NODE_BAD)
        return ATTRIBUTE_NONE;
    const char *problem = node_scalar_problem(name);
    if (problem == NULL && !attribute_name_is_valid(name->text))
        problem = "is not the name of an attribute";
    if (problem != NULL) {
        schema_error(load, field, name, cure, "%s", problem);
        return ATTRIBUTE_NONE;
    }
    struct slice copy = region_copy(load->region, name->text);
    unsigned number = copy.at == NULL ? ATTRIBUTE_NONE : attribute_claim(&load->rules->attributes, copy);
    if (number == ATTRIBUTE_NONE && copy.at != NULL)
        schema_error(load, field, name, "use fewer names", "is one more than the %d that a contract may read",
                     MATCH_ATTRIBUTES_MAX);
    return number;
}

/* ---- Patterns that can never match ---------------------------------------------------------------------------- */

static bool has_any(struct slice text, const char *bytes)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] != '\0' && strchr(bytes, text.at[i]) != NULL)
            return true;
    return false;
}

static bool has_upper(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (ascii_lower(text.at[i]) != text.at[i])
            return true;
    return false;
}

/* Why no normalised path or host can match, or NULL. `should_be` is set where the one spelling is known. */
static const char *why_unreachable(enum spelling spelling, struct slice pattern, char *storage,
                                   struct slice *should_be)
{
    bool is_plain = glob_is_exact(pattern) && !has_any(pattern, "\\");
    if (spelling == SPELLING_PATH) {
        if (has_any(pattern, "?#"))
            return "a path ends before '?' (the rest is the attribute query)";
        if (pattern.at[0] != '/' && pattern.at[0] != '*' && pattern.at[0] != '\\')
            return "a path begins with '/'";
        if (is_plain && path_normalise(pattern, storage, should_be) == PATH_OK
            && !slice_equals(*should_be, pattern))
            return "paths are brought into one spelling first";
    } else if (spelling == SPELLING_HOST) {
        if (has_upper(pattern))
            return "hosts are brought into lower case first";
        if (is_plain && host_normalise(pattern, storage, should_be) && !slice_equals(*should_be, pattern))
            return "hosts lose their port and final dot first";
    }
    return NULL;
}

static void warn_unreachable(struct load *load, const char *attribute, enum spelling spelling,
                             const struct node *node, struct slice pattern)
{
    char storage[WEIR_ATTRIBUTE_MAX], cure[128] = "write the pattern in that spelling";
    struct slice should_be = { NULL, 0 };
    struct shown value;
    struct owner_text owner;
    const char *why = why_unreachable(spelling, pattern, storage, &should_be);
    if (why == NULL)
        return;
    if (should_be.len > 0)
        (void)snprintf(cure, sizeof cure, "write %s", shown(should_be, &value));
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING, node->place, cure, "%s %s%s can never match: %s",
                    attribute, shown(pattern, &value), owner_text(&load->owner, " of ", &owner), why);
}

/* ---- One pattern ---------------------------------------------------------------------------------------------- */

/* What stands under one attribute, being collected. */
struct patterns {
    const char *attribute;
    enum spelling spelling;
    struct slice *globs;
    struct network *networks;
    size_t count;
};

/* TEXT as a pattern that matches it alone. */
static struct slice literal_pattern(struct load *load, struct slice text)
{
    char *at = REGION_NEW(load->region, char, 2 * text.len + 1);
    size_t len = 0;
    for (size_t i = 0; at != NULL && i < text.len; i++) {
        if (text.at[i] == '*' || text.at[i] == '\\')
            at[len++] = '\\';
        at[len++] = text.at[i];
    }
    return (struct slice){ at, len };
}

static void add_network(struct load *load, struct patterns *patterns, const struct node *node)
{
    struct network network;
    enum network_error error = network_parse(node->text, &network);
    if (error == NETWORK_OK) {
        patterns->networks[patterns->count++] = network;
        return;
    }
    char cure[128] = NETWORK_FORMS, text[ADDRESS_TEXT_MAX];
    if (error == NETWORK_HOST_BITS) {
        network_format(&network, text);
        (void)snprintf(cure, sizeof cure, "write %s for the network, or the address alone", text);
    }
    schema_error(load, patterns->attribute, node, cure, "%s", network_error_text(error));
}

static void add_glob(struct load *load, struct patterns *patterns, const struct node *node, bool is_literal)
{
    struct slice pattern =
        is_literal ? literal_pattern(load, node->text) : region_copy(load->region, node->text);
    if (pattern.at == NULL)
        return;
    const char *problem = pattern.len == 0 ? "is empty; an empty value is absent" : glob_check(pattern);
    if (problem != NULL) {
        schema_error(load, patterns->attribute, node, WHEN_FORMS, "%s", problem);
        return;
    }
    warn_unreachable(load, patterns->attribute, patterns->spelling, node, pattern);
    patterns->globs[patterns->count++] = pattern;
}

/* The TEXT of `{ is: TEXT }`, or NULL. */
static const struct node *literal_of(const struct node *node)
{
    bool is_literal =
        node->kind == NODE_MAP && node->count == 1 && slice_equals(node->first->text, SLICE("is"));
    return is_literal ? node->first->next : NULL;
}

static void add_pattern(struct load *load, struct patterns *patterns, const struct node *node)
{
    const struct node *literal = literal_of(node);
    const struct node *text = literal == NULL ? node : literal;
    const char *problem = node_scalar_problem(text);
    const char *cure = patterns->spelling == SPELLING_IP ? NETWORK_FORMS : WHEN_FORMS;
    if (node->kind == NODE_BAD || text->kind == NODE_BAD)
        return;
    if (problem == NULL && literal == NULL
        && (slice_equals(text->text, SLICE("present")) || slice_equals(text->text, SLICE("absent")))) {
        cure = "write `{ is: ... }` for the literal text; for the other meaning write two limits";
        problem = "is a word that cannot stand in a list";
    }
    if (problem != NULL)
        schema_error(load, patterns->attribute, text, cure, "%s", problem);
    else if (patterns->spelling == SPELLING_IP)
        add_network(load, patterns, text);
    else
        add_glob(load, patterns, text, literal != NULL);
}

/* ---- One condition ---------------------------------------------------------------------------------------------- */

/* Reads a pattern or a list of them. */
static void read_patterns(struct load *load, struct patterns *patterns, const struct node *node)
{
    size_t count = node->kind == NODE_LIST ? node->count : 1;
    if (patterns->spelling == SPELLING_IP)
        patterns->networks = REGION_NEW(load->region, struct network, count);
    else
        patterns->globs = REGION_NEW(load->region, struct slice, count);
    if (patterns->networks == NULL && patterns->globs == NULL)
        return;
    if (node->kind != NODE_LIST) {
        add_pattern(load, patterns, node);
        return;
    }
    if (count == 0)
        schema_error(load, patterns->attribute, node, WHEN_FORMS, "is an empty list, which nothing matches");
    for (const struct node *member = node->first; member != NULL; member = member->next)
        add_pattern(load, patterns, member);
}

static bool is_word(const struct node *node, const char *word)
{
    return node->kind == NODE_SCALAR && slice_equals(node->text, slice_of(word));
}

/* Reads what one attribute must be, or with is_negated what it must not be. False: reported. */
static bool read_half(struct load *load, const char *attribute, const struct node *node,
                      struct condition *condition)
{
    enum spelling spelling = load->rules->attributes.slots[condition->attribute].spelling;
    if (is_word(node, "present") || is_word(node, "absent")) {
        bool is_present = is_word(node, "present") != condition->is_negated;
        condition->kind = is_present ? CONDITION_PRESENT : CONDITION_ABSENT;
        condition->is_negated = false;
        return true;
    }
    struct patterns patterns = { .attribute = attribute, .spelling = spelling };
    read_patterns(load, &patterns, node);
    condition->kind = spelling == SPELLING_IP ? CONDITION_NETWORKS : CONDITION_GLOBS;
    condition->dialect = spelling == SPELLING_PATH ? GLOB_PATH : GLOB_TEXT;
    condition->patterns = patterns.globs;
    condition->networks = patterns.networks;
    *(spelling == SPELLING_IP ? &condition->network_count : &condition->pattern_count) = patterns.count;
    return patterns.count > 0;
}

/* `{ in: ..., not: ... }` is two conditions on one attribute. */
static bool is_in_not(const struct node *node)
{
    return node->kind == NODE_MAP && node->count == 2 && node_value(node, "in") != NULL
           && node_value(node, "not") != NULL;
}

/* Reads the value of one attribute of `when` into at most two conditions; gives their number, 0 when reported. */
static size_t read_condition(struct load *load, const char *attribute, const struct node *node,
                             struct condition *out)
{
    if (is_in_not(node)) {
        out[1] = (struct condition){ .attribute = out[0].attribute, .is_negated = true };
        bool is_in = read_half(load, attribute, node_value(node, "in"), &out[0]);
        bool is_not = read_half(load, attribute, node_value(node, "not"), &out[1]);
        return is_in && is_not ? 2 : 0;
    }
    if (node->kind == NODE_MAP && node->count == 1 && is_word(node->first, "not")) {
        out[0].is_negated = true;
        node = node->first->next;
    } else if (node->kind == NODE_MAP && literal_of(node) == NULL) {
        schema_error(load, attribute, node, WHEN_FORMS,
                     "is a map that is neither `{ is: ... }`, `{ not: ... }` nor `{ in: ..., not: ... }`");
        return 0;
    }
    return read_half(load, attribute, node, &out[0]) ? 1 : 0;
}

void parse_when(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rule *rule = into;
    if (value->kind != NODE_MAP) {
        if (value->kind != NODE_BAD)
            schema_error(load, field->name, value,
                         "write `when: { path: \"/v1/**\" }`; leave it out for every request",
                         "is %s, not a map of attributes", node_what(value));
        return;
    }
    if (value->count > CONDITIONS_MAX) {
        schema_error(load, field->name, value, "split the limit", "has more than %d conditions",
                     CONDITIONS_MAX);
        return;
    }
    struct condition *conditions = REGION_NEW(load->region, struct condition, 2 * value->count + 1);
    if (conditions == NULL)
        return;
    for (const struct node *key = value->first; key != NULL; key = key->next->next) {
        struct condition condition = { .attribute = schema_attribute(load, field->name, key) };
        char attribute[sizeof "when." + WEIR_ATTRIBUTE_NAME_MAX] = "when.";
        if (condition.attribute == ATTRIBUTE_NONE)
            continue;
        memcpy(attribute + 5, key->text.at, key->text.len + 1); /* a valid name, with its zero */
        conditions[rule->condition_count] = condition;
        rule->condition_count += read_condition(load, attribute, key->next, &conditions[rule->condition_count]);
    }
    rule->conditions = conditions;
}
