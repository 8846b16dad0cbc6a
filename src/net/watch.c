// SPDX-License-Identifier: Apache-2.0
/* watch.c - events of the folder are hints; what stat() says of the path decides. See watch.h. */
#include "net/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "net/log.h"

/* Most files that are looked at: as many as are read. */
#define INSIDE_MAX 1024

static uint64_t mix(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

/* Of one file: its name, and what it leads to. */
static uint64_t sum_of(int folder, const char *name)
{
    struct stat status;
    uint64_t sum = 1;
    for (const char *c = name; *c != '\0'; c++)
        sum = mix(sum, (unsigned char)*c);
    if (fstatat(folder, name, &status, 0) != 0)
        return sum;
    sum = mix(mix(mix(sum, status.st_dev), status.st_ino), (uint64_t)status.st_size);
    sum = mix(mix(sum, (uint64_t)status.st_mtim.tv_sec), (uint64_t)status.st_mtim.tv_nsec);
    return mix(mix(sum, (uint64_t)status.st_ctim.tv_sec), (uint64_t)status.st_ctim.tv_nsec);
}

/* In any order of its entries, so they are added up. */
static uint64_t look_inside(const char *path)
{
    uint64_t sum = 0;
    DIR *folder = opendir(path);
    for (int i = 0; folder != NULL && i < INSIDE_MAX; i++) {
        const struct dirent *entry = readdir(folder);
        if (entry == NULL)
            break;
        if (entry->d_name[0] != '.')
            sum += sum_of(dirfd(folder), entry->d_name);
    }
    if (folder != NULL)
        (void)closedir(folder); /* it was only read */
    return sum;
}

struct watch_print watch_look(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return (struct watch_print){ .is_there = false };
    return (struct watch_print){ .device = status.st_dev,
                                 .inode = status.st_ino,
                                 .size = (uint64_t)status.st_size,
                                 .modified_ns =
                                     status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec,
                                 .changed_ns =
                                     status.st_ctim.tv_sec * INT64_C(1000000000) + status.st_ctim.tv_nsec,
                                 .inside = S_ISDIR(status.st_mode) ? look_inside(path) : 0,
                                 .is_there = true };
}

bool watch_same(const struct watch_print *x, const struct watch_print *y)
{
    return x->is_there == y->is_there && x->device == y->device && x->inode == y->inode && x->size == y->size
           && x->modified_ns == y->modified_ns && x->changed_ns == y->changed_ns && x->inside == y->inside;
}

static void listen_inside(struct watch *watch);

static void on_look(uv_timer_t *timer)
{
    struct watch *watch = timer->data;
    struct watch_print now = watch_look(watch->path);
    bool is_settled = watch_same(&now, &watch->seen);
    watch->seen = now;
    if (!is_settled && ++watch->looks < WATCH_LOOKS_MAX)
        return;
    (void)uv_timer_stop(timer); /* always 0 */
    watch->reported = now;
    listen_inside(watch); /* the path may lead to another folder now */
    watch->changed(watch->context);
}

static void look_closely(struct watch *watch)
{
    if (uv_is_active((uv_handle_t *)&watch->timer))
        return;
    watch->looks = 0;
    watch->seen = watch_look(watch->path);
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

static void on_event_inside(uv_fs_event_t *events, const char *entry, int happened, int status)
{
    struct watch *watch = events->data;
    (void)entry;
    (void)happened;
    if (status == 0)
        look_closely(watch);
}

/* Where the path is a folder. Failing, or where it is none: the looks remain. */
static void listen_inside(struct watch *watch)
{
    struct stat status;
    (void)uv_fs_event_stop(&watch->inside); /* always 0 */
    if (stat(watch->path, &status) == 0 && S_ISDIR(status.st_mode))
        (void)uv_fs_event_start(&watch->inside, on_event_inside, watch->path, 0);
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
    if (result == 0)
        result = uv_fs_event_init(loop, &watch->inside);
    if (result != 0)
        return result;
    (void)uv_timer_init(loop, &watch->timer); /* cannot fail */
    watch->events.data = watch;
    watch->inside.data = watch;
    watch->reported = watch_look(path);
    watch->timer.data = watch;
    watch->is_on = true;
    result = split(watch) ? uv_fs_event_start(&watch->events, on_event, watch->folder, 0) : UV_ENAMETOOLONG;
    char quoted[LOG_QUOTED_MAX];
    if (result != 0)
        log_event(LOG_WARN, "not_listening", "folder=%s error=%s", log_quote(watch->folder, quoted),
                  uv_err_name(result));
    listen_inside(watch);
    return 0;
}

void watch_second(struct watch *watch)
{
    if (!watch->is_on)
        return;
    struct watch_print now = watch_look(watch->path);
    if (!watch_same(&now, &watch->reported))
        look_closely(watch);
}

void watch_stop(struct watch *watch)
{
    if (!watch->is_on)
        return;
    watch->is_on = false;
    uv_close((uv_handle_t *)&watch->events, NULL);
    uv_close((uv_handle_t *)&watch->inside, NULL);
    uv_close((uv_handle_t *)&watch->timer, NULL);
}
