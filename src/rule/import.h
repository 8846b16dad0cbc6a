// SPDX-License-Identifier: Apache-2.0
/*
 * import.h - what both importers share: files, names, and the writing of a contract as text.
 *
 * An importer reads everything first, and writes only when nothing was wrong; what it wrote is loaded as a check before
 * anybody sees it. A difference that stays becomes a comment beside the limit that it is about, and where the contract
 * could not admit the same the file is refused with its place.
 */
#ifndef WEIR_RULE_IMPORT_H
#define WEIR_RULE_IMPORT_H

#include "rule/diagnostics.h"
#include "rule/text.h"

/* Files of one folder, or of one configuration with what it includes. */
#define IMPORT_FILES_MAX 1024

/* One text. `source` is its number in the diagnostics. */
struct import_file {
    const char *name;
    struct slice text;
    unsigned source;
};

/* Where a part of the contract comes from. */
struct import_mark {
    size_t at; /* it begins there in `out` */
    unsigned source;
    struct place place;
};

struct import {
    struct region *region;
    struct weir_diagnostics *diagnostics;
    const char *path;   /* as it was given */
    struct text out;    /* the contract */
    const char **names; /* of limits, open addressing */
    size_t name_slots, name_count;
    struct import_mark *marks; /* ascending */
    size_t mark_count, mark_room;
    const struct weir_import_ratelimit *how; /* of ratelimit: NULL, or more than `weir import` wants */
};

/* Read the file, at most WEIR_CONTRACT_BYTES_MAX. 0, WEIR_ERR_FILE with a diagnostic in text 0, or WEIR_ERR_MEMORY. */
int import_file(struct import *import, const char *path, struct import_file *out);

/* A text that was read already, or found inside another. */
struct import_file import_text(struct import *import, const char *name, struct slice text);

/* Report about a place of the text in use. */
#define IMPORT_ERROR(import, place, cure, ...) \
    diagnostics_add((import)->diagnostics, WEIR_SEVERITY_ERROR, (place), (cure), __VA_ARGS__)

/* What is written from here on is about this place of text `source`. */
void import_mark(struct import *import, unsigned source, struct place place);

/* A limit's name made of `wanted`, unlike all before it; NULL without memory. */
const char *import_limit_name(struct import *import, struct slice wanted);

/* An attribute's name made of `wanted`: lower case, '-' for what a name cannot have, at most `max` bytes. */
struct slice import_attribute_name(struct import *import, struct slice wanted, size_t max);

/* A pattern for `when` that matches `text`; its stars stay wildcards where `is_glob`. */
struct slice import_pattern(struct import *import, struct slice text, bool is_glob);

/* The pattern as YAML; `{ is: ... }` where it would be a word. */
void import_add_pattern(struct text *text, struct slice pattern);

/* Patterns as YAML: one alone, several as a list. */
void import_add_patterns(struct text *text, const struct slice *patterns, size_t count);

/* Bytes that a message or a comment may show. */
struct slice import_comment(struct import *import, struct slice text);

/* ---- The two ---------------------------------------------------------------------------------------------------- */

/* Each reads `path`, or where it is given `file` in its place, and writes import->out. 0, WEIR_ERR_FILE or
   WEIR_ERR_MEMORY; mistakes are in the diagnostics. */
int import_ratelimit(struct import *import, const struct import_file *file);
int import_nginx(struct import *import, const struct import_file *file);

/* weir_contract_import() of a text instead of a path: for fuzzing. `include` of it reads no files. */
int import_from_text(int kind, struct slice text, FILE *out, struct weir_diagnostics **diagnostics);

#endif
