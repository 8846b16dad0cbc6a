// SPDX-License-Identifier: Apache-2.0
/* test_dial.c - outgoing connections: to names, addresses and paths, to nobody, and cancelled at any moment. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "io/dial.h"

struct result {
    unsigned count;
    int fd;
};

static void on_done(void *owner, int fd)
{
    struct result *result = owner;
    result->count++;
    result->fd = fd;
}

/* A listener on loopback of either family; its port. */
static int listen_on(int family, uint16_t *port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = { .any = { .sa_family = (sa_family_t)family } };
    socklen_t len = family == AF_INET6 ? sizeof address.v6 : sizeof address.v4;
    if (family == AF_INET6)
        address.v6.sin6_addr = in6addr_loopback;
    else
        address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &address.any, len) != 0 || listen(fd, 4) != 0
        || getsockname(fd, &address.any, &len) != 0)
        return -1;
    *port = ntohs(family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
    return fd;
}

/* Dial and run the loop to its end: nothing may be left on it. */
static int dial(const char *host, uint16_t port, unsigned timeout_ms)
{
    uv_loop_t loop;
    struct result result = { 0 };
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_non_null(dial_open(&loop, host, port, timeout_ms, on_done, &result));
    assert_int_equal(result.count, 0); /* not within the call */
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(result.count, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
    return result.fd;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void expect_socket(int fd)
{
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
}

static void test_an_address(void **state)
{
    (void)state;
    uint16_t port;
    int listener = listen_on(AF_INET, &port), fd = dial("127.0.0.1", port, 10000);
    expect_socket(fd);
    assert_true(option(fd, IPPROTO_TCP, TCP_NODELAY) != 0);
    assert_true(option(fd, SOL_SOCKET, SO_KEEPALIVE) != 0);
    (void)close(fd);
    (void)close(listener);
}

static void test_an_address_of_IPv6(void **state)
{
    (void)state;
    uint16_t port = 9;
    int listener = listen_on(AF_INET6, &port), fd = dial("::1", port, 10000);
    if (listener < 0) { /* a machine without: it is an error, not silence */
        assert_true(fd < 0);
        return;
    }
    expect_socket(fd);
    (void)close(fd);
    (void)close(listener);
}

/* "localhost" is both families on most machines, and only one of them listens: the other is passed over. */
static void test_a_name_with_several_addresses(void **state)
{
    (void)state;
    uint16_t port;
    int listener = listen_on(AF_INET, &port), fd = dial("localhost", port, 10000);
    expect_socket(fd);
    (void)close(fd);
    (void)close(listener);
}

static void test_a_path(void **state)
{
    (void)state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/tmp/weir-dial-%d", (int)getpid());
    (void)unlink(address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(dial(address.sun_path, 0, 10000), UV_ECONNREFUSED); /* nobody listens yet */
    assert_int_equal(listen(listener, 4), 0);
    int fd = dial(address.sun_path, 0, 10000);
    expect_socket(fd);
    (void)close(fd);
    (void)close(listener);
    (void)unlink(address.sun_path);
    assert_int_equal(dial(address.sun_path, 0, 10000), UV_ENOENT);
}

static void test_who_is_not_there(void **state)
{
    (void)state;
    char path[300];
    uint16_t port;
    int listener = listen_on(AF_INET, &port);
    (void)close(listener);
    assert_int_equal(dial("127.0.0.1", port, 10000), UV_ECONNREFUSED);
    assert_int_equal(dial("localhost", port, 10000), UV_ECONNREFUSED);
    assert_int_equal(dial("/no/such/socket", 0, 10000), UV_ENOENT);
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    assert_int_equal(dial(path, 0, 10000), UV_ENAMETOOLONG);
    assert_true(dial("-.-", 1, 10000) < 0); /* no name: the resolver says so without asking anybody */
}

/* A listener whose queue is full swallows what comes. */
static void test_who_does_not_answer(void **state)
{
    (void)state;
    uint16_t port;
    int listener = listen_on(AF_INET, &port), fillers[4];
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_int_equal(listen(listener, 0), 0);
    for (size_t i = 0; i < COUNT_OF(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    assert_int_equal(dial("127.0.0.1", port, 20), UV_ETIMEDOUT);
    for (size_t i = 0; i < COUNT_OF(fillers); i++)
        (void)close(fillers[i]);
    (void)close(listener);
}

/* After each number of turns, to an address, a name, and nobody: done() does not come, and nothing is left. */
static void test_cancelled_at_any_moment(void **state)
{
    (void)state;
    static const char *const hosts[] = { "127.0.0.1", "localhost", "/no/such/socket" };
    uint16_t port;
    int listener = listen_on(AF_INET, &port);
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        for (int turns = 0; turns < 4; turns++) {
            uv_loop_t loop;
            struct result result = { 0 };
            assert_int_equal(uv_loop_init(&loop), 0);
            struct dial *dialled = dial_open(&loop, hosts[i], i == 2 ? 0 : port, 10000, on_done, &result);
            for (int turn = 0; turn < turns && result.count == 0; turn++)
                (void)uv_run(&loop, UV_RUN_NOWAIT);
            bool was_done = result.count > 0;
            if (!was_done)
                dial_cancel(dialled);
            else if (result.fd >= 0)
                (void)close(result.fd);
            (void)uv_run(&loop, UV_RUN_DEFAULT);
            assert_int_equal(result.count, was_done);
            assert_int_equal(uv_loop_close(&loop), 0);
        }
    }
    dial_cancel(NULL);
    (void)close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address),
        cmocka_unit_test(test_an_address_of_IPv6),
        cmocka_unit_test(test_a_name_with_several_addresses),
        cmocka_unit_test(test_a_path),
        cmocka_unit_test(test_who_is_not_there),
        cmocka_unit_test(test_who_does_not_answer),
        cmocka_unit_test(test_cancelled_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
