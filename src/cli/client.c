// SPDX-License-Identifier: Apache-2.0
/*
 * client.c - connect, send, read one reply, all before a deadline.
 *
 * The socket never blocks; every wait is a poll() for what is left of the time. A connection is kept for the next
 * call unless the reply says otherwise. A call is never sent twice: a decision that was charged must not be charged
 * again because its reply was lost.
 */
#include "cli/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "weir.h"
#include "wire/chunked.h"
#include "wire/resp.h"

static bool fail(struct client *client, const char *what)
{
    (void)snprintf(client->error, sizeof client->error, "%.200s: %s", client->url, what);
    return false;
}

/* ---- URL ------------------------------------------------------------------------------------------------- */

static bool init_unix(struct client *client, const char *path)
{
    struct sockaddr_un address;
    if (path[0] == '\0' || strlen(path) >= sizeof address.sun_path)
        return fail(client, "a socket's path has 1 to 107 bytes");
    client->unix_path = path;
    (void)snprintf(client->host, sizeof client->host, "localhost");
    return true;
}

static bool init_tcp(struct client *client, const char *rest)
{
    size_t len = strcspn(rest, "/");
    if (rest[len] == '/' && rest[len + 1] != '\0')
        return fail(client, "write it without a path, as http://HOST:PORT");
    if (len == 0 || len >= sizeof client->name || memchr(rest, '@', len) != NULL)
        return fail(client, "write it as http://HOST:PORT or unix:PATH");
    (void)snprintf(client->host, sizeof client->host, "%.*s", (int)len, rest);

    /* The name ends at the last colon that is not inside brackets. */
    size_t name_len = len;
    size_t bracket = rest[0] == '[' ? strcspn(rest, "]") : 0;
    uint64_t port = 80;
    for (size_t i = bracket; i < len; i++)
        if (rest[i] == ':')
            name_len = i;
    struct slice digits = { rest + name_len + 1, len - name_len - 1 };
    if (name_len < len && (!slice_to_u64(digits, 65535, &port) || port == 0))
        return fail(client, "the port is not an integer from 1 to 65535");
    (void)snprintf(client->port, sizeof client->port, "%u", (unsigned)(port & 0xffff));
    bool is_v6 = rest[0] == '[';
    if (is_v6 && (name_len < 3 || rest[name_len - 1] != ']'))
        return fail(client, "write an IPv6 address as http://[::1]:PORT");
    (void)snprintf(client->name, sizeof client->name, "%.*s", (int)(name_len - (is_v6 ? 2 : 0)),
                   rest + (is_v6 ? 1 : 0));
    return client->name[0] != '\0' || fail(client, "the host is missing; write it as http://HOST:PORT");
}

