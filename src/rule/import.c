// SPDX-License-Identifier: Apache-2.0
/* import.c - a foreign file becomes a contract, which is loaded once before it is given out. */
#include "rule/import.h"

#include <errno.h>
#include <stdlib.h>

#include "rule/contract.h"
#include "rule/entry.h"

/* ---- Files ------------------------------------------------------------------------------------------------------ */

static int cannot_read(struct import *import, const char *path, int cause)
{
    struct shown name;
    diagnostics_use(import->diagnostics, 0);
    diagnostics_add(import->diagnostics, WEIR_SEVERITY_ERROR, (struct place){ 0, 0, 0 },
                    "give the path of a file that can be read", "%s cannot be read: %s",
                    shown(slice_of(path), &name), strerror(cause));
    errno = cause;
    return WEIR_ERR_FILE;
}

struct import_file import_text(struct import *import, const char *name, struct slice text)
{
    return (struct import_file){ name, text, diagnostics_source(import->diagnostics, name, text) };
}

int import_file(struct import *import, const char *path, struct import_file *out)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    if (file == NULL)
        return cannot_read(import, path, errno);
    char *whole = malloc(WEIR_CONTRACT_BYTES_MAX + 1);
    size_t len = whole == NULL ? 0 : fread(whole, 1, WEIR_CONTRACT_BYTES_MAX + 1, file);
    int cause = ferror(file) != 0 ? errno : len > WEIR_CONTRACT_BYTES_MAX ? EFBIG : 0;
    if (!is_stdin)
        (void)fclose(file); /* nothing was written */
    struct slice text = region_copy(import->region, (struct slice){ whole, len });
    const char *name = is_stdin ? "standard input" : region_copy(import->region, slice_of(path)).at;
    bool is_kept = whole != NULL && text.at != NULL && name != NULL;
    free(whole);
    if (cause != 0)
        return cannot_read(import, path, cause);
    if (!is_kept)
        return WEIR_ERR_MEMORY;
    *out = import_text(import, name, text);
    return 0;
}

/* ---- Names ------------------------------------------------------------------------------------------------------ */

static size_t hash_of(const char *name)
{
    size_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash ^ (hash >> 15);
}

/* The slot that holds the name, or the free one where it belongs. */
static const char **slot_of(const struct import *import, const char *name)
{
    size_t i = hash_of(name) & (import->name_slots - 1);
    while (import->names[i] != NULL && strcmp(import->names[i], name) != 0)
        i = (i + 1) & (import->name_slots - 1);
    return &import->names[i];
}

static bool has_room(struct import *import)
{
    if (2 * import->name_count < import->name_slots)
        return true;
    struct import larger = *import;
    larger.name_slots = import->name_slots == 0 ? 64 : 4 * import->name_slots;
    larger.names = REGION_NEW(import->region, const char *, larger.name_slots);
    if (larger.names == NULL)
        return false;
    for (size_t i = 0; i < import->name_slots; i++)
        if (import->names[i] != NULL)
            *slot_of(&larger, import->names[i]) = import->names[i];
    *import = larger;
    return true;
}

const char *import_limit_name(struct import *import, struct slice wanted)
{
    char name[WEIR_NAME_MAX + 1], numbered[WEIR_NAME_MAX + 1];
    size_t len = 0;
    for (size_t i = 0; i < wanted.len && len < WEIR_NAME_MAX; i++) {
        char c = ascii_lower(wanted.at[i]);
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (is_letter || (len > 0 && (c == '.' || c == '_' || c == '-')))
            name[len++] = c;
        else if (len > 0 && name[len - 1] != '-')
            name[len++] = '-';
    }
    while (len > 0 && name[len - 1] == '-')
        len--;
    name[len] = '\0';
    if (len == 0)
        memcpy(name, "limit", sizeof "limit");
    if (!has_room(import))
        return NULL;
    memcpy(numbered, name, sizeof name);
    for (size_t number = 2; *slot_of(import, numbered) != NULL; number++)
        (void)snprintf(numbered, sizeof numbered, "%.50s-%zu", name,
                       number); /* cut: there is room for the number */
    const char *copy = region_copy(import->region, slice_of(numbered)).at;
    if (copy != NULL) {
        *slot_of(import, numbered) = copy;
        import->name_count++;
    }
    return copy;
}

struct slice import_attribute_name(struct import *import, struct slice wanted, size_t max)
{
    char name[WEIR_ATTRIBUTE_NAME_MAX];
    size_t len = entry_spell(wanted, max, name);
    return region_copy(import->region, (struct slice){ name, len });
}

/* ---- Text ------------------------------------------------------------------------------------------------------- */

struct slice import_pattern(struct import *import, struct slice text, bool is_glob)
{
    char *at = REGION_NEW(import->region, char, 2 * text.len + 1);
    size_t len = 0;
    for (size_t i = 0; at != NULL && i < text.len; i++) {
        if (text.at[i] == '\\' || (text.at[i] == '*' && !is_glob))
            at[len++] = '\\';
        at[len++] = text.at[i];
    }
    return (struct slice){ at, len };
}

void import_add_pattern(struct text *text, struct slice pattern)
{
    bool is_word = slice_equals(pattern, SLICE("present")) || slice_equals(pattern, SLICE("absent"));
    text_put(text, is_word ? "{ is: " : "");
    text_add_json(text, pattern);
    text_put(text, is_word ? " }" : "");
}

