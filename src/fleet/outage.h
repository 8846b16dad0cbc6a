// SPDX-License-Identifier: Apache-2.0
/*
 * outage.h - whether a node of the store is worth asking: a circuit breaker for each, shared by all workers of a process.
 *
 * Idea: a store that does not answer must not cost every request its deadline. After OUTAGE_FAILURES failures in a row the
 * node is not asked any more; after a jittered cool-down one probe, and only one in the process, is sent beside the requests: an
 * answer in time closes the breaker, anything else doubles the cool-down up to a cap. So no request waits for a dead store once
 * that is known, and a healthy one is used again within cool-down and probe time (P40).
 *
 * An outage begins with the first failure since an answer came in time and is not prolonged by later ones, so that
 * `when-store-fails: { open: 30s }` ends (B63). An answer that comes too late decides nothing and ends no outage, or a store
 * that is always slower than the deadline would keep that window open for ever; it lets the next probe go soon. An outage has a
 * number, by which what was spent meanwhile is kept apart.
 *
 * A node that speaks but cannot serve (read-only, loading, an error) is in an outage too, but costs no waiting: it is asked on.
 *
 * Words:     all under the outage's lock, which is held for a few instructions, but `is_calm`, which is set when there is
 *            nothing to forget and spares the lock on every good answer.
 * Ordering:  is_calm is stored under the lock (release) and read without (acquire). A reader that sees an old `true` misses a
 *            failure of this very moment: its answer in time came before it as well as after it.
 * Progress:  blocking, for a few instructions. Time and randomness are arguments.
 * Reuse:     an outage lives as long as its registry.
 */
#ifndef WEIR_FLEET_OUTAGE_H
#define WEIR_FLEET_OUTAGE_H

#include <stdbool.h>

#include "base/bytes.h"
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

/* Longest address that is kept; of a longer one the front. */
#define OUTAGE_ADDRESS_MAX 255

/* Room for why an outage is on, with its end. */
#define OUTAGE_WHY_MAX 128

/* A node that comes and goes is told of once in so long. */
#define OUTAGE_QUIET_NS (10 * WEIR_SECOND)

enum outage_verdict {
    OUTAGE_ASK,   /* closed */
    OUTAGE_PROBE, /* this is the probe: tell what came of it with outage_probed() */
    OUTAGE_AVOID, /* open: do not ask */
};

/* 0 or WEIR_ERR_MEMORY. */
int outages_new(struct outages **out, uint64_t seed);
void outages_free(struct outages *outages);

/* The one of an address ("127.0.0.1:6379"), made where there is none. Never NULL. Copied. The caller has the node
   until it says outage_left(); who never does keeps it shown. */
struct outage *outage_of(struct outages *outages, const char *address);

/* Before asking: ASK, or AVOID and which outage it is. */
enum outage_verdict outage_ask(struct outage *outage, weir_ns now, struct weir_outage *out);

/* Whether to send the probe now: PROBE, AVOID (it is not time, or another is under way), or ASK: there is no outage (there is one
   from the first failure on, also while the breaker is closed). One that is not told of counts as failed after `deadline` ns
   more. */
enum outage_verdict outage_probe(struct outage *outage, weir_ns now, weir_ns deadline);
/* When it may be worth calling outage_probe(); WEIR_NO_TIME where there is no outage. */
weir_ns outage_probe_at(const struct outage *outage);

/* An answer came in time: there is no outage any more. */
void outage_heard(struct outage *outage, weir_ns now);
/* Nothing came in time, or the connection broke, or there is none. Gives the outage that this belongs to. */
struct weir_outage outage_failed(struct outage *outage, weir_ns now);
/* It spoke, and could not serve: does not open the breaker. */
struct weir_outage outage_refused(struct outage *outage, weir_ns now);
/* It spoke, too late or of itself: the next probe may go soon. */
void outage_alive(struct outage *outage, weir_ns now);
/* The node is no more one of the store's for who has it. When the last one says so what there was of an outage ends without a
   word: while another asks there still, `{ open: 30s }` must not begin anew. Once for each outage_of(); it stays valid. */
void outage_left(struct outage *outage);
/* What came of the probe. */
void outage_probed(struct outage *outage, weir_ns now, bool is_heard);

/* Why it is on, in the store's own words where it had any: the latest counts. Printable, without quotes; cut where longer. */
void outage_say(struct outage *outage, struct slice why);
/* What was said of the outage that is on; "" where nothing was, or there is none. */
void outage_why(const struct outage *outage, char out[OUTAGE_WHY_MAX]);

/* Since when and which; began_at WEIR_NO_TIME: there is none. */
struct weir_outage outage_now(const struct outage *outage);

/* What is to be said in the log: each beginning and end once in the process, and of a node that comes and goes not all. */
enum outage_news { OUTAGE_NO_NEWS, OUTAGE_BEGAN, OUTAGE_ENDED };
struct outage_told {
    const char *address; /* lives as long as the outage */
    weir_ns away;        /* OUTAGE_ENDED: how long */
};
enum outage_news outage_news(struct outage *outage, weir_ns now, struct outage_told *out);

/* For metrics and logs: walk them. Nodes that left, at all who had them, are not among them. */
struct outage_view {
    const char *address;
    enum { OUTAGE_CLOSED, OUTAGE_OPEN, OUTAGE_HALF_OPEN } state;
    struct weir_outage outage;
    uint64_t failures, opened, probes; /* since the start */
    char why[OUTAGE_WHY_MAX];          /* as outage_why() */
};
size_t outages_count(const struct outages *outages);
void outages_view(const struct outages *outages, size_t index, struct outage_view *out);

#endif
