// SPDX-License-Identifier: Apache-2.0
/*
 * import_nginx_read.c - words, semicolons and braces, with the files that are included where they are included.
 *
 * Files wait on a stack, so that an include needs no recursion; their number is bounded, so a file that includes itself
 * ends as an error.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "rule/import_nginx.h"

/* Where the reading of one file stands. */
struct cursor {
    struct import_file file;
    size_t at;
    unsigned line, column;
    const struct directive *block; /* that the file began in, and must end in */
};

struct reader {
    struct import *import;
    struct cursor *stack; /* IMPORT_FILES_MAX */
    size_t depth, files;
    struct directive *block; /* that is open */
    unsigned blocks;
    struct nginx_word words[NGINX_WORDS_MAX]; /* of the directive that is read */
    unsigned count;
    char *storage; /* for one word: as long as the longest file */
    size_t storage_size;
    const char *folder; /* of the first file, with its slash */
    bool is_alone, has_stopped;
};

static struct cursor *top(struct reader *reader)
{
    return &reader->stack[reader->depth - 1];
}

static bool at_end(struct reader *reader)
{
    return top(reader)->at >= top(reader)->file.text.len;
}

static char peek(struct reader *reader)
{
    return at_end(reader) ? '\0' : top(reader)->file.text.at[top(reader)->at];
}

