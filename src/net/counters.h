// SPDX-License-Identifier: Apache-2.0
/*
 * counters.h - what one worker counts; nobody else writes it.
 *
 * Idea: counters that no two threads write need neither lock nor locked instruction, and a scrape adds up all
 * workers' (metrics.c, limits.c). Labels are limits, fixed words and statuses: never keys of clients.
 *
 * A limit counts in a row of its own that it keeps as long as its name stays in the contract, through every
 * reload; which row that is, an edition knows (edition.h). Rows come in blocks that never move.
 *
 * Words      every counter: written by its worker, read by any. blocks[i]: written once, by the thread that
 *            reloads.
 * Ordering   relaxed: a sum over counters that move is approximate anyway; a single word is never torn. A block
 *            is complete before an edition that names its rows can be seen.
 * Progress   wait-free.
 * Reuse      a row serves another limit only after every worker has left the editions that named it.
 */
#ifndef WEIR_NET_COUNTERS_H
#define WEIR_NET_COUNTERS_H

#include <stdbool.h>

#include "weir_contract.h"
#include "wire/call.h"

/* What a request was for: the label `door`. NONE: no request was understood, or no such path. */
enum door {
    DOOR_NONE,
    DOOR_CHECK,
    DOOR_RESERVE,
    DOOR_SETTLE,
    DOOR_CANCEL,
    DOOR_REFUND,
    DOOR_RESET,
    DOOR_RELOAD,
    DOOR_ACQUIRE,
    DOOR_RENEW,
    DOOR_RELEASE,
    DOOR_AUTH,
    DOOR_AUTH_NGINX,
    DOOR_AUTH_ACCEL,
    DOOR_LIMITS,
    DOOR_HEALTHZ,
    DOOR_READYZ,
    DOOR_METRICS,
    DOOR_JSON,
    DOOR_HEALTHCHECK,
    DOOR_RESP, /* what is no call, but belongs to the connection */
    DOOR_RESP_THROTTLE,
    DOOR_RESP_CHECK,
    DOOR_RESP_RESERVE,
    DOOR_RESP_SETTLE,
    DOOR_RESP_CANCEL,
    DOOR_RESP_REFUND,
    DOOR_RESP_RESET,
    DOOR_RESP_ACQUIRE,
    DOOR_RESP_RENEW,
    DOOR_RESP_RELEASE,
    DOOR_GRPC, /* no such method, or no gRPC */
    DOOR_GRPC_RATELIMIT,
    DOOR_GRPC_HEALTH,
    DOOR_COUNT
};

const char *door_name(enum door door);

/* By which listener a connection came: the label `door` of what is about connections. */
enum gate { GATE_HTTP, GATE_RESP, GATE_GRPC, GATE_ADMIN, GATE_COUNT };

const char *gate_name(enum gate gate);

/* Statuses are below 600 (RFC 9110). */
#define COUNTERS_STATUS_MAX 600

/* Upper bounds of weir_decision_seconds, 1 us to 1 s; above the last is +Inf. */
#define COUNTERS_TIMES 19
extern const weir_ns counters_time_bounds[COUNTERS_TIMES];

/* Upper bounds of weir_wait_seconds, 1 ms to 100 s. */
#define COUNTERS_WAITS 16
extern const weir_ns counters_wait_bounds[COUNTERS_WAITS];

/* How a request that asked to wait, and would have had to, ended. */
enum wait_end {
    WAIT_SERVED,
    WAIT_REFUSED, /* on arrival, or at its turn by what lets nobody wait */
    WAIT_TIMEOUT, /* it had waited as long as it might */
    WAIT_LEFT,    /* its caller hung up */
    WAIT_DRAINED, /* the server ended */
    WAIT_END_COUNT
};

/* What happens to permits. */
enum permit_event {
    PERMIT_ACQUIRED,
    PERMIT_RENEWED,
    PERMIT_RELEASED,
    PERMIT_RETURNED, /* by the end of the connection that it was bound to, or that was to get it */
    PERMIT_LOST,     /* renewed or released too late */
    PERMIT_EVENT_COUNT
};

