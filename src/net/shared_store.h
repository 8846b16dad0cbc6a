// SPDX-License-Identifier: Apache-2.0
/*
 * shared_store.h - the store behind limits of `scope: fleet`: what the process knows of it, and each worker's end.
 *
 * Idea: every worker has connections, a fleet (fleet/fleet.h) and an alarm of its own, so a decision never leaves its loop;
 * what they learn of the store (breakers, keys known to be refused, what was spent without it) they share. Starting waits for
 * no connection: until there is one, limits answer as when the store is away.
 *
 * The alarm is set nearer at once and farther only when it rings, since nearly every decision comes before its deadline.
 *
 * What the process holds of leases it hands back at its end, when nobody asks any more: the last worker waits for it, but never for
 * long, since the store may be away; what is not handed back comes back when its time is over.
 *
 * In virtual time (test builds) the store's clock is ours, replies are awaited in real time, and no deadline runs out.
 *
 * Words      `told`: under `lock`; what of each node was logged last. `held`, `held_keys`, `held_at`: under `lock`.
 *            store_end.is_connected: stored by its worker, read by any; relaxed, since it only describes. The rest is written
 *            before a worker runs.
 * Progress   the lock is held while a line of the log is compared, and once a second while what is held is counted.
 */
#ifndef WEIR_NET_SHARED_STORE_H
#define WEIR_NET_SHARED_STORE_H

#include <uv.h>

#include "fleet/fleet.h"
#include "fleet/url.h"
#include "io/alarm.h"
#include "wire/text.h"

struct server;
struct server_options;
struct tls_context;
struct worker;

/* Nodes of which the log keeps in mind whether they are up; of more every change of every worker is told. */
#define SHARED_STORE_TOLD_MAX 64

/* Nodes that readyz and metrics list. */
#define SHARED_STORE_NODES_MAX 256

/* Longest event and node that are compared. */
#define SHARED_STORE_WORD_MAX 128

/* How long the end of the process may wait until what it holds of leases is handed back. */
#define SHARED_STORE_RETURN_NS (500 * WEIR_MILLISECOND)

struct shared_store {
    bool is_there; /* a URL was given: else nothing below is used */
    struct url url;
    char shown[URL_MAX]; /* the URL without secrets */
    struct tls_context *tls;
    struct fleet_common *common;
    weir_ns deadline;
    uv_mutex_t lock;
    struct {
        char node[SHARED_STORE_WORD_MAX];
        char event[SHARED_STORE_WORD_MAX];
    } told[SHARED_STORE_TOLD_MAX];
    size_t told_count;
    /* A scrape counts what is in hand of leases at most once a second. */
    weir_ns held_at; /* 0: never */
    uint64_t held, held_keys;
};

/*
 * Where the store is: `url` (NULL: not given), else the contract's. Complains on standard error. 0; 2: it is no URL, or its
 * files cannot be read; 3: out of memory.
 */
int shared_store_open(struct shared_store *store, const char *url, const struct weir_contract *contract);
void shared_store_close(struct shared_store *store);

/* ---- A worker's end ------------------------------------------------------------------------------------------------ */

struct store_end {
    struct worker *worker;
    struct carrier *carrier;
    struct fleet *fleet; /* NULL: there is no store */
    struct alarm alarm;
    weir_ns set_to;
    bool has_news;         /* the carrier said something: look at its nodes */
    bool is_connected;     /* to every node that it knows; read by any worker */
    weir_ns returns_until; /* what is held is being handed back; 0: not yet */
    uint64_t returned;     /* tokens, by any worker, before that began */
};

/* On the loop of a worker that is being made. 0, or a code of weir.h or libuv. */
int store_end_open(struct worker *worker);

/* All asks are done: what is still under way is ended, and handles close on the loop. */
void store_end_close(struct worker *worker);

/* Between two batches: what is due, and the alarm. */
void store_end_look(struct worker *worker);

/* On the last worker, when nobody asks any more: whether all that was held of leases is handed back, or is not waited for any
   longer. Until then it is to be asked again after each turn of the loop. */
bool store_end_returned(struct worker *worker);

/* Once a second. */
void store_end_second(struct worker *worker);

/* Why answers may come from less than the store: `"degraded":[{"node":...,"why":...}]`'s inside; false: they do not. */
bool store_end_degraded(const struct worker *worker, struct text *out);

/* Families for /metrics; nothing where there is no store. store_metrics.c. */
void store_end_metrics(const struct worker *worker, struct text *out);

#endif
