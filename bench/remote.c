// SPDX-License-Identifier: Apache-2.0
/* remote.c - see remote.h. */
#include "remote.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/resp.h"

#define REPLY_MAX ((size_t)1 << 20)

bool remote_open(struct remote *remote, const char *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)strtoul(port, NULL, 10)) };
    const int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *remote = (struct remote){ socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), malloc(REPLY_MAX), REPLY_MAX };
    if (remote->fd < 0 || remote->reply == NULL
        || connect(remote->fd, (struct sockaddr *)&address, sizeof address) != 0
        || setsockopt(remote->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) {
        perror("store");
        return false;
    }
    return true;
}

static void send_all(struct remote *remote, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(remote->fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (sent <= 0) {
            perror("store");
            exit(1);
        }
        bytes = (struct slice){ bytes.at + sent, bytes.len - (size_t)sent };
    }
}

struct slice remote_ask(struct remote *remote, struct slice command)
{
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t len = 0, reply_len = 0;
    send_all(remote, command);
    while (resp_reply_parse(&parser, remote->reply, len, &reply_len) == RESP_MORE) {
        ssize_t got = len < remote->cap ? recv(remote->fd, remote->reply + len, remote->cap - len, 0) : 0;
        if (got <= 0) {
            perror("store");
            exit(1);
        }
        len += (size_t)got;
    }
    return (struct slice){ remote->reply, reply_len };
}

void remote_close(struct remote *remote)
{
    (void)close(remote->fd);
    free(remote->reply);
}
