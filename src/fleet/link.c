// SPDX-License-Identifier: Apache-2.0
/*
 * link.c - the life of a link: dials, greets, sends, looks after its health, breaks, pauses, dials again.
 *
 * What is sent in a turn of the loop leaves in the next one's idle phase, before the loop waits: an idle handle that is
 * active only while something is queued also keeps it from waiting.
 *
 * A connection ends in link_drop() alone. First everything of it is over (state, generation), then its commands are
 * done, then down() is called: so each of these may send (and is refused), abandon, reset or close.
 */
#include "fleet/link.h"

#include <assert.h>
#include <stdlib.h>

#include "fleet/link_inside.h"

/* An outbox that once held more is not kept. */
#define OUTBOX_KEPT ((size_t)64 << 10)
#define OUTBOX_FIRST ((size_t)4 << 10)

/* Looks at the health of a link after which a silence is too long. */
#define QUIET_LOOKS_MAX 3

static void on_timer(uv_timer_t *timer);

/* ---- Sending --------------------------------------------------------------------------------------------------- */

static bool reserve(struct outbox *out, size_t len)
{
    size_t cap = out->cap == 0 ? OUTBOX_FIRST : out->cap;
    while (cap - out->len < len)
        cap *= 2; /* len is at most LINK_BYTES_MAX */
    if (cap == out->cap)
        return true;
    char *larger = realloc(out->at, cap);
    if (larger == NULL)
        return false;
    out->at = larger;
    out->cap = cap;
    return true;
}

/* Give the stream what waits. While the socket has not taken what it was given before, the rest waits here. */
static void flush(struct link *link)
{
    struct outbox *out = &link->out;
    (void)uv_idle_stop(&link->flusher); /* always 0 */
    if (!link->has_stream || out->len == 0 || stream_queued(&link->stream) > 0)
        return;
    link->ring.left_before = link->ring.tail;
    bool is_sent = stream_send(&link->stream, out->at, out->len, LINK_BYTES_MAX);
    out->len = 0;
    if (out->cap > OUTBOX_KEPT) {
        free(out->at);
        *out = (struct outbox){ 0 };
    }
    if (!is_sent)
        link_drop(link, SLICE("the connection broke while something was sent"), false);
}

static void on_flush(uv_idle_t *flusher)
{
    flush(flusher->data);
}

bool link_queue(struct link *link, struct slice bytes)
{
    size_t waiting = link->out.len + stream_queued(&link->stream);
    if (bytes.len > LINK_BYTES_MAX || waiting > LINK_BYTES_MAX - bytes.len || !reserve(&link->out, bytes.len))
        return false;
    if (bytes.len > 0)
        memcpy(link->out.at + link->out.len, bytes.at, bytes.len);
    link->out.len += bytes.len;
    (void)uv_idle_start(&link->flusher, on_flush); /* always 0 */
    return true;
}

static bool send_as(struct link *link, struct slice bytes, unsigned replies, struct link_command *command,
                    enum ring_kind kind)
{
    assert(replies > 0);
    if (link->state != LINK_UP)
        return false;
    if (!ring_push(&link->ring, (struct ring_entry){ command, replies, kind }))
        return false;
    if (link_queue(link, bytes))
        return true;
    link->ring.tail--; /* it was the last */
    return false;
}

bool link_send(struct link *link, struct slice bytes, unsigned replies, struct link_command *command)
{
    return send_as(link, bytes, replies, command, RING_COMMAND);
}

bool link_subscribe(struct link *link, struct slice bytes, struct link_command *command)
{
    return send_as(link, bytes, 1, command, RING_SUBSCRIBE);
}

void link_abandon(struct link *link, struct link_command *command)
{
    ring_abandon(&link->ring, command);
}

/* ---- The end of a connection ------------------------------------------------------------------------------------- */

static void fail_commands(struct link *link)
{
    const struct ring_entry *head;
    while ((head = ring_head(&link->ring)) != NULL) {
        struct link_command *command = head->command;
        bool may_have_left = link->ring.head < link->ring.left_before;
        ring_pop(&link->ring);
        if (command != NULL)
            command->done(command, may_have_left ? CARRIER_LOST : CARRIER_REFUSED, SLICE(""));
    }
}

/* Whatever there is of a connection goes. Events of its commands come. */
static void disconnect(struct link *link, enum link_state state)
{
    link->state = state;
    link->generation++;
    link->out.len = 0;
    (void)uv_timer_stop(&link->timer); /* both always 0 */
    (void)uv_idle_stop(&link->flusher);
    dial_cancel(link->dial);
    link->dial = NULL;
    if (link->has_stream)
        stream_close(&link->stream);
    fail_commands(link);
}

