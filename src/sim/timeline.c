// SPDX-License-Identifier: Apache-2.0
/*
 * timeline.c - loading a test file: the file, its head, its contract. The steps are step.c's.
 */
#include "sim/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "sim/fields.h"
#include "sim/instant.h"

/* ---- The contract ---------------------------------------------------------------------------------------- */

/* A path relative to the test file's folder. */
static bool resolve_path(struct timeline *timeline, const struct tree_node *node)
{
    const char *slash = strrchr(timeline->name, '/');
    size_t folder = slash == NULL || node->text.at[0] == '/' ? 0 : (size_t)(slash - timeline->name) + 1;
    char *path = tree_allocate(&timeline->tree, 1, folder + node->text.len + 1);
    if (path == NULL)
        return false;
    memcpy(path, timeline->name, folder);
    memcpy(path + folder, node->text.at, node->text.len + 1);
    timeline->contract_path = path;
    return true;
}

/*
 * Cut an inline contract out of the file. It keeps its lines and columns, with nothing but line ends and blanks
 * before it, so that the contract's own diagnostics point into the test file.
 */
static bool cut_contract(struct timeline *timeline, const struct tree_node *node)
{
    struct slice source = tree_source(&timeline->tree, node);
    size_t before = node->line - 1 + node->column - 1;
    char *text = tree_allocate(&timeline->tree, 1, before + source.len + 1);
    if (text == NULL)
        return false;
    memset(text, '\n', node->line - 1);
    memset(text + node->line - 1, ' ', node->column - 1);
    memcpy(text + before, source.at, source.len);
    timeline->contract_text = (struct slice){ text, before + source.len };
    return true;
}

static bool read_contract(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline *timeline = into;
    bool is_done = true;
    if (node->kind == TREE_MAP)
        is_done = cut_contract(timeline, node);
    else if (node->kind == TREE_SCALAR && node->text.len > 0
             && memchr(node->text.at, '\0', node->text.len) == NULL)
        is_done = resolve_path(timeline, node);
    else
        return field_fault(fields, node, "give a path, or the contract's fields", "is no contract");
    if (!is_done)
        tree_fault(fields->tree, NULL, "split the file", "out of memory");
    return is_done;
}

/* ---- The head -------------------------------------------------------------------------------------------- */

static bool read_start(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline *timeline = into;
    return (node->kind == TREE_SCALAR && instant_parse(node->text, &timeline->start_wall))
           || field_fault(fields, node, "write it as 2024-02-29T12:00:00Z, from 1970 to 2199", "is no instant");
}

static bool read_timeline(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline *timeline = into;
    if (node->kind != TREE_LIST || node->count == 0)
        return field_fault(fields, node, "give a list of steps, each with `at` and `request`",
                           "holds no steps");
    timeline->steps = tree_allocate(fields->tree, node->count, sizeof *timeline->steps);
    if (timeline->steps == NULL)
        return field_fault(fields, node, "split the file", "has too many steps for this machine's memory");
    weir_ns at = 0;
    for (const struct tree_node *step = node->first; step != NULL; step = step->next) {
        struct timeline_step *out = &timeline->steps[timeline->step_count++];
        out->at = at;
        step_read(fields->tree, step, out);
        at = out->at;
    }
    return true;
}

static const struct field head[] = {
    { "contract", FIELD_REQUIRED, read_contract },
    { "timeline", FIELD_REQUIRED, read_timeline },
    { "start", FIELD_OPTIONAL, read_start },
    { "about", FIELD_OPTIONAL, field_read_about },
};

/* ---- The file -------------------------------------------------------------------------------------------- */

struct timeline *timeline_parse(const char *text, size_t len, const char *name, FILE *err, bool is_coloured)
{
    struct timeline *timeline = calloc(1, sizeof *timeline);
    if (timeline != NULL) {
        timeline->name = strdup(name);
        timeline->text = malloc(len + 1);
    }
    if (timeline == NULL || timeline->name == NULL || timeline->text == NULL) {
        if (err != NULL)
            fprintf(err, "%s: out of memory\n", name);
        timeline_free(timeline);
        return NULL;
    }
    memcpy(timeline->text, text, len);
    timeline->text[len] = '\0';
    struct tree *tree = &timeline->tree;
    if (tree_init(tree, (struct slice){ timeline->text, len }, timeline->name, err, is_coloured))
        fields_read(tree, tree->root, "the test file", head, sizeof head / sizeof *head, timeline);
    if (tree->faults == 0)
        return timeline;
    timeline_free(timeline);
    return NULL;
}

/* Read all of a stream, at most TREE_BYTES_MAX + 1 bytes, so that too much is noticed. NULL: errno. */
static char *read_all(FILE *file, size_t *len)
{
    size_t cap = 1 << 16;
    char *text = malloc(cap);
    *len = 0;
    while (text != NULL) {
        *len += fread(text + *len, 1, cap - *len, file);
        if (*len < cap || cap > TREE_BYTES_MAX)
            break;
        cap *= 2;
        char *larger = realloc(text, cap);
        if (larger == NULL)
            free(text);
        text = larger;
    }
    if (text != NULL && ferror(file)) {
        free(text);
        text = NULL;
    }
    return text;
}

struct timeline *timeline_load(const char *path, FILE *err, bool is_coloured)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    size_t len = 0;
    char *text = file == NULL ? NULL : read_all(file, &len);
    int error = errno;
    if (file != NULL && !is_stdin)
        (void)fclose(file); /* it was only read */
    if (text == NULL) {
        if (err != NULL)
            fprintf(err, "%s: error: cannot be read: %s\n", path, strerror(error));
        return NULL;
    }
    struct timeline *timeline = timeline_parse(text, len, path, err, is_coloured);
    free(text);
    return timeline;
}

void timeline_free(struct timeline *timeline)
{
    if (timeline == NULL)
        return;
    tree_deinit(&timeline->tree);
    free(timeline->text);
    free(timeline->name);
    free(timeline);
}
