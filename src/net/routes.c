// SPDX-License-Identifier: Apache-2.0
/*
 * routes.c - the paths of the HTTP door, who may call them, and what is wrong with a call that none serves.
 *
 * Idea: a path is one row. What a head asks for is decided before its body is read, so nobody without a token makes
 * us read a megabyte.
 *
 * At the auth doors `Authorization` is the original client's and is never read as ours; a proxy that wants to be
 * known sends `Weir-Token` (auth.c).
 */
#include "net/worker.h"

enum methods { METHOD_GET, METHOD_POST, METHOD_ANY };

struct route {
    struct slice path;
    bool has_rest; /* also everything below it */
    enum methods methods;
    bool takes_body;
    enum role needs;
    enum door door;
    void (*handle)(struct request *request);
};

#define PATH(literal) \
    { \
        literal, sizeof(literal) - 1 \
    }

/* clang-format off */
static const struct route routes[] = {
    { PATH("/v1/auth-nginx"), true,  METHOD_ANY,  false, ROLE_NONE,  DOOR_AUTH_NGINX, handle_auth },
    { PATH("/v1/auth-accel"), true,  METHOD_ANY,  false, ROLE_NONE,  DOOR_AUTH_ACCEL, handle_auth },
    { PATH("/v1/auth"),       true,  METHOD_ANY,  false, ROLE_NONE,  DOOR_AUTH,       handle_auth },
    { PATH("/v1/check"),      false, METHOD_POST, true,  ROLE_CHECK, DOOR_CHECK,      handle_check },
    { PATH("/v1/reserve"),    false, METHOD_POST, true,  ROLE_CHECK, DOOR_RESERVE,    handle_reserve },
    { PATH("/v1/acquire"),    false, METHOD_POST, true,  ROLE_CHECK, DOOR_ACQUIRE,    handle_acquire },
    { PATH("/v1/renew"),      false, METHOD_POST, true,  ROLE_CHECK, DOOR_RENEW,      handle_renew },
    { PATH("/v1/release"),    false, METHOD_POST, true,  ROLE_CHECK, DOOR_RELEASE,    handle_release },
    { PATH("/v1/settle"),     false, METHOD_POST, true,  ROLE_CHECK, DOOR_SETTLE,     handle_settle },
    { PATH("/v1/cancel"),     false, METHOD_POST, true,  ROLE_CHECK, DOOR_CANCEL,     handle_cancel },
    { PATH("/v1/refund"),     false, METHOD_POST, true,  ROLE_CHECK, DOOR_REFUND,     handle_refund },
    { PATH("/v1/reset"),      false, METHOD_POST, true,  ROLE_ADMIN, DOOR_RESET,      handle_reset },
    { PATH("/v1/reload"),     false, METHOD_POST, false, ROLE_ADMIN, DOOR_RELOAD,     handle_reload },
    { PATH("/v1/limits"),     false, METHOD_GET,  false, ROLE_CHECK, DOOR_LIMITS,     handle_limits },
    { PATH("/healthz"),       false, METHOD_GET,  false, ROLE_NONE,  DOOR_HEALTHZ,    handle_healthz },
    { PATH("/readyz"),        false, METHOD_GET,  false, ROLE_NONE,  DOOR_READYZ,     handle_readyz },
    { PATH("/metrics"),       false, METHOD_GET,  false, ROLE_NONE,  DOOR_METRICS,    handle_metrics },
    { PATH("/json"),          false, METHOD_ANY,  true,  ROLE_CHECK, DOOR_JSON,       handle_json },
    { PATH("/healthcheck"),   false, METHOD_ANY,  false, ROLE_NONE,  DOOR_HEALTHCHECK, handle_healthcheck },
};
/* clang-format on */