static uint64_t draw(struct link *link)
{
    uint64_t z = link->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* How long to wait before the next attempt, in ms: none before the first. */
static uint64_t pause_of(struct link *link)
{
    uint64_t pause = LINK_PAUSE_MS;
    for (unsigned i = 1; i < link->attempts && pause < LINK_PAUSE_MAX_MS; i++)
        pause *= 2;
    if (pause > LINK_PAUSE_MAX_MS)
        pause = LINK_PAUSE_MAX_MS;
    return link->attempts == 0 ? 0 : pause / 2 + draw(link) % (pause / 2 + 1);
}

static void plan(struct link *link)
{
    uint64_t pause = pause_of(link);
    if (link->attempts < UINT8_MAX)
        link->attempts++;
    (void)uv_timer_start(&link->timer, on_timer, pause, 0); /* always 0 */
}

void link_drop(struct link *link, struct slice why, bool is_lasting)
{
    if (link->state == LINK_PAUSED || link->state == LINK_CLOSED)
        return;
    size_t len = why.len < LINK_WHY_MAX ? why.len : LINK_WHY_MAX - 1;
    memmove(link->why, why.at, len); /* it may be the last one again */
    link->why[len] = '\0';
    if (link->state == LINK_UP && uv_now(link->loop) - link->up_at >= LINK_STEADY_MS)
        link->attempts = 0;
    if (is_lasting)
        link->attempts = UINT8_MAX;
    disconnect(link, LINK_PAUSED);
    if (link->state == LINK_PAUSED)
        link->events->down(link, link->why);
    if (link->state == LINK_PAUSED && !link->has_stream)
        plan(link); /* else when its handle is gone */
}

void link_reset(struct link *link, const char *why)
{
    link_drop(link, slice_of(why), false);
}

/* ---- The stream ------------------------------------------------------------------------------------------------ */

static struct link *link_of(struct stream *stream)
{
    return (struct link *)((char *)stream - offsetof(struct link, stream));
}

static void on_room(struct stream *stream, char **at, size_t *size)
{
    link_room(link_of(stream), at, size);
}

static void on_read(struct stream *stream, size_t len)
{
    link_read(link_of(stream), len);
}

static void on_sent(struct stream *stream)
{
    flush(link_of(stream));
}

/* What the system says, and what it may come from. */
static const char *end_of(const struct link *link, int status)
{
    bool may_want_tls = link->state == LINK_GREETING && link->greeting.at == 0 && link->target->tls == NULL
                        && link->target->port != 0;
    if ((status == 0 || status == UV_ECONNRESET) && may_want_tls)
        return "it closed the connection at the first word: does this port want TLS? Then write rediss://";
    return status == 0 ? "it closed the connection" : uv_strerror(status);
}

static void on_ended(struct stream *stream, int status)
{
    struct link *link = link_of(stream);
    const char *why = stream_why(stream);
    bool is_certificate = status == UV_EPROTO && link->state != LINK_UP; /* or what else TLS does not forgive */
    /* Some proxies close on a command that they do not know: the next time without HELLO, the time after that with it. */
    link->prefers_resp2 = link->state == LINK_GREETING && link->greeting.at == 0 && !link->prefers_resp2
                          && !is_certificate && !link->target->wants_pushes;
    if (why == NULL)
        why = end_of(link, status);
    link_drop(link, slice_of(why), is_certificate);
}

static void release(struct link *link)
{
    if (--link->handles > 0)
        return;
    if (link->events->closed != NULL)
        link->events->closed(link);
    ring_free(&link->ring);
    free(link->out.at);
    free(link->in.at);
    free(link);
}

static void on_stream_closed(struct stream *stream)
{
    struct link *link = link_of(stream);
    link->has_stream = false;
    if (link->state == LINK_PAUSED)
        plan(link);
    release(link);
}

static unsigned dial_limit(const struct link_target *target)
{
    return target->dial_ms == 0 ? LINK_DIAL_MS : target->dial_ms;
}

/* ---- Up --------------------------------------------------------------------------------------------------------- */

static void greet(struct link *link)
{
    link->state = LINK_GREETING;
    if (!link_greet(link))
        link_drop(link, SLICE("memory is out"), false);
}

static void on_secured(struct stream *stream)
{
    greet(link_of(stream));
}

static const struct stream_events stream_events = { .room = on_room,
                                                    .read = on_read,
                                                    .ended = on_ended,
                                                    .sent = on_sent,
                                                    .secured = on_secured,
                                                    .closed = on_stream_closed };

/* A TLS handshake has what is left of the time until it is up: the link's timer, which began before, comes first. */
static int open_stream(struct link *link, int fd)
{
    const struct link_target *target = link->target;
    bool is_unix = target->port == 0;
    if (target->tls == NULL)
        return stream_open(&link->stream, link->loop, fd, is_unix, &stream_events);
    return stream_open_tls(&link->stream, link->loop, fd, is_unix, &stream_events, target->tls, target->host,
                           dial_limit(target));
}

static const char *dial_fault(int fault)
{
    switch (fault) {
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_FAIL:
        return "its name cannot be resolved: is the host right?";
    case UV_EAI_AGAIN:
        return "its name cannot be resolved now: no name server answers";
    default:
        return uv_strerror(fault);
    }
}

static void on_dialled(void *owner, int fd)
{
    struct link *link = owner;
    link->dial = NULL;
    if (fd < 0) {
        link_drop(link, slice_of(dial_fault(fd)), false);
        return;
    }
    link->in.from = link->in.to = 0;
    link->in.parser = RESP_REPLY_START;
    link->has_stream = true;
    link->handles++;
    link->state = LINK_SECURING;
    int result = open_stream(link, fd);
    if (result != 0)
        link_drop(link, slice_of(uv_strerror(result)), false);
    else if (link->target->tls == NULL)
        greet(link);
}

static void dial(struct link *link)
{
    const struct link_target *target = link->target;
    unsigned limit = dial_limit(target);
    link->state = LINK_DIALLING;
    link->has_subscribed = false;
    (void)uv_timer_start(&link->timer, on_timer, limit, 0); /* always 0 */
    link->dial = dial_open(link->loop, target->host, target->port, limit, on_dialled, link);
    if (link->dial == NULL)
        link_drop(link, SLICE("memory is out"), false);
}

void link_rise(struct link *link)
{
    unsigned quiet = link->target->quiet_ms == 0 ? LINK_QUIET_MS : link->target->quiet_ms;
    link->state = LINK_UP;
    link->up_at = uv_now(link->loop);
    link->quiet_looks = 0;
    (void)uv_timer_start(&link->timer, on_timer, quiet, quiet); /* always 0 */
    link->events->up(link);
}

/* Once in a while: ask when nothing was heard, and give up when nothing is heard after that either. */
static void look_at_health(struct link *link)
{
    link->quiet_looks = link->was_heard ? 0 : link->quiet_looks + 1;
    link->was_heard = false;
    if (link->quiet_looks >= QUIET_LOOKS_MAX)
        link_drop(link, SLICE("it has not answered for too long"), false);
    else if (link->quiet_looks == 1)
        (void)send_as(link, SLICE("*1\r\n$4\r\nPING\r\n"), 1, NULL,
                      RING_PING); /* else enough waits to be answered */
}

static void on_timer(uv_timer_t *timer)
{
    struct link *link = timer->data;
    switch (link->state) {
    case LINK_PAUSED:
        dial(link);
        break;
    case LINK_UP:
        look_at_health(link);
        break;
    case LINK_DIALLING:
        link_drop(link, SLICE("it could not be reached in time"), false);
        break;
    case LINK_SECURING:
        link_drop(link, SLICE("the TLS handshake took too long: does this port speak TLS?"), false);
        break;
    case LINK_GREETING:
        link_drop(link, SLICE("it did not answer the greeting in time"), false);
        break;
    case LINK_CLOSED:
        break;
    }
}

/* ---- Its life --------------------------------------------------------------------------------------------------- */

int link_open(struct link **out, uv_loop_t *loop, const struct link_target *target,
              const struct link_events *events, void *owner, uint64_t seed)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return WEIR_ERR_MEMORY;
    link->loop = loop;
    link->target = target;
    link->events = events;
    link->owner = owner;
    link->random = seed;
    link->handles = 2;
    (void)uv_timer_init(loop, &link->timer); /* both always 0 */
    (void)uv_idle_init(loop, &link->flusher);
    link->timer.data = link->flusher.data = link;
    *out = link;
    plan(link);
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    release(handle->data);
}

void link_close(struct link *link)
{
    if (link->state == LINK_CLOSED)
        return;
    disconnect(link, LINK_CLOSED);
    uv_close((uv_handle_t *)&link->timer, on_handle_closed);
    uv_close((uv_handle_t *)&link->flusher, on_handle_closed);
}

void *link_owner(const struct link *link)
{
    return link->owner;
}

bool link_is_up(const struct link *link)
{
    return link->state == LINK_UP;
}

enum resp_version link_version(const struct link *link)
{
    return link->version;
}
