// SPDX-License-Identifier: Apache-2.0
/*
 * grpc_health.h - messages of grpc.health.v1.Health.
 *
 * Elsewhere: which services there are and how they fare (net/).
 */
#ifndef WEIR_WIRE_GRPC_HEALTH_H
#define WEIR_WIRE_GRPC_HEALTH_H

#include "base/bytes.h"
#include "wire/text.h"

/* Most services of a list: the protocol's own bound. */
#define GRPC_HEALTH_SERVICES_MAX 100

enum grpc_serving {
    GRPC_SERVING_UNKNOWN,
    GRPC_SERVING,
    GRPC_NOT_SERVING,
    GRPC_SERVICE_UNKNOWN, /* Watch alone says this; Check answers NOT_FOUND */
};

struct grpc_health {
    struct slice service; /* empty: the whole server */
    enum grpc_serving serving;
};

/* The service that Check or Watch asks for, in the message; false: not such a message. */
bool grpc_health_read(struct slice message, struct slice *service);

/* An answer of Check or Watch. */
void grpc_health_write(enum grpc_serving serving, struct text *out);

/* An answer of List, whose request says nothing. At most GRPC_HEALTH_SERVICES_MAX. */
void grpc_health_list_write(const struct grpc_health *services, size_t count, struct text *out);

#endif
