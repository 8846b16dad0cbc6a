// SPDX-License-Identifier: Apache-2.0
/*
 * tree.c - libyaml's events, stacked into nodes: no recursion, and a stop at the first level too many.
 */
#include "sim/tree.h"

#include <stdarg.h>
#include <stdlib.h>
#include <yaml.h>

#include "weir_contract.h"

/* A contract inside a test file stands one level deeper. */
#define DEPTH_MAX (WEIR_CONTRACT_DEPTH_MAX + 2)

/* Faults that are told; the rest is only counted, since nobody reads them. */
#define FAULTS_TOLD 50

#define BLOCK_BYTES ((size_t)64 << 10)

/* Bytes of a source line that are shown. */
#define LINE_SHOWN 400

struct tree_block {
    struct tree_block *next;
    size_t size;
    _Alignas(16) char memory[];
};

void *tree_allocate(struct tree *tree, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    if (tree->blocks == NULL || bytes > tree->blocks->size - tree->used) {
        size_t block_bytes = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct tree_block *block = calloc(1, sizeof *block + block_bytes);
        if (block == NULL)
            return NULL;
        block->next = tree->blocks;
        block->size = block_bytes;
        tree->blocks = block;
        tree->used = 0;
    }
    void *memory = tree->blocks->memory + tree->used;
    tree->used += bytes;
    return memory;
}

void tree_deinit(struct tree *tree)
{
    while (tree->blocks != NULL) {
        struct tree_block *next = tree->blocks->next;
        free(tree->blocks);
        tree->blocks = next;
    }
}

/* ---- Faults ---------------------------------------------------------------------------------------------- */

const char *tree_shown(const struct tree_node *node, char out[48])
{
    size_t len = node->text.len < 40 ? node->text.len : 40;
    if (node->kind != TREE_SCALAR) {
        (void)snprintf(out, 48, "%s", node->kind == TREE_LIST ? "a list" : "a map");
        return out;
    }
    while (len < node->text.len && len > 0 && ((unsigned char)node->text.at[len] & 0xc0) == 0x80)
        len--; /* not inside a character */
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)node->text.at[i] < 0x20 || node->text.at[i] == 0x7f ? '?' : node->text.at[i];
    (void)snprintf(out + len, 48 - len, "%s", len < node->text.len ? "..." : "");
    return out;
}

static struct slice source_line(struct slice text, unsigned line)
{
    const char *at = text.at;
    const char *end = text.at + text.len;
    for (unsigned i = 1; i < line && at < end; i++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        at = line_end == NULL ? end : line_end + 1;
    }
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    size_t len = (size_t)((line_end == NULL ? end : line_end) - at);
    if (len > 0 && at[len - 1] == '\r')
        len--;
    if (len > LINE_SHOWN) /* not inside a character */
        for (len = LINE_SHOWN; len > 0 && ((unsigned char)at[len] & 0xc0) == 0x80;)
            len--;
    return (struct slice){ at, len };
}

static void print_place(const struct tree *tree, unsigned line, unsigned column, unsigned width)
{
    struct slice source = source_line(tree->text, line);
    if (source.len == 0)
        return;
    fprintf(tree->err, "    %.*s\n    ", (int)source.len, source.at);
    size_t at = 0;
    for (unsigned i = 1; i < column && at < source.len; i++) {
        fputc(source.at[at] == '\t' ? '\t' : ' ', tree->err);
        do
            at++;
        while (at < source.len && ((unsigned char)source.at[at] & 0xc0) == 0x80);
    }
    fputs(tree->is_coloured ? "\033[1;31m^" : "^", tree->err);
    for (unsigned i = 1; i < width && i < LINE_SHOWN; i++)
        fputc('~', tree->err);
    fputs(tree->is_coloured ? "\033[0m\n" : "\n", tree->err);
}

