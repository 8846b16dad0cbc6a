// SPDX-License-Identifier: Apache-2.0
/* diagnostics.c - a bounded list of findings, and how it is printed. */
#include "rule/diagnostics.h"

#include <stdarg.h>
#include <stdlib.h>

/* Nobody reads more; a hostile file could have millions. */
#define DIAGNOSTICS_MAX 1000

/* Bytes of a source line that are kept: terminals are narrower, and one line may be the whole file. */
#define SOURCE_MAX 400

/* How far behind what is shown the @ of a URL is looked for: more than the longest URL of a store. */
#define SECRET_MAX 4096

/* One text that findings are about. */
struct source {
    const char *name;
    struct slice text;
};

struct finding {
    struct weir_diagnostic said; /* first: what callers see */
    unsigned source;
};

struct weir_diagnostics {
    struct region region;
    struct source *sources;
    unsigned source_count, source_capacity, source;
    struct finding *items;
    size_t count, capacity, errors, dropped;
};

static bool add_source(struct weir_diagnostics *diagnostics, const char *name, struct slice text)
{
    if (diagnostics->source_count == diagnostics->source_capacity) {
        unsigned capacity = diagnostics->source_capacity == 0 ? 1 : 4 * diagnostics->source_capacity;
        struct source *sources = REGION_NEW(&diagnostics->region, struct source, capacity);
        if (sources == NULL)
            return false;
        if (diagnostics->source_count > 0)
            memcpy(sources, diagnostics->sources, diagnostics->source_count * sizeof *sources);
        diagnostics->sources = sources;
        diagnostics->source_capacity = capacity;
    }
    const char *copy = region_copy(&diagnostics->region, slice_of(name)).at;
    if (copy == NULL)
        return false;
    diagnostics->sources[diagnostics->source_count++] = (struct source){ copy, text };
    return true;
}

struct weir_diagnostics *diagnostics_new(const char *name, const struct weir_allocator *allocator)
{
    struct region region;
    region_init(&region, allocator);
    struct weir_diagnostics *diagnostics = REGION_NEW(&region, struct weir_diagnostics, 1);
    if (diagnostics == NULL) {
        region_deinit(&region);
        return NULL;
    }
    diagnostics->region = region;
    if (!add_source(diagnostics, name, (struct slice){ "", 0 })) {
        weir_diagnostics_free(diagnostics);
        return NULL;
    }
    return diagnostics;
}

void weir_diagnostics_free(struct weir_diagnostics *diagnostics)
{
    if (diagnostics == NULL)
        return;
    struct region region = diagnostics->region; /* it holds the list itself */
    region_deinit(&region);
}

size_t weir_diagnostics_count(const struct weir_diagnostics *diagnostics)
{
    return diagnostics == NULL ? 0 : diagnostics->count;
}

const struct weir_diagnostic *weir_diagnostics_at(const struct weir_diagnostics *diagnostics, size_t index)
{
    return diagnostics != NULL && index < diagnostics->count ? &diagnostics->items[index].said : NULL;
}

unsigned diagnostics_source(struct weir_diagnostics *diagnostics, const char *name, struct slice text)
{
    return add_source(diagnostics, name, text) ? diagnostics->source_count - 1 : 0;
}

void diagnostics_use(struct weir_diagnostics *diagnostics, unsigned source)
{
    diagnostics->source = source;
}

const char *diagnostics_name(const struct weir_diagnostics *diagnostics)
{
    return diagnostics->sources[0].name;
}

size_t diagnostics_errors(const struct weir_diagnostics *diagnostics)
{
    return diagnostics->errors;
}

/* Room for one more, or NULL. */
static struct finding *claim(struct weir_diagnostics *diagnostics)
{
    if (diagnostics->count == diagnostics->capacity) {
        size_t capacity = diagnostics->capacity == 0 ? 8 : 2 * diagnostics->capacity;
        struct finding *items = REGION_NEW(&diagnostics->region, struct finding, capacity);
        if (items == NULL)
            return NULL;
        if (diagnostics->count > 0)
            memcpy(items, diagnostics->items, diagnostics->count * sizeof *items);
        diagnostics->items = items;
        diagnostics->capacity = capacity;
    }
    return &diagnostics->items[diagnostics->count];
}

