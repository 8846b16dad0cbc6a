// SPDX-License-Identifier: Apache-2.0
/* grpc_health.c - messages of grpc.health.v1.Health, by the numbers of its health.proto; see grpc_health.h. */
#include "wire/grpc_health.h"

#include <assert.h>

#include "wire/protobuf.h"

/* HealthCheckRequest { 1 service } */
bool grpc_health_read(struct slice message, struct slice *service)
{
    struct protobuf from = protobuf_of(message);
    struct protobuf_field field;
    *service = SLICE("");
    while (protobuf_next(&from, &field)) {
        if (field.number != 1)
            continue;
        if (field.type != PROTOBUF_BYTES || !utf8_is_valid(field.bytes))
            return false;
        *service = field.bytes;
    }
    return !from.is_bad;
}

/* HealthCheckResponse { 1 status } */
void grpc_health_write(enum grpc_serving serving, struct text *out)
{
    size_t len = protobuf_number_len(serving);
    char *to = text_claim(out, len);
    if (to == NULL)
        return;
    (void)protobuf_put_number(to, 1, serving);
    out->len += len;
}

/* An entry of map<string, HealthCheckResponse>: { 1 key, 2 value } */
static size_t entry_len(const struct grpc_health *health)
{
    return protobuf_bytes_len(health->service.len) + protobuf_message_len(protobuf_number_len(health->serving));
}

/* HealthListResponse { 1 statuses } */
void grpc_health_list_write(const struct grpc_health *services, size_t count, struct text *out)
{
    size_t len = 0;
    assert(count <= GRPC_HEALTH_SERVICES_MAX);
    for (size_t i = 0; i < count; i++)
        len += protobuf_message_len(entry_len(&services[i]));
    char *to = text_claim(out, len);
    for (size_t i = 0; to != NULL && i < count; i++) {
        const struct grpc_health *health = &services[i];
        to = protobuf_put_message(to, 1, entry_len(health));
        to = protobuf_put_bytes(to, 1, health->service);
        to = protobuf_put_message(to, 2, protobuf_number_len(health->serving));
        to = protobuf_put_number(to, 1, health->serving);
    }
    out->len += to == NULL ? 0 : len;
}
