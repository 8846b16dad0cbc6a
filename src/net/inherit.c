// SPDX-License-Identifier: Apache-2.0
/* inherit.c - LISTEN_FDS by hand: three variables, and descriptors from 3 on; see inherit.h. */
#include "net/inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"

#define EXIT_WRONG 2

/* Where a service manager's descriptors begin. */
#define FIRST_FD 3

/* What systemd calls a socket when nothing names it. */
#define NO_NAME "unknown"

/* ---- What is there -------------------------------------------------------------------------------------------------- */

/* Why nobody can accept from it; NULL: one can. */
static const char *problem_of(int fd)
{
    int type = 0, family = 0, accepts = 0;
    socklen_t len = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0)
        return errno == ENOTSOCK ? "it is no socket" : strerror(errno);
    len = sizeof family;
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len); /* these two answer where the first did */
    len = sizeof accepts;
    (void)getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len);
    if (type != SOCK_STREAM)
        return "it is no stream socket; write ListenStream= in its unit";
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        return "it is of a family that no door speaks; give it a TCP address or the path of a Unix socket";
    if (!accepts)
        return "it does not listen; write Accept=no in its unit";
    return NULL;
}

/* The number in a variable, 0 where it is unset or no number. */
static uint64_t number_of(const char *variable)
{
    uint64_t number;
    const char *text = getenv(variable);
    return text != NULL && slice_to_u64(slice_of(text), UINT32_MAX, &number) ? number : 0;
}

static int refuse(const struct inherited_socket *socket, const char *why)
{
    (void)fprintf(stderr, "weir: descriptor %d, passed as '%.200s', cannot be a door: %s\n", socket->fd,
                  socket->name, why); /* nowhere else to say it */
    return EXIT_WRONG;
}

/* The names, cut apart in place. Fewer or more than descriptors: then nobody can say which is which. */
static int take_names(struct inherited *inherited)
{
    char *rest = inherited->names;
    size_t i = 0;
    for (; rest != NULL && i < inherited->count; i++)
        inherited->at[i].name = strsep(&rest, ":");
    if (i == inherited->count && rest == NULL)
        return 0;
    (void)fprintf(stderr,
                  "weir: LISTEN_FDS says %zu sockets, and LISTEN_FDNAMES names another number of them\n",
                  inherited->count);
    return EXIT_WRONG;
}

static int take_sockets(struct inherited *inherited, uint64_t count, const char *names)
{
    if (count > INHERITED_MAX) {
        (void)fprintf(stderr, "weir: LISTEN_FDS is %llu; at most %d sockets can be passed\n",
                      (unsigned long long)count, INHERITED_MAX);
        return EXIT_WRONG;
    }
    inherited->count = (size_t)count;
    for (size_t i = 0; i < inherited->count; i++)
        inherited->at[i] = (struct inherited_socket){ .fd = FIRST_FD + (int)i, .name = NO_NAME };
    inherited->names = names == NULL ? NULL : strdup(names);
    int status = inherited->names == NULL ? 0 : take_names(inherited);
    for (size_t i = 0; status == 0 && i < inherited->count; i++) {
        const struct inherited_socket *socket = &inherited->at[i];
        const char *why = problem_of(socket->fd);
        if (why == NULL && fcntl(socket->fd, F_SETFD, FD_CLOEXEC) != 0)
            why = strerror(errno);
        status = why == NULL ? 0 : refuse(socket, why);
    }
    return status;
}

int inherit_take(struct inherited *inherited)
{
    *inherited = (struct inherited){ .count = 0 };
    bool is_for_us = number_of("LISTEN_PID") == (uint64_t)getpid();
    int status = is_for_us ? take_sockets(inherited, number_of("LISTEN_FDS"), getenv("LISTEN_FDNAMES")) : 0;
    (void)unsetenv("LISTEN_PID"); /* these three cannot fail with these names */
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return status;
}

void inherit_free(struct inherited *inherited)
{
    free(inherited->names);
    inherited->names = NULL;
    inherited->count = 0;
}

/* ---- Who uses it ------------------------------------------------------------------------------------------------------ */

bool inherit_has(const struct inherited *inherited, const char *name)
{
    for (size_t i = 0; i < inherited->count; i++)
        if (strcmp(inherited->at[i].name, name) == 0)
            return true;
    return false;
}

/* Add every descriptor of that name. False: there is no more room. */
static bool add_named(struct inherited *inherited, const char *name, struct inherited_addresses *out)
{
    for (size_t i = 0; i < inherited->count; i++) {
        struct inherited_socket *socket = &inherited->at[i];
        if (strcmp(socket->name, name) != 0)
            continue;
        if (out->count == SERVER_ADDRESSES_MAX)
            return false;
        char *text = out->texts[out->count];
        (void)snprintf(text, sizeof out->texts[0], "fd:%d", socket->fd);
        out->at[out->count++] = text;
        socket->is_used = true;
    }
    return true;
}

/* An address that names a descriptor: by its number, and then it may be one of these, or by its name. */
static bool add(struct inherited *inherited, const char *address, struct inherited_addresses *out)
{
    uint64_t fd;
    bool is_fd = strncmp(address, "fd:", 3) == 0;
    bool is_number = is_fd && slice_to_u64(slice_of(address + 3), INT32_MAX, &fd);
    if (is_fd && !is_number)
        return add_named(inherited, address + 3, out);
    for (size_t i = 0; is_number && i < inherited->count; i++)
        if ((uint64_t)inherited->at[i].fd == fd)
            inherited->at[i].is_used = true;
    if (out->count == SERVER_ADDRESSES_MAX)
        return false;
    out->at[out->count++] = address;
    return true;
}

int inherit_addresses(struct inherited *inherited, const char *door, const char *const *addresses, size_t count,
                      struct inherited_addresses *out)
{
    out->count = 0;
    bool has_room = count > 0 || add_named(inherited, door, out);
    for (size_t i = 0; has_room && i < count; i++) {
        size_t before = out->count;
        has_room = add(inherited, addresses[i], out);
        if (!has_room || out->count > before)
            continue;
        (void)fprintf(stderr,
                      "weir: cannot listen for %s on '%.200s': no socket of this name was passed; write "
                      "FileDescriptorName=%.200s in its unit, or fd:N for a descriptor by its number\n",
                      door, addresses[i], addresses[i] + 3);
        return EXIT_WRONG;
    }
    if (has_room)
        return 0;
    (void)fprintf(stderr, "weir: more than %d addresses for %s\n", SERVER_ADDRESSES_MAX, door);
    return EXIT_WRONG;
}

int inherit_check_used(const struct inherited *inherited)
{
    for (size_t i = 0; i < inherited->count; i++) {
        const struct inherited_socket *socket = &inherited->at[i];
        if (socket->is_used)
            continue;
        (void)fprintf(
            stderr,
            "weir: the socket '%.200s' (descriptor %d) was passed and no door uses it, so whoever connects "
            "to it would wait for ever; write FileDescriptorName=http, resp, grpc or admin in its unit "
            "and give that door no other address, or name it: --http fd:%d\n",
            socket->name, socket->fd, socket->fd);
        return EXIT_WRONG;
    }
    return 0;
}