void diagnostics_add(struct weir_diagnostics *diagnostics, enum weir_severity severity, struct place place,
                     const char *cure, const char *format, ...)
{
    if (severity == WEIR_SEVERITY_ERROR)
        diagnostics->errors++;
    if (diagnostics->count >= DIAGNOSTICS_MAX) {
        diagnostics->dropped++;
        return;
    }

    char message[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments); /* a longer one is cut */
    va_end(arguments);

    struct finding *item = claim(diagnostics);
    if (item == NULL)
        return;
    const char *message_copy = region_copy(&diagnostics->region, slice_of(message)).at;
    const char *cure_copy = region_copy(&diagnostics->region, slice_of(cure)).at;
    if (message_copy == NULL || cure_copy == NULL)
        return;
    item->source = diagnostics->source;
    item->said = (struct weir_diagnostic){ .severity = severity,
                                           .line = place.line,
                                           .column = place.column,
                                           .width = place.width == 0 ? 1 : place.width,
                                           .message = message_copy,
                                           .cure = cure_copy };
    diagnostics->count++;
}

static int compare_places(const void *x, const void *y)
{
    const struct weir_diagnostic *a = &((const struct finding *)x)->said;
    const struct weir_diagnostic *b = &((const struct finding *)y)->said;
    unsigned a_source = ((const struct finding *)x)->source, b_source = ((const struct finding *)y)->source;
    if (a_source != b_source)
        return a_source < b_source ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return (a->severity > b->severity) - (a->severity < b->severity);
}

/* ---- Secrets ------------------------------------------------------------------------------------------------------ */

/* What stands behind a `://` where no @ follows: its @ was forgotten, or it names a host and no secret. */
static size_t suspect_len(struct slice text)
{
    size_t len = 0;
    bool is_port = false, is_suspect = text.len > 0 && text.at[0] == ':',
         is_v6 = text.len > 0 && text.at[0] == '[';
    for (; len < text.len && strchr(" /?\"'\r", text.at[len]) == NULL; len++) {
        char c = text.at[len];
        is_suspect = is_suspect || (is_port && c != ',' && (c < '0' || c > '9'));
        is_port = c == ':' || (is_port && c != ',');
    }
    if (is_v6 || !is_suspect)
        return 0;
    while (len < text.len && strchr(" \"'\r", text.at[len]) == NULL)
        len++; /* with a / in it */
    return len;
}

/* Where the secret before the last @ begins: behind the `://`, or where that was forgotten too, with `user:password`. */
static size_t secret_from(struct slice whole, size_t last)
{
    const char *scheme = memmem(whole.at, last, "://", 3);
    size_t from = last;
    if (scheme != NULL)
        return (size_t)(scheme - whole.at) + 3;
    while (from > 0 && strchr(" \"'\t", whole.at[from - 1]) == NULL)
        from--;
    return memchr(whole.at + from, ':', last - from) == NULL ? last : from;
}

/*
 * Stars in place of what a URL says between `://` and the last `@` of its line, one for each character, so that columns stay.
 * Diagnostics go to terminals, logs and the pages of a CI, which more people read than the file; what cannot be told apart
 * from a secret is hidden with it. `shown` is the beginning of `whole`, which is one line. Gives the bytes that are left.
 */
static size_t hide_secrets(char *shown, size_t len, struct slice whole)
{
    size_t from = 0, to = 0;
    if (whole.len > len + SECRET_MAX)
        whole.len = len + SECRET_MAX; /* a line may be the whole file */
    const char *at = whole.len == 0 ? NULL : memrchr(whole.at, '@', whole.len);
    size_t last = at == NULL ? 0 : (size_t)(at - whole.at), begin = secret_from(whole, last);
    while (from < len) {
        size_t until = from;
        if (from == begin && from < last)
            until = last;
        else if (from >= 3 && memcmp(whole.at + from - 3, "://", 3) == 0)
            until = from + suspect_len((struct slice){ whole.at + from, whole.len - from });
        for (; from < until && from < len; from++)
            if (((unsigned char)whole.at[from] & 0xc0) != 0x80)
                shown[to++] = '*';
        if (from < len)
            shown[to++] = shown[from++];
    }
    return to;
}

/* ---- Lines of text ---------------------------------------------------------------------------------------------- */

/* The line that begins at `from`, cut where it is too long to show, never inside a character. */
static struct slice line_at(struct slice text, size_t from)
{
    size_t len = 0;
    while (from + len < text.len && len < SOURCE_MAX && text.at[from + len] != '\n'
           && text.at[from + len] != '\r')
        len++;
    if (len == SOURCE_MAX)
        while (len > 0 && ((unsigned char)text.at[from + len - 1] & 0x80) != 0)
            len--;
    return (struct slice){ text.at + from, len };
}

/* A copy of it that may be shown, or NULL. */
static const char *keep_line(struct region *region, struct slice text, struct slice line)
{
    char shown[SOURCE_MAX];
    size_t left = text.len - (size_t)(line.at - text.at);
    const char *end = memchr(line.at, '\n', left);
    struct slice whole = { line.at, end == NULL ? left : (size_t)(end - line.at) };
    memcpy(shown, line.at, line.len);
    return region_copy(region, (struct slice){ shown, hide_secrets(shown, line.len, whole) }).at;
}

