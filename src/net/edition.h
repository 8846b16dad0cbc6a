// SPDX-License-Identifier: Apache-2.0
/*
 * edition.h - one text of the contract as the server sees it: its limits, where each of them is counted, its
 * version.
 *
 * Idea: an answer names the limits it was decided under by a pointer (weir_answer.limits), so whoever holds an
 * answer finds the edition that fits it, however late the answer comes. A limit keeps its row of counters from
 * edition to edition by its name.
 *
 * Words      server->edition: stored by the thread that reloads, which holds edition_lock from before the new
 *            contract is in force until then. worker->edition, worker->old_edition: the worker's own.
 * Ordering   release and acquire: an edition is complete before it can be seen. Who has an answer of a contract
 *            whose edition is not there yet waits for the lock: that is the end of the reload, microseconds.
 * Progress   workers take the lock once for each reload, and only if they meet the new contract in that moment.
 * Reuse      an edition is freed when every worker has said that it holds no answer and no name of it
 *            (worker.h).
 */
#ifndef WEIR_NET_EDITION_H
#define WEIR_NET_EDITION_H

#include "weir_contract.h"

struct server;
struct worker;

struct edition {
    const struct weir_contract_limit *limits; /* as weir_answer.limits */
    const struct weir_set *set;               /* the limiter's, whose ids index `limits` */
    size_t limit_count;
    uint32_t *rows; /* by limit: its row of counters */
    enum weir_headers headers;
    uint64_t epoch; /* when every worker has reached it, none holds an earlier edition */
    char version[17];
};

/* An empty one, made before a reload so that nothing can fail after it. NULL: out of memory. */
struct edition *edition_new(void);
void edition_free(struct edition *edition);

/*
 * Fill it from the contract in force: limits that `before` (or NULL) had keep their rows, others get rows of
 * zeros. Where memory is short limits go uncounted. The caller holds what keeps the contract from changing.
 */
void edition_fill(struct edition *edition, struct server *server, const struct edition *before);

/* For workers: the edition that names an answer's limits. */
const struct edition *edition_of(struct worker *worker, const struct weir_answer *answer);

/* See the latest edition that is there; does not wait. */
void edition_catch_up(struct worker *worker);

/* The edition of the limiter's set in force; look again afterwards whether it still is. */
const struct edition *edition_in_force(struct worker *worker);

#endif