bool client_init(struct client *client, const char *url)
{
    client->fd = -1;
    client->url = url;
    client->unix_path = NULL;
    client->is_sent = false;
    client->error[0] = '\0';
    for (const char *c = url; *c != '\0'; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return fail(client, "blanks and control characters have no place in a URL");
    if (strncmp(url, "unix:", 5) == 0)
        return init_unix(client, url + 5);
    if (strncmp(url, "http://", 7) == 0)
        return init_tcp(client, url + 7);
    if (strncmp(url, "https://", 8) == 0)
        return fail(client, "this version does not speak TLS; use http:// or unix:PATH");
    return fail(client, "write it as http://HOST:PORT or unix:PATH");
}

void client_close(struct client *client)
{
    if (client->fd >= 0)
        (void)close(client->fd); /* nothing is in flight that its result could tell us about */
    client->fd = -1;
}

/* ---- Waiting --------------------------------------------------------------------------------------------- */

/* Wait until the socket is ready for `events`; false with an error at the deadline. */
static bool wait_for(struct client *client, short events, uint64_t deadline)
{
    for (;;) {
        uint64_t now = clock_monotonic();
        struct pollfd poll_fd = { client->fd, events, 0 };
        if (now >= deadline)
            return fail(client, "no answer in time");
        int ready = poll(&poll_fd, 1, (int)((deadline - now) / WEIR_MILLISECOND) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return fail(client, strerror(errno));
    }
}

static bool connect_to(struct client *client, const struct sockaddr *address, socklen_t len, uint64_t deadline)
{
    client->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return fail(client, strerror(errno));
    if (connect(client->fd, address, len) != 0) {
        int error = errno;
        socklen_t error_len = sizeof error;
        if (error == EINPROGRESS) {
            if (!wait_for(client, POLLOUT, deadline))
                goto undo_socket;
            if (getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &error_len) != 0)
                error = errno;
        }
        if (error != 0) {
            (void)fail(client, strerror(error));
            goto undo_socket;
        }
    }
    return true;

undo_socket:
    client_close(client);
    return false;
}

static bool connect_tcp(struct client *client, uint64_t deadline)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int error = getaddrinfo(client->name, client->port, &hints, &found);
    if (error != 0)
        return fail(client, gai_strerror(error));
    bool is_connected = false;
    for (struct addrinfo *at = found; at != NULL && !is_connected; at = at->ai_next)
        is_connected = connect_to(client, at->ai_addr, at->ai_addrlen, deadline);
    freeaddrinfo(found);
    int on = 1;
    if (is_connected) /* without it the answers are late, not wrong */
        (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return is_connected;
}

static bool connect_unix(struct client *client, uint64_t deadline)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, client->unix_path, strlen(client->unix_path) + 1);
    return connect_to(client, (const struct sockaddr *)&address, sizeof address, deadline);
}

/* Whether the kept connection was given up by the server meanwhile: nothing may come before the next question. */
static bool has_ended(const struct client *client)
{
    struct pollfd poll_fd = { client->fd, POLLIN, 0 };
    return poll(&poll_fd, 1, 0) != 0;
}

/* ---- Sending and reading --------------------------------------------------------------------------------- */

/* `flags`: MSG_MORE where more follows at once, so that a small question travels in one segment. */
static bool send_all(struct client *client, struct slice bytes, int flags, uint64_t deadline)
{
    while (bytes.len > 0) {
        ssize_t sent = send(client->fd, bytes.at, bytes.len, MSG_NOSIGNAL | flags);
        if (sent >= 0) {
            bytes = (struct slice){ bytes.at + sent, bytes.len - (size_t)sent };
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(client, POLLOUT, deadline))
                return false;
        } else if (errno != EINTR) {
            return fail(client, strerror(errno));
        }
    }
    return true;
}

/* Read some more bytes behind `len`. *got is 0 at the end of the stream. */
static bool read_some(struct client *client, size_t len, size_t *got, uint64_t deadline)
{
    if (len == sizeof client->reply)
        return fail(client, "the reply is too long to be weir's");
    for (;;) {
        ssize_t count = recv(client->fd, client->reply + len, sizeof client->reply - len, 0);
        if (count >= 0) {
            *got = (size_t)count;
            return true;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(client, POLLIN, deadline))
                return false;
        } else if (errno != EINTR) {
            return fail(client, strerror(errno));
        }
    }
}

/* What the head of a reply says about its body. */
struct reply_head {
    unsigned status;
    bool has_length, is_chunked, closes;
    uint64_t length;
    weir_ns retry_after;
};

static bool read_field(struct slice name, struct slice value, struct reply_head *head)
{
    if (slice_equals_fold(name, SLICE("content-length"))) {
        head->has_length = true;
        return slice_to_u64(value, CLIENT_REPLY_MAX, &head->length);
    }
    if (slice_equals_fold(name, SLICE("transfer-encoding"))) {
        head->is_chunked = slice_equals_fold(value, SLICE("chunked"));
        return head->is_chunked;
    }
    if (slice_equals_fold(name, SLICE("connection")) && slice_equals_fold(value, SLICE("close")))
        head->closes = true;
    else if (slice_equals_fold(name, SLICE("retry-after")))
        head->retry_after = weir_retry_after(value.at, value.len, (uint64_t)clock_wall());
    return true;
}

