// SPDX-License-Identifier: Apache-2.0
/*
 * ticker.h - the driver of the waiting room: ends waits when their instant has come, on one worker.
 *
 * Idea: one alarm is set to weir_wait_next(). Every worker looks after each batch whether that instant has moved
 * forward, which is one load, and if so wakes the worker of the alarm. What is due is ended a few at a time, so that
 * other connections are served in between, and never before our own clock says so.
 *
 * In virtual time (test builds) there is no alarm: a request with a later stamp first ends what is due up to it, each at
 * its own instant.
 *
 * Words      set_to: the ticker's worker stores it, every worker reads it. is_closed: under `lock`. virtual_now: under
 *            `lock`.
 * Ordering   a full fence on both sides: who lowers weir_wait_next() and then reads set_to, and the ticker, which stores
 *            set_to and then reads weir_wait_next() again, cannot both miss each other.
 * Progress   the lock is taken to wake the ticker, and by each request of virtual time.
 */
#ifndef WEIR_NET_TICKER_H
#define WEIR_NET_TICKER_H

#include <uv.h>

#include "io/alarm.h"
#include "weir.h"

struct server;
struct worker;

struct ticker {
    struct server *server;
    struct worker *worker; /* whose loop has the alarm */
    struct alarm alarm;
    weir_ns set_to;
    uv_mutex_t lock;
    bool is_closed;
    weir_ns virtual_now; /* latest stamp of any request */
};

/* Before any worker runs. 0 or a libuv error. */
int ticker_init(struct ticker *ticker, struct server *server);
void ticker_deinit(struct ticker *ticker);

/* On the loop of a worker that is being made: this one shall have the alarm. 0 or a libuv error. */
int ticker_start(struct ticker *ticker, struct worker *worker);

/* On that worker, when nobody can wait any more. */
void ticker_close(struct ticker *ticker);

/* Have its worker look at once. Any thread. */
void ticker_wake(struct ticker *ticker);

/* On any worker between two batches: whether something is due earlier than was thought. */
void ticker_look(struct worker *worker);

/* Virtual time: it is `now`. No connection's reply may be in the worker's output. */
void ticker_advance(struct worker *worker, weir_ns now);

/* The instant at which something happens that no request's stamp belongs to: a caller hung up. */
weir_ns ticker_now(struct worker *worker);

#endif
