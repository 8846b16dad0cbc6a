// SPDX-License-Identifier: Apache-2.0
/*
 * worker.h - one thread, one loop, its own connections; and what all workers share.
 *
 * Idea: a connection lives and dies on one worker, so nothing about it is shared. Workers share the contract
 * (whose limiter is lock-free), and get connections through a small locked list and a wake-up.
 *
 * Words      worker->inbox, reloads_done, ended: under inbox_lock. worker->load: the acceptor adds, the worker
 *            subtracts. server->is_draining: the main thread sets it once. server->epoch: the main thread
 *            raises it, as it does server->pulse, which worker->pulse follows. worker->epoch_done: the worker stores, the main thread reads. server->workers_open: each
 *            worker lowers it at its end, the one with the ticker reads it.
 * Ordering   load is relaxed: it chooses a worker, nothing depends on it. The pulses are, too. is_draining is relaxed: the wake-up
 *            that follows carries it. epoch and epoch_done are release and acquire: what a worker did before it
 *            said that it is done has happened before the main thread frees what it did it with.
 * Progress   the lock is held for a few instructions, at accept only.
 * Reuse      a connection's memory is the worker's from the inbox to its end.
 */
#ifndef WEIR_NET_WORKER_H
#define WEIR_NET_WORKER_H

#include "net/conn.h"
#include "net/counters.h"
#include "net/door_tls.h"
#include "net/edition.h"
#include "net/notify.h"
#include "net/peers.h"
#include "net/reload.h"
#include "net/server.h"
#include "net/shared_store.h"
#include "net/ticker.h"
#include "net/waiting.h"
#include "wire/call.h"

/* Bytes of one read: 64 KiB hold hundreds of pipelined requests. */
#define WORKER_INPUT ((size_t)64 << 10)

/* Bytes of replies collected before they are sent: one more reply must always fit. */
#define WORKER_OUTPUT (4 * ANSWER_MAX)

/* Bytes of incomplete requests of all connections of a worker. */
#define WORKER_KEPT_MAX ((size_t)64 << 20)

/*
 * Bytes of replies of a worker that wait for slow readers, or behind a request that is not answered yet; the connection
 * that would add more is closed instead.
 */
#define WORKER_UNSENT_MAX ((size_t)128 << 20)

/* Asks that may be under way at once on a worker, some 100 bytes each. */
#define WORKER_ASKS_MAX 131072

/*
 * Bytes of requests that wait for their turn on a worker, a kilobyte each: 130,000 of them. Beyond it a request is refused
 * as if it could not wait.
 */
#define WORKER_PARKED_MAX ((size_t)128 << 20)

/*
 * Bytes of requests whose shared limits are being decided on a worker, about a kilobyte for each limit of the contract.
 * Beyond it they are answered by policy, as if the store could not be had.
 */
#define WORKER_SHARED_MAX ((size_t)64 << 20)

/* Asks and turns kept for reuse. */
#define WORKER_SPARE_MAX 256

/* Seconds that a drain waits for requests that are only half here, or for their turn. */
#define DRAIN_SECONDS 15

/* Seconds after them in which those that waited are told that it is over. */
#define DRAIN_LAST_SECONDS 2

/* Turns of the loop that a drain begins with, before a silent connection counts as idle. */
#define DRAIN_ROUNDS 3

/* The whole server. `edition` is under edition_lock; see edition.h. */
struct server {
    const struct server_options *options;
    struct weir_contract *contract;
    const struct weir_contract_server *settings; /* of the start: a reload does not read it again */
    struct reload reload;
    uv_mutex_t edition_lock;
    struct edition *edition;
    struct ticker ticker;
    size_t parked_count;   /* requests that wait, of all workers */
    unsigned workers_open; /* whose loops have not ended */
    uint64_t epoch;        /* rises when a reload wants every worker to let go of what it held before */
    struct tokens *tokens; /* NULL: none */
    struct door_tls tls;
    struct shared_store store;
    int64_t wall_offset; /* of virtual time: from stamps to Unix time */
    bool is_virtual;     /* test builds: time comes from Weir-Now */
    bool is_draining;
    size_t conns_max;
    uint64_t accept_pauses; /* the main thread adds, a scrape reads */
    struct peers peers;
    unsigned proxy_doors; /* WEIR_DOOR_HTTP and so on, of those with the PROXY protocol */
    unsigned socket_mode; /* of Unix sockets */
    struct worker *workers;
    unsigned worker_count;
    uint64_t second_ms; /* 1000; test builds may hurry */
    struct notify notify;
    uint64_t accepted[GATE_COUNT]; /* connections; the main thread writes, as with counters */
    uint64_t pulse;                /* asks every worker whether its loop still turns */

