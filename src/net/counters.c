// SPDX-License-Identifier: Apache-2.0
/* counters.c - adds up what a worker did; see counters.h. */
#include "net/counters.h"

#include <assert.h>
#include <stdlib.h>

#include "net/ask.h"

#define US WEIR_MICROSECOND
#define MS WEIR_MILLISECOND

const weir_ns counters_time_bounds[COUNTERS_TIMES] = {
    1 * US, 2 * US, 5 * US,  10 * US, 20 * US, 50 * US,  100 * US, 200 * US, 500 * US,  1 * MS,
    2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS, 1000 * MS,
};

const weir_ns counters_wait_bounds[COUNTERS_WAITS] = {
    1 * MS,   2 * MS,    5 * MS,    10 * MS,   20 * MS,    50 * MS,    100 * MS,   200 * MS,
    500 * MS, 1000 * MS, 2000 * MS, 5000 * MS, 10000 * MS, 20000 * MS, 50000 * MS, 100000 * MS,
};

const char *door_name(enum door door)
{
    static const char *const names[] = {
        [DOOR_NONE] = "none",
        [DOOR_CHECK] = "check",
        [DOOR_RESERVE] = "reserve",
        [DOOR_SETTLE] = "settle",
        [DOOR_CANCEL] = "cancel",
        [DOOR_REFUND] = "refund",
        [DOOR_RESET] = "reset",
        [DOOR_RELOAD] = "reload",
        [DOOR_ACQUIRE] = "acquire",
        [DOOR_RENEW] = "renew",
        [DOOR_RELEASE] = "release",
        [DOOR_AUTH] = "auth",
        [DOOR_AUTH_NGINX] = "auth-nginx",
        [DOOR_AUTH_ACCEL] = "auth-accel",
        [DOOR_LIMITS] = "limits",
        [DOOR_HEALTHZ] = "healthz",
        [DOOR_READYZ] = "readyz",
        [DOOR_METRICS] = "metrics",
        [DOOR_JSON] = "json",
        [DOOR_HEALTHCHECK] = "healthcheck",
        [DOOR_RESP] = "resp",
        [DOOR_RESP_THROTTLE] = "resp-throttle",
        [DOOR_RESP_CHECK] = "resp-check",
        [DOOR_RESP_RESERVE] = "resp-reserve",
        [DOOR_RESP_SETTLE] = "resp-settle",
        [DOOR_RESP_CANCEL] = "resp-cancel",
        [DOOR_RESP_REFUND] = "resp-refund",
        [DOOR_RESP_RESET] = "resp-reset",
        [DOOR_RESP_ACQUIRE] = "resp-acquire",
        [DOOR_RESP_RENEW] = "resp-renew",
        [DOOR_RESP_RELEASE] = "resp-release",
        [DOOR_GRPC] = "grpc",
        [DOOR_GRPC_RATELIMIT] = "grpc-ratelimit",
        [DOOR_GRPC_HEALTH] = "grpc-health",
    };
    static_assert(sizeof names / sizeof *names == DOOR_COUNT, "every door has a name");
    return names[door];
}

const char *gate_name(enum gate gate)
{
    static const char *const names[] = {
        [GATE_HTTP] = "http", [GATE_RESP] = "resp", [GATE_GRPC] = "grpc", [GATE_ADMIN] = "admin"
    };
    static_assert(sizeof names / sizeof *names == GATE_COUNT, "every gate has a name");
    return names[gate];
}

void counters_deinit(struct counters *counters)
{
    for (size_t i = 0; i < COUNTERS_BLOCKS; i++)
        free(counters->blocks[i]);
}

bool counters_claim(struct counters *counters, uint32_t row)
{
    struct counter_row **block = &counters->blocks[row / COUNTERS_BLOCK_ROWS];
    if (*block == NULL)
        *block = calloc(COUNTERS_BLOCK_ROWS, sizeof **block);
    if (*block == NULL)
        return false;
    (*block)[row % COUNTERS_BLOCK_ROWS] = (struct counter_row){ .decisions = { 0 } };
    return true;
}

static void count_one(struct counters *counters, const uint32_t *rows, const struct weir_decision *decision)
{
    if (decision->limit == WEIR_NO_LIMIT) {
        counter_add(&counters->none[decision->outcome], 1);
        return;
    }
    struct counter_row *row = counters_row_of(counters, rows, decision->limit);
    if (row == NULL)
        return;
    counter_add(&row->decisions[decision->outcome], 1);
    /* Nobody could decide, or this process did out of its share or its lease while the store was away. */
    if (decision->outcome == WEIR_UNMETERED || decision->outcome == WEIR_REFUSED
        || decision->policy == WEIR_POLICY_LOCAL || decision->policy == WEIR_POLICY_LEASED)
        counter_add(&row->undecided[decision->policy][decision->reason], 1);
}

static void count_watched(struct counters *counters, const uint32_t *rows, const struct weir_decision *decision)
{
    struct counter_row *row = counters_row_of(counters, rows, decision->limit);
    if (row != NULL)
        counter_add(&row->watched[decision->outcome], 1);
}

static void count_look(struct counters *counters, const uint32_t *rows, const struct weir_decision *decision)
{
    struct counter_row *row = counters_row_of(counters, rows, decision->limit);
    if (row != NULL)
        counter_add(&row->looks[decision->outcome], 1);
}

static bool is_permits(const struct weir_answer *answer, const struct weir_decision *decision)
{
    return decision->limit != WEIR_NO_LIMIT && answer->limits[decision->limit].algorithm == WEIR_CONCURRENCY;
}

void counters_decision(struct counters *counters, const uint32_t *rows, const struct weir_answer *answer,
                       bool acquires)
{
    bool has_passed = outcome_passes(answer->decision.outcome);
    size_t counted = 0;
    for (size_t i = 0; i < answer->count; i++) {
        if ((answer->watched >> i & 1) != 0) {
            count_watched(counters, rows, &answer->each[i]);
            continue;
        }
        if (!has_passed && outcome_passes(answer->each[i].outcome))
            continue;
        if (!acquires && is_permits(answer, &answer->each[i]))
            count_look(counters, rows, &answer->each[i]);
        else
            count_one(counters, rows, &answer->each[i]);
        counted++;
    }
    if (counted == 0)
        count_one(counters, rows, &answer->decision);
}

void counters_time(struct counters *counters, enum door door, uint64_t count, weir_ns ns)
{
    size_t i = 0;
    while (i < COUNTERS_TIMES && ns > counters_time_bounds[i] * count)
        i++;
    counter_add(&counters->times[door][i], count);
    counter_add(&counters->time_sum_ns[door], ns);
}

void counters_wait(struct counters *counters, uint32_t row, enum wait_end end, weir_ns waited)
{
    struct counter_row *limit = counters_row(counters, row);
    counter_add(limit == NULL ? &counters->waits[end] : &limit->waits[end], 1);
    if (end != WAIT_SERVED)
        return;
    size_t i = 0;
    while (i < COUNTERS_WAITS && waited > counters_wait_bounds[i])
        i++;
    counter_add(&counters->wait_times[i], 1);
    counter_add(&counters->wait_sum_ns, waited);
}
