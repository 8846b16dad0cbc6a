// SPDX-License-Identifier: Apache-2.0
/*
 * redis_server.c - starting, asking and stopping it.
 */
#include "support/redis_server.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/unit.h"
#include "wire/resp.h"

static int try_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void run(const struct redis_server *server)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket_path, "--save",
                 "", "--dir", server->folder, "--logfile", server->log_path, "--enable-debug-command", "yes",
                 (char *)NULL);
    (void)fprintf(stderr, "redis-server is not installed: `make deps` installs it\n");
    _exit(127);
}

int redis_server_start(struct redis_server *server)
{
    *server = (struct redis_server){ .fd = -1 };
    strcpy(server->folder, "/tmp/weir-redis-XXXXXX");
    if (mkdtemp(server->folder) == NULL) {
        perror("mkdtemp");
        return -1;
    }
    (void)snprintf(server->socket_path, sizeof server->socket_path, "%s/socket", server->folder);
    (void)snprintf(server->log_path, sizeof server->log_path, "%s/log", server->folder);
    server->pid = fork();
    if (server->pid == 0)
        run(server);
    for (int tries = 0; server->pid > 0 && tries < 1000; tries++) { /* until it listens, or is gone */
        server->fd = try_connect(server->socket_path);
        if (server->fd >= 0)
            return 0;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid)
            server->pid = 0;
        (void)nanosleep(&(struct timespec){ 0, 10 * 1000 * 1000 }, NULL);
    }
    (void)fprintf(stderr, "redis-server did not start\n");
    (void)redis_server_stop(server);
    return -1;
}

int redis_server_stop(struct redis_server *server)
{
    if (server->fd >= 0)
        (void)close(server->fd);
    if (server->pid > 0) {
        (void)kill(server->pid, SIGKILL);
        (void)waitpid(server->pid, NULL, 0);
    }
    (void)unlink(server->socket_path);
    (void)unlink(server->log_path);
    (void)rmdir(server->folder);
    free(server->received);
    *server = (struct redis_server){ .fd = -1 };
    return 0;
}

static void send_all(const struct redis_server *server, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(server->fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        assert_true(sent > 0);
        bytes = (struct slice){ bytes.at + sent, bytes.len - (size_t)sent };
    }
}

struct slice redis_ask(struct redis_server *server, struct slice command)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    enum resp_result result;
    size_t reply_len = 0;
    if (server->cap == 0) {
        server->cap = 65536;
        server->received = malloc(server->cap);
        assert_non_null(server->received);
    }
    send_all(server, command);
    server->len = 0;
    while ((result = resp_reply_parse(&parser, server->received, server->len, &reply_len)) == RESP_MORE) {
        if (server->len == server->cap) {
            server->cap *= 2;
            server->received = realloc(server->received, server->cap);
            assert_non_null(server->received);
        }
        ssize_t got = recv(server->fd, server->received + server->len, server->cap - server->len, 0);
        assert_true(got > 0);
        server->len += (size_t)got;
    }
    assert_int_equal(result, RESP_DONE);
    assert_int_equal(reply_len, server->len); /* one command, one reply */
    return (struct slice){ server->received, reply_len };
}

struct slice redis_say(struct redis_server *server, ...)
{
    static char bytes[65536];
    struct text text = text_of(bytes, sizeof bytes);
    va_list words, again;
    uint32_t count = 0;
    va_start(words, server);
    va_copy(again, words);
    while (va_arg(again, const char *) != NULL)
        count++;
    va_end(again);
    resp_put_array(&text, count);
    for (uint32_t i = 0; i < count; i++)
        resp_put_bulk(&text, slice_of(va_arg(words, const char *)));
    va_end(words);
    assert_false(text.is_cut);
    return redis_ask(server, text_slice(&text));
}

int64_t redis_number(struct slice reply)
{
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    int64_t number = INT64_MIN;
    if (!resp_next(&reader, &value))
        return INT64_MIN;
    if (value.type == RESP_INTEGER)
        return value.integer;
    return resp_is_text(&value) && resp_to_i64(value.text, &number) ? number : INT64_MIN;
}

const char *redis_immortals(struct redis_server *server)
{
    static char names[4096];
    static const char script[] = "local out = {}\n"
                                 "for _, key in ipairs(redis.call('KEYS', '*')) do\n"
                                 "  if redis.call('PTTL', key) == -1 then out[#out + 1] = key end\n"
                                 "end\n"
                                 "return table.concat(out, '\\n')";
    struct slice reply = redis_say(server, "EVAL", script, "0", NULL);
    struct resp_reader reader = resp_reader_of(reply.at, reply.len);
    struct resp_value value;
    assert_true(resp_next(&reader, &value) && resp_is_text(&value));
    (void)snprintf(names, sizeof names, "%.*s", (int)value.text.len, value.text.at);
    return names;
}
