// SPDX-License-Identifier: Apache-2.0
/* counters.c - adds up what a worker did; see counters.h. */
#include "net/counters.h"

#include <assert.h>
#include <stdlib.h>

#define US WEIR_MICROSECOND
#define MS WEIR_MILLISECOND

const weir_ns counters_time_bounds[COUNTERS_TIMES] = {
    1 * US, 2 * US, 5 * US,  10 * US, 20 * US, 50 * US,  100 * US, 200 * US, 500 * US,  1 * MS,
    2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS, 1000 * MS,
};

const char *door_name(enum door door)
{
    static const char *const names[] = {
        [DOOR_NONE] = "none",
        [DOOR_CHECK] = "check",
        [DOOR_AUTH] = "auth",
        [DOOR_AUTH_NGINX] = "auth-nginx",
        [DOOR_AUTH_ACCEL] = "auth-accel",
        [DOOR_LIMITS] = "limits",
        [DOOR_HEALTHZ] = "healthz",
        [DOOR_READYZ] = "readyz",
        [DOOR_METRICS] = "metrics",
    };
    static_assert(sizeof names / sizeof *names == DOOR_COUNT, "every door has a name");
    return names[door];
}

int counters_init(struct counters *counters, size_t limit_count)
{
    *counters = (struct counters){ .limit_count = limit_count };
    counters->decisions = calloc((limit_count + 1) * WEIR_OUTCOME_COUNT, sizeof *counters->decisions);
    counters->undecided =
        calloc(limit_count * WEIR_POLICY_COUNT * WEIR_REASON_COUNT + 1, sizeof *counters->undecided);
    if (counters->decisions != NULL && counters->undecided != NULL)
        return 0;
    counters_deinit(counters);
    return WEIR_ERR_MEMORY;
}

void counters_deinit(struct counters *counters)
{
    free(counters->decisions);
    free(counters->undecided);
    counters->decisions = NULL;
    counters->undecided = NULL;
}

static bool passes(enum weir_outcome outcome)
{
    return outcome == WEIR_ALLOW || outcome == WEIR_WAIT || outcome == WEIR_UNMETERED;
}

static void count_one(struct counters *counters, const struct weir_decision *decision)
{
    size_t row = decision->limit == WEIR_NO_LIMIT ? counters->limit_count : (size_t)decision->limit;
    assert(row <= counters->limit_count);
    counter_add(&counters->decisions[row * WEIR_OUTCOME_COUNT + decision->outcome], 1);
    bool is_undecided = decision->outcome == WEIR_UNMETERED || decision->outcome == WEIR_REFUSED;
    if (is_undecided && row < counters->limit_count)
        counter_add(&counters->undecided[(row * WEIR_POLICY_COUNT + decision->policy) * WEIR_REASON_COUNT
                                         + decision->reason],
                    1);
}

void counters_decision(struct counters *counters, const struct weir_answer *answer)
{
    bool has_passed = passes(answer->decision.outcome);
    size_t counted = 0;
    for (size_t i = 0; i < answer->count; i++) {
        if (!has_passed && passes(answer->each[i].outcome))
            continue;
        count_one(counters, &answer->each[i]);
        counted++;
    }
    if (counted == 0)
        count_one(counters, &answer->decision);
}

void counters_time(struct counters *counters, uint64_t count, weir_ns ns)
{
    size_t i = 0;
    while (i < COUNTERS_TIMES && ns > counters_time_bounds[i] * count)
        i++;
    counter_add(&counters->times[i], count);
    counter_add(&counters->time_sum_ns, ns);
}
