// SPDX-License-Identifier: Apache-2.0
/*
 * step.c - one step of a timeline: when, what, how often.
 *
 * What a step does is the field that names it: `request`, or one operation beside it. One table says for each of these
 * which other fields go with it. Attribute names and values are judged by the contract when the step is played, as at any
 * door.
 */
#include "sim/fields.h"

struct reader {
    struct timeline *timeline;
    struct timeline_step *step;
};

/* ---- Common fields --------------------------------------------------------------------------------------- */

enum {
    AT = 1 << STEP_KIND_COUNT,
    TIMES = AT << 1,
    COST = AT << 2,
    PEEK = AT << 3,
    AS = AT << 4,
    EXPECT = AT << 5,
    ABOUT = AT << 6,
};

static void note_field(struct fields *fields, struct timeline_step *step)
{
    step->fields |= (unsigned)fields->field->argument;
}

static bool read_at(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return field_duration(fields, node, &reader->step->at);
}

static bool read_times(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return field_integer(fields, node, 1, TIMELINE_TIMES_MAX, &reader->step->times);
}

static bool read_cost(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return field_integer(fields, node, 0, INT64_MAX, &reader->step->request.cost);
}

static bool read_peek(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return field_boolean(fields, node, &reader->step->request.is_peek);
}

static bool read_expect(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return expect_read(fields, node, reader->step);
}

static bool read_about(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return field_read_about(fields, node, NULL);
}

/* ---- Attributes ------------------------------------------------------------------------------------------ */

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

