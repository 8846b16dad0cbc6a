// SPDX-License-Identifier: Apache-2.0
/* doors.c - which addresses to listen on, whether that is safe, and which worker gets a connection; see doors.h. */
#include "net/doors.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/log.h"

#define EXIT_WRONG 2
#define EXIT_UNABLE 3

/* The admin socket is for its owner alone. */
#define ADMIN_MODE 0600
#define ADMIN_FOLDER "/run/weir"
#define ADMIN_ADDRESS "unix:" ADMIN_FOLDER "/admin.sock"

/* ---- Opening --------------------------------------------------------------------------------------------- */

static void complain(const char *door, const char *address, int error, const char *why)
{
    const char *cure =
        error == -EADDRINUSE ? "; stop what listens there, or choose another address (0: any free port)" : "";
    (void)fprintf(stderr, "weir: cannot listen for %s on '%s': %s%s\n", door, address,
                  why != NULL ? why : uv_strerror(error), cure); /* nowhere else to say it */
}

/* Whether nobody unknown can reach this listener. */
static bool is_guarded(const struct server *server, const struct listener *listener)
{
    return endpoint_is_local(&listener->address) || server->tokens != NULL || door_tls_knows_peers(&server->tls)
           || server->options->is_insecure;
}

static int open_door(struct doors *doors, const char *door, const char *address, struct listener *listener)
{
    const char *why;
    int result = listener_open(listener, address, (mode_t)doors->server->socket_mode, &why);
    if (result != 0) {
        complain(door, address, result, why);
        return result == -EINVAL && why != NULL ? EXIT_WRONG : EXIT_UNABLE;
    }
    if (is_guarded(doors->server, listener))
        return 0;
    (void)fprintf(
        stderr,
        "weir: '%s' can be reached from other machines, and whoever reaches it could spend every budget; "
        "give --tokens FILE or --tls-client-ca FILE, listen on loopback, or say --insecure\n",
        address);
    return -EXIT_WRONG;
}

/* The listeners of one door, *opened of them. Options win over the contract. */
static int open_all(struct doors *doors, const char *door, const char *const *addresses, size_t count,
                    struct listener *listeners, size_t *opened)
{
    struct inherited_addresses all;
    int status = inherit_addresses(&doors->inherited, door, addresses, count, &all);
    for (size_t i = 0; status == 0 && i < all.count; i++) {
        status = open_door(doors, door, all.at[i], &listeners[i]);
        *opened += status <= 0; /* also one that is open and may not be */
    }
    return status < 0 ? -status : status;
}

/* Whether a service manager opened a socket for any door, so that none is missing. */
static bool has_inherited_door(const struct doors *doors)
{
    const struct inherited *inherited = &doors->inherited;
    return inherit_has(inherited, "http") || inherit_has(inherited, "resp") || inherit_has(inherited, "grpc");
}

/* Without any door: HTTP on loopback. */
static int open_doors(struct doors *doors)
{
    const struct server_options *options = doors->server->options;
    const struct weir_contract_server *settings = doors->server->settings;
    static const char *const usual[] = { "8080" };
    const char *const *http = options->http_count > 0 ? options->http : settings->http;
    const char *const *resp = options->resp_count > 0 ? options->resp : settings->resp;
    size_t http_count = options->http_count > 0 ? options->http_count : settings->http_count;
    size_t resp_count = options->resp_count > 0 ? options->resp_count : settings->resp_count;
    const char *const *grpc = options->grpc_count > 0 ? options->grpc : settings->grpc;
    size_t grpc_count = options->grpc_count > 0 ? options->grpc_count : settings->grpc_count;
    if (http_count + resp_count + grpc_count == 0 && !has_inherited_door(doors)) {
        http = usual;
        http_count = 1;
    }
    int status = open_all(doors, "http", http, http_count, doors->http, &doors->http_count);
    if (status == 0)
        status = open_all(doors, "resp", resp, resp_count, doors->resp, &doors->resp_count);
    return status != 0 ? status : open_all(doors, "grpc", grpc, grpc_count, doors->grpc, &doors->grpc_count);
}

/* One try; a failure is only worth a warning, because the doors work without. */
static bool open_admin_at(struct doors *doors, const char *address, bool is_last)
{
    char quoted[LOG_QUOTED_MAX];
    char said[LOG_QUOTED_MAX];
    const char *why;
    int result = listener_open(&doors->admin, address, ADMIN_MODE, &why);
    if (result == 0) {
        doors->has_admin = true;
        return true;
    }
    if (is_last || result == -EADDRINUSE)
        log_event(LOG_WARN, "admin_unavailable", "addr=%s reason=%s cure=%s", log_quote(address, quoted),
                  log_quote(why != NULL ? why : uv_strerror(result), said),
                  "\"--admin unix:PATH for another place; a second server on one machine needs its own\"");
    return result == -EADDRINUSE;
}

