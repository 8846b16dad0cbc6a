// SPDX-License-Identifier: Apache-2.0
/*
 * worker.c - the loop of one worker: its clock, its inbox, its seconds and its end. See worker.h for what
 * threads share.
 *
 * One turn of the loop: timers, then `prepare` sends what completed in them and forgets the clock reading, then
 * the poll serves every connection that has bytes, all with one reading, then `check` sends what completed
 * elsewhere.
 */
#include "net/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "net/grpc.h"
#include "net/log.h"
#include "net/rls.h"
#include "net/sharing.h"

/* ---- Time ------------------------------------------------------------------------------------------------ */

weir_ns worker_now(struct worker *worker)
{
    if (!worker->has_now) {
        worker->now = weir_now();
        worker->has_now = true;
    }
    return worker->now;
}

static void write_date(struct worker *worker)
{
    struct text date = text_of(worker->date, sizeof worker->date);
    text_http_date(&date, (uint64_t)time(NULL));
    worker->date_len = date.len;
}

/* ---- What asks hold of the contract -------------------------------------------------------------------------- */

void worker_hold(struct worker *worker, struct ask *ask)
{
    ask->tag = worker->tag;
    worker->asks_held[ask->tag]++;
}

void worker_let_go(struct worker *worker, const struct ask *ask)
{
    worker->asks_held[ask->tag]--;
}

/* ---- Memory that is used again --------------------------------------------------------------------------- */

struct ask *worker_ask_new(struct worker *worker)
{
    struct ask *ask = worker->spare_asks;
    if (ask == NULL) {
        ask = malloc(sizeof *ask);
    } else {
        worker->spare_asks = ask->next;
        worker->spare_ask_count--;
    }
    if (ask != NULL)
        *ask = (struct ask){ .state = ASK_IDLE };
    return ask;
}

void worker_ask_free(struct worker *worker, struct ask *ask)
{
    if (worker->spare_ask_count == WORKER_SPARE_MAX) {
        free(ask);
        return;
    }
    ask->next = worker->spare_asks;
    worker->spare_asks = ask;
    worker->spare_ask_count++;
}

struct turn *worker_turn_new(struct worker *worker)
{
    struct turn *turn = worker->spare_turns;
    if (turn == NULL)
        return calloc(1, sizeof *turn);
    worker->spare_turns = turn->next;
    worker->spare_turn_count--;
    *turn = (struct turn){ .next = NULL };
    return turn;
}

void worker_turn_free(struct worker *worker, struct turn *turn)
{
    if (worker->spare_turn_count == WORKER_SPARE_MAX) {
        free(turn);
        return;
    }
    turn->next = worker->spare_turns;
    worker->spare_turns = turn;
    worker->spare_turn_count++;
}

static void free_spares(struct worker *worker)
{
    while (worker->spare_asks != NULL) {
        struct ask *ask = worker->spare_asks;
        worker->spare_asks = ask->next;
        free(ask);
    }
    while (worker->spare_turns != NULL) {
        struct turn *turn = worker->spare_turns;
        worker->spare_turns = turn->next;
        free(turn);
    }
    grpc_calls_free(worker);
}

/* ---- Connections ----------------------------------------------------------------------------------------- */

void worker_give(struct worker *worker, struct conn *conn)
{
    (void)__atomic_add_fetch(&worker->load, 1, __ATOMIC_RELAXED);
    conn->worker = worker;
    uv_mutex_lock(&worker->inbox_lock);
    conn->next = worker->inbox;
    worker->inbox = conn;
    uv_mutex_unlock(&worker->inbox_lock);
    worker_wake(worker);
}

void worker_wake(struct worker *worker)
{
    (void)uv_async_send(&worker->wake); /* always 0 */
}

void worker_mark(struct worker *worker, struct conn *conn)
{
    if (conn->is_dirty)
        return;
    conn->is_dirty = true;
    conn->next_dirty = worker->dirty;
    worker->dirty = conn;
}

static void poke_dirty(struct worker *worker)
{
    while (worker->dirty != NULL) {
        struct conn *conn = worker->dirty;
        worker->dirty = conn->next_dirty;
        conn->is_dirty = false;
        conn_poke(conn);
    }
}

/* ---- Letting go of what a reload replaced ---------------------------------------------------------------- */

/*
 * Between two batches nothing of the contract is held but by deciders that answer later. So it is seen here that the
 * server's epoch has risen, and said that nothing of before is held once the asks that began before are done. One
 * epoch at a time: a tag has two values.
 */
static void keep_up(struct worker *worker)
{
    uint64_t epoch = __atomic_load_n(&worker->server->epoch, __ATOMIC_ACQUIRE);
    if (worker->epoch_done == worker->epoch && worker->epoch != epoch) {
        edition_catch_up(worker);
        worker->epoch = epoch;
        worker->tag ^= 1;
    }
    if (worker->epoch_done == worker->epoch || worker->asks_held[worker->tag ^ 1] > 0)
        return;
    if (worker->epoch >= worker->edition->epoch)
        worker->old_edition = NULL;
    __atomic_store_n(&worker->epoch_done, worker->epoch, __ATOMIC_RELEASE);
    reload_wake(&worker->server->reload);
}

