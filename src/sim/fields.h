// SPDX-License-Identifier: Apache-2.0
/*
 * fields.h - reading a map of a test file by a table of its fields; what is not in the table is a fault.
 */
#ifndef WEIR_SIM_FIELDS_H
#define WEIR_SIM_FIELDS_H

#include "sim/timeline.h"
#include "sim/tree.h"

struct field;

/* One map while it is read. */
struct fields {
    struct tree *tree;
    const struct tree_node *map;
    const struct field *field; /* whose value is being read */
};

enum field_need { FIELD_OPTIONAL, FIELD_REQUIRED };

struct field {
    const char *name;
    enum field_need need;
    bool (*read)(struct fields *fields, const struct tree_node *node, void *into); /* false: told a fault */
    int argument; /* for a reader of several fields: fields->field->argument */
};

/* Read `node` into `into`, telling every fault. `what` names it in messages: "the step". False if there was any. */
bool fields_read(struct tree *tree, const struct tree_node *node, const char *what, const struct field *table,
                 size_t count, void *into);

/* Tell that the value of the field being read is at fault: "`at` 5 PROBLEM". Always false. */
bool field_fault(struct fields *fields, const struct tree_node *node, const char *cure, const char *problem);

/* A sentence for people. */
bool field_read_about(struct fields *fields, const struct tree_node *node, void *into);

/* Readers of one kind of value; false after telling what it should be. */
bool field_integer(struct fields *fields, const struct tree_node *node, uint64_t least, uint64_t most,
                   uint64_t *out);
bool field_duration(struct fields *fields, const struct tree_node *node, weir_ns *out);
bool field_is_null(const struct tree_node *node);

bool field_boolean(struct fields *fields, const struct tree_node *node, bool *out);

/* A contract that stands at `node`: a path relative to the test file, or its fields (contract_source.c). */
bool contract_source_read(struct fields *fields, const struct tree_node *node, const char *test_file,
                          struct timeline_contract *out);

/* One step of a timeline (step.c), and what it expects (expect.c). */
bool step_read(struct timeline *timeline, const struct tree_node *node, struct timeline_step *out);
bool expect_read(struct fields *fields, const struct tree_node *node, void *step);

/* Whether a step of this kind can come out as it is expected to; else tells the fault. */
bool expect_check(struct tree *tree, const struct timeline_step *step);

#endif
