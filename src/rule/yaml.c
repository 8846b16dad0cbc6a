// SPDX-License-Identifier: Apache-2.0
/* yaml.c - libyaml's events, stacked into nodes by hand: no recursion, and a stop at the first level too many. */
#include "rule/yaml.h"

#include <stdlib.h>
#include <yaml.h>

/* 32,767 limits of sixty nodes each. Bounds memory: a node may cost two bytes of text but some seventy of ours. */
#define NODES_MAX (1u << 21)

/* Pairs of a map that are compared each with each; larger maps are sorted. */
#define PAIRS_SMALL 12

struct reader {
    struct region *region;
    struct weir_diagnostics *diagnostics;
    struct slice text;
    yaml_parser_t parser;
    struct node *root;
    struct open {
        struct node *node, *last; /* a collection whose end is still to come, and its newest child */
        unsigned children;
    } stack[WEIR_CONTRACT_DEPTH_MAX];
    unsigned depth, nodes, documents;
    bool is_out_of_memory;
};

enum next { GO_ON, STOP };

static struct place place_of(const yaml_event_t *event)
{
    struct place place = { (unsigned)event->start_mark.line + 1, (unsigned)event->start_mark.column + 1, 1 };
    if (event->start_mark.line == event->end_mark.line && event->end_mark.column > event->start_mark.column)
        place.width = (unsigned)(event->end_mark.column - event->start_mark.column);
    return place;
}

#define REPORT(reader, place, cure, ...) \
    diagnostics_add((reader)->diagnostics, WEIR_SEVERITY_ERROR, (place), (cure), __VA_ARGS__)

/* ---- Keys ------------------------------------------------------------------------------------------------ */

static void report_duplicate(struct reader *reader, const struct node *key, const struct node *earlier)
{
    struct shown name;
    REPORT(reader, key->place, "keep one of the two", "'%s' is given twice; first in line %u",
           shown(key->text, &name), earlier->place.line);
}

static int compare_keys(const void *x, const void *y)
{
    const struct node *a = *(const struct node *const *)x;
    const struct node *b = *(const struct node *const *)y;
    size_t len = a->text.len < b->text.len ? a->text.len : b->text.len;
    int order = len == 0 ? 0 : memcmp(a->text.at, b->text.at, len);
    if (order != 0)
        return order;
    if (a->text.len != b->text.len)
        return a->text.len < b->text.len ? -1 : 1;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    return (a->place.column > b->place.column) - (a->place.column < b->place.column);
}

static void find_duplicates_sorted(struct reader *reader, const struct node *map)
{
    const struct node **keys = REGION_NEW(reader->region, const struct node *, map->count);
    if (keys == NULL)
        return;
    size_t count = 0;
    for (const struct node *key = map->first; key != NULL; key = key->next->next)
        if (key->kind == NODE_SCALAR)
            keys[count++] = key;
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 1; i < count; i++)
        if (slice_equals(keys[i]->text, keys[i - 1]->text))
            report_duplicate(reader, keys[i], keys[i - 1]);
}

static void find_duplicates(struct reader *reader, const struct node *map)
{
    if (map->count > PAIRS_SMALL) {
        find_duplicates_sorted(reader, map);
        return;
    }
    for (const struct node *key = map->first; key != NULL; key = key->next->next)
        for (const struct node *earlier = map->first; earlier != key; earlier = earlier->next->next)
            if (key->kind == NODE_SCALAR && earlier->kind == NODE_SCALAR
                && slice_equals(key->text, earlier->text)) {
                report_duplicate(reader, key, earlier);
                break;
            }
}

/* Whether the node that is added next to the innermost collection is a key. */
static bool expects_key(const struct reader *reader)
{
    return reader->depth > 0 && reader->stack[reader->depth - 1].node->kind == NODE_MAP
           && reader->stack[reader->depth - 1].children % 2 == 0;
}

