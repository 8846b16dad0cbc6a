// SPDX-License-Identifier: Apache-2.0
/*
 * redis_server.h - a redis-server of a test's own, on a Unix socket in a temporary folder, and a connection that asks and waits.
 *
 * The server has no port, writes no file and dies with the test. One that cannot be started fails the test.
 */
#ifndef WEIR_TEST_REDIS_SERVER_H
#define WEIR_TEST_REDIS_SERVER_H

#include <sys/types.h>

#include "base/bytes.h"

struct redis_server {
    pid_t pid;
    int fd; /* of the connection */
    char folder[64], socket_path[96], log_path[96];
    char *received; /* the last reply */
    size_t len, cap;
};

/* 0, or -1 with the cause on stderr: for a cmocka group's setup. */
int redis_server_start(struct redis_server *server);
int redis_server_stop(struct redis_server *server);

/* Send the bytes of one command and wait for its whole reply, which is borrowed until the next call. */
struct slice redis_ask(struct redis_server *server, struct slice command);

/* The same of words; the last one is NULL. */
struct slice redis_say(struct redis_server *server, ...) __attribute__((sentinel));

/* An integer reply, or the number in a bulk string; INT64_MIN: it is none. */
int64_t redis_number(struct slice reply);

/* Names of the keys that have no expiry, one a line in a static buffer; "" where all have one. */
const char *redis_immortals(struct redis_server *server);

#endif
