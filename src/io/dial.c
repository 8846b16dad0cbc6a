// SPDX-License-Identifier: Apache-2.0
/*
 * dial.c - looks a name up and tries its addresses; see dial.h.
 *
 * The connecting socket is an ordinary descriptor under uv_poll until it is connected: only then does a stream take it, so
 * streams know no half-made state. What the system may still use when a dial is cancelled (a look-up in the thread pool,
 * a poll handle that is closing) is a piece of memory of its own.
 */
#include "io/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A peer that has vanished while nothing is said is noticed after a minute, if nobody asks it anything before. */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_EVERY_S 10
#define KEEPALIVE_PROBES 3

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } socket;
    socklen_t len;
};

struct lookup {
    uv_getaddrinfo_t request;
    struct dial *dial; /* NULL: cancelled */
};

/* One address that is being tried. */
struct attempt {
    uv_poll_t poll;
    struct dial *dial;
    int fd;
};

struct dial {
    uv_loop_t *loop;
    uv_timer_t timer;
    struct lookup *lookup;
    struct attempt *attempt;
    const char *host;
    uint16_t port;
    uint64_t deadline; /* ms of the loop's clock */
    struct address addresses[DIAL_ADDRESSES_MAX];
    unsigned count, next;
    int error; /* of the last address */
    bool has_begun;
    dial_done *done;
    void *owner;
};

static void try_next(struct dial *dial);

/* ---- Ends ------------------------------------------------------------------------------------------------------ */

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_attempt_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* The attempt is over; its socket is closed, unless it is taken over before. */
static void end_attempt(struct dial *dial)
{
    struct attempt *attempt = dial->attempt;
    if (attempt == NULL)
        return;
    dial->attempt = NULL;
    uv_close((uv_handle_t *)&attempt->poll, on_attempt_closed); /* from here on nobody polls the socket */
    if (attempt->fd >= 0)
        (void)close(attempt->fd);
}

void dial_cancel(struct dial *dial)
{
    if (dial == NULL)
        return;
    end_attempt(dial);
    if (dial->lookup != NULL) {
        dial->lookup->dial = NULL;
        (void)uv_cancel((uv_req_t *)&dial->lookup->request); /* too late where a thread is at it */
    }
    uv_close((uv_handle_t *)&dial->timer, on_timer_closed);
}

static void report(struct dial *dial, int fd)
{
    dial_done *done = dial->done;
    void *owner = dial->owner;
    dial_cancel(dial);
    done(owner, fd);
}

/* ---- One address ----------------------------------------------------------------------------------------------- */

static void set_options(int fd, sa_family_t family)
{
    static const struct {
        int level, name, value;
    } options[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
#ifdef TCP_KEEPIDLE
        { IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES },
#endif
    };
    for (size_t i = 0; family != AF_UNIX && i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value); /* failing: later, not wrong */
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct attempt *attempt = poll->data;
    struct dial *dial = attempt->dial;
    int error = 0;
    socklen_t len = sizeof error;
    (void)events;
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (status == 0 && error == 0) {
        int fd = attempt->fd;
        attempt->fd = -1;
        report(dial, fd);
        return;
    }
    dial->error =
        error == 0 ? status : uv_translate_sys_error(error); /* libuv says EBADF whatever went wrong */
    end_attempt(dial);
    try_next(dial);
}

