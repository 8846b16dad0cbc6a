// SPDX-License-Identifier: Apache-2.0
/*
 * timeline.c - loading a test file: the file and its head. The steps are step.c's, contracts contract_source.c's.
 */
#include "sim/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "sim/fields.h"
#include "sim/instant.h"

/* ---- The head -------------------------------------------------------------------------------------------- */

static bool read_contract(struct fields *fields, const struct tree_node *node, void *into)
{
    struct timeline *timeline = into;
    return contract_source_read(fields, node, timeline->name, &timeline->contract);
}

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
        step_read(timeline, step, out);
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
    timeline->replica_count = 1;
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
