// SPDX-License-Identifier: Apache-2.0
/* reload.c - the main thread's part of reload.h: when, and one thing after the other. */
#include "net/reload.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"
#include "net/log.h"
#include "net/ratelimit.h"
#include "net/worker.h"
#include "wire/reloaded.h"

/* Diagnostics that one reload writes to the log. */
#define LOGGED_MAX 20

static void step(struct reload *reload);

static const char *path_of(const struct reload *reload)
{
    return reload->server->options->contract_path;
}

/* ---- On a thread of the pool: read and put in force ------------------------------------------------------ */

/* The whole file. NULL: errno says why not; EFBIG: it is larger than a contract may be. */
static char *read_file(const char *path, size_t *len)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    size_t cap = WEIR_CONTRACT_BYTES_MAX + 1;
    int error = fstat(fd, &status) != 0 ? errno : !S_ISREG(status.st_mode) ? ENOTSUP : 0;
    if (error == 0 && status.st_size >= 0 && (uint64_t)status.st_size < cap)
        cap = (size_t)status.st_size + 1; /* one more than we expect, so that growth shows */
    char *text = error == 0 ? malloc(cap) : NULL;
    size_t have = 0;
    while (text != NULL && error == 0) {
        ssize_t got = read(fd, text + have, cap - have);
        if (got <= 0) {
            error = got < 0 ? errno : 0;
            break;
        }
        have += (size_t)got;
        error =
            have == cap ? cap > WEIR_CONTRACT_BYTES_MAX ? EFBIG : EAGAIN : 0; /* EAGAIN: it grows, come again */
    }
    (void)close(fd); /* it was only read */
    if (text == NULL || error != 0) {
        free(text);
        errno = error != 0 ? error : ENOMEM;
        return NULL;
    }
    *len = have;
    return text;
}

static const char *read_failure(int error)
{
    switch (error) {
    case ENOTSUP:
        return "is no regular file, so it cannot be read again";
    case EFBIG:
        return "is larger than 16 MiB";
    case EAGAIN:
        return "grew while it was read";
    default:
        return strerror(error); /* only this thread asks at a time */
    }
}

/* The contract's text, to be freed; NULL: outcome says why. */
static char *read_text(struct reload *reload, size_t *len)
{
    struct reload_outcome *outcome = &reload->outcome;
    const struct server_ratelimit *ratelimit = reload->server->options->ratelimit;
    bool is_stdin = strcmp(path_of(reload), "-") == 0;
    char *text = NULL;
    if (ratelimit != NULL) {
        outcome->error = ratelimit_text(ratelimit, &text, len, &outcome->diagnostics);
        if (outcome->error != 0)
            reloaded_first_error(
                outcome->failure, sizeof outcome->failure, path_of(reload), outcome->diagnostics,
                outcome->error == WEIR_ERR_BUSY ? RATELIMIT_BUSY : weir_error_text(outcome->error));
        if (outcome->error != 0)
            return NULL;
        log_diagnostics(outcome->diagnostics); /* of files that are not read */
        weir_diagnostics_free(outcome->diagnostics);
        outcome->diagnostics = NULL;
        return text;
    }
    if (!is_stdin)
        text = read_file(path_of(reload), len);
    if (text == NULL)
        (void)snprintf(outcome->failure, sizeof outcome->failure, "%s: %s", path_of(reload),
                       is_stdin ? "standard input cannot be read again" : read_failure(errno));
    return text;
}

/* Under the lock: whoever meets the new contract before its edition is there waits for it. */
static int put_in_force(struct reload *reload, const char *text, size_t len, struct edition *edition)
{
    struct server *server = reload->server;
    struct reload_outcome *outcome = &reload->outcome;
    weir_ns now = server->is_virtual ? reload->now : weir_now();
    uv_mutex_lock(&server->edition_lock);
    int error = weir_contract_reload(server->contract, text, len, path_of(reload), now, &outcome->counts,
                                     &outcome->diagnostics);
    if (error == 0) {
        outcome->replaced = server->edition;
        edition_fill(edition, server, server->edition);
        edition->epoch = server->epoch + 1; /* the main thread raises it, and waits for us */
        __atomic_store_n(&server->edition, edition, __ATOMIC_RELEASE);
        if (server->store.is_there)
            fleet_common_changed(
                server->store.common); /* what was known to be refused was so by another text */
    }
    uv_mutex_unlock(&server->edition_lock);
    return error;
}

