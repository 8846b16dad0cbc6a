// SPDX-License-Identifier: Apache-2.0
/* schema.c - the walker over a map's fields, and the parsers of single values that every table shares. */
#include "rule/schema.h"

#include <stdarg.h>
#include <stdio.h>

#include "rule/contract.h"

/* ---- Reporting --------------------------------------------------------------------------------------------- */

const char *owner_text(const struct owner *owner, const char *before, struct owner_text *into)
{
    struct shown name;
    into->text[0] = '\0';
    if (owner->name.len > 0)
        (void)snprintf(into->text, sizeof into->text, "%s%s '%s'", before, owner->what,
                       shown(owner->name, &name));
    else if (owner->number > 0)
        (void)snprintf(into->text, sizeof into->text, "%s%s %zu", before, owner->what, owner->number);
    else if (owner->what != NULL)
        (void)snprintf(into->text, sizeof into->text, "%s%s", before, owner->what);
    return into->text;
}

const char *node_what(const struct node *node)
{
    switch (node->kind) {
    case NODE_LIST:
        return "a list";
    case NODE_MAP:
        return "a map";
    default:
        return node->text.len == 0 && node->is_plain ? "empty" : "a scalar";
    }
}

void schema_error(struct load *load, const char *field, const struct node *value, const char *cure,
                  const char *problem, ...)
{
    char text[256];
    struct shown value_shown;
    bool is_shown = value->kind == NODE_SCALAR && value->text.len > 0;

    va_list arguments;
    va_start(arguments, problem);
    (void)vsnprintf(text, sizeof text, problem, arguments); /* cut where a name is absurdly long */
    va_end(arguments);
    struct owner_text owner;
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, value->place, cure, "%s%s%s%s %s", field,
                    is_shown ? " " : "", is_shown ? shown(value->text, &value_shown) : "",
                    owner_text(&load->owner, " of ", &owner), text);
}

const char *node_scalar_problem(const struct node *node)
{
    if (node->kind == NODE_SCALAR)
        return node->text.len == 0 && node->is_plain ? "is empty" : NULL;
    return node->kind == NODE_LIST ? "is a list, not one value" : "is a map, not one value";
}

bool schema_is_list(struct load *load, const char *field, const struct node *value, const char *cure)
{
    if (value->kind == NODE_LIST)
        return true;
    bool is_empty = value->kind == NODE_SCALAR && value->text.len == 0;
    if (value->kind != NODE_BAD)
        schema_error(load, field, value, cure, is_empty ? "is empty" : "is not a list");
    return false;
}

/* ---- Near misses ------------------------------------------------------------------------------------------- */

#define NAME_LONGEST 24

