// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_health.c - grpc.health.v1.Health: whether this server wants more work, as readyz says: not while it drains.
 *
 * All its services fare alike. The names are those that proxies probe; a store that is away takes nobody out of service, as its
 * limits answer by their policies.
 */
#include "wire/grpc_health.h"
#include "net/grpc.h"
#include "net/worker.h"

static const char *const services[] = { "", "envoy.service.ratelimit.v3.RateLimitService", "ratelimit" };

#define SERVICE_COUNT (sizeof services / sizeof *services)

static enum grpc_serving serving_now(const struct conn *conn)
{
    return __atomic_load_n(&conn->worker->server->is_draining, __ATOMIC_RELAXED) ? GRPC_NOT_SERVING
                                                                                 : GRPC_SERVING;
}

static bool is_known(struct slice service)
{
    for (size_t i = 0; i < SERVICE_COUNT; i++)
        if (slice_equals(service, slice_of(services[i])))
            return true;
    return false;
}

/* What the message asks for; false: it was answered that it is none. */
static bool read_service(struct grpc_call *call, struct slice message, bool *known)
{
    struct slice service;
    if (!grpc_health_read(message, &service)) {
        grpc_deny(call, GRPC_INVALID_ARGUMENT, SLICE("not a HealthCheckRequest"));
        return false;
    }
    *known = is_known(service);
    return true;
}

void grpc_health_check(struct grpc_call *call, struct slice message)
{
    char space[16];
    struct text out = text_of(space, sizeof space);
    bool known;
    if (!read_service(call, message, &known))
        return;
    if (!known) {
        grpc_deny(call, GRPC_NOT_FOUND, SLICE("there is no such service"));
        return;
    }
    grpc_count(call, 200);
    grpc_health_write(serving_now(call->conn), &out);
    grpc_reply(call, text_slice(&out));
}

static void tell(struct grpc_call *call, enum grpc_serving serving)
{
    char space[16];
    struct text out = text_of(space, sizeof space);
    call->watched = (uint8_t)serving;
    grpc_health_write(serving, &out);
    grpc_send(call, text_slice(&out));
}

void grpc_health_watch(struct grpc_call *call, struct slice message)
{
    bool known;
    if (!read_service(call, message, &known))
        return;
    grpc_count(call, 200);
    call->is_watching = known;
    tell(call, known ? serving_now(call->conn) : GRPC_SERVICE_UNKNOWN);
}

void grpc_health_tell(struct conn *conn)
{
    enum grpc_serving serving = serving_now(conn);
    for (struct grpc_call *call = conn->grpc->calls; call != NULL && !conn->is_gone; call = call->next)
        if (call->is_watching && call->watched != serving)
            tell(call, serving);
}

void grpc_health_list(struct grpc_call *call, struct slice message)
{
    char space[256];
    struct text out = text_of(space, sizeof space);
    struct grpc_health each[SERVICE_COUNT];
    (void)message; /* it says nothing */
    for (size_t i = 0; i < SERVICE_COUNT; i++)
        each[i] = (struct grpc_health){ slice_of(services[i]), serving_now(call->conn) };
    grpc_health_list_write(each, SERVICE_COUNT, &out);
    grpc_count(call, 200);
    grpc_reply(call, text_slice(&out));
}