/* Whether `target` (path and query) is the route's; *rest is what stands behind its path. */
static bool matches(const struct route *route, struct slice target, struct slice *rest)
{
    size_t len = route->path.len;
    if (target.len < len || memcmp(target.at, route->path.at, len) != 0)
        return false;
    *rest = (struct slice){ target.at + len, target.len - len };
    return rest->len == 0 || rest->at[0] == '?' || (route->has_rest && rest->at[0] == '/');
}

/* Some are there in the place of envoyproxy/ratelimit alone. */
static bool is_there(const struct server *server, const struct route *route)
{
    bool is_foreign = route->door == DOOR_JSON || route->door == DOOR_HEALTHCHECK;
    return !is_foreign || server->options->ratelimit != NULL;
}

static const struct route *find(const struct server *server, struct slice target, struct slice *rest)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (matches(&routes[i], target, rest) && is_there(server, &routes[i]))
            return &routes[i];
    return NULL;
}

static bool allows(const struct route *route, struct slice method)
{
    switch (route->methods) {
    case METHOD_GET:
        return slice_equals(method, SLICE("GET")) || slice_equals(method, SLICE("HEAD"));
    case METHOD_POST:
        return slice_equals(method, SLICE("POST"));
    default:
        return true;
    }
}

static struct slice allow_line(const struct route *route)
{
    return route->methods == METHOD_GET ? SLICE("Allow: GET, HEAD\r\n") : SLICE("Allow: POST\r\n");
}

/* The secret of `Authorization: Bearer SECRET`; empty when there is none. */
static struct slice bearer(const struct http1_head *head)
{
    size_t count;
    const struct weir_field *field = http1_field(head, SLICE("authorization"), &count);
    struct slice scheme = SLICE("bearer ");
    if (count != 1 || field->value_len <= scheme.len
        || !slice_equals_fold((struct slice){ field->value, scheme.len }, scheme))
        return SLICE("");
    struct slice secret = { field->value + scheme.len, field->value_len - scheme.len };
    while (secret.len > 0 && secret.at[0] == ' ') {
        secret.at++;
        secret.len--;
    }
    return secret;
}

static void fault(struct plan *plan, unsigned status, const char *detail, struct slice extra)
{
    plan->route = NULL;
    plan->wants_body = false;
    plan->status = status;
    plan->detail = detail;
    plan->extra = extra;
}

/* Whether the caller may; else the plan says why not. */
static void check_role(const struct conn *conn, const struct http1_head *head, struct plan *plan)
{
    enum role needs = plan->route->needs;
    if (conn->role >= needs)
        return;
    const struct tokens *tokens = conn->worker->server->tokens;
    struct slice secret = bearer(head);
    enum role role = tokens == NULL ? ROLE_NONE : tokens_role(tokens, secret);
    if (role >= needs)
        return;
    bool is_believed = conn->role != ROLE_NONE && secret.len == 0; /* for less than this call */
    if (role == ROLE_NONE && !is_believed)
        fault(plan, 401,
              secret.len == 0 ? "this call needs a token: send `Authorization: Bearer SECRET`"
                              : "this token is not known here",
              SLICE("WWW-Authenticate: Bearer\r\n"));
    else
        fault(plan, 403, "this call needs an admin token, or the admin socket", SLICE(""));
}

void route_plan(const struct conn *conn, const struct http1_head *head, struct plan *out)
{
    *out = (struct plan){ .door = DOOR_NONE };
    const struct route *route = find(conn->worker->server, head->origin, &out->rest);
    if (route == NULL) {
        fault(out, 404, "there is no such path", SLICE(""));
        return;
    }
    out->route = route;
    out->door = route->door;
    out->wants_body = route->takes_body;
    if (!allows(route, head->method))
        fault(out, 405, "this path does not serve this method", allow_line(route));
    else
        check_role(conn, head, out);
}

bool wants_200(const struct request *request)
{
    struct slice value;
    return request->head != NULL && http1_query(request->head->query, SLICE("status"), &value)
           && slice_equals(value, SLICE("200"));
}

void route_handle(const struct plan *plan, struct request *request)
{
    plan->route->handle(request);
}
