// SPDX-License-Identifier: Apache-2.0
/* check.c - findings that need the whole contract: names taken twice, limits that weir.h refuses, gaps between limits. */
#include <stdio.h>
#include <stdlib.h>

#include "rule/request.h"

/* The value of a field of a limit as the document has it; the limit itself where it has none. */
static const struct node *value_of(const struct node *limit, const char *field)
{
    if (limit->kind == NODE_MAP)
        for (const struct node *key = limit->first; key != NULL; key = key->next->next)
            if (slice_equals(key->text, slice_of(field)))
                return key->next;
    return limit;
}

const struct node *contract_limit_node(const struct load *load, size_t index)
{
    const struct node *node = load->limits->first;
    while (index-- > 0)
        node = node->next;
    return node;
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

struct named {
    const char *name;
    const struct node *node;
    size_t index;
};

static int compare_names(const void *x, const void *y)
{
    const struct named *a = x;
    const struct named *b = y;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static void find_twins(struct load *load)
{
    const struct rules *rules = load->rules;
    struct named *names = REGION_NEW(load->scratch, struct named, rules->limit_count + 1);
    size_t count = 0, index = 0;
    if (names == NULL || rules->limit_count == 0)
        return;
    for (const struct node *node = load->limits->first; node != NULL; node = node->next, index++)
        if (rules->list[index].limit.name != NULL)
            names[count++] = (struct named){ rules->list[index].limit.name, node, index };
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i].name, names[i - 1].name) == 0)
            diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, value_of(names[i].node, "name")->place,
                            "give each limit a name of its own", "name '%s' is taken by the limit in line %u",
                            names[i].name, names[i - 1].node->place.line);
}

/* ---- What weir.h refuses ------------------------------------------------------------------------------------------- */

