// SPDX-License-Identifier: Apache-2.0
/*
 * player_http.c - one server per timeline, asked over one connection.
 */
#include "cli/player_http.h"

#ifdef WEIR_TEST_HOOKS

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* How long a server may take to listen, or to drain: generous, since sanitizers are slow. */
#define SERVER_TIMEOUT_MS 30000

static enum player_result fail(struct player_http *http, const char *what)
{
    (void)snprintf(http->player.error, sizeof http->player.error, "%.300s", what);
    return PLAYER_UNREACHABLE;
}

/* Copy a file's text, or write `text`. */
static bool write_text(FILE *out, const struct timeline_contract *source)
{
    if (source->path == NULL)
        return fwrite(source->text.at, 1, source->text.len, out) == source->text.len;
    char part[16384];
    size_t len;
    FILE *in = fopen(source->path, "re");
    bool is_good = in != NULL;
    while (is_good && (len = fread(part, 1, sizeof part, in)) > 0)
        is_good = fwrite(part, 1, len, out) == len;
    if (in != NULL)
        (void)fclose(in); /* it was only read */
    return is_good;
}

/* Make a contract the one that the server reads. */
static bool write_contract(struct player_http *http, const struct timeline_contract *source)
{
    (void)snprintf(http->contract, sizeof http->contract, "%s/weir.yaml", http->folder);
    FILE *file = fopen(http->contract, "we");
    if (file == NULL)
        return false;
    bool is_written = write_text(file, source);
    return fclose(file) == 0 && is_written;
}

/* In the child: become the server. */
static void become_server(const struct player_http *http, weir_ns lost_at, int log)
{
    char wall_text[32], lost_text[32];
    (void)snprintf(wall_text, sizeof wall_text, "%" PRId64, http->timeline->start_wall);
    (void)snprintf(lost_text, sizeof lost_text, "%" PRIu64, lost_at);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || dup2(log, STDERR_FILENO) < 0
        || setenv("WEIR_TEST_WALL", wall_text, 1) != 0 || setenv("WEIR_TEST_LOST_AT", lost_text, 1) != 0)
        _exit(3);
    execl("/proc/self/exe", "weir", "serve", http->contract, "--http", "127.0.0.1:0", "--admin",
          http->admin_url, "--workers", "1", (char *)NULL);
    _exit(3);
}

/* Read what the server says until it tells its address; else what it said goes to `err`. */
static enum player_result await_listening(struct player_http *http, FILE *err)
{
    static const char words[] = "listening http ";
    char said[8192];
    size_t len = 0;
    uint64_t deadline = clock_monotonic() + SERVER_TIMEOUT_MS * WEIR_MILLISECOND;
    while (len < sizeof said - 1 && clock_monotonic() < deadline) {
        struct pollfd readable = { http->log, POLLIN, 0 };
        if (poll(&readable, 1, 100) <= 0)
            continue;
        ssize_t got = read(http->log, said + len, sizeof said - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
        said[len] = '\0';
        const char *at = strstr(said, words);
        if (at != NULL && strchr(at, '\n') != NULL) {
            at += sizeof words - 1;
            (void)snprintf(http->url, sizeof http->url, "http://%.*s", (int)strcspn(at, "\n"), at);
            return PLAYER_OK;
        }
    }
    if (err != NULL)
        fprintf(err, "%.*s", (int)len, said);
    int status = 0;
    (void)kill(http->pid, SIGKILL); /* it may be gone already */
    (void)waitpid(http->pid, &status, 0);
    http->pid = 0;
    (void)fail(http, "the server did not begin to listen");
    return WIFEXITED(status) && WEXITSTATUS(status) == 2 ? PLAYER_FAULTY : PLAYER_UNREACHABLE;
}

static enum player_result start_server(struct player_http *http, weir_ns lost_at, FILE *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail(http, strerror(errno));
    http->pid = fork();
    if (http->pid == 0)
        become_server(http, lost_at, ends[1]);
    (void)close(ends[1]); /* ours; the server has its own */
    http->log = ends[0];
    if (http->pid < 0) {
        http->pid = 0;
        return fail(http, strerror(errno));
    }
    enum player_result result = await_listening(http, err);
    if (result == PLAYER_OK && !client_init(&http->client, http->url))
        result = fail(http, http->client.error);
    if (result == PLAYER_OK && !client_init(&http->admin, http->admin_url))
        result = fail(http, http->admin.error);
    return result;
}

static enum player_result http_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    struct player_http *http = (struct player_http *)player;
    player->error[0] = '\0';
    http->timeline = timeline;
    http->reservations = calloc(timeline->handle_count + 1, sizeof *http->reservations);
    (void)snprintf(http->folder, sizeof http->folder, "/tmp/weir-play-XXXXXX");
    if (http->reservations == NULL || mkdtemp(http->folder) == NULL) {
        http->folder[0] = '\0';
        return fail(http, strerror(errno));
    }
    (void)snprintf(http->admin_url, sizeof http->admin_url, "unix:%s/admin.sock", http->folder);
    if (!write_contract(http, &timeline->contract)) {
        (void)fail(http, timeline->contract.path == NULL ? http->contract : timeline->contract.path);
        return PLAYER_FAULTY;
    }
    return start_server(http, 0, err);
}

