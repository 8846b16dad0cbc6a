// SPDX-License-Identifier: Apache-2.0
/*
 * diagnostics.h - the making side of weir_diagnostics: everything that is wrong with one text, in one run.
 *
 * A diagnostic names the thing and the value, and its cure says what to write instead. They may be added in any
 * order; diagnostics_finish() sorts them and attaches the lines of text.
 */
#ifndef WEIR_RULE_DIAGNOSTICS_H
#define WEIR_RULE_DIAGNOSTICS_H

#include "rule/region.h"
#include "weir_contract.h"

/* Where something stands, from 1; line 0: the whole file. */
struct place {
    unsigned line, column, width;
};

/* For a text that was read from `name` (copied). NULL: out of memory. Free with weir_diagnostics_free(). */
struct weir_diagnostics *diagnostics_new(const char *name, const struct weir_allocator *allocator);

/* `cure` is copied. Beyond a thousand they are only counted. */
__attribute__((format(printf, 5, 6))) void diagnostics_add(struct weir_diagnostics *diagnostics,
                                                           enum weir_severity severity, struct place place,
                                                           const char *cure, const char *format, ...);

/*
 * Several texts (an importer reads a folder): what is added from now on is about the text of this number. 0 is the text
 * that diagnostics_finish() is given; diagnostics_source() adds another and gives its number, or 0 without memory. The
 * name is copied; the text is borrowed until diagnostics_finish().
 */
unsigned diagnostics_source(struct weir_diagnostics *diagnostics, const char *name, struct slice text);
void diagnostics_use(struct weir_diagnostics *diagnostics, unsigned source);

/* The name of text 0. */
const char *diagnostics_name(const struct weir_diagnostics *diagnostics);

size_t diagnostics_errors(const struct weir_diagnostics *diagnostics);

/* Sort by place and attach the lines of `text`. Afterwards nothing may be added. False: out of memory, also earlier. */
bool diagnostics_finish(struct weir_diagnostics *diagnostics, struct slice text);

/*
 * A value as it may be shown in a message: control bytes as '?', cut after some forty characters with "...".
 * The text lives in `into`.
 */
struct shown {
    char text[64];
};
const char *shown(struct slice value, struct shown *into);

#endif