/* The field that a code is about. */
static const char *field_of(int code)
{
    static const struct {
        int code;
        const char *field;
    } rows[] = {
        { WEIR_ERR_BURST, "burst" },
        { WEIR_ERR_ZONE, "align" },
        { WEIR_ERR_ALIGN, "align" },
        { WEIR_ERR_NAME, "name" },
        { WEIR_ERR_ALGORITHM, "algorithm" },
        { WEIR_ERR_DEBT, "debt" },
        { WEIR_ERR_LIMITS, "name" },
        { WEIR_ERR_AT_MOST, "at-most" },
        { WEIR_ERR_HOLD, "hold" },
        { WEIR_ERR_WAIT, "wait" },
        { WEIR_ERR_PERMIT_MEMORY, "at-most" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            return rows[i].field;
    return "rate";
}

/* Tell about the owner why weir.h refuses it. The sentence of a code is "what is wrong: what to do", or only the first. */
void contract_report_code(struct load *load, const struct node *map, const char *field, int code)
{
    char problem[160];
    const char *sentence = weir_error_text(code);
    const char *colon = strstr(sentence, ": ");
    (void)snprintf(problem, sizeof problem, "%.*s",
                   (int)(colon == NULL ? strlen(sentence) : (size_t)(colon - sentence)), sentence);
    schema_error(load, field, value_of(map, field), colon == NULL ? "change it so that it holds" : colon + 2,
                 "cannot be kept: %s", problem);
}

static void report_refused(struct load *load, const struct rule *rule, const struct node *limit, int code)
{
    load->owner = (struct owner){ .what = "limit", .name = slice_of(rule->limit.name) };
    contract_report_code(load, limit, field_of(code), code);
    load->owner = (struct owner){ 0 };
}

/* The line of the earlier override of this key. */
static unsigned line_of_twin(const struct override *first, const struct override *twin)
{
    while (first < twin
           && (first->key_len != twin->key_len || memcmp(first->key, twin->key, twin->key_len) != 0))
        first++;
    return first->node->place.line;
}

static int add_overrides(struct load *load, struct weir_change *change, weir_limit_id id,
                         const struct rule *rule)
{
    load->owner = (struct owner){ .what = "an override of limit", .name = slice_of(rule->limit.name) };
    for (size_t i = 0; i < rule->overrides.count; i++) {
        const struct override *override = &rule->override_list[i];
        int error = weir_change_override(change, id, override->key, override->key_len, &override->size);
        if (error == WEIR_ERR_MEMORY)
            return error;
        if (error == WEIR_ERR_OVERRIDE)
            schema_error(load, "key", value_of(override->node, "key"), "keep one of the two",
                         "has an override already, in line %u", line_of_twin(rule->override_list, override));
        else if (error != 0)
            contract_report_code(load, override->node, field_of(error), error);
        if (error == WEIR_ERR_LIMITS) /* it would be said of all that follow */
            break;
    }
    load->owner = (struct owner){ 0 };
    return 0;
}

/*
 * As the limiter takes it. A limit that is shared is another one, which starts afresh: its counters lie elsewhere. So what holds
 * many keys in little memory is not kept back for it.
 */
static int add_limit(struct load *load, struct weir_change *change, const struct rule *rule, weir_limit_id *id)
{
    struct weir_limit limit = rule->limit;
    struct text form = { .region = load->scratch };
    if (rule_is_shared(rule)) {
        text_format(&form, "fleet:%s", limit.key_form);
        if (form.at == NULL)
            return WEIR_ERR_MEMORY;
        limit.key_form = form.at;
        if (rule->algorithm == WEIR_CONCURRENCY || rule->algorithm == WEIR_SLIDING_LOG)
            limit.when_full = WEIR_FULL_CLOSED;
    }
    return weir_change_limit(change, &limit, id);
}

int contract_add_limits(struct load *load, struct weir_change *change)
{
    struct rules *rules = load->rules;
    find_twins(load);
    if (load->limits == NULL || rules->list == NULL)
        return 0;
    const struct node *node = load->limits->first;
    for (size_t i = 0; i < rules->limit_count; i++, node = node->next) {
        const struct rule *rule = &rules->list[i];
        weir_limit_id id = WEIR_NO_LIMIT;
        int error = rule->is_countable ? add_limit(load, change, rule, &id) : 0;
        if (error != 0 && error != WEIR_ERR_MEMORY
            && error != WEIR_ERR_DUPLICATE) { /* that is find_twins()'s */
            report_refused(load, rule, node, error);
            error = 0;
        }
        if (error == 0 && id != WEIR_NO_LIMIT)
            error = add_overrides(load, change, id, rule);
        if (error == WEIR_ERR_MEMORY)
            return error;
    }
    return 0;
}

/* What is taken from a pool together, and the limits that take it. */
static const struct pool {
    int code, algorithm;
    const char *problem, *cure;
} pools[] = {
    { WEIR_ERR_LOG_MEMORY, WEIR_SLIDING_LOG, "the log stamps are used up", "raise memory: { log-stamps }" },
    { WEIR_ERR_PERMIT_MEMORY, WEIR_CONCURRENCY, "the permits are used up",
      "raise memory: { permits }, or write `when-full: closed`: else keys that find no room need as many once "
      "more" },
};

/* The limit that takes from the pool, if there is only one; its index or limit_count. */
static size_t only_taker(const struct rules *rules, const struct pool *pool)
{
    size_t found = rules->limit_count;
    for (size_t i = 0; i < rules->limit_count; i++) {
        if (rules->list[i].algorithm != pool->algorithm)
            continue;
        if (found < rules->limit_count)
            return rules->limit_count;
        found = i;
    }
    return found;
}

static void report_pool(struct load *load, const struct pool *pool)
{
    const struct rules *rules = load->rules;
    const struct node *node = load->limits->first;
    size_t taker = only_taker(rules, pool);
    for (size_t i = 0; node != NULL && i < taker; i++)
        node = node->next;
    if (taker == rules->limit_count || node == NULL) {
        schema_error(load, "limits", load->limits, pool->cure, "cannot be kept together: %s", pool->problem);
        return;
    }
    const struct rule *rule = &rules->list[taker];
    const char *field = field_of(pool->code);
    if (rule->overrides.count > rule->overrides.unlimited && rule->overrides.most > rule_capacity(rule))
        field = "overrides"; /* theirs is the larger share */
    load->owner = (struct owner){ .what = "limit", .name = slice_of(rule->limit.name) };
    schema_error(load, field, value_of(node, field), pool->cure, "cannot be kept: %s", pool->problem);
    load->owner = (struct owner){ 0 };
}

void contract_report_commit(struct load *load, int code)
{
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        if (pools[i].code == code) {
            report_pool(load, &pools[i]);
            return;
        }
    schema_error(load, "limits", load->limits, "change fewer at once, or restart the program",
                 "cannot be kept together: there are too many different sizes, old ones included");
}

/* ---- Requests that meet no limit ------------------------------------------------------------------------------------ */

/*
 * For each limit that is skipped where a key attribute is missing: build such a request, as plain as the limit's
 * `when` allows, and ask the matcher. One that meets nothing is a proof that the contract has a gap, so there are no
 * false alarms; a gap that only odder requests fall through is not found.
 */

/* Ten thousand limits by tenant have one gap, not ten thousand: after a few the point is made. */
#define GAPS_MAX 8

/* At the auth doors every request has these. */
static struct slice door_value(struct slice name)
{
    static const struct {
        const char *name, *value;
    } rows[] = { { "ip", "192.0.2.1" }, { "method", "GET" }, { "host", "example.org" }, { "path", "/x" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (slice_equals(name, slice_of(rows[i].name)))
            return slice_of(rows[i].value);
    return (struct slice){ NULL, 0 };
}

/* A value that the pattern matches: each run of stars becomes an x. */
static struct slice sample(struct slice pattern, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < pattern.len; i++) {
        bool is_star = pattern.at[i] == '*';
        if (pattern.at[i] == '\\' && i + 1 < pattern.len)
            i++;
        else if (is_star && i > 0 && pattern.at[i - 1] == '*')
            continue;
        out[len++] = is_star ? 'x' : pattern.at[i];
    }
    return (struct slice){ out, len };
}

struct witness {
    struct request_values values;
    char samples[WEIR_ATTRIBUTES_MAX][GLOB_MAX];
    char ip[ADDRESS_TEXT_MAX];
    uint32_t met[WEIR_ASKS_MAX];
};

static void set_ip(struct witness *witness, unsigned attribute, const struct address *address)
{
    size_t len = address_format(address, witness->ip);
    witness->values.values[attribute] = (struct slice){ witness->ip, len };
    witness->values.ip = *address;
    witness->values.has_ip = true;
}

/* Give the attribute of one condition a value that meets it. False: none was found. */
static bool satisfy(struct witness *witness, const struct condition *condition, size_t index)
{
    struct slice *value = &witness->values.values[condition->attribute];
    if (condition->kind == CONDITION_ABSENT) {
        witness->values.has_ip = witness->values.has_ip && value->at != witness->ip;
        *value = (struct slice){ NULL, 0 };
    } else if (condition->kind == CONDITION_PRESENT) {
        *value = value->len > 0 ? *value : SLICE("x");
    } else if (!condition->is_negated && condition->kind == CONDITION_NETWORKS) {
        set_ip(witness, condition->attribute, &condition->networks[0].address);
    } else if (!condition->is_negated) {
        *value = sample(condition->patterns[0], witness->samples[index]);
    }
    return condition_holds(condition, witness->values.values,
                           witness->values.has_ip ? &witness->values.ip : NULL);
}

/* A request that the limit's `when` fits and that lacks attribute `lacking`. False: there is none, or none this plain. */
static bool build_witness(const struct rules *rules, const struct rule *rule, unsigned lacking,
                          struct witness *witness)
{
    struct request_values *values = &witness->values;
    memset(values->values, 0, rules->attributes.count * sizeof *values->values);
    values->has_ip = false;
    for (unsigned i = 0; i < rules->attributes.count; i++) {
        struct address address;
        values->values[i] = door_value(rules->attributes.slots[i].name);
        if (rules->attributes.slots[i].spelling == SPELLING_IP && address_parse(values->values[i], &address))
            set_ip(witness, i, &address);
    }
    for (size_t i = 0; i < rule->condition_count; i++)
        if (!satisfy(witness, &rule->conditions[i], i))
            return false;
    return values->values[lacking].len == 0;
}

static void describe(const struct rules *rules, const struct witness *witness, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < rules->attributes.count && len < size; i++) {
        struct slice value = witness->values.values[i];
        struct shown value_shown;
        if (value.len > 0)
            len += (size_t)snprintf(out + len, size - len, " %s=%s", rules->attributes.slots[i].name.at,
                                    shown(value, &value_shown));
    }
}

static bool warn_gap(struct load *load, const struct rule *rule, const struct node *node,
                     struct witness *witness)
{
    const struct rules *rules = load->rules;
    for (size_t i = 0; i < rule->key_count; i++) {
        struct slice name = rules->attributes.slots[rule->key[i]].name;
        char text[200];
        if (door_value(name).len > 0 || !build_witness(rules, rule, rule->key[i], witness)
            || matcher_find(rules->matcher, witness->values.values,
                            witness->values.has_ip ? &witness->values.ip : NULL, witness->met, WEIR_ASKS_MAX)
                   > 0)
            continue;
        describe(rules, witness, text, sizeof text);
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING, value_of(node, "key")->place,
                        "write `missing-key: share` or `refuse`, or add a limit with `when: { ...: absent }`",
                        "a request without '%s' meets no limit at all: limit '%s' skips it (for instance%s)",
                        name.at, rule->limit.name, text[0] == '\0' ? " an empty one" : text);
        return true;
    }
    return false;
}

/* A key attribute that `when` wants absent: the limit can never apply, or has one budget for everybody. */
static bool warn_constant(struct load *load, const struct rule *rule, const struct node *node)
{
    for (size_t i = 0; i < rule->key_count; i++)
        for (size_t j = 0; j < rule->condition_count; j++)
            if (rule->conditions[j].attribute == rule->key[i] && rule->conditions[j].kind == CONDITION_ABSENT) {
                diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING, value_of(node, "key")->place,
                                "take another key, such as [ip], or `key: []` for one budget for everybody",
                                "limit '%s' is for requests without '%s', and counts them by it: %s",
                                rule->limit.name, load->rules->attributes.slots[rule->key[i]].name.at,
                                rule->missing_key == MISSING_SKIP ? "it never applies"
                                                                  : "they all share one budget");
                return true;
            }
    return false;
}

void contract_warn(struct load *load)
{
    const struct rules *rules = load->rules;
    struct witness *witness = REGION_NEW(load->scratch, struct witness, 1);
    if (witness == NULL || load->limits == NULL)
        return;
    if (rules->limit_count == 0)
        diagnostics_add(load->diagnostics, WEIR_SEVERITY_WARNING, load->limits->place, "add a limit",
                        "the contract has no limits: every request is allowed");
    const struct node *node = load->limits->first;
    unsigned gaps = 0;
    for (size_t i = 0; i < rules->limit_count; i++, node = node->next) {
        if (!warn_constant(load, &rules->list[i], node) && rules->list[i].missing_key == MISSING_SKIP
            && gaps < GAPS_MAX)
            gaps += warn_gap(load, &rules->list[i], node, witness);
    }
}
