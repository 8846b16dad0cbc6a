// SPDX-License-Identifier: Apache-2.0
/*
 * describe.c - one descriptor of a call of Envoy's rate limit service as a request's attributes.
 *
 * Idea: a descriptor has the attributes that some limit reads, and only those: a value that nobody reads could only refuse it,
 * as with identity.c. A value that is read and cannot be one (too long, a control byte, a path with a bad escape) refuses the
 * descriptor. It is never left out: absent would be a way out, and an error lets the request pass where the proxy fails open.
 *
 * Other descriptors' entries matter to few limits: to those that another replaces, or that do not say which descriptor they are
 * for. Loading marks what these read, and where nobody does the others are not looked at. A call of 64 descriptors of 24 entries
 * names some hundred thousand entries at worst, in ten milliseconds.
 */
#include "rule/describe.h"

#include <assert.h>

#include "base/sha256.h"
#include "rule/entry.h"
#include "rule/glob.h"
#include "rule/request.h"

/* What is read of a call besides its entries' names: their meanings, `domain` and `descriptor`; so each finds its place. */
_Static_assert(WEIR_ENTRIES_MAX + 6 + 2 <= WEIR_ATTRIBUTES_MAX, "a descriptor's own attributes always fit");
_Static_assert(sizeof((struct weir_identity *)0)->storage >= WEIR_ATTRIBUTE_MAX, "the keys fit, joined");

/* ---- Names ---------------------------------------------------------------------------------------------------------- */

struct name {
    char text[WEIR_ATTRIBUTE_NAME_MAX];
    size_t len;
};

/* The names of the entries of one descriptor. */
struct names {
    struct name each[WEIR_ENTRIES_MAX], first[WEIR_ENTRIES_MAX]; /* first: what it would be called alone */
    unsigned numbers[WEIR_ENTRIES_MAX];
    size_t count;
};

static struct slice slice_of_name(const struct name *name)
{
    return (struct slice){ name->text, name->len };
}

static bool is_taken(const struct names *names, struct slice name)
{
    for (size_t i = 0; i < names->count; i++)
        if (slice_equals(slice_of_name(&names->each[i]), name))
            return true;
    return false;
}

/* The lowest number that is free: those up to the last of the same name are not. */
static unsigned next_number(const struct names *names, const struct name *first)
{
    for (size_t i = names->count; i-- > 0;)
        if (slice_equals(slice_of_name(&names->first[i]), slice_of_name(first)))
            return names->numbers[i] + 1;
    return 1;
}

static void add_name(struct names *names, struct slice key)
{
    struct name *first = &names->first[names->count], *name = &names->each[names->count];
    first->len = entry_name(key, 1, first->text);
    unsigned number = next_number(names, first);
    if (number == 1)
        *name = *first;
    else
        name->len = entry_name(key, number, name->text);
    while (is_taken(names, slice_of_name(name)))
        name->len = entry_name(key, ++number, name->text);
    names->numbers[names->count++] = number;
}

static struct slice key_of(const struct weir_entry *entry)
{
    return (struct slice){ entry->key, entry->key_len };
}

static void name_entries(const struct weir_descriptor *descriptor, struct names *names)
{
    names->count = 0;
    for (size_t i = 0; i < descriptor->entry_count; i++)
        add_name(names, key_of(&descriptor->entries[i]));
}

/* ---- Attributes ------------------------------------------------------------------------------------------------------ */

struct describer {
    const struct rules *rules;
    struct weir_identity *out;
    uint64_t
        claimed[MATCH_ATTRIBUTES_MAX / 64]; /* a bit for each attribute that has its value, an empty one too */
};

static void refuse(struct describer *describer, const char *attribute)
{
    if (describer->out->refused == NULL)
        describer->out->refused = attribute;
}

/* Whoever names an attribute first gives its value. */
static bool claim(struct describer *describer, unsigned number)
{
    uint64_t *word = &describer->claimed[number / 64], bit = UINT64_C(1) << number % 64;
    bool is_free = (*word & bit) == 0;
    *word |= bit;
    return is_free;
}