void worker_give_reload(struct worker *worker, struct reload_job *job)
{
    uv_mutex_lock(&worker->inbox_lock);
    job->next = worker->reloads_done;
    worker->reloads_done = job;
    uv_mutex_unlock(&worker->inbox_lock);
    worker_wake(worker);
}

static void open_reloads(struct worker *worker)
{
    uv_mutex_lock(&worker->inbox_lock);
    struct reload_job *job = worker->reloads_done;
    worker->reloads_done = NULL;
    uv_mutex_unlock(&worker->inbox_lock);
    while (job != NULL) {
        struct reload_job *next = job->next;
        reload_answer(job);
        job = next;
    }
}

static void close_handle(void *handle)
{
    uv_close(handle, NULL);
}

static bool has_ticker(const struct worker *worker)
{
    return worker->server->ticker.worker == worker;
}

/*
 * A drained worker has no connections any more: closing its handles ends its loop. The one that ends waits goes last, since
 * others may still have some.
 */
static void close_when_drained(struct worker *worker)
{
    struct server *server = worker->server;
    if (worker->drain_rounds < DRAIN_ROUNDS || worker->is_closing || worker->conns != NULL)
        return;
    if (has_ticker(worker) && __atomic_load_n(&server->workers_open, __ATOMIC_ACQUIRE) > 1)
        return;
    uv_mutex_lock(&worker->inbox_lock);
    bool is_empty = worker->inbox == NULL;
    uv_mutex_unlock(&worker->inbox_lock);
    if (!is_empty)
        return; /* its wake-up is under way */
    if (has_ticker(worker) && !store_end_returned(worker))
        return;
    worker->is_closing = true;
    worker->asks_started = worker->decider->started;
    worker->asks_finished = worker->decider->finished;
    store_end_close(worker);
    worker->decider->close(worker->decider);
    worker->decider = NULL;
    if (has_ticker(worker))
        ticker_close(&server->ticker);
    else if (__atomic_sub_fetch(&server->workers_open, 1, __ATOMIC_RELEASE) == 1)
        ticker_wake(&server->ticker);
    close_handle(&worker->wake);
    close_handle(&worker->prepare);
    close_handle(&worker->check);
    close_handle(&worker->tick);
}

void worker_forget(struct worker *worker)
{
    (void)__atomic_sub_fetch(&worker->load, 1, __ATOMIC_RELAXED);
}

static void open_inbox(struct worker *worker)
{
    uv_mutex_lock(&worker->inbox_lock);
    struct conn *conn = worker->inbox;
    worker->inbox = NULL;
    uv_mutex_unlock(&worker->inbox_lock);
    while (conn != NULL) {
        struct conn *next = conn->next;
        conn_start(conn);
        conn = next;
    }
}

/*
 * A request that reached us before the drain is served, so connections are closed as idle only after the loop
 * has polled all of them DRAIN_ROUNDS times more.
 */
static void drain(struct worker *worker)
{
    if (!worker->is_draining)
        worker->drain_until = worker->second + DRAIN_SECONDS;
    worker->is_draining = true;
    if (++worker->drain_rounds < DRAIN_ROUNDS) {
        worker_wake(worker);
        return;
    }
    for (struct conn *conn = worker->conns; conn != NULL; conn = conn->next)
        worker_mark(worker, conn);
}

/* ---- The loop -------------------------------------------------------------------------------------------- */

