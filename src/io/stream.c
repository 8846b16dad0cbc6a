// SPDX-License-Identifier: Apache-2.0
/* stream.c - libuv's TCP and pipe handles behind one set of events; see stream.h. With TLS: stream_tls.c. */
#include "io/stream.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/stream_tls.h"

/* What the socket did not take at once. */
struct unsent {
    uv_write_t request;
    size_t len;
    char bytes[];
};

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct stream *stream = handle->data;
    char *at = NULL;
    size_t size = 0;
    (void)suggested;
    if (stream->secure != NULL)
        secure_room(&at, &size);
    else
        stream->events->room(stream, &at, &size);
    *out = uv_buf_init(at, (unsigned)size);
}

static void on_read(uv_stream_t *handle, ssize_t len, const uv_buf_t *buffer)
{
    struct stream *stream = handle->data;
    if (stream->secure != NULL)
        secure_read(stream, buffer->base, len);
    else if (len > 0)
        stream->events->read(stream, (size_t)len);
    else if (len < 0)
        stream->events->ended(stream, len == UV_EOF ? 0 : (int)len);
}

static void on_closed(uv_handle_t *handle)
{
    struct stream *stream = handle->data;
    if (stream->secure == NULL)
        stream->events->closed(stream);
    else
        secure_close(stream); /* closed comes when its timer is gone, too */
}

int stream_read_start(struct stream *stream)
{
    return uv_read_start(&stream->uv.stream, on_room, on_read);
}

/* Take over the socket; 0 or a libuv error. */
static int adopt(struct stream *stream, uv_loop_t *loop, int fd, bool is_unix,
                 const struct stream_events *events)
{
    memset(stream, 0, sizeof *stream);
    stream->events = events;
    int result = is_unix ? uv_pipe_init(loop, &stream->uv.pipe, 0) : uv_tcp_init(loop, &stream->uv.tcp);
    assert(result == 0); /* neither asks the system for anything */
    stream->uv.handle.data = stream;
    result = is_unix ? uv_pipe_open(&stream->uv.pipe, fd) : uv_tcp_open(&stream->uv.tcp, fd);
    if (result != 0)
        (void)close(fd);
    if (result == 0 && !is_unix)
        (void)uv_tcp_nodelay(&stream->uv.tcp, 1); /* failing: late replies, not wrong ones */
    return result;
}

static int begin(struct stream *stream, int result)
{
    if (result == 0)
        result = stream_read_start(stream);
    stream->is_reading = result == 0;
    if (result != 0)
        stream_close(stream);
    return result;
}

int stream_open(struct stream *stream, uv_loop_t *loop, int fd, bool is_unix,
                const struct stream_events *events)
{
    return begin(stream, adopt(stream, loop, fd, is_unix, events));
}

int stream_open_tls(struct stream *stream, uv_loop_t *loop, int fd, bool is_unix,
                    const struct stream_events *events, const struct tls_context *context, const char *host,
                    unsigned timeout_ms)
{
    int result = adopt(stream, loop, fd, is_unix, events);
    if (result == 0)
        result = secure_open(stream, context, host, timeout_ms);
    return begin(stream, result);
}

void stream_speaks(struct stream *stream, const char *protocol)
{
    if (stream->secure != NULL)
        secure_speaks(stream, protocol);
}

int stream_secure(struct stream *stream, const struct tls_context *context, const char *protocol,
                  struct slice came, unsigned timeout_ms)
{
    assert(stream->secure == NULL && stream->is_reading);
    int result = secure_open(stream, context, NULL, timeout_ms);
    if (result != 0)
        return result;
    if (protocol != NULL)
        stream_speaks(stream, protocol);
    return secure_begin(stream, came);
}

size_t stream_subject(const struct stream *stream, char *out, size_t cap)
{
    return stream->secure == NULL ? 0 : secure_subject(stream, out, cap);
}

const char *stream_why(const struct stream *stream)
{
    return stream->secure == NULL ? NULL : secure_why(stream);
}

static void on_written(uv_write_t *request, int status)
{
    struct unsent *unsent = (struct unsent *)request;
    struct stream *stream = request->handle->data;
    stream->unsent -= unsent->len;
    free(unsent);
    if (stream->is_closing)
        return;
    if (status < 0 && stream->secure != NULL)
        secure_break(stream, status);
    else if (status < 0)
        stream->events->ended(stream, status);
    else if (stream->unsent == 0 && stream->owes_sent) {
        stream->owes_sent = false;
        stream->events->sent(stream);
    }
}

bool stream_put(struct stream *stream, const void *bytes, size_t len, size_t room)
{
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    int sent = stream->unsent == 0 ? uv_try_write(&stream->uv.stream, &buffer, 1) : UV_EAGAIN;
    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent < 0)
        return false;
    if ((size_t)sent == len)
        return true;

    size_t rest = len - (size_t)sent;
    struct unsent *unsent = rest <= room ? malloc(sizeof *unsent + rest) : NULL;
    if (unsent == NULL)
        return false;
    unsent->len = rest;
    memcpy(unsent->bytes, (const char *)bytes + sent, rest);
    buffer = uv_buf_init(unsent->bytes, (unsigned)rest);
    if (uv_write(&unsent->request, &stream->uv.stream, &buffer, 1, on_written) != 0) {
        free(unsent);
        return false;
    }
    stream->unsent += rest;
    return true;
}

bool stream_send(struct stream *stream, const void *bytes, size_t len, size_t room)
{
    if (len == 0 || stream->is_closing)
        return true;
    bool is_sent =
        stream->secure == NULL ? stream_put(stream, bytes, len, room) : secure_send(stream, bytes, len, room);
    stream->owes_sent = stream->unsent > 0;
    return is_sent;
}

size_t stream_queued(const struct stream *stream)
{
    return uv_stream_get_write_queue_size(&stream->uv.stream);
}

void stream_pause(struct stream *stream)
{
    if (stream->is_reading && !stream->is_closing && stream->secure == NULL)
        (void)uv_read_stop(&stream->uv.stream); /* always 0 */
    stream->is_reading = false;
    if (stream->secure != NULL)
        secure_pause(stream);
}

void stream_resume(struct stream *stream)
{
    if (stream->is_reading || stream->is_closing)
        return;
    if (stream->secure == NULL) {
        stream->is_reading = stream_read_start(stream) == 0;
        return;
    }
    stream->is_reading = true;
    secure_resume(stream);
}

bool stream_has_hung_up(const struct stream *stream)
{
    struct pollfd poll_fd = { .events = POLLRDHUP };
    if (stream->is_reading || stream->is_closing || uv_fileno(&stream->uv.handle, &poll_fd.fd) != 0)
        return false;
    return poll(&poll_fd, 1, 0) > 0; /* nothing else is asked for but errors */
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    (void)status; /* a peer that is gone already needs no goodbye */
    free(request);
}

void stream_finish(struct stream *stream)
{
    if (stream->secure != NULL && !stream->is_closing)
        secure_finish(stream);
    uv_shutdown_t *request = stream->is_closing ? NULL : malloc(sizeof *request);
    if (request != NULL && uv_shutdown(request, &stream->uv.stream, on_shutdown) != 0)
        free(request); /* not connected any more */
}

void stream_close(struct stream *stream)
{
    if (stream->is_closing)
        return;
    if (stream->secure != NULL && stream->unsent == 0)
        secure_finish(stream); /* what is queued is dropped, so that the end would stand in the middle of it */
    stream->is_closing = true;
    stream->is_reading = false;
    uv_close(&stream->uv.handle, on_closed);
}
