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
#include "cli/remote.h"

/* How long a server may take to listen, or to drain: generous, since sanitizers are slow. */
#define SERVER_TIMEOUT_MS 30000

static enum player_result fail(struct player_http *http, const char *what)
{
    (void)snprintf(http->player.error, sizeof http->player.error, "%.300s", what);
    return PLAYER_UNREACHABLE;
}

/* The contract as a file: its own, or the inline one written into the folder. */
static const char *contract_file(struct player_http *http, const struct timeline *timeline)
{
    if (timeline->contract_path != NULL)
        return timeline->contract_path;
    (void)snprintf(http->contract, sizeof http->contract, "%s/weir.yaml", http->folder);
    FILE *file = fopen(http->contract, "we");
    if (file == NULL)
        return NULL;
    size_t written = fwrite(timeline->contract_text.at, 1, timeline->contract_text.len, file);
    return fclose(file) == 0 && written == timeline->contract_text.len ? http->contract : NULL;
}

/* In the child: become the server. */
static void become_server(const struct player_http *http, const char *contract, int64_t wall, int log)
{
    char admin[64], wall_text[32];
    (void)snprintf(admin, sizeof admin, "unix:%s/admin.sock", http->folder);
    (void)snprintf(wall_text, sizeof wall_text, "%" PRId64, wall);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || dup2(log, STDERR_FILENO) < 0
        || setenv("WEIR_TEST_WALL", wall_text, 1) != 0)
        _exit(3);
    execl("/proc/self/exe", "weir", "serve", contract, "--http", "127.0.0.1:0", "--admin", admin, "--workers",
          "1", (char *)NULL);
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

static enum player_result http_open(struct player *player, const struct timeline *timeline, FILE *err)
{
    struct player_http *http = (struct player_http *)player;
    int ends[2];
    player->error[0] = '\0';
    (void)snprintf(http->folder, sizeof http->folder, "/tmp/weir-play-XXXXXX");
    if (mkdtemp(http->folder) == NULL) {
        http->folder[0] = '\0';
        return fail(http, strerror(errno));
    }
    const char *contract = contract_file(http, timeline);
    if (contract == NULL || pipe2(ends, O_CLOEXEC) != 0)
        return fail(http, strerror(errno));
    http->pid = fork();
    if (http->pid == 0)
        become_server(http, contract, timeline->start_wall, ends[1]);
    (void)close(ends[1]); /* ours; the server has its own */
    http->log = ends[0];
    if (http->pid < 0) {
        http->pid = 0;
        return fail(http, strerror(errno));
    }
    enum player_result result = await_listening(http, err);
    if (result == PLAYER_OK && !client_init(&http->client, http->url))
        result = fail(http, http->client.error);
    return result;
}

/* What it logs is of no interest, but a full pipe would stop it. */
static void drain_log(const struct player_http *http)
{
    char ignored[4096];
    struct pollfd readable = { http->log, POLLIN, 0 };
    if (poll(&readable, 1, 0) > 0)
        (void)!read(http->log, ignored, sizeof ignored);
}

static enum player_result http_decide(struct player *player, const struct weir_request *request, weir_ns now,
                                      struct verdict *out)
{
    struct player_http *http = (struct player_http *)player;
    char field[64];
    struct slice json;
    (void)snprintf(field, sizeof field, "Weir-Now: %" PRIu64 "\r\n", now);
    drain_log(http);
    enum remote_result result = remote_ask(&http->client, field, request, out, &json);
    if (result == REMOTE_DECIDED)
        return PLAYER_OK;
    (void)fail(http, http->client.error);
    return result == REMOTE_FAULTY ? PLAYER_FAULTY : PLAYER_UNREACHABLE;
}

/* Ask the server to drain and wait for its end; the pipe ends with it. */
static void stop_server(struct player_http *http)
{
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
}

static void http_close(struct player *player)
{
    struct player_http *http = (struct player_http *)player;
    client_close(&http->client);
    if (http->pid > 0)
        stop_server(http);
    if (http->log >= 0)
        (void)close(http->log); /* it was only read */
    http->log = -1;
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
        .player = { .name = "http", .open = http_open, .decide = http_decide, .close = http_close },
        .client = { .fd = -1 },
        .log = -1
    };
}

#else

/* An empty file is not C. */
typedef int player_http_is_for_tests;

#endif
