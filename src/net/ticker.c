// SPDX-License-Identifier: Apache-2.0
/* ticker.c - see ticker.h. */
#include "net/ticker.h"

#include "net/worker.h"

/* Waits that are ended before the loop goes round: some hundred microseconds of work. */
#define TICK_BUDGET 64

static struct weir *limiter_of(const struct ticker *ticker)
{
    return weir_contract_limiter(ticker->server->contract);
}

/* ---- Real time --------------------------------------------------------------------------------------------------- */

/* Set the alarm to what comes next, and look again: somebody may have moved it meanwhile. */
static void set_alarm(struct ticker *ticker)
{
    weir_ns next;
    do {
        next = weir_wait_next(limiter_of(ticker));
        __atomic_store_n(&ticker->set_to, next, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    } while (weir_wait_next(limiter_of(ticker)) < next);
    alarm_set(&ticker->alarm, next);
}

static void tick(struct ticker *ticker)
{
    weir_ns now = weir_now();
    if (weir_wait_next(limiter_of(ticker)) <= now)
        (void)weir_wait_tick(limiter_of(ticker), now, TICK_BUDGET);
    set_alarm(ticker);
    waiting_collect(ticker->worker);
}

static void on_ring(struct alarm *alarm)
{
    struct ticker *ticker = (struct ticker *)((char *)alarm - offsetof(struct ticker, alarm));
    tick(ticker);
}

void ticker_wake(struct ticker *ticker)
{
    uv_mutex_lock(&ticker->lock);
    if (!ticker->is_closed)
        worker_wake(ticker->worker);
    uv_mutex_unlock(&ticker->lock);
}

void ticker_look(struct worker *worker)
{
    struct ticker *ticker = &worker->server->ticker;
    if (worker->server->is_virtual) {
        ticker_advance(worker, 0);
        return;
    }
    weir_ns next = weir_wait_next(limiter_of(ticker));
    if (next == WEIR_NO_TIME)
        return;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (next >= __atomic_load_n(&ticker->set_to, __ATOMIC_RELAXED))
        return;
    if (worker == ticker->worker)
        tick(ticker);
    else
        ticker_wake(ticker);
}

/* ---- Virtual time ------------------------------------------------------------------------------------------------ */

static void advance(struct ticker *ticker, weir_ns now)
{
    struct weir *limiter = limiter_of(ticker);
    weir_ns end = now > ticker->virtual_now ? now : ticker->virtual_now;
    weir_ns next;
    while ((next = weir_wait_next(limiter)) <= end) {
        if (next > ticker->virtual_now)
            ticker->virtual_now = next;
        if (weir_wait_tick(limiter, ticker->virtual_now, SIZE_MAX) == 0 && weir_wait_next(limiter) <= next)
            break;
    }
    ticker->virtual_now = end;
}

void ticker_advance(struct worker *worker, weir_ns now)
{
    struct ticker *ticker = &worker->server->ticker;
    uv_mutex_lock(&ticker->lock);
    advance(ticker, now);
    uv_mutex_unlock(&ticker->lock);
    waiting_collect(worker);
}

weir_ns ticker_now(struct worker *worker)
{
    struct ticker *ticker = &worker->server->ticker;
    if (!worker->server->is_virtual)
        return worker_now(worker);
    uv_mutex_lock(&ticker->lock);
    weir_ns now = ticker->virtual_now;
    uv_mutex_unlock(&ticker->lock);
    return now;
}

/* ---- Life cycle -------------------------------------------------------------------------------------------------- */

int ticker_init(struct ticker *ticker, struct server *server)
{
    *ticker = (struct ticker){ .server = server, .set_to = WEIR_NO_TIME };
    return uv_mutex_init(&ticker->lock);
}

void ticker_deinit(struct ticker *ticker)
{
    uv_mutex_destroy(&ticker->lock);
}

int ticker_start(struct ticker *ticker, struct worker *worker)
{
    ticker->worker = worker;
    return alarm_open(&ticker->alarm, &worker->loop, on_ring);
}

void ticker_close(struct ticker *ticker)
{
    uv_mutex_lock(&ticker->lock);
    ticker->is_closed = true;
    uv_mutex_unlock(&ticker->lock);
    alarm_close(&ticker->alarm);
}