/* What it logs is of no interest, but a full pipe would stop it. */
static void drain_log(const struct player_http *http)
{
    char ignored[4096];
    struct pollfd readable = { http->log, POLLIN, 0 };
    if (poll(&readable, 1, 0) > 0)
        (void)!read(http->log, ignored, sizeof ignored);
}

/* Ask the server to drain and wait for its end; the pipe ends with it. */
static void stop_server(struct player_http *http)
{
    if (http->pid == 0)
        return;
    client_close(&http->client);
    client_close(&http->admin);
    uint64_t deadline = clock_monotonic() + SERVER_TIMEOUT_MS * WEIR_MILLISECOND;
    char ignored[4096];
    bool has_ended = false;
    int status = 0;
    (void)kill(http->pid, SIGTERM); /* it is ours, and waited for below */
    while (!has_ended && clock_monotonic() < deadline) {
        struct pollfd readable = { http->log, POLLIN, 0 };
        has_ended = poll(&readable, 1, 100) > 0 && read(http->log, ignored, sizeof ignored) <= 0;
    }
    if (!has_ended)
        (void)kill(http->pid, SIGKILL); /* as above */
    bool is_clean =
        waitpid(http->pid, &status, 0) == http->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_clean)
        fprintf(stderr, "weir test: the server did not drain: status 0x%x\n", (unsigned)status);
    http->pid = 0;
    (void)close(http->log); /* it was only read */
    http->log = -1;
}

static enum player_result http_perform(struct player *player, const struct timeline_step *step,
                                       struct verdict *out)
{
    struct player_http *http = (struct player_http *)player;
    struct client *client =
        step->kind == STEP_RESET || step->kind == STEP_RELOAD ? &http->admin : &http->client;
    size_t handle = step->handle == TIMELINE_NO_HANDLE ? http->timeline->handle_count : step->handle;
    char field[64];
    player->error[0] = '\0';
    if (step->kind == STEP_RESTART) {
        stop_server(http);
        return start_server(http, step->at, NULL);
    }
    if (step->kind == STEP_RELOAD && !write_contract(http, &step->contract))
        return fail(http, strerror(errno));
    (void)snprintf(field, sizeof field, "Weir-Now: %" PRIu64 "\r\n", step->at);
    drain_log(http);
    enum remote_result result = remote_operate(client, field, step, http->reservations[handle], out);
    if (result != REMOTE_DECIDED || out->effect.error != NULL)
        (void)fail(http, client->error); /* of an error that was expected nobody hears */
    return result == REMOTE_DECIDED ? PLAYER_OK : result == REMOTE_FAULTY ? PLAYER_FAULTY : PLAYER_UNREACHABLE;
}

static void http_close(struct player *player)
{
    struct player_http *http = (struct player_http *)player;
    stop_server(http);
    if (http->log >= 0)
        (void)close(http->log); /* of a server that did not begin */
    http->log = -1;
    free(http->reservations);
    http->reservations = NULL;
    if (http->folder[0] == '\0')
        return;
    char admin[64];
    (void)snprintf(admin, sizeof admin, "%s/admin.sock", http->folder);
    (void)unlink(admin); /* the server has done it, unless it was killed */
    if (http->contract[0] != '\0')
        (void)unlink(http->contract); /* a file left in /tmp harms nobody */
    (void)rmdir(http->folder);        /* likewise */
    http->folder[0] = '\0';
    http->contract[0] = '\0';
}

void player_http_init(struct player_http *http)
{
    *http = (struct player_http){
        .player = { .name = "http", .open = http_open, .perform = http_perform, .close = http_close },
        .client = { .fd = -1 },
        .admin = { .fd = -1 },
        .log = -1
    };
}

#else

/* An empty file is not C. */
typedef int player_http_is_for_tests;

#endif
