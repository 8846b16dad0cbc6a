// SPDX-License-Identifier: Apache-2.0
/* grpc_health.c - messages of grpc.health.v1.Health by protobuf-c; see grpc_health.h. */
#include "wire/grpc_health.h"

#include <assert.h>

#include "wire/grpc_arena.h"
#include "wire/proto/health.pb-c.h"

bool grpc_health_read(struct slice message, char *room, size_t room_len, struct slice *service)
{
    struct grpc_arena arena = grpc_arena_of(room, room_len);
    ProtobufCAllocator allocator = grpc_arena_allocator(&arena);
    const Health__Check *check = health__check__unpack(&allocator, message.len, (const uint8_t *)message.at);
    if (check == NULL)
        return false;
    *service = (struct slice){ (const char *)check->service.data, check->service.len };
    return utf8_is_valid(*service);
}

void grpc_health_write(enum grpc_serving serving, struct text *out)
{
    Health__Status status = HEALTH__STATUS__INIT;
    status.status = (int32_t)serving;
    char *to = text_claim(out, health__status__get_packed_size(&status));
    if (to != NULL)
        out->len += health__status__pack(&status, (uint8_t *)to);
}

void grpc_health_list_write(const struct grpc_health *services, size_t count, struct text *out)
{
    Health__Named names[GRPC_HEALTH_SERVICES_MAX], *pointers[GRPC_HEALTH_SERVICES_MAX];
    Health__Status statuses[GRPC_HEALTH_SERVICES_MAX];
    Health__List list = HEALTH__LIST__INIT;
    assert(count <= GRPC_HEALTH_SERVICES_MAX);
    for (size_t i = 0; i < count; i++) {
        health__status__init(&statuses[i]);
        health__named__init(&names[i]);
        statuses[i].status = (int32_t)services[i].serving;
        names[i].key = (ProtobufCBinaryData){ services[i].service.len, (uint8_t *)services[i].service.at };
        names[i].value = &statuses[i];
        pointers[i] = &names[i];
    }
    list.n_statuses = count;
    list.statuses = pointers;
    char *to = text_claim(out, health__list__get_packed_size(&list));
    if (to != NULL)
        out->len += health__list__pack(&list, (uint8_t *)to);
}