static void tell(struct tree *tree, unsigned line, unsigned column, unsigned width, const char *cure,
                 const char *message)
{
    const char *bold = tree->is_coloured ? "\033[1m" : "";
    const char *red = tree->is_coloured ? "\033[1;31m" : "";
    const char *plain = tree->is_coloured ? "\033[0m" : "";
    if (tree->faults++ >= FAULTS_TOLD || tree->err == NULL)
        return;
    fprintf(tree->err, "%s%s:", bold, tree->name);
    if (line > 0)
        fprintf(tree->err, "%u:%u:", line, column);
    fprintf(tree->err, "%s %serror:%s %s%s%s\n", plain, red, plain, bold, message, plain);
    if (line > 0)
        print_place(tree, line, column, width);
    fprintf(tree->err, "  help: %s\n", cure);
}

void tree_fault(struct tree *tree, const struct tree_node *node, const char *cure, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments); /* a longer one is cut */
    va_end(arguments);
    if (node == NULL)
        tell(tree, 0, 0, 0, cure, message);
    else
        tell(tree, node->line, node->column, node->width, cure, message);
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

struct reader {
    struct tree *tree;
    struct {
        struct tree_node *node, *last;
        unsigned children;
    } stack[DEPTH_MAX]; /* collections whose ends are still to come */
    unsigned depth, nodes, documents;
};

/* Add a node below the innermost open collection; NULL after telling why not. */
static struct tree_node *add_node(struct reader *reader, enum tree_kind kind, const yaml_event_t *event)
{
    struct tree *tree = reader->tree;
    struct tree_node *node = tree_allocate(tree, 1, sizeof *node);
    if (node == NULL) {
        tree_fault(tree, NULL, "split the file", "out of memory");
        return NULL;
    }
    *node = (struct tree_node){ .kind = kind,
                                .line = (unsigned)event->start_mark.line + 1,
                                .column = (unsigned)event->start_mark.column + 1,
                                .width = 1,
                                .begin = event->start_mark.index,
                                .end = event->end_mark.index };
    if (event->start_mark.line == event->end_mark.line && event->end_mark.column > event->start_mark.column)
        node->width = (unsigned)(event->end_mark.column - event->start_mark.column);
    if (++reader->nodes > TREE_NODES_MAX) {
        tree_fault(tree, node, "split the file", "more than %u values", TREE_NODES_MAX);
        return NULL;
    }
    if (reader->depth == 0) {
        tree->root = node;
        return node;
    }
    struct tree_node *parent = reader->stack[reader->depth - 1].node;
    struct tree_node *last = reader->stack[reader->depth - 1].last;
    bool is_key = parent->kind == TREE_MAP && reader->stack[reader->depth - 1].children % 2 == 0;
    if (is_key && kind != TREE_SCALAR) {
        tree_fault(tree, node, "write `name: value`", "a key is a word, not a list or a map");
        return NULL;
    }
    *(last == NULL ? &parent->first : &last->next) = node;
    reader->stack[reader->depth - 1].last = node;
    reader->stack[reader->depth - 1].children++;
    parent->count = reader->stack[reader->depth - 1].children / (parent->kind == TREE_MAP ? 2 : 1);
    return node;
}

static bool has_properties(struct reader *reader, const struct tree_node *node, const void *anchor,
                           const void *tag)
{
    if (anchor != NULL || tag != NULL)
        tree_fault(reader->tree, node, "write the value itself", "anchors and tags are not part of the form");
    return anchor != NULL || tag != NULL;
}

static bool add_scalar(struct reader *reader, const yaml_event_t *event)
{
    struct tree_node *node = add_node(reader, TREE_SCALAR, event);
    if (node == NULL || has_properties(reader, node, event->data.scalar.anchor, event->data.scalar.tag))
        return false;
    char *copy = tree_allocate(reader->tree, 1, event->data.scalar.length + 1);
    if (copy == NULL) {
        tree_fault(reader->tree, NULL, "split the file", "out of memory");
        return false;
    }
    memcpy(copy, event->data.scalar.value, event->data.scalar.length);
    node->text = (struct slice){ copy, event->data.scalar.length };
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return true;
}

