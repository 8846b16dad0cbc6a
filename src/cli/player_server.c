// SPDX-License-Identifier: Apache-2.0
/*
 * player_server.c - a child process that listens, until it is asked to drain.
 */
#include "cli/player_server.h"

#ifdef WEIR_TEST_HOOKS

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* How long a server may take to listen, or to drain: generous, since sanitizers are slow. */
#define SERVER_TIMEOUT_MS 30000

static enum player_result fail(struct player_server *server, const char *what)
{
    (void)snprintf(server->error, sizeof server->error, "%.300s", what);
    return PLAYER_UNREACHABLE;
}

void player_server_init(struct player_server *server)
{
    server->client.fd = -1;
    server->admin.fd = -1;
    server->resp.fd = -1;
    server->grpc = (struct remote_grpc){ .client.fd = -1 };
    server->log = -1;
    server->pid = 0;
    server->resp_url[0] = server->grpc_url[0] = '\0';
    server->error[0] = '\0';
}

/* In the child: become the server. */
static void become_server(const struct player_server *server, const struct player_server_options *options,
                          int log)
{
    char wall_text[32], lost_text[32];
    (void)snprintf(wall_text, sizeof wall_text, "%" PRId64, options->wall);
    (void)snprintf(lost_text, sizeof lost_text, "%" PRIu64, options->lost_at);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || dup2(log, STDERR_FILENO) < 0
        || setenv("WEIR_TEST_WALL", wall_text, 1) != 0 || setenv("WEIR_TEST_LOST_AT", lost_text, 1) != 0)
        _exit(3);
    const char *arguments[14] = { "weir",    "serve",           options->contract, "--http", "127.0.0.1:0",
                                  "--admin", server->admin_url, "--workers",       "1" };
    size_t count = 9;
    if (options->tokens != NULL) {
        arguments[count++] = "--tokens";
        arguments[count++] = options->tokens;
    }
    if (options->door != NULL) {
        arguments[count++] = options->door;
        arguments[count++] = "127.0.0.1:0";
    }
    (void)execv("/proc/self/exe", (char *const *)arguments);
    _exit(3);
}

/* The address of a door in what a server said. */
static bool find_url(const char *said, const char *words, char url[128])
{
    const char *at = strstr(said, words);
    if (at == NULL || strchr(at, '\n') == NULL)
        return false;
    at += strlen(words);
    (void)snprintf(url, 128, "http://%.*s", (int)strcspn(at, "\n"), at);
    return true;
}

