// SPDX-License-Identifier: Apache-2.0
/*
 * link_rig.h - a link under test and the server that it dials, in one thread.
 *
 * The loop is stepped by the test, and the server's socket is read and written by the test between steps: so every byte
 * comes when a row says so, and nothing waits for a clock but what is a clock's.
 */
#ifndef WEIR_TEST_LINK_RIG_H
#define WEIR_TEST_LINK_RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fleet/link.h"
#include "support/unit.h"

/* What was told of one command. */
struct asked {
    struct link_command command;
    unsigned done; /* how often */
    enum carrier_result result;
    char reply[256];
    void (*then)(struct asked *asked); /* called within done() */
};

struct rig {
    uv_loop_t loop;
    uv_timer_t guard; /* so that no step lasts long */
    struct link *link;
    struct link_target target;
    int listener, peer;
    unsigned ups, downs, heards, pushes, done;
    bool is_closed;
    char why[256], push[256];
    struct asked *first; /* what up() sends at once */
    void (*on_up)(struct rig *rig), (*on_down)(struct rig *rig), (*on_push)(struct rig *rig),
        (*on_heard)(struct rig *rig);
};

static inline int64_t rig_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void rig_on_guard(uv_timer_t *guard)
{
    (void)guard;
}

static inline void rig_step(struct rig *rig)
{
    (void)uv_run(&rig->loop, UV_RUN_ONCE);
}

/* Step until `condition`; ten seconds are for ever. */
#define rig_until(rig, condition) \
    do { \
        int64_t rig_end = rig_ms() + 10000; \
        while (!(condition)) { \
            if (rig_ms() > rig_end) \
                fail_msg("it did not come: %s (down: %s)", #condition, (rig)->why); \
            rig_step(rig); \
        } \
    } while (0)

static inline void rig_on_up(struct link *link)
{
    struct rig *rig = link_owner(link);
    rig->ups++;
    if (rig->on_up != NULL)
        rig->on_up(rig);
}

static inline void rig_on_down(struct link *link, const char *why)
{
    struct rig *rig = link_owner(link);
    rig->downs++;
    assert_false(link_is_up(link));
    (void)snprintf(rig->why, sizeof rig->why, "%s", why);
    if (rig->on_down != NULL)
        rig->on_down(rig);
}

static inline void rig_on_push(struct link *link, struct slice reply)
{
    struct rig *rig = link_owner(link);
    rig->pushes++;
    (void)snprintf(rig->push, sizeof rig->push, "%.*s", (int)reply.len, reply.at);
    if (rig->on_push != NULL)
        rig->on_push(rig);
}

static inline void rig_on_heard(struct link *link)
{
    struct rig *rig = link_owner(link);
    rig->heards++;
    if (rig->on_heard != NULL)
        rig->on_heard(rig);
}

static inline void rig_on_closed(struct link *link)
{
    struct rig *rig = link_owner(link);
    assert_false(rig->is_closed);
    rig->is_closed = true;
}

static const struct link_events rig_events = {
    .up = rig_on_up, .down = rig_on_down, .push = rig_on_push, .heard = rig_on_heard, .closed = rig_on_closed
};

/* ---- The server ---------------------------------------------------------------------------------------------------- */

static inline void rig_listen(struct rig *rig)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    rig->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(rig->listener >= 0);
    assert_int_equal(bind(rig->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(rig->listener, 16), 0);
    assert_int_equal(getsockname(rig->listener, (struct sockaddr *)&address, &len), 0);
    rig->target.host = "127.0.0.1";
    rig->target.port = ntohs(address.sin_port);
}

static inline bool rig_has_peer(struct rig *rig)
{
    const int yes = 1; /* else what is said in pieces waits for the kernel's clock */
    if (rig->peer < 0)
        rig->peer = accept4(rig->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (rig->peer >= 0)
        (void)setsockopt(rig->peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return rig->peer >= 0;
}

static inline void rig_accept(struct rig *rig)
{
    rig_until(rig, rig_has_peer(rig));
}

static inline void rig_say(struct rig *rig, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t sent = send(rig->peer, at, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            rig_step(rig);
            continue;
        }
        assert_true(sent > 0);
        at += sent;
        len -= (size_t)sent;
    }
}

#define rig_says(rig, text) rig_say((rig), (text), strlen(text))

/* Exactly these bytes come next. */
static inline void rig_hear(struct rig *rig, const char *expected)
{
    char got[4096];
    size_t len = 0, want = strlen(expected);
    int64_t end = rig_ms() + 10000;
    assert_true(want < sizeof got);
    while (len < want && rig_ms() < end) {
        ssize_t part = recv(rig->peer, got + len, want - len, 0);
        if (part > 0)
            len += (size_t)part;
        else
            rig_step(rig);
    }
    got[len] = '\0';
    assert_string_equal(got, expected);
}

/* Nothing more has come. */
static inline void rig_hear_nothing(struct rig *rig)
{
    char got[64];
    ssize_t len = recv(rig->peer, got, sizeof got - 1, 0);
    if (len > 0)
        fail_msg("it sent %.*s", (int)len, got);
}

static inline void rig_hang_up(struct rig *rig)
{
    (void)close(rig->peer);
    rig->peer = -1;
}

#define HELLO "*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$4\r\nweir\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"
#define HELLO_REPLY "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
#define PONG "+PONG\r\n"

/* The usual greeting: then it is up. */
static inline void rig_greet(struct rig *rig)
{
    unsigned ups = rig->ups;
    rig_accept(rig);
    rig_hear(rig, HELLO PING);
    rig_says(rig, HELLO_REPLY PONG);
    rig_until(rig, rig->ups == ups + 1);
}

/* ---- Its life --------------------------------------------------------------------------------------------------------- */

static inline void rig_prepare(struct rig *rig)
{
    memset(rig, 0, sizeof *rig);
    rig->peer = rig->listener = -1;
    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    (void)uv_timer_init(&rig->loop, &rig->guard);
    (void)uv_timer_start(&rig->guard, rig_on_guard, 1, 1);
}

static inline void rig_dial(struct rig *rig)
{
    assert_int_equal(link_open(&rig->link, &rig->loop, &rig->target, &rig_events, rig, 42), 0);
}

static inline void rig_begin(struct rig *rig)
{
    rig_prepare(rig);
    rig_listen(rig);
    rig_dial(rig);
}

/* The link is closed, and nothing of it is left on the loop. */
static inline void rig_leave(struct rig *rig)
{
    uv_close((uv_handle_t *)&rig->guard, NULL);
    (void)uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    if (rig->peer >= 0)
        (void)close(rig->peer);
    if (rig->listener >= 0)
        (void)close(rig->listener);
}

static inline void rig_end(struct rig *rig)
{
    link_close(rig->link);
    rig_until(rig, rig->is_closed);
    rig_leave(rig);
}

static inline void rig_on_done(struct link_command *command, enum carrier_result result, struct slice reply)
{
    struct asked *asked = (struct asked *)command;
    struct rig *rig = command->owner;
    rig->done++;
    asked->done++;
    asked->result = result;
    (void)snprintf(asked->reply, sizeof asked->reply, "%.*s", (int)reply.len, reply.at == NULL ? "" : reply.at);
    if (asked->then != NULL)
        asked->then(asked);
}

static inline bool rig_send(struct rig *rig, struct asked *asked, const char *bytes)
{
    asked->command = (struct link_command){ .done = rig_on_done, .owner = rig };
    return link_send(rig->link, slice_of(bytes), 1, &asked->command);
}

#endif