static void open_usual_admin(struct doors *doors)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    char address[sizeof((struct sockaddr_un){ 0 }.sun_path) + 16];
    int len = snprintf(address, sizeof address, "unix:%s/weir-admin.sock", folder == NULL ? "" : folder);
    bool has_other = folder != NULL && folder[0] == '/' && (size_t)len < sizeof address;
    (void)mkdir(ADMIN_FOLDER, 0755); /* failing: it exists, or the next line fails as well */
    if (!open_admin_at(doors, ADMIN_ADDRESS, !has_other) && has_other)
        (void)open_admin_at(doors, address, true);
}

/*
 * A socket that was passed must be usable, for nobody else accepts there; and closed to others, since who reaches it is an
 * operator.
 */
static int open_inherited_admin(struct doors *doors, const char *address)
{
    const char *why = NULL;
    struct stat status;
    int result = listener_open(&doors->admin, address, ADMIN_MODE, &why);
    if (result != 0) {
        complain("admin", address, result, why);
        return EXIT_UNABLE;
    }
    doors->has_admin = true;
    const struct endpoint *bound = &doors->admin.address;
    bool is_open = bound->socket.any.sa_family == AF_UNIX && stat(bound->socket.local.sun_path, &status) == 0
                   && (status.st_mode & S_IWOTH) != 0;
    if (!is_open || doors->server->options->is_insecure)
        return 0;
    (void)fprintf(stderr,
                  "weir: everybody on this machine could use the admin socket %s; write SocketMode=0600 in its "
                  "unit, or say --insecure\n",
                  doors->admin.name);
    return EXIT_WRONG;
}

/* An address that was asked for. */
static int open_admin_by(struct doors *doors, const char *address)
{
    struct endpoint endpoint;
    const char *why;
    if (strncmp(address, "fd:", 3) == 0)
        return open_inherited_admin(doors, address);
    if (!endpoint_parse(address, &endpoint, &why)) {
        complain("admin", address, -EINVAL, why);
        return EXIT_WRONG;
    }
    (void)open_admin_at(doors, address, true); /* busy or unwritable: a warning says it */
    return 0;
}

static int open_admin(struct doors *doors)
{
    const struct server *server = doors->server;
    const char *address = server->options->admin != NULL ? server->options->admin : server->settings->admin;
    struct inherited_addresses all;
    int status = inherit_addresses(&doors->inherited, "admin", &address, address != NULL, &all);
    if (status == 0 && all.count > 1) {
        (void)fprintf(stderr, "weir: %zu sockets were passed for admin; one is all it takes\n", all.count);
        return EXIT_WRONG;
    }
    if (status != 0)
        return status;
    if (all.count == 0)
        open_usual_admin(doors);
    else
        status = open_admin_by(doors, all.at[0]);
    if (status != 0 || !doors->has_admin || endpoint_is_local(&doors->admin.address)
        || server->options->is_insecure)
        return status;
    (void)fprintf(
        stderr,
        "weir: the admin address '%s' can be reached from other machines and asks for no token; use a "
        "Unix socket or loopback, or say --insecure\n",
        all.at[0]);
    return EXIT_WRONG;
}

int doors_open(struct doors *doors, struct server *server)
{
    *doors = (struct doors){ .server = server };
    int status = inherit_take(&doors->inherited);
    if (status == 0)
        status = open_doors(doors);
    if (status == 0)
        status = open_admin(doors);
    if (status == 0)
        status = inherit_check_used(&doors->inherited);
    inherit_free(&doors->inherited);
    if (status != 0)
        doors_close(doors);
    return status;
}

void doors_close(struct doors *doors)
{
    for (size_t i = 0; i < doors->http_count; i++)
        listener_close(&doors->http[i]);
    for (size_t i = 0; i < doors->resp_count; i++)
        listener_close(&doors->resp[i]);
    for (size_t i = 0; i < doors->grpc_count; i++)
        listener_close(&doors->grpc[i]);
    if (doors->has_admin)
        listener_close(&doors->admin);
}

/* ---- Accepting ------------------------------------------------------------------------------------------- */

static size_t load_of(const struct worker *worker)
{
    return __atomic_load_n(&worker->load, __ATOMIC_RELAXED);
}

static struct worker *least_loaded(struct server *server)
{
    struct worker *best = &server->workers[0];
    for (unsigned i = 1; i < server->worker_count; i++)
        if (load_of(&server->workers[i]) < load_of(best))
            best = &server->workers[i];
    return best;
}

/* Those who come now wait in the kernel's queue. */
static void tell_full(struct server *server)
{
    counter_add(&server->accept_pauses, 1);
    log_event(LOG_WARN, "connections_full", "most=%zu", server->conns_max);
}