/* Read "HTTP/1.1 200 OK" and the fields; `text` ends behind the empty line. */
static bool parse_head(struct slice text, struct reply_head *head)
{
    *head = (struct reply_head){ .retry_after = WEIR_NO_TIME };
    uint64_t status;
    if (text.len < 15 || memcmp(text.at, "HTTP/1.", 7) != 0 || text.at[8] != ' '
        || !slice_to_u64((struct slice){ text.at + 9, 3 }, 599, &status) || status < 100)
        return false;
    head->status = (unsigned)status;
    head->has_length = status == 204; /* which has no body, and therefore no length */
    head->closes = text.at[7] == '0';

    const char *end = text.at + text.len - 2;
    const char *line = (const char *)memchr(text.at, '\n', text.len) + 1;
    while (line < end) {
        const char *line_end = memchr(line, '\r', (size_t)(end - line));
        const char *colon = line_end == NULL ? NULL : memchr(line, ':', (size_t)(line_end - line));
        if (colon == NULL || line_end[1] != '\n')
            return false;
        const char *value = colon + 1;
        while (value < line_end && *value == ' ')
            value++;
        if (!read_field((struct slice){ line, (size_t)(colon - line) },
                        (struct slice){ value, (size_t)(line_end - value) }, head))
            return false;
        line = line_end + 2;
    }
    return true;
}

/* Read a head; *body_at is where its body starts, *len how many bytes are here. */
static bool read_head(struct client *client, struct reply_head *head, size_t *body_at, size_t *len,
                      uint64_t deadline)
{
    *len = 0;
    for (;;) {
        const char *end = *len == 0 ? NULL : memmem(client->reply, *len, "\r\n\r\n", 4);
        if (end != NULL) {
            size_t head_len = (size_t)(end - client->reply) + 4;
            if (!parse_head((struct slice){ client->reply, head_len }, head))
                return fail(client, "the reply is not HTTP/1.1");
            *body_at = head_len;
            if (head->status >= 200)
                return true;
            /* 100 Continue and its like: the reply is still to come. */
            memmove(client->reply, client->reply + head_len, *len - head_len);
            *len -= head_len;
            continue;
        }
        size_t got;
        if (!read_some(client, *len, &got, deadline))
            return false;
        if (got == 0)
            return fail(client, *len == 0 ? "the server closed the connection without an answer"
                                          : "the server closed the connection within its answer");
        *len += got;
    }
}

static bool read_body(struct client *client, const struct reply_head *head, size_t at, size_t len,
                      struct slice *out, uint64_t deadline)
{
    struct chunked chunked;
    size_t body_len = head->is_chunked ? 0 : len - at;
    size_t fresh = len - at; /* of chunked bytes, not yet decoded */
    chunked_init(&chunked, CLIENT_REPLY_MAX);
    for (;;) {
        if (head->is_chunked && fresh > 0) {
            size_t decoded, used;
            enum chunked_result result =
                chunked_decode(&chunked, client->reply + at + body_len, fresh, &decoded, &used);
            if (result == CHUNKED_BAD)
                return fail(client, "the reply's chunks are malformed");
            body_len += decoded;
            fresh = 0;
            if (result == CHUNKED_DONE)
                break;
        } else if (!head->is_chunked && head->has_length && body_len >= head->length) {
            body_len = (size_t)head->length;
            break;
        }
        size_t got;
        if (!read_some(client, at + body_len, &got, deadline))
            return false;
        if (got == 0 && !head->is_chunked && !head->has_length)
            break;
        if (got == 0)
            return fail(client, "the server closed the connection within its answer");
        if (head->is_chunked)
            fresh = got;
        else
            body_len += got;
    }
    *out = (struct slice){ client->reply + at, body_len };
    return true;
}

