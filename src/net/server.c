// SPDX-License-Identifier: Apache-2.0
/*
 * server.c - start-up in order, one wait, and the same order backwards.
 *
 * The main thread's loop accepts, takes signals and once a second tells calendar windows the wall time; workers
 * do the rest. SIGHUP reads the contract again (reload.c). SIGTERM or SIGINT stops accepting, lets every worker
 * finish what it has, and says so; a second signal has its usual effect, for those who do not want to wait.
 */
#include "net/server.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "net/doors.h"
#include "net/log.h"
#include "net/ratelimit.h"

#define EXIT_WRONG 2
#define EXIT_UNABLE 3

/* Descriptors for everything that is no connection: loops, listeners, files. */
#define FDS_RESERVED 128

/* Most connections even where more descriptors are allowed: 64 k of them take about 40 MB. */
#define CONNS_MAX 65536

/* Unix sockets are for their owner and the group, whatever the umask was when somebody started us by hand. */
#define SOCKET_MODE 0660

/*
 * Groups of cells swept a second, so that a large idle table is clean again within hours and a small one at
 * once.
 */
#define SWEEP_GROUPS 1024

/* The main thread's part. */
struct control {
    struct server *server;
    struct doors doors;
    uv_loop_t loop;
    uv_signal_t terminate, interrupt;
    uv_timer_t second;
};

/* ---- Making ---------------------------------------------------------------------------------------------- */

static struct weir_contract_options contract_options(struct server *server)
{
    struct weir_contract_options options = { .keys = server->options->keys,
                                             .lost_at = weir_now(),
                                             .fleet = WEIR_FLEET_SHARED,
                                             .has_throttle = true,
                                             .has_store = server->options->store_url != NULL };
#ifdef WEIR_TEST_HOOKS
    const char *wall = getenv("WEIR_TEST_WALL"); /* Unix time in ns at stamp 0; time then comes from Weir-Now */
    if (wall != NULL) {
        server->is_virtual = true;
        options.has_wall_offset = true;
        options.wall_offset = strtoll(wall, NULL, 10);
        server->wall_offset = options.wall_offset;
        options.lost_at = 0;
    }
    const char *lost =
        getenv("WEIR_TEST_LOST_AT"); /* the stamp at which whatever was counted before was lost */
    if (lost != NULL)
        options.lost_at = strtoull(lost, NULL, 10);
    const char *second = getenv("WEIR_TEST_SECOND_MS"); /* time-outs hurry */
    if (second != NULL)
        server->second_ms = strtoull(second, NULL, 10);
#else
    (void)server;
#endif
    return options;
}

/* Before anything is logged, and again: by the option, else by the contract, if that could be read. */
static void choose_log_form(const struct server *server)
{
    enum log_form form = LOG_LOGFMT;
    const char *word = server->options->log_format;
    if (word != NULL)
        (void)log_form_parse(word, &form); /* the option was looked at */
    else if (server->contract != NULL && weir_contract_server(server->contract)->log_format == WEIR_LOG_JSON)
        form = LOG_JSON;
    log_form_set(form);
}

/* As people read them, or as events where every line is one. */
static void tell_diagnostics(const struct weir_diagnostics *diagnostics)
{
    if (diagnostics != NULL && log_form_now() == LOG_JSON)
        log_diagnostics(diagnostics);
    else if (diagnostics != NULL)
        weir_diagnostics_print(diagnostics, stderr, false);
}

/* From a folder of envoyproxy/ratelimit: it is told of in its own words first. */
static int load_folder(struct server *server, const struct weir_contract_options *options,
                       struct weir_diagnostics **diagnostics)
{
    const struct server_ratelimit *ratelimit = server->options->ratelimit;
    char *text;
    size_t len;
    int result = ratelimit_text(ratelimit, &text, &len, diagnostics);
    if (result != 0)
        return result;
    tell_diagnostics(*diagnostics);
    weir_diagnostics_free(*diagnostics);
    result = weir_contract_parse(&server->contract, text, len, ratelimit->folder, options, diagnostics);
    free(text);
    return result;
}

static int load_contract(struct server *server)
{
    struct weir_contract_options options = contract_options(server);
    struct weir_diagnostics *diagnostics = NULL;
    const char *path = server->options->contract_path;
    choose_log_form(server);
    int result = server->options->ratelimit != NULL
                     ? load_folder(server, &options, &diagnostics)
                     : weir_contract_load(&server->contract, path, &options, &diagnostics);
    choose_log_form(server);
    tell_diagnostics(diagnostics);
    if (diagnostics == NULL && result != 0)
        (void)fprintf(stderr, "weir: %s: %s\n", path,
                      result == WEIR_ERR_BUSY ? RATELIMIT_BUSY
                                              : weir_error_text(result)); /* nowhere else to say it */
    weir_diagnostics_free(diagnostics);
    if (result != 0)
        return EXIT_WRONG;
    server->settings = weir_contract_server(server->contract);
    return 0;
}

