// SPDX-License-Identifier: Apache-2.0
/*
 * schema.h - fields as table rows: name, type, bounds, default, sentence; and one walker that reads a map by them.
 *
 * Unknown, missing and ill-typed fields are findings; the walker goes on, so that one run tells them all. A word
 * that a later version brings is known too: it is refused by name instead of as unknown.
 */
#ifndef WEIR_RULE_SCHEMA_H
#define WEIR_RULE_SCHEMA_H

#include "rule/yaml.h"

struct rules;

/* "limit 'a'" is { "limit", "a" }, "memory" has no name, the contract itself neither. */
struct owner {
    const char *what; /* NULL: the contract */
    struct slice name;
    size_t number; /* from 1, where it has no name yet */
};

/* A load in progress. */
struct load {
    struct region *region;  /* of the rules */
    struct region *scratch; /* of the document; gone after loading */
    struct region *home;    /* of what outlives a reload: `server` */
    struct weir_diagnostics *diagnostics;
    struct weir_contract_server *server;
    struct weir_contract_store *store;
    enum weir_fleet fleet; /* who counts shared limits, */
    bool has_store;        /* and whether they know where */
    bool has_throttle;     /* room for limits that come with their requests */
    bool is_reload;        /* which does not read where the store is */
    bool is_exposed;       /* everybody on the machine can read the file */
    struct rules *rules;
    const struct node *limits, *memory, *serving, *storing; /* as the document has them; NULL: absent */
    struct owner owner;                                     /* whose fields are read, for messages */
};

struct field;
typedef void field_parse(struct load *load, const struct field *field, const struct node *value, void *into);

/* One word of a field that takes words. */
struct word {
    const char *word;
    int value;
    const char *later; /* what it belongs to, where a later version brings it: "fleet budgets" */
};

struct field {
    const char *name;
    field_parse *parse;
    const char *type;         /* in a manual: "integer", "COUNT/[N]UNIT" */
    size_t offset;            /* of its member in `into` */
    uint64_t min, max;        /* of integers; of lists, their length */
    const struct word *words; /* of parse_word, up to a NULL word */
    bool is_required;
    const char *fallback; /* what holds when it is absent; NULL: nothing */
    const char *sentence; /* what it answers; also the cure when it is missing */
};

/*
 * Read a map into `into`. `given` has a slot per field: its value, or NULL where the map lacks it. False when
 * `map` is no map (reported).
 */
bool schema_read(struct load *load, const struct node *map, const char *what, const struct field *fields,
                 size_t count, void *into, const struct node **given);

/* ---- Parsers of one value: each writes its member, or reports and leaves it alone ---------------------------- */

field_parse parse_integer; /* uint64_t */
/* The same with words for the most that it may be. */
void schema_integer(struct load *load, const struct field *field, const struct node *value, void *into,
                    const char *most);
field_parse parse_boolean;   /* bool */
field_parse parse_text;      /* const char *, not empty */
field_parse parse_word;      /* int */
field_parse parse_rate;      /* struct rate */
field_parse parse_duration;  /* weir_ns, of `min` to `max` ns */
field_parse parse_attribute; /* uint16_t: the number of the attribute that it names */

/* ---- Reporting --------------------------------------------------------------------------------------------- */

/* "FIELD VALUE of OWNER " and then the problem. */
__attribute__((format(printf, 5, 6))) void schema_error(struct load *load, const char *field,
                                                        const struct node *value, const char *cure,
                                                        const char *problem, ...);

/* "FIELD is missing for OWNER", with the field's sentence as the cure. */
void schema_missing(struct load *load, const struct node *map, const struct field *field);

/* NULL for a scalar that is not empty, else what is wrong: "is a list, not one value". */
const char *node_scalar_problem(const struct node *node);

/* Whether it is a list; else it is reported with the cure. */
bool schema_is_list(struct load *load, const char *field, const struct node *value, const char *cure);

/* The candidate that looks most like `word`, or NULL when none is near. */
const char *schema_nearest(struct slice word, const char *(*candidate)(const void *table, size_t index),
                           const void *table, size_t count);

/* The owner as a message has it, behind `before` (" of "); nothing for the contract. */
struct owner_text {
    char text[112];
};
const char *owner_text(const struct owner *owner, const char *before, struct owner_text *into);

/* What a node is, for messages: "a list". */
const char *node_what(const struct node *node);

#endif