static void check_key(struct reader *reader, struct node *key)
{
    if (key->kind == NODE_LIST || key->kind == NODE_MAP) {
        REPORT(reader, key->place, "write `name: value`", "a key must be a word, not a list or a map");
        key->kind = NODE_BAD;
    } else if (key->kind == NODE_SCALAR && key->is_plain && slice_equals(key->text, SLICE("<<"))) {
        REPORT(reader, key->place, "write the fields out", "merge keys (`<<`) are not part of the language");
        key->kind = NODE_BAD;
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------------------- */

/* A node below the innermost open collection. NULL: stop. */
static struct node *add_node(struct reader *reader, enum node_kind kind, const yaml_event_t *event)
{
    struct place place = place_of(event);
    if (++reader->nodes > NODES_MAX) {
        REPORT(reader, place, "split the contract", "the contract has more than %u values", NODES_MAX);
        return NULL;
    }
    struct node *node = REGION_NEW(reader->region, struct node, 1);
    if (node == NULL)
        return NULL;
    node->kind = (unsigned char)kind;
    node->place = place;
    if (reader->depth == 0) {
        reader->root = node;
    } else {
        struct open *open = &reader->stack[reader->depth - 1];
        *(open->last == NULL ? &open->node->first : &open->last->next) = node;
        open->last = node;
        open->children++;
        open->node->count = open->node->kind == NODE_MAP ? open->children / 2 : open->children;
    }
    return node;
}

static void check_properties(struct reader *reader, struct place place, const yaml_char_t *anchor,
                             const yaml_char_t *tag)
{
    struct shown name;
    if (anchor != NULL)
        REPORT(reader, place, "write the value out where it is needed",
               "anchor '&%s': anchors are not part of the language",
               shown(slice_of((const char *)anchor), &name));
    if (tag != NULL)
        REPORT(reader, place, "remove it: each field knows its type",
               "tag '%s': tags are not part of the language", shown(slice_of((const char *)tag), &name));
}

static enum next add_scalar(struct reader *reader, const yaml_event_t *event)
{
    bool is_key = expects_key(reader);
    struct node *node = add_node(reader, NODE_SCALAR, event);
    if (node == NULL)
        return STOP;
    check_properties(reader, node->place, event->data.scalar.anchor, event->data.scalar.tag);
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = SLICE("");
    if (event->data.scalar.length > 0)
        node->text = region_copy(reader->region, (struct slice){ (const char *)event->data.scalar.value,
                                                                 event->data.scalar.length });
    if (node->text.at == NULL)
        return STOP;
    if (is_key)
        check_key(reader, node);
    return GO_ON;
}

static enum next add_alias(struct reader *reader, const yaml_event_t *event)
{
    struct shown name;
    struct node *node = add_node(reader, NODE_BAD, event);
    if (node == NULL)
        return STOP;
    REPORT(reader, node->place, "write the value out; a value that begins with '*' needs quotes",
           "alias '*%s': aliases are not part of the language",
           shown(slice_of((const char *)event->data.alias.anchor), &name));
    return GO_ON;
}

static enum next open_collection(struct reader *reader, enum node_kind kind, const yaml_event_t *event,
                                 const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (reader->depth == WEIR_CONTRACT_DEPTH_MAX) {
        REPORT(reader, place_of(event), "no field needs so many", "nested more than %d levels deep",
               WEIR_CONTRACT_DEPTH_MAX);
        return STOP;
    }
    bool is_key = expects_key(reader);
    struct node *node = add_node(reader, kind, event);
    if (node == NULL)
        return STOP;
    check_properties(reader, node->place, anchor, tag);
    if (is_key)
        check_key(reader, node);
    reader->stack[reader->depth++] = (struct open){ .node = node };
    return GO_ON;
}

static enum next close_collection(struct reader *reader)
{
    struct node *node = reader->stack[--reader->depth].node;
    if (node->kind == NODE_MAP)
        find_duplicates(reader, node);
    return GO_ON;
}

/* ---- The stream ------------------------------------------------------------------------------------------ */

/* The place of a byte, for errors that libyaml gives as an offset. */
static struct place place_of_offset(struct slice text, size_t offset)
{
    struct place place = { 1, 1, 1 };
    for (size_t i = 0; i < offset && i < text.len; i++) {
        if (text.at[i] == '\n')
            place = (struct place){ place.line + 1, 1, 1 };
        else if (((unsigned char)text.at[i] & 0xc0) != 0x80)
            place.column++;
    }
    return place;
}

/* What people most often did when libyaml says this. */
static const char *cure_of(const char *problem)
{
    static const struct {
        const char *problem, *cure;
    } rows[] = {
        { "cannot start any token",
          "indent with spaces, never tabs; quote a value that begins with one of @ ` % \" '" },
        { "tab character", "indent with spaces, never tabs" },
        { "mapping values are not allowed", "check the indentation, and quote a value that contains ': '" },
        { "did not find expected key", "check that this line is indented like its neighbours" },
        { "did not find expected '-'", "check that this line is indented like its neighbours" },
        { "could not find expected ':'", "write `name: value`, with a blank behind the colon" },
        { "did not find expected ',' or", "close the bracket, or put a comma between the members" },
        { "did not find expected alphabetic", "quote a value that begins with '*' or '&'" },
        { "unexpected end of stream", "close the quotation mark" },
        { "control characters", "remove the byte, or write it as an escape in double quotes" },
        { "UTF-8", "save the file as UTF-8" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(problem, rows[i].problem) != NULL)
            return rows[i].cure;
    return "check the indentation and the quotation marks near this place";
}

static void report_syntax(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR) {
        reader->is_out_of_memory = true;
        return;
    }
    const char *problem = parser->problem == NULL ? "not YAML" : parser->problem;
    if (parser->error == YAML_READER_ERROR) {
        REPORT(reader, place_of_offset(reader->text, parser->problem_offset), cure_of(problem), "%s", problem);
        return;
    }
    struct place place = { (unsigned)parser->problem_mark.line + 1, (unsigned)parser->problem_mark.column + 1,
                           1 };
    if (parser->context == NULL)
        REPORT(reader, place, cure_of(problem), "%s", problem);
    else
        REPORT(reader, place, cure_of(problem), "%s, %s from line %zu", problem, parser->context,
               parser->context_mark.line + 1);
}

static enum next take_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++reader->documents == 1)
            return GO_ON;
        REPORT(reader, place_of(event), "keep one contract in a file, without a second `---`",
               "the file has more than one document");
        return STOP;
    case YAML_ALIAS_EVENT:
        return add_alias(reader, event);
    case YAML_SCALAR_EVENT:
        return add_scalar(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(reader, NODE_LIST, event, event->data.sequence_start.anchor,
                               event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_collection(reader, NODE_MAP, event, event->data.mapping_start.anchor,
                               event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_collection(reader);
    case YAML_STREAM_END_EVENT:
        return STOP;
    default:
        return GO_ON;
    }
}

static void read_events(struct reader *reader)
{
    enum next next = GO_ON;
    while (next == GO_ON) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event)) {
            report_syntax(reader);
            return;
        }
        next = take_event(reader, &event);
        yaml_event_delete(&event);
    }
}

