// SPDX-License-Identifier: Apache-2.0
/* request_copy.c - attributes, then their bytes, in one piece of memory; see request_copy.h. */
#include "net/request_copy.h"

#include <stdlib.h>
#include <string.h>

/* A length of 0 says that the value is a C string. */
static size_t value_len(const struct weir_attribute *attribute)
{
    return attribute->value == NULL ? 0 : attribute->len > 0 ? attribute->len : strlen(attribute->value);
}

static char *copy(char *to, const char *from, size_t len)
{
    if (len > 0)
        memcpy(to, from, len);
    to[len] = '\0';
    return to;
}

struct request_copy *request_copy_new(const struct weir_request *request)
{
    size_t count = request->attribute_count, size = sizeof(struct request_copy);
    size += count * sizeof(struct weir_attribute);
    for (size_t i = 0; i < count; i++)
        size += strlen(request->attributes[i].name) + 1 + value_len(&request->attributes[i]) + 1;
    struct request_copy *made = malloc(size);
    if (made == NULL)
        return NULL;
    made->request = *request;
    made->request.attributes = made->attributes;
    made->size = size;
    char *at = (char *)(made->attributes + count);
    for (size_t i = 0; i < count; i++) {
        const struct weir_attribute *from = &request->attributes[i];
        size_t name = strlen(from->name), value = value_len(from);
        made->attributes[i] = (struct weir_attribute){ .name = copy(at, from->name, name), .len = value };
        at += name + 1;
        made->attributes[i].value = copy(at, from->value, value);
        at += value + 1;
    }
    return made;
}
