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
    WAIT = AT << 7,
    REPLICA = AT << 8,
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

static bool read_wait(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    reader->step->may_wait = true;
    return field_duration(fields, node, &reader->step->request.wait)
           && (reader->step->request.wait <= WEIR_WAIT_MAX
               || field_fault(fields, node, "write at most 1d", "is longer than anybody may wait"));
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

/* Their first mention begins them; all are there from the start of the timeline. */
static bool read_replica(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    struct timeline *timeline = reader->timeline;
    note_field(fields, reader->step);
    if (node->kind != TREE_SCALAR || node->text.len == 0)
        return field_fault(fields, node, "write a name, such as b", "is no name of a replica");
    size_t index = 1;
    while (index < timeline->replica_count && !slice_equals(timeline->replicas[index], node->text))
        index++;
    if (index == TIMELINE_REPLICAS_MAX)
        return field_fault(fields, node, "use at most 15 names", "is one replica too many");
    reader->step->replica = index;
    if (index == timeline->replica_count)
        timeline->replicas[timeline->replica_count++] = node->text;
    return true;
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

/* `request`, `reserve`, `acquire`, `refund`. */
static bool read_asked(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    return read_attributes(fields, node, reader->step);
}

/* ---- Operations ------------------------------------------------------------------------------------------ */

/* `as`, and the operations on what it names. */
static bool read_handle(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    note_field(fields, reader->step);
    reader->step->handle_name = node->text;
    return (node->kind == TREE_SCALAR && node->text.len > 0)
           || field_fault(fields, node, "write the word behind `as`", "is no name that a step gives");
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

const char *store_event_name(enum store_event event)
{
    static const char *const names[STORE_EVENT_COUNT] = {
        [STORE_AWAY] = "away",
        [STORE_BACK] = "back",
        [STORE_LOST] = "lost",
    };
    return names[event];
}

static bool read_store(struct fields *fields, const struct tree_node *node, void *into)
{
    struct reader *reader = into;
    struct timeline *timeline = reader->timeline;
    int event = 0;
    note_field(fields, reader->step);
    while (event < STORE_EVENT_COUNT
           && (node->kind != TREE_SCALAR
               || !slice_equals(node->text, slice_of(store_event_name((enum store_event)event)))))
        event++;
    if (event == STORE_EVENT_COUNT)
        return field_fault(fields, node, "write away, back or lost", "is nothing that happens to a store");
    reader->step->store = (enum store_event)event;
    timeline->has_store_steps = true;
    if (event == STORE_LOST)
        return true;
    if (timeline->is_store_away == (event == STORE_AWAY))
        return field_fault(fields, node, "remove the step",
                           event == STORE_AWAY ? "is what it is already" : "has no `store: away` before it");
    timeline->is_store_away = event == STORE_AWAY;
    return true;
}

static const struct {
    const char *name;
    unsigned takes;   /* fields beside at, expect and about */
    const char *ends; /* what it finds by the name of an earlier step; NULL: nothing */
} kinds[] = {
    [STEP_REQUEST] = { "request", TIMES | COST | PEEK | AS | WAIT | REPLICA, NULL },
    [STEP_RESERVE] = { "reserve", TIMES | COST | AS | WAIT | REPLICA, NULL },
    [STEP_ACQUIRE] = { "acquire", TIMES | COST | AS | WAIT | REPLICA, NULL },
    [STEP_SETTLE] = { "settle", COST | REPLICA, "reservation" },
    [STEP_CANCEL] = { "cancel", REPLICA, "reservation" },
    [STEP_RENEW] = { "renew", REPLICA, "permit" },
    [STEP_RELEASE] = { "release", REPLICA, "permit" },
    [STEP_LEAVE] = { "leave", 0, "request with `wait`" }, /* where it waits */
    [STEP_REFUND] = { "refund", COST | REPLICA, NULL },
    [STEP_RESET] = { "reset", REPLICA, NULL },
    [STEP_RELOAD] = { "reload", 0, NULL }, /* everywhere */
    [STEP_RESTART] = { "restart", REPLICA, NULL },
    [STEP_STORE] = { "store", 0, NULL },
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
    { "acquire", FIELD_OPTIONAL, read_asked, 1 << STEP_ACQUIRE },
    { "settle", FIELD_OPTIONAL, read_handle, 1 << STEP_SETTLE },
    { "cancel", FIELD_OPTIONAL, read_handle, 1 << STEP_CANCEL },
    { "renew", FIELD_OPTIONAL, read_handle, 1 << STEP_RENEW },
    { "release", FIELD_OPTIONAL, read_handle, 1 << STEP_RELEASE },
    { "leave", FIELD_OPTIONAL, read_handle, 1 << STEP_LEAVE },
    { "refund", FIELD_OPTIONAL, read_asked, 1 << STEP_REFUND },
    { "reset", FIELD_OPTIONAL, read_reset, 1 << STEP_RESET },
    { "reload", FIELD_OPTIONAL, read_reload, 1 << STEP_RELOAD },
    { "restart", FIELD_OPTIONAL, read_restart, 1 << STEP_RESTART },
    { "store", FIELD_OPTIONAL, read_store, 1 << STEP_STORE },
    { "replica", FIELD_OPTIONAL, read_replica, REPLICA },
    { "as", FIELD_OPTIONAL, read_handle, AS },
    { "wait", FIELD_OPTIONAL, read_wait, WAIT },
    { "times", FIELD_OPTIONAL, read_times, TIMES },
    { "cost", FIELD_OPTIONAL, read_cost, COST },
    { "peek", FIELD_OPTIONAL, read_peek, PEEK },
    { "expect", FIELD_OPTIONAL, read_expect, EXPECT },
    { "about", FIELD_OPTIONAL, read_about, ABOUT },
};

/* ---- The step as a whole --------------------------------------------------------------------------------- */

/* Exactly one field says what the step does, and the others go with it. */
static bool check_kind(struct tree *tree, struct timeline_step *step)
{
    unsigned given = step->fields & ((1u << STEP_KIND_COUNT) - 1);
    if (given == 0 || (given & (given - 1)) != 0) {
        tree_fault(
            tree, step->node,
            "give one of: request, reserve, acquire, settle, cancel, renew, release, leave, refund, reset, "
            "reload, restart, store",
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
    if (odd == 0 && step->may_wait && step->request.is_peek)
        tree_fault(tree, step->node, "remove one of the two", "a look (`peek`) does not `wait`");
    return odd == 0 && !(step->may_wait && step->request.is_peek);
}

/* A settlement without the cost that came out would look like one of nothing. */
static bool check_cost(struct tree *tree, const struct timeline_step *step)
{
    if ((step->kind != STEP_SETTLE && step->kind != STEP_REFUND) || (step->fields & COST) != 0)
        return true;
    tree_fault(tree, step->node, "add it", "`%s` lacks `cost`", kinds[step->kind].name);
    return false;
}

static bool handle_fault(struct tree *tree, const struct timeline_step *step, const char *cure,
                         const char *problem)
{
    char shown[48];
    const struct tree_node name = { .text = step->handle_name };
    tree_fault(tree, step->node, cure, "'%s' names %s", tree_shown(&name, shown), problem);
    return false;
}

static const struct timeline_step *find_named(const struct timeline *timeline, struct slice name)
{
    for (size_t i = 0; i < timeline->named_count; i++)
        if (slice_equals(timeline->named[i]->handle_name, name))
            return timeline->named[i];
    return NULL;
}

/* The step that named one of its `times`: "w.50" is the fiftieth of "w". *turn counts from 0. */
static const struct timeline_step *find_numbered(const struct timeline *timeline, struct slice name,
                                                 uint64_t *turn)
{
    size_t stem = name.len;
    while (stem > 0 && name.at[stem - 1] != '.')
        stem--;
    if (stem == 0 || !slice_to_u64((struct slice){ name.at + stem, name.len - stem }, TIMELINE_TIMES_MAX, turn))
        return NULL;
    const struct timeline_step *step = find_named(timeline, (struct slice){ name.at, stem - 1 });
    if (step == NULL || step->times == 1 || *turn == 0 || *turn > step->times)
        return NULL;
    *turn -= 1;
    return step;
}

/* Whether what a step names can be ended by a step of this kind. */
static bool is_ended_by(const struct timeline_step *named, enum step_kind kind)
{
    switch (kind) {
    case STEP_SETTLE:
    case STEP_CANCEL:
        return named->kind == STEP_RESERVE;
    case STEP_RENEW:
    case STEP_RELEASE:
        return named->kind == STEP_ACQUIRE;
    default:
        return named->may_wait;
    }
}

/* A name becomes the number of what an earlier step made. */
static bool find_handle(struct timeline *timeline, struct timeline_step *step)
{
    struct tree *tree = &timeline->tree;
    char problem[64], cure[96];
    uint64_t turn = 0;
    const struct timeline_step *named = find_named(timeline, step->handle_name);
    if (named != NULL && named->times > 1)
        return handle_fault(tree, step, "write NAME.1, NAME.2, ... for one of them", "several");
    if (named == NULL)
        named = find_numbered(timeline, step->handle_name, &turn);
    if (named != NULL && is_ended_by(named, step->kind)) {
        step->handle = named->handle + turn;
        if ((step->fields & REPLICA) == 0)
            step->replica = named->replica;
        return true;
    }
    bool leaves = step->kind == STEP_LEAVE;
    (void)snprintf(problem, sizeof problem, "no %s", kinds[step->kind].ends);
    (void)snprintf(cure, sizeof cure, "name it in an earlier step: `%s: {...}` with %s`as: NAME`",
                   leaves                      ? "request"
                   : step->kind <= STEP_CANCEL ? "reserve"
                                               : "acquire",
                   leaves ? "`wait` and " : "");
    return handle_fault(tree, step, cure, problem);
}

/* What lasts beyond its step gets numbers, one for each of `times`; with `as` also a name. */
static bool give_handles(struct timeline *timeline, struct timeline_step *step)
{
    struct tree *tree = &timeline->tree;
    if (!step->may_wait && step->handle_name.len == 0)
        return true;
    if (step->times > TIMELINE_HANDLES_MAX - timeline->handle_count) {
        tree_fault(tree, step->node, "split the file", "more than %d requests are named or wait",
                   TIMELINE_HANDLES_MAX);
        return false;
    }
    step->handle = timeline->handle_count;
    timeline->handle_count += step->times;
    if (step->handle_name.len == 0)
        return true;
    if (find_named(timeline, step->handle_name) != NULL)
        return handle_fault(tree, step, "choose another name", "an earlier step");
    if (timeline->named_count == TIMELINE_NAMES_MAX)
        return handle_fault(tree, step, "split the file", "one step too many");
    timeline->named[timeline->named_count++] = step;
    return true;
}

static bool check_handle(struct timeline *timeline, struct timeline_step *step)
{
    return kinds[step->kind].ends != NULL ? find_handle(timeline, step) : give_handles(timeline, step);
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