static void on_wake(uv_async_t *async)
{
    struct worker *worker = async->data;
    __atomic_store_n(&worker->pulse, __atomic_load_n(&worker->server->pulse, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    open_inbox(worker);
    open_reloads(worker);
    waiting_collect(worker);
    if (__atomic_load_n(&worker->server->is_draining, __ATOMIC_RELAXED))
        drain(worker);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct worker *worker = prepare->data;
    if (!worker->is_closing)
        ticker_look(worker);
    store_end_look(worker);
    poke_dirty(worker);
    if (!worker->is_closing)
        keep_up(worker);
    close_when_drained(worker);
    worker->has_now = false;
}

/* What the turn's decisions took together, shared evenly: a reading of the clock for each would cost more than some of them. */
static void count_times(struct worker *worker, weir_ns took)
{
    static_assert(DOOR_COUNT <= 64, "a door is a bit");
    for (uint64_t doors = worker->decided_doors; doors != 0; doors &= doors - 1) {
        enum door door = (enum door)__builtin_ctzll(doors);
        uint64_t count = worker->decided_by[door];
        counters_time(&worker->counters, door, count, took * count / worker->decided);
        worker->decided_by[door] = 0;
    }
    worker->decided = 0;
    worker->decided_doors = 0;
}

static void on_check(uv_check_t *check)
{
    struct worker *worker = check->data;
    if (!worker->is_closing)
        ticker_look(worker);
    store_end_look(worker);
    poke_dirty(worker);
    if (worker->decided == 0)
        return;
    count_times(worker, weir_now() - worker->now);
}

static void on_tick(uv_timer_t *timer)
{
    struct worker *worker = timer->data;
    worker->second++;
    write_date(worker);
    store_end_second(worker);
    bool is_over = worker->is_draining && worker->second > worker->drain_until;
    bool is_last = is_over && worker->second > worker->drain_until + DRAIN_LAST_SECONDS;
    for (struct conn *conn = worker->conns; conn != NULL; conn = conn->next) {
        if (is_over && conn->asks_pending > 0 && !is_last)
            conn_end_waits(conn);
        else if (is_over && (is_last || conn->phase != PHASE_LINGER))
            conn_break(conn);
        else
            conn_check_time(conn);
    }
}

static void run(void *argument)
{
    struct worker *worker = argument;
    (void)uv_run(&worker->loop, UV_RUN_DEFAULT); /* ends when every handle is closed */
}

/* ---- Making and ending ----------------------------------------------------------------------------------- */

static struct decider *make_decider(struct worker *worker)
{
#ifdef WEIR_TEST_HOOKS
    const char *late = getenv("WEIR_TEST_LATE"); /* SEED:MAX_MS */
    if (late != NULL) {
        char *end;
        uint64_t seed = strtoull(late, &end, 10);
        unsigned max_ms = *end == ':' ? (unsigned)strtoul(end + 1, NULL, 10) : 10;
        return late_new(worker->server->contract, &worker->loop, seed, max_ms);
    }
#endif
    return worker->server->store.is_there ? sharing_new(worker) : waiting_new(worker);
}

static bool make_memory(struct worker *worker)
{
    struct check_storage *storage = &worker->storage;
    char *out = malloc(WORKER_OUTPUT);
    char *aside = malloc(ANSWER_MAX);
    worker->out = text_of(out, WORKER_OUTPUT);
    worker->aside = text_of(aside, ANSWER_MAX);
    worker->input = malloc(WORKER_INPUT);
    worker->joint = worker->server->store.is_there ? malloc(TOKEN_MAX) : NULL;
    storage->request_cap = CHECK_REQUESTS_MAX;
    storage->requests = malloc(CHECK_REQUESTS_MAX * sizeof *storage->requests);
    storage->attribute_cap = CHECK_ATTRIBUTES_MAX;
    storage->attributes = malloc(CHECK_ATTRIBUTES_MAX * sizeof *storage->attributes);
    storage->scratch_cap = CHECK_BODY_MAX;
    storage->scratch = malloc(CHECK_BODY_MAX);
    return out != NULL && aside != NULL && worker->input != NULL && storage->requests != NULL
           && storage->attributes != NULL && storage->scratch != NULL
           && (worker->joint != NULL || !worker->server->store.is_there);
}

static void free_memory(struct worker *worker)
{
    free(worker->out.at);
    free(worker->aside.at);
    free(worker->input);
    rls_desk_free(worker->rls);
    free(worker->joint);
    free(worker->storage.requests);
    free(worker->storage.attributes);
    free(worker->storage.scratch);
    worker->out.at = NULL;
}

static int make_handles(struct worker *worker)
{
    int result = uv_async_init(&worker->loop, &worker->wake, on_wake);
    if (result != 0)
        return result;
    (void)uv_prepare_init(&worker->loop, &worker->prepare); /* these three cannot fail */
    (void)uv_check_init(&worker->loop, &worker->check);
    (void)uv_timer_init(&worker->loop, &worker->tick);
    worker->wake.data = worker;
    worker->prepare.data = worker;
    worker->check.data = worker;
    worker->tick.data = worker;
    (void)uv_prepare_start(&worker->prepare, on_prepare);
    (void)uv_check_start(&worker->check, on_check);
    (void)uv_timer_start(&worker->tick, on_tick, worker->server->second_ms, worker->server->second_ms);
    return 0;
}

static int make_loop(struct worker *worker)
{
    int result = uv_loop_init(&worker->loop);
    if (result != 0)
        return result;
    result = store_end_open(worker);
    if (result != 0)
        return result;
    worker->decider = make_decider(worker);
    result = worker->decider == NULL ? WEIR_ERR_MEMORY : make_handles(worker);
    if (result == 0 && worker == worker->server->workers)
        result = ticker_start(&worker->server->ticker, worker);
    if (result == 0)
        result = uv_thread_create(&worker->thread, run, worker);
    return result;
}

int worker_start(struct worker *worker, struct server *server)
{
    worker->server = server; /* its counters are there already */
    worker->edition = server->edition;
    int result = uv_mutex_init(&worker->inbox_lock);
    if (result == 0 && !make_memory(worker))
        result = WEIR_ERR_MEMORY;
    if (result == 0) {
        write_date(worker);
        result = make_loop(worker);
    }
    return result; /* on an error the process ends, and with it what was made */
}

void worker_join(struct worker *worker)
{
    (void)uv_thread_join(&worker->thread);
    int result = uv_loop_close(&worker->loop);
    assert(result == 0);
    free_spares(worker);
    free_memory(worker);
    uv_mutex_destroy(&worker->inbox_lock);
}

void worker_free(struct worker *worker)
{
    counters_deinit(&worker->counters);
}