/* Read what the server says until it tells its addresses; else what it said goes to `err`. */
static enum player_result await_listening(struct player_server *server, const char *door, FILE *err)
{
    char said[8192];
    size_t len = 0;
    bool has_resp = door != NULL && strcmp(door, "--resp") == 0;
    bool has_grpc = door != NULL && strcmp(door, "--grpc") == 0;
    uint64_t deadline = clock_monotonic() + SERVER_TIMEOUT_MS * WEIR_MILLISECOND;
    while (len < sizeof said - 1 && clock_monotonic() < deadline) {
        struct pollfd readable = { server->log, POLLIN, 0 };
        if (poll(&readable, 1, 100) <= 0)
            continue;
        ssize_t got = read(server->log, said + len, sizeof said - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
        said[len] = '\0';
        if (find_url(said, "listening http ", server->url)
            && (!has_resp || find_url(said, "listening resp ", server->resp_url))
            && (!has_grpc || find_url(said, "listening grpc ", server->grpc_url)))
            return PLAYER_OK;
    }
    if (err != NULL)
        fprintf(err, "%.*s", (int)len, said);
    int status = 0;
    (void)kill(server->pid, SIGKILL); /* it may be gone already */
    (void)waitpid(server->pid, &status, 0);
    server->pid = 0;
    (void)fail(server, "the server did not begin to listen");
    return WIFEXITED(status) && WEXITSTATUS(status) == 2 ? PLAYER_FAULTY : PLAYER_UNREACHABLE;
}

/* Where limits are shared: nothing is asked before the store can be, or a policy would answer. */
static enum player_result await_store(struct player_server *server)
{
    struct client *client = &server->client;
    struct client_reply reply;
    uint64_t deadline = clock_monotonic() + SERVER_TIMEOUT_MS * WEIR_MILLISECOND;
    while (clock_monotonic() < deadline) {
        if (!client_send(client, "GET", "/readyz", "", (struct slice){ "", 0 })
            || !client_receive(client, CLIENT_TIMEOUT_MS, &reply))
            return fail(server, client->error);
        if (reply.status == 200 && slice_equals(reply.body, SLICE("ready\n")))
            return PLAYER_OK;
        (void)poll(NULL, 0, 2); /* its connections are made by themselves */
    }
    return fail(server, "the store cannot be reached");
}

enum player_result player_server_start(struct player_server *server,
                                       const struct player_server_options *options, FILE *err)
{
    int ends[2];
    (void)snprintf(server->admin_url, sizeof server->admin_url, "unix:%.40s/%u.sock", options->folder,
                   options->number);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail(server, strerror(errno));
    server->pid = fork();
    if (server->pid == 0)
        become_server(server, options, ends[1]);
    (void)close(ends[1]); /* ours; the server has its own */
    server->log = ends[0];
    if (server->pid < 0) {
        server->pid = 0;
        return fail(server, strerror(errno));
    }
    enum player_result result = await_listening(server, options->door, err);
    if (result == PLAYER_OK && !client_init(&server->client, server->url))
        result = fail(server, server->client.error);
    if (result == PLAYER_OK && !client_init(&server->admin, server->admin_url))
        result = fail(server, server->admin.error);
    if (result == PLAYER_OK && server->resp_url[0] != '\0' && !client_init(&server->resp, server->resp_url))
        result = fail(server, server->resp.error);
    if (result == PLAYER_OK && server->grpc_url[0] != '\0'
        && !client_init(&server->grpc.client, server->grpc_url))
        result = fail(server, server->grpc.client.error);
    return result == PLAYER_OK && options->has_store ? await_store(server) : result;
}

void player_server_drain_log(const struct player_server *server)
{
    char ignored[4096];
    struct pollfd readable = { server->log, POLLIN, 0 };
    if (poll(&readable, 1, 0) > 0)
        (void)!read(server->log, ignored, sizeof ignored);
}

void player_server_stop(struct player_server *server)
{
    if (server->pid == 0) {
        if (server->log >= 0)
            (void)close(server->log); /* of a server that did not begin */
        server->log = -1;
        return;
    }
    client_close(&server->client);
    client_close(&server->admin);
    client_close(&server->resp);
    remote_grpc_close(&server->grpc);
    uint64_t deadline = clock_monotonic() + SERVER_TIMEOUT_MS * WEIR_MILLISECOND;
    char ignored[4096];
    bool has_ended = false;
    int status = 0;
    (void)kill(server->pid, SIGTERM); /* it is ours, and waited for below */
    while (!has_ended && clock_monotonic() < deadline) {
        struct pollfd readable = { server->log, POLLIN, 0 };
        has_ended = poll(&readable, 1, 100) > 0 && read(server->log, ignored, sizeof ignored) <= 0;
    }
    if (!has_ended)
        (void)kill(server->pid, SIGKILL); /* as above */
    bool is_clean =
        waitpid(server->pid, &status, 0) == server->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_clean)
        fprintf(stderr, "weir test: the server did not drain: status 0x%x\n", (unsigned)status);
    server->pid = 0;
    (void)close(server->log); /* it was only read, and ended with it */
    server->log = -1;
    (void)unlink(server->admin_url + strlen("unix:")); /* the server has done it, unless it was killed */
}

#else

/* An empty file is not C. */
typedef int player_server_is_for_tests;

#endif