void import_add_patterns(struct text *text, const struct slice *patterns, size_t count)
{
    text_put(text, count == 1 ? "" : "[");
    for (size_t i = 0; i < count; i++) {
        text_put(text, i == 0 ? "" : ", ");
        import_add_pattern(text, patterns[i]);
    }
    text_put(text, count == 1 ? "" : "]");
}

struct slice import_comment(struct import *import, struct slice text)
{
    struct shown into;
    return region_copy(import->region, slice_of(shown(text, &into)));
}

/* ---- Where it comes from ------------------------------------------------------------------------------------------ */

void import_mark(struct import *import, unsigned source, struct place place)
{
    if (import->mark_count == import->mark_room) {
        size_t room = import->mark_room == 0 ? 64 : 2 * import->mark_room;
        struct import_mark *marks = REGION_NEW(import->region, struct import_mark, room);
        if (marks == NULL)
            return;
        if (import->mark_count > 0)
            memcpy(marks, import->marks, import->mark_count * sizeof *marks);
        import->marks = marks;
        import->mark_room = room;
    }
    import->marks[import->mark_count++] = (struct import_mark){ import->out.len, source, place };
}

/* What a line of the contract was made of: NULL where nobody said it. */
static const struct import_mark *mark_of(const struct import *import, unsigned line)
{
    const struct import_mark *found = NULL;
    size_t at = 0;
    for (unsigned i = 1; i < line && at < import->out.len; at++)
        i += import->out.at[at] == '\n';
    for (size_t i = 0; line > 0 && i < import->mark_count && import->marks[i].at <= at; i++)
        found = &import->marks[i];
    return found;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

/* What was written must load: a number may be beyond what a limit can keep. Its finding is about our text, so only the
   words are passed on, with the place that the limit came from. */
static int check_loads(struct import *import)
{
    const struct weir_contract_options options = { .keys = 1,
                                                   .has_wall_offset = true,
                                                   .fleet = WEIR_FLEET_ALONE };
    struct weir_contract *contract = NULL;
    struct weir_diagnostics *found = NULL;
    int error = weir_contract_parse(&contract, import->out.at, import->out.len, "imported", &options, &found);
    if (error == WEIR_ERR_CONTRACT) {
        for (size_t i = 0; i < weir_diagnostics_count(found); i++) {
            const struct weir_diagnostic *item = weir_diagnostics_at(found, i);
            const struct import_mark *mark = mark_of(import, item->line);
            if (item->severity != WEIR_SEVERITY_ERROR)
                continue;
            diagnostics_use(import->diagnostics, mark == NULL ? 0 : mark->source);
            IMPORT_ERROR(import, mark == NULL ? ((struct place){ 0, 0, 0 }) : mark->place, item->cure,
                         "what this file asks for cannot be kept: %s", item->message);
        }
    }
    weir_diagnostics_free(found);
    weir_contract_free(contract);
    return error;
}

static int run(struct import *import, int kind, const struct import_file *file, FILE *out)
{
    int error = kind == WEIR_FOREIGN_NGINX ? import_nginx(import, file) : import_ratelimit(import, file);
    if (error == 0 && import->region->has_failed)
        error = WEIR_ERR_MEMORY;
    if (error == 0 && diagnostics_errors(import->diagnostics) > 0)
        error = WEIR_ERR_CONTRACT;
    if (error == 0)
        error = check_loads(import);
    if (error == 0)
        (void)fwrite(import->out.at, 1, import->out.len, out); /* whoever gave the stream asks it for errors */
    return error;
}

static int import_into(int kind, const char *path, const struct slice *text,
                       const struct weir_import_ratelimit *how, FILE *out,
                       struct weir_diagnostics **diagnostics)
{
    struct region region;
    struct weir_diagnostics *found = diagnostics_new(path, NULL);
    if (diagnostics != NULL)
        *diagnostics = NULL;
    if (found == NULL)
        return WEIR_ERR_MEMORY;
    region_init(&region, NULL);
    struct import import = {
        .region = &region, .diagnostics = found, .path = path, .out = { .region = &region }, .how = how
    };
    struct import_file file;
    if (text != NULL)
        file = import_text(&import, path, *text);
    int error = run(&import, kind, text == NULL ? NULL : &file, out);
    if (!diagnostics_finish(found, (struct slice){ "", 0 }))
        error = WEIR_ERR_MEMORY;
    contract_give(diagnostics, found);
    region_deinit(&region);
    return error;
}

int weir_contract_import(enum weir_foreign kind, const char *path, FILE *out,
                         struct weir_diagnostics **diagnostics)
{
    return import_into((int)kind, path, NULL, NULL, out, diagnostics);
}

int weir_contract_import_ratelimit(const char *path, const struct weir_import_ratelimit *options, FILE *out,
                                   struct weir_diagnostics **diagnostics)
{
    return import_into(WEIR_FOREIGN_RATELIMIT, path, NULL, options, out, diagnostics);
}

int import_from_text(int kind, struct slice text, FILE *out, struct weir_diagnostics **diagnostics)
{
    return import_into(kind, "text", &text, NULL, out, diagnostics);
}
