// SPDX-License-Identifier: Apache-2.0
/*
 * bench_parked.c - COUNT requests that wait at a server, each on a connection of its own, and when each is answered.
 *
 * `bench_parked PORT COUNT` connects COUNT times, says "connected" on stderr and reads a byte from stdin; sends one POST
 * /v1/check with a long `wait` on each connection in turn, and says "parked". When all are answered it prints
 * `sent,received` in ns of the monotonic clock, a line for each request in the order of sending. A reply that is not an
 * allowance ends it. The shell of it is bench/http_waiting.py.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct parked {
    int fd;
    unsigned long long sent, received;
};

static const char body[] = "{\"attributes\": {\"tenant\": \"acme\"}, \"wait\": 86400}";

static unsigned long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (unsigned long long)at.tv_sec * 1000000000 + (unsigned long long)at.tv_nsec;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int open_one(struct parked *one, int epoll, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((in_port_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = one } };
    int on = 1;
    one->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (one->fd < 0 || connect(one->fd, (struct sockaddr *)&address, sizeof address) != 0
        || setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0
        || epoll_ctl(epoll, EPOLL_CTL_ADD, one->fd, &event) != 0)
        return fail("connect");
    return 0;
}

static int send_one(struct parked *one)
{
    char text[512];
    int len = snprintf(text, sizeof text,
                       "POST /v1/check HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       sizeof body - 1, body);
    one->sent = now();
    return send(one->fd, text, (size_t)len, MSG_NOSIGNAL) == len ? 0 : fail("send");
}

/* A reply is one segment: it is far smaller than one. */
static int receive_one(struct parked *one)
{
    char text[2048];
    unsigned long long at = now();
    ssize_t len = recv(one->fd, text, sizeof text - 1, 0);
    if (len <= 0)
        return fail("recv");
    text[len] = 0;
    if (strstr(text, "\"decision\":\"allow\"") == NULL) {
        fprintf(stderr, "bench_parked: not an allowance:\n%s\n", text);
        return 1;
    }
    one->received = at;
    return 0;
}

static int collect(int epoll, size_t count)
{
    struct epoll_event events[64];
    for (size_t ended = 0; ended < count;) {
        int ready = epoll_wait(epoll, events, 64, 60000);
        if (ready <= 0)
            return fail("epoll_wait");
        for (int i = 0; i < ready; i++, ended++)
            if (receive_one(events[i].data.ptr) != 0)
                return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bench_parked PORT COUNT\n");
        return 2;
    }
    int port = atoi(argv[1]);
    size_t count = strtoull(argv[2], NULL, 10);
    static struct parked *all; /* until the end of the process */
    struct rlimit files = { count + 64, count + 64 };
    int epoll = epoll_create1(0);
    all = calloc(count, sizeof *all);
    if (all == NULL || epoll < 0 || setrlimit(RLIMIT_NOFILE, &files) != 0)
        return fail("bench_parked");
    for (size_t i = 0; i < count; i++)
        if (open_one(&all[i], epoll, port) != 0)
            return 1;
    fprintf(stderr, "connected\n");
    (void)getchar(); /* whoever started us looks at the server's memory, and says go on */
    for (size_t i = 0; i < count; i++)
        if (send_one(&all[i]) != 0)
            return 1;
    fprintf(stderr, "parked\n");
    if (collect(epoll, count) != 0)
        return 1;
    printf("sent,received\n");
    for (size_t i = 0; i < count; i++)
        printf("%llu,%llu\n", all[i].sent, all[i].received);
    return 0;
}