static void build(uv_work_t *work)
{
    struct reload *reload = work->data;
    struct reload_outcome *outcome = &reload->outcome;
    weir_ns began = weir_now();
    size_t len = 0;
    *outcome = (struct reload_outcome){ .error = WEIR_ERR_FILE };
    if (reload->serving != RELOAD_BY_FILE)
        (void)door_tls_reload(reload->server, outcome->tls_failure, sizeof outcome->tls_failure);
    char *text = read_text(reload, &len);
    if (text == NULL) {
        reload->tried[0] = '\0'; /* when it can be read again that is told, also if it is the same text */
        return;
    }
    char name[17] = { 0 };
    sha256_hex(text, len, 8, name);
    outcome->is_unchanged = reload->serving == RELOAD_BY_FILE && strcmp(name, reload->tried) == 0;
    memcpy(reload->tried, name, sizeof name);
    struct edition *edition = outcome->is_unchanged ? NULL : edition_new();
    if (outcome->is_unchanged)
        outcome->error = 0;
    else
        outcome->error = edition == NULL ? WEIR_ERR_MEMORY : put_in_force(reload, text, len, edition);
    if (outcome->error != 0) {
        edition_free(edition);
        reloaded_first_error(outcome->failure, sizeof outcome->failure, path_of(reload), outcome->diagnostics,
                             weir_error_text(outcome->error));
    }
    free(text);
    outcome->took = weir_now() - began;
}

static void quiesce(uv_work_t *work)
{
    struct reload *reload = work->data;
    struct server *server = reload->server;
    weir_contract_quiesce(server->contract, server->is_virtual ? reload->now : weir_now());
}

static void retire(uv_work_t *work)
{
    struct reload *reload = work->data;
    weir_contract_retire(reload->server->contract);
}

/* ---- Saying what happened -------------------------------------------------------------------------------- */

void log_diagnostics(const struct weir_diagnostics *diagnostics)
{
    size_t count = diagnostics == NULL ? 0 : weir_diagnostics_count(diagnostics);
    for (size_t i = 0; i < count && i < LOGGED_MAX; i++) {
        const struct weir_diagnostic *found = weir_diagnostics_at(diagnostics, i);
        char message[LOG_QUOTED_MAX], file[LOG_QUOTED_MAX];
        bool is_error = found->severity == WEIR_SEVERITY_ERROR;
        log_event(is_error ? LOG_ERROR : LOG_WARN, is_error ? "contract_error" : "contract_warning",
                  "line=%u column=%u message=%s file=%s", found->line, found->column,
                  log_quote(found->message, message), log_quote(found->file == NULL ? "" : found->file, file));
    }
}

static const char *cause_name(unsigned causes)
{
    return causes & RELOAD_BY_ADMIN ? "admin" : causes & RELOAD_BY_SIGNAL ? "signal" : "file";
}

static void log_outcome(const struct reload *reload)
{
    const struct reload_outcome *outcome = &reload->outcome;
    const struct weir_reload *counts = &outcome->counts;
    char failure[LOG_QUOTED_MAX];
    if (outcome->error != 0)
        log_event(LOG_ERROR, "reload_failed", "by=%s in_force=%s error=%s", cause_name(reload->serving),
                  reload->server->edition->version, log_quote(outcome->failure, failure));
    else
        log_event(LOG_INFO, "reloaded",
                  "by=%s version=%s kept=%zu resized=%zu added=%zu restarted=%zu removed=%zu ms=%" PRIu64,
                  cause_name(reload->serving), reload->server->edition->version, counts->kept, counts->resized,
                  counts->added, counts->restarted, counts->removed, outcome->took / WEIR_MILLISECOND);
    log_diagnostics(outcome->diagnostics);
}