    uv_mutex_t stats_lock; /* of the two below: a scrape walks the table at most once a second */
    weir_ns stats_at;
    struct weir_stats stats;
};

struct rls_desk;

struct worker {
    struct server *server;
    uv_loop_t loop;
    uv_thread_t thread;
    uv_async_t wake;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t tick;

    uv_mutex_t inbox_lock;
    struct conn *inbox;
    size_t load; /* connections, those in the inbox included */

    struct conn *conns;
    struct conn *dirty;
    struct decider *decider;
    struct store_end store;
    const struct edition *edition, *old_edition;
    uint64_t epoch;                    /* of the server, as seen between two batches */
    uint64_t epoch_done;               /* nothing of before that is held any more */
    unsigned char tag;                 /* 0 or 1, of asks that begin now: it turns with the epoch */
    uint32_t asks_held[2];             /* by tag: begun, not yet done, and not waiting for their turn */
    struct reload_job *reloads_done;   /* under inbox_lock */
    struct parked *ended, *last_ended; /* under inbox_lock: waited, to be answered */
    size_t parked_bytes;
    uint64_t pulse;  /* the last of server->pulse that it has seen */
    uint64_t second; /* since the start */
    uint64_t drain_until;
    unsigned drain_rounds;
    bool is_draining, is_closing;
    uint64_t asks_started, asks_finished; /* once it has drained */
    bool has_now;
    weir_ns now;
    uint64_t decided;       /* decisions since `now` was read, */
    uint64_t decided_doors; /* the doors that they came by, as bits, */
    uint32_t decided_by[DOOR_COUNT];
    size_t kept;   /* bytes of all conn->in */
    size_t unsent; /* bytes of replies that wait for their readers */
    size_t held;   /* bytes of replies that wait for those before them */
    size_t asks_out;

    struct grpc_call *spare_calls;
    size_t spare_call_count, call_count; /* of gRPC: those that are open */
    struct ask *spare_asks;
    struct turn *spare_turns;
    size_t spare_ask_count, spare_turn_count;

    struct counters counters;
    char date[32];
    size_t date_len;
    char *input;
    struct text out;   /* replies of the active connection */
    struct text aside; /* one reply that must wait for its turn */
    struct http1_head head;
    struct check_storage storage;
    struct weir_identity identity;
    struct rls_desk *rls; /* where calls of Envoy's service are read; NULL until there was one */
    struct verdict verdict;
    struct weir_shared shared; /* lent for the time of a call */
    unsigned char *joint;      /* one token with a part in the store; NULL: there is no store */
    size_t operations_alone;   /* in the store, for which nobody waits */
};

/* Make a worker and its thread. 0, or a negative code of weir.h or libuv, after which the process must end. */
int worker_start(struct worker *worker, struct server *server);

/* Hand an accepted connection over. Any thread. */
void worker_give(struct worker *worker, struct conn *conn);

/* Wake it to look at server->is_draining. Any thread. */
void worker_wake(struct worker *worker);

/* Wait for its thread to end, and free what it held but the counters. */
void worker_join(struct worker *worker);
void worker_free(struct worker *worker);

/* The clock reading of this turn of the loop. */
weir_ns worker_now(struct worker *worker);

/* A decision was made in this turn of the loop: its time is read once, at the turn's end, and shared. */
static inline void worker_decided(struct worker *worker, enum door door)
{
    worker->decided++;
    worker->decided_by[door]++;
    worker->decided_doors |= UINT64_C(1) << door;
}

/* A request to reload that waits on this worker is answered; takes the job. Any thread. */
void worker_give_reload(struct worker *worker, struct reload_job *job);

/* The connection has something to write: look at it in this turn of the loop. */
void worker_mark(struct worker *worker, struct conn *conn);

/* A connection's memory is gone. */
void worker_forget(struct worker *worker);

/* An ask may hold something of the contract: what a reload replaces lives until it lets go of it. */
void worker_hold(struct worker *worker, struct ask *ask);
void worker_let_go(struct worker *worker, const struct ask *ask);

struct ask *worker_ask_new(struct worker *worker);
void worker_ask_free(struct worker *worker, struct ask *ask);
struct turn *worker_turn_new(struct worker *worker);
void worker_turn_free(struct worker *worker, struct turn *turn);

#endif