static void put(struct describer *describer, unsigned number, struct slice value)
{
    struct weir_identity *out = describer->out;
    const char *name = describer->rules->attributes.slots[number].name.at;
    if (!claim(describer, number) || value.len == 0)
        return;
    if (out->count == WEIR_ATTRIBUTES_MAX || !request_value_fits(describer->rules, number, value))
        refuse(describer, name);
    else
        out->attributes[out->count++] = (struct weir_attribute){ name, value.at, value.len };
}

/* The attribute's number where it is to be read: of the descriptor itself, or of one beside it. */
static unsigned find(const struct describer *describer, struct slice name, bool is_own)
{
    const struct attribute_table *table = &describer->rules->attributes;
    unsigned number = attribute_find(table, name);
    bool is_wanted =
        number != ATTRIBUTE_NONE && (is_own ? table->slots[number].is_read : table->slots[number].is_beside);
    return is_wanted ? number : ATTRIBUTE_NONE;
}

static void put_entries(struct describer *describer, const struct weir_descriptor *descriptor, bool is_own)
{
    struct names names;
    if (descriptor->entry_count > WEIR_ENTRIES_MAX) {
        refuse(describer, "descriptor");
        return;
    }
    name_entries(descriptor, &names);
    for (size_t i = 0; i < descriptor->entry_count; i++) {
        const struct weir_entry *entry = &descriptor->entries[i];
        struct slice value = { entry->value, entry->value_len };
        const char *meaning = entry_meaning(key_of(entry));
        unsigned number = find(describer, slice_of_name(&names.each[i]), is_own);
        unsigned meant = meaning == NULL ? ATTRIBUTE_NONE : find(describer, slice_of(meaning), is_own);
        if (number != ATTRIBUTE_NONE)
            put(describer, number, value);
        if (meant != ATTRIBUTE_NONE)
            put(describer, meant, value);
    }
}

/* The keys with commas between them. A key that has one itself could pass for two. */
static bool join_keys(const struct weir_descriptor *descriptor, char out[WEIR_ATTRIBUTE_MAX], size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < descriptor->entry_count; i++) {
        const struct weir_entry *entry = &descriptor->entries[i];
        size_t comma = i > 0 ? 1 : 0;
        if (entry->key_len == 0 || memchr(entry->key, ',', entry->key_len) != NULL
            || entry->key_len + comma > WEIR_ATTRIBUTE_MAX - *len)
            return false;
        if (comma > 0)
            out[(*len)++] = ',';
        memcpy(out + *len, entry->key, entry->key_len);
        *len += entry->key_len;
    }
    return true;
}

static void put_descriptor(struct describer *describer, const struct weir_descriptor *descriptor)
{
    unsigned number = find(describer, SLICE("descriptor"), true);
    struct slice keys = { describer->out->storage, 0 };
    if (number == ATTRIBUTE_NONE)
        return;
    if (join_keys(descriptor, describer->out->storage, &keys.len))
        put(describer, number, keys);
    else
        refuse(describer, "descriptor");
}

void weir_contract_describe(const struct weir_contract *contract, const char *domain, size_t domain_len,
                            const struct weir_descriptor *descriptors, size_t count, size_t index,
                            struct weir_identity *out)
{
    struct describer describer = { .rules = contract_rules(contract), .out = out };
    assert(index < count);
    out->count = 0;
    out->refused = NULL;
    unsigned number = find(&describer, SLICE("domain"), true);
    if (number != ATTRIBUTE_NONE)
        put(&describer, number, (struct slice){ domain, domain_len });
    put_descriptor(&describer, &descriptors[index]);
    put_entries(&describer, &descriptors[index], true);
    for (size_t i = 0; describer.rules->reads_beside && i < count && out->refused == NULL; i++)
        if (i != index)
            put_entries(&describer, &descriptors[i], false);
}

/* ---- Whose a limit is that a descriptor brings ------------------------------------------------------------------------------ */

/* Hashes of each part one behind the other, so that no two lists of parts run together. */
static void add_part(unsigned char run[SHA256_LEN], const char *at, size_t len)
{
    unsigned char both[2 * SHA256_LEN];
    memcpy(both, run, SHA256_LEN);
    sha256(at, len, both + SHA256_LEN);
    sha256(both, sizeof both, run);
}