static bool open_collection(struct reader *reader, enum tree_kind kind, const yaml_event_t *event,
                            const void *anchor, const void *tag)
{
    struct tree_node *node = add_node(reader, kind, event);
    if (node == NULL || has_properties(reader, node, anchor, tag))
        return false;
    if (reader->depth == DEPTH_MAX) {
        tree_fault(reader->tree, node, "no field needs so many", "nested more than %d levels deep", DEPTH_MAX);
        return false;
    }
    reader->stack[reader->depth].node = node;
    reader->stack[reader->depth].last = NULL;
    reader->stack[reader->depth++].children = 0;
    return true;
}

/* Take one event; false to stop, at the end or after telling a fault. */
static bool take_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++reader->documents == 1)
            return true;
        tree_fault(reader->tree, NULL, "keep one in a file, without a second `---`", "more than one document");
        return false;
    case YAML_ALIAS_EVENT: {
        const struct tree_node *node = add_node(reader, TREE_SCALAR, event);
        if (node != NULL)
            tree_fault(reader->tree, node, "write the value out; quote what begins with '*'",
                       "aliases are not part of the form");
        return false;
    }
    case YAML_SCALAR_EVENT:
        return add_scalar(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(reader, TREE_LIST, event, event->data.sequence_start.anchor,
                               event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_collection(reader, TREE_MAP, event, event->data.mapping_start.anchor,
                               event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        reader->depth--;
        reader->stack[reader->depth].node->end = event->end_mark.index;
        return true;
    case YAML_STREAM_END_EVENT:
        return false;
    default:
        return true;
    }
}

static void tell_syntax(struct tree *tree, const yaml_parser_t *parser)
{
    char message[256];
    const char *problem = parser->problem == NULL ? "not YAML" : parser->problem;
    (void)snprintf(message, sizeof message, "%s%s%s", problem, parser->context == NULL ? "" : ", ",
                   parser->context == NULL ? "" : parser->context);
    if (parser->error == YAML_READER_ERROR) { /* it has no place: bytes that are not text */
        tree_fault(tree, NULL, "save the file as UTF-8 without control characters", "%s at byte %zu", problem,
                   parser->problem_offset);
        return;
    }
    tell(tree, (unsigned)parser->problem_mark.line + 1, (unsigned)parser->problem_mark.column + 1, 1,
         "check the indentation and the quotation marks near this place", message);
}

bool tree_init(struct tree *tree, struct slice text, const char *name, FILE *err, bool is_coloured)
{
    struct reader reader = { .tree = tree };
    yaml_parser_t parser;
    /* A byte order mark says nothing in UTF-8, but libyaml would count it as a column of the first line. */
    if (text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0)
        text = (struct slice){ text.at + 3, text.len - 3 };
    *tree = (struct tree){ .name = name, .text = text, .err = err, .is_coloured = is_coloured };
    if (text.len > TREE_BYTES_MAX) {
        tree_fault(tree, NULL, "split it", "the file is longer than %zu MiB", TREE_BYTES_MAX >> 20);
        return false;
    }
    if (!yaml_parser_initialize(&parser)) {
        tree_fault(tree, NULL, "free some memory", "out of memory");
        return false;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING); /* else a byte order mark could choose UTF-16 */
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.at, text.len);

    bool goes_on = true;
    while (goes_on) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            tell_syntax(tree, &parser);
            break;
        }
        goes_on = take_event(&reader, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (tree->faults == 0 && tree->root == NULL)
        tree_fault(tree, NULL, "begin with `contract:` and `timeline:`", "the file is empty");
    return tree->faults == 0;
}

/* Bytes before the character with this number: libyaml counts characters. */
static size_t byte_of_character(struct slice text, size_t character)
{
    size_t at = 0;
    for (; character > 0 && at < text.len; character--) {
        do
            at++;
        while (at < text.len && ((unsigned char)text.at[at] & 0xc0) == 0x80);
    }
    return at;
}

struct slice tree_source(const struct tree *tree, const struct tree_node *node)
{
    size_t begin = byte_of_character(tree->text, node->begin);
    size_t end = byte_of_character(tree->text, node->end);
    return (struct slice){ tree->text.at + begin, end > begin ? end - begin : 0 };
}