static bool read_attributes(struct fields *fields, const struct tree_node *node, struct timeline_step *step)
{
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

/* `request`, `reserve`, `refund`. */
static bool read_asked(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return read_attributes(fields, node, reader->step);
}

/* ---- Operations ------------------------------------------------------------------------------------------ */

/* `as`, `settle`, `cancel`: the name of a reservation. */
static bool read_handle(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    reader->step->handle_name = node->text;
    return (node->kind == TREE_SCALAR && node->text.len > 0)
           || field_fault(fields, node, "write the word behind `as`", "is no name of a reservation");
}

static bool read_reset_limit(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline_step *step = into;
    step->limit = node->text.at;
    return (node->kind == TREE_SCALAR && node->text.len > 0
            && memchr(node->text.at, '\0', node->text.len) == NULL)
           || field_fault(fields, node, "write a limit's name", "is no name of a limit");
}

static bool read_reset_key(struct fields *fields, const struct tree_node *node, void *into)
{
    return read_attributes(fields, node, into);
}

static bool read_reset(struct fields *fields, const struct tree_node *node, void *into)
{
    static const struct field table[] = {
        { "limit", FIELD_REQUIRED, read_reset_limit, 0 },
        { "key", FIELD_REQUIRED, read_reset_key, 0 },
    };
    struct reader *reader = into;
    note_field(fields, reader->step);
    return fields_read(fields->tree, node, "reset", table, sizeof table / sizeof *table, reader->step);
}

static bool read_reload(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return contract_source_read(fields, node, reader->timeline->name, &reader->step->contract);
}

static bool read_restart(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    bool is_true;
    note_field(fields, reader->step);
    return (field_boolean(fields, node, &is_true) && is_true)
           || field_fault(fields, node, "write `restart: true`, or no step", "restarts nothing");
}

static const struct {
    const char *name;
    unsigned takes; /* fields beside at, expect and about */
} kinds[] = {
    [STEP_REQUEST] = { "request", TIMES | COST | PEEK },
    [STEP_RESERVE] = { "reserve", TIMES | COST | AS },
    [STEP_SETTLE] = { "settle", COST },
    [STEP_CANCEL] = { "cancel", 0 },
    [STEP_REFUND] = { "refund", COST },
    [STEP_RESET] = { "reset", 0 },
    [STEP_RELOAD] = { "reload", 0 },
    [STEP_RESTART] = { "restart", 0 },
};
_Static_assert(sizeof kinds / sizeof *kinds == STEP_KIND_COUNT, "a kind of step lacks its row");

const char *step_kind_name(enum step_kind kind)
{
    return kinds[kind].name;
}

static const struct field table[] = {
    { "at", FIELD_OPTIONAL, read_at, AT },
    { "request", FIELD_OPTIONAL, read_asked, 1 << STEP_REQUEST },
    { "reserve", FIELD_OPTIONAL, read_asked, 1 << STEP_RESERVE },
    { "settle", FIELD_OPTIONAL, read_handle, 1 << STEP_SETTLE },
    { "cancel", FIELD_OPTIONAL, read_handle, 1 << STEP_CANCEL },
    { "refund", FIELD_OPTIONAL, read_asked, 1 << STEP_REFUND },
    { "reset", FIELD_OPTIONAL, read_reset, 1 << STEP_RESET },
    { "reload", FIELD_OPTIONAL, read_reload, 1 << STEP_RELOAD },
    { "restart", FIELD_OPTIONAL, read_restart, 1 << STEP_RESTART },
    { "as", FIELD_OPTIONAL, read_handle, AS },
    { "times", FIELD_OPTIONAL, read_times, TIMES },
    { "cost", FIELD_OPTIONAL, read_cost, COST },
    { "peek", FIELD_OPTIONAL, read_peek, PEEK },
    { "expect", FIELD_OPTIONAL, read_expect, EXPECT },
    { "about", FIELD_OPTIONAL, read_about, ABOUT },
    { "acquire", FIELD_LATER, NULL, 0 },
    { "renew", FIELD_LATER, NULL, 0 },
    { "release", FIELD_LATER, NULL, 0 },
    { "wait", FIELD_LATER, NULL, 0 },
    { "store", FIELD_LATER, NULL, 0 },
};

/* ---- The step as a whole --------------------------------------------------------------------------------- */

/* Exactly one field says what the step does, and the others go with it. */
static bool check_kind(struct tree *tree, struct timeline_step *step)
{
    unsigned given = step->fields & ((1u << STEP_KIND_COUNT) - 1);
    if (given == 0 || (given & (given - 1)) != 0) {
        tree_fault(tree, step->node,
                   "give one of: request, reserve, settle, cancel, refund, reset, reload, restart",
                   given == 0 ? "the step does nothing" : "the step does two things");
        return false;
    }
    while (given >> step->kind != 1)
        step->kind++;
    unsigned odd = step->fields & ~(1u << step->kind | kinds[step->kind].takes | AT | EXPECT | ABOUT);
    for (size_t i = 0; odd != 0 && i < sizeof table / sizeof *table; i++)
        if ((odd & (unsigned)table[i].argument) != 0)
            tree_fault(tree, step->node, "remove it", "`%s` does not go with `%s`", table[i].name,
                       kinds[step->kind].name);
    return odd == 0;
}

/* A settlement without the cost that came out would look like one of nothing. */
static bool check_cost(struct tree *tree, const struct timeline_step *step)
{
    if ((step->kind != STEP_SETTLE && step->kind != STEP_REFUND) || (step->fields & COST) != 0)
        return true;
    tree_fault(tree, step->node, "add it", "`%s` lacks `cost`", kinds[step->kind].name);
    return false;
}

static size_t find_handle(const struct timeline *timeline, struct slice name)
{
    for (size_t i = 0; i < timeline->handle_count; i++)
        if (slice_equals(timeline->reserved[i]->handle_name, name))
            return i;
    return TIMELINE_NO_HANDLE;
}

static bool handle_fault(struct tree *tree, const struct timeline_step *step, const char *cure,
                         const char *problem)
{
    char shown[48];
    const struct tree_node name = { .text = step->handle_name };
    tree_fault(tree, step->node, cure, "'%s' names %s", tree_shown(&name, shown), problem);
    return false;
}

/* Names become numbers: `as` gives a new one, `settle` and `cancel` find it. */
static bool check_handle(struct timeline *timeline, struct timeline_step *step)
{
    struct tree *tree = &timeline->tree;
    if (step->handle_name.len == 0)
        return true;
    step->handle = find_handle(timeline, step->handle_name);
    if ((step->fields & AS) == 0)
        return step->handle != TIMELINE_NO_HANDLE
               || handle_fault(tree, step, "name it in an earlier step: `reserve: {...}` with `as: NAME`",
                               "no reservation");
    if (step->handle != TIMELINE_NO_HANDLE)
        return handle_fault(tree, step, "choose another name", "an earlier reservation");
    if (step->times > 1)
        return handle_fault(tree, step, "reserve in several steps", "one reservation, not `times` of them");
    if (timeline->handle_count == TIMELINE_HANDLES_MAX)
        return handle_fault(tree, step, "split the file", "one reservation too many");
    step->handle = timeline->handle_count++;
    timeline->reserved[step->handle] = step;
    return true;
}

bool step_read(struct timeline *timeline, const struct tree_node *node, struct timeline_step *out)
{
    struct tree *tree = &timeline->tree;
    struct reader reader = { timeline, out };
    out->node = node;
    out->times = 1;
    out->request.cost = 1;
    out->handle = TIMELINE_NO_HANDLE;
    return fields_read(tree, node, "the step", table, sizeof table / sizeof *table, &reader)
           && check_kind(tree, out) && check_cost(tree, out) && check_handle(timeline, out)
           && expect_check(tree, out);
}