/* Begin to connect; 0 or a libuv error, after which nothing is left. */
static int begin_attempt(struct dial *dial, const struct address *address)
{
    int result = UV_ENOMEM;
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (attempt == NULL)
        return result;
    attempt->dial = dial;
    attempt->fd = socket(address->socket.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (attempt->fd < 0) {
        result = uv_translate_sys_error(errno);
        goto free_attempt;
    }
    set_options(attempt->fd, address->socket.any.sa_family);
    if (connect(attempt->fd, &address->socket.any, address->len) != 0 && errno != EINPROGRESS) {
        result = uv_translate_sys_error(errno);
        goto close_socket;
    }
    result = uv_poll_init(dial->loop, &attempt->poll, attempt->fd);
    if (result != 0)
        goto close_socket;
    attempt->poll.data = attempt;
    dial->attempt = attempt;
    result = uv_poll_start(&attempt->poll, UV_WRITABLE, on_writable);
    if (result != 0)
        end_attempt(dial);
    return result;

close_socket:
    (void)close(attempt->fd);
free_attempt:
    free(attempt);
    return result;
}

static void on_timer(uv_timer_t *timer);

/* The next address that can be tried, or the end. Called from the loop only. */
static void try_next(struct dial *dial)
{
    while (dial->next < dial->count) {
        uint64_t now = uv_now(dial->loop), left = dial->deadline > now ? dial->deadline - now : 0;
        uint64_t part = left / (dial->count - dial->next);
        int result = begin_attempt(dial, &dial->addresses[dial->next++]);
        if (result == 0) {
            (void)uv_timer_start(&dial->timer, on_timer, part, 0);
            return;
        }
        dial->error = result;
    }
    report(dial, dial->error);
}

/* ---- Addresses ------------------------------------------------------------------------------------------------- */

static void add_path(struct dial *dial)
{
    struct address *address = &dial->addresses[0];
    size_t len = strlen(dial->host);
    dial->error = UV_ENAMETOOLONG;
    if (len >= sizeof address->socket.local.sun_path)
        return;
    address->socket.local.sun_family = AF_UNIX;
    memcpy(address->socket.local.sun_path, dial->host, len + 1);
    address->len = sizeof address->socket.local;
    dial->count = 1;
}

static bool add_numeric(struct dial *dial)
{
    struct address *address = &dial->addresses[0];
    if (inet_pton(AF_INET, dial->host, &address->socket.v4.sin_addr) == 1) {
        address->socket.v4.sin_family = AF_INET;
        address->socket.v4.sin_port = htons(dial->port);
        address->len = sizeof address->socket.v4;
    } else if (inet_pton(AF_INET6, dial->host, &address->socket.v6.sin6_addr) == 1) {
        address->socket.v6.sin6_family = AF_INET6;
        address->socket.v6.sin6_port = htons(dial->port);
        address->len = sizeof address->socket.v6;
    } else {
        return false;
    }
    dial->count = 1;
    return true;
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct lookup *lookup = request->data;
    struct dial *dial = lookup->dial;
    if (dial != NULL) {
        dial->lookup = NULL;
        dial->error = status != 0 ? status : UV_EAI_NONAME;
        for (const struct addrinfo *at = found; at != NULL && dial->count < DIAL_ADDRESSES_MAX;
             at = at->ai_next) {
            struct address *address = &dial->addresses[dial->count];
            if (at->ai_addrlen > sizeof address->socket)
                continue;
            memcpy(&address->socket, at->ai_addr, at->ai_addrlen);
            address->len = at->ai_addrlen;
            dial->count++;
        }
    }
    uv_freeaddrinfo(found);
    free(lookup);
    if (dial != NULL)
        try_next(dial);
}

static int look_up(struct dial *dial)
{
    char service[8];
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL)
        return UV_ENOMEM;
    lookup->dial = dial;
    lookup->request.data = lookup;
    (void)snprintf(service, sizeof service, "%u", (unsigned)dial->port);
    int result = uv_getaddrinfo(dial->loop, &lookup->request, on_found, dial->host, service, &hints);
    if (result != 0)
        free(lookup);
    else
        dial->lookup = lookup;
    return result;
}

static void begin(struct dial *dial)
{
    dial->has_begun = true;
    if (dial->port == 0) {
        add_path(dial);
        try_next(dial);
        return;
    }
    if (add_numeric(dial)) {
        try_next(dial);
        return;
    }
    int result = look_up(dial);
    if (result != 0) {
        report(dial, result);
        return;
    }
    uint64_t now = uv_now(dial->loop);
    (void)uv_timer_start(&dial->timer, on_timer, dial->deadline > now ? dial->deadline - now : 0, 0);
}

/* The first time: begin. Later: this address, or the look-up, has had its time. */
static void on_timer(uv_timer_t *timer)
{
    struct dial *dial = timer->data;
    if (!dial->has_begun) {
        begin(dial);
        return;
    }
    dial->error = UV_ETIMEDOUT;
    end_attempt(dial);
    try_next(dial);
}

struct dial *dial_open(uv_loop_t *loop, const char *host, uint16_t port, unsigned timeout_ms, dial_done *done,
                       void *owner)
{
    struct dial *dial = calloc(1, sizeof *dial);
    if (dial == NULL)
        return NULL;
    dial->loop = loop;
    dial->host = host;
    dial->port = port;
    dial->deadline = uv_now(loop) + timeout_ms;
    dial->done = done;
    dial->owner = owner;
    (void)uv_timer_init(loop, &dial->timer); /* always 0, and so is starting it */
    dial->timer.data = dial;
    (void)uv_timer_start(&dial->timer, on_timer, 0, 0);
    return dial;
}
