// SPDX-License-Identifier: Apache-2.0
/* listener.c - binds, listens and accepts; see listener.h. */
#include "io/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Connections that wait in the kernel while the loop is busy; the kernel lowers it to net.core.somaxconn. */
#define BACKLOG 4096

/* Most sockets taken at one wake-up, so that a flood of connections does not starve the loop's other work. */
#define ACCEPTS_PER_TURN 64

/* How long accepting pauses when descriptors or connections run out. */
#define PAUSE_MS 100

/* ---- Opening --------------------------------------------------------------------------------------------- */

/* Whether a Unix socket's path is left over: nobody accepts there. */
static bool is_abandoned(const struct endpoint *address)
{
    struct stat status;
    if (lstat(address->socket.local.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool is_refused = connect(fd, &address->socket.any, address->len) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    return is_refused;
}

static int bind_unix(struct listener *listener, mode_t mode)
{
    const struct endpoint *address = &listener->address;
    const char *path = address->socket.local.sun_path;
    if (is_abandoned(address))
        (void)unlink(path); /* a failure shows in bind() */
    /* The mode holds from the first instant: a socket narrowed afterwards would be reachable before that. */
    mode_t before = umask(0);
    (void)umask(mode == 0 ? before : ~mode & 0777);
    int result = bind(listener->fd, &address->socket.any, address->len) == 0 ? 0 : -errno;
    (void)umask(before);
    listener->owns_path = result == 0;
    return result;
}

static int open_bound(struct listener *listener, mode_t mode)
{
    const struct endpoint *address = &listener->address;
    listener->fd = socket(address->socket.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return -errno;
    if (address->kind == ENDPOINT_UNIX)
        return bind_unix(listener, mode);
    int one = 1;
    (void)setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* failing: a slower restart */
    return bind(listener->fd, &address->socket.any, address->len) == 0 ? 0 : -errno;
}

/* Whoever passed a socket that listens has chosen its backlog. */
static bool is_listening(int fd)
{
    int accepts = 0;
    socklen_t len = sizeof accepts;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 && accepts != 0;
}

/* Take over a socket that whoever started us has bound. */
static int open_inherited(struct listener *listener, const char **why)
{
    int type = 0;
    socklen_t len = sizeof type;
    if (getsockopt(listener->address.fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0)
        return -errno;
    if (type != SOCK_STREAM) {
        *why = "the descriptor is no stream socket";
        return -EINVAL;
    }
    listener->fd = listener->address.fd;
    if (fcntl(listener->fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(listener->fd, F_SETFL, O_NONBLOCK) != 0)
        return -errno;
    return 0;
}

int listener_open(struct listener *listener, const char *text, mode_t mode, const char **why)
{
    memset(listener, 0, sizeof *listener);
    listener->fd = -1;
    if (!endpoint_parse(text, &listener->address, why))
        return -EINVAL;
    *why = NULL;

    int result =
        listener->address.kind == ENDPOINT_FD ? open_inherited(listener, why) : open_bound(listener, mode);
    if (result == 0 && !is_listening(listener->fd) && listen(listener->fd, BACKLOG) != 0)
        result = -errno;
    if (result != 0) {
        listener_close(listener);
        return result;
    }
    struct endpoint *bound = &listener->address;
    bound->len = sizeof bound->socket;
    if (bound->kind != ENDPOINT_UNIX && getsockname(listener->fd, &bound->socket.any, &bound->len) != 0)
        bound->socket.any.sa_family = AF_UNSPEC;
    endpoint_format(bound, listener->name);
    return 0;
}

void listener_close(struct listener *listener)
{
    if (listener->fd >= 0)
        (void)close(listener->fd);
    listener->fd = -1;
    if (listener->owns_path)
        (void)unlink(listener->address.socket.local.sun_path);
    listener->owns_path = false;
}

/* ---- Accepting ------------------------------------------------------------------------------------------- */

static void on_readable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
    struct listener *listener = timer->data;
    (void)uv_poll_start(&listener->poll, UV_READABLE, on_readable); /* fails only while it closes */
}

static void pause_accepting(struct listener *listener)
{
    (void)uv_poll_stop(&listener->poll);
    (void)uv_timer_start(&listener->pause, on_pause_over, PAUSE_MS, 0);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)events;
    for (int i = 0; status == 0 && i < ACCEPTS_PER_TURN; i++) {
        if (!listener->has_room(listener)) {
            pause_accepting(listener);
            return;
        }
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            pause_accepting(listener);
            return;
        }
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (fd >= 0) /* else: the caller went away while it waited; look at the next one */
            listener->accepted(listener, fd);
    }
}

int listener_start(struct listener *listener, uv_loop_t *loop, listener_accepted *accepted,
                   listener_has_room *has_room, void *context)
{
    listener->accepted = accepted;
    listener->has_room = has_room;
    listener->context = context;
    int result = uv_poll_init(loop, &listener->poll, listener->fd);
    if (result != 0)
        return result;
    (void)uv_timer_init(loop, &listener->pause); /* cannot fail */
    listener->poll.data = listener;
    listener->pause.data = listener;
    return uv_poll_start(&listener->poll, UV_READABLE, on_readable);
}

static void on_poll_closed(uv_handle_t *handle)
{
    listener_close(handle->data);
}

void listener_stop(struct listener *listener)
{
    uv_close((uv_handle_t *)&listener->poll, on_poll_closed);
    uv_close((uv_handle_t *)&listener->pause, NULL);
}
