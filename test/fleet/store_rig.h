// SPDX-License-Identifier: Apache-2.0
/*
 * store_rig.h - real servers for tests in C: started by fork and exec on free ports, asked over plain sockets, stopped by pid;
 * and a carrier on a loop of its own that is turned until something has happened.
 *
 * Everything started here dies with the test. What takes milliseconds on an idle machine gets RIG_PATIENCE seconds.
 */
#ifndef WEIR_TEST_STORE_RIG_H
#define WEIR_TEST_STORE_RIG_H

#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "fleet/outage.h"
#include "fleet/store.h"
#include "wire/resp.h"

#define RIG_PATIENCE 60

static inline uint64_t rig_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline void rig_sleep_ms(unsigned ms)
{
    struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };
    (void)nanosleep(&time, NULL);
}

/* ---- Servers ----------------------------------------------------------------------------------------------------- */

/* Whether nobody listens on a port, and on the one of a Cluster's bus. */
static inline bool rig_port_is_free(unsigned port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    (void)close(fd);
    return is_free;
}

/* Below the ports that the kernel gives to clients, so that none of these takes it meanwhile. */
static inline unsigned rig_port(void)
{
    static unsigned seed;
    if (seed == 0)
        seed = (unsigned)getpid() * 2654435761u + (unsigned)rig_ms();
    for (;;) {
        seed = seed * 1103515245u + 12345u;
        unsigned port = 11000 + (seed >> 8) % 11000;
        if (rig_port_is_free(port) && rig_port_is_free(port + 10000))
            return port;
    }
}

struct rig_server {
    pid_t pid;
    unsigned port;
    char folder[64];
    const char *words[24]; /* of its command line */
    unsigned count;
    char text[1024];
    size_t used;
};

static inline void rig_word(struct rig_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *word = server->text + server->used;
    int len = vsnprintf(word, sizeof server->text - server->used, format, arguments);
    va_end(arguments);
    server->used += (size_t)len + 1;
    assert_true(server->used < sizeof server->text && server->count + 1 < COUNT_OF(server->words));
    server->words[server->count++] = word;
    server->words[server->count] = NULL;
}

static inline void rig_run(struct rig_server *server)
{
    pid_t parent = getpid();
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid > 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(server->folder) != 0)
        _exit(1);
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(log, 1);
    (void)dup2(log, 2);
    (void)execvp(server->words[0], (char *const *)server->words);
    _exit(127);
}

