// SPDX-License-Identifier: Apache-2.0
/*
 * timeline.h - a test file as data: a contract, and steps with what is expected of them. See weir-test(5).
 */
#ifndef WEIR_SIM_TIMELINE_H
#define WEIR_SIM_TIMELINE_H

#include "sim/tree.h"
#include "sim/verdict.h"

/* Most repetitions of one step. */
#define TIMELINE_TIMES_MAX 1000000

/* A fact about a decision that an expectation may state. */
enum fact {
    FACT_DECISION,
    FACT_LIMIT,
    FACT_POLICY,
    FACT_REASON,
    FACT_CAPACITY,
    FACT_REMAINING,
    FACT_RETRY_AFTER,
    FACT_RESET_AFTER,
    FACT_DECIDED_AT,
    FACT_COUNT
};

/* The word of a fact, as in test files: "retry_after". */
const char *fact_name(enum fact fact);

struct expectation {
    unsigned given;             /* bit per enum fact: only these are compared */
    struct verdict_limit value; /* of those; null is "", WEIR_NO_TIME, NONE or has_x = false */
    weir_ns decided_at;
};

struct timeline_step {
    const struct tree_node *node; /* where it stands */
    weir_ns at;                   /* from the start of the timeline */
    struct weir_request request;
    uint64_t times;

    bool has_counts; /* counts of every outcome are expected */
    uint64_t counts[WEIR_OUTCOME_COUNT];
    struct expectation last; /* about the last decision */
    bool has_limits;         /* each limit that it met is expected, these and no others */
    struct expectation *limits;
    size_t limit_count;
};

struct timeline {
    struct tree tree; /* owns all memory below */
    char *name;       /* of the file */
    char *text;       /* of the file */

    const char *contract_path;  /* NULL: inline */
    struct slice contract_text; /* inline: stands on the same lines and columns as in the file */
    int64_t start_wall;         /* Unix time in ns at instant 0 */
    struct timeline_step *steps;
    size_t step_count;
};

/*
 * Load a test file ("-": standard input), or read one from `text` (copied). Faults are told on `err` (NULL: nowhere)
 * as file:line:column. Returns NULL after telling; else the caller frees it with timeline_free().
 */
struct timeline *timeline_load(const char *path, FILE *err, bool is_coloured);
struct timeline *timeline_parse(const char *text, size_t len, const char *name, FILE *err, bool is_coloured);
void timeline_free(struct timeline *timeline);

#endif