static char take(struct reader *reader)
{
    struct cursor *cursor = top(reader);
    char c = cursor->file.text.at[cursor->at++];
    if (c == '\n') {
        cursor->line++;
        cursor->column = 1;
    } else if (((unsigned char)c & 0xc0) != 0x80) {
        cursor->column++;
    }
    return c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct place here(struct reader *reader)
{
    return (struct place){ top(reader)->line, top(reader)->column, 1 };
}

static void stop(struct reader *reader, struct place place, const char *cure, const char *problem)
{
    diagnostics_use(reader->import->diagnostics, top(reader)->file.source);
    IMPORT_ERROR(reader->import, place, cure, "%s", problem);
    reader->has_stopped = true;
}

/* ---- Words ---------------------------------------------------------------------------------------------------------- */

/* What a backslash makes of a letter; the others it only keeps from meaning anything. */
static char unescape(char c)
{
    return c == 't' ? '\t' : c == 'r' ? '\r' : c == 'n' ? '\n' : c;
}

/* nginx drops the backslash before these; before others it stays, for regular expressions. */
static bool is_escapable(char c)
{
    return c != '\0' && strchr("\"'\\trn", c) != NULL;
}

static size_t read_quoted(struct reader *reader, char quote)
{
    size_t len = 0;
    while (!at_end(reader) && peek(reader) != quote) {
        char c = take(reader);
        if (c == '\\' && !at_end(reader) && is_escapable(peek(reader)))
            c = unescape(take(reader));
        else if (c == '\\' && !at_end(reader)) {
            reader->storage[len++] = c;
            c = take(reader);
        }
        reader->storage[len++] = c;
    }
    return len;
}

static size_t read_plain(struct reader *reader)
{
    size_t len = 0;
    while (!at_end(reader) && !is_blank(peek(reader)) && peek(reader) != ';') {
        bool is_variable = len > 0 && reader->storage[len - 1] == '$';
        if (peek(reader) == '{' && !is_variable)
            break;
        char c = take(reader);
        if (c == '\\' && !at_end(reader) && is_escapable(peek(reader)))
            c = unescape(take(reader));
        else if (c == '\\' && !at_end(reader)) {
            reader->storage[len++] = c;
            c = take(reader);
        }
        reader->storage[len++] = c;
    }
    return len;
}

static void read_word(struct reader *reader)
{
    struct place place = here(reader);
    unsigned column = place.column;
    size_t len;
    if (reader->count == NGINX_WORDS_MAX) {
        stop(reader, place, "check that a ';' is not missing", "more than 512 words before a ';'");
        return;
    }
    if (peek(reader) == '"' || peek(reader) == '\'') {
        char quote = take(reader);
        len = read_quoted(reader, quote);
        if (at_end(reader)) {
            stop(reader, place, "close the quotation mark", "a quotation mark is not closed");
            return;
        }
        (void)take(reader);
    } else {
        len = read_plain(reader);
    }
    if (top(reader)->line == place.line && top(reader)->column > column)
        place.width = top(reader)->column - column;
    struct slice text = region_copy(reader->import->region, (struct slice){ reader->storage, len });
    reader->has_stopped = reader->has_stopped || text.at == NULL;
    reader->words[reader->count++] = (struct nginx_word){ text, place };
}

/* ---- Directives ------------------------------------------------------------------------------------------------------- */

static struct directive *add_directive(struct reader *reader, bool has_block)
{
    struct region *region = reader->import->region;
    struct directive *directive = REGION_NEW(region, struct directive, 1);
    struct nginx_word *words = REGION_NEW(region, struct nginx_word, reader->count);
    if (directive == NULL || words == NULL) {
        reader->has_stopped = true;
        return NULL;
    }
    memcpy(words, reader->words, reader->count * sizeof *words);
    *directive = (struct directive){ .parent = reader->block,
                                     .words = words,
                                     .count = reader->count,
                                     .source = top(reader)->file.source,
                                     .has_block = has_block };
    reader->count = 0;
    *(reader->block->last == NULL ? &reader->block->children : &reader->block->last->next) = directive;
    reader->block->last = directive;
    return directive;
}

static bool push_file(struct reader *reader, const struct import_file *file, const struct directive *include)
{
    if (reader->depth == IMPORT_FILES_MAX || reader->files == IMPORT_FILES_MAX) {
        NGINX_ERROR(reader->import, include, "check that no file includes itself", "more than %d files",
                    IMPORT_FILES_MAX);
        return false;
    }
    if (file->text.len >= reader->storage_size) {
        reader->storage_size = 2 * file->text.len + 1;
        reader->storage = REGION_NEW(reader->import->region, char, reader->storage_size);
        if (reader->storage == NULL)
            return false;
    }
    reader->files++;
    reader->stack[reader->depth++] =
        (struct cursor){ .file = *file, .line = 1, .column = 1, .block = reader->block };
    return true;
}

/* Files that come with nginx and hold nothing of interest: types and parameters for backends. */
static bool is_of_no_interest(struct slice path)
{
    static const char *const ends[] = {
        "mime.types", "_params", "fastcgi.conf", "koi-utf", "koi-win", "win-utf"
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t len = strlen(ends[i]);
        if (path.len >= len && memcmp(path.at + path.len - len, ends[i], len) == 0)
            return true;
    }
    return false;
}

static void include(struct reader *reader, const struct directive *directive)
{
    struct slice path = directive_word(directive, 1);
    struct text pattern = { .region = reader->import->region };
    struct shown path_shown;
    glob_t found = { 0 };
    if (is_of_no_interest(path))
        return;
    if (reader->is_alone || path.len == 0 || strlen(path.at) != path.len) {
        NGINX_ERROR(reader->import, directive, "give the path of the file, so that its folder is known",
                    "include %s cannot be followed from here", shown(path, &path_shown));
        return;
    }
    text_put(&pattern, path.at[0] == '/' ? "" : reader->folder);
    text_add(&pattern, path);
    bool is_pattern = strpbrk(path.at, "*?[") != NULL;
    int result = pattern.at == NULL ? GLOB_NOSPACE : glob(pattern.at, 0, NULL, &found);
    if (result != 0 && !(result == GLOB_NOMATCH && is_pattern))
        NGINX_ERROR(reader->import, directive, "copy the file too, or remove the line",
                    "include %s cannot be read", shown(path, &path_shown));
    for (size_t i = found.gl_pathc; i-- > 0;) { /* the last first: the stack turns them round */
        struct import_file file;
        if (import_file(reader->import, found.gl_pathv[i], &file) != 0
            || !push_file(reader, &file, directive)) {
            reader->has_stopped = true;
            break;
        }
    }
    globfree(&found);
}

/* Lua has braces and quotes of its own. Strings in it that hold braces are rare, and balanced mostly. */
static void skip_foreign(struct reader *reader)
{
    unsigned depth = 1;
    while (depth > 0 && !at_end(reader)) {
        char c = take(reader);
        depth += c == '{' ? 1 : 0;
        depth -= c == '}' ? 1 : 0;
    }
}

static void open_block(struct reader *reader)
{
    static const char lua[] = "_by_lua_block";
    struct place place = here(reader);
    (void)take(reader);
    if (reader->count == 0) {
        stop(reader, place, "name the block", "a block without a name");
        return;
    }
    if (++reader->blocks > NGINX_DEPTH_MAX) {
        stop(reader, place, "no configuration needs so many", "nested more than 32 levels deep");
        return;
    }
    struct directive *block = add_directive(reader, true);
    if (block == NULL)
        return;
    struct slice name = block->words[0].text;
    if (name.len > sizeof lua - 1 && memcmp(name.at + name.len - (sizeof lua - 1), lua, sizeof lua - 1) == 0) {
        skip_foreign(reader);
        reader->blocks--;
        return;
    }
    reader->block = block;
}

static void close_block(struct reader *reader)
{
    struct place place = here(reader);
    (void)take(reader);
    if (reader->count > 0) {
        stop(reader, place, "end the directive with a ';'", "a '}' before the ';' of a directive");
    } else if (reader->block == top(reader)->block) {
        stop(reader, place, "remove it, or open the block", "a '}' without its '{'");
    } else {
        reader->block = reader->block->parent;
        reader->blocks--;
    }
}

static void end_file(struct reader *reader)
{
    if (reader->count > 0 || reader->block != top(reader)->block)
        stop(reader, here(reader), "add what is missing",
             reader->count > 0 ? "the file ends before a ';'" : "the file ends before a '}'");
    reader->depth--;
}

static void read_step(struct reader *reader)
{
    char c = peek(reader);
    if (at_end(reader)) {
        end_file(reader);
    } else if (is_blank(c)) {
        (void)take(reader);
    } else if (c == '#') {
        while (!at_end(reader) && peek(reader) != '\n')
            (void)take(reader);
    } else if (c == '{') {
        open_block(reader);
    } else if (c == '}') {
        close_block(reader);
    } else if (c == ';') {
        (void)take(reader);
        struct directive *directive = reader->count == 0 ? NULL : add_directive(reader, false);
        if (directive != NULL && directive_is(directive, "include"))
            include(reader, directive);
    } else {
        read_word(reader);
    }
}

int nginx_read(struct import *import, const struct import_file *file, bool is_alone, struct directive *root)
{
    struct reader *reader = REGION_NEW(import->region, struct reader, 1);
    *root = (struct directive){ .has_block = true };
    if (reader == NULL)
        return WEIR_ERR_MEMORY;
    const char *slash = strrchr(file->name, '/');
    size_t folder_len = slash == NULL ? 0 : (size_t)(slash - file->name) + 1;
    reader->import = import;
    reader->stack = REGION_NEW(import->region, struct cursor, IMPORT_FILES_MAX);
    reader->folder = region_copy(import->region, (struct slice){ file->name, folder_len }).at;
    reader->is_alone = is_alone;
    reader->block = root;
    if (reader->stack == NULL || reader->folder == NULL)
        return WEIR_ERR_MEMORY;
    (void)push_file(reader, file, root);
    while (reader->depth > 0 && !reader->has_stopped)
        read_step(reader);
    return import->region->has_failed ? WEIR_ERR_MEMORY : 0;
}

/* ---- Looking at directives ------------------------------------------------------------------------------------------------ */

bool directive_is(const struct directive *directive, const char *name)
{
    return directive->count > 0 && slice_equals(directive->words[0].text, slice_of(name));
}

const struct directive *directive_next(const struct directive *directive, const char *name)
{
    while (directive != NULL && !directive_is(directive, name))
        directive = directive->next;
    return directive;
}

struct slice directive_word(const struct directive *directive, unsigned index)
{
    return index < directive->count ? directive->words[index].text : (struct slice){ "", 0 };
}
