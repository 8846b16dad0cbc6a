// SPDX-License-Identifier: Apache-2.0
/*
 * client.h - one HTTP/1.1 connection to a server, used by one blocking caller.
 *
 * Idea: a command asks one question at a time, so plain sockets with one deadline per call are enough. Everything
 * that comes back is bounded: time by CLIENT_TIMEOUT_MS, bytes by CLIENT_REPLY_MAX.
 */
#ifndef WEIR_CLI_CLIENT_H
#define WEIR_CLI_CLIENT_H

#include <sys/socket.h>

#include "base/bytes.h"
#include "weir_retry.h"

/* How long one call may take, connecting included: an answer that a person waits for. */
#define CLIENT_TIMEOUT_MS 5000

/* Longest text of what went wrong, with its final zero. */
#define CLIENT_ERROR_MAX 320

/* Head and body of a reply: the longest decision has 24 KiB. */
#define CLIENT_REPLY_MAX ((size_t)128 << 10)

struct client {
    int fd; /* -1: not connected */
    const char *url;
    char host[272]; /* as in the URL, for the Host field; "localhost" for Unix sockets */
    char name[256], port[6];
    const char *unix_path;        /* NULL: TCP */
    bool is_sent;                 /* the last question may have reached the server */
    char error[CLIENT_ERROR_MAX]; /* what went wrong in the call that returned false */
    char reply[CLIENT_REPLY_MAX];
};

struct client_reply {
    unsigned status;
    weir_ns retry_after; /* of the field, from now; WEIR_NO_TIME: none */
    struct slice body;   /* in the client, until its next call */
};

/*
 * Read `http://HOST:PORT`, `http://[V6]:PORT` or `unix:PATH`; connects to nothing yet. The URL is kept by reference.
 * False with client->error.
 */
bool client_init(struct client *client, const char *url);
void client_close(struct client *client);

/* POST `body` as JSON to `target`. `fields`: further field lines with their line ends, or "". False with client->error. */
bool client_post(struct client *client, const char *target, const char *fields, struct slice body,
                 struct client_reply *out);

/*
 * The two halves of it, for who waits in between or asks with another method ("GET", then without a body): send a question,
 * and read its reply within `timeout_ms`. One reply is owed for each question. False with client->error, not connected.
 */
bool client_send(struct client *client, const char *method, const char *target, const char *fields,
                 struct slice body);
bool client_receive(struct client *client, unsigned timeout_ms, struct client_reply *out);

/*
 * A connection of another protocol. Connect where that is needed, which *is_new says; send bytes, the second part right behind the
 * first; and read one whole reply of the Redis protocol, in the client until its next call. False as above.
 */
bool client_connect(struct client *client, bool *is_new);
bool client_send_bytes(struct client *client, struct slice first, struct slice second);
bool client_receive_resp(struct client *client, unsigned timeout_ms, struct slice *out);

/* And read what has come, at least a byte of it, in the client until its next call. False as above, also at the end. */
bool client_receive_some(struct client *client, unsigned timeout_ms, struct slice *out);

#endif
