// SPDX-License-Identifier: Apache-2.0
/*
 * watch.h - says when a file has changed, however it was changed, at most two seconds later.
 *
 * Idea: a file may be rewritten in place, replaced by a rename, or reached through a symbolic link that is
 * swapped, as Kubernetes does with `..data`. So we listen to the folder (inotify), which sees all of these
 * within it, and once a second look at what the path leads to, which sees the rest. Whoever writes may not be
 * done: we wait until two looks a tenth of a second apart agree, or half a second has passed.
 *
 * The path may be a folder of files: then what each of them is counts as well, but for those whose names begin with a dot.
 */
#ifndef WEIR_NET_WATCH_H
#define WEIR_NET_WATCH_H

#include <stdbool.h>
#include <uv.h>

/* Time between two looks at a file that changes, and most looks before it is reported all the same. */
#define WATCH_LOOK_MS 100
#define WATCH_LOOKS_MAX 5

/* What tells one state of a file from another. */
struct watch_print {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns;
    uint64_t inside; /* of a folder: a sum of its files' */
    bool is_there;
};

struct watch {
    const char *path; /* borrowed */
    void (*changed)(void *context);
    void *context;
    bool is_on;
    char folder[4096];
    const char *name;        /* in path, behind the folder */
    struct watch_print seen; /* at the last look */
    struct watch_print reported;
    unsigned looks;
    uv_fs_event_t events, inside; /* of the folder that the path is in, and of the one that it is */
    uv_timer_t timer;
};

/* What the path leads to now, and whether that is the same as before. */
struct watch_print watch_look(const char *path);
bool watch_same(const struct watch_print *x, const struct watch_print *y);

/* Begin; `changed` is called on the loop. Where the folder cannot be listened to, the looks remain. */
int watch_start(struct watch *watch, uv_loop_t *loop, const char *path, void (*changed)(void *context),
                void *context);

/* Once a second. */
void watch_second(struct watch *watch);

void watch_stop(struct watch *watch);

#endif
