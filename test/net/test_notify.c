// SPDX-License-Identifier: Apache-2.0
/* test_notify.c - the sign of life: given while every worker answers, not while one is silent, and again when it answers. */
#include "support/unit.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/worker.h"

#define WORKERS 3

static struct server server;
static bool is_silent[WORKERS];
static unsigned looks; /* turns of a timer of our own: so that "nothing came" has a measure */

static void on_wake(uv_async_t *wake)
{
    struct worker *worker = wake->data;
    if (!is_silent[worker - server.workers])
        worker->pulse = server.pulse;
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
    looks++;
}

static int hear(void)
{
    static const struct sockaddr_un anywhere = { .sun_family = AF_UNIX };
    struct sockaddr_un address;
    socklen_t len = sizeof address;
    char name[64] = "@";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&anywhere, sizeof anywhere.sun_family),
                     0); /* the kernel names it */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    memcpy(name + 1, address.sun_path + 1, len - sizeof address.sun_family - 1);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

/* Signs that came while the loop made `turns` of the timer. */
static unsigned signs_in(uv_loop_t *loop, int fd, unsigned turns)
{
    char words[64];
    unsigned count = 0;
    for (looks = 0; looks < turns;) {
        (void)uv_run(loop, UV_RUN_ONCE);
        for (ssize_t len; (len = recv(fd, words, sizeof words, 0)) > 0; count++)
            assert_memory_equal(words, "WATCHDOG=1\n", (size_t)len);
    }
    return count;
}

static void signs_come_only_while_all_workers_answer(void **state)
{
    (void)state;
    static struct worker workers[WORKERS];
    uv_loop_t loop;
    uv_timer_t timer;
    int fd = hear();
    assert_int_equal(setenv("WATCHDOG_USEC", "8000", 1), 0);
    server.workers = workers;
    server.worker_count = WORKERS;
    assert_int_equal(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < WORKERS; i++) {
        assert_int_equal(uv_async_init(&loop, &workers[i].wake, on_wake), 0);
        workers[i].wake.data = &workers[i];
    }
    assert_int_equal(uv_timer_init(&loop, &timer), 0);
    assert_int_equal(uv_timer_start(&timer, on_timer, 5, 5), 0);

    notify_open(&server.notify, &server);
    assert_null(getenv("NOTIFY_SOCKET")); /* for no child */
    assert_null(getenv("WATCHDOG_USEC"));
    assert_int_equal(server.notify.watchdog_ms, 2);
    assert_int_equal(notify_start(&server.notify, &loop), 0);
    assert_true(signs_in(&loop, fd, 20) > 1);
    for (size_t i = 0; i < WORKERS; i++) {
        is_silent[i] = true;
        (void)signs_in(&loop, fd, 10); /* one that was answered for before */
        assert_int_equal(signs_in(&loop, fd, 20), 0);
        is_silent[i] = false;
        workers[i].pulse = server.pulse; /* it turns again, and sees the wake-up that it was sent */
        assert_true(signs_in(&loop, fd, 20) > 1);
    }
    notify_stopping(&server.notify);
    for (size_t i = 0; i < WORKERS; i++)
        uv_close((uv_handle_t *)&workers[i].wake, NULL);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0); /* its own timer, too */
    char words[64] = "";
    assert_true(recv(fd, words, sizeof words - 1, 0) > 0);
    assert_memory_equal(words, "STOPPING=1\n", strlen("STOPPING=1\n"));
    notify_close(&server.notify);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(signs_come_only_while_all_workers_answer) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