size_t weir_descriptor_key(const char *domain, size_t domain_len, const struct weir_descriptor *descriptor,
                           unsigned char out[WEIR_DESCRIPTOR_KEY_MAX])
{
    memset(out, 0, SHA256_LEN);
    add_part(out, domain, domain_len);
    for (size_t i = 0; i < descriptor->entry_count; i++) {
        add_part(out, descriptor->entries[i].key, descriptor->entries[i].key_len);
        add_part(out, descriptor->entries[i].value, descriptor->entries[i].value_len);
    }
    return SHA256_LEN;
}
_Static_assert(WEIR_DESCRIPTOR_KEY_MAX == SHA256_LEN, "a key is a hash");

/* ---- Loading ---------------------------------------------------------------------------------------------------------- */

/* The one descriptor that the limit is for, its keys joined; false: it is for several, or does not say. */
static bool find_descriptor(const struct rules *rules, const struct rule *rule, char out[WEIR_ATTRIBUTE_MAX],
                            size_t *len)
{
    unsigned number = attribute_find(&rules->attributes, SLICE("descriptor"));
    for (size_t i = 0; i < rule->condition_count; i++) {
        const struct condition *condition = &rule->conditions[i];
        if (condition->attribute != number || condition->kind != CONDITION_GLOBS || condition->is_negated
            || condition->pattern_count != 1 || !glob_is_exact(condition->patterns[0]))
            continue;
        const struct slice pattern = condition->patterns[0];
        *len = 0;
        for (size_t at = 0; at < pattern.len; at++) {
            at += pattern.at[at] == '\\' && at + 1 < pattern.len;
            out[(*len)++] = pattern.at[at];
        }
        return true;
    }
    return false;
}

/* Whether the entries of the descriptor with these keys give the attribute. */
static bool gives(const struct names *names, const struct slice *keys, struct slice attribute)
{
    for (size_t i = 0; i < names->count; i++) {
        const char *meaning = entry_meaning(keys[i]);
        if (slice_equals(slice_of_name(&names->each[i]), attribute)
            || (meaning != NULL && slice_equals(slice_of(meaning), attribute)))
            return true;
    }
    return slice_equals(attribute, SLICE("domain")) || slice_equals(attribute, SLICE("descriptor"));
}

static void mark(struct rules *rules, const struct names *names, const struct slice *keys, unsigned number)
{
    struct attribute_slot *slot = &rules->attributes.slots[number];
    slot->is_read = true;
    slot->is_beside = slot->is_beside || !gives(names, keys, slot->name);
    rules->reads_beside = rules->reads_beside || slot->is_beside;
}

static void prepare_rule(struct rules *rules, const struct rule *rule)
{
    char text[WEIR_ATTRIBUTE_MAX];
    struct slice keys[WEIR_ENTRIES_MAX];
    struct names names = { .count = 0 };
    size_t len = 0;
    if (find_descriptor(rules, rule, text, &len))
        for (size_t at = 0; at <= len && names.count < WEIR_ENTRIES_MAX;) {
            const char *comma = memchr(text + at, ',', len - at);
            struct slice *key = &keys[names.count];
            *key = (struct slice){ text + at, comma == NULL ? len - at : (size_t)(comma - text) - at };
            add_name(&names, *key);
            at += key->len + 1;
        }
    for (size_t i = 0; i < rule->condition_count; i++)
        mark(rules, &names, keys, rule->conditions[i].attribute);
    for (size_t i = 0; i < rule->key_count; i++)
        mark(rules, &names, keys, rule->key[i]);
    if (rule->has_cost_from)
        mark(rules, &names, keys, rule->cost_from);
    if (rule->limit.retries_free_within > 0)
        mark(rules, &names, keys, rule->retry_by);
}

void describe_prepare(struct rules *rules)
{
    for (size_t i = 0; i < rules->limit_count; i++)
        if (rules->list[i].enforce != WEIR_ENFORCE_OFF)
            prepare_rule(rules, &rules->list[i]);
}