static void record_fault(struct reload *reload, struct reload_fault *fault, bool is_good, const char *why)
{
    uv_mutex_lock(&reload->lock);
    fault->at = is_good ? 0 : (int64_t)time(NULL);
    memcpy(fault->why, why, sizeof fault->why);
    uv_mutex_unlock(&reload->lock);
}

/* For health and metrics. Files of TLS are read unless only the contract's file has changed. */
static void record_outcome(struct reload *reload)
{
    const struct reload_outcome *outcome = &reload->outcome;
    bool is_good = outcome->error == 0, is_tls_good = outcome->tls_failure[0] == '\0';
    counter_add(is_good ? &reload->succeeded : &reload->failed, 1);
    record_fault(reload, &reload->contract_fault, is_good, outcome->failure);
    if (reload->serving == RELOAD_BY_FILE || reload->server->tls.context == NULL)
        return;
    counter_add(is_tls_good ? &reload->tls_succeeded : &reload->tls_failed, 1);
    record_fault(reload, &reload->tls_fault, is_tls_good, outcome->tls_failure);
}

static bool show_fault(struct reload *reload, const struct reload_fault *fault, char *out, size_t size)
{
    uv_mutex_lock(&reload->lock);
    time_t at = (time_t)fault->at;
    struct tm civil;
    char stamp[32] = "";
    if (at != 0 && gmtime_r(&at, &civil) != NULL)
        (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &civil); /* fits */
    if (at != 0)
        (void)snprintf(out, size, "%s: %s", stamp, fault->why); /* cut where it is too long */
    uv_mutex_unlock(&reload->lock);
    return at != 0;
}

bool reload_failure(struct reload *reload, char *out, size_t size)
{
    return show_fault(reload, &reload->contract_fault, out, size);
}

bool reload_tls_failure(struct reload *reload, char *out, size_t size)
{
    return show_fault(reload, &reload->tls_fault, out, size);
}

/* What rotates certificates reads the answer, not the log: there a pair that was not taken must show. */
static void write_answer(const struct reload *reload, struct text *out)
{
    const struct reload_outcome *outcome = &reload->outcome;
    char message[RELOAD_FAILURE_MAX + 64];
    const struct weir_diagnostic tls = {
        .severity = WEIR_SEVERITY_WARNING,
        .message = message,
        .cure = "put certificate and key in place together, whole, then reload again",
    };
    const struct weir_diagnostic *beside = outcome->tls_failure[0] == '\0' ? NULL : &tls;
    (void)snprintf(message, sizeof message, "TLS: %s; the old certificate stays in use", outcome->tls_failure);
    if (outcome->error == 0)
        reloaded_json(out, reload->server->edition->version, &outcome->counts, outcome->diagnostics, beside);
    else
        reloaded_problem_json(out, outcome->failure, outcome->diagnostics, beside);
}

/* The answer, in memory that doubles until it fits; NULL: there is none. */
static char *make_answer(const struct reload *reload, size_t *len)
{
    for (size_t size = 4096;; size *= 2) {
        char *space = malloc(size);
        if (space == NULL)
            return NULL;
        struct text out = text_of(space, size);
        write_answer(reload, &out);
        if (!out.is_cut) {
            *len = out.len;
            return space;
        }
        free(space);
    }
}

static void give_back(struct reload_job *jobs, unsigned status, const char *body, size_t len)
{
    while (jobs != NULL) {
        struct reload_job *job = jobs;
        jobs = job->next;
        job->status = status;
        job->body = body == NULL ? NULL : malloc(len);
        job->body_len = len;
        if (job->body != NULL)
            memcpy(job->body, body, len);
        worker_give_reload(job->turn->conn->worker, job);
    }
}

