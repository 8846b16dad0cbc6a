// SPDX-License-Identifier: Apache-2.0
/* notify.c - see notify.h. */
#include "net/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "net/log.h"
#include "net/worker.h"

/* A manager that does not read must not stop us: after this the message is lost. */
#define PATIENCE_MS 500

/* Longest line of status: `systemctl status` shows it on one. */
#define STATUS_MAX 1024

/* Looks at the workers in the time that the manager waits: one to ask, one to hear, and as many again to spare. */
#define LOOKS 4

/* ---- The socket ------------------------------------------------------------------------------------------------------- */

/* "/path" or "@name", which is in the abstract namespace and ends with its length. */
static bool address_of(const char *text, struct sockaddr_un *address, socklen_t *len)
{
    size_t text_len = strlen(text);
    if ((text[0] != '/' && text[0] != '@') || text_len < 2 || text_len >= sizeof address->sun_path)
        return false;
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path, text, text_len);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + text_len + (text[0] == '/'));
    if (text[0] == '@')
        address->sun_path[0] = '\0';
    return true;
}

static void ignore(const char *variable, const char *value, const char *why)
{
    char shown[LOG_QUOTED_MAX], said[LOG_QUOTED_MAX];
    log_event(LOG_WARN, "notify_ignored", "variable=%s value=%s reason=%s", variable, log_quote(value, shown),
              log_quote(why, said));
}

static int connect_to(const char *text)
{
    struct sockaddr_un address;
    socklen_t len;
    const struct timeval patience = { .tv_usec = PATIENCE_MS * 1000 };
    if (!address_of(text, &address, &len)) {
        ignore("NOTIFY_SOCKET", text, "it is no path of a Unix socket and no @NAME");
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
                         sizeof patience); /* failing: it may wait longer */
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, len) == 0)
        return fd;
    ignore("NOTIFY_SOCKET", text, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* How often the manager wants to hear of us, in us; 0: it does not, or it is meant for another process. */
static uint64_t watchdog_us(void)
{
    uint64_t us, pid;
    const char *wanted = getenv("WATCHDOG_USEC"), *whose = getenv("WATCHDOG_PID");
    if (wanted == NULL)
        return 0;
    if (whose != NULL && (!slice_to_u64(slice_of(whose), UINT32_MAX, &pid) || pid != (uint64_t)getpid()))
        return 0;
    if (slice_to_u64(slice_of(wanted), UINT64_MAX / 2, &us) && us > 0)
        return us;
    ignore("WATCHDOG_USEC", wanted, "it is no number of microseconds");
    return 0;
}

void notify_open(struct notify *notify, struct server *server)
{
    const char *text = getenv("NOTIFY_SOCKET");
    *notify = (struct notify){ .server = server, .fd = text == NULL ? -1 : connect_to(text) };
    uint64_t us = notify->fd < 0 ? 0 : watchdog_us();
    notify->watchdog_ms = us == 0 ? 0 : us < 1000 * LOOKS ? 1 : us / 1000 / LOOKS;
    (void)unsetenv("NOTIFY_SOCKET"); /* these three cannot fail with these names */
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *notify)
{
    if (notify->fd >= 0)
        (void)close(notify->fd);
    notify->fd = -1;
}

static void tell(const struct notify *notify, const char *words, size_t len)
{
    char said[LOG_QUOTED_MAX];
    if (notify->fd < 0 || send(notify->fd, words, len, MSG_NOSIGNAL) >= 0)
        return;
    log_event(LOG_WARN, "notify_failed", "reason=%s", log_quote(strerror(errno), said));
}

/* ---- What is told ------------------------------------------------------------------------------------------------------ */

/* `state`, and a status: one line, whatever stands in it. */
static void tell_status(const struct notify *notify, const char *state, const char *status)
{
    char words[STATUS_MAX + 64];
    int len = snprintf(words, sizeof words, "%s\nSTATUS=%.*s\n", state, STATUS_MAX, status);
    for (int i = (int)strlen(state) + 1; i < len - 1; i++)
        if ((unsigned char)words[i] < ' ')
            words[i] = ' ';
    tell(notify, words, (size_t)len);
}

void notify_door(struct notify *notify, const char *door, const char *address)
{
    size_t len = strlen(notify->doors), room = sizeof notify->doors - len;
    int added = snprintf(notify->doors + len, room, "%s%s %s", len == 0 ? "" : ", ", door, address);
    if (added < 0 || (size_t)added >= room)
        notify->doors[len] = '\0'; /* the log has them all */
}

/* On the main thread, which alone puts editions in force once they are built. */
void notify_ready(struct notify *notify)
{
    const struct edition *edition = notify->server->edition;
    char status[STATUS_MAX + 1], failure[RELOAD_FAILURE_MAX + 32] = "",
                                                              tls_failure[RELOAD_FAILURE_MAX + 32] = "";
    bool has_failed = reload_failure(&notify->server->reload, failure, sizeof failure);
    bool has_tls_failed = reload_tls_failure(&notify->server->reload, tls_failure, sizeof tls_failure);
    (void)snprintf(
        status, sizeof status, "Serving %zu limits (contract %s) on %s%s%s%s%s", edition->limit_count,
        edition->version, notify->doors, has_failed ? "; contract: last reload failed at " : "", failure,
        has_tls_failed ? "; tls: last reload failed at " : "", tls_failure); /* cut where it is too long */
    tell_status(notify, "READY=1", status);
}

void notify_reloading(struct notify *notify)
{
    char words[96];
    int len = snprintf(words, sizeof words, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reloading\n",
                       weir_now() / WEIR_MICROSECOND);
    tell(notify, words, (size_t)len);
}

void notify_stopping(struct notify *notify)
{
    if (notify->has_timer)
        uv_close((uv_handle_t *)&notify->timer, NULL);
    notify->has_timer = false;
    tell_status(notify, "STOPPING=1", "Draining: what is pending is finished");
}

/* ---- Signs of life ----------------------------------------------------------------------------------------------------- */

/* The first worker that has not answered the last question; none: their number. */
static unsigned silent_worker(const struct notify *notify)
{
    const struct server *server = notify->server;
    unsigned i = 0;
    while (i < server->worker_count
           && __atomic_load_n(&server->workers[i].pulse, __ATOMIC_RELAXED) == notify->asked)
        i++;
    return i;
}

static void on_look(uv_timer_t *timer)
{
    struct notify *notify = timer->data;
    struct server *server = notify->server;
    unsigned silent = silent_worker(notify);
    if (silent < server->worker_count) {
        if (!notify->was_stuck)
            log_event(LOG_WARN, "worker_silent", "worker=%u ms=%" PRIu64, silent, notify->watchdog_ms);
        notify->was_stuck = true;
        return; /* asked it is already; the manager's patience goes on running out */
    }
    notify->was_stuck = false;
    tell(notify, "WATCHDOG=1\n", strlen("WATCHDOG=1\n"));
    notify->asked++;
    __atomic_store_n(&server->pulse, notify->asked, __ATOMIC_RELAXED); /* the wake-up carries it */
    for (unsigned i = 0; i < server->worker_count; i++)
        worker_wake(&server->workers[i]);
}

int notify_start(struct notify *notify, uv_loop_t *loop)
{
    if (notify->watchdog_ms == 0)
        return 0;
    (void)uv_timer_init(loop, &notify->timer); /* cannot fail */
    notify->timer.data = notify;
    notify->has_timer = true;
    return uv_timer_start(&notify->timer, on_look, 0, notify->watchdog_ms);
}