static uint64_t deadline_in(unsigned timeout_ms)
{
    return clock_monotonic() + timeout_ms * WEIR_MILLISECOND;
}

static bool connect_anew(struct client *client, uint64_t deadline)
{
    if (client->fd >= 0 && has_ended(client))
        client_close(client);
    return client->fd >= 0
           || (client->unix_path != NULL ? connect_unix(client, deadline) : connect_tcp(client, deadline));
}

static bool send_both(struct client *client, struct slice first, struct slice second, uint64_t deadline)
{
    client->is_sent = true;
    if (send_all(client, first, second.len > 0 ? MSG_MORE : 0, deadline)
        && send_all(client, second, 0, deadline))
        return true;
    client_close(client);
    return false;
}

bool client_send(struct client *client, const char *method, const char *target, const char *fields,
                 struct slice body)
{
    uint64_t deadline = deadline_in(CLIENT_TIMEOUT_MS);
    char head[2048];
    client->is_sent = false;
    int head_len = snprintf(head, sizeof head,
                            "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                            "Content-Length: %zu\r\n%s\r\n",
                            method, target, client->host, body.len, fields);
    if (head_len >= (int)sizeof head)
        return fail(client, "the request's head is too long");

    return connect_anew(client, deadline)
           && send_both(client, (struct slice){ head, (size_t)head_len }, body, deadline);
}

bool client_receive(struct client *client, unsigned timeout_ms, struct client_reply *out)
{
    uint64_t deadline = deadline_in(timeout_ms);
    struct reply_head reply;
    size_t at, len;
    if (!read_head(client, &reply, &at, &len, deadline)
        || !read_body(client, &reply, at, len, &out->body, deadline)) {
        client_close(client);
        return false;
    }
    if (reply.closes || (!reply.has_length && !reply.is_chunked))
        client_close(client);
    out->status = reply.status;
    out->retry_after = reply.retry_after;
    return true;
}

bool client_post(struct client *client, const char *target, const char *fields, struct slice body,
                 struct client_reply *out)
{
    return client_send(client, "POST", target, fields, body) && client_receive(client, CLIENT_TIMEOUT_MS, out);
}

/* ---- The Redis protocol ------------------------------------------------------------------------------------- */

bool client_connect(struct client *client, bool *is_new)
{
    *is_new = client->fd < 0 || has_ended(client);
    return connect_anew(client, deadline_in(CLIENT_TIMEOUT_MS));
}

bool client_send_bytes(struct client *client, struct slice first, struct slice second)
{
    return send_both(client, first, second, deadline_in(CLIENT_TIMEOUT_MS));
}

bool client_receive_resp(struct client *client, unsigned timeout_ms, struct slice *out)
{
    uint64_t deadline = deadline_in(timeout_ms);
    struct resp_reply_parser parser = RESP_REPLY_START;
    size_t len = 0, got, reply_len;
    for (;;) {
        enum resp_result result =
            len == 0 ? RESP_MORE : resp_reply_parse(&parser, client->reply, len, &reply_len);
        if (result == RESP_DONE && reply_len == len) {
            *out = (struct slice){ client->reply, len };
            return true;
        }
        if (result != RESP_MORE) {
            (void)fail(client, result == RESP_BAD ? "the reply is not RESP" : "there is more than the reply");
            break;
        }
        if (!read_some(client, len, &got, deadline))
            break;
        if (got == 0) {
            (void)fail(client, "the server closed the connection without a whole answer");
            break;
        }
        len += got;
    }
    client_close(client);
    return false;
}

bool client_receive_some(struct client *client, unsigned timeout_ms, struct slice *out)
{
    size_t got;
    bool is_good = read_some(client, 0, &got, deadline_in(timeout_ms));
    if (is_good && got == 0)
        is_good = fail(client, "the server closed the connection without a whole answer");
    if (!is_good)
        client_close(client);
    *out = (struct slice){ client->reply, is_good ? got : 0 };
    return is_good;
}