/* Why connections were not served, or no longer. */
enum refusal {
    REFUSAL_PEER_FULL,    /* its address has as many as it may have */
    REFUSAL_PROXY_HEADER, /* a proxy's, that began with no PROXY header or with a bad one */
    REFUSAL_SLOW,         /* a request did not arrive, or a reply was not read, in its time */
    REFUSAL_COUNT
};

/* What one limit said. */
struct counter_row {
    uint64_t decisions[WEIR_OUTCOME_COUNT];
    uint64_t watched[WEIR_OUTCOME_COUNT]; /* where it does not enforce: what would have been */
    uint64_t looks[WEIR_OUTCOME_COUNT];   /* of a concurrency limit, at doors that give no permits */
    uint64_t undecided[WEIR_POLICY_COUNT]
                      [WEIR_REASON_COUNT]; /* answered by policy, those of a local share included */
    uint64_t waits[WAIT_END_COUNT];        /* of requests whose answer it bound */
};

/* Rows of a block, and blocks for the limits of two editions at once. */
#define COUNTERS_BLOCK_ROWS 64
#define COUNTERS_BLOCKS (2 * ((WEIR_LIMITS_MAX + COUNTERS_BLOCK_ROWS) / COUNTERS_BLOCK_ROWS))
#define COUNTERS_ROWS ((uint32_t)COUNTERS_BLOCKS * COUNTERS_BLOCK_ROWS)

/* The row of a limit that is not counted, because there was no memory. */
#define COUNTERS_NO_ROW UINT32_MAX

struct counters {
    uint64_t requests[DOOR_COUNT][COUNTERS_STATUS_MAX];
    uint64_t times[DOOR_COUNT][COUNTERS_TIMES + 1];
    uint64_t time_sum_ns[DOOR_COUNT];
    uint64_t wait_times[COUNTERS_WAITS + 1]; /* of those that were served */
    uint64_t wait_sum_ns;
    uint64_t waits[WAIT_END_COUNT]; /* of those that no limit bound, or that got no answer */
    uint64_t permits[PERMIT_EVENT_COUNT];
    uint64_t releases[CALL_OUTCOME_COUNT];
    uint64_t closed[GATE_COUNT]; /* connections, by the listener that they came by */
    uint64_t handshakes_broken;  /* connections of TLS that ended before they could say anything */
    uint64_t refusals[REFUSAL_COUNT];
    uint64_t dropped;                  /* tokens of settlements that did not fit under a debt */
    uint64_t none[WEIR_OUTCOME_COUNT]; /* decisions that no limit bound */
    struct counter_row *blocks[COUNTERS_BLOCKS];
};

void counters_deinit(struct counters *counters);

/* Make the row, all zero. False: out of memory. Not while the worker or a scrape may know the row. */
bool counters_claim(struct counters *counters, uint32_t row);

static inline struct counter_row *counters_row(const struct counters *counters, uint32_t row)
{
    return row == COUNTERS_NO_ROW ? NULL
                                  : &counters->blocks[row / COUNTERS_BLOCK_ROWS][row % COUNTERS_BLOCK_ROWS];
}

/* By `rows` of an edition, NULL where memory was short when it was made: then it goes uncounted. */
static inline struct counter_row *counters_row_of(const struct counters *counters, const uint32_t *rows,
                                                  weir_limit_id limit)
{
    return rows == NULL ? NULL : counters_row(counters, rows[limit]);
}

static inline void counter_add(uint64_t *counter, uint64_t more)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

static inline uint64_t counter_read(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/*
 * Count one answer; `rows` are those of the limits that it indexes. Where the request passed, each limit it met
 * counts what it said; where not, only those that did not let it pass: `allow` of a limit is thus the number of
 * requests that were charged to it. Limits that only watch count apart, whatever became of the request, and so do
 * concurrency limits unless the request `acquires`: nothing of them was taken.
 */
void counters_decision(struct counters *counters, const uint32_t *rows, const struct weir_answer *answer,
                       bool acquires);

/* `count` decisions of a door took `ns` together. */
void counters_time(struct counters *counters, enum door door, uint64_t count, weir_ns ns);

/* A request had to wait, and ended so after `waited`, by the limit whose row it is. */
void counters_wait(struct counters *counters, uint32_t row, enum wait_end end, weir_ns waited);

#endif
