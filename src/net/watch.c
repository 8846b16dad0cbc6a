// SPDX-License-Identifier: Apache-2.0
/* watch.c - events of the folder are hints; what stat() says of the path decides. See watch.h. */
#include "net/watch.h"

#include <string.h>
#include <sys/stat.h>

#include "net/log.h"

static struct watch_print look(const struct watch *watch)
{
    struct stat status;
    if (stat(watch->path, &status) != 0)
        return (struct watch_print){ .is_there = false };
    return (struct watch_print){ .device = status.st_dev,
                                 .inode = status.st_ino,
                                 .size = (uint64_t)status.st_size,
                                 .modified_ns =
                                     status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec,
                                 .changed_ns =
                                     status.st_ctim.tv_sec * INT64_C(1000000000) + status.st_ctim.tv_nsec,
                                 .is_there = true };
}

static bool same(const struct watch_print *x, const struct watch_print *y)
{
    return x->is_there == y->is_there && x->device == y->device && x->inode == y->inode && x->size == y->size
           && x->modified_ns == y->modified_ns && x->changed_ns == y->changed_ns;
}

static void on_look(uv_timer_t *timer)
{
    struct watch *watch = timer->data;
    struct watch_print now = look(watch);
    bool is_settled = same(&now, &watch->seen);
    watch->seen = now;
    if (!is_settled && ++watch->looks < WATCH_LOOKS_MAX)
        return;
    (void)uv_timer_stop(timer); /* always 0 */
    watch->reported = now;
    watch->changed(watch->context);
}

static void look_closely(struct watch *watch)
{
    if (uv_is_active((uv_handle_t *)&watch->timer))
        return;
    watch->looks = 0;
    watch->seen = look(watch);
    (void)uv_timer_start(&watch->timer, on_look, WATCH_LOOK_MS, WATCH_LOOK_MS); /* fails only while closing */
}

/* Whether a change of this entry of the folder may change what the path leads to. */
static bool concerns(const struct watch *watch, const char *entry)
{
    return entry == NULL || strcmp(entry, watch->name) == 0 || strncmp(entry, "..", 2) == 0;
}

static void on_event(uv_fs_event_t *events, const char *entry, int happened, int status)
{
    struct watch *watch = events->data;
    (void)happened;
    if (status == 0 && concerns(watch, entry))
        look_closely(watch);
}

/* The folder of the path, and where its last part begins. */
static bool split(struct watch *watch)
{
    const char *slash = strrchr(watch->path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - watch->path);
    if (len >= sizeof watch->folder)
        return false;
    watch->name = slash == NULL ? watch->path : slash + 1;
    if (slash == NULL) {
        strcpy(watch->folder, ".");
        return true;
    }
    memcpy(watch->folder, len == 0 ? "/" : watch->path, len == 0 ? 1 : len);
    watch->folder[len == 0 ? 1 : len] = '\0';
    return true;
}

int watch_start(struct watch *watch, uv_loop_t *loop, const char *path, void (*changed)(void *context),
                void *context)
{
    *watch = (struct watch){ .path = path, .changed = changed, .context = context };
    int result = uv_fs_event_init(loop, &watch->events);
    if (result != 0)
        return result;
    (void)uv_timer_init(loop, &watch->timer); /* cannot fail */
    watch->events.data = watch;
    watch->timer.data = watch;
    watch->is_on = true;
    result = split(watch) ? uv_fs_event_start(&watch->events, on_event, watch->folder, 0) : UV_ENAMETOOLONG;
    char quoted[LOG_QUOTED_MAX];
    if (result != 0)
        log_event(LOG_WARN, "not_listening", "folder=%s error=%s", log_quote(watch->folder, quoted),
                  uv_err_name(result));
    return 0;
}

void watch_second(struct watch *watch)
{
    if (!watch->is_on)
        return;
    struct watch_print now = look(watch);
    if (!same(&now, &watch->reported))
        look_closely(watch);
}

void watch_stop(struct watch *watch)
{
    if (!watch->is_on)
        return;
    watch->is_on = false;
    uv_close((uv_handle_t *)&watch->events, NULL);
    uv_close((uv_handle_t *)&watch->timer, NULL);
}