static bool has_room(const struct listener *listener)
{
    const struct doors *doors = listener->context;
    size_t total = 0;
    for (unsigned i = 0; i < doors->server->worker_count; i++)
        total += load_of(&doors->server->workers[i]);
    if (total >= doors->server->conns_max)
        tell_full(doors->server);
    return total < doors->server->conns_max;
}

static bool is_listed(const struct weir_contract_server *settings, uint32_t uid)
{
    if (!settings->has_uids)
        return uid == 0 || uid == getuid();
    for (size_t i = 0; i < settings->uid_count; i++)
        if (settings->uids[i] == uid)
            return true;
    return false;
}

/* What a peer may do without a token. */
static enum role role_of(const struct doors *doors, const struct listener *listener, const struct peer *peer)
{
    if (listener == &doors->admin)
        return ROLE_ADMIN;
    bool is_known = !peer->is_unix && door_tls_knows_peers(&doors->server->tls);
    if (doors->server->tokens == NULL || is_known)
        return ROLE_CHECK;
    return peer->is_unix && is_listed(doors->server->settings, peer->uid) ? ROLE_CHECK : ROLE_NONE;
}

/* What is spoken behind a listener. */
static enum gate gate_of(const struct doors *doors, const struct listener *listener)
{
    if (listener == &doors->admin)
        return GATE_ADMIN;
    if (listener >= doors->resp && listener < doors->resp + doors->resp_count)
        return GATE_RESP;
    if (listener >= doors->grpc && listener < doors->grpc + doors->grpc_count)
        return GATE_GRPC;
    return GATE_HTTP;
}

static const struct protocol *protocol_by(enum gate gate)
{
    return gate == GATE_RESP ? &protocol_resp : gate == GATE_GRPC ? &protocol_grpc : &protocol_http;
}

/* Whether connections of proxies begin with a PROXY header there. */
static bool has_proxy(const struct doors *doors, const struct listener *listener,
                      const struct protocol *protocol)
{
    unsigned door = protocol == &protocol_resp   ? WEIR_DOOR_RESP
                    : protocol == &protocol_grpc ? WEIR_DOOR_GRPC
                                                 : WEIR_DOOR_HTTP;
    return listener != &doors->admin && (doors->server->proxy_doors & door) != 0;
}

static void on_accepted(struct listener *listener, int fd)
{
    struct doors *doors = listener->context;
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL || !peer_of(fd, &conn->peer)) {
        free(conn);
        (void)close(fd);
        return;
    }
    conn->fd = fd;
    conn->id = ++doors->accepted;
    conn->gate = gate_of(doors, listener);
    conn->protocol = protocol_by(conn->gate);
    counter_add(&doors->server->accepted[conn->gate], 1);
    conn->resp_version = RESP2;
    conn->has_proxy_door = has_proxy(doors, listener, conn->protocol);
    conn->has_tls = !conn->peer.is_unix && doors->server->tls.context != NULL;
    conn->first_role = role_of(doors, listener, &conn->peer);
    conn->role = conn->first_role;
    worker_give(least_loaded(doors->server), conn);
}

static int start(struct doors *doors, struct listener *listener, const char *door, uv_loop_t *loop)
{
    int result = listener_start(listener, loop, on_accepted, has_room, doors);
    if (result != 0) {
        complain(door, listener->name, result, NULL);
        return EXIT_UNABLE;
    }
    char quoted[LOG_QUOTED_MAX];
    if (log_form_now() != LOG_JSON)                                       /* there every line is an object */
        (void)fprintf(stderr, "listening %s %s\n", door, listener->name); /* a lost line stops nobody */
    log_event(LOG_INFO, "listening", "door=%s addr=%s", door, log_quote(listener->name, quoted));
    notify_door(&((struct doors *)listener->context)->server->notify, door, listener->name);
    return 0;
}

int doors_start(struct doors *doors, uv_loop_t *loop)
{
    int status = doors->has_admin ? start(doors, &doors->admin, "admin", loop) : 0;
    for (size_t i = 0; status == 0 && i < doors->http_count; i++)
        status = start(doors, &doors->http[i], "http", loop);
    for (size_t i = 0; status == 0 && i < doors->resp_count; i++)
        status = start(doors, &doors->resp[i], "resp", loop);
    for (size_t i = 0; status == 0 && i < doors->grpc_count; i++)
        status = start(doors, &doors->grpc[i], "grpc", loop);
    return status;
}

void doors_stop(struct doors *doors)
{
    for (size_t i = 0; i < doors->http_count; i++)
        listener_stop(&doors->http[i]);
    for (size_t i = 0; i < doors->resp_count; i++)
        listener_stop(&doors->resp[i]);
    for (size_t i = 0; i < doors->grpc_count; i++)
        listener_stop(&doors->grpc[i]);
    if (doors->has_admin)
        listener_stop(&doors->admin);
}
