// SPDX-License-Identifier: Apache-2.0
/*
 * timeline.h - a test file as data: a contract, and steps with what is expected of them. See weir-test(5).
 *
 * A step asks a request, or does something beside deciding: settles what an earlier one reserved, puts another contract in
 * force, takes the store of shared limits away. It is done at one of several replicas. Handles are numbers given while reading, so a player keeps what lasts (reservations, permits, who waits) in an
 * array. A request that waits ends in a later step, or at the end of the file.
 */
#ifndef WEIR_SIM_TIMELINE_H
#define WEIR_SIM_TIMELINE_H

#include "sim/tree.h"
#include "sim/verdict.h"

/* Most repetitions of one step. */
#define TIMELINE_TIMES_MAX 1000000

/* Most names that a file gives with `as`. */
#define TIMELINE_NAMES_MAX 1024

/* Most of what lasts beyond its step: reservations, permits, and requests that may wait. */
#define TIMELINE_HANDLES_MAX 65536

/* Most replicas of a file, the one without a name included. */
#define TIMELINE_REPLICAS_MAX 16

/* How long a step's reservation lasts. */
#define TIMELINE_HOLD_NS (3600 * WEIR_SECOND)

/* A fact about a decision, or about what an operation beside deciding did, that an expectation may state. */
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
    FACT_ENFORCED,
    FACT_ERROR,
    FACT_REPEATED,
    FACT_SERVED_AT,
    FACT_ENDED_AT,
    FACT_WAITED,
    FACT_EXPIRES_AFTER,
    FACT_RELEASED,
    FACT_EFFECT, /* the first of the numbers of an effect, in the order of enum effect_number */
    FACT_COUNT = FACT_EFFECT + EFFECT_NUMBERS
};

/* The word of a fact, as in test files: "retry_after". */
const char *fact_name(enum fact fact);

struct expectation {
    unsigned given;             /* bit per enum fact: only these are compared */
    struct verdict_limit value; /* of those; null is "", WEIR_NO_TIME, NONE or has_x = false */
    weir_ns decided_at;
    weir_ns served_at, ended_at, waited, expires_after;
    struct effect effect;
};

/* What a step does. */
enum step_kind {
    STEP_REQUEST,
    STEP_RESERVE,
    STEP_ACQUIRE,
    STEP_SETTLE,
    STEP_CANCEL,
    STEP_RENEW,
    STEP_RELEASE,
    STEP_LEAVE,
    STEP_REFUND,
    STEP_RESET,
    STEP_RELOAD,
    STEP_RESTART,
    STEP_STORE,
    STEP_KIND_COUNT
};

/* What happens to the store of shared limits. */
enum store_event { STORE_AWAY, STORE_BACK, STORE_LOST, STORE_EVENT_COUNT };

/* Its word, as in test files: "away". */
const char *store_event_name(enum store_event event);

/* The word of a kind, as in test files: "settle". */
const char *step_kind_name(enum step_kind kind);

/* Whether a step of this kind asks for decisions; the others do something beside. */
static inline bool step_decides(enum step_kind kind)
{
    return kind <= STEP_ACQUIRE;
}

/* What is counted over a step: outcomes (WEIR_WAIT: nobody ended it), and those that left before they were decided. */
enum { COUNT_LEFT = WEIR_OUTCOME_COUNT, STEP_COUNTS };

/* A contract: in a file, or inline. */
struct timeline_contract {
    const char *path;  /* NULL: inline */
    struct slice text; /* inline: stands on the same lines and columns as in the file */
};

#define TIMELINE_NO_HANDLE SIZE_MAX

struct timeline_step {
    const struct tree_node *node; /* where it stands */
    enum step_kind kind;
    unsigned fields; /* bit per field that it has, by step.c's table */
    weir_ns at;      /* from the start of the timeline */
    struct weir_request
        request; /* what is asked, reserved, acquired or refunded, or the key that is reset; cost of a settlement */
    bool may_wait; /* request.wait is given */
    uint64_t times;
    struct slice handle_name;
    size_t
        handle; /* of what its first decision makes, one for each of `times`; or of what it ends; TIMELINE_NO_HANDLE */
    size_t replica;                    /* index into timeline->replicas: who does it */
    const char *limit;                 /* STEP_RESET */
    struct timeline_contract contract; /* STEP_RELOAD */
    enum store_event store;            /* STEP_STORE */

    bool has_counts; /* counts of every outcome are expected */
    uint64_t counts[STEP_COUNTS];
    struct expectation last; /* about the last decision, or about the operation */
    bool has_limits;         /* each limit that it met is expected, these and no others */
    struct expectation *limits;
    size_t limit_count;
};

struct timeline {
    struct tree tree; /* owns all memory below */
    char *name;       /* of the file */
    char *text;       /* of the file */

    struct timeline_contract contract;
    int64_t start_wall; /* Unix time in ns at instant 0 */
    struct timeline_step *steps;
    size_t step_count;

    const struct timeline_step *named[TIMELINE_NAMES_MAX]; /* steps with `as` */
    size_t named_count;
    size_t handle_count;

    struct slice
        replicas[TIMELINE_REPLICAS_MAX]; /* their names; the first has none: that of steps without `replica` */
    size_t replica_count;
    bool has_store_steps, is_store_away; /* behind the last step that was read */
};

/*
 * Load a test file ("-": standard input), or read one from `text` (copied). Faults are told on `err` (NULL: nowhere)
 * as file:line:column. Returns NULL after telling; else the caller frees it with timeline_free().
 */
struct timeline *timeline_load(const char *path, FILE *err, bool is_coloured);
struct timeline *timeline_parse(const char *text, size_t len, const char *name, FILE *err, bool is_coloured);
void timeline_free(struct timeline *timeline);

#endif