/* Attach the lines of one text to the findings from `item` on that are about it; gives the first that is not. */
static size_t attach_lines(struct weir_diagnostics *diagnostics, size_t item)
{
    unsigned number = diagnostics->items[item].source;
    const struct source *source = &diagnostics->sources[number];
    struct slice text = source->text;
    unsigned line = 1;
    size_t from = 0;
    for (; item < diagnostics->count && diagnostics->items[item].source == number; item++) {
        struct weir_diagnostic *said = &diagnostics->items[item].said;
        said->file = source->name;
        if (said->line == 0)
            continue;
        while (line < said->line && from < text.len) {
            const char *end = memchr(text.at + from, '\n', text.len - from);
            from = end == NULL ? text.len : (size_t)(end - text.at) + 1;
            line++;
        }
        struct slice shown_line = line_at(text, from);
        bool is_shown = line == said->line && shown_line.len > 0 && said->column <= shown_line.len + 1;
        said->source = is_shown ? keep_line(&diagnostics->region, text, shown_line) : NULL;
    }
    return item;
}

bool diagnostics_finish(struct weir_diagnostics *diagnostics, struct slice text)
{
    diagnostics->sources[0].text = text;
    if (diagnostics->dropped > 0 && diagnostics->count == DIAGNOSTICS_MAX) {
        struct finding *last = &diagnostics->items[DIAGNOSTICS_MAX - 1];
        last->source = 0; /* sorted to the front, where it is read */
        last->said.line = 0;
        last->said.column = 0;
        last->said.message = "more than a thousand findings: only the first are shown";
        last->said.cure = "mend these and load again";
    }
    if (diagnostics->count > 0)
        qsort(diagnostics->items, diagnostics->count, sizeof *diagnostics->items, compare_places);
    for (size_t item = 0; item < diagnostics->count;)
        item = attach_lines(diagnostics, item);
    return !diagnostics->region.has_failed;
}

const char *shown(struct slice value, struct shown *into)
{
    size_t len = 0;
    bool is_cut = value.len > sizeof into->text - 5;
    size_t most = is_cut ? sizeof into->text - 8 : value.len;
    for (; len < most; len++) {
        unsigned char c = (unsigned char)value.at[len];
        into->text[len] = c < 0x20 || c == 0x7f ? '?' : value.at[len];
    }
    while (is_cut && len > 0 && ((unsigned char)into->text[len - 1] & 0x80) != 0)
        len--;
    len = hide_secrets(into->text, len, value);
    memcpy(into->text + len, is_cut ? "..." : "", is_cut ? 4 : 1);
    return into->text;
}

/* ---- Printing -------------------------------------------------------------------------------------------- */

static const struct {
    const char *word, *colour;
} severities[] = {
    [WEIR_SEVERITY_ERROR] = { "error", "\033[1;31m" },
    [WEIR_SEVERITY_WARNING] = { "warning", "\033[1;35m" },
    [WEIR_SEVERITY_NOTE] = { "note", "\033[1;36m" },
};

/* A caret under `column`; tabs are repeated so that it stands right at any tab width. Columns count characters. */
static void print_caret(const struct weir_diagnostic *item, FILE *out)
{
    const char *at = item->source;
    for (unsigned column = 1; column < item->column; column++) {
        fputc(*at == '\t' ? '\t' : ' ', out);
        if (*at != '\0')
            at++;
        while (((unsigned char)*at & 0xc0) == 0x80)
            at++;
    }
    fputc('^', out);
    for (unsigned i = 1; i < item->width && i < SOURCE_MAX; i++)
        fputc('~', out);
}

static void print_one(const struct weir_diagnostic *item, FILE *out, bool is_coloured)
{
    const char *bold = is_coloured ? "\033[1m" : "";
    const char *colour = is_coloured ? severities[item->severity].colour : "";
    const char *plain = is_coloured ? "\033[0m" : "";

    fprintf(out, "%s%s:", bold, item->file);
    if (item->line > 0)
        fprintf(out, "%u:%u:", item->line, item->column);
    fprintf(out, "%s %s%s:%s %s%s%s\n", plain, colour, severities[item->severity].word, plain, bold,
            item->message, plain);
    if (item->source != NULL) {
        fprintf(out, "    %s\n    %s", item->source, colour);
        print_caret(item, out);
        fprintf(out, "%s\n", plain);
    }
    fprintf(out, "  help: %s\n", item->cure);
}

void weir_diagnostics_print(const struct weir_diagnostics *diagnostics, FILE *out, bool is_coloured)
{
    for (size_t i = 0; i < weir_diagnostics_count(diagnostics); i++)
        print_one(&diagnostics->items[i].said, out, is_coloured);
}