static int load_tokens(struct server *server)
{
    const char *path =
        server->options->tokens_path != NULL ? server->options->tokens_path : server->settings->tokens;
    if (path == NULL)
        return 0;
    server->tokens = tokens_load(path, stderr);
    return server->tokens == NULL ? EXIT_WRONG : 0;
}

/* As many connections as descriptors allow, after asking for as many as we may have. */
static size_t connection_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 512;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        (void)getrlimit(RLIMIT_NOFILE, &limit); /* answered a moment ago */
    size_t most = limit.rlim_cur > CONNS_MAX + FDS_RESERVED ? CONNS_MAX + FDS_RESERVED : (size_t)limit.rlim_cur;
    return most > 2 * FDS_RESERVED ? most - FDS_RESERVED : most / 2;
}

static unsigned core_count(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 1;
    unsigned count = (unsigned)CPU_COUNT(&cores);
    return count > SERVER_WORKERS_MAX ? SERVER_WORKERS_MAX : count;
}

/* The first edition, with rows of counters for every worker. */
static bool make_edition(struct server *server)
{
    if (uv_mutex_init(&server->stats_lock) != 0 || uv_mutex_init(&server->edition_lock) != 0
        || ticker_init(&server->ticker, server) != 0 || reload_init(&server->reload, server) != 0)
        return false;
    server->edition = edition_new();
    if (server->edition != NULL)
        edition_fill(server->edition, server, NULL);
    return server->edition != NULL && server->edition->rows != NULL;
}

/* Workers inherit a mask without our signals, so the main thread gets them. */
static int start_workers(struct server *server)
{
    sigset_t signals, before;
    (void)sigemptyset(&signals); /* these five cannot fail with these arguments */
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before);
    int result = 0;
    for (unsigned i = 0; result == 0 && i < server->worker_count; i++)
        result = worker_start(&server->workers[i], server);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0)
        (void)fprintf(stderr, "weir: cannot start %u workers (%d): give a smaller --workers\n",
                      server->worker_count, result);
    return result == 0 ? 0 : EXIT_UNABLE;
}

/* Who may connect, and how often. Options win over the contract. */
static bool choose_access(struct server *server)
{
    const struct server_options *options = server->options;
    const struct weir_contract_server *settings = server->settings;
    size_t most =
        options->connections_per_peer > 0 ? options->connections_per_peer : settings->connections_per_peer;
    server->proxy_doors = options->proxy_doors != 0 ? options->proxy_doors : settings->proxy_doors;
    server->socket_mode = options->socket_mode != 0 ? options->socket_mode : settings->socket_mode;
    if (server->socket_mode == 0)
        server->socket_mode = SOCKET_MODE;
    if (most == 0) /* whoever it is, others can connect, too */
        most = server->conns_max / 2 > 0 ? server->conns_max / 2 : 1;
    return peers_init(&server->peers, most);
}

static int make_server(struct server *server, const struct server_options *options)
{
    *server = (struct server){ .options = options, .second_ms = 1000 };
    int status = load_contract(server);
    if (status == 0)
        status = load_tokens(server);
    if (status == 0)
        status = door_tls_open(server);
    if (status == 0)
        status = shared_store_open(&server->store, options->store_url, server->contract);
    if (status != 0)
        return status;
    server->conns_max = connection_limit();
    if (!choose_access(server)) {
        (void)fprintf(stderr, "weir: out of memory\n");
        return EXIT_UNABLE;
    }
    server->worker_count = options->workers > 0 ? options->workers : core_count();
    server->workers_open = server->worker_count;
    server->workers = calloc(server->worker_count, sizeof *server->workers);
    if (server->workers == NULL || !make_edition(server)) {
        (void)fprintf(stderr, "weir: out of memory\n");
        return EXIT_UNABLE;
    }
    return 0;
}

static void free_server(struct server *server)
{
    for (unsigned i = 0; server->workers != NULL && i < server->worker_count; i++)
        worker_free(&server->workers[i]);
    if (server->edition != NULL) {
        uv_mutex_destroy(&server->stats_lock);
        uv_mutex_destroy(&server->edition_lock);
        ticker_deinit(&server->ticker);
        reload_deinit(&server->reload);
    }
    edition_free(server->edition);
    free(server->workers);
    tokens_free(server->tokens);
    door_tls_close(&server->tls);
    peers_deinit(&server->peers);
    shared_store_close(&server->store);
    weir_contract_free(server->contract);
}

/* ---- Serving --------------------------------------------------------------------------------------------- */

