// SPDX-License-Identifier: Apache-2.0
/*
 * outcome.h - what came of a step, and in which facts it differs from what was expected.
 */
#ifndef WEIR_SIM_OUTCOME_H
#define WEIR_SIM_OUTCOME_H

#include "sim/timeline.h"

struct outcome {
    uint64_t counts[STEP_COUNTS];
    uint64_t open;       /* of its decisions, those that are still waited for */
    struct verdict last; /* of its last decision, or of the operation */
    weir_ns ended_at;    /* when that was decided; WEIR_NO_TIME: it was not */
    char error[400];     /* what the player said of an operation that was refused */
};

/* Values of facts that are not a limit's. */
struct facts {
    weir_ns decided_at, served_at, ended_at, waited, expires_after;
    weir_ns grain; /* of what came: as in struct verdict */
    struct effect effect;
};

struct facts facts_expected(const struct timeline_step *step);
struct facts facts_of_outcome(const struct outcome *came);
/* Of one limit among those that were met nothing else is asked. */
struct facts facts_none(void);

#define FACT_TEXT_MAX 96

/* One fact as text: "retry_after=0.8s", whichever way it was written, so that two can be compared by eye. */
const char *fact_text(enum fact fact, const struct verdict_limit *value, const struct facts *more,
                      char out[FACT_TEXT_MAX]);

/* Bits by enum fact: those that are expected and differ. */
unsigned facts_differing(const struct expectation *expected, const struct verdict_limit *came,
                         const struct facts *more);

/* Whether anything is not as expected; and which limits, and whether there was an error that nobody expected. */
bool outcome_differs(const struct timeline_step *step, const struct outcome *came);
bool outcome_limits_differ(const struct timeline_step *step, const struct outcome *came);
bool outcome_is_surprise(const struct timeline_step *step, const struct outcome *came);

#endif