static void answer_jobs(struct reload *reload)
{
    size_t len = 0;
    char *body = reload->jobs == NULL ? NULL : make_answer(reload, &len);
    give_back(reload->jobs, reload->outcome.error == 0 ? 200 : 422, body, len);
    reload->jobs = NULL;
    free(body);
}

/* ---- One thing after the other --------------------------------------------------------------------------- */

static void begin_round(struct reload *reload, enum reload_state state)
{
    struct server *server = reload->server;
    reload->state = state;
    __atomic_store_n(&server->epoch, server->epoch + 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_wake(&server->workers[i]);
}

static bool is_round_over(const struct reload *reload)
{
    const struct server *server = reload->server;
    for (unsigned i = 0; i < server->worker_count; i++)
        if (__atomic_load_n(&server->workers[i].epoch_done, __ATOMIC_ACQUIRE) != server->epoch)
            return false;
    return true;
}

static void on_built(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    struct reload_outcome *outcome = &reload->outcome;
    (void)status; /* nobody cancels it */
    if (!outcome->is_unchanged) {
        record_outcome(reload);
        log_outcome(reload);
    }
    answer_jobs(reload);
    if (!reload->is_draining)
        notify_ready(&reload->server->notify);
    weir_diagnostics_free(outcome->diagnostics);
    outcome->diagnostics = NULL;
    reload->replaced = outcome->replaced;
    if (outcome->replaced != NULL)
        begin_round(reload, RELOAD_FIRST_ROUND);
    else
        reload->state = reload->has_retired ? RELOAD_SECOND_ROUND : RELOAD_IDLE;
    step(reload);
}

static void on_converted(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    (void)status;
    edition_free(reload->replaced);
    reload->replaced = NULL;
    reload->has_retired = true;
    begin_round(reload, RELOAD_SECOND_ROUND);
    step(reload);
}

static void on_freed(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    (void)status;
    reload->has_retired = false;
    reload->state = RELOAD_IDLE;
    step(reload);
}

static void queue(struct reload *reload, enum reload_state state, uv_work_cb run, uv_after_work_cb done)
{
    reload->state = state;
    reload->work.data = reload;
    (void)uv_queue_work(reload->wake.loop, &reload->work, run, done); /* fails only without a function to run */
}

static void take_jobs(struct reload *reload)
{
    uv_mutex_lock(&reload->lock);
    struct reload_job *asked = reload->asked;
    reload->asked = NULL;
    uv_mutex_unlock(&reload->lock);
    if (asked != NULL)
        reload->now = 0;
    for (struct reload_job *job = asked; job != NULL; job = job->next) {
        reload->causes |= RELOAD_BY_ADMIN;
        reload->now = job->now > reload->now ? job->now : reload->now;
    }
    reload->jobs = asked;
}

static void begin(struct reload *reload)
{
    take_jobs(reload);
    reload->serving = reload->causes;
    reload->causes = 0;
    if (reload->serving == 0)
        return;
    notify_reloading(&reload->server->notify);
    queue(reload, RELOAD_BUILDING, build, on_built);
}

static void step(struct reload *reload)
{
    if (reload->is_draining)
        return;
    if (reload->state == RELOAD_IDLE || reload->state == RELOAD_SECOND_ROUND)
        begin(reload);
    if (reload->state == RELOAD_FIRST_ROUND && is_round_over(reload))
        queue(reload, RELOAD_CONVERTING, quiesce, on_converted);
    else if (reload->state == RELOAD_SECOND_ROUND && is_round_over(reload))
        queue(reload, RELOAD_FREEING, retire, on_freed);
}

bool reload_is_working(const struct reload *reload)
{
    return reload->state == RELOAD_BUILDING || reload->state == RELOAD_CONVERTING
           || reload->state == RELOAD_FREEING;
}

/* ---- Causes ---------------------------------------------------------------------------------------------- */

static void on_wake(uv_async_t *wake)
{
    step(wake->data);
}

static void on_hangup(uv_signal_t *hangup, int number)
{
    struct reload *reload = hangup->data;
    (void)number;
    reload->causes |= RELOAD_BY_SIGNAL;
    step(reload);
}

static void on_changed(void *context)
{
    struct reload *reload = context;
    reload->causes |= RELOAD_BY_FILE;
    step(reload);
}

void reload_wake(struct reload *reload)
{
    uv_mutex_lock(&reload->lock);
    if (!reload->is_closed)
        (void)uv_async_send(&reload->wake); /* always 0 */
    uv_mutex_unlock(&reload->lock);
}

bool reload_ask(struct reload *reload, struct turn *turn)
{
    struct reload_job *job = malloc(sizeof *job);
    if (job == NULL)
        return false;
    *job = (struct reload_job){ .turn = turn, .now = turn->now };
    uv_mutex_lock(&reload->lock);
    bool is_open = !reload->is_closed;
    if (is_open) {
        turn->conn->asks_pending++;
        job->next = reload->asked;
        reload->asked = job;
        (void)uv_async_send(&reload->wake); /* always 0 */
    }
    uv_mutex_unlock(&reload->lock);
    if (!is_open)
        free(job);
    return is_open;
}

void reload_answer(struct reload_job *job)
{
    struct turn *turn = job->turn;
    struct conn *conn = turn->conn;
    char space[512];
    struct text text = text_of(space, sizeof space);
    answer_error_json(&text, 503, RELOAD_CLOSED, SLICE(""));
    bool has_body = job->body != NULL;
    conn->asks_pending--;
    /* As bytes for its turn: the worker's output is no connection's at the moment. */
    if (conn->is_gone)
        turn->is_done = true;
    else
        turn_body(turn, has_body ? job->status : 503,
                  has_body && job->status == 200 ? ANSWER_TYPE_JSON : ANSWER_TYPE_PROBLEM,
                  has_body ? (struct slice){ job->body, job->body_len } : text_slice(&text));
    worker_mark(conn->worker, conn);
    free(job->body);
    free(job);
}

/* ---- Life cycle ------------------------------------------------------------------------------------------ */

int reload_init(struct reload *reload, struct server *server)
{
    *reload = (struct reload){ .server = server };
    return uv_mutex_init(&reload->lock);
}

/* A file that can be read twice. */
static bool is_watchable(const struct reload *reload)
{
    struct stat status;
    return !reload->server->is_virtual && strcmp(path_of(reload), "-") != 0
           && stat(path_of(reload), &status) == 0
           && (S_ISREG(status.st_mode) || reload->server->options->ratelimit != NULL);
}

int reload_start(struct reload *reload, uv_loop_t *loop)
{
    memcpy(reload->tried, reload->server->edition->version, sizeof reload->tried);
    reload->wake.data = reload;
    reload->hangup.data = reload;
    int result = uv_async_init(loop, &reload->wake, on_wake);
    if (result == 0)
        result = uv_signal_init(loop, &reload->hangup);
    if (result == 0)
        result = uv_signal_start(&reload->hangup, on_hangup, SIGHUP);
    if (result == 0 && is_watchable(reload))
        result = watch_start(&reload->watch, loop, path_of(reload), on_changed, reload);
    return result;
}

void reload_second(struct reload *reload)
{
    watch_second(&reload->watch);
}

void reload_stop(struct reload *reload)
{
    reload->is_draining = true;
    uv_mutex_lock(&reload->lock);
    reload->is_closed = true;
    struct reload_job *asked = reload->asked;
    reload->asked = NULL;
    uv_mutex_unlock(&reload->lock);
    give_back(asked, 503, NULL, 0);
    watch_stop(&reload->watch);
    uv_close((uv_handle_t *)&reload->wake, NULL);
    uv_close((uv_handle_t *)&reload->hangup, NULL);
    (void)signal(SIGHUP, SIG_IGN); /* libuv gave it back its default, which would end the drain */
}

void reload_deinit(struct reload *reload)
{
    edition_free(reload->replaced);
    uv_mutex_destroy(&reload->lock);
}