/* Edits between two words, neighbours swapped included (optimal string alignment); a large number for long ones. */
static unsigned edit_distance(struct slice x, struct slice y)
{
    unsigned row[3][NAME_LONGEST + 1];
    if (x.len > NAME_LONGEST || y.len > NAME_LONGEST)
        return NAME_LONGEST;
    for (unsigned j = 0; j <= y.len; j++)
        row[0][j] = j;
    for (unsigned i = 1; i <= x.len; i++) {
        unsigned *now = row[i % 3], *above = row[(i + 2) % 3], *higher = row[(i + 1) % 3];
        now[0] = i;
        for (unsigned j = 1; j <= y.len; j++) {
            unsigned best = above[j - 1] + (x.at[i - 1] != y.at[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && x.at[i - 1] == y.at[j - 2] && x.at[i - 2] == y.at[j - 1]
                && higher[j - 2] + 1 < best)
                best = higher[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[x.len % 3][y.len];
}

const char *schema_nearest(struct slice word, const char *(*candidate)(const void *table, size_t index),
                           const void *table, size_t count)
{
    const char *nearest = NULL;
    unsigned least = word.len < 4 ? 2 : 3; /* must be below: one edit in a short word, two in a longer one */
    for (size_t i = 0; i < count; i++) {
        unsigned distance = edit_distance(word, slice_of(candidate(table, i)));
        if (distance < least) {
            least = distance;
            nearest = candidate(table, i);
        }
    }
    return nearest;
}

static const char *field_name(const void *table, size_t index)
{
    return ((const struct field *)table)[index].name;
}

static const char *word_name(const void *table, size_t index)
{
    return ((const struct word *)table)[index].word;
}

/* What other limiters call a thing that we call otherwise. */
static const char *foreign_cure(struct slice name)
{
    static const struct {
        const char *name, *cure;
    } rows[] = {
        { "window", "the period is part of the rate: write `rate: 60/1m`" },
        { "period", "the period is part of the rate: write `rate: 60/1m`" },
        { "interval", "the period is part of the rate: write `rate: 60/1m`" },
        { "unit", "the unit is part of the rate: write `rate: 60/1m`" },
        { "requests-per-unit", "the count is part of the rate: write `rate: 60/1m`" },
        { "requests_per_unit", "the count is part of the rate: write `rate: 60/1m`" },
        { "limit", "the count is part of the rate: write `rate: 60/1m`" },
        { "up-to", "it belongs in `wait`: write `wait: { up-to: 2s, queue: 100 }`" },
        { "queue", "it belongs in `wait`: write `wait: { up-to: 2s, queue: 100 }`" },
        { "capacity", "write `burst`" },
        { "refill", "write `rate: 5/s`" },
        { "match", "write `when`" },
        { "description", "write `about`" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (slice_equals(name, slice_of(rows[i].name)))
            return rows[i].cure;
    return NULL;
}

static void list_names(char *out, size_t size, const char *intro,
                       const char *(*candidate)(const void *, size_t), const void *table, size_t count)
{
    size_t len = (size_t)snprintf(out, size, "%s", intro);
    for (size_t i = 0; i < count && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i == 0 ? "" : ", ", candidate(table, i));
}

void schema_missing(struct load *load, const struct node *map, const struct field *field)
{
    struct owner_text owner;
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, map->place, field->sentence, "%s is missing%s",
                    field->name, owner_text(&load->owner, " for ", &owner));
}

/* ---- The walker -------------------------------------------------------------------------------------------- */

static void report_unknown(struct load *load, const struct node *key, const struct field *fields, size_t count)
{
    struct shown name;
    char cure[400];
    const char *nearest = schema_nearest(key->text, field_name, fields, count);
    const char *foreign = foreign_cure(key->text);
    if (foreign != NULL && nearest == NULL)
        (void)snprintf(cure, sizeof cure, "%s", foreign);
    else if (nearest != NULL)
        (void)snprintf(cure, sizeof cure, "did you mean '%s'?", nearest);
    else
        list_names(cure, sizeof cure, "the fields are ", field_name, fields, count);
    struct owner_text owner;
    diagnostics_add(load->diagnostics, WEIR_SEVERITY_ERROR, key->place, cure, "unknown field '%s'%s",
                    shown(key->text, &name), owner_text(&load->owner, " in ", &owner));
}

static size_t find_field(const struct field *fields, size_t count, struct slice name)
{
    size_t i = 0;
    while (
        i < count
        && (name.len == 0 || name.at[0] != fields[i].name[0] || !slice_equals(name, slice_of(fields[i].name))))
        i++;
    return i;
}

bool schema_read(struct load *load, const struct node *map, const char *what, const struct field *fields,
                 size_t count, void *into, const struct node **given)
{
    memset(given, 0, count * sizeof *given);
    if (map->kind != NODE_MAP) {
        char cure[200];
        (void)snprintf(cure, sizeof cure, "write it as a map of fields: `%s: ...`", fields[0].name);
        if (map->kind != NODE_BAD)
            schema_error(load, what, map, cure, "is %s, not a map of fields", node_what(map));
        return false;
    }
    for (const struct node *key = map->first; key != NULL; key = key->next->next) {
        size_t index = find_field(fields, count, key->text);
        if (key->kind != NODE_SCALAR)
            continue;
        if (index == count)
            report_unknown(load, key, fields, count);
        else if (given[index] == NULL) /* else a duplicate, reported when it was read */
            given[index] = key->next;
    }
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];
        if (given[i] == NULL && field->is_required)
            schema_missing(load, map, field);
        else if (given[i] != NULL)
            field->parse(load, field, given[i], into);
    }
    return true;
}

/* ---- Parsers of one value ---------------------------------------------------------------------------------- */

#define MEMBER(type, into, field) ((type *)(void *)((char *)(into) + (field)->offset))

/* What is wrong with an integer from `min` to `max`, or NULL. */
static const char *integer_problem(const struct node *value, uint64_t min, uint64_t max, uint64_t *out)
{
    const char *problem = node_scalar_problem(value);
    if (problem != NULL)
        return problem;
    if (!value->is_plain)
        return "is quoted text, not an integer";
    if (!slice_to_u64(value->text, UINT64_MAX, out)) {
        bool is_digits = value->text.at[0] != '0';
        for (size_t i = 0; i < value->text.len; i++)
            is_digits = is_digits && value->text.at[i] >= '0' && value->text.at[i] <= '9';
        return is_digits ? "is too large" : "is not a plain integer";
    }
    if (*out < min)
        return "is too small";
    return *out > max ? "is too large" : NULL;
}

void schema_integer(struct load *load, const struct field *field, const struct node *value, void *into,
                    const char *most)
{
    uint64_t number;
    const char *problem = integer_problem(value, field->min, field->max, &number);
    if (problem == NULL) {
        *MEMBER(uint64_t, into, field) = number;
    } else if (value->kind != NODE_BAD) {
        char cure[200];
        (void)snprintf(cure, sizeof cure,
                       "write an integer from %llu to %s: no quotes, sign, fraction, exponent or leading zero",
                       (unsigned long long)field->min, most);
        schema_error(load, field->name, value, cure, "%s", problem);
    }
}

void parse_integer(struct load *load, const struct field *field, const struct node *value, void *into)
{
    char most[24];
    (void)snprintf(most, sizeof most, "%llu", (unsigned long long)field->max);
    schema_integer(load, field, value, into, most);
}

void parse_boolean(struct load *load, const struct field *field, const struct node *value, void *into)
{
    const char *problem = node_scalar_problem(value);
    bool is_true = value->is_plain && slice_equals(value->text, SLICE("true"));
    bool is_false = value->is_plain && slice_equals(value->text, SLICE("false"));
    if (problem == NULL && (is_true || is_false))
        *MEMBER(bool, into, field) = is_true;
    else if (value->kind != NODE_BAD)
        schema_error(load, field->name, value, "write true or false", "%s",
                     problem != NULL ? problem : "is neither true nor false");
}

void parse_text(struct load *load, const struct field *field, const struct node *value, void *into)
{
    const char *problem = node_scalar_problem(value);
    if (problem == NULL && value->text.len == 0)
        problem = "is empty";
    if (problem == NULL && memchr(value->text.at, '\0', value->text.len) != NULL)
        problem = "has a zero byte";
    if (problem == NULL)
        *MEMBER(const char *, into, field) = region_copy(load->region, value->text).at;
    else if (value->kind != NODE_BAD)
        schema_error(load, field->name, value, field->sentence, "%s", problem);
}

/* The value is none of the field's words, or one of a later version. */
static void report_word(struct load *load, const struct field *field, const struct node *value,
                        const struct word *found)
{
    char cure[300];
    size_t count = 0;
    while (field->words[count].word != NULL && field->words[count].later == NULL)
        count++; /* what a later version brings stands last */
    if (strcmp(field->type, "word") != 0
        && field->fallback == NULL) /* it takes more than words, and its sentence says what */
        (void)snprintf(cure, sizeof cure, "%s", field->sentence);
    else
        list_names(cure, sizeof cure, count == 1 ? "the only word of this version is " : "write one of ",
                   word_name, field->words, count);
    const char *problem = node_scalar_problem(value);
    if (found != NULL) {
        schema_error(load, field->name, value, cure,
                     "is not in this version of weir yet: %s will come with a later one", found->later);
    } else if (problem != NULL) {
        schema_error(load, field->name, value, cure, "%s", problem);
    } else {
        const char *nearest = schema_nearest(value->text, word_name, field->words, count);
        if (nearest != NULL)
            (void)snprintf(cure, sizeof cure, "did you mean '%s'?", nearest);
        schema_error(load, field->name, value, cure, "is not a word that this field knows");
    }
}

void parse_word(struct load *load, const struct field *field, const struct node *value, void *into)
{
    const struct word *word = field->words;
    bool is_scalar = value->kind == NODE_SCALAR;
    while (word->word != NULL && !(is_scalar && slice_equals(value->text, slice_of(word->word))))
        word++;
    if (word->word != NULL && word->later == NULL)
        *MEMBER(int, into, field) = word->value;
    else if (value->kind != NODE_BAD)
        report_word(load, field, value, word->word == NULL ? NULL : word);
}

void parse_rate(struct load *load, const struct field *field, const struct node *value, void *into)
{
    struct rate rate;
    const char *problem = node_scalar_problem(value);
    if (problem == NULL)
        problem = rate_parse(value->text, &rate);
    if (problem == NULL)
        *MEMBER(struct rate, into, field) = rate;
    else if (value->kind != NODE_BAD)
        schema_error(load, field->name, value, RATE_FORMS ", and month, year with `align: calendar ZONE`", "%s",
                     problem);
}

void parse_duration(struct load *load, const struct field *field, const struct node *value, void *into)
{
    char cure[200], least[48], most[48];
    weir_ns length = 0;
    const char *forms = "write a length of time"; /* of one that is out of bounds the form is right */
    const char *problem = node_scalar_problem(value);
    if (problem == NULL)
        problem = rate_parse_duration(value->text, &length);
    if (problem != NULL)
        forms = DURATION_FORMS ",";
    if (problem == NULL && length < field->min)
        problem = "is too short";
    if (problem == NULL && length > field->max)
        problem = "is too long";
    if (problem == NULL) {
        *MEMBER(weir_ns, into, field) = length;
    } else if (value->kind != NODE_BAD) {
        duration_format(field->min, least);
        duration_format(field->max, most);
        (void)snprintf(cure, sizeof cure, "%s from %s to %s", forms, least, most);
        schema_error(load, field->name, value, cure, "%s", problem);
    }
}

void parse_attribute(struct load *load, const struct field *field, const struct node *value, void *into)
{
    unsigned number = schema_attribute(load, field->name, value);
    if (number != ATTRIBUTE_NONE)
        *MEMBER(uint16_t, into, field) = (uint16_t)number;
}
