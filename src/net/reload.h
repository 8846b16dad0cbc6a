// SPDX-License-Identifier: Apache-2.0
/*
 * reload.h - another text of the contract takes the place of the one in force, while the server serves.
 *
 * Idea: the main thread decides when, a thread of libuv's pool does the work, the workers say when they have
 * let go.
 *
 *     IDLE -> BUILDING      read the file and put it in force, or leave the old one: the request is answered
 *          -> FIRST_ROUND   until no worker holds anything of before
 *          -> CONVERTING    weir_contract_quiesce(): cells of the old limits are converted, the old text is
 *          freed -> SECOND_ROUND  until no worker can have read a cell of before that
 *          -> FREEING       weir_contract_retire(): old sizes are freed
 *
 * The next reload may begin in IDLE and in SECOND_ROUND, whose waiting is then part of its own. Whoever asks
 * meanwhile waits in line; all that wait are served by one reload, which reads the file after they asked.
 *
 * Words      jobs that are asked, is_closed, the last faults: under `lock`. counts: the main thread writes,
 *            workers read.
 * Progress   the lock is held for a few instructions.
 */
#ifndef WEIR_NET_RELOAD_H
#define WEIR_NET_RELOAD_H

#include <uv.h>

#include "net/watch.h"
#include "weir_contract.h"

struct edition;
struct server;
struct turn;

/* Longest first line of a failure that health and log show. */
#define RELOAD_FAILURE_MAX 400

/* Why a call is not served. */
#define RELOAD_CLOSED "the server is draining, or out of memory"

/* One POST /v1/reload. Its turn is its worker's. */
struct reload_job {
    struct reload_job *next;
    struct turn *turn;
    weir_ns now;
    unsigned status;
    char *body; /* owned by the job */
    size_t body_len;
};

enum reload_state {
    RELOAD_IDLE,
    RELOAD_BUILDING,
    RELOAD_FIRST_ROUND,
    RELOAD_CONVERTING,
    RELOAD_SECOND_ROUND,
    RELOAD_FREEING
};

/* Why a reload is made. */
enum reload_cause { RELOAD_BY_ADMIN = 1, RELOAD_BY_SIGNAL = 2, RELOAD_BY_FILE = 4 };

/* What BUILDING did; the pool's thread has it while it works. */
struct reload_outcome {
    int error;         /* of weir_contract_reload(), or WEIR_ERR_FILE */
    bool is_unchanged; /* the file changed, its text did not: nothing was done */
    struct weir_reload counts;
    struct weir_diagnostics *diagnostics;
    char failure[RELOAD_FAILURE_MAX];
    char tls_failure[RELOAD_FAILURE_MAX]; /* empty: the certificates are those of the files */
    weir_ns took;
    struct edition *replaced; /* to be freed after the first round */
};

struct reload {
    struct server *server;
    struct watch watch;
    uv_async_t wake;
    uv_signal_t hangup;
    uv_work_t work;
    enum reload_state state;
    unsigned causes;         /* asked for, not begun */
    unsigned serving;        /* of what is being built */
    struct reload_job *jobs; /* answered by what is being built */
    weir_ns now;             /* in virtual time: of the last job */
    bool has_retired;        /* FREEING is still to come */
    bool is_draining;
    char tried[17]; /* names the last text that was read from the file */
    struct reload_outcome outcome;
    struct edition *replaced;

    uint64_t succeeded, failed, tls_succeeded, tls_failed;

    uv_mutex_t lock;
    struct reload_job *asked;
    bool is_closed;
    struct reload_fault {
        int64_t at; /* Unix seconds; 0: the last reload was good */
        char why[RELOAD_FAILURE_MAX];
    } contract_fault, tls_fault;
};

/* The first of them, as events. */
void log_diagnostics(const struct weir_diagnostics *diagnostics);

/* ---- The main thread ------------------------------------------------------------------------------------- */

int reload_init(struct reload *reload, struct server *server);

/* Wait for signals and changes of the file on the main loop. 0 or a negative code of libuv. */
int reload_start(struct reload *reload, uv_loop_t *loop);

/* Once a second. */
void reload_second(struct reload *reload);

/* Whether a thread of the pool changes the limiter just now: then the main thread leaves it alone. */
bool reload_is_working(const struct reload *reload);

/* Begin nothing any more, answer who waits, and close the handles. */
void reload_stop(struct reload *reload);

/* When no thread runs any more. */
void reload_deinit(struct reload *reload);

/* ---- Workers --------------------------------------------------------------------------------------------- */

/*
 * Have it done for a turn, which reload_answer() will answer on its worker. False: we are closing, or out of
 * memory.
 */
bool reload_ask(struct reload *reload, struct turn *turn);
void reload_answer(struct reload_job *job);

/* Have the main thread look at what workers said. Any thread. */
void reload_wake(struct reload *reload);

/*
 * Why and when the last reload failed, as "2026-01-01T00:00:00Z: sentence": the contract's part, and that of the files of TLS.
 * False: it did not.
 */
bool reload_failure(struct reload *reload, char *out, size_t size);
bool reload_tls_failure(struct reload *reload, char *out, size_t size);

#endif