/* A connected socket, or -1. */
static inline int rig_dial(unsigned port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval patience = { RIG_PATIENCE, 0 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* Ask in words separated by blanks; the reply as it came (RESP2), zero-terminated, in a buffer of the rig. "": no connection. */
static inline const char *rig_ask(unsigned port, const char *format, ...)
{
    static char line[4096], reply[65536];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 2, format, arguments);
    va_end(arguments);
    memcpy(line + len, "\r\n", 3);
    reply[0] = '\0';
    int fd = rig_dial(port);
    if (fd < 0)
        return reply;
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t got = 0, whole;
    if (write(fd, line, (size_t)len + 2) == len + 2)
        for (;;) {
            ssize_t more = read(fd, reply + got, sizeof reply - 1 - got);
            if (more <= 0)
                break;
            got += (size_t)more;
            if (resp_reply_parse(&parser, reply, got, &whole) != RESP_MORE)
                break;
        }
    reply[got] = '\0';
    (void)close(fd);
    return reply;
}

static inline void rig_await(unsigned port, const char *command, const char *part)
{
    uint64_t end = rig_ms() + RIG_PATIENCE * 1000;
    while (strstr(rig_ask(port, "%s", command), part) == NULL) {
        if (rig_ms() > end)
            fail_msg("port %u: %s never said %s; it says %s", port, command, part,
                     rig_ask(port, "%s", command));
        rig_sleep_ms(20);
    }
}

/* A server of `program` on a free port, not started. Its own words may be added. */
static inline void rig_prepare(struct rig_server *server, const char *program)
{
    memset(server, 0, sizeof *server);
    server->port = rig_port();
    (void)snprintf(server->folder, sizeof server->folder, "/tmp/weir-store-XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    rig_word(server, "%s", program);
    rig_word(server, "--port");
    rig_word(server, "%u", server->port);
    rig_word(server, "--bind");
    rig_word(server, "127.0.0.1");
    rig_word(server, "--save");
    rig_word(server, "%s", "");
}

static inline void rig_start(struct rig_server *server)
{
    rig_run(server);
    rig_await(server->port, "PING", "PONG");
}

static inline void rig_kill(struct rig_server *server)
{
    if (server->pid <= 0)
        return;
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

static inline void rig_stop(struct rig_server *server)
{
    char command[128];
    rig_kill(server);
    (void)snprintf(command, sizeof command, "rm -rf %s", server->folder);
    if (strncmp(server->folder, "/tmp/weir-store-", 16) == 0 && system(command) != 0)
        print_message("%s stays\n", server->folder);
}

/* ---- A carrier ------------------------------------------------------------------------------------------------------ */

struct rig {
    uv_loop_t loop;
    uv_timer_t timer;
    struct url url;
    struct outages *outages;
    struct carrier *carrier;
    char log[65536];
    size_t log_len;
    bool only_looks; /* set before it is opened */
    bool is_closed;
};

static inline void rig_log(void *context, const char *line)
{
    struct rig *rig = context;
    int len = snprintf(rig->log + rig->log_len, sizeof rig->log - rig->log_len, "%s\n", line);
    if (len > 0 && (size_t)len < sizeof rig->log - rig->log_len)
        rig->log_len += (size_t)len;
}

static inline void rig_closed(void *context)
{
    ((struct rig *)context)->is_closed = true;
}

static inline void rig_on_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* Turn the loop until a condition holds, which an expression says. */
#define rig_until(rig, condition) \
    do { \
        uint64_t end_ = rig_ms() + RIG_PATIENCE * 1000; \
        while (!(condition)) { \
            if (rig_ms() > end_) \
                fail_msg("it never came: %s; log:\n%s", #condition, (rig)->log); \
            (void)uv_timer_start(&(rig)->timer, rig_on_timer, 5, 0); \
            (void)uv_run(&(rig)->loop, UV_RUN_ONCE); \
        } \
    } while (0)

static inline void rig_turn_ms(struct rig *rig, unsigned ms)
{
    uint64_t end = rig_ms() + ms;
    rig_until(rig, rig_ms() >= end);
}

/* A URL of hosts on loopback; `ports` ends with 0. */
static inline void rig_prepare_url(struct rig *rig, enum url_kind kind, const unsigned *ports,
                                   const char *master)
{
    static char hosts[] = "127.0.0.1";
    memset(rig, 0, sizeof *rig);
    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    assert_int_equal(uv_timer_init(&rig->loop, &rig->timer), 0);
    rig->url.kind = kind;
    rig->url.master = master;
    for (; ports[rig->url.host_count] != 0; rig->url.host_count++) {
        rig->url.hosts[rig->url.host_count] = hosts;
        rig->url.ports[rig->url.host_count] = (uint16_t)ports[rig->url.host_count];
    }
}

static inline void rig_open_url(struct rig *rig)
{
    assert_int_equal(outages_new(&rig->outages, 7), 0);
    struct store_client_options options = { .loop = &rig->loop,
                                            .url = &rig->url,
                                            .outages = rig->outages,
                                            .seed = rig_ms(),
                                            .only_looks = rig->only_looks,
                                            .log = rig_log,
                                            .closed = rig_closed,
                                            .context = rig };
    assert_int_equal(store_client_new(&rig->carrier, &options), 0);
}

static inline void rig_open(struct rig *rig, enum url_kind kind, const unsigned *ports, const char *master)
{
    rig_prepare_url(rig, kind, ports, master);
    rig_open_url(rig);
}

static inline void rig_close(struct rig *rig)
{
    rig->carrier->close(rig->carrier);
    rig_until(rig, rig->is_closed);
    uv_close((uv_handle_t *)&rig->timer, NULL);
    (void)uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    outages_free(rig->outages);
}

static inline bool rig_is_up(const struct rig *rig, const char *role)
{
    struct store_node nodes[16];
    size_t count = store_client_nodes(rig->carrier, nodes, COUNT_OF(nodes));
    for (size_t i = 0; i < count; i++)
        if (nodes[i].is_up && strcmp(nodes[i].role, role) == 0)
            return true;
    return false;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------ */

struct rig_call {
    struct carrier_call call;
    char command[256];
    bool is_done;
    enum carrier_result result;
    char reply[256];
};

static inline void rig_done(struct carrier_call *call, enum carrier_result result, struct slice reply)
{
    struct rig_call *one = call->owner;
    assert_false(one->is_done);
    one->is_done = true;
    one->result = result;
    size_t len = reply.len < sizeof one->reply - 1 ? reply.len : sizeof one->reply - 1;
    memcpy(one->reply, reply.at == NULL ? "" : reply.at, len);
    one->reply[len] = '\0';
}

/* Words separated by blanks, sent to the node of a slot. */
static inline void rig_send(struct rig *rig, struct rig_call *one, unsigned slot, const char *words)
{
    struct text text = text_of(one->command, sizeof one->command);
    uint32_t count = 1;
    for (const char *at = words; *at != '\0'; at++)
        count += *at == ' ';
    resp_put_array(&text, count);
    for (const char *at = words; count > 0; count--) {
        size_t len = strcspn(at, " ");
        resp_put_bulk(&text, (struct slice){ at, len });
        at += len + (at[len] == ' ');
    }
    assert_false(text.is_cut);
    one->is_done = false;
    one->call =
        (struct carrier_call){ .command = text_slice(&text), .slot = slot, .done = rig_done, .owner = one };
    rig->carrier->send(rig->carrier, &one->call);
}

/* Send and wait for what comes. */
static inline enum carrier_result rig_call(struct rig *rig, struct rig_call *one, unsigned slot,
                                           const char *words)
{
    rig_send(rig, one, slot, words);
    rig_until(rig, one->is_done);
    return one->result;
}

#endif