int yaml_read(struct region *region, struct slice text, struct weir_diagnostics *diagnostics, struct node **out)
{
    /* A byte order mark says nothing in UTF-8, but libyaml would count it as a column of the first line. */
    if (text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0)
        text = (struct slice){ text.at + 3, text.len - 3 };
    struct reader reader = { .region = region, .diagnostics = diagnostics, .text = text };
    const struct place whole = { 0, 0, 0 };

    *out = NULL;
    if (text.len > WEIR_CONTRACT_BYTES_MAX) {
        REPORT(&reader, whole, "split it", "the contract is longer than %zu MiB",
               WEIR_CONTRACT_BYTES_MAX >> 20);
        return 0;
    }
    if (!yaml_parser_initialize(&reader.parser))
        return WEIR_ERR_MEMORY;
    yaml_parser_set_encoding(&reader.parser,
                             YAML_UTF8_ENCODING); /* else a byte order mark could choose UTF-16 */
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text.at, text.len);

    size_t errors_before = diagnostics_errors(diagnostics);
    read_events(&reader);
    yaml_parser_delete(&reader.parser);
    if (reader.is_out_of_memory || region->has_failed)
        return WEIR_ERR_MEMORY;
    bool is_whole = reader.depth == 0 && reader.root != NULL;
    if (!is_whole && diagnostics_errors(diagnostics) == errors_before)
        REPORT(&reader, whole, "begin with `weir: 1` and a list of `limits`", "the contract is empty");
    *out = is_whole ? reader.root : NULL;
    return 0;
}

const struct node *node_value(const struct node *map, const char *key)
{
    if (map != NULL && map->kind == NODE_MAP)
        for (const struct node *name = map->first; name != NULL; name = name->next->next)
            if (name->kind == NODE_SCALAR && slice_equals(name->text, slice_of(key)))
                return name->next;
    return NULL;
}
