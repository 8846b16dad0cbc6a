// SPDX-License-Identifier: Apache-2.0
/*
 * bench_replay.c - sends recorded questions to a store or to an HTTP door as fast as they are answered, and tells how long they took.
 *
 * `bench_replay PORT resp|http FILE REPLIES CONNECTIONS DEPTH COUNT`: FILE is records of four bytes of length (the machine's
 * order) and that many bytes, each one question that has REPLIES replies; they are sent in turn, DEPTH at once in one write on
 * each of CONNECTIONS, COUNT in all. Prints one JSON object: how many, how long, and quantiles of the time from the write to
 * the last reply of it, in ns. The same loop for whatever is compared; the shell of it is bench/fleet_cost.py.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

#define CONNECTIONS_MAX 64
#define DEPTH_MAX 64
#define QUESTION_MAX 8192
#define REPLY_MAX (1u << 20)

struct question {
    const char *bytes;
    uint32_t len;
};

struct connection {
    int fd;
    uint64_t sent_at;
    unsigned due; /* replies that are still to come */
    size_t len;
    char *input; /* REPLY_MAX */
};

static struct question *questions;
static size_t question_count, next_question;
static bool is_http;
static uint64_t *times, time_count, errors;

static void stop(const char *what)
{
    perror(what);
    exit(1);
}

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint32_t len;
    if (file == NULL)
        stop(path);
    while (fread(&len, sizeof len, 1, file) == 1) {
        char *bytes = malloc(len);
        if (len > QUESTION_MAX || bytes == NULL || fread(bytes, 1, len, file) != len)
            stop("a question");
        questions = realloc(questions, (question_count + 1) * sizeof *questions);
        if (questions == NULL)
            stop("memory");
        questions[question_count++] = (struct question){ bytes, len };
    }
    (void)fclose(file);
}

static int dial(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((in_port_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0
        || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        stop("connect");
    return fd;
}

/* Bytes of the whole RESP reply at the front; 0: more is to come. */
static size_t resp_whole(const char *bytes, size_t len)
{
    size_t at = 0;
    long elements = 1;
    while (elements > 0) {
        const char *end = memchr(bytes + at, '\n', len - at);
        if (end == NULL)
            return 0;
        long value = strtol(bytes + at + 1, NULL, 10);
        elements--;
        if (bytes[at] == '*')
            elements += value;
        bool is_bulk = bytes[at] == '$' && value >= 0;
        at = (size_t)(end - bytes) + 1 + (is_bulk ? (size_t)value + 2 : 0);
        if (at > len)
            return 0;
    }
    return at;
}

static size_t http_whole(const char *bytes, size_t len)
{
    const char *end = memmem(bytes, len, "\r\n\r\n", 4);
    const char *field = end == NULL ? NULL : memmem(bytes, (size_t)(end - bytes), "Content-Length: ", 16);
    if (end == NULL)
        return 0;
    size_t whole = (size_t)(end - bytes) + 4 + (field == NULL ? 0 : strtoul(field + 16, NULL, 10));
    return whole <= len ? whole : 0;
}

static void send_some(struct connection *connection, unsigned depth, unsigned replies)
{
    static char output[DEPTH_MAX * QUESTION_MAX];
    size_t len = 0;
    for (unsigned i = 0; i < depth; i++) {
        const struct question *question = &questions[next_question++ % question_count];
        memcpy(output + len, question->bytes, question->len);
        len += question->len;
    }
    connection->due = depth * replies;
    connection->sent_at = measure_now();
    for (size_t at = 0; at < len;) {
        ssize_t wrote = write(connection->fd, output + at, len - at);
        if (wrote <= 0)
            stop("write");
        at += (size_t)wrote;
    }
}

static void read_some(struct connection *connection)
{
    ssize_t got = read(connection->fd, connection->input + connection->len, REPLY_MAX - connection->len);
    size_t at = 0;
    if (got <= 0)
        stop("read");
    connection->len += (size_t)got;
    while (connection->due > 0) {
        const char *bytes = connection->input + at;
        size_t left = connection->len - at;
        size_t whole = left == 0 ? 0 : is_http ? http_whole(bytes, left) : resp_whole(bytes, left);
        if (whole == 0)
            break;
        errors += is_http ? memcmp(bytes, "HTTP/1.1 200", 12) != 0 : *bytes == '-';
        at += whole;
        connection->due--;
    }
    connection->len -= at;
    memmove(connection->input, connection->input + at, connection->len);
    if (connection->due == 0)
        times[time_count++] = measure_now() - connection->sent_at;
}

static int earlier(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static unsigned long long quantile(double share)
{
    return (unsigned long long)times[(size_t)((double)(time_count - 1) * share)];
}

static void run(struct connection *connections, unsigned count, unsigned depth, unsigned replies,
                uint64_t asked)
{
    struct pollfd polls[CONNECTIONS_MAX];
    uint64_t sent = 0, busy = 0;
    for (unsigned i = 0; i < count; i++, sent += depth, busy++) {
        polls[i] = (struct pollfd){ .fd = connections[i].fd, .events = POLLIN };
        send_some(&connections[i], depth, replies);
    }
    while (busy > 0) {
        if (poll(polls, count, 30000) <= 0)
            stop("poll");
        for (unsigned i = 0; i < count; i++) {
            if (polls[i].revents == 0)
                continue;
            read_some(&connections[i]);
            if (connections[i].due > 0)
                continue;
            if (sent < asked) {
                send_some(&connections[i], depth, replies);
                sent += depth;
            } else {
                busy--;
                polls[i].events = 0;
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        (void)fputs("usage: bench_replay PORT resp|http FILE REPLIES CONNECTIONS DEPTH COUNT\n", stderr);
        return 2;
    }
    unsigned replies = (unsigned)atoi(argv[4]), count = (unsigned)atoi(argv[5]),
             depth = (unsigned)atoi(argv[6]);
    uint64_t asked = strtoull(argv[7], NULL, 10);
    struct connection connections[CONNECTIONS_MAX] = { 0 };
    if (count == 0 || count > CONNECTIONS_MAX || depth == 0 || depth > DEPTH_MAX)
        return 2;
    is_http = strcmp(argv[2], "http") == 0;
    load(argv[3]);
    times = calloc(asked / depth + count + 1, sizeof *times);
    if (question_count == 0 || times == NULL)
        stop("questions");
    for (unsigned i = 0; i < count; i++) {
        connections[i].fd = dial(atoi(argv[1]));
        connections[i].input = malloc(REPLY_MAX);
        if (connections[i].input == NULL)
            stop("memory");
    }
    uint64_t began = measure_now();
    run(connections, count, depth, replies, asked);
    uint64_t took = measure_now() - began;
    qsort(times, time_count, sizeof *times, earlier);
    printf("{\"count\": %llu, \"ns\": %llu, \"p50\": %llu, \"p90\": %llu, \"p99\": %llu, \"errors\": %llu}\n",
           (unsigned long long)(time_count * depth), (unsigned long long)took, quantile(0.5), quantile(0.9),
           quantile(0.99), (unsigned long long)errors);
    return 0;
}