static void log_start(const struct server *server)
{
    struct weir_stats stats;
    char path[LOG_QUOTED_MAX];
    weir_stats(weir_contract_limiter(server->contract), server->is_virtual ? 0 : weir_now(), &stats);
    if (server->options->ratelimit != NULL)
        ratelimit_log(server->options->ratelimit);
    log_event(LOG_INFO, "serving",
              "contract=%s version=%s limits=%zu workers=%u connections=%zu cells=%" PRIu64 " bytes=%" PRIu64
              " tokens=%zu",
              log_quote(server->options->contract_path, path), weir_contract_version(server->contract),
              weir_contract_limit_count(server->contract), server->worker_count, server->conns_max, stats.cells,
              stats.bytes, server->tokens == NULL ? 0 : tokens_count(server->tokens));
}

static void on_second(uv_timer_t *timer)
{
    const struct control *control = timer->data;
    log_left_out();
    if (control->server->is_virtual)
        return;
    reload_second(&control->server->reload);
    if (reload_is_working(&control->server->reload))
        return; /* in a second then */
    struct weir *limiter = weir_contract_limiter(control->server->contract);
    weir_contract_wall_offset_set(control->server->contract, weir_wall_offset());
    weir_sweep(limiter, weir_now(), SWEEP_GROUPS);
}

static void close_handle(void *handle)
{
    uv_close(handle, NULL);
}

static size_t connection_count(const struct server *server)
{
    size_t total = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        total += __atomic_load_n(&server->workers[i].load, __ATOMIC_RELAXED);
    return total;
}

/* Stop accepting; the loop ends with its last handle. The signals get back their default action before the drain is
 * announced: whoever reads of it and sends a second one ends the process. */
static void on_signal(uv_signal_t *handle, int number)
{
    struct control *control = handle->data;
    if (control->server->is_draining)
        return;
    close_handle(&control->terminate);
    close_handle(&control->interrupt);
    log_event(
        LOG_INFO, "draining", "signal=%s waiting=%zu connections=%zu", number == SIGTERM ? "SIGTERM" : "SIGINT",
        __atomic_load_n(&control->server->parked_count, __ATOMIC_RELAXED), connection_count(control->server));
    notify_stopping(&control->server->notify);
    __atomic_store_n(&control->server->is_draining, true, __ATOMIC_RELAXED);
    doors_stop(&control->doors);
    reload_stop(&control->server->reload);
    close_handle(&control->second);
}

static int start_control(struct control *control)
{
    (void)uv_timer_init(&control->loop, &control->second); /* cannot fail */
    control->second.data = control;
    control->terminate.data = control;
    control->interrupt.data = control;
    int result = uv_signal_init(&control->loop, &control->terminate);
    if (result == 0)
        result = uv_signal_init(&control->loop, &control->interrupt);
    if (result == 0)
        result = uv_signal_start(&control->terminate, on_signal, SIGTERM);
    if (result == 0)
        result = uv_signal_start(&control->interrupt, on_signal, SIGINT);
    if (result == 0)
        result = uv_timer_start(&control->second, on_second, 1000, 1000);
    if (result == 0)
        result = reload_start(&control->server->reload, &control->loop);
    if (result == 0)
        result = notify_start(&control->server->notify, &control->loop);
    if (result != 0)
        (void)fprintf(stderr, "weir: cannot wait for signals: %s\n", uv_strerror(result));
    return result == 0 ? 0 : EXIT_UNABLE;
}

static void finish_workers(struct server *server)
{
    uint64_t asks = 0;
    uint64_t answers = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_wake(&server->workers[i]);
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_join(&server->workers[i]);
        asks += server->workers[i].asks_started;
        answers += server->workers[i].asks_finished;
    }
    log_left_out();
    log_event(LOG_INFO, "drained", "asks=%" PRIu64 " answers=%" PRIu64, asks, answers);
}

/* With the doors open: serve. An error here ends the process, which closes what is left open. */
static int serve(struct control *control)
{
    if (uv_loop_init(&control->loop) != 0)
        return EXIT_UNABLE;
    int status = start_control(control);
    if (status == 0)
        status = start_workers(control->server);
    if (status == 0)
        status = doors_start(&control->doors, &control->loop);
    if (status != 0)
        exit(status); /* threads run: there is no half of a server to take down in order */
    log_start(control->server);
    notify_ready(&control->server->notify);
    (void)uv_run(&control->loop, UV_RUN_DEFAULT); /* ends with the drain: every handle is closed */
    finish_workers(control->server);
    (void)uv_loop_close(&control->loop); /* nothing is left in it */
    return 0;
}

int server_run(const struct server_options *options)
{
    static struct server server; /* the workers' threads refer to it */
    static struct control control;
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that is gone shows in the write's result */
    int status = make_server(&server, options);
    notify_open(&server.notify, &server);
    if (status == 0) {
        control.server = &server;
        status = doors_open(&control.doors, &server);
    }
    if (status == 0)
        status = serve(&control);
    notify_close(&server.notify);
    free_server(&server);
    return status;
}
