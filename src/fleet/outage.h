// SPDX-License-Identifier: Apache-2.0
/*
 * outage.h - whether a node of the store is worth asking: a circuit breaker for each, shared by all workers of a process.
 *
 * Idea: a store that does not answer must not cost every request its deadline. After OUTAGE_FAILURES failures in a row the
 * node is not asked any more; after a jittered cool-down one request, and only one in the process, is the probe: it closes the
 * breaker, or doubles the cool-down up to a cap. Anything heard of the node closes it at once (P40).
 *
 * An outage begins with the first failure since anything was heard of the node and is not prolonged by later ones, so that
 * `when-store-fails: { open: 30s }` ends in time (B63). It has a number, by which what was spent meanwhile is kept apart.
 *
 * Words:     all under `lock`, which is held for a few instructions. Time and randomness are arguments.
 * Reuse:     an outage lives as long as its registry.
 */
#ifndef WEIR_FLEET_OUTAGE_H
#define WEIR_FLEET_OUTAGE_H

#include <stdbool.h>

#include "weir_contract.h"

struct outages; /* of one process */
struct outage;  /* of one node */

/* Failures in a row after which a node is not asked any more. */
#define OUTAGE_FAILURES 5

/* The first cool-down and the longest; each is drawn from half of it to the whole. */
#define OUTAGE_COOL_NS (100 * WEIR_MILLISECOND)
#define OUTAGE_COOL_MAX_NS (5 * WEIR_SECOND)

/* Most nodes; any more share the last one's. */
#define OUTAGES_MAX 1024

enum outage_verdict {
    OUTAGE_ASK,   /* closed */
    OUTAGE_PROBE, /* this request is the probe: tell what came of it */
    OUTAGE_AVOID, /* open: do not ask */
};

/* 0 or WEIR_ERR_MEMORY. */
int outages_new(struct outages **out, uint64_t seed);
void outages_free(struct outages *outages);

/* The one of an address ("127.0.0.1:6379"), made where there is none. Never NULL. Copied. */
struct outage *outage_of(struct outages *outages, const char *address);

/* Before asking. */
enum outage_verdict outage_ask(struct outage *outage, weir_ns now);

/* After: something was heard of it, or it failed. A probe that is not told of counts as failed after `deadline` more ns. */
void outage_heard(struct outage *outage, weir_ns now);
void outage_failed(struct outage *outage, weir_ns now);

/* Since when and which; began_at WEIR_NO_TIME: there is none. */
struct weir_outage outage_now(const struct outage *outage);

/* For metrics and logs: walk them. */
struct outage_view {
    const char *address;
    enum { OUTAGE_CLOSED, OUTAGE_OPEN, OUTAGE_HALF_OPEN } state;
    struct weir_outage outage;
    uint64_t failures, opened, probes; /* since the start */
};
size_t outages_count(const struct outages *outages);
void outages_view(const struct outages *outages, size_t index, struct outage_view *out);

#endif
